# heatmap.gp - peak reserved over the optimum, every policy with every cache strategy.
#
#     memtrace plot heatmap SWEEP.dat OUT.png
#
# Of a table such as
# `memtrace sweep --policy torch,direct,bfc --kv concat,static,paged:16 --optimum`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
scripts = "sweep.awk heatmap.awk"; name = "r"; load here."read.gp"
if (left_out ne "") { settings = left_out.",  ".settings }
tall = 190 + 51 * policies
tall = tall < 480 ? 480 : tall > 760 ? 760 : tall
load here."style.gp"
title = model_name.": ".finding
settings = settings.",  optimum: ".bound.(kvs > 1 ? ",  ranked by the mean" : "").",  framed: lowest of a column"
load here."title.gp"

# Colours by the percentage, on a logarithmic scale: one hue, the darker the more, so that they
# also differ in lightness. Nothing at all is white, as the least is.
if (high <= 0) { low = 0.1; high = 1.0 }
from = low < 0.1 ? 0.1 : low
to = high > 10 * from ? high : 10 * from
set palette defined (0 "#FFFFFF", 0.25 "#D6E6F4", 0.5 "#8FC1DE", 0.75 "#2F7FBC", 1 "#08306B")
set logscale cb 10
set cbrange [from:to]
set format cb "%g %%"
tick_font = plain(10.5)
set cbtics font tick_font
set cblabel "peak reserved over the optimum (log)" offset 1.6, 0
x0 = 0.262; x1 = 0.785
y1 = top - 0.045; y0 = y1 - 54.0 / tall * policies
y0 = y0 < 0.025 ? 0.025 : y0
set colorbox user origin screen 0.882, screen y1 - 310.0 / tall size screen 0.016, screen 310.0 / tall
clip(p) = p < from ? from : p
dark(p) = log(clip(p) / from) > 0.62 * log(to / from)

label_font = plain(10.5)
set xrange [0.5:kvs + 0.5]
set yrange [policies + 0.5:0.5]
set x2range [0.5:kvs + 0.5]
unset grid
set border 0
set tics scale 0
unset xtics
set x2tics font label_font offset 0, -0.4
set x2tics ("" 0)
do for [j = 1:kvs] { set x2tics add (value("kv".j) j) }
set ytics ("" 0) font label_font
do for [i = 1:policies] {
    set ytics add (value("policy".i) i)
    set label 100 + i "".value("calls".i) at graph 1.14, first i right font plain(10) textcolor rgb grey
}
set label 100 "driver calls" at graph 1.155, screen y1 + 0.022 right font plain(10) textcolor rgb grey
set lmargin at screen x0
set rmargin at screen x1
set tmargin at screen y1
set bmargin at screen y0
unset key
cell_font = plain(11); small_font = plain(9.5)
# Two lines in a cell where there is room.
room = tall * (y1 - y0) / policies
two = room > 34
set output out
plot $cell using 1:2:($1 - 0.5):($1 + 0.5):($2 - 0.5):($2 + 0.5):(clip($3)) with boxxyerror \
        fillstyle solid 1 border rgb "white" linewidth 2 fillcolor palette, \
     $best using 1:2:($1 - 0.48):($1 + 0.48):($2 - 0.46):($2 + 0.46) with boxxyerror \
        fillstyle empty border rgb vermillion linewidth 2.5 linecolor rgb vermillion, \
     $cell using 1:($2 - (two ? 0.17 : 0)):(two ? strcol(4) : strcol(4).", ".strcol(5)):\
        (dark($3) ? 0xFFFFFF : 0x000000) with labels center font two ? cell_font : small_font \
        textcolor rgb variable, \
     $cell using 1:($2 + 0.2):(two ? strcol(5) : ""):(dark($3) ? 0xFFFFFF : 0x303030) \
        with labels center font small_font textcolor rgb variable
