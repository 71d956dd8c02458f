# start.gp - what every chart begins with: are there as many files as its third line says?
#
# The chart sets `chart`, `count`, `word_of` (ARG0, ARGC, ARG1 ...) and `here`, the folder of the
# scripts. Sets `runs`, how many files there are, `given`, their names, `file`, the first of them,
# `out`, and `token`, the number before the files where the chart takes one; 0: there is none.
word = chart; load here."quote.gp"
takes = system("LC_ALL=C awk 'NR == 3 { sub(/^# *memtrace plot /, \"\"); n = NF; least = most = 0; \
    for (i = 2; i < n; i++) { \
        if ($i == \"[TOKEN]\") { token = 1; continue } \
        if ($i ~ /^\\[/) bracket = 1; \
        if (!bracket) least++; \
        if ($i ~ /^[0-9]+\\]$/) most = $i + 0; \
    } \
    print least, most ? most : least, token + 0, $0; exit }' ".word)
least = int(word(takes, 1)); most = int(word(takes, 2)); token = 0; first = 1
form = takes[strstrt(takes, word(takes, 4)):*]
digits = int(word(takes, 3)) && count > 1 ? strlen(word_of[1]) : 0
do for [i = 1:digits] { digits = strstrt("0123456789", word_of[1][i:i]) == 0 ? 0 : digits }
if (digits) { token = int(word_of[1]); first = 2 }
runs = count - first # the last is OUT
if (runs < least || runs > most || count > 9) {
    printerr sprintf("%s takes %s and the name of the chart: memtrace plot %s", word(takes, 4), \
        least == most ? sprintf("%d file%s", least, least == 1 ? "" : "s") : \
        sprintf("%d to %d files", least, most), form)
    exit status 2
}
array given[9]
do for [s = 1:runs] { given[s] = word_of[first + s - 1] }
file = given[1]; out = word_of[count]
