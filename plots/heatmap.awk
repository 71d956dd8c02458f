# heatmap.awk - overhead by policy and KV strategy, for heatmap.gp; after sweep.awk.
#
# sets  policies, kvs        numbers of rows and columns; policy1 ..., kv1 ... their names,
#       calls1 ...           the most driver calls of each policy
#       $cell                column, row, percent, and "percent" and "bytes" in words
#       $best                column and row of the least in each column
#       low, high            of percents above 0
#       finding              in words

END {
    if (bad != "") { finish(); exit }
    for (c in varies)
        if (varies[c] && c != "policy" && c != "kv") {
            bad = "several values of " c ": sweep only policies and strategies"; finish(); exit
        }
    for (r = 1; r <= rows; r++) {
        p = at[r, "policy"]; k = at[r, "kv"]
        if (!(p in row)) { row[p] = ++policies; policy[policies] = p }
        if (!(k in col)) { col[k] = ++kvs; kv[kvs] = k }
        i = row[p]; j = col[k]
        if ((i, j) in of) { bad = "two rows for " p " with " k; finish(); exit }
        of[i, j] = r; v = 100 * over[r] / optimum[r]; sum[i] += v; n[i]++
        if (at[r, "calls"] > calls[i] + 0) calls[i] = at[r, "calls"] + 0
        if (v > 0 && (!low || v < low)) low = v
        if (v > high) high = v
        if (!(j in best) || over[r] < over[best[j]]) { best[j] = r }
    }
    if (policies > 24 || kvs > 6) {
        bad = policies " policies, " kvs " strategies: at most 24 and 6 have room"; finish(); exit
    }
    printf "policies = %d\nkvs = %d\nlow = %.6g\nhigh = %.6g\n", policies, kvs, low + 0, high + 0
    for (i = 1; i <= policies; i++)
        printf "policy%d = '%s'\ncalls%d = '%s'\n", i, safe(policy[i], 32), i, counted(calls[i])
    for (j = 1; j <= kvs; j++) printf "kv%d = '%s'\n", j, safe(kv[j], 20)
    print "$cell << END_OF_CELL"
    for (i = 1; i <= policies; i++)
        for (j = 1; j <= kvs; j++) {
            if (!((i, j) in of)) continue
            r = of[i, j]
            printf "%d %d %.6g \"%s\" \"%s\"\n", j, i, 100 * over[r] / optimum[r], \
                   percent_words(over[r], optimum[r]), in_words(over[r])
        }
    print "END_OF_CELL\n$best << END_OF_BEST"
    for (j = 1; j <= kvs; j++) print j, row[at[best[j], "policy"]]
    print "END_OF_BEST"
    # By the mean percentage, of the policies that ran with every strategy.
    for (i = 1; i <= policies; i++) {
        if (n[i] < kvs) continue
        full++
        if (!one || sum[i] < sum[one]) { two = one; one = i }
        else if (!two || sum[i] < sum[two]) two = i
        if (!last || sum[i] > sum[last]) last = i
    }
    if (full < 2) { # no policy to compare with
        best_row = worst_row = 1
        for (r = 2; r <= rows; r++) {
            if (over[r] / optimum[r] < over[best_row] / optimum[best_row]) best_row = r
            if (over[r] / optimum[r] > over[worst_row] / optimum[worst_row]) worst_row = r
        }
        finding = described(best_row) (worst_row == best_row ? "" : ", " described(worst_row)) \
                  " over the optimum"
    }
    else {
        finding = "closest to the optimum is " setting(one) " (+" percent_words(sum[one] / kvs, 100) \
                  ", " calls_words(one) ")"
        if (two && two != last)
            finding = finding ", then " setting(two) " (+" percent_words(sum[two] / kvs, 100) ", " \
                      counted(calls[two]) ")"
        finding = finding "; farthest is " setting(last) " (+" percent_words(sum[last] / kvs, 100) ")"
    }
    printf "finding = '%s'\n", safe(finding, 400)
    finish()
}
function described(r) {
    return at[r, "policy"] " with " at[r, "kv"] " is " percent_words(over[r], optimum[r])
}
function calls_words(i) { return counted(calls[i]) (calls[i] == 1 ? " driver call" : " driver calls") }
