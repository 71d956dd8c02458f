# study-ratio.gp - what a KV cache saves in FLOPs, and what in time, by context.
#
#     memtrace plot study-ratio STUDY.dat OUT.png
#
# Of `memtrace study`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "study.awk study-ratio.awk"; name = "r"; load here."read.gp"
load here."title.gp"

set logscale xy 10
set xrange [left:right]
set yrange [low:high]
eval "set xtics (".xtics_words.")"
eval "set ytics (".ytics_words.")"
set xlabel "tokens in the cache (log)"
set ylabel "uncached over cached (log)"
set lmargin at screen 0.09
set rmargin at screen 0.985
set bmargin at screen 0.115
set tmargin at screen top - 0.125
key_font = plain(11)
set key at screen 0.09, top + 0.005 top left Left reverse maxcols 1 samplen 3.5 width 2 spacing 1.25 font key_font
set output out
plot $row using 1:2 with linespoints linewidth 2 dashtype (10, 5) pointtype 8 pointsize 1.4 * dot \
         linecolor rgb purple title all_key, \
     $row using 1:3 with linespoints linewidth 2.4 pointtype 5 pointsize 1.2 * dot \
         linecolor rgb vermillion title last_key, \
     $row using 1:4:5:6 with yerrorlines linewidth 2.4 pointtype 7 pointsize 1.2 * dot \
         linecolor rgb blue title time_key
