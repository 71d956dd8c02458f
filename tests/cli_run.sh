#!/bin/sh
# `memtrace run`: what it prints, how it ends, what it refuses.
. tests/cli.shi

small="--layers 2 --width 64 --heads 4 --vocab 300 --threads 1 --quiet"
columns="# step ctx weights kv activations logits workspace other requested rounding split cached \
reserved peak_requested peak_reserved segments kv_ideal bump cause ms"

# ---- the table -------------------------------------------------------------------------------------

header_before_rows() { # header_before_rows FILE: the last # line before the first row
    awk '!/^#/ { exit } { last = $0 } END { print last }' "$1"
}

begin "the header tells every option"
run --backend none --quiet --ctx 20 --prompt-tokens 3 --batch 2 --layers 2 --heads 4 --width 64 \
    --vocab 300 --positions 100 --dtype bf16 --seed 7 --logits all --kv paged:4 --activations arena \
    --policy block:64KiB,fit:first --workspace 1MiB --capacity 1GiB
want ended 0
want empty "$err"
want grep -q '^# memtrace [0-9]' "$out"
while read -r line; do
    want grep -qx "# $line" "$out"
done <<'LINES'
command run
model gpt2
weights_source seeded 7.*
layers 2
heads 4
width 64
vocab 300
positions 100
head tied
dtype bf16
parameters 125696
ctx 20
prompt seeded, 3 tokens
batch 2
seed 7
logits all
kv paged:4
activations arena
policy block:65536,round:512,fit:first,keep:all
workspace 1048576
backend none
device none.*
source sim
capacity 1073741824
units bytes, ms
LINES
want is "$(header_before_rows "$out")" "$columns"
want row_count 18 "$out"

begin "the header tells the defaults"
run --backend none --quiet
want ended 0
while read -r line; do
    want grep -qx "# $line" "$out"
done <<'LINES'
model gpt2
weights_source seeded 0.*
layers 12
heads 12
width 768
vocab 50257
positions 1024
dtype f32
parameters 124439808
ctx 1024
prompt seeded, 1 tokens
batch 1
seed 0
logits last
kv concat
activations eager
policy torch
workspace 0
capacity 51539607552
LINES
want is "$(header_before_rows "$out")" "$columns"
want is "$(grep -c '^# load ' "$out")" 1
want row_count 1024 "$out"
cp "$out" "$dir/default.dat"

begin "memtrace run is memtrace"
run run --backend none --quiet
want ended 0
want row_count 1024 "$out"
want cmp "$dir/default.dat" "$out"
begin "a second option replaces the first"
run --ctx 3 --backend cuda --kv none --policy direct --kv concat --quiet --ctx 1024 --policy torch \
    --backend none
want ended 0
want row_count 1024 "$out"
want cmp "$dir/default.dat" "$out"

begin "a model of its own"
run --backend none --quiet --model gpt2-xl --ctx 3
want ended 0
want has "$out" "# layers 48"
want has "$out" "# width 1600"
want awk '!/^#/ && ($3 != 6230444800 || $17 != 614400 * $2) { bad++ } END { exit bad > 0 }' "$out"

steps() { # steps CTX PROMPT OPTION...: ctx - prompt + 1 rows, numbered, with whole bytes
    N=$1
    P=$2
    begin "ctx $N, a prompt of $P $3"
    shift 2
    run $small --ctx "$N" --prompt-tokens "$P" "$@"
    want ended 0
    want row_count $((N - P + 1)) "$out"
    want awk -f tests/identity.awk "$out"
    want awk -v P="$P" '
        /^#/ { next }
        $1 != rows || $2 != P + rows || NF != 20 { bad++ }
        { for (i = 1; i <= 17; i++) if ($i !~ /^[0-9]+$/) bad++; rows++ }
        $18 !~ /^-?[0-9]+$/ || $20 !~ /^([0-9]+\.[0-9][0-9][0-9]|0)$/ { bad++ }
        END { exit bad > 0 }' "$out"
}
steps 1 1 --backend=cpu
steps 1 1 --backend=none
steps 1 1 --kv=none
steps 20 1 --backend=cpu
steps 20 20 --backend=cpu
steps 20 7 --kv=none
steps 20 19 --kv=paged:1
steps 20 7 --kv=paged:64
steps 20 7 --kv=doubling:1

