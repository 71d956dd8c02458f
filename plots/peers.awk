# peers.awk - reads the figures of tests/peers/bench.py for peers.gp; after header.awk.
#
# sets, name1 ...      number of programs and their names, as in the file
#       $set1 ...      their decode rows: ctx, median, low, high (ms)
#       words1 ...     the last of them in words
#       family1 ...    what comes before the first "-", numbered; member1 ...: place within it
#       $bound         ctx, ms: what all weights and an f32 cache take at the rate of the memory
# first, last, high    of contexts; of ms
# finding, settings    in words

/^# / {
    if ($2 == "memtrace" && $3 == "peers") known = 1
    if ($2 == "weights_read") weights = $3
    if ($2 == "kv_read") kv = $3
    if ($2 == "memory_rate") { rate = $3; rate_low = $4; rate_high = $5 }
    if ($2 == "threads") threads = $3
    if ($2 == "rounds") rounds = $3
    if ($2 == "device") { device = $0; sub(/^.*threads, /, "", device); sub(/,.*/, "", device) }
    if ($2 == "ids" && $4 == "other") other[$3] = ", other ids"
    next
}
bad != "" || $2 != "decode" { next }
{
    if (NF != 9 || $3 !~ /^[0-9]+$/ || !figure($4) || !figure($5) || !figure($6) || \
        $5 > $4 || $4 > $6 || !figure($9)) {
        bad = "line " NR ": not a row of tests/peers/bench.py"; exit
    }
    if (!($1 in number)) {
        if (sets == 10) { bad = "more than 10 programs"; exit }
        number[$1] = ++sets; names[sets] = $1
        f = $1; sub(/-.*/, "", f)
        if (!(f in families)) families[f] = ++family_count
        family[sets] = families[f]; member[sets] = ++members[f]
    }
    s = number[$1]
    row[s, ++count[s]] = $3 " " $4 " " $5 " " $6
    if (count[s] > 1 && $3 <= at[s]) { bad = "line " NR ": contexts do not rise"; exit }
    at[s] = $3; ms[s] = $4; percent[s] = $9
    if (!first || $3 < first) first = $3
    if ($3 > last) last = $3
    if ($6 > high) high = $6
}

function figure(x) { return x ~ /^[0-9]+([.][0-9]+)?$/ && x + 0 > 0 }

function took(s) { return sprintf("%.1f ms", ms[s]) }

END {
    if (bad == "" && !known) bad = "not a table of tests/peers/bench.py"
    if (bad == "" && !sets) bad = "no decode row"
    if (bad == "" && !(figure(weights) && figure(kv) && figure(rate))) bad = "no weights_read, kv_read or memory_rate"
    if (bad != "") { printf "bad = '%s'\n", safe(bad, 200); exit }
    printf "bad = ''\nsets = %d\nfirst = %d\nlast = %d\nhigh = %.6g\n", sets, first, last, high
    ours = theirs = 0
    for (s = 1; s <= sets; s++) {
        printf "name%d = '%s'\nfamily%d = %d\nmember%d = %d\n$set%d << END_OF_SET\n", s, safe(names[s], 30), \
               s, family[s], s, member[s], s
        for (i = 1; i <= count[s]; i++) print row[s, i]
        print "END_OF_SET"
        printf "words%d = '%s'\n", s, safe(sprintf("%.1f ms, %.0f %%%s", ms[s], percent[s], other[names[s]]), 60)
        if (at[s] != last) continue
        if (names[s] ~ /^memtrace/) { if (!ours || ms[s] < ms[ours]) ours = s }
        else if (!theirs || ms[s] < ms[theirs]) theirs = s
    }
    print "$bound << END_OF_BOUND"
    for (i = 0; i <= 1; i++) { c = i ? last : first; printf "%d %.6g\n", c, (weights + kv * c) / rate / 1e6 }
    print "END_OF_BOUND"
    printf "bound_words = '%.1f GB/s'\n", rate
    where = " with " last " tokens in the cache"
    if (ours && theirs) {
        a = ms[ours] <= ms[theirs] ? ours : theirs; b = a == ours ? theirs : ours
        finding = sprintf("%s takes %s per token%s, %s%s %s, %.0f %% more", names[a], took(a), where, \
                  b == theirs ? "the fastest other program, " : "", names[b] (b == theirs ? "," : ""), took(b), \
                  100 * (ms[b] / ms[a] - 1))
    } else {
        a = ours ? ours : theirs ? theirs : 1
        finding = sprintf("%s takes %s per token%s", names[a], took(a), where)
    }
    finding = finding sprintf("; memory bandwidth allows %.1f ms", (weights + kv * last) / rate / 1e6)
    printf "finding = '%s'\n", safe(finding, 400)
    printf "settings = '%s'\n", safe("GPT-2 small, fp32, batch 1, greedy,  " threads " threads,  " rounds \
           (rounds == 1 ? " round" : " rounds") ",  " device ",  %: the memory bound over the time", 150)
}
