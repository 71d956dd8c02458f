#!/bin/sh
# `memtrace study`: its table against sums made here once more, its options, its endings.
. tests/cli.shi
small="--layers 2 --heads 3 --width 51 --vocab 97 --positions 64 --repeat 3"

# Every sum that a row allows: ratios, rates and parts, from its own columns.
check_table() {
    awk -v L=2 -v C=51 -v V=97 '
    function near(what, a, b, room) {
        if (a - b > room || b - a > room) { print what ": " a " is not " b; bad++ }
    }
    $1 == "#" && $2 == "context" { block = 1; for (i = 2; i <= NF; i++) at[$i] = i - 1; next }
    $1 == "#" && $2 == "pass" { block++; for (i = 2; i <= NF; i++) at[$i] = i - 1; next }
    /^#/ || NF == 0 { next }
    block == 1 {
        t = $1; rows++
        near("cached flops at " t, $at["cached_flops"], 24*L*C*C + 4*L*C*t + 2*C*V, 0)
        near("uncached flops at " t, $at["uncached_flops_last"], t*24*L*C*C + 4*L*C*t*t + 2*C*V, 0)
        near("with all logits at " t, $at["uncached_flops_all"], t*24*L*C*C + 4*L*C*t*t + 2*C*V*t, 0)
        near("computed at " t, $at["uncached_computed"], t*24*L*C*C + 2*L*C*t*(t+1) + 2*C*V, 0)
        near("time ratio at " t, $at["time_ratio"], $at["uncached_ms"] / $at["cached_ms"], 0.01 + $at["time_ratio"] * (0.0006 / $at["cached_ms"] + 0.0006 / $at["uncached_ms"]))
        if ($at["cached_least"] > $at["cached_ms"] || $at["cached_ms"] > $at["cached_most"]) { print "order at " t; bad++ }
        if ($at["cached_bytes"] < $at["cached_computed"] / 100) { print "bytes at " t; bad++ }
    }
    block == 2 {
        sum = 0
        for (i = 3; i <= 10; i++) sum += $i
        near($1 " parts at " $2, sum, $at["total"], 0.001)
        splits++
    }
    block == 3 { kernels[$1 " " $2] = $at["calls"]; flops[$1] += $at["flops"] }
    END {
        if (rows != 3 || splits != 6) { print rows " rows, " splits " splits"; bad++ }
        near("qkv calls", kernels["cached qkv"], L, 0)
        near("norms", kernels["uncached layernorm"], 2*L + 1, 0)
        near("flops of kernels", flops["cached"], 24*L*C*C + 4*L*C*64 + 2*C*V, 0)
        exit bad > 0
    }' "$1"
}

for kv in static concat concat-tuple doubling:4 paged:5; do
    begin "study $kv"
    run study $small --contexts 64,1,17,17 --kv $kv --quiet
    want ended 0
    want empty "$err"
    case $kv in
    static | doubling* | paged*) want check_table "$out" ;;
    *) want has "$out" "cached copy " ;;
    esac
    want has "$out" "# kv $kv"
    want has "$out" "# verdict cached step at 64: "
    want has "$out" "# ratio at 64: "
done

begin "study totals"
run study $small --contexts 8,64 --quiet
want has "$out" "# total 56 tokens from 8: "
run study $small --contexts 8,64 --prompt-tokens 60 --ctx 63 --quiet
want has "$out" "# total 3 tokens from 60: "

begin "study of a context alone, one sample, several sequences, an arena, all logits"
run study $small --contexts 1 --repeat 1 --batch 3 --activations arena --logits all --quiet
want ended 0
want has "$out" "# repeat 1"

begin "study tells people on stderr"
run study $small --contexts 4,8
want ended 0
want has "$err" "cached ms"
want has "$err" "verdict uncached step at 8"

begin "study writes a profile"
run study $small --contexts 9 --profile "$dir/step.json" --quiet
want ended 0
want strict_json "$dir/step.json"
want has "$dir/step.json" '"traceEvents"'
want has "$dir/step.json" '"name": "layer 1"'
want has "$dir/step.json" '"reserved over requested"'
want is "$(grep -c '"name": "qkv"' "$dir/step.json")" 2
want last "$dir/step.json" "]}"
# The model and its activations: what the machine is measured in is left out.
want [ "$(sed -n 's/.*"requested": \([0-9]*\).*/\1/p' "$dir/step.json" | sort -n | tail -n 1)" -lt 5000000 ]
want [ "$(sed -n 's/.*"reserved over requested": \([0-9]*\).*/\1/p' "$dir/step.json" | sort -n | tail -n 1)" -lt 5000000 ]

begin "study in little memory"
run study $small --contexts 9 --capacity 200MiB --quiet
want ended 0

begin "study out of memory"
run study $small --contexts 64 --batch 64 --capacity 70MiB --quiet
want ended 3
want has "$err" "out of device memory"
# 64 MiB to measure in, and 2 MiB: nothing is taken past the allocator.
want has "$err" "reserved               69,206,016 bytes"

begin "study on the device that computes on one thread"
run study $small --contexts 9 --threads 1 --policy block:2MiB --quiet
want ended 0
want has "$out" "1 thread,"

refused "study of no context" 2 "expected numbers from 1 to 64" study $small --contexts 0
refused "study beyond the positions" 2 "expected numbers from 1 to 64" study $small --contexts 3,65
refused "study of words" 2 "--contexts" study $small --contexts 3,x
refused "study of an empty list" 2 "--contexts" study $small --contexts ""
refused "study without repeats" 2 "--repeat 0" study $small --repeat 0
refused "study without a cache" 2 "--kv none" study $small --kv none
refused "study of a dry run" 2 "--backend none" study $small --backend none
refused "study with a prompt" 2 "seeded ids" study $small --prompt hello
begin "study as CSV: a header line and a row for each context"
run study $small --contexts 4,9 --repeat 1 --quiet --csv
want ended 0
want lines 3 "$out"
want is "$(head -n 1 "$out" | cut -d, -f 1-3)" context,cached_ms,cached_least
want awk -F, 'NR == 1 { n = NF } NF != n || /[# ]/ || (NR > 1 && /[a-z]/) { exit 1 }' "$out"
refused "study as JSON" 2 "--json" study $small --json
refused "study with an argument" 2 "unexpected argument" study $small 64

begin "study without room for its profile"
run study $small --contexts 9 --profile "$dir/none/step.json" --quiet
want ended 4
want has "$err" "step.json"

begin "study on a full disk"
command="study >/dev/full"
"$MEMTRACE" study $small --contexts 9 --quiet >/dev/full 2>"$err"
status=$?
want ended 4
want has "$err" "cannot write to standard output"

# Ctrl-C keeps the contexts that are done.
begin "study interrupted"
command="study, interrupted"
"$MEMTRACE" study --layers 1 --repeat 1000 --contexts 1,1000 --quiet >"$out" 2>"$err" &
child=$!
for i in $(seq 600); do
    grep -q '^# units' "$out" && break
    sleep 0.1
done
kill -INT $child
wait $child
status=$?
want ended 130
want last "$out" "# interrupted"
finish