begin "a run that computes has times, a dry run has none"
run $small --backend cpu --ctx 5
want row_count 5 "$out"
want awk '!/^#/ && !($20 > 0) { bad++ } END { exit bad > 0 }' "$out"
run $small --backend none --ctx 5
want row_count 5 "$out"
want awk '!/^#/ && $20 != "0" { bad++ } END { exit bad > 0 }' "$out"

begin "the summary"
run --backend none --ctx 100
want ended 0
want has "$err" "0 unexplained bytes"
want grep -q '^kv per token: 73,728 bytes measured, 73,728 expected: equal' "$err"
want grep -q '^bumps: [0-9]' "$err"
bumps=$(awk '!/^#/ && $18 != 0' "$out" | wc -l)
want grep -q "^bumps: $bumps," "$err"
want grep -Eq "^ *= reserved +$(rows "$out" | tail -n 1 | awk '{ print $13 }' |
    sed -e :a -e 's/\([0-9]\)\([0-9]\{3\}\)\(,\|$\)/\1,\2\3/;ta') " "$err"

# ---- JSON ------------------------------------------------------------------------------------------

# json_rows FILE, json_load FILE: the rows as the table has them.
json_text() {
    sed -e 's/^.*{//' -e 's/}.*$//' -e 's/"[a-z_]*": //g' -e 's/"//g' -e 's/, / /g'
}
json_rows() {
    sed -n '/^  {"step"/p' "$1" | json_text
}
json_load() {
    sed -n '/^"load": {/p' "$1" | json_text
}

valid_json() { # valid_json FILE ROWS ENDED
    strict_json "$1" && [ "$(json_rows "$1" | wc -l)" -eq "$2" ] && has "$1" "\"ended\": \"$3\"" &&
        has "$1" '"unexplained": 0' &&
        if [ "$3" = "out of memory" ]; then no has "$1" '"refusal": null'; else has "$1" '"refusal": null'; fi
}

same_numbers() { # same_numbers TABLE JSON
    rows "$1" >"$dir/rows"
    json_rows "$2" | cmp - "$dir/rows" || return 1
    json_load "$2" >"$dir/rows"
    sed -n 's/^# load //p' "$1" | cmp - "$dir/rows"
}

begin "JSON has the numbers of the table"
run --backend none --quiet --json
want ended 0
want empty "$err"
want valid_json "$out" 1024 "done"
want same_numbers "$dir/default.dat" "$out"
want is "$(sed -n 's/^"columns": \[\(.*\)\],$/\1/p' "$out" | tr -d '",')" "${columns#\# }"
sed -n -e 's/^# load .*//' -e '/^# memtrace/d' -e '/^# step/d' \
    -e 's/^# graph off$/  "graph": false/p' -e '/^# graph/d' \
    -e 's/^# \([a-z_]*\) \([0-9]*\)$/  "\1": \2/p' \
    -e 's/^# \([a-z_]*\) \(.*\)$/  "\1": "\2"/p' "$dir/default.dat" >"$dir/options"
while read -r line; do
    want has "$out" "$line"
done <"$dir/options"
want lines 26 "$dir/options"
want has "$dir/options" '"layers": 12'
want has "$dir/options" '"dtype": "f32"'

begin "CSV: a header line, rows, and nothing else"
run --backend none --quiet --csv
want ended 0
want is "$(head -n 1 "$out")" "$(echo "${columns#\# }" | tr ' ' ,)"
sed -n -e 's/^# load //p' -e '/^[0-9]/p' "$dir/default.dat" | awk '{
    if ($19 ~ /,/) $19 = "\"" $19 "\""
    gsub(/ /, ","); print }' >"$dir/csv"
sed 1d "$out" | want cmp - "$dir/csv"
begin "JSON of a sweep: numbers where they are such"
run sweep --quiet --json --ctx 4,8 --kv concat,static --workspace torch --capacity 1.5GiB,2GiB
want ended 0
want strict_json "$out"
want is "$(grep -c '"workspace": 8519680, "capacity": \(1610612736\|2147483648\), "ctx": [48], "peak' "$out")" 8
run sweep --quiet --json --ctx 4 --capacity 1MiB
want strict_json "$out"
want has "$out" '"ended": "out of memory"'

