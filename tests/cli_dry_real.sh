#!/bin/sh
# A dry run gives the same events and the same table as the run that computes, byte for byte, but for
# the headers and the times.
. tests/cli.shi

small="--layers 2 --width 64 --heads 4 --vocab 300 --threads 1 --quiet"
strategies="concat concat-tuple static doubling doubling:16 paged:16 none"
policies="torch torch,expandable_segments:True block:64KiB"
[ -z "$quick" ] || policies="torch block:64KiB"

# both NAME STATUS OPTION...: runs it on both back ends, which must end with STATUS.
both() {
    begin "$1"
    wanted=$2
    shift 2
    for backend in none cpu; do
        run $small --backend $backend --trace "$dir/$backend.trace" "$@"
        want ended "$wanted"
        [ "$wanted" != 0 ] || want empty "$err"
        untimed "$out" >"$dir/$backend.table"
        rows "$dir/$backend.trace" >"$dir/$backend.events"
    done
    want cmp "$dir/none.table" "$dir/cpu.table"
    want cmp "$dir/none.events" "$dir/cpu.events"
}

for kv in $strategies; do
    for activations in eager arena; do
        for policy in $policies; do
            both "$kv $activations $policy" 0 --ctx 60 --kv $kv --activations $activations \
                --policy $policy
            want lines 61 "$dir/cpu.table" # the load line and 60 steps
            want has "$dir/cpu.events" " mark 59 "
        done
    done
done

both "a prompt, a batch, all logits, a workspace" 0 --ctx 60 --kv paged:4 --policy direct \
    --prompt-tokens 7 --batch 3 --logits all --workspace torch
want lines 55 "$dir/cpu.table"
both "out of memory" 3 --ctx 60 --policy direct --capacity 840KiB
want no lines 61 "$dir/cpu.table"
want has "$dir/cpu.events" " oom "

# The number of threads is no part of it.
begin "one thread or two"
run $small --ctx 60 --threads 2 --trace "$dir/two.trace"
want ended 0
rows "$dir/two.trace" >"$dir/two.events"
run $small --ctx 60 --threads 1 --trace "$dir/one.trace"
want ended 0
rows "$dir/one.trace" >"$dir/one.events"
want has "$dir/one.events" " mark 59 "
want cmp "$dir/one.events" "$dir/two.events"

# A dry run again is the same file again, headers and all.
begin "twice the same"
for i in 1 2; do
    run --backend none --ctx 300 --trace "$dir/dry$i.trace"
    want ended 0
    cp "$out" "$dir/dry$i.dat"
    cp "$err" "$dir/dry$i.summary"
    run --backend none --quiet --ctx 300 --json
    want ended 0
    cp "$out" "$dir/dry$i.json"
done
for kind in trace dat summary json; do
    want cmp "$dir/dry1.$kind" "$dir/dry2.$kind"
done
want row_count 300 "$dir/dry1.dat"
finish
