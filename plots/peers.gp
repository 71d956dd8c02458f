# peers.gp - decode time against context, memtrace and other programs.
#
#     memtrace plot peers PEERS.dat OUT.png
#
# Of `make peers`: a point is the median over the rounds, its bar the fastest and the slowest round. The
# thick grey line is the bound: weights and f32 cache read once at the rate measured between the programs.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "peers.awk"; name = "r"; load here."read.gp"
title = finding
load here."title.gp"

# A family of programs has one colour; its members differ in dashes and marks, families in marks too.
array colour[7] = [blue, vermillion, green, purple, orange, sky, black]
array filled[7] = [7, 5, 9, 11, 13, 15, 5]
array open[7] = [6, 4, 8, 10, 12, 14, 4]
array dash[3] = ["1", "(10, 5)", "(3, 3)"]
fold(n, most) = (n - 1) % most + 1
look(s) = sprintf("linewidth %g dashtype %s linecolor rgb '%s'", value(sprintf("family%d", s)) == 1 ? 2.8 : 1.8, \
                  dash[fold(value(sprintf("member%d", s)), 3)], colour[fold(value(sprintf("family%d", s)), 7)])
point(s) = sprintf("pointtype %d pointsize 1.2 * dot", value(sprintf("member%d", s)) == 1 ? \
                   filled[fold(value(sprintf("family%d", s)), 7)] : open[fold(value(sprintf("family%d", s)), 7)])

span = last > first ? last - first : 100
set xrange [first - 0.03 * span:last + 0.03 * span]
set yrange [0:high * 1.06]
set xlabel "tokens in the cache"
set ylabel "ms per token (median, fastest and slowest round)"
set lmargin at screen 0.08
set rmargin at screen 0.985
set bmargin at screen 0.11
key_rows = int((sets + 2) / 2)
set tmargin at screen top - 0.036 * key_rows - 0.02
key_font = plain(10.5)
set key at screen 0.08, top + 0.01 top left Left reverse vertical maxrows key_rows samplen 3.5 width 2 \
    spacing 1.2 font key_font
lines = ""
do for [s = 1:sets] {
    lines = lines.sprintf("$set%d using 1:2:3:4 with yerrorlines %s %s title '%s: %s', ", s, look(s), point(s), \
                          value(sprintf("name%d", s)), value(sprintf("words%d", s)))
}
set output out
eval "plot ".lines."$bound using 1:2 with lines linewidth 5 linecolor rgb '#BBBBBB' title 'bound: memory read at ".bound_words."'"
