# study.gp - time of a step with and without a KV cache against context, and its lower bounds.
#
#     memtrace plot study STUDY.dat OUT.png
#
# Of `memtrace study`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "study.awk study-latency.awk"; name = "r"; load here."read.gp"
load here."title.gp"

set xrange [left:right]
set logscale y 10
set yrange [low:high]
eval "set xtics (".xtics_words.")"
eval "set ytics (".ytics_words.")"
set xlabel "tokens in the cache"
set ylabel "ms per step (log)" offset 0.7, 0
set lmargin at screen 0.09
set rmargin at screen 0.985
set bmargin at screen 0.115
set tmargin at screen top - (graph_key eq "" ? 0.095 : 0.13)
key_font = plain(11)
set key at screen 0.09, top + 0.005 top left Left reverse horizontal maxrows (graph_key eq "" ? 2 : 3) samplen 3 width -5 \
    spacing 1.25 font key_font

# Beside the last points, how far apart they are.
if (gap) {
    x = contexts > 1 ? word($row[contexts], 1) + 0.022 * span : word($row[1], 1) + 0.06
    set arrow 1 from first x, first (word($row[contexts], 2) * (high / low) ** 0.012) \
        to first x, first (word($row[contexts], 5) / (high / low) ** 0.012) heads filled size screen 0.008, 20 \
        linewidth 1.2 linecolor rgb "#303030"
    set label 1 ratio_key at first x, first sqrt(word($row[contexts], 2) * word($row[contexts], 5)) \
        left offset 0.8, 0 font bold(11)
}
graph = graph_key eq "" ? "" : ", $graph using 1:2 with points pointtype 13 pointsize 1.7 * dot linecolor rgb green title graph_key"
set output out
eval "plot ".\
    "$row using 1:5:6:7 with yerrorlines linewidth 2.4 pointtype 5 pointsize 1.2 * dot linecolor rgb vermillion title uncached_key, ".\
    "$bound using 1:3 with lines linewidth 1.3 dashtype (8, 4) linecolor rgb vermillion title uncached_bound_key, ".\
    (graph_key eq "" ? "" : "NaN linecolor rgb '#FFFFFF' title ' ', ").\
    "$row using 1:2:3:4 with yerrorlines linewidth 2.4 pointtype 7 pointsize 1.2 * dot linecolor rgb blue title cached_key, ".\
    "$bound using 1:2 with lines linewidth 1.3 dashtype (8, 4) linecolor rgb blue title cached_bound_key".graph
