# title.gp - the finding in bold, in lines of about one length; below it, in grey, how the run was
# set up. Leaves in `top` where the chart may begin.
room = 86 # letters that fit in one line
parts = strlen(title) <= room ? 1 : 2; title_lines = parts + 1; whole = title
do for [try = 1:3] {
    if (title_lines > parts && parts < 5) { # not yet, or not in as few lines
        parts = try == 1 ? parts : parts + 1
        rest = whole; title = ""; title_lines = 1
        do for [k = 1:parts] {
            aim = k < parts ? strlen(rest) / (parts - k + 1) : room # the nearest blank to that
            cut = 0; inside = 0; badness = 1000
            do for [i = 1:(strlen(rest) < room + 1 ? strlen(rest) : room + 1)] {
                # no line begins with a unit, and brackets stay together where they can
                inside = inside + (rest[i:i] eq "(" ? 1 : rest[i:i] eq ")" ? -1 : 0)
                if (rest[i:i] eq " " && strstrt("KMG%B", rest[i + 1:i + 1]) == 0 && \
                    abs(i - aim) + (inside > 0 ? 15 : 0) < badness) {
                    cut = i; badness = abs(i - aim) + (inside > 0 ? 15 : 0)
                }
            }
            if ((k < parts || strlen(rest) > room) && cut > 0) {
                title = title.rest[1:cut - 1]."\n"; rest = rest[cut + 1:*]; title_lines = title_lines + 1
            }
        }
    }
}
title = title.(strlen(rest) > room ? rest[1:room - 3]."..." : rest)
if (strlen(settings) > 150) { settings = settings[1:147]."..." }
set label 1001 title at screen 18.0 / wide, 1 - 29.0 / tall left font bold(14) textcolor rgb black
set label 1002 settings at screen 18.0 / wide, 1 - (29.0 + 28 * title_lines) / tall left \
    font plain(10) textcolor rgb grey
top = 1 - (58.0 + 28 * title_lines) / tall
