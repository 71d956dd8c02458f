#!/bin/sh
# `memtrace convert`: every form, what each leaves out, ranges of steps, what is refused; and `run
# --trace`, which chooses the same forms by the ending of the name.
. tests/cli.shi

forms="trace mtb rmm csv jsonl folded massif chrome"
small="--backend none --layers 3 --width 64 --heads 4 --vocab 300 --quiet --ctx 40"
trace=$dir/run.trace
"$MEMTRACE" run $small --trace "$trace" >/dev/null
"$MEMTRACE" run $small --trace-time --trace "$dir/timed.trace" >/dev/null
recording=tests/recordings/torch-2.15/grow--default.tsv.gz
events=$(grep -vc '^#' "$trace")

ending() { # ending FORM
    case $1 in
    rmm) echo rmm.csv ;;
    chrome) echo json ;;
    *) echo "$1" ;;
    esac
}

# ---- one thing, whichever way ----------------------------------------------------------------------

begin "run writes what convert makes of its trace"
for form in $forms; do
    run run $small --trace "$dir/direct.$(ending "$form")"
    want ended 0
    run convert "$trace" --to "$form" --quiet
    want ended 0
    want empty "$err"
    want cmp "$out" "$dir/direct.$(ending "$form")"
    run convert "$trace" -o "$dir/chosen.$(ending "$form")"
    want ended 0
    want empty "$out"
    want cmp "$dir/chosen.$(ending "$form")" "$dir/direct.$(ending "$form")"
done

begin "text and binary turn into each other, byte for byte, packed too"
for t in "$trace" "$dir/timed.trace"; do
    for packing in "" .gz .zst; do
        run convert "$t" -o "$dir/there.mtb$packing" --quiet
        want ended 0
        run convert "$dir/there.mtb$packing" --to trace --quiet
        want ended 0
        want cmp "$out" "$t"
    done
done

begin "a pipe in, a pipe out"
"$MEMTRACE" convert - --to mtb -q <"$trace" | "$MEMTRACE" convert - --to trace -q >"$dir/piped"
want cmp "$dir/piped" "$trace"

begin "a binary trace is at most 12 bytes an event, a fifth of the text"
run convert "$trace" -o "$dir/size.mtb" -q
want [ "$(wc -c <"$dir/size.mtb")" -le $((12 * events)) ]
want [ $((5 * $(wc -c <"$dir/size.mtb"))) -le "$(wc -c <"$trace")" ]

begin "replays of both are equal"
run replay "$trace" --policy torch,block:64KiB,bfc
want ended 0
sed '/^# file/d' "$out" >"$dir/of_text"
run replay "$dir/size.mtb" --policy torch,block:64KiB,bfc
want ended 0
sed '/^# file/d' "$out" >"$dir/of_binary"
want cmp "$dir/of_text" "$dir/of_binary"

begin "the example of docs/trace-format.md, byte for byte"
{
    echo "# memtrace trace 1"
    sed -n '/^    # seq kind/,/^$/s/^    //p' docs/trace-format.md
} >"$dir/example.trace"
run convert "$dir/example.trace" --to mtb -q
want ended 0
want is "$(od -An -v -tx1 "$out" | tr -d ' \n')" "$(sed -n '/^    8d4d/,$p' docs/trace-format.md |
    cut -c 5-46 | tr -d ' \n')"

# ---- each form by what reads it --------------------------------------------------------------------

begin "csv: a row an event, 14 columns, those of the text"
run convert "$trace" --to csv -q
want lines $((events + 1)) "$out"
want no awk -F , 'NF != 14 { print; found = 1 } END { exit !found }' "$out"
tail -n +2 "$out" | cut -d , -f 1-12 >"$dir/csv"
rows "$trace" | sed 's/ /,/g; s/,-,/,,/g; s/,-,/,,/g; s/,-$/,/' >"$dir/text"
want cmp "$dir/csv" "$dir/text"

begin "jsonl: strict JSON, a line an event and a note"
run convert "$trace" --to jsonl -q
split -l 200 "$out" "$dir/lines."
want lines $((events + $(grep -c '^#' "$trace") - 2)) "$out"
head -n 60 "$out" | while read -r line; do
    echo "$line" >"$dir/line.json"
    strict_json "$dir/line.json" || echo "$line" >>"$dir/not_strict"
done
want no [ -e "$dir/not_strict" ]
want is "$(grep -c '"kind": "alloc"' "$out")" "$(grep -c '^[0-9]* alloc ' "$trace")"

begin "chrome: strict JSON whose counter adds up to what is reserved"
run convert "$trace" --to chrome -q
want strict_json "$out"
peak=$("$MEMTRACE" replay "$trace" --policy direct >/dev/null; awk '!/^#/ { if ($2 == "segment_alloc") r += $9
    if ($2 == "segment_free") r -= $9; if (r > p) p = r } END { printf "%.0f\n", p }' "$trace")
sums=$(sed -n 's/.*"device memory".*"requested": \([0-9]*\), "rounding": \([0-9]*\), "split": \([0-9]*\), "cached": \([0-9]*\).*/\1 \2 \3 \4/p' "$out" |
    awk '{ s = $1 + $2 + $3 + $4; if (s > p) p = s } END { printf "%.0f\n", p }')
want is "$sums" "$peak"

