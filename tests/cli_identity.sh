#!/bin/sh
# Every policy with every cache strategy: the identity holds in each row, and the cache is as large as
# its strategy says. All of it dry runs.
. tests/cli.shi

# The kv and kv_ideal columns by the formulas of the strategies, with the numbers of the header.
cat >"$dir/kv.awk" <<'AWK'
/^# layers / { L = $3 }
/^# width / { row = $3 * (dtype == "f32" ? 4 : 2) }
/^# batch / { B = $3 }
/^# ctx / { C = $3 }
/^# prompt / { P = $4 }
/^# kv / { kv = $3; split(kv, part, ":"); N = part[2] }
/^#/ { next }
{
    token = 2 * L * B * row
    ctx = P + rows
    if (kv == "concat" || kv == "concat-tuple")
        expected = token * ctx
    else if (kv == "static")
        expected = token * C
    else if (kv ~ /^doubling/) {
        if (!capacity)
            capacity = N ? N : 256
        while (capacity < ctx)
            capacity *= 2
        expected = token * capacity
    } else if (kv ~ /^paged/)
        expected = token * N * int((ctx + N - 1) / N)
    else if (kv == "none")
        expected = 0
    else
        expected = "a known strategy"
    if ($2 != ctx || $4 != expected || $17 != token * ctx) {
        if (!bad++)
            print "row " rows ": ctx " $2 " kv " $4 " kv_ideal " $17 ", expected " ctx " " expected " " token * ctx
    }
    rows++
}
END {
    if (rows != C - P + 1)
        print rows " rows, expected " C - P + 1
    exit bad > 0 || rows != C - P + 1
}
AWK

# table NAME OPTION...: the table is right.
table() {
    begin "$1"
    shift
    run --backend none --quiet "$@"
    want ended 0
    want empty "$err"
    want awk -f tests/identity.awk "$out"
    want awk -v dtype="$dtype" -f "$dir/kv.awk" "$out"
}

# default_ideal FILE: GPT-2 small in f32 takes 73,728 bytes a token, whatever holds them.
default_ideal() {
    awk '!/^#/ && $17 != 73728 * $2 { bad++ } END { exit bad > 0 }' "$1"
}

policies="torch torch,expandable_segments:True torch,max_split_size_mb:20
torch,roundup_power2_divisions:4 block:64KiB block:2MiB block:2MiB,fit:first block:2MiB,keep:none
block:1MiB,round:256 direct direct:2MiB"
strategies="concat concat-tuple static doubling doubling:64 paged:16 none"
[ -z "$quick" ] || policies="torch torch,expandable_segments:True block:2MiB,keep:none direct"

dtype=f32
for policy in $policies; do
    for kv in $strategies; do
        for activations in eager arena; do
            table "$policy $kv $activations" --ctx 1024 --policy "$policy" --kv "$kv" \
                --activations $activations
            want default_ideal "$out"
        done
    done
done

# Two sequences of five tokens in bf16, all logits, a workspace: what is constant is, the rest is as
# the shape says.
wide_columns() { # wide_columns KV ACTIVATIONS FILE
    awk -v kv="$1" -v arena="$2" '
        /^#/ { next }
        {
            logits = 2 * 50257 * 2 * (rows == 0 || arena == "arena" ? 5 : 1)
            bad += $3 != 248879616 || $6 != logits || $7 != 8519680
            bad += $8 != (kv ~ /^paged/ ? 2 * 12 * 13 * 8 : 0) # the addresses of the pages
            bad += arena == "eager" ? $5 != 0 : $5 == 0 || (rows > 0 && $5 != before)
            before = $5
            rows++
        }
        END { exit bad > 0 }' "$3"
}

dtype=bf16
for policy in torch block:2MiB direct; do
    for kv in concat static doubling:64 paged:16; do
        for activations in eager arena; do
            table "bf16 batch 2 $policy $kv $activations" --ctx 200 --prompt-tokens 5 --batch 2 \
                --dtype bf16 --logits all --workspace torch --policy $policy --kv $kv \
                --activations $activations
            want wide_columns $kv $activations "$out"
        done
    done
done

# The checker itself: a table changed in one place is refused, for the right reason.
dtype=f32
begin "identity.awk sees what is wrong"
run --backend none --quiet --ctx 100
want awk -f tests/identity.awk "$out"
spoil() { # spoil TEXT AWK: what changes a row that has a bump, and what must be said of it
    awk "!/^#/ && \$1 > 0 && \$18 > 0 && !done++ { $2 } { print }" "$out" >"$dir/spoilt"
    awk -f tests/identity.awk "$dir/spoilt" >"$dir/said" && return 1
    grep -q "^[1-9][0-9]* where .*$1" "$dir/said"
}
want spoil "sum of its tags" '$4 -= 1'
want spoil "requested + rounding" '$13 += 1'
want spoil "change of reserved less" '$18 += 1'
want spoil "causes do not add up" 'sub(/2097152$/, "2097153", $19)'
want spoil "causes do not add up" '$19 = "-"'
want spoil "peak is below" '$14 = $9 - 1'
want spoil "peak is below" '$15 = $13 - 1'
want spoil "not a row" '$1 += 1'
want spoil "not a row" 'NF = 12'
finish
