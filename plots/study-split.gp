# study-split.gp - where the time of a step goes, with a KV cache and without, by context.
#
#     memtrace plot study-split STUDY.dat OUT.png
#
# Of `memtrace study`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "study.awk study-split.awk"; name = "r"; load here."read.gp"
load here."title.gp"

# Neighbours differ in lightness as well as in colour; words are white on the dark ones.
array shade[8] = [0xA8A8A8, 0xCC79A7, 0x0072B2, 0xD55E00, 0x56B4E9, 0xE69F00, 0xF0E442, 0xE0E0E0]
array ink[8] = [0x000000, 0x000000, 0xFFFFFF, 0x000000, 0x000000, 0x000000, 0x000000, 0x000000]
shade_of(i) = shade[int(i)]
ink_of(i) = ink[int(i)]

# The legend is a table: the parts as they lie on each other, and what they take at the last context.
x0 = 0.705; x1 = 0.895; x2 = 0.988; step = 41.0 / tall; line = 8.0 / tall
y = top - 20.0 / tall
set label 1 at_words at screen x0, y left font plain(10) textcolor rgb grey
set label 2 "cached" at screen x1, y right font bold(10.5)
set label 3 "uncached" at screen x2, y right font bold(10.5)
do for [i = 1:pieces] {
    y = top - 22.0 / tall - step * (pieces - i + 1)
    if (value("piled".i)) {
        set object i rectangle center screen x0 + 0.009, y size screen 0.018, screen 18.0 / tall \
            fillstyle solid 1 border rgb "#888888" linewidth 0.6 fillcolor rgb shade_of(i)
    }
    set label 10 + i value("name".i).(value("piled".i) ? "" : " *") at screen x0 + 0.026, y left font plain(10.5)
    set label 20 + i value("cached".i) at screen x1, y - line right font plain(9.5) textcolor rgb grey
    set label 30 + i value("cached_share".i) at screen x1, y + line right font plain(10.5)
    set label 40 + i value("uncached".i) at screen x2, y - line right font plain(9.5) textcolor rgb grey
    set label 50 + i value("uncached_share".i) at screen x2, y + line right font plain(10.5)
}
y = top - 22.0 / tall - step * (pieces + 1)
set label 60 "the step" at screen x0 + 0.026, y left font bold(10.5)
set label 61 cached_total at screen x1, y right font bold(10.5)
set label 62 uncached_total at screen x2, y right font bold(10.5)
if (!piled6 || !piled7) {
    set label 63 "* on the host, beside the device's work" at screen x0, 0.036 left font plain(10) textcolor rgb grey
}

set bmargin at screen 0.115
set tmargin at screen top - 30.0 / tall
unset key
set grid noxtics ytics
half = 0.42
number_font = plain(9.5); tic_font = plain(contexts > 5 ? 9.5 : 10.5)
set xrange [0.4:contexts + 0.6]
if (contexts < 3) { set xrange [contexts == 1 ? -0.5 : 0:contexts == 1 ? 2.5 : 3] }
set xtics scale 0
eval "set xtics (".xtics_words.") font tic_font"
set xlabel "tokens in the cache"
set output out
set multiplot
set lmargin at screen 0.075
set rmargin at screen 0.37
set yrange [0:high]
set label 70 "cached step, ms".(cached_words > 0 ? " (in the bars: %)" : "") at graph 0, screen top - 14.0 / tall left font bold(11)
bars(pass) = sprintf("plot $%s using 1:2:($1 - half):($1 + half):2:3:(shade_of($4)) with boxxyerror \
    fillstyle solid 1 noborder linecolor rgb variable", pass).\
    (contexts > 30 ? "" : sprintf(", $%s using 1:2:($1 - half):($1 + half):2:3 with boxxyerror \
    fillstyle empty linewidth 0.7 linecolor rgb '#FFFFFF'", pass))
numbers(pass, n) = n == 0 ? "" : sprintf(", $%s_words using 1:2:4:(ink_of($3)) with labels center \
    font number_font textcolor rgb variable", pass)
eval bars("cached").numbers("cached", cached_words).\
    (totals ? ", $total using 1:2:3 with labels center offset 0, 0.6 font number_font" : "")
do for [i = 1:63] { unset label i }
unset object
set lmargin at screen 0.425
set rmargin at screen 0.68
set yrange [0:100]
set xlabel "tokens in the pass"
set label 70 "uncached step, %" at graph 0, screen top - 14.0 / tall left font bold(11)
unset label 1001; unset label 1002
eval bars("uncached").numbers("uncached", uncached_words)
unset multiplot
