# reserved.gp - where reserved went, token by token.
#
#     memtrace plot reserved RUN.dat OUT.png
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "table.awk"
name = "r"; load here."read.gp"

# The weights are folded: the axis starts a little below their end.
most = r_top_reserved > r_top_peak_reserved ? r_top_reserved : r_top_peak_reserved
rest = most - r_weights
folded = r_weights > 0.4 * rest
if (rest <= 0) { rest = 0.1 * most }
low = folded ? r_weights - 0.09 * rest : 0.0
high = most + 0.05 * rest
u = unit(most)
from_gib = u == GiB ? GiB : from_gib

extra = r_reserved - r_requested
largest = r_split >= r_cached && r_split >= r_rounding ? "split" : \
          r_cached >= r_rounding ? "cached" : "rounding"
part = largest eq "split" ? r_split : largest eq "cached" ? r_cached : r_rounding
title = sprintf("%s %s %s: %s requested, %s reserved; the allocator adds %s", r_model_name, \
                r_ending eq "out of memory" ? "ran out of memory after" : \
                r_ending eq "interrupted" ? "was interrupted after" : "at", \
                r_end, bytes(r_requested), bytes(r_reserved), \
                extra == 0 ? "nothing" : bytes(extra).percent(extra, r_requested).", ".\
                                         (part == extra ? "all" : bytes(part))." of it ".largest)
settings = r_settings
load here."title.gp"

set xrange [r_left:r_right]
set yrange [low / u:high / u]
set xlabel r_axis
if (r_right - r_left < 10) { set xtics 1 }
set ylabel "reserved, ".unit_name(most)
set lmargin at screen 0.09
set rmargin at screen 0.72
set bmargin at screen 0.115
set tmargin at screen top
set key at screen 0.73, top left top Left reverse vertical samplen 2 spacing 1.25 \
    title "at ".r_end left

# The layers, the highest first: each is drawn from the axis up to the sum of all below and itself,
# so that the next one covers what is not its own. A kind of bytes that never occurs is left out.
area(total, colour) = sprintf("$r using 1:((%s) / u) with filledcurves y1=low / u \
    fillcolor rgb '%s' notitle, ", total, colour)
entry(kind, now, colour) = sprintf("keyentry with boxes fillstyle solid 1 border rgb grey \
    fillcolor rgb '%s' title '%s', ", colour, kind."  ".bytes(now))
areas = area("$12", c_cached).area("$12 - $11", c_split).area("$8 + $9", c_rounding)
entries = (r_top_cached > 0 ? entry("cached", r_cached, c_cached) : "") \
         .(r_top_split > 0 ? entry("split", r_split, c_split) : "")
if (r_top_peak_requested > r_weights) {
    entries = entries."keyentry with boxes fillstyle pattern 4 border rgb c_activations \
        fillcolor rgb c_activations \
        title 'temporaries  ".bytes(r_peak_requested - r_requested)."', "
}
entries = entries.(r_top_rounding > 0 ? entry("rounding", r_rounding, c_rounding) : "") \
    ."keyentry with lines linewidth 2 dashtype 2 linecolor rgb c_requested \
        title 'requested  ".bytes(r_requested)."', "
array kind[6] = ["other", "logits", "activations", "kv", "workspace", "weights"]
array now[6] = [r_other, r_logits, r_activations, r_kv, r_workspace, r_weights]
array ever[6] = [r_top_other, r_top_logits, r_top_activations, r_top_kv, r_top_workspace, \
                 r_top_weights]
array colour[6] = [c_other, c_logits, c_activations, c_kv, c_workspace, c_weights]
array total[6] = ["$8", "$8 - $7", "$8 - $7 - $5", "$2 + $6 + $3", "$2 + $6", "$2"]
do for [i = 1:6] {
    if (ever[i] > 0) {
        areas = areas.area(total[i], colour[i])
        entries = entries.entry(kind[i], now[i], colour[i])
    }
}
# What a step needed for a moment lies in free bytes: it is hatched over split and cached, from
# requested (and its rounding) up to the step's highest request.
moment = "$r using 1:(($8 + $9) / u):(($9 + $13) / u) with filledcurves \
    fillstyle transparent pattern 4 noborder fillcolor rgb c_activations notitle, "
peak = r_peak_higher == 0 ? "" : "$r using 1:($14 / u) with lines linewidth 1.5 dashtype 3 \
    linecolor rgb grey title 'its highest  ".bytes(r_peak_reserved)."', "
reserved = "$r using 1:($12 / u) with lines linewidth 2.5 linecolor rgb c_reserved \
    title 'reserved  ".bytes(r_reserved)."', "
requested = "$r using 1:($8 / u) with lines linewidth 2 dashtype 2 linecolor rgb c_requested \
    notitle"
if (folded) {
    set label 1 "weights ".bytes(r_weights).", folded: the axis starts at ".bytes(low) \
        at graph 0.012, first (low + 0.5 * (r_weights - low)) / u left front font plain(10.5)
}
load here."ending.gp"
set output out
eval "plot ".areas.moment.reserved.peak.entries.requested
