# overhead.gp - peak reserved over the optimum against the block size.
#
#     memtrace plot overhead SWEEP.dat OUT.png
#
# Of a table such as
# `memtrace sweep --policy block:64KiB..64MiB*2 --kv concat,static,paged:16 --optimum`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
load here."series.gp"
scripts = "sweep.awk sizes.awk"; name = "r"; load here."read.gp"
if (left_out ne "") { settings = left_out.",  ".settings }
title = model_name.": ".finding
settings = settings.",  optimum (0 %): ".bound
load here."title.gp"

if (high <= 0) { low = 0.1; high = 1.0 }
from = low < 0.1 ? 0.01 : 10 ** floor(log10(low)); from_words = "%g %%%%"
load here."zero.gp"
set logscale x 2
set xrange [first / 1.25:last * 1.25]
set xtics first, 2
b = first
while (b <= last * 1.01) {
    size_word = b < MiB ? sprintf("%g\nKiB", b / KiB) : b < GiB ? sprintf("%g\nMiB", b / MiB) : \
                                                                 sprintf("%g\nGiB", b / GiB)
    set xtics add (size_word b)
    b = b * 2
}
set ylabel "peak reserved over the optimum (log)"
set xlabel "block size (log)" offset 0, -1
x1 = 0.695
set lmargin at screen 0.11
set rmargin at screen x1
set bmargin at screen 0.155
set tmargin at screen top
unset key

# The legend: a piece of each line, its name, its optimum and best size.
step = sets > 5 ? 0.105 : 0.125
do for [s = 1:sets] {
    y = top - 0.02 - step * (s - 1)
    eval sprintf("set arrow %d from screen x1 + 0.02, y to screen x1 + 0.056, y nohead %s", s, line_look(s))
    set label s value("name".s) at screen x1 + 0.067, y left font plain(11)
    set label 20 + s "" at screen x1 + 0.038, y point pointtype mark[s] pointsize 1.3 * dot \
        linecolor rgb colour[s]
    set label 10 + s sprintf("optimum %s\nbest %s", value("optimum".s), value("best_words".s)) \
        at screen x1 + 0.067, y - 0.033 left font plain(10) textcolor rgb grey
}
lines = ""
do for [s = 1:sets] {
    lines = lines.sprintf("$set%d using 1:3 with linespoints %s notitle, ", s, look(s))
}
# The least of each has a circle.
$best << END_OF_BEST
END_OF_BEST
set print $best
do for [s = 1:sets] {
    print sprintf("%.0f %.6g", value(sprintf("best_size%d", s)), value(sprintf("best_percent%d", s)))
}
unset print
set output out
eval "plot ".lines."$best using 1:2 with points pointtype 6 pointsize 2.4 * dot linewidth 1.5 \
    linecolor rgb black notitle"
