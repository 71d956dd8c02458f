# blocks.gp - what block sizes cost: reserved and overhead at the end of a run against block:SIZE.
#
#     plots/blocks.sh ./memtrace --kv concat --kv static > blocks.dat
#     gnuplot -c plots/blocks.gp blocks.dat OUT.png
if (ARGC != 2) {
    printerr "usage: gnuplot -c plots/blocks.gp BLOCKS.dat OUT.png|.svg|.pdf"
    exit status 2
}
file = ARG1; out = ARG2
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."style.gp"
table = "blocks.awk"; name = "b"; load here."read.gp"

by(name, block) = sprintf("(%s%s blocks)", sets == 1 ? "" : name.", ", block)
title = least == most ? \
    sprintf("%s: %s of overhead, whatever the block size", model_name, bytes(least)) : \
    sprintf("%s: overhead from %s %s to %s %s", model_name, bytes(least), \
            by(least_name, least_block), bytes(most), by(most_name, most_block))
settings = (sets == 1 && name1 ne "" ? "kv ".name1.",  " : "").settings
if (failed ne "") { settings = settings.",  out of memory: ".failed }
load here."title.gp"

array colour[6] = [blue, vermillion, green, orange, purple, black]
array mark[6] = [7, 5, 9, 11, 13, 2]
array dash[6] = ["1", "(12, 4)", "(3, 3)", "(12, 4, 3, 4)", "(20, 5)", "(6, 2, 2, 2, 2, 2)"]
nth(s) = (s - 1) % 6 + 1
look(s) = sprintf("linewidth 2 dashtype %s linecolor rgb '%s' pointtype %d pointsize 1.3 * dot", \
                  dash[nth(s)], colour[nth(s)], mark[nth(s)])

set logscale x 2
set xrange [(first < 65536 ? first : 65536.0) / 1.2:(last > 67108864 ? last : 67108864.0) * 1.2]
set xtics 65536, 2
set lmargin at screen 0.095
set rmargin at screen 0.965
set output out
set multiplot

# Above: reserved. The key stands above both charts.
u = unit(high)
lowest = low - 0.1 * (high - low)
set yrange [(lowest < 0.5 * low ? 0 : lowest) / u:(high + 0.06 * (high - low + MiB)) / u]
set ylabel "reserved, ".unit_name(high)
set format x ""
set tmargin at screen top - (sets > 3 ? 0.065 : 0.045)
set bmargin at screen 0.5
key_font = plain(11)
set key at screen 0.095, top + 0.008 top left Left reverse horizontal maxrows 2 samplen 3 width 1 \
    font key_font
lines = ""; told = 0
do for [s = 1:sets] {
    lines = lines.sprintf("$set%d using 1:($6 / u) with linespoints %s title '%s', ", s, look(s), \
        value("name".s) eq "" ? "reserved" : "kv ".value("name".s))
    if (value("peak_higher".s) > 0) {
        lines = lines.sprintf("$set%d using 1:($7 > $6 ? $7 / u : NaN) with points \
            linecolor rgb '%s' linewidth 1.5 pointtype 6 pointsize 2 * dot %s, ", \
            s, colour[nth(s)], told ? "notitle" : "title 'highest of the run'")
        told = 1
    }
}
eval "plot ".lines."$set1 using 1:($2 / u) with lines linewidth 1.5 linecolor rgb grey \
    title 'requested'"

# Below: overhead. Its range is wide, so that its axis is mostly logarithmic.
unset label 1001; unset label 1002
logarithmic = least > 0 && most > 8 * least
u = MiB
if (logarithmic) {
    set logscale y 10
    lowest = sets == 1 && smallest > 0 ? smallest : least
    set yrange [lowest / u / 1.6:most / u * 1.6]
    set format y "%g"
} else {
    set yrange [0:most == 0 ? 1 : 1.08 * most / u]
}
set ylabel "overhead, MiB".(logarithmic ? " (log)" : "")
set xlabel "block size (log)"
set tmargin at screen 0.47
set bmargin at screen 0.115
do for [i = 16:26] {
    size_word = i < 20 ? sprintf("%d KiB", 2 ** (i - 10)) : sprintf("%d MiB", 2 ** (i - 20))
    set xtics add (size_word 2.0 ** i)
}
lines = ""
do for [s = 1:sets] {
    lines = lines.sprintf("$set%d using 1:(($6 - $2) / u) with linespoints %s title '%s', ", \
                          s, look(s), sets == 1 ? "overhead" : "")
}
if (sets == 1) {
    # What it is made of; a logarithmic axis has no place for nothing.
    positive(b) = logarithmic && b == 0 ? NaN : b / u
    array part[3] = ["split", "cached", "rounding"]
    array number[3] = [4, 5, 3]
    array shade[3] = [sky, grey, orange]
    do for [i = 1:3] {
        if (value("most_".part[i]) > (logarithmic ? smallest / 2 : 0)) {
            lines = lines.sprintf("$set1 using 1:(positive($%d)) with linespoints linewidth 1.5 \
                dashtype %d linecolor rgb '%s' pointtype %d pointsize 1 * dot title '%s', ", \
                number[i], i + 1, shade[i], 2 * i + 2, part[i])
        }
    }
    set key at screen 0.095, 0.487 top left Left reverse horizontal samplen 3 width 1 font key_font
    set tmargin at screen 0.44
} else { unset key }
eval "plot ".lines
unset multiplot
