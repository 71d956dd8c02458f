# read.gp - reads the per-step table `file` as run `name`; table.awk says what is there afterwards.
# Leaves the file's name, as a word of the shell, in `data`.
word = file; load here."quote.gp"
if (system("test -r ".word." && test ! -d ".word." && echo ok") ne "ok") {
    printerr file.": no such file, or it cannot be read"; exit status 2
}
data = word
word = here."table.awk"; load here."quote.gp"
load "< LC_ALL=C awk -v name=".name." -f ".word." < ".data
if (bad ne "") { printerr file.": ".bad; exit status 2 }
