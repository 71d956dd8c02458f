# bumps.gp - growth of reserved against growth of the KV cache, and the request behind each bump.
#
#     memtrace plot bumps RUN.dat OUT.png
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "table.awk"
name = "r"; load here."read.gp"

who = r_model_name.(r_ending eq "" ? "" : sprintf(" (%s after %s)", r_ending, r_end))
growth = r_reserved - r_base_reserved
cache = r_kv - r_base_kv
since = r_has_base ? "loading" : "the first row"
title = sprintf("%s: %s of KV became %s of reserved growth in %s", who, bytes(cache), \
                bytes(growth), plural(r_bumps, "bump"))
if (r_bumps == 0) {
    title = growth == 0 ? \
        sprintf("%s: reserved stayed at %s while KV grew by %s: no bumps", who, \
                bytes(r_reserved), bytes(cache)) : \
        sprintf("%s: %s of KV became %s of reserved growth, without a bump", who, \
                bytes(cache), bytes(growth))
}
if (cache == 0 && r_bumps > 0) {
    title = sprintf("%s: without growth of KV, reserved grew by %s in %s", who, bytes(growth), \
                    plural(r_bumps, "bump"))
}
if (r_drops > 0) { title = title.sprintf(", %d of them negative", r_drops) }
settings = r_settings
load here."title.gp"

stats $r using ($12 - r_base_reserved) name "grown" nooutput
high = grown_max > r_top_kv_ideal ? grown_max : r_top_kv_ideal
high = high > r_top_kv - r_base_kv ? high : r_top_kv - r_base_kv
low = grown_min < 0 ? grown_min : 0.0
if (high <= low) { high = low + MiB }
high = high + 0.14 * (high - low)
low = low - (low < 0 ? 0.04 : 0.015) * (high - low)
u = unit(high)

# The chart, and right of it the list of bumps: its first line, its columns, its length.
x0 = 0.09; x1 = 0.53; y0 = 0.115
row = 0.034; first_row = top - (r_kv_differs == 0 ? 0.125 : 0.16)
column1 = x1 + 0.035; column2 = column1 + 0.055; column3 = column2 + 0.1; column4 = column3 + 0.012
most = int((first_row - 0.03) / row) - 1; most = most > 20 ? 20 : most
by_step = r_axis eq "steps"
scripts = "bumps.awk"; load here."awk.gp"
load "< ".lines." | ".awk.sprintf(" -v base=%.0f -v by_step=%d -v most=%d", \
                                  r_base_reserved, by_step, most)\
                         .sprintf(" -v left=%.0f -v right=%.0f -v low=%.0f -v high=%.0f", \
                                  r_left, r_right, low, high)\
                         .sprintf(" -v wide=%.0f -v tall=%.0f", wide * (x1 - x0), tall * (top - y0))
if (listed > 0) {
    set label 14 "a bump is the growth of reserved less that of KV, in one step" \
        at screen column1 - 0.02, first_row + 0.033 left font plain(10) textcolor rgb grey
    set label 10 by_step ? "step" : "token" at screen column2, first_row right font bold(10.5)
    set label 11 "bump" at screen column3, first_row right font bold(10.5)
    set label 12 "cause: tag, request, pool" at screen column4, first_row left font bold(10.5)
}
if (others > 0) {
    set label 13 sprintf("and %d no larger, together %s", others, signed(others_sum)) \
        at screen column2 + 0.004, first_row - row * (listed + 1) left font plain(10.5) \
        textcolor rgb grey
}

set xrange [r_left:r_right]
set yrange [low / u:high / u]
set xlabel r_axis
if (r_right - r_left < 10) { set xtics 1 }
set ylabel sprintf("growth since %s, %s", since, unit_name(high))
set lmargin at screen x0
set rmargin at screen x1
set bmargin at screen y0
set tmargin at screen top
key_font = plain(11)
set key at screen x1 + 0.012, top + 0.012 top left Left reverse vertical samplen 2.4 spacing 1.2 \
    font key_font
load here."ending.gp"

reserved = "$r using 1:(($12 - r_base_reserved) / u) with lines linewidth 2.5 \
    linecolor rgb c_reserved title 'reserved', "
held = r_kv_differs == 0 ? "" : "$r using 1:(($3 - r_base_kv) / u) with lines linewidth 2 \
    dashtype 4 linecolor rgb sky title 'KV held', "
ideal = "$r using 1:($15 / u) with lines linewidth 2.5 dashtype 2 linecolor rgb c_kv \
    title 'ideal: KV alone'"

# A dot at each bump and the numbers, with a line from one to the other. gnuplot does not stand
# labels or arrows without a single valid point.
dots = r_bumps > 60 ? 0.5 : 0.9
marks = placed == 0 ? "" : \
    "$circles using 4:($5 / u):($1 - $4):(($2 - $5) / u) with vectors nohead linecolor rgb grey \
     notitle, \
     $dots using 1:($2 / u):($3 < 0 ? 0x56B4E9 : 0xD55E00) with points pointtype 7 \
     pointsize dots * dot linecolor rgb variable notitle, \
     $circles using 1:($2 / u) with points pointtype 7 pointsize 3.1 * dot linecolor rgb grey \
     notitle, \
     $circles using 1:($2 / u) with points pointtype 7 pointsize 2.8 * dot linecolor rgb 'white' \
     notitle, \
     $circles using 1:($2 / u):(sprintf('%d', $3)) with labels center font plain(9) notitle, "
set output out
eval "plot ".reserved.held.marks.ideal