begin "CSV of a sweep and of predict"
run sweep --quiet --csv --ctx 4,8 --policy torch,max_split_size_mb:20,direct
want ended 0
want is "$(head -n 1 "$out" | cut -d, -f 1-6)" "model,dtype,batch,prompt-tokens,logits,policy"
want lines 5 "$out"
want is "$(grep -c ',"torch,max_split_size_mb:20",' "$out")" 2
run predict --csv --ctx 3
want ended 0
want is "$(head -n 1 "$out" | cut -c 1-40)" "step,tokens,allocated,reserved,requested"
want lines 5 "$out"
want grep -q '^-1,0,' "$out"
want no grep -q '[^0-9,-]' <<END
$(sed 1d "$out")
END

refused "CSV and JSON" 2 "not both" --backend none --csv --json

# ---- traces ----------------------------------------------------------------------------------------

begin "a trace, plain and packed"
mkdir "$dir/traces"
for kind in plain.trace a.gz b.zst; do
    run --backend none --quiet --ctx 300 --trace "$dir/traces/$kind"
    want ended 0
    want row_count 300 "$out"
done
plain=$dir/traces/plain.trace
want is "$(head -n 1 "$plain")" "# memtrace trace 1"
want is "$(header_before_rows "$plain")" \
    "# seq kind step stream id segment offset requested rounded tag layer pool"
want has "$plain" "# kv concat"
want awk '/^#/ { next } NF != 12 || $1 != n++ { bad++ } END { exit bad > 0 || n < 10000 }' "$plain"
want is "$(grep -c '^[0-9]* mark ' "$plain")" 301
want gzip -t "$dir/traces/a.gz"
gzip -dc "$dir/traces/a.gz" >"$dir/unpacked"
want cmp "$plain" "$dir/unpacked"
if zstd --version >/dev/null 2>&1; then
    zstd -dcq "$dir/traces/b.zst" >"$dir/unpacked"
    want cmp "$plain" "$dir/unpacked"
else
    skip "a trace packed by zstd" "there is no zstd to unpack it"
fi
want is "$(ls "$dir/traces" | tr '\n' ' ')" "a.gz b.zst plain.trace "

begin "a trace with times"
run $small --backend cpu --ctx 20 --trace "$dir/timed.trace" --trace-time
want ended 0
want awk '/^#/ { next } NF != 13 || $13 < before { bad++ } { before = $13 } END { exit bad > 0 }' \
    "$dir/timed.trace"
want awk '$2 == "mark" && $3 >= 0 && !($9 > 0) { bad++ } END { exit bad > 0 }' "$dir/timed.trace"

begin "a trace replaces an older one"
echo old >"$dir/again.trace"
run $small --ctx 5 --trace "$dir/again.trace"
want ended 0
want no has "$dir/again.trace" old
begin "a trace to standard output"
run --backend none --quiet --ctx 2 --json --trace /dev/stderr
want ended 0
want has "$err" "# memtrace trace 1"
want valid_json "$out" 2 "done"

# ---- out of memory ---------------------------------------------------------------------------------

with_commas() {
    echo "$1" | sed -e :a -e 's/\([0-9]\)\([0-9]\{3\}\)\(,\|$\)/\1,\2\3/;ta'
}

# first_rows FILE: its rows are the first ones of the run without a limit.
first_rows() {
    rows "$1" >"$dir/rows"
    rows "$dir/default.dat" | head -n "$(wc -l <"$dir/rows")" | cmp - "$dir/rows"
}

begin "out of memory in a step"
run --backend none --quiet --capacity 545MiB --trace "$dir/full.trace"
want ended 3
want last "$out" "# out of memory"
step=$(rows "$out" | wc -l)
want [ "$step" -gt 100 ]
want [ "$step" -lt 1024 ]
want first_rows "$out"
want awk -f tests/identity.awk "$out"
want has "$err" "out of device memory in step $step"
want has "$err" "request for kv, layer "
want grep -q "requested  *$(with_commas $(((step + 1) * 3072))) bytes" "$err"
want grep -q 'reserved  *[0-9,]* bytes' "$err"
want grep -q 'largest free  *[0-9,]* bytes' "$err"
want last "$dir/full.trace" "# out of memory"
want is "$(grep -c '^[0-9]* oom ' "$dir/full.trace")" 1
want is "$(grep -c '^[0-9]* mark ' "$dir/full.trace")" $((step + 1))
enough=$(sed -n 's/^ *a capacity of at least \([0-9,]*\) bytes.*/\1/p' "$err" | tr -d ,)

