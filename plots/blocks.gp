# blocks.gp - what the block size costs: reserved and overhead of block:SIZE.
#
#     memtrace plot blocks SWEEP.dat OUT.png
#
# Of a table such as
# `memtrace sweep --policy block:64KiB..64MiB*2 --kv concat,static,paged:16`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
load here."series.gp"
scripts = "sweep.awk sizes.awk"; name = "r"; load here."read.gp"
if (left_out ne "") { settings = left_out.",  ".settings }

title = least == most ? \
    sprintf("%s: %s of overhead, whatever the block size", model_name, bytes(least)) : \
    sprintf("%s: overhead from %s (%s) to %s (%s)", model_name, bytes(least), where_least, \
            bytes(most), where_most)
settings = "overhead: reserved - requested, at the peak of reserved,  ".settings
load here."title.gp"

set logscale x 2
set xrange [first / 1.2:last * 1.2]
set xtics first, 2
set lmargin at screen 0.095
set rmargin at screen 0.965
set output out
set multiplot

# Above: reserved. The key stands above both charts.
u = unit(most_reserved)
range = most_reserved - least_requested + MiB
set yrange [(least_requested - 0.1 * range < 0.5 * least_requested ? 0 : least_requested - 0.1 * range) / u:(most_reserved + 0.06 * range) / u]
set ylabel "reserved, ".unit_name(most_reserved)
set format x ""
set tmargin at screen top - (sets > 3 ? 0.065 : 0.045)
set bmargin at screen 0.5
key_font = plain(11)
set key at screen 0.095, top + 0.008 top left Left reverse horizontal maxrows (sets > 3 ? 2 : 1) samplen 3 \
    width 1 font key_font
lines = ""
do for [s = 1:sets] {
    lines = lines.sprintf("$set%d using 1:($9 / u) with linespoints %s title '%s', ", s, look(s), \
                          sets == 1 ? "reserved" : value("name".s))
}
eval "plot ".lines."$set1 using 1:($8 / u) with lines linewidth 1.5 linecolor rgb grey \
    title 'requested".(sets > 1 ? " (".name1.")" : "")."'"

# Below: overhead. Its range is wide.
unset label 1001; unset label 1002
u = MiB; high = most > 0 ? most / u : 1.0
from = least > 0 && least / u < 1 ? 10 ** floor(log10(least / u)) : 1.0
from = from < 0.01 ? 0.01 : from; from_words = "%g"
load here."zero.gp"
set ylabel "overhead, MiB (log)"
set xlabel "block size (log)"
set tmargin at screen 0.47
set bmargin at screen 0.115
b = first
while (b <= last * 1.01) {
    set xtics add (sprintf("%g %s", b / unit(b), unit_name(b)) b)
    b = b * 2
}
lines = ""
do for [s = 1:sets] {
    lines = lines.sprintf("$set%d using 1:($7 / u) with linespoints %s title '%s', ", \
                          s, look(s), sets == 1 ? "overhead" : "")
}
unset key
if (sets == 1) { # what it is made of
    array part[3] = ["split", "cached", "rounding"]
    array number[3] = [5, 6, 4]
    do for [i = 1:3] {
        if (value("has_".part[i])) {
            lines = lines.sprintf("$set1 using 1:($%d / u) with linespoints %s pointtype %d \
                                  pointsize 0.7 * dot title '%s', ", number[i], line_look(i + 1), \
                                  mark[i + 1], part[i])
        }
    }
    set key at screen 0.095, 0.487 top left Left reverse horizontal samplen 3 width 1 font key_font
    set tmargin at screen 0.44
}
eval "plot ".lines
unset multiplot
