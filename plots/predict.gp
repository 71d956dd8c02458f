# predict.gp - what PyTorch would reserve under several settings, token by token.
#
#     memtrace plot predict A.tsv [B.tsv ... up to 6] OUT.png
#
# Of outputs of `memtrace predict`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
load here."series.gp"
scripts = "predict.awk"
do for [s = 1:runs] { file = given[s]; name = sprintf("s%d", s); load here."read.gp" }
get(s, what) = value(sprintf("s%d_%s", s, what))
who = s1_model_name
do for [s = 2:runs] { who = get(s, "model_name") eq who ? who : "GPT-2" }
of(s, key) = get(s, "option_".key)
keys = "policy cache model dtype attn batch prompt_tokens torch cc"; rare = "layers heads width workspace"
load here."names.gp"
do for [s = 1:runs] { title_of[s] = cut(title_of[s], 44) }

# The finding: reserved at the end of each.
least = 1; most = 1; left = s1_left; right = s1_right; top_of_all = 0.0; low_of_all = s1_allocated
same_end = 1
do for [s = 1:runs] {
    if (get(s, "reserved") < get(least, "reserved")) { least = s }
    if (get(s, "reserved") > get(most, "reserved")) { most = s }
    if (get(s, "right") != s1_right) { same_end = 0 }
    left = get(s, "left") < left ? get(s, "left") : left
    right = get(s, "right") > right ? get(s, "right") : right
    top_of_all = get(s, "top") > top_of_all ? get(s, "top") : top_of_all
    low_of_all = get(s, "low") < low_of_all ? get(s, "low") : low_of_all
}
at = same_end ? sprintf("at %d %s", int(s1_right), s1_right == 1 ? "token" : "tokens") : "at the end"
one = who eq s1_model_name ? sprintf("%s %s: %s allocated; ", who, at, bytes(s1_allocated)) : who." ".at.": "
more = s1_allocated <= 0 ? "" : \
    sprintf(", %.0f %% more", 100.0 * (s1_reserved - s1_allocated) / s1_allocated)
title = runs == 1 ? one.bytes(s1_reserved)." reserved".more."; reserved ".s1_bumps_words : \
    get(least, "reserved") == get(most, "reserved") ? one.bytes(s1_reserved)." reserved with each setting" : \
    one.sprintf("reserved %s (%s)", bytes(get(least, "reserved")), title_of[least])\
    .(least == 1 || most == 1 ? "" : sprintf(", %s (%s)", bytes(s1_reserved), title_of[1]))\
    .sprintf(", %s (%s)", bytes(get(most, "reserved")), title_of[most])
do for [s = 1:runs] {
    if (get(s, "ending") ne "") {
        title = title.sprintf("; %s: %s after %d tokens", title_of[s], get(s, "ending"), get(s, "right"))
    }
}
load here."title.gp"

# When one takes far more than another, the upper chart shows all on a logarithmic axis and the
# lower one those that stay near the smallest.
wide_range = top_of_all > 3 * get(least, "top")
near = wide_range ? 0.0 : top_of_all
do for [s = 1:runs] {
    if (wide_range && get(s, "top") < 1.6 * get(least, "top") && get(s, "top") > near) { near = get(s, "top") }
}
x1 = 0.64
set lmargin at screen 0.1
set rmargin at screen x1
set xrange [left:right]
if (right - left < 10) { set xtics 1 }
unset key

# The legend: a piece of each line, its name, what it came to.
step = runs > 4 ? 0.102 : 0.115
do for [s = 1:runs] {
    y = top - 0.022 - step * (s - 1)
    eval sprintf("set arrow %d from screen x1 + 0.018, y to screen x1 + 0.052, y nohead %s", s, line_look(s))
    set label s title_of[s] at screen x1 + 0.06, y left font plain(fitting(11, title_of[s], 35))
    set label 10 + s sprintf("reserved %s\n%s", bytes(get(s, "reserved")), get(s, "bumps_words")) \
        at screen x1 + 0.06, y - 0.034 left font plain(10) textcolor rgb grey
}
y = top - 0.022 - step * runs
set arrow 9 from screen x1 + 0.018, y to screen x1 + 0.052, y nohead linewidth 2 dashtype 2 \
    linecolor rgb c_requested
set label 9 "allocated".(runs == 1 ? "" : " by the first") at screen x1 + 0.06, y left font plain(11)
set label 19 bytes(s1_allocated) at screen x1 + 0.06, y - 0.034 left font plain(10) textcolor rgb grey

set output out
set multiplot
drawn = ""
do for [s = 1:runs] {
    drawn = drawn.sprintf("$s%d using 1:($3 / u) with lines %s notitle, ", s, line_look(s))
}
dots = ""
do for [s = 1:runs] {
    if (get(s, "bumps") > 0 && get(s, "bumps") <= 100) {
        dots = dots.sprintf("$s%d_dots using 1:($2 / u) with points pointtype 7 pointsize 0.7 * dot \
            linecolor rgb '%s' notitle, ", s, colour[s])
    }
}
allocated = "$s1 using 1:($2 / u) with lines linewidth 2 dashtype 2 linecolor rgb c_requested notitle"
if (wide_range) {
    u = 1.0
    set logscale y 2
    set yrange [low_of_all / 1.15:top_of_all * 1.15]
    set label 30 "reserved (log)" at screen 0.02, (top + 0.545) / 2 center rotate
    set format y ""
    set ytics 1, 2
    do for [i = 20:50] {
        set ytics add ((i < 30 ? sprintf("%d MiB", 2 ** (i - 20)) : sprintf("%d GiB", 2 ** (i - 30))) 2.0 ** i)
    }
    set format x ""
    set tmargin at screen top
    set bmargin at screen 0.545
    eval "plot ".drawn.allocated
    unset arrow; unset label
    unset logscale y
    set ytics auto
    set format xy "%g"
}
u = unit(near)
set yrange [(low_of_all - 0.06 * (near - low_of_all + MiB)) / u:(near + 0.06 * (near - low_of_all + MiB)) / u]
set label 31 "reserved, ".unit_name(near) at screen 0.02, ((wide_range ? 0.505 : top) + 0.115) / 2 center rotate
set xlabel "tokens"
set tmargin at screen wide_range ? 0.505 : top
set bmargin at screen 0.115
eval "plot ".drawn.dots.allocated
unset multiplot
