# overhead.gp - how far from the optimum each block size is, with each KV strategy.
#
#     memtrace sweep --policy block:64KiB..64MiB*2 --kv concat,static,paged:16 --optimum > sweep.dat
#     gnuplot -c plots/overhead.gp sweep.dat OUT.png
if (ARGC != 2) {
    printerr "usage: gnuplot -c plots/overhead.gp SWEEP.dat OUT.png|.svg|.pdf"
    exit status 2
}
file = ARG1; out = ARG2
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."style.gp"
load here."series.gp"
script2 = "overhead.awk"; load here."sweep.gp"
title = model_name.": ".finding
settings = settings.",  optimum (0 %): ".bound
load here."title.gp"

# A logarithmic axis has no place for nothing: that is drawn at its lower end.
if (high <= 0) { low = 0.1; high = 1.0 }
floor_of = low / 2 < 0.01 ? 0.01 : low / 2
clip(p) = p < floor_of ? floor_of : p
set logscale x 2
set logscale y 10
set xrange [first / 1.25:last * 1.25]
set yrange [floor_of / 1.25:high * 1.8]
set xtics first, 2
b = first
while (b <= last * 1.01) {
    size_word = b < MiB ? sprintf("%g\nKiB", b / KiB) : b < GiB ? sprintf("%g\nMiB", b / MiB) : \
                                                                 sprintf("%g\nGiB", b / GiB)
    set xtics add (size_word b)
    b = b * 2
}
set ytics 10
if (high < 50 * floor_of) {
    do for [k = -3:5] { set ytics add ("%g %%" 2 * 10.0**k, "%g %%" 5 * 10.0**k) }
}
set format y "%g %%"
set ylabel "peak reserved over the optimum, % of it (log)"
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
    lines = lines.sprintf("$set%d using 1:(clip($3)) with linespoints %s notitle, ", s, look(s))
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
eval "plot ".lines."$best using 1:(clip($2)) with points pointtype 6 pointsize 2.4 * dot linewidth 1.5 \
    linecolor rgb black notitle"