begin "with the capacity that would fit, that step fits"
run --backend none --quiet --capacity "${enough:-0}"
want row_count $((step + 1)) "$(rows "$out" | head -n $((step + 1)) >"$dir/some"; echo "$dir/some")"
want first_rows "$out"
run --backend none --quiet --capacity $((${enough:-1} - 1))
want row_count "$step" "$out"

begin "out of memory, as JSON"
run --backend none --quiet --capacity 545MiB --json
want ended 3
want valid_json "$out" "$step" "out of memory"
want has "$out" "\"refusal\": {\"step\": $step, \"tag\": \"kv\", \"layer\": "
want has "$out" "\"requested\": $(((step + 1) * 3072)), "

begin "too small for the weights"
run --backend none --capacity 100MiB --trace "$dir/none.trace"
want ended 3
want last "$out" "# out of memory"
want row_count 0 "$out"
want has "$out" "# capacity 104857600"
want has "$out" "$columns"
want no has "$out" "# load"
want has "$err" "out of device memory while loading"
want has "$err" "request for weights"
want has "$err" "154,389,504 bytes"
want last "$dir/none.trace" "# out of memory"

begin "no room for the workspace"
run --backend none --quiet --capacity 545MiB --workspace 1GiB
want ended 3
want has "$err" "request for workspace"
want last "$out" "# out of memory"

begin "out of memory on the cpu"
for kv in concat concat-tuple static doubling:4 paged:8 none; do
    for activations in eager arena; do
        run $small --backend cpu --ctx 200 --policy direct --capacity 840KiB --kv $kv \
            --activations $activations
        want ended 3
        want last "$out" "# out of memory"
        want awk -f tests/identity.awk "$out"
        want has "$err" "out of device memory"
    done
done

# ---- interrupts ------------------------------------------------------------------------------------

