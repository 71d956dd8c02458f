# file.gp - finds `file`. Leaves its name, as a word of the shell, in `data`, and in `lines` a
# command that prints it, decompressed if the name ends in .gz or .zst. What cannot be decompressed
# to its end ends in a line that no reader takes.
word = file; load here."quote.gp"
data = word
if (system("test -r ".data." && test ! -d ".data." && echo ok") ne "ok") {
    printerr file.": no such file, or it cannot be read"; exit status 2
}
unpack = strlen(file) > 3 && file[strlen(file) - 2:*] eq ".gz" ? "gzip -dc" : \
         strlen(file) > 4 && file[strlen(file) - 3:*] eq ".zst" ? "zstd -dcq" : "cat"
if (unpack eq "zstd -dcq" && system("command -v zstd") eq "") {
    printerr file.": zstd, which unpacks it, is not installed"; exit status 4
}
lines = "{ ".unpack." < ".data." || printf '\\n(damaged)\\n'; } 2> /dev/null"
