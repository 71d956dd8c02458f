# maps.gp - what the segments of up to four runs hold after the same token, side by side.
#
#     gnuplot -c plots/maps.gp A.trace [B.trace ...] OUT.png [TOKEN]
#
# TOKEN is the last that all reached, if it is not given.
array given[6] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6]
runs = ARGC - 1; token = 0; out = ARGC > 0 ? given[ARGC > 6 ? 6 : ARGC] : ""
if (ARGC > 2 && ARGC < 7) {
    digits = 1
    do for [i = 1:strlen(out)] { digits = strstrt("0123456789", out[i:i]) == 0 ? 0 : digits }
    if (digits) { token = int(out); out = given[ARGC - 1]; runs = ARGC - 2 }
}
if (runs < 1 || runs > 4) {
    printerr "usage: gnuplot -c plots/maps.gp A.trace [B.trace ... up to 4] OUT.png|.svg|.pdf [TOKEN]"
    exit status 2
}
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."style.gp"

# The last token of each, the least of them, and a command that prints all traces.
all = ""; least = -1
array data_of[4]
do for [s = 1:runs] {
    file = given[s]; load here."file.gp"; data_of[s] = data
    reached = int(system(lines." | LC_ALL=C awk '$2 == \"mark\" && $3 >= 0 { t = $7 } END { print t + 0 }'"))
    least = least < 0 || reached < least ? reached : least
    all = all.lines."; echo; echo '(next)'; "
}
token = token > 0 ? token : least
script = "maps.awk"; load here."awk.gp"
load sprintf("< { %s } 2> /dev/null | %s -v token=%d", all, awk, token)
if (bad ne "") { printerr (bad_trace > 0 ? given[bad_trace].": " : "").bad; exit status 2 }
get(s, what) = value(sprintf("m%d_%s", s, what))

# What the headers say alike is the settings line; what they say differently names the panels.
array header[9] = ["policy", "model", "dtype", "kv", "activations", "workspace", "ctx", "batch", "prompt"]
array title_of[4]
do for [s = 1:runs] { title_of[s] = "" }
settings = sprintf("a row is %s of addresses; each line down begins a segment", bytes(row_bytes))
do for [i = 1:9] {
    key = header[i]; differs = runs == 1 && key eq "policy"
    do for [s = 2:runs] { differs = get(s, "option_".key) ne get(1, "option_".key) ? 1 : differs }
    do for [s = 1:runs] {
        v = get(s, "option_".key); v = v eq "" ? "?" : v
        v = strlen(v) > 6 && v[1:6] eq "torch," ? v[7:*] : v
        if (differs) {
            title_of[s] = title_of[s].(title_of[s] eq "" ? "" : ", ").(key eq "policy" ? "" : key." ").v
        }
    }
    if (!differs && get(1, "option_".key) ne "" && key ne "prompt" && key ne "ctx") {
        settings = settings.",  ".key." ".get(1, "option_".key)
    }
}
cut(s) = strlen(s) > 24 ? s[1:21]."..." : s
do for [s = 1:runs] {
    if (title_of[s] eq "") { title_of[s] = system("basename -- ".data_of[s]) }
    title_of[s] = cut(title_of[s])
}

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
    set label 10 + s title_of[s] at first s - 1, screen y1 + 0.107 left font bold(columns > 3 ? 10 : 11)
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
        with boxxyerror fillstyle solid 1 noborder fillcolor rgb '%s' title '%s', ", kind, colour, words)
set output out
eval "plot ".boxes("cached", "#E3E3E3", "cached")\
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
