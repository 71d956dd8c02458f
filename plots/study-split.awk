# study-split.awk - where the time of a step goes, for study-split.gp; after study.awk.
#
# sets  $cached, $uncached   a piece of a bar: number of the context, from, to (ms; percent), number of
#                            the part, its share in percent
#       cached_words, uncached_words    pieces with room for a number, of $cached_words and
#                            $uncached_words: number of the context, where, number of the part, the number
#       $total, totals       number of the context, ms of the cached step; 0: no room for them
#       pieces, name1 ..., cached1 ..., uncached1 ...    the parts, from below, and what they take at T
#       piled1 ...           0: beside the others, on the host
#       high                 of the axis of ms
#       xtics_words          contexts by number
#       at_words             "at 1000 tokens"

END {
    if (!ready(2)) exit
    parts = split("products logits attention elementwise cache allocator tracing gaps", part)
    n = split("cached uncached", pass)
    high = 0
    for (p = 1; p <= n; p++)
        for (s = 1; s <= rows; s++) {
            sum = 0
            for (i = 1; i <= parts; i++) if (piled(part[i])) sum += split_of[pass[p], s, part[i]]
            whole[pass[p], s] = sum
            if (sum <= 0) { printf "bad = 'a split of no time'\n"; exit }
            if (pass[p] == "cached" && sum > high) high = sum
        }
    high *= 1.06
    pixels = 385 # of the axes, at least
    for (p = 1; p <= n; p++) {
        printf "$%s << END_OF_PASS\n", pass[p]
        for (s = 1; s <= rows; s++) {
            from = 0
            for (i = 1; i <= parts; i++) {
                if (!piled(part[i])) continue
                x = split_of[pass[p], s, part[i]]; w = whole[pass[p], s]
                if (p == 2) x = 100 * x / w
                if (x <= 0) continue
                printf "%d %.6g %.6g %d\n", s, from, from + x, i
                room = x / (p == 1 ? high : 100) * pixels
                if (room >= 15 && rows <= 10)
                    number[p, ++numbers[p]] = sprintf("%d %.6g %d \"%.0f\"", s, from + x / 2, i, \
                                                      p == 1 ? 100 * x / w : x)
                from += x
            }
        }
        print "END_OF_PASS"
    }
    for (p = 1; p <= n; p++) {
        printf "%s_words = %d\n$%s_words << END_OF_WORDS\n", pass[p], numbers[p], pass[p]
        for (i = 1; i <= numbers[p]; i++) print number[p, i]
        print "END_OF_WORDS"
    }
    printf "totals = %d\n$total << END_OF_TOTAL\n", (rows <= 10)
    for (s = 1; s <= rows; s++) printf "%d %.6g \"%s\"\n", s, whole["cached", s], figure(whole["cached", s])
    print "END_OF_TOTAL"
    printf "pieces = %d\nhigh = %.6g\n", parts, high
    for (i = 1; i <= parts; i++) {
        say("name" i, part[i] == "products" ? "matmuls" : part[i], 20)
        printf "piled%d = %d\n", i, piled(part[i])
        for (p = 1; p <= n; p++) {
            x = split_of[pass[p], last, part[i]]
            say(pass[p] i, x > 0 ? time_words(x) : "0", 20)
            say(pass[p] "_share" i, share(x, whole[pass[p], last]), 20)
        }
    }
    say("cached_total", time_words(whole["cached", last]), 20)
    say("uncached_total", time_words(whole["uncached", last]), 20)
    keep = int((rows + 7) / 8)
    for (s = 1; s <= rows; s++)
        tics = tics (s == 1 ? "" : ", ") \
               sprintf("\"%s\" %d", (last - s) % keep == 0 ? at[s, "context"] : "", s)
    say("xtics_words", tics, 4000)
    say("at_words", "at " tokens, 40)
    finding = "At " tokens " a cached step is " largest("cached", 3) ", an uncached one " largest("uncached", 2)
    finish()
}
# What allocator and tracing take on the host runs beside the work of a device with a clock of its own.
function piled(name) { return !(own_clock && (name == "allocator" || name == "tracing")) }
function long_name(name) {
    return name == "products" ? "matmuls" : name == "elementwise" ? "elementwise work" : name == "cache" ? "cache writes" : \
           name == "gaps" ? "gaps between kernels" : name
}
# The largest parts, up to `most` of those that are a tenth of it: 55 % products and 25 % logits.
function largest(pass, most,    i, k, best, used, text, found) {
    for (k = 1; k <= most; k++) {
        best = 0
        for (i = 1; i <= parts; i++)
            if (!(i in used) && piled(part[i]) && \
                (!best || split_of[pass, last, part[i]] > split_of[pass, last, part[best]])) best = i
        if (k > 1 && split_of[pass, last, part[best]] < 0.1 * whole[pass, last]) break
        used[best] = 1
        found[k] = share(split_of[pass, last, part[best]], whole[pass, last]) " " long_name(part[best])
    }
    for (i = 1; i < k; i++) text = text (i == 1 ? "" : i == k - 1 ? " and " : ", ") found[i]
    return text
}