# interrupted SIGNAL: it ends a run that would be long, after the step it is in.
interrupted() {
    begin "ended by SIG$1"
    mkdir "$dir/cut$1"
    command="$MEMTRACE ... --ctx 1000000"
    timeout -s KILL 100 "$MEMTRACE" $small --backend cpu --positions 1000000 --ctx 1000000 \
        --kv static --trace "$dir/cut$1/trace.zst" >"$out" 2>"$err" &
    pid=$!
    tries=0
    while [ "$(wc -l <"$out")" -lt 60 ] && [ $tries -lt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    want no [ -e "$dir/cut$1/trace.zst" ] # not before it is whole
    kill -s "$1" $pid # timeout hands it on
    wait $pid
    status=$?
    want ended 130
    want empty "$err"
    want last "$out" "# interrupted"
    want awk -f tests/identity.awk "$out"
    want no row_count 0 "$out"
    want is "$(ls "$dir/cut$1")" trace.zst
    if zstd --version >/dev/null 2>&1; then
        zstd -dcq "$dir/cut$1/trace.zst" >"$dir/cut.trace"
        want last "$dir/cut.trace" "# interrupted"
        want is "$(grep -c '^[0-9]* mark ' "$dir/cut.trace")" $(($(rows "$out" | wc -l) + 1))
    fi
}
interrupted INT
interrupted TERM

# ---- outputs that fail -----------------------------------------------------------------------------

full_disk() { # full_disk NAME ARGUMENT...
    begin "a full disk: $1"
    shift
    mkdir -p "$dir/full"
    command="$MEMTRACE $* >/dev/full"
    "$MEMTRACE" "$@" >/dev/full 2>"$err"
    status=$?
    want ended 4
    want lines 1 "$err"
    want has "$err" "No space left on device"
    want is "$(find "$dir/full" -name '*.tmp')" ""
}
if [ -c /dev/full ]; then
    full_disk "the table" --backend none --quiet
    full_disk "a short table" --backend none --quiet --ctx 2
    full_disk "JSON" --backend none --quiet --json
    full_disk "short JSON" --backend none --quiet --ctx 2 --json
    full_disk "ids" generate --ids --ctx 5 --layers 1 --width 32 --heads 2 --vocab 300
    full_disk "a verdict" verify --ctx 5 --layers 1 --width 32 --heads 2 --vocab 300
    echo old >"$dir/full/old.trace"
    for ctx in 2 1024; do
        full_disk "the old trace stays, ctx $ctx" --backend none --quiet --ctx $ctx \
            --trace "$dir/full/old.trace"
        want is "$(cat "$dir/full/old.trace")" old
    done

    begin "a full disk: the trace"
    run --backend none --quiet --ctx 50 --trace /dev/full
    want ended 4
    want one_message
    want has "$err" /dev/full
else
    skip "a full disk" "there is no /dev/full"
fi

refused "a trace below a file" 4 "tests/cli.shi/x: cannot be written" --backend none \
    --trace tests/cli.shi/x
refused "a trace in no folder" 4 "$dir/no/x" --backend none --trace "$dir/no/x"
refused "a trace where none may write" 4 /proc/x.trace --backend none --trace /proc/x.trace
refused "a trace over a folder" 4 "$dir" --backend none --trace "$dir"
refused "a trace without a name" 4 "cannot be written" --backend none --trace ""

begin "bad options leave an old trace alone"
echo old >"$dir/keep.trace"
run --backend none --policy nonsense --trace "$dir/keep.trace"
want ended 2
run --backend none --prompt-ids 50257 --trace "$dir/keep.trace"
want ended 2
run --backend none --batch 1000 --layers 1000000 --width 200000 --heads 1 --capacity 1000000GiB \
    --trace "$dir/keep.trace"
want ended 2
want one_message
want is "$(cat "$dir/keep.trace")" old
want is "$(ls "$dir"/*.tmp 2>/dev/null)" ""

closed_pipe() { # closed_pipe NAME OPTION...
    begin "a closed pipe: $1"
    shift
    command="$MEMTRACE $* | head -n 1"
    { timeout 60 "$MEMTRACE" "$@" 2>"$err"; echo $? >"$dir/status"; } | head -n 1 >"$out"
    status=$(cat "$dir/status")
    want ended 4
    want lines 1 "$err"
    want has "$err" "Broken pipe"
    want lines 1 "$out"
}
closed_pipe "the table" --backend none --quiet
closed_pipe "JSON" --backend none --quiet --json
closed_pipe "a run that computes" $small --backend cpu --positions 1000000 --ctx 1000000 --kv static

# ---- help ------------------------------------------------------------------------------------------

for c in "" run generate tokenize verify sweep replay predict study; do
    begin "memtrace $c --help"
    run $c -h
    want ended 0
    cp "$out" "$dir/help"
    run $c --help
    want ended 0
    want cmp "$out" "$dir/help"
    want empty "$err"
    want grep -q '^Usage: memtrace' "$out"
    case $c in
    replay) ;;
    tokenize) want has "$out" --model= ;;
    *) want has "$out" --model= && want has "$out" --ctx= ;;
    esac
    case $c in
    "" | run) want has "$out" --trace= ;;
    *) want no has "$out" --trace= ;;
    esac
    case $c in
    "" | run | generate | verify | study | sweep | replay)
        for policy in "torch[,OPTION:VALUE...]" block: direct bfc jemalloc async; do
            want has "$out" "  $policy"
        done
        ;;
    esac
    case $c in
    "" | run | generate | verify | study | sweep)
        for kv in concat concat-tuple static doubling paged: none; do
            want has "$out" "  $kv"
        done
        ;;
    esac
    want awk 'length > 79 { exit 1 }' "$out"
    run help $c
    want ended 0
    [ -z "$c" ] || want cmp "$out" "$dir/help"
    run $c --usage
    want ended 0
    want empty "$err"
    begin "memtrace $c --version"
    run $c --version
    want ended 0
    want empty "$err"
    want lines 1 "$out"
    want grep -q '^memtrace [0-9]' "$out"
done

