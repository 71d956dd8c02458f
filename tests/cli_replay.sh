#!/bin/sh
# `memtrace replay` from the command line: a stored run through policies, checks against recordings,
# PyTorch's summary.
. tests/cli.shi

run --backend none --quiet --layers 3 --ctx 200 --trace "$dir/run.trace"
cp "$out" "$dir/run.dat"
last=$(tail -n 1 "$dir/run.dat")

begin "the same policy gives the same bytes"
run replay "$dir/run.trace"
want ended 0
want empty "$err"
want is "$(tail -n 1 "$out" | cut -d ' ' -f 4)" "$(echo "$last" | cut -d ' ' -f 13)"

begin "a list of policies, options included"
run replay "$dir/run.trace" --policy torch,max_split_size_mb:64,block:2MiB,fit:first,direct
want ended 0
want is "$(grep -vc '^#' "$out")" 3

begin "another policy gives what it gives alone"
run --backend none --quiet --layers 3 --ctx 200 --policy block:2MiB
alone=$(tail -n 1 "$out" | cut -d ' ' -f 13)
run replay "$dir/run.trace" --policy block:2MiB
want is "$(tail -n 1 "$out" | cut -d ' ' -f 4)" "$alone"

begin "PyTorch's summary, and every counter"
run replay "$dir/run.trace" --summary torch
want ended 0
want has "$out" "| GPU reserved memory "
run replay "$dir/run.trace" --summary stats
want has "$out" "reserved_bytes.all.current $(echo "$last" | cut -d ' ' -f 13)"

begin "refused requests are told"
run replay --capacity 4MiB "$dir/run.trace"
want ended 3
want one_message

for value in 0 3 511 100000 3MiB; do
    refused "--granularity $value" 2 "--granularity $value: expected" replay "$dir/run.trace" \
        --granularity $value
done
begin "a driver that rounds segments up"
run replay "$dir/run.trace" --policy direct --granularity 512
want ended 0
fine=$(tail -n 1 "$out")
run replay "$dir/run.trace" --policy direct --granularity 4MiB
want ended 0
want is "$(tail -n 1 "$out")" "$fine" # the device's loss, not what is reserved

refused "an unknown policy, before anything is printed" 2 "foo" replay --policy torch,direct,foo:1 "$dir/run.trace"
refused "a summary of another policy" 2 "needs the torch policy" replay --policy torch,direct --summary torch "$dir/run.trace"
refused "no file" 2 "expected a FILE" replay
refused "two files" 2 "one FILE" replay a b
refused "a file that is not there" 2 "no/such" replay no/such
refused "a check with a policy" 2 "from each file" replay --check --policy torch x
echo nonsense >"$dir/nonsense"
refused "a file that is no run" 2 "nonsense" replay "$dir/nonsense"
sed '300d' "$dir/run.trace" >"$dir/broken.trace"
refused "a trace with a line missing" 2 "broken.trace:300: " replay "$dir/broken.trace"

recording=$shared/golden/torch-alloc/kv--default.tsv.gz
if [ -e "$recording" ]; then
    begin "a recording agrees"
    run replay --check "$recording"
    want ended 0
    want has "$out" "0 files differ, 0 cannot be read"
    gzip -dc "$recording" | awk -F '\t' -v OFS='\t' 'NR == 300 { $9 += 512 } { print }' >"$dir/changed.tsv"
    begin "a changed recording does not, and the pools are shown"
    run replay --check "$dir/changed.tsv"
    want ended 1
    want has "$out" "changed.tsv:300: operation"
    want has "$out" "the large pool"
else
    skip "recordings" "they are not there"
fi
begin "a file that is no recording"
run replay --check "$dir/nonsense"
want ended 2
finish
