# style.gp - what all charts share: colours, words for bytes, the terminal.
#
# A chart loads this file after start.gp. In the end it sets `title` and `settings`, loads title.gp,
# sets the output and draws: until its input has been read and found good, nothing is written. A chart
# that needs another height than 640 pixels sets `tall` first.
wide = 1000
if (!exists("tall")) { tall = 640 }

# Okabe and Ito's colours, which stay apart in colour-blindness. What lies on each other in a chart also
# differs in lightness: from KV (dark) over rounding and split to cached (pale).
black = "#000000"; grey = "#6E6E6E"; faint = "#ECECEC"
orange = "#E69F00"; sky = "#56B4E9"; green = "#009E73"; yellow = "#F0E442"
blue = "#0072B2"; vermillion = "#D55E00"; purple = "#CC79A7"

c_weights = "#A8A8A8"; c_kv = blue; c_activations = vermillion; c_logits = purple
c_workspace = green; c_other = yellow
c_rounding = "#CC8400"; c_split = "#7DBDE8"; c_cached = "#E2E2E2"
ink_blue = 0x0072B2; ink_vermillion = 0xB04A00 # dark enough for words
c_reserved = black; c_requested = "#00344F"

# Bytes in words, and the unit of an axis that has to hold `most` bytes. A chart whose axis is in
# GiB sets from_gib to GiB.
KiB = 2.0**10; MiB = 2.0**20; GiB = 2.0**30
from_gib = 4 * GiB
size(b) = b >= from_gib ? sprintf("%.2f GiB", b / GiB) : \
          b >= MiB / 10 ? sprintf("%.1f MiB", b / MiB) : \
          b >= KiB ? sprintf("%.1f KiB", b / KiB) : sprintf("%.0f B", b)
bytes(b) = b < 0 ? "-".size(-b) : size(b)
signed(b) = b < 0 ? "-".size(-b) : "+".size(b)
unit(most) = most >= 4 * GiB ? GiB : most >= MiB ? MiB : KiB
unit_name(most) = most >= 4 * GiB ? "GiB" : most >= MiB ? "MiB" : "KiB"
percent(part, whole) = \
    whole <= 0 ? "" : \
    part >= 2 * whole ? sprintf(" (%.1f times as much)", part / whole) : \
    part < 0.0005 * whole ? " (less than 0.1 %)" : \
    sprintf(part < 0.0995 * whole ? " (%.1f %%)" : " (%.0f %%)", 100.0 * part / whole)
plural(n, word) = sprintf("%d %s%s", int(n), word, n == 1 ? "" : "s")

# The terminal, by the ending of the output.
ending = strlen(out) > 4 ? out[strlen(out) - 3:strlen(out)] : ""
if (ending ne ".png" && ending ne ".svg" && ending ne ".pdf") {
    printerr out.": the name must end in .png, .svg or .pdf"; exit status 2
}
terminal = ending eq ".png" ? "pngcairo" : ending eq ".svg" ? "svg" : "pdfcairo"
if (!strstrt(GPVAL_TERMINALS." ", " ".terminal." ")) {
    printerr out.": this gnuplot has no ".terminal." terminal"; exit status 2
}
if (ending eq ".png") {
    set terminal pngcairo noenhanced size wide, tall background "#FFFFFF" font "DejaVu Sans,12"
}
if (ending eq ".svg") {
    set terminal svg noenhanced size wide, tall background "#FFFFFF" font "DejaVu Sans,16"
}
if (ending eq ".pdf") {
    set terminal pdfcairo noenhanced size wide / 96.0 in, tall / 96.0 in background "#FFFFFF" \
        font "DejaVu Sans,12" fontscale 0.75
}

# Fonts and points of one size in all terminals; screen coordinates of pixels from the lower left.
points = ending eq ".svg" ? 4.0 / 3 : 1.0
plain(size) = sprintf("DejaVu Sans,%.1f", size * points)
# (The svg terminal knows no bold; it writes font-family="NAME".)
bold_name = ending eq ".svg" ? 'DejaVu Sans" font-weight="bold' : "DejaVu Sans:Bold"
bold(size) = sprintf("%s,%.1f", bold_name, size * points)
dot = ending eq ".svg" ? 0.62 : 1.0
set xlabel offset 0, ending eq ".svg" ? 0.7 : 0
pixel_x(p) = ending eq ".png" ? (p + 0.5) / (wide - 1) : p / (1.0 * wide)
pixel_y(p) = ending eq ".png" ? (p + 0.5) / (tall - 1) : p / (1.0 * tall)

# "-.png" is the standard output.
if (out eq "-".ending) { out = "/dev/stdout" }
word = out; load here."quote.gp"
folder = "d=$(dirname -- ".word.") && test -d \"$d\" && test -w \"$d\""
if (out ne "/dev/stdout" && system(folder." && test ! -d ".word." && echo ok") ne "ok") {
    printerr out.": cannot be written"; exit status 2
}

set border 3 linewidth 1 linecolor rgb grey
set tics nomirror out scale 0.6 textcolor rgb "#303030"
set grid linetype 1 linewidth 0.6 linecolor rgb "#DDDDDD"
