# bench.gp - nanoseconds per request and free, by policy and pattern of requests.
#
#     memtrace plot bench BENCH.dat OUT.png
#
# Of `make bench`: a bar is the median of five runs with the ledger kept and no other listener.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "bench.awk"; name = "r"; load here."read.gp"
title = finding
load here."title.gp"

array colour[5] = [blue, vermillion, green, purple, orange]
set style fill solid 1 noborder
set boxwidth 0.9 / (patterns + 1) absolute
set xrange [0.4:policies + 0.6]
set logscale y
set yrange [10:high * 2.2]
unset xtics
do for [p = 1:policies] { set label value(sprintf("name%d", p))."\n".value(sprintf("option%d", p)) at p, graph -0.035 center font plain(10) }
set ylabel "ns per request and free (log)"
set grid ytics linecolor rgb faint linetype 1
set lmargin at screen 0.08
set rmargin at screen 0.985
set bmargin at screen 0.13
set tmargin at screen top - 0.075
key_font = plain(10.5)
set key at screen 0.08, top + 0.005 top left Left reverse horizontal samplen 1.5 font key_font
at(w) = (w - (patterns + 1) / 2.0) / (patterns + 1)
set output out
plot for [w = 1:patterns] $rows using ($1 + at(w)):(column(w + 1)) with boxes linecolor rgb colour[w] \
         title value(sprintf("what%d", w)), \
     for [w = 1:patterns] $rows using ($1 + at(w)):(column(w + 1)):(sprintf("%.0f", column(w + 1))) with labels \
         offset 0, 0.6 font plain(9) notitle
