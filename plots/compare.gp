# compare.gp - reserved and requested of two runs.
#
#     memtrace plot compare A.dat B.dat OUT.png
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"
scripts = "table.awk"
do for [s = 1:2] { file = given[s]; name = s == 1 ? "a" : "b"; load here."read.gp" }
of(s, key) = value((s == 1 ? "a" : "b")."_option_".key)
keys = "policy kv model dtype activations workspace ctx batch prompt"; rare = "backend capacity"
load here."names.gp"
name_a = cut(title_of[1], 90); name_b = cut(title_of[2], 90)

# The finding: reserved at the last token that both reached; each at its end when there is none.
right = a_right < b_right ? a_right : b_right
left = a_left > b_left ? a_left : b_left
both = a_axis eq b_axis && right > left
i = 2 * int(a_rows); j = 2 * int(b_rows) # the right ends of the last rows
if (both) {
    while (i > 2 && word($a[i], 1) + 0 > right) { i = i - 2 }
    while (j > 2 && word($b[j], 1) + 0 > right) { j = j - 2 }
}
at_a = word($a[i], 12) + 0.0; at_b = word($b[j], 12) + 0.0
where = !both ? "at their ends" : "at ".(a_right == right ? a_end : b_end)
if (at_a == at_b) {
    title = sprintf("%s and %s: both reserve %s %s", name_a, name_b, bytes(at_a), where)
} else {
    more = at_a > at_b
    title = sprintf("%s reserves %s less than %s %s: %s against %s", more ? name_b : name_a, \
                    bytes(abs(at_a - at_b)), more ? name_a : name_b, where, \
                    bytes(more ? at_b : at_a), bytes(more ? at_a : at_b))
}
if (a_ending ne "") { title = title."; ".name_a.": ".a_ending." after ".a_end }
if (b_ending ne "") { title = title."; ".name_b.": ".b_ending." after ".b_end }
load here."title.gp"

# The axis starts a little below the smaller weights, unless they are a small part.
high = a_top_reserved > b_top_reserved ? a_top_reserved : b_top_reserved
low = a_weights < b_weights ? a_weights : b_weights
rest = high - low
low = low > 0.4 * rest ? low - 0.04 * rest : 0.0
high = high + 0.05 * (high > low ? high - low : MiB)
u = unit(high)

first = a_left < b_left ? a_left : b_left; last = a_right > b_right ? a_right : b_right
set xrange [first:last]
set yrange [low / u:high / u]
set xlabel a_axis
if (last - first < 10) { set xtics 1 }
set ylabel unit_name(high).(low > 0 ? " (the axis starts at ".bytes(low).")" : "")
# The same requests are drawn once.
same = int(a_rows) == int(b_rows)
do for [i = 1:2 * int(a_rows)] { same = same && word($a[i], 8) eq word($b[same ? i : 1], 8) }
requested_a = "$a using 1:($8 / u) with lines linewidth 2.5 dashtype (12, 5) linecolor rgb '".\
    (same ? black : blue)."' title '".(same ? "both" : name_a).": requested ".bytes(a_requested)."'"
requested_b = same ? "" : ", $b using 1:($8 / u) with lines linewidth 1.8 dashtype (3, 4) \
    linecolor rgb vermillion title '".name_b.": requested ".bytes(b_requested)."'"
set lmargin at screen 0.09
set rmargin at screen 0.985
set bmargin at screen 0.115
one_column = strlen(name_a) > 18 || strlen(name_b) > 18
set tmargin at screen top - (!one_column ? 0.085 : same ? 0.12 : 0.15)
key_font = plain(11)
set key at screen 0.09, top + 0.005 top left Left reverse horizontal \
    maxrows (one_column ? 4 : 2) samplen 3 width 2 \
    spacing 1.25 font key_font
name = "a"; load here."ending.gp"
name = "b"; load here."ending.gp"
set output out
eval "plot $a using 1:($12 / u) with lines linewidth 3 linecolor rgb blue \
          title '".name_a.": reserved ".bytes(a_reserved)."', ".\
     (same ? "" : requested_a.", ")."$b using 1:($12 / u) with lines linewidth 1.8 linecolor rgb vermillion \
          title '".name_b.": reserved ".bytes(b_reserved)."'".(same ? ", ".requested_a : requested_b)
