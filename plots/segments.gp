# segments.gp - the map of segments and blocks over time, from a trace.
#
#     memtrace plot segments RUN.trace OUT.png
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
load here."file.gp"

# A trace without marks is cut into columns of equally many events.
every = 0
events = system(lines." | LC_ALL=C awk '$2 == \"mark\" && $3 >= 0 { n = -1; exit } \
                                       !/^#/ { n++ } END { print n + 0 }'") + 0
if (events > 0) { every = events / 1000 + 1 }
x0 = 92; x1 = 792; y0 = 74; y1 = 488 # of the chart, in pixels
scripts = "trace.awk segments.awk"; name = "r"
with = sprintf(" -v every=%d -v wide=%d -v tall=%d", every, x1 - x0, y1 - y0)
load here."read.gp"

title = sprintf("%s%s: %s in %s; ", model_name, r_ending eq "" ? "" : " (".r_ending.")", \
                bytes(reserved), plural(segments, "segment"))
title = title.(split_bytes + empty_bytes == 0 ? "every byte is in a live block" : \
    split_bytes == 0 ? "" : sprintf("%s lie free beside live blocks", bytes(split_bytes)))
if (empty > 0) {
    title = title.sprintf("%s%s in %d that %s none", split_bytes > 0 ? ", " : "", \
                          bytes(empty_bytes), empty, empty == 1 ? "holds" : "hold")
}
load here."title.gp"

set xrange [left:r_right]
set yrange [0:y1 - y0]
set xlabel axis.(every > 0 || steps <= x1 - x0 ? "" : \
                 sprintf(" (%d of %d steps are drawn)", x1 - x0, steps))
if (r_right - left < 10) { set xtics 1 }
set ylabel "segments, stacked as they came" offset -2.6, 0
unset ytics
unset grid
set lmargin at screen pixel_x(x0)
set rmargin at screen pixel_x(x1)
set bmargin at screen pixel_y(y0)
set tmargin at screen pixel_y(y1)
key_font = plain(11)
set key at screen pixel_x(x0), pixel_y(y1 + 50) top left Left reverse horizontal maxrows 2 \
    samplen 1.2 width 1 font key_font

# The scale of the heights, at the upper end of the axis.
set arrow 1 from graph -0.018, first y1 - y0 - bar to graph -0.018, first y1 - y0 \
    heads size graph 0.004, 90 linewidth 1.5 linecolor rgb black
set label 1 bytes(bar_bytes) at graph -0.032, first y1 - y0 - bar / 2 center rotate font plain(11)

boxes(kind, style, words) = value("has_".kind) == 0 ? "" : \
    sprintf("$%s using 1:3:1:2:3:4 with boxxyerror %s %s, ", kind, style, \
            value("seen_".kind) ? "title '".words."'" : "notitle")
solid(colour) = sprintf("fillstyle solid 1 noborder fillcolor rgb '%s'", colour)
ending_at = 1.025; name = "r"; load here."ending.gp"
set output out
eval "plot ".boxes("segment", solid(faint), "free")\
            .boxes("shadow", solid("#F2C3A6"), "temporaries")\
            .boxes("other", solid(c_other), "other")\
            .boxes("workspace", solid(c_workspace), "workspace")\
            .boxes("activations", solid(c_activations), "activations")\
            .boxes("logits", solid(c_logits), "logits")\
            .boxes("kv", solid(c_kv), "kv")\
            .boxes("weights", solid(c_weights), "weights".(folds > 0 ? ", folded" : ""))\
            .(edges == 0 ? "" : "$edges using 1:2:3:(0) with vectors nohead \
                linecolor rgb 'white' linewidth 1 notitle, ")\
            .(names == 0 ? "" : "$names using (r_right):1:2 with labels left offset 0.6, 0 \
                font plain(10) textcolor rgb grey notitle, ")
