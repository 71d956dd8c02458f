# models.gp - peak reserved by model and policy, and what each saves or costs against torch.
#
#     memtrace plot models SWEEP.dat OUT.png
#
# Of a table such as
# `memtrace sweep --model gpt2,gpt2-medium,gpt2-large,gpt2-xl --policy torch,block:2MiB,bfc`.
chart = ARG0; count = ARGC
array word_of[9] = [ARG1, ARG2, ARG3, ARG4, ARG5, ARG6, ARG7, ARG8, ARG9]
here = ""; do for [i = 1:strlen(ARG0)] { here = ARG0[i:i] eq "/" ? ARG0[1:i] : here }
load here."start.gp"
scripts = "sweep.awk models.awk"; name = "r"; load here."read.gp"
if (left_out ne "") { settings = left_out.",  ".settings }
tall = 220 + 60 * policies
tall = tall < 400 ? 400 : tall > 760 ? 760 : tall
load here."style.gp"
title = sprintf("At %s %s", plural(tokens, "token"), finding)
load here."title.gp"

# A row for each policy, a column for each model; in each cell two lines of words over a bar.
y1 = top - 54.0 / tall; y0 = y1 - 66.0 / tall * policies
y0 = y0 < 46.0 / tall ? 46.0 / tall : y0
set lmargin at screen 0.238
set rmargin at screen 0.995
set tmargin at screen y1
set bmargin at screen y0
set xrange [0:models]
set yrange [policies:0]
unset grid
unset key
set border 0
set tics scale 0
unset xtics
policy_font = plain(10.5)
set ytics ("" 0) font policy_font
do for [i = 1:policies] {
    set ytics add (value("policy".i) i - 0.5)
    if (i > 1) {
        set arrow 20 + i from screen 0.018, first i - 1 to graph 1, first i - 1 nohead \
            linewidth 0.6 linecolor rgb "#DDDDDD"
    }
}
do for [m = 1:models] {
    set label 50 + m value("model_title".m) at first m - 1 + 0.02, screen y1 + 37.0 / tall left font bold(11)
    set label 60 + m "requested ".value("requested".m) at first m - 1 + 0.02, screen y1 + 16.0 / tall left \
        font plain(10) textcolor rgb grey
}
set label 70 "bars: reserved over the peak of requested, each model to a scale of its own" \
    at graph 0.0, screen y0 - 22.0 / tall left font plain(10) textcolor rgb grey
words_colour(kind) = kind == 1 ? ink_blue : kind == 2 ? ink_vermillion : 0x6E6E6E
shade(kind) = kind == 1 ? 0x0072B2 : kind == 2 ? 0xD55E00 : 0xA8A8A8
bold_font = bold(10.5); small_font = plain(models > 4 ? 8.5 : 9.5)
set output out
plot $bar using ($1 - 1):($2 - 0.5):($1 - 0.98):($1 - 0.98 + 0.9 * $3):\
                ($2 - 0.26):($2 - 0.06):(shade($4)) with boxxyerror \
         fillstyle solid 1 noborder linecolor rgb variable, \
     $bar using ($1 - 0.98):($2 - 0.82):5 with labels left font bold_font, \
     $bar using ($1 - 0.98):($2 - 0.5):6:(words_colour($4)) with labels left font small_font \
         textcolor rgb variable
