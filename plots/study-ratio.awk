# study-ratio.awk - what is spared by context, for study-ratio.gp; after study.awk.
#
# sets  $row                 of each context: context, ratio of FLOPs with all logits, with the last
#                            only, ratio of time, its least and most
#       left, right          of the axis of contexts; low, high of that of ratios
#       xtics_words, ytics_words
#       all_key, last_key, time_key

function grow(x) {
    if (x <= 0) return
    if (!low || x < low) low = x
    if (x > high) high = x
}

END {
    if (!ready(1)) exit
    print "$row << END_OF_ROW"
    for (r = 1; r <= rows; r++) {
        all = at[r, "flops_ratio_all"]; only = at[r, "flops_ratio_last"]; time = at[r, "time_ratio"]
        least = at[r, "uncached_least"] / at[r, "cached_most"]
        most = at[r, "cached_least"] > 0 ? at[r, "uncached_most"] / at[r, "cached_least"] : time
        if (least <= 0 || least > time) least = time
        if (most < time) most = time
        if (all <= 0 || only <= 0 || time <= 0) { bad = "a ratio that is not above 0"; break }
        grow(all); grow(only); grow(least); grow(most)
        printf "%d %.6g %.6g %.6g %.6g %.6g\n", at[r, "context"], all, only, time, least, most
    }
    print "END_OF_ROW"
    if (bad != "") { printf "bad = '%s'\n", bad; exit }
    first = at[1, "context"]
    left = first; right = T
    if (T > first) { wider = exp(0.04 * log(T / first)); left /= wider; right *= wider }
    else { left /= 2; right *= 2 }
    low /= 1.3; high *= 1.3
    printf "left = %.6g\nright = %.6g\nlow = %.6g\nhigh = %.6g\n", left, right, low, high
    say("xtics_words", context_tics(1, log(right / left), 895), 4000)
    say("ytics_words", log_tics(low, high), 4000)
    all = times_words(at[last, "flops_ratio_all"]); only = times_words(at[last, "flops_ratio_last"])
    time = times_words(at[last, "time_ratio"])
    say("all_key", "FLOPs, logits of all tokens: " all " times", 80)
    say("last_key", "FLOPs, logits of the last token: " only " times", 80)
    say("time_key", "time: " time " times (" figure(at[last, "uncached_gflops"]) \
        " GFLOP/s without a cache, " figure(at[last, "cached_gflops"]) " with it)", 100)
    finding = "At " tokens " an uncached step does " (measured == "all" ? all : only) \
              " times the FLOPs of a cached one (" (measured == "all" ? only " with the last logits only" : \
              all " with all logits") ") and takes " time " times as long"
    finish()
}
