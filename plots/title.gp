# title.gp - the finding in bold, at most two lines; below it, in grey, how the run was set up.
# Leaves in `top` where the chart may begin.
room = 98 # letters that fit in one line
title_lines = 1
if (strlen(title) > room) {
    cut = 0
    middle = strlen(title) / 2 + 8 # two lines of about the same length
    do for [i = 1:(middle < room ? middle : room)] { if (title[i:i] eq " ") { cut = i } }
    if (cut > 0) { title = title[1:cut - 1]."\n".title[cut + 1:*]; title_lines = 2 }
}
if (strlen(settings) > 156) { settings = settings[1:153]."..." }
set label 1001 title at screen 0.018, 0.958 left font bold(14) textcolor rgb black
set label 1002 settings at screen 0.018, 0.958 - 0.04 * title_lines left font plain(10.5) \
    textcolor rgb grey
top = 0.915 - 0.04 * title_lines
