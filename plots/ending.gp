# ending.gp - marks the end of run `name` if it was cut short, at height `ending_at`.
# Its words are left of it, or right with ending_right = 1.
if (!exists("ending_at")) { ending_at = 0.985 }
if (!exists("ending_right")) { ending_right = 0 }
if (value(name."_ending") ne "") {
    end = value(name."_right")
    set arrow from end, graph 0 to end, graph 1 nohead front \
        linewidth 2 dashtype 3 linecolor rgb vermillion
    if (ending_right) {
        set label value(name."_ending") at end, graph ending_at left offset 0.7, 0 front \
            textcolor rgb vermillion font bold(11)
    } else {
        set label value(name."_ending") at end, graph ending_at right offset -0.7, 0 front \
            textcolor rgb vermillion font bold(11)
    }
}
