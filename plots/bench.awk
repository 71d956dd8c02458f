# bench.awk - reads the allocators' part of build/bench.dat for bench.gp; after header.awk.
#
# policies, name1 ...   number of policies and their names, in order of the table; option1 ...: the rest
# patterns, what1 ...   the same of the patterns
# $rows                 policy's number, then ns a pair of each pattern (the ledger alone listens)
# high                  of all figures
# finding, settings     in words

function figure(x) { return x ~ /^[0-9]+([.][0-9]+)?$/ && x + 0 > 0 }

/^# policy pattern ledger / { inside = known = 1; next }
/^#/ { inside = 0; next }
!inside || bad != "" { next }
{
    if (NF != 5 || !figure($3) || !figure($4) || !figure($5)) {
        bad = "line " NR ": not a row of policy, pattern and three times"; exit
    }
    if (!($1 in policy)) { policy[$1] = ++policies; names[policies] = $1 }
    if (!($2 in pattern)) { pattern[$2] = ++patterns; whats[patterns] = $2 }
    ns[policy[$1], pattern[$2]] = $3
    if ($3 > high) high = $3
}
END {
    if (bad == "" && !known) bad = "not a table of make bench"
    if (bad == "" && !policies) bad = "no row of an allocator"
    if (bad == "" && (policies > 8 || patterns > 5)) bad = "more than 8 policies or 5 patterns"
    for (p = 1; p <= policies; p++)
        for (w = 1; w <= patterns; w++)
            if (bad == "" && !((p, w) in ns)) bad = "no row of " names[p] " with " whats[w]
    if (bad != "") { printf "bad = '%s'\n", safe(bad, 200); exit }
    printf "bad = ''\npolicies = %d\npatterns = %d\nhigh = %.6g\n", policies, patterns, high
    for (w = 1; w <= patterns; w++) printf "what%d = '%s'\n", w, safe(whats[w], 30)
    print "$rows << END_OF_ROWS"
    for (p = 1; p <= policies; p++) {
        printf "%d", p
        for (w = 1; w <= patterns; w++) printf " %s", ns[p, w]
        print ""
    }
    print "END_OF_ROWS"
    for (p = 1; p <= policies; p++) {
        comma = index(names[p], ",")
        printf "name%d = '%s'\noption%d = '%s'\n", p, safe(comma ? substr(names[p], 1, comma) : names[p], 30), \
               p, safe(comma ? substr(names[p], comma + 1) : "", 30)
    }
    least = 1
    for (p = 2; p <= policies; p++) if (ns[p, 1] + 0 < ns[least, 1] + 0) least = p
    finding = sprintf("%s takes %.0f ns per request and free with %s", names[1], ns[1, 1], whats[1])
    if (patterns > 1) finding = finding sprintf(", %.0f with %s", ns[1, 2], whats[2])
    if (least != 1) finding = finding sprintf("; fastest with %s is %s, %.0f ns", whats[1], names[least], ns[least, 1])
    printf "finding = '%s'\n", safe(finding, 400)
    print "settings = 'a request and its free, the ledger kept, on a simulated source;  medians of 5 runs'"
}
