# identity.awk - checks a .dat table: awk -f tests/identity.awk mem.dat
#
# Prints how many rows there are and how many break each rule, the first of them with its line;
# exit status 1 if there is any. The state after loading (# load) is checked too, and counts as what
# row 0 is compared with. Numbers are doubles: exact below 2^53.

function broken(rule, text) {
    if (count[rule]++ == 0)
        first[rule] = "line " FNR ": " text
}

# Bytes of a cause such as kv:layer3:122880:small+2097152x2,kv:...; the numbers after the last + or -,
# times what follows an x. Sets cut when the list is not complete (...+N).
function cause_bytes(cause,    n, i, part, sum, times) {
    cut = 0
    if (cause == "-")
        return 0
    n = split(cause, part, ",")
    sum = 0
    for (i = 1; i <= n; i++) {
        if (part[i] ~ /^\.\.\.\+[0-9]+$/ && i == n) {
            cut = 1
        } else if (match(part[i], /[+-][0-9]+(x[0-9]+)?$/)) {
            split(substr(part[i], RSTART), times, "x")
            sum += times[1] * (times[2] == "" ? 1 : times[2])
        } else {
            broken("form", part[i] " is no cause")
        }
    }
    return sum
}

function check(step, change, sum, bump) {
    sum = $3 + $4 + $5 + $6 + $7 + $8
    if ($9 != sum)
        broken("tags", "requested is " $9 ", the tags add up to " sum)
    sum = $9 + $10 + $11 + $12
    if ($13 != sum)
        broken("reserved", "reserved is " $13 ", its parts add up to " sum)
    if ($14 < $9)
        broken("peak", "peak_requested is " $14 ", requested " $9)
    if ($15 < $13)
        broken("peak", "peak_reserved is " $15 ", reserved " $13)
    change = $13 - reserved
    bump = change == 0 ? 0 : change - ($4 - kv)
    if ($18 != bump)
        broken("bump", "bump is " $18 ", expected " bump)
    sum = cause_bytes($19)
    if (!cut && sum != change)
        broken("cause", "the causes add up to " sum ", reserved changed by " change)
    if ($1 != step)
        broken("form", "step is " $1 ", expected " step)
    reserved = $13
    kv = $4
}

BEGIN {
    reserved = kv = rows = 0
    loaded = 0
}

/^# load / {
    sub(/^# load /, "")
    if (NF < 20 || loaded++ || rows > 0)
        broken("form", "not the one load line")
    check(-1)
    next
}

/^#/ || /^$/ {
    next
}

{
    if (NF < 20 || !loaded)
        broken("form", NF < 20 ? NF " columns" : "a row before # load")
    check(rows)
    rows++
}

END {
    split("tags reserved bump cause peak form", rule, " ")
    says["tags"] = "requested is not the sum of its tags"
    says["reserved"] = "reserved is not requested + rounding + split + cached"
    says["bump"] = "bump is not the change of reserved less that of kv"
    says["cause"] = "the causes do not add up to the change of reserved"
    says["peak"] = "a peak is below the current value"
    says["form"] = "not a row of the table"
    printf "%d rows\n", rows
    for (i = 1; i <= 6; i++) {
        printf "%d where %s\n", count[rule[i]], says[rule[i]]
        if (count[rule[i]] > 0)
            printf "    %s\n", first[rule[i]]
        bad += count[rule[i]]
    }
    exit bad > 0
}
