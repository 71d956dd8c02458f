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

# ---- whatever the file is ------------------------------------------------------------------------

run replay "$dir/run.trace"
rows "$out" >"$dir/rows"
begin "standard input, under both its names, packed too"
for file in - /dev/stdin; do
    gzip -c "$dir/run.trace" | "$MEMTRACE" replay $file >"$out" 2>"$err"
    want is "$(rows "$out")" "$(cat "$dir/rows")"
    want empty "$err"
done
begin "a FIFO"
mkfifo "$dir/fifo"
cat "$dir/run.trace" >"$dir/fifo" &
run replay "$dir/fifo" --policy torch,direct
want ended 0
want is "$(rows "$out" | head -n 1)" "$(cat "$dir/rows")"
begin "a trace of release 0.1.0"
run replay tests/recordings/memtrace-0.1.0-expandable.trace
want ended 0
want is "$(rows "$out")" "torch 597968 2097152 2097152 3120 1496064 0 1499184 1 0 0"
begin "a check from standard input"
"$MEMTRACE" replay --check - <tests/recordings/memtrace-0.1.0-plain.trace >"$out" 2>"$err"
status=$?
want ended 2
want has "$err" "standard input: a memtrace trace does not say what PyTorch's allocator did"

# The column `reserved` of every row.
reserved() {
    rows "$out" | cut -d ' ' -f 4 | tr '\n' ' '
}

# ---- recordings of other programs ----------------------------------------------------------------

printf '%s\n' "Thread,Time,Action,Pointer,Size,Stream" "1,10:00:00.000001,allocate,0x100,1000,0" \
    "1,10:00:00.000002,free,0x900,8,0" >"$dir/log.csv"
begin "what a format cannot tell is said, and no zero stands for it"
run replay "$dir/log.csv"
want ended 0
want has "$out" "# not told by the file: what was reserved"
want has "$out" "# frees of what was requested before the file begins: 1"
want is "$(rows "$out" | cut -d ' ' -f 2)" 1000
begin "a memtrace trace tells all of it"
run replay "$dir/run.trace"
want no grep "not told" "$out"
begin "a run written as an RMM log asks for the same"
run replay "$dir/run.trace" --policy direct,bfc
rows "$out" | cut -d ' ' -f 1-9 >"$dir/same" # without bumps: the log has no steps
run convert --quiet "$dir/run.trace" --to rmm -o "$dir/run.csv"
run replay "$dir/run.csv" --policy direct,bfc
want ended 0
want is "$(rows "$out" | cut -d ' ' -f 1-9)" "$(cat "$dir/same")"
begin "--from overrides the first bytes"
run replay --from stalloc "$dir/log.csv"
want ended 2
want has "$err" "$dir/log.csv:1: expected 1 ADDRESS BYTES STREAM"
begin "--from of no format"
run replay --from excel "$dir/log.csv"
want ended 2
want has "$err" "--from excel: no such format"
begin "every format is listed"
run replay --help
for format in trace mtb recording schedule rmm nsight chrome pprof minimalloc stalloc allocatorsim; do
    want grep -q "^  $format " "$out"
done
begin "memory of another device is left out, and asked for by --device"
printf '%s' '[{"name":"[memory]","ph":"i","ts":1,"args":{"Device Type":1,"Device Id":3,"Addr":512,"Bytes":512}}]' \
    >"$dir/profile.json"
run replay "$dir/profile.json"
want ended 2
want has "$err" "no request of device 0 in this file, 1 of others"
run replay --device 3 "$dir/profile.json"
want ended 0
want is "$(rows "$out" | cut -d ' ' -f 2)" 512
begin "a compressed file beyond --max-input is refused, a plain one is not"
gzip -c "$dir/run.trace" >"$dir/packed.gz"
run replay --max-input 1KiB "$dir/packed.gz"
want ended 2
want has "$err" "more than 1024 bytes"
run replay --max-input 1KiB "$dir/run.trace"
want ended 0

