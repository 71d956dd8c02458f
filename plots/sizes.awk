# sizes.awk - a sweep over block:SIZE, for overhead.gp and blocks.gp; after sweep.awk.
#
# sets  sets, name1 ...      number of lines and their names
#       $set1 ...            rows of each, by size: block size, bytes over the optimum, percent of
#                            it; at the peak of reserved: rounding, split, cached, their sum,
#                            requested, reserved
#       best_size1 ...       the size with the least over the optimum of each; best_percent1,
#                            best_words1; optimum1
#       first, last          of the sizes; low, high: of percents, low above 0
#       has_rounding, has_split, has_cached    1 when some row has bytes of it
#       finding              in words, over the optimum
#       least, most          the smallest and the largest of the sums, where_least, where_most
#       least_requested, most_reserved      the smallest requested, the largest reserved

END {
    if (bad != "") { finish(); exit }
    part["rounding"]; part["split"]; part["cached"]
    for (r = 1; r <= rows; r++) {
        spec = at[r, "policy"]
        if (spec !~ /^block:/) continue
        rest = substr(spec, 7); size = rest; sub(/,.*/, "", size)
        options = substr(rest, length(size) + 1)
        block = bytes_of(size)
        if (block <= 0) { bad = "policy " spec ": no size"; finish(); exit }
        key = what(r, " policy "); if (key == "") key = at[r, "kv"]
        key = key options
        if (!(key in number)) {
            if (sets == 7) { bad = "more than 7 lines: sweep fewer strategies"; finish(); exit }
            number[key] = ++sets; names[sets] = key
        }
        s = number[key]; p = 100 * over[r] / optimum[r]
        if ((s, block) in seen) { bad = "two rows for " spec " with " key; finish(); exit }
        seen[s, block] = 1; best_of[s] = optimum[r]
        for (j = ++count[s]; j > 1 && bx[s, j - 1] > block; j--) {
            bx[s, j] = bx[s, j - 1]; bo[s, j] = bo[s, j - 1]; bp[s, j] = bp[s, j - 1]
            br[s, j] = br[s, j - 1]
        }
        bx[s, j] = block; bo[s, j] = over[r]; bp[s, j] = p; br[s, j] = r
        added[r] = at[r, "rounding"] + at[r, "split"] + at[r, "cached"]
        if (!rows_in++ || added[r] < least) { least = added[r]; least_at = s SUBSEP block }
        if (rows_in == 1 || added[r] > most) { most = added[r]; most_at = s SUBSEP block }
        if (rows_in == 1 || at[r, "peak_reserved"] - added[r] < least_requested) least_requested = at[r, "peak_reserved"] - added[r]
        if (at[r, "peak_reserved"] > most_reserved + 0) most_reserved = at[r, "peak_reserved"]
        for (i in part) if (at[r, i] > 0) holds[i] = 1
        if (!first || block < first) first = block
        if (block > last) last = block
        if (p > 0 && (!low || p < low)) low = p
        if (p > high) high = p
    }
    if (!sets) { bad = "no row with a policy block:SIZE"; finish(); exit }
    printf "sets = %d\nfirst = %.0f.0\nlast = %.0f.0\nlow = %.6g\nhigh = %.6g\n", sets, first, last, \
           low + 0, high + 0
    for (s = 1; s <= sets; s++) {
        printf "name%d = '%s'\n$set%d << END_OF_SET\n", s, safe(names[s], 40), s
        b = w = 1
        for (j = 1; j <= count[s]; j++) {
            r = br[s, j]
            printf "%.0f %.0f %.6g %.0f %.0f %.0f %.0f %.0f %.0f\n", bx[s, j], bo[s, j], bp[s, j], \
                   at[r, "rounding"], at[r, "split"], at[r, "cached"], added[r], \
                   at[r, "peak_reserved"] - added[r], at[r, "peak_reserved"]
            if (bo[s, j] <= bo[s, b]) b = j # of equals the largest, which asks the driver least
            if (bo[s, j] > bo[s, w]) w = j
        }
        print "END_OF_SET"
        printf "best_size%d = %.0f.0\nbest_percent%d = %.6g\nbest_words%d = '%s'\n", \
               s, bx[s, b], s, bp[s, b], s, \
               size_words(bx[s, b]) ": +" in_words(bo[s, b]) " (" percent_words(bp[s, b], 100) ")"
        printf "optimum%d = '%s'\n", s, in_words(best_of[s])
        if (!(bx[s, b] in with)) sizes[++kinds] = bx[s, b]
        with[bx[s, b]] = with[bx[s, b]] SUBSEP names[s]
        if (s == 1 || bp[s, w] > worst) {
            worst = bp[s, w]
            worst_words = size_words(bx[s, w]) " with " names[s] " costs " percent_words(worst, 100)
        }
    }
    for (i in part) printf "has_%s = %d\n", i, holds[i]
    printf "least = %.0f.0\nmost = %.0f.0\nwhere_least = '%s'\nwhere_most = '%s'\n", least, most, \
           where(least_at), where(most_at)
    printf "least_requested = %.0f.0\nmost_reserved = %.0f.0\n", least_requested, most_reserved
    # Which size is best for which; without the strategies when that is too long.
    for (i = 1; i <= kinds; i++) {
        for (j = i; j > 1 && sizes[j - 1] > sizes[j]; j--) {
            t = sizes[j]; sizes[j] = sizes[j - 1]; sizes[j - 1] = t
        }
    }
    for (i = 1; i <= kinds; i++) {
        n = split(substr(with[sizes[i]], 2), part, SUBSEP)
        text = size_words(sizes[i]) " for "
        for (j = 1; j <= n; j++) text = text (j == 1 ? "" : j == n ? " and " : ", ") part[j]
        which = which (i == 1 ? "" : ", ") text
    }
    if (length(which) > 130)
        which = kinds == 1 ? size_words(sizes[1]) " for all" : \
                "between " size_words(sizes[1]) " and " size_words(sizes[kinds]) ", by the cache strategy"
    if (varies["model"]) print "model_name = 'GPT-2'"
    which = first == last ? "" : "the best block size is " which "; "
    printf "finding = '%s'\n", safe(which worst_words, 400)
    finish()
}
function where(place,    p) {
    split(place, p, SUBSEP)
    return safe((sets == 1 ? "" : names[p[1]] ", ") size_words(p[2]), 60)
}
