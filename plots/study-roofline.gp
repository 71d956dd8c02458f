# study-roofline.gp - the kernels of a step on the roofline of this machine.
#
#     memtrace plot study-roofline STUDY.dat OUT.png
#
# Of `memtrace study`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "study.awk study-roofline.awk"; name = "r"; load here."read.gp"
load here."title.gp"

set logscale xy 10
set xrange [left:right]
set yrange [low:high]
eval "set xtics (".xtics_words.")"
eval "set ytics (".ytics_words.")"
set xlabel "FLOP per byte (log)"
set ylabel "GFLOP/s (log)"
set lmargin at screen 0.09
set rmargin at screen 0.985
set bmargin at screen 0.115
set tmargin at screen top - 0.095
key_font = plain(10.5)
set key at screen 0.09, top + 0.005 top left Left reverse horizontal maxrows 2 samplen 2.5 width -4 \
    spacing 1.25 font key_font
set style textbox opaque noborder margins 0.3, 0.1 fillcolor rgb "#FFFFFF"
set label 1 "percent: of the roof at these FLOP per byte" at screen 0.985, 0.036 right font plain(10) textcolor rgb grey
set samples 1000
label_font = plain(10)
words_colour(pass) = pass == 0 ? ink_blue : ink_vermillion
roof(x, rate) = peak > 0 && x * rate > peak ? NaN : x * rate
flat(x) = peak > 0 && x * (cached_read > uncached_read ? cached_read : uncached_read) >= peak ? peak : NaN
set output out
plot roof(x, cached_read) with lines linewidth 2 linecolor rgb blue title cached_roof_key, \
     roof(x, uncached_read) with lines linewidth 2 dashtype (8, 4) linecolor rgb vermillion title uncached_roof_key, \
     flat(x) with lines linewidth 2 linecolor rgb black title peak_key, \
     $leader using 1:2 with lines linewidth 0.8 linecolor rgb "#A0A0A0" notitle, \
     $label using 1:2:4:(words_colour($3)) with labels left boxed font label_font \
         textcolor rgb variable notitle, \
     $cached using 1:2 with points pointtype 7 pointsize 1.2 * dot linecolor rgb blue \
         title "kernels of the cached step", \
     $uncached using 1:2 with points pointtype 5 pointsize 1.2 * dot linecolor rgb vermillion \
         title "kernels of the uncached step", \
     $step using 1:2:(words_colour($3)) with points pointtype 2 pointsize 1.6 * dot linewidth 2.5 \
         linecolor rgb variable notitle, \
     NaN with points pointtype 2 pointsize 1.6 * dot linewidth 2.5 linecolor rgb black title "the step as a whole"