# The examples of the help, those of run without computing.
mkdir "$dir/bin"
ln -s "$(realpath "$MEMTRACE")" "$dir/bin/memtrace"
for c in run predict sweep replay; do
    [ -z "$quick" ] || break
    run $c --help
    sed -n '/^Examples:/,/^$/s/^  //p' "$out" | grep -v -e --check >"$dir/examples"
    want [ -s "$dir/examples" ]
    while read -r example; do
        case $example in
        "memtrace --"*) example="memtrace --backend none ${example#memtrace}" ;;
        esac
        begin "an example of the help: $example"
        (cd "$dir" && PATH=$dir/bin:$PATH && eval "$example") >"$out" 2>"$err"
        status=$?
        want ended 0
    done <"$dir/examples"
done

# ---- what is refused -------------------------------------------------------------------------------

long=$(printf '%05000d' 0 | tr 0 x)
huge=99999999999999999999999999
for option in ctx prompt-tokens batch layers heads width vocab positions threads; do
    for value in "" 0 -1 1.5 1e3 0x10 " 1" 1x abc 18446744073709551616 18446744073709551615 $huge; do
        refused "--$option '$value'" 2 "--$option $value: expected an integer" --backend none \
            --$option "$value"
    done
done
for value in "" -1 1.5 abc 18446744073709551616; do
    refused "--seed '$value'" 2 "--seed $value: expected an integer" --seed "$value"
done
for value in "" 0 -1 abc 1.1KiB 1TiB "1 GiB" 1.GiB GiB 17179869184GiB 16777216GiB $huge; do
    refused "--capacity '$value'" 2 "--capacity $value: expected a size" --capacity "$value"
done
for value in "" -1 abc 1.1MiB 17179869184GiB 1125899906842625 $huge; do
    refused "--workspace '$value'" 2 "--workspace $value: expected a size" --workspace "$value"
done
for option in logits dtype backend activations model; do
    for value in "" abc ALL; do
        refused "--$option '$value'" 2 "$value: " --$option "$value"
    done
done
for value in "" abc ALL paged paged: paged:0 paged:-1 paged:x paged:1,2 paged:$huge doubling: doubling:0 \
    doubling:x doubling:$huge static:4 concat: none:1 Concat "concat "; do
    refused "--kv '$value'" 2 "cache strategy " --backend none --kv "$value"
done
for value in "" abc Torch " torch" block block: block:0 block:1000 block:2MiB,fit:worst \
    block:2MiB,keep:some block:2MiB,round:0 block:2MiB,round:100 block:2MiB,round \
    block:2MiB,x:1 block:$huge direct:0 direct:1000 direct:x torch,x:1 torch,x \
    torch,max_split_size_mb:19 torch,expandable_segments:yes torch,roundup_power2_divisions:3 \
    torch,garbage_collection_threshold:2 torch,version:x torch,addresses:x bfc:100 jemalloc:4KiB async \
    torch, torch: torch,, block:2MiB, block,2MiB direct, direct: direct,2MiB direct:2MiB, bfc, bfc,1MiB \
    jemalloc, jemalloc: async, torch,max_split_size_mb:20,, torch,max_split_size_mb:$huge; do
    refused "--policy '$value'" 2 "policy " --backend none --policy "$value"
done
for value in 99999999999 1048577 $huge; do
    refused "--kv paged:$value is too many" 2 "paged:$value': expected paged:N, N from 1 to 1048576" \
        --backend none --kv paged:$value
    refused "--kv doubling:$value is too many" 2 \
        "doubling:$value': expected doubling[:N], N from 1 to 1048576" --backend none \
        --kv doubling:$value
done
for value in 99999999999999999999 2000000GiB; do
    refused "--policy block:$value is too much" 2 "at most 1048576GiB" --backend none \
        --policy block:$value
    refused "--policy direct:$value is too much" 2 "at most 1048576GiB" --backend none \
        --policy direct:$value
    refused "--policy bfc:$value is too much" 2 "at most 1048576GiB" --backend none --policy bfc:$value
done
for c in generate verify; do
    refused "a trace of $c" 2 "--trace" $c --trace x
    refused "JSON of $c" 2 "--json" $c --json
