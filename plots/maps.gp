# maps.gp - what the segments of up to four runs hold after the same token, side by side.
#
#     memtrace plot maps [TOKEN] A.trace [B.trace ... up to 4] OUT.png
#
# TOKEN is the last that all reached, if it is not given.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
load here."style.gp"

# The last token of each, the least of them, and a command that prints all traces.
all = ""; least = -1
do for [s = 1:runs] {
    file = given[s]; load here."file.gp"
    reached = int(system(lines." | LC_ALL=C awk '$2 == \"mark\" && $3 >= 0 { t = $7 } END { print t + 0 }'"))
    least = least < 0 || reached < least ? reached : least
    all = all.lines."; echo; echo '(next)'; "
}
token = token > 0 ? token : least
scripts = "trace.awk maps.awk"; load here."awk.gp"
load sprintf("< { %s } 2> /dev/null | %s -v token=%d", all, awk, token)
if (bad ne "") { printerr (bad_trace > 0 ? given[bad_trace].": " : "").bad; exit status 2 }
get(s, what) = value(sprintf("m%d_%s", s, what))

of(s, key) = get(s, "option_".key)
keys = "policy kv model dtype activations workspace batch"; rare = "prompt backend ctx"
load here."names.gp"
settings = sprintf("a row is %s of addresses; each line down begins a segment,  ", bytes(row_bytes)).settings
do for [s = 1:runs] { title_of[s] = cut(title_of[s], 36) }

# The finding: reserved, in rising order.
array order[4]
do for [s = 1:runs] {
    order[s] = s
    do for [i = s:2:-1] {
        if (get(order[i], "reserved") < get(order[i - 1], "reserved")) {
            swap = order[i]; order[i] = order[i - 1]; order[i - 1] = swap
        }
    }
}
who = m1_model_name
do for [s = 2:runs] { who = get(s, "model_name") eq who ? who : "GPT-2" }
title = sprintf("%s at %s: ", who, plural(token, "token"))
do for [i = 1:runs] {
    s = order[i]
    title = title.(i == 1 ? "" : ", ").title_of[s].(i == 1 ? " reserves " : " ").bytes(get(s, "reserved"))
}
do for [s = 1:runs] { if (get(s, "ending") ne "") { title = title."; ".title_of[s].": ".get(s, "ending") } }
load here."title.gp"

y1 = top - 0.175; y0 = 0.03
set lmargin at screen 0.018
set rmargin at screen 0.985
set tmargin at screen y1
set bmargin at screen y0
columns = runs < 2 ? 2 : runs
set xrange [0:columns]
set yrange [(rows < 4 ? 4 : rows):0]
set border 0
unset tics
unset grid
wide_of = 0.94
do for [s = 1:runs] {
    set label 10 + s title_of[s] at first s - 1, screen y1 + 0.107 left \
        font bold(fitting(11, title_of[s], 100.0 / columns))
    set label 20 + s sprintf("%s in %s\nsplit %s, cached %s\nrounding %s", bytes(get(s, "reserved")), \
        plural(get(s, "segments"), "segment"), bytes(get(s, "split")), bytes(get(s, "cached")), \
        bytes(get(s, "rounding"))) at first s - 1, screen y1 + 0.08 left font plain(9.5) \
        textcolor rgb "#404040"
}
key_font = plain(10.5)
set key at screen 0.012, top + 0.012 top left Left reverse horizontal maxrows 1 samplen 1.2 width -1 \
    font key_font
boxes(kind, colour, words) = value("has_".kind) == 0 ? "" : \
    sprintf("$%s using ($1 - 1):4:($1 - 1 + wide_of * $2):($1 - 1 + wide_of * $3):($4 + 0.05):($4 + 0.95) \
        with boxxyerror fillstyle solid 1 noborder fillcolor rgb '%s' %s, ", kind, colour, \
        value("seen_".kind) ? "title '".words."'" : "notitle")
set output out
eval "plot ".boxes("cached", c_cached, "cached")\
            .boxes("split", c_split, "split")\
            .boxes("rounding", c_rounding, "rounding")\
            .boxes("weights", "#8C8C8C", "weights, folded")\
            .boxes("other", c_other, "other")\
            .boxes("workspace", c_workspace, "workspace")\
            .boxes("activations", c_activations, "activations")\
            .boxes("logits", c_logits, "logits")\
            .boxes("kv", c_kv, "kv")\
            ."$edges using ($1 - 1 + wide_of * $2):($3 + 0.05):(0):(0.9) with vectors nohead linewidth 1.6 \
                linecolor rgb black notitle"