# ---- refusals ------------------------------------------------------------------------------------

begin "refused requests are told"
run replay --capacity 4MiB "$dir/run.trace"
want ended 3
want one_message
# A large block is split, and what is left of it is too small for the next request, by little.
begin "a refusal names the request, the largest free block and what the device had left"
printf '%s\n' "# torch 2.15.0" "a 0 1048576000 0" "f 0 - 0" "a 1 4194304 0" "a 2 1048576000 0" >"$dir/hole.tsv"
run replay --capacity 1500MiB "$dir/hole.tsv"
want ended 3
want has "$out" "# first refused: 1048576000 bytes at $dir/hole.tsv:5: largest free block 1044381696, free in segments 1044381696, free on the device 524288000"

# Small requests first, then large ones: what the small ones left is of no use to them.
begin "the same requests with and without expandable segments"
{
    echo "# torch 2.15.0"
    for i in 0 1 2 3 4 5 6 7; do echo "a $i 16777216 0"; done
    for i in 0 1 2 3 4 5 6 7; do echo "f $i - 0"; done
    for i in 8 9 10 11; do echo "a $i 33554432 0"; done
} >"$dir/growing.tsv"
run replay "$dir/growing.tsv" --policy torch,torch,expandable_segments:True
want ended 0
want is "$(reserved)" "268435456 146800640 "

# A request that takes a new size every time, as a cache that grows by concatenation.
begin "requests of a new size every time"
awk 'BEGIN {
    print "# torch 2.15.0"
    for (k = 1; k <= 1024; k++) {
        print "a " k - 1 " " 25600 * k " 0"
        if (k > 1) print "f " k - 2 " - 0"
    }
}' >"$dir/concat.tsv"
run replay "$dir/concat.tsv" \
    --policy torch,torch,expandable_segments:True,torch,roundup_power2_divisions:4
want ended 0
want is "$(reserved)" "197132288 88080384 155189248 "

# Each round leaves 2 MiB behind it at the end of what it took.
begin "two settings, each harmless alone"
awk 'BEGIN {
    print "# torch 2.15.0"
    print "a 0 67108864 0"
    for (k = 1; k <= 123; k += 3) {
        print "a " k " 95420416 0\na " k + 1 " 47710208 0\na " k + 2 " 2097152 0"
        print "f " k " - 0\nf " k + 1 " - 0"
    }
}' >"$dir/canary.tsv"
run replay "$dir/canary.tsv" --policy \
    torch,max_split_size_mb:128,torch,expandable_segments:True,torch,max_split_size_mb:128,expandable_segments:True
want ended 0
want is "$(reserved)" "316669952 314572800 6039797760 "

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

recording=tests/recordings/torch-2.15/grow--default.tsv.gz
begin "a recording agrees"
run replay --check "$recording"
want ended 0
want has "$out" "0 files differ, 0 cannot be read"
gzip -dc "$recording" | awk -F '\t' -v OFS='\t' 'NR == 100 { $9 += 512 } { print }' >"$dir/changed.tsv"
begin "a changed recording does not, and the pools are shown"
run replay --check "$dir/changed.tsv"
want ended 1
want has "$out" "changed.tsv:100: operation"
want has "$out" "the large pool"

# torch.cuda.memory_summary at the end of each recording
. tests/oracle/again.shi
for folder in tests/recordings/torch-2.*; do
    gzip -dc "$folder/summaries.txt.gz" | awk -v dir="$dir" '
        /^== / { close(to); to = dir "/" $2 ".summary"; next } { print > to }'
    begin "memory_summary of all recordings in $folder"
    for f in "$folder"/*.tsv.gz; do
        summary_of "$f" >"$dir/ours" 2>"$err"
        want cmp "$dir/ours" "$dir/$(basename "$f" .tsv.gz).summary"
    done
done

begin "a file that is no recording"
run replay --check "$dir/nonsense"
want ended 2
finish