done
for value in "" , 1, ,1 1,,2 a 1,b -1 1.5 50257 1,50257 "1, 2" $huge; do
    refused "--prompt-ids '$value'" 2 "--prompt-ids" --backend none --prompt-ids "$value"
done
for option in ctx prompt prompt-file prompt-ids prompt-tokens batch logits model layers heads width \
    vocab positions seed dtype tokenizer policy kv activations workspace capacity backend threads \
    trace; do
    refused "--$option without a value" 2 "--$option" --backend none --$option
    case $option in
    trace | prompt*) continue ;;
    esac
    refused "--$option with a long value" 2 ": " --backend none --$option "$long"
    want [ "$(wc -c <"$err")" -lt 700 ]
    refused "--$option with two lines" 2 'a\x0ab' --backend none --$option "a
b"
done

for option in ctx capacity trace prompt-file model policy; do
    refused "--$option takes no option as its value" 2 "not the option --quiet" --backend none \
        --$option --quiet
done
refused "--summary takes no option as its value" 2 "--summary: expected torch or stats, not the option -q" \
    --backend none --summary -q
begin "an option's name as a value, on purpose"
run --backend none --ctx 2 --quiet "--trace=$dir/--quiet"
want ended 0
want [ -s "$dir/--quiet" ]
begin "sizes with decimals and in other units"
for size in 1.5GiB 1536mb 1.5g 1610612736 1572864K; do
    run --backend none --ctx 1 --quiet --capacity $size
    want has "$out" "# capacity 1610612736"
done
for size in 2MiB 2mib 2M 2097152B; do
    run --backend none --ctx 1 --policy block:$size
    want is "$(rows "$out" | awk '{ print $13 }')" 562036736
    want no grep -q 'memtrace: .*1024' "$err"
done
for o in "--capacity 2GB" "--policy block:2MB" "--workspace 4KB"; do
    run --backend none --ctx 1 $o
    want ended 0
    want is "$(head -n 1 "$err")" "memtrace: ${o#* }: KB, MB and GB are 1024 bytes, 1024 KB and 1024 MB here"
    run --backend none --ctx 1 $o --quiet
    want empty "$err"
done

