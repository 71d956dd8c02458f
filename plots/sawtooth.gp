# sawtooth.gp - overhead per token of up to four runs, one above the other, with their bumps.
#
#     memtrace plot sawtooth A.dat [B.dat ... up to 4] OUT.png
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "table.awk"
do for [s = 1:runs] { file = given[s]; name = sprintf("s%d", s); load here."read.gp" }
get(s, what) = value(sprintf("s%d_%s", s, what))
of(s, key) = get(s, "option_".key)
keys = "policy kv model dtype activations workspace ctx batch"; rare = "capacity prompt backend"
load here."names.gp"
do for [s = 1:runs] {
    title_of[s] = cut(title_of[s], 60)
    if (get(s, "axis") ne s1_axis) {
        printerr given[s].": x is ".get(s, "axis").", and ".s1_axis." in ".given[1]; exit status 2
    }
}

# The least and the most overhead of each, at the ends of its steps.
array low[4]; array high[4]; array last[4]
left = s1_left; right = s1_right
do for [s = 1:runs] {
    eval sprintf("stats $s%d using ($12 - $8) name 'o' nooutput", s)
    low[s] = o_min; high[s] = o_max; last[s] = get(s, "reserved") - get(s, "requested")
    left = get(s, "left") < left ? get(s, "left") : left
    right = get(s, "right") > right ? get(s, "right") : right
}
who = s1_model_name
do for [s = 2:runs] { who = get(s, "model_name") eq who ? who : "GPT-2" }
title = who.": overhead ends at "
do for [s = 1:runs] { title = title.(s == 1 ? "" : ", ").bytes(last[s])." (".title_of[s].")" }
do for [s = 1:runs] {
    if (get(s, "ending") ne "") {
        title = title.sprintf("; %s: %s after %s", title_of[s], get(s, "ending"), get(s, "end"))
    }
}
settings = "overhead: reserved - requested,  ".settings
load here."title.gp"

set lmargin at screen 0.1
set rmargin at screen 0.98
set xrange [left:right]
if (right - left < 10) { set xtics 1 }
set format x ""
unset key
array shade[4] = [blue, vermillion, green, purple]
y0 = 0.115; gap = 0.052
height = (top - y0 - gap * runs) / runs
caption(s) = sprintf("%s: %s, overhead %s", title_of[s], plural(get(s, "bumps"), "bump"), bytes(low[s]))\
             .(bytes(low[s]) eq bytes(high[s]) ? "" : " to ".bytes(high[s]))
# About four tics: 1, 2 or 5 times a power of ten.
nice(d) = d >= 5 ? 5 : d >= 2 ? 2 : 1
tic(d) = nice(d / 10 ** floor(log10(d))) * 10 ** floor(log10(d))
set output out
set multiplot
do for [s = 1:runs] {
    b = y0 + (height + gap) * (runs - s)
    set bmargin at screen b
    set tmargin at screen b + height
    u = unit(high[s])
    span = high[s] - low[s] > 0 ? high[s] - low[s] : 0.1 * high[s] + KiB
    bottom = (low[s] < 0.5 * high[s] ? 0 : low[s] - 0.08 * span) / u
    set yrange [bottom:(high[s] + 0.08 * span) / u]
    set ytics tic(((high[s] + 0.08 * span) / u - bottom) / 3)
    set label 2 unit_name(high[s]) at screen 0.02, screen b + height / 2 center rotate
    set label 1 caption(s) at screen 0.1, screen b + height + 0.02 left font plain(11) \
        textcolor rgb shade[s]
    if (s == runs) { set format x "%g"; set xlabel s1_axis }
    n = sprintf("s%d", s)
    if (get(s, "ending") ne "") {
        name = n; ending_at = 0.9; ending_right = get(s, "right") < left + 0.2 * (right - left)
        load here."ending.gp"
    }
    # Hair lines where the bumps are, and dots if there are few.
    bump = sprintf("$s%d using ($16 != 0 && int($0) %% 2 == 0 ? $1 : NaN)", s)
    lines = get(s, "bumps") == 0 ? "" : get(s, "bumps") > 250 ? "" : \
        bump.":(1.2 * high[s] / u + 1) with impulses linewidth 0.8 linecolor rgb '#C8C8C8', "
    dots = get(s, "bumps") == 0 || get(s, "bumps") > 40 ? "" : \
        bump.":(($12 - $8) / u) with points pointtype 7 pointsize 0.9 * dot linecolor rgb shade[s], "
    eval "plot ".lines.dots.sprintf("$s%d using 1:(($12 - $8) / u) with lines linewidth 1.8 \
        linecolor rgb shade[s]", s)
    unset arrow; unset label
}
unset multiplot