requested=$(awk '!/^#/ { if ($2 == "alloc") r += $8; if ($2 == "free") r -= $8; if (r > p) p = r }
    END { printf "%.0f\n", p }' "$trace")

begin "folded: the bytes at the peak of what was requested"
run convert "$trace" --to folded -q
want is "$(awk '{ s += $NF } END { printf "%.0f\n", s }' "$out")" "$requested"
want grep -q '^kv;layer 2 [0-9]*$' "$out"

begin "massif: the peak has its tree"
run convert "$trace" --to massif -q
want is "$(sed -n '/heap_tree=peak/{n;s/^n[0-9]*: \([0-9]*\) .*/\1/p;}' "$out")" "$requested"
most=$(awk -F = '$1 == "mem_heap_B" { b = $2 } $1 == "mem_heap_extra_B" { b += $2; if (b > p) p = b }
    END { printf "%.0f\n", p }' "$out")
want is "$most" "$peak"
if command -v ms_print >/dev/null; then
    ms_print "$out" >"$dir/ms" 2>"$dir/ms_err"
    want is "$?" 0
    want empty "$dir/ms_err"
    want grep -q 'peak)' "$dir/ms"
    want grep -q 'layer 2 < kv' "$dir/ms"
else
    skip "massif: ms_print" "valgrind is not installed"
fi

begin "rmm: every allocate is freed or alive, under a pointer of its own"
run convert "$trace" --to rmm -q
want is "$(head -n 1 "$out")" "Thread,Time,Action,Pointer,Size,Stream"
want no awk -F , 'NR > 1 && (NF != 6 || $2 !~ /^[0-9][0-9]:[0-9][0-9]:[0-9][0-9][.][0-9]*$/ ||
    ($3 == "allocate" && size[$4]) || ($3 == "free" && size[$4] != $5)) { print; bad = 1 }
    $3 == "allocate" { size[$4] = $5 } END { exit !bad }' "$out"
want is "$(grep -c ',allocate,' "$out")" "$(grep -c '^[0-9]* alloc ' "$trace")"
want is "$(grep -c ',free,' "$out")" "$(grep -c '^[0-9]* free ' "$trace")"

# ---- recordings that tell no events ----------------------------------------------------------------

begin "a recording of requests is replayed for a form of events"
run convert "$recording" --to trace
want ended 0
want has "$err" "tells no events; these are of its requests through torch"
cp "$out" "$dir/replayed.trace"
run replay "$dir/replayed.trace"
want ended 0
run convert "$recording" --to trace --policy bfc -q
want ended 0
want no cmp -s "$out" "$dir/replayed.trace"

begin "a recording as a binary trace keeps its requests and settings"
run convert "$recording" -o "$dir/recording.mtb"
want ended 0
want has "$err" "left out: driver calls"
run convert "$dir/recording.mtb" --to trace -q
want ended 0
rows "$out" >"$dir/a"
rows "$dir/replayed.trace" >"$dir/b"
want cmp "$dir/a" "$dir/b"

# ---- ranges ----------------------------------------------------------------------------------------

begin "a range of steps is a trace of its own, with what was live"
run convert "$trace" --from-step 10 --to-step 19 -o "$dir/range.trace" -q
want ended 0
want is "$(grep -c '^[0-9]* mark ' "$dir/range.trace")" 11
live=$(awk '!/^#/ { if ($2 == "alloc") r += $8; if ($2 == "free") r -= $8 }
    $2 == "mark" && $3 == 19 { printf "%.0f\n", r; exit }' "$trace")
want is "$(awk '!/^#/ { if ($2 == "alloc") r += $8; if ($2 == "free") r -= $8 } END { printf "%.0f\n", r }' \
    "$dir/range.trace")" "$live"
run replay "$dir/range.trace"
want ended 0
run convert "$dir/range.trace" -o "$dir/range.mtb" -q
want ended 0

begin "the whole range is the whole trace"
run convert "$trace" --to-step 100000 --to trace -q
want ended 0
want cmp "$out" "$trace"

begin "a range of growing segments"
run run $small --policy torch,expandable_segments:True --trace "$dir/growing.mtb"
run convert "$dir/growing.mtb" --from-step 5 --to trace -q
want ended 0
cp "$out" "$dir/growing.trace"
run replay "$dir/growing.trace"
want ended 0

# ---- refusals --------------------------------------------------------------------------------------

refused "no form" 2 "expected --to FORM or -o OUT" convert "$trace"
refused "an unknown form" 2 "--to pickles: expected one of trace, mtb" convert "$trace" --to pickles
refused "an unknown ending" 2 "expected --to FORM or -o OUT" convert "$trace" -o "$dir/x.unknown"
refused "a range backwards" 2 "is after --to-step" convert "$trace" --to csv --from-step 3 --to-step 2
refused "a range behind the end" 2 "expected a step up to 39" convert "$trace" -o "$dir/x.csv" --from-step 40 -q
refused "no file" 2 "no_such_file" convert "$dir/no_such_file" --to csv
cp "$trace" "$dir/same.trace"
ln -s same.trace "$dir/same.csv"
refused "its own file" 2 "the output is the same file as the input" convert "$dir/same.trace" -o "$dir/same.csv"
want cmp "$trace" "$dir/same.trace"
refused "no folder" 4 "no_such_folder" convert "$trace" -o "$dir/no_such_folder/x.csv"

begin "a broken trace leaves no file"
head -c 5000 "$dir/size.mtb" >"$dir/cut.mtb"
run convert "$dir/cut.mtb" -o "$dir/none.trace"
want ended 2
want has "$err" "the file is cut"
want no [ -e "$dir/none.trace" ]

begin "a full disk"
if [ -w /dev/full ]; then
    run convert "$trace" --to csv -o /dev/full -q
    want ended 4
fi
finish
