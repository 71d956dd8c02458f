# study-latency.awk - latency by context, for study.gp; after study.awk.
#
# sets  $row                 of each context: context; cached ms, least, most; the same uncached
#       $bound               context, bound of the cached and of the uncached step
#       $graph               context and ms of the recorded step, if there is one
#       left, right          of the axis of contexts; low, high of that of ms
#       xtics_words, ytics_words
#       cached_key, uncached_key, cached_bound_key, uncached_bound_key, graph_key
#       ratio_key, gap       "66 times", and whether there is room for it beside the last points

function grow(ms) {
    if (ms <= 0) return
    if (!low || ms < low) low = ms
    if (ms > high) high = ms
}
function bound_key(pass,    read, compute) {
    read = at[last, pass "_read_gbs"] > 0 ? at[last, pass "_bytes"] / at[last, pass "_read_gbs"] / 1e6 : 0
    compute = peak > 0 ? at[last, pass "_computed"] / peak / 1e6 : 0
    return "at least " time_words(at[last, pass "_bound_ms"]) ": " \
           (read >= compute ? "reads at " figure(at[last, pass "_read_gbs"]) " GB/s" : \
                              "arithmetic at " figure(peak) " GFLOP/s")
}
function pass_key(pass) {
    if (repeat == 1) return pass " " time_words(at[last, pass "_ms"])
    return pass " " time_words(at[last, pass "_ms"]) " (" \
           range_words(at[last, pass "_least"], at[last, pass "_most"]) ")"
}

END {
    if (!ready(1)) exit
    n = split("cached uncached", pass)
    print "$row << END_OF_ROW"
    for (r = 1; r <= rows; r++) {
        printf "%d", at[r, "context"]
        for (p = 1; p <= n; p++) {
            ms = at[r, pass[p] "_ms"]; least = at[r, pass[p] "_least"]; most = at[r, pass[p] "_most"]
            if (least <= 0) least = ms
            grow(least); grow(most)
            printf " %.6g %.6g %.6g", ms, least, most
        }
        print ""
    }
    print "END_OF_ROW\n$bound << END_OF_BOUND"
    for (r = 1; r <= rows; r++) {
        c = at[r, "cached_bound_ms"]; u = at[r, "uncached_bound_ms"]
        grow(c); grow(u)
        line = (c > 0 ? c : "NaN") " " (u > 0 ? u : "NaN")
        if (rows > 1) print at[r, "context"], line
        else print at[r, "context"] - 0.15, line "\n" at[r, "context"] + 0.15, line
    }
    print "END_OF_BOUND\n$graph << END_OF_GRAPH"
    if (graph_ms > 0) print graph_context, graph_ms; else print "NaN NaN"
    print "END_OF_GRAPH"
    grow(graph_ms)
    first = at[1, "context"]; span = T > first ? T - first : 2
    left = T > first ? first - 0.03 * span : first - 1
    right = T + (T > first ? 0.15 * span : 1)
    low /= 1.3; high *= 1.3
    printf "left = %.6g\nright = %.6g\nlow = %.6g\nhigh = %.6g\nspan = %d\n", left, right, low, high, span
    say("xtics_words", context_tics(0, right - left, 895), 4000)
    say("ytics_words", log_tics(low, high), 4000)
    say("cached_key", pass_key("cached"), 80); say("uncached_key", pass_key("uncached"), 80)
    say("cached_bound_key", bound_key("cached"), 80); say("uncached_bound_key", bound_key("uncached"), 80)
    say("graph_key", graph_ms > 0 ? "cached, a recorded graph: " time_words(graph_ms) : "", 80)
    ratio = at[last, "time_ratio"]
    say("ratio_key", times_words(ratio) " times", 40)
    printf "gap = %d\n", (ratio > 1 && log(ratio) / log(high / low) > 0.12)
    finding = "At " tokens " a cached step takes " time_words(at[last, "cached_ms"]) ", an uncached one " \
              time_words(at[last, "uncached_ms"]) ": " times_words(ratio) " times as long"
    finish()
}