begin "names of element types"
for pair in f32,fp32 f32,float32 bf16,bfloat16 f16,fp16 f16,float16; do
    for c in "--backend none --ctx 2 --quiet" "predict --ctx 2"; do
        run $c --dtype ${pair%,*}
        cp "$out" "$dir/one"
        run $c --dtype ${pair#*,}
        want ended 0
        want cmp "$out" "$dir/one"
    done
done

begin "the capacity that was reached: when, how often, and that it is the default"
run --backend none --model gpt2-xl --batch 8
want ended 0
want has "$err" "--capacity 48GiB (the default) was reached 1 time, first in step 860:"
want has "$out" "# capacity reached 1 time, first in step 860"
full=$(rows "$out" | awk '{ print $13 }' | tail -n 1)
run sweep --model gpt2-xl --batch 8
want is "$(rows "$out" | awk '{ print $10, $14 }')" "48GiB $full"
want has "$err" "1 row reached --capacity 48GiB (the default)"
run --backend none --model gpt2-xl --batch 8 --capacity 100GiB
want no has "$err" reached
want no has "$out" reached
run predict --model gpt2 --batch 4 --ctx 1024 --capacity 700MiB
want has "$err" "--capacity 700MiB was reached"
run --backend none --ctx 1024 --capacity 600MiB --json
want strict_json "$out"
want grep -q '"capacity_reached": [1-9]' "$out"

begin "more threads than cores"
run --layers 2 --width 64 --heads 4 --vocab 300 --backend cpu --ctx 2 --threads 1000
want ended 0
want is "$(grep -c '^memtrace: --threads 1000 on [0-9]* core' "$err")" 1
run sweep --ctx 2 --threads 1000
want is "$(grep -c '^memtrace: --threads 1000 on [0-9]* core' "$err")" 1
run sweep --ctx 2 --threads 1000 --quiet
want empty "$err"
run $small --backend cpu --ctx 2 --threads 1
want no has "$err" --threads

if command -v script >/dev/null; then
    begin "without options, on a terminal: what is about to happen"
    timeout -k 1 2 script -qfc "exec $MEMTRACE >/dev/null" /dev/null >"$out" 2>&1
    want grep -q 'generating 1024 tokens with GPT-2 small' "$out"
    want has "$out" "memtrace --backend none"
else
    skip "without options, on a terminal" "there is no script(1)"
fi

refused "an unknown option" 2 "--nonsense" --nonsense
refused "an unknown option of two lines" 2 "unrecognized option '--a\\x0ab'" "--a
b=c"
refused "an escape sequence as an option" 2 "unrecognized option '-\\x1b'" "-$(printf '\033')[2J"
refused "an unknown letter" 2 "'x'" -x
refused "an ambiguous option" 2 "--pr" --pr 1
refused "a value for a switch" 2 "--json" --json=1
refused "an argument" 2 "unexpected argument 'extra'" --backend none extra
refused "an argument of run" 2 "unexpected argument 'extra'" run --backend none extra
refused "an argument after --" 2 "unexpected argument '--ctx'" --backend none -- --ctx 5
refused "a dash" 2 "unexpected argument '-'" --backend none -
refused "an unknown command" 2 "unknown command 'nonsense'" nonsense
refused "an empty command" 2 "unknown command ''" ""
refused "a command in two lines" 2 "unknown command 'run\x0a'" "run
"
refused "two prompts" 2 "one prompt" --backend none --prompt-tokens 1 --prompt-ids 1
refused "two prompts of text" 2 "one prompt" --backend none --prompt a --prompt-file /dev/null
refused "a prompt longer than ctx" 2 "6 tokens, more than --ctx 5" --backend none --ctx 5 \
    --prompt-tokens 6
refused "ids longer than ctx" 2 "3 tokens, more than --ctx 2" --backend none --ctx 2 \
    --prompt-ids 1,2,3
refused "ctx above the positions" 2 "1024 positions" --backend none --ctx 1025
refused "ctx above fewer positions" 2 "100 positions" --backend none --positions 100 --ctx 101
refused "heads that do not divide the width" 2 "width" --backend none --width 100 --heads 3
refused "bf16 on the cpu" 2 "bf16" --backend cpu --dtype bf16
refused "f16 on the cpu" 2 "f16" --backend cpu --dtype f16
refused "a model that is not there" 2 "$dir/no" --backend none --model "$dir/no"
refused "a folder without a model" 2 "$dir" --backend none --model "$dir"
echo nonsense >"$dir/nonsense.bin"
refused "a file that is no model" 2 nonsense.bin --backend none --model "$dir/nonsense.bin"
refused "another shape of a file" 2 "preset" --backend none --model "$dir/nonsense.bin" --layers 2
refused "times without a trace" 2 "--trace-time needs --trace" --backend none --trace-time
refused "text without a vocabulary" 2 "vocabulary" --backend none --prompt hello
refused "a prompt file that is not there" 2 "$dir/no" --backend none --prompt-file "$dir/no"
refused "a vocabulary that is not there" 2 "$dir/no" --backend none --tokenizer "$dir/no"
refused "a batch without end" 2 "more than 2^31" --backend none --batch 1048576 --prompt-tokens 1024 \
    --ctx 1024 --positions 1048576 --ctx 1048576
if ! "$MEMTRACE" --backend cuda --quiet $small --ctx 1 >/dev/null 2>&1; then
    refused "cuda where there is none" 4 cuda --backend cuda
fi

# ---- under $WATCH ----------------------------------------------------------------------------------

begin "watched: a dry run"
watched --backend none --ctx 20 --trace "$dir/watched.trace"
want ended 0
want row_count 20 "$out"
begin "watched: a run that computes, as JSON"
watched $small --backend cpu --ctx 12 --prompt-tokens 3 --kv paged:4 --json
want ended 0
want valid_json "$out" 10 "done"
begin "watched: out of memory"
watched $small --backend cpu --ctx 200 --policy direct --capacity 840KiB --trace "$dir/w.gz"
want ended 3
want last "$out" "# out of memory"
begin "watched: a bad option"
watched --backend none --policy nonsense
want ended 2
begin "watched: a failed trace"
watched $small --backend none --ctx 2 --trace /dev/full
want ended 4
finish
