# models.awk - reserved by model and policy, for models.gp; after sweep.awk.
#
# sets  models, policies     numbers
#       model_title1 ..., requested1 ...       of each model; the peak of requested in words
#       policy1 ...          their names
#       $bar                 of each row: model, policy, reserved over requested as a part of the
#                            largest of its model, 0 the base, 1 saves, 2 costs, 3 the same,
#                            "reserved", "what is saved against the base"
#       tokens               of context
#       finding              in words

END {
    if (bad != "") { finish(); exit }
    for (c in varies)
        if (varies[c] && c != "policy" && c != "model") {
            bad = "several values of " c ": sweep only policies and models"; finish(); exit
        }
    for (r = 1; r <= rows; r++) {
        p = at[r, "policy"]; m = at[r, "model"]
        if (p == "torch") have_torch = 1
        if (!(m in number)) { number[m] = ++models; model[models] = m }
    }
    if (have_torch) { row["torch"] = ++policies; policy[1] = "torch" }
    for (r = 1; r <= rows; r++) {
        p = at[r, "policy"]; m = number[at[r, "model"]]
        if (!(p in row)) { row[p] = ++policies; policy[policies] = p }
        if ((row[p], m) in of) { bad = "two rows for " p " with " at[r, "model"]; finish(); exit }
        of[row[p], m] = r
        above[r] = at[r, "peak_reserved"] - at[r, "optimum_low"]
        if (above[r] > largest[m] + 0) largest[m] = above[r]
    }
    if (policies > 9 || models > 5) {
        bad = policies " policies, " models " models: at most 9 and 5 have room"; finish(); exit
    }
    printf "models = %d\npolicies = %d\ntokens = %d\n", models, policies, at[1, "ctx"]
    print "$bar << END_OF_BAR"
    for (i = 1; i <= policies; i++)
        for (m = 1; m <= models; m++) {
            if (!((i, m) in of)) continue
            r = of[i, m]; kind = 0; words = i > 1 || policies == 1 ? "" : "baseline"
            if (i > 1 && ((1, m) in of)) {
                b = at[of[1, m], "peak_reserved"]; saved = b - at[r, "peak_reserved"]
                percent = 100 * saved / b
                kind = saved > 0 ? 1 : saved < 0 ? 2 : 3
                words = saved == 0 ? "the same" : (saved > 0 ? "saves " in_words(saved) : \
                        "costs " in_words(-saved)) " (" share(percent) " %)"
                if (!n[i] || percent < lo[i]) { lo[i] = percent; lo_model[i] = m }
                if (!n[i] || percent > hi[i]) { hi[i] = percent; hi_model[i] = m }
                n[i]++; sum[i] += percent
            }
            printf "%d %d %.5f %d \"%s\" \"%s\"\n", m, i, largest[m] ? above[r] / largest[m] : 0, \
                   kind, in_words(at[r, "peak_reserved"]), words
        }
    print "END_OF_BAR"
    for (i = 1; i <= policies; i++) printf "policy%d = '%s'\n", i, safe(setting(i), 28)
    for (m = 1; m <= models; m++) {
        for (i = 1; !((i, m) in of); i++) continue
        option["model"] = model[m]
        printf "model_title%d = '%s'\nrequested%d = '%s'\n", m, model_name(), m, \
               in_words(at[of[i, m], "optimum_low"])
    }
    for (i = 2; i <= policies; i++) {
        if (n[i] < models) continue
        if (!best || sum[i] > sum[best]) best = i
        if (!worst || sum[i] < sum[worst]) worst = i
    }
    option["model"] = model[1]
    if (!best) {
        finding = setting(1) " reserves " in_words(at[of[1, 1], "peak_reserved"]) " for " model_name()
        for (m = 2; m <= models; m++) if ((1, m) in of) {
            option["model"] = model[m]
            finding = finding ", " in_words(at[of[1, m], "peak_reserved"]) " for " model_name()
        }
    }
    else {
        finding = against(best) " vs. " setting(1)
        if (worst != best) finding = finding "; " against(worst)
    }
    printf "finding = '%s'\n", safe(finding, 300)
    finish()
}
function share(p) {
    if (p < 0) p = -p
    return sprintf(p < 0.095 ? "%.2f" : p < 9.95 ? "%.1f" : "%.0f", p)
}
function range(a, b) { # 16 to 60 %
    a = share(a); b = share(b)
    return (a == b ? a : a " to " b) " %"
}
function against(i,    name) {
    name = setting(i)
    if (lo[i] == 0 && hi[i] == 0) return name " saves nothing"
    if (lo[i] >= 0) return name " saves " range(lo[i], hi[i])
    if (hi[i] <= 0) return name " costs " range(hi[i], lo[i])
    return name " saves " share(hi[i]) " % with " model[hi_model[i]] " and costs " share(lo[i]) \
           " % with " model[lo_model[i]]
}
