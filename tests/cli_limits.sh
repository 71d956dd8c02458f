#!/bin/sh
# What the machine refuses: little address space, no OpenBLAS, a full disk or a closed file under
# each command, a reader who left, a second Ctrl-C. And commands that are not there.
. tests/cli.shi
small="--layers 2 --width 64 --heads 4 --vocab 300 --quiet"

# ---- address space ---------------------------------------------------------------------------------

# limited KIB ARGUMENT...: run, under ulimit -v.
limited() {
    limit=$1
    shift
    command="ulimit -v $limit; $MEMTRACE $*"
    (ulimit -v "$limit" && exec timeout -s KILL 60 "$MEMTRACE" "$@") >"$out" 2>"$err"
    status=$?
}

if (ulimit -v 300000 && "$MEMTRACE" --version) >/dev/null 2>&1; then
    begin "so little address space that threads cannot start"
    for limit in 40000 60000 80000 100000 150000; do
        command="ulimit -v $limit; $MEMTRACE sweep"
        (ulimit -v "$limit" && exec timeout -s KILL 60 "$MEMTRACE" sweep --quiet --ctx 64 --threads 24 \
            --policy block:1MiB..1024MiB*2 --kv concat,static) >"$out" 2>"$err"
        status=$?
        [ "$status" = 127 ] && continue # not even the libraries fit
        if [ "$status" != 0 ]; then
            want ended 4
            want one_message
        fi
    done
    begin "300 MB of address space: what needs no OpenBLAS works"
    limited 300000 --backend none --quiet
    want ended 0
    want row_count 1024 "$out"
    limited 300000 sweep --quiet --kv concat,static --ctx 128 --threads 2
    want ended 0
    want row_count 2 "$out"
    limited 300000 predict --ctx 5
    want ended 0
    begin "300 MB of address space: the cpu back end says what it needs"
    limited 300000 --backend cpu $small
    want ended 4
    want empty "$out"
    want one_message
    want has "$err" "OpenBLAS needs"
    begin "700 MB of address space: one thread computes, BLAS's products too"
    limited 700000 --backend cpu --threads 1 $small --ctx 40 --prompt-tokens 30
    want ended 0
    want row_count 11 "$out"
    want awk -f tests/identity.awk "$out"
else
    skip "little address space" "this program needs more: a sanitizer"
fi

begin "more threads than OpenBLAS has buffers"
run --backend cpu --threads 256 $small --ctx 40 --prompt-tokens 30
want ended 0
want empty "$err"

begin "OpenBLAS that cannot be loaded"
mkdir "$dir/lib"
echo nonsense >"$dir/lib/libopenblas.so.0"
LD_LIBRARY_PATH=$dir/lib
export LD_LIBRARY_PATH
run --backend cpu $small
want ended 4
want empty "$out"
want one_message
want has "$err" "OpenBLAS cannot be loaded"
run --backend none --ctx 5 $small
want ended 0
unset LD_LIBRARY_PATH

# ---- stdout ----------------------------------------------------------------------------------------

if [ -c /dev/full ]; then
    for what in --help --version --usage "generate --help" "sweep --help" "tokenize --version"; do
        begin "a full disk: $what"
        command="$MEMTRACE $what >/dev/full"
        "$MEMTRACE" $what >/dev/full 2>"$err"
        status=$?
        want ended 4
        want lines 1 "$err"
        want has "$err" "cannot write to standard output: No space left on device"
    done
fi
run --backend none --ctx 3 --quiet --trace "$dir/full.trace"
cp tests/cli_limits.sh "$dir/text"
for what in "--backend none --ctx 3" "--backend none --ctx 3 --json" "--backend none --ctx 3 --csv" \
    "generate --ids $small --ctx 3" "verify $small --ctx 6" "sweep --ctx 3" "sweep --ctx 3 --json" \
    "sweep --ctx 3 --csv" "predict --ctx 3" "predict --ctx 3 --csv" "replay $dir/full.trace" \
    "replay --check $dir/full.trace" "study $small --contexts 4 --repeat 1" "help sweep"; do
    [ -c /dev/full ] || continue
    begin "a full disk: $what"
    command="$MEMTRACE $what >/dev/full"
    "$MEMTRACE" $what >/dev/full 2>"$err"
    status=$?
    want ended 4
    want has "$err" "cannot write to standard output: No space left on device"
done
if [ -c /dev/full ]; then
    for what in "" --decode; do
        begin "a full disk: tokenize $what"
        echo 1 2 3 | "$MEMTRACE" tokenize $what --model tests/recordings/bpe >/dev/full 2>"$err"
        status=$?
        want ended 4
        want has "$err" "cannot write to standard output: No space left on device"
    done
fi

# left ARGUMENT...: run, while nobody reads any more.
left() {
    command="(sleep; $MEMTRACE $*) | true"
    {
        sleep 0.3
        timeout 60 "$MEMTRACE" "$@" 2>"$err"
        echo $? >"$dir/status"
    } | true
    status=$(cat "$dir/status")
}

for what in "--backend none" "--backend none --json" predict "sweep --ctx 1..1024+1" \
    "sweep --policy block:1MiB..64MiB*2 --ctx 100"; do
    begin "a reader who left: $what"
    left $what
    want ended 4
    want is "$(head -n 1 "$err")" "memtrace: cannot write to standard output: Broken pipe"
done
begin "no figures follow an output that failed"
left --backend none
want one_message
if [ -c /dev/full ]; then
    run --backend none --ctx 4 --trace /dev/full
    want ended 4
    want one_message
    want has "$err" "/dev/full: cannot be written"
fi
begin "a trace and the table in one file"
"$MEMTRACE" --backend none --ctx 4 --quiet --trace "$dir/same" >"$dir/same" 2>"$err"
status=$?
want ended 2
want one_message
want has "$err" "same: the output is the same file as standard output"
begin "a profile and the table in one file"
"$MEMTRACE" study $small --contexts 4 --repeat 1 --quiet --profile "$dir/same" >"$dir/same" 2>"$err"
status=$?
want ended 2
want has "$err" "the same file as standard output"
begin "out of memory is said before the figures"
run --backend none --capacity 545MiB
want ended 3
want grep -q '^cut short: out of memory after [0-9]* of 1024 steps' "$err"
want [ "$(grep -n '^cut short' "$err" | cut -d: -f1)" -lt "$(grep -n unexplained "$err" | cut -d: -f1)" ]

for what in --help "--backend none --ctx 3 --quiet" "sweep --ctx 3 --quiet"; do
    begin "stdout is closed: $what"
    command="$MEMTRACE $what >&-"
    "$MEMTRACE" $what >&- 2>"$err"
    status=$?
    want ended 4
    want lines 1 "$err"
    want has "$err" "cannot write to standard output: Bad file descriptor"
done
begin "a trace does not become the stdout that is closed"
command="$MEMTRACE --trace FILE >&-"
"$MEMTRACE" --backend none --ctx 3 --quiet --trace "$dir/t.trace" >&- 2>"$err"
status=$?
want ended 4
want no grep -q '^0 1 ' "$dir/t.trace"
begin "stdin and stderr are closed"
command="$MEMTRACE <&- 2>&-"
"$MEMTRACE" --backend none --ctx 3 --trace "$dir/u.trace" <&- >"$out" 2>&-
status=$?
want ended 0
want row_count 3 "$out"
want no has "$dir/u.trace" requested:
begin "text to tokenize from a stdin that is closed"
command="$MEMTRACE tokenize <&-"
"$MEMTRACE" tokenize --model tests <&- >"$out" 2>"$err"
status=$?
want no ended 0
want one_message

# ---- names of folders and files --------------------------------------------------------------------

mkdir "$dir/q\"d x"
cp tests/recordings/reverse/* "$dir/q\"d x"
begin "a folder's name in a grid"
run sweep --model "$dir/q\"d x" --ctx 5 --quiet
want ended 0
want grep -q '^[^ ]*/q"d.x20x f32 1 ' "$out"
run sweep --model "$dir/q\"d x" --ctx 5 --quiet --csv
want grep -q '^"/[^ ]*/q""d x",f32,1,' "$out"
run sweep --model "$dir/q\"d x" --ctx 5 --quiet --json
want strict_json "$out"
want grep -q '^{"model": "/[^ ]*/q\\"d x", "dtype": "f32", "batch": 1,' "$out"
begin "a name of two lines in the header of a replay"
two="$dir/a
b"
run --backend none --ctx 2 --quiet --trace "$two"
run replay "$two"
want ended 0
want row_count 1 "$out"
mkdir "$dir/c
d"
cp tests/recordings/reverse/* "$dir/c
d"
for c in "run --backend none" predict sweep; do
    begin "a folder's name of two lines: $c"
    run $c --model "$dir/c
d" --ctx 5
    want ended 0
    want row_count "$(case $c in run*) echo 5 ;; predict) echo 6 ;; *) echo 1 ;; esac)" "$out"
    want no grep -q '^d' "$out"
    want has "$out" 'c\x0ad'
done

# ---- a second Ctrl-C -------------------------------------------------------------------------------

# blocked FOLDER: a run whose table fills a pipe that nobody reads; its $pid.
blocked() {
    mkdir "$1"
    mkfifo "$1.pipe"
    exec 9<>"$1.pipe"
    command="$MEMTRACE --trace $1/run.trace | (nobody)"
    "$MEMTRACE" --backend none --quiet --trace "$1/run.trace" >"$1.pipe" 2>"$err" 9>&- &
    pid=$!
    tries=0
    until [ -n "$(ls "$1")" ] || [ $tries -ge 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    sleep 1
}

begin "a second signal ends the program and leaves no temporary file"
blocked "$dir/cut"
kill -s TERM $pid
sleep 0.6
want is "$(ls "$dir/cut" | wc -l)" 1
kill -s TERM $pid
wait $pid
status=$?
want ended 130
want is "$(ls "$dir/cut")" ""
exec 9>&-

begin "a signal while nobody reads: the rows so far come when somebody does"
blocked "$dir/late"
kill -s INT $pid
kill -s TERM $pid # shells start what is in the background with SIGINT ignored
sleep 0.2
timeout 3 cat "$dir/late.pipe" >"$out" 9>&-
wait $pid
status=$?
want ended 130
want empty "$err"
want last "$out" "# interrupted"
want awk -f tests/identity.awk "$out"
want last "$dir/late/run.trace" "# interrupted"
exec 9>&-

begin "tokenize ends at the first signal"
mkfifo "$dir/in.pipe"
exec 9<>"$dir/in.pipe"
command="$MEMTRACE tokenize <pipe"
"$MEMTRACE" tokenize --model tests/recordings/bpe <"$dir/in.pipe" >"$out" 2>"$err" 9>&- &
pid=$!
sleep 2
kill -s TERM $pid
wait $pid
status=$?
want ended 143
exec 9>&-

# ---- a FIFO without a partner ------------------------------------------------------------------------

# alone SIGNAL ARGUMENT...: the program, which waits for somebody at the other end, is told to stop. timeout
# hands a signal on twice; a search for leaks at the end of the program, which stops it as a debugger does,
# can wait for ever when the second one comes then, so there is none here.
alone() {
    signal=$1
    shift
    begin "a FIFO with nobody at the other end: $*, SIG$signal"
    mkfifo "$dir/alone"
    command="$MEMTRACE $* FIFO"
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
        timeout -s KILL 20 "$MEMTRACE" "$@" "$dir/alone" >"$out" 2>"$err" &
    pid=$!
    sleep 0.5
    kill -s "$signal" $pid # timeout hands it on
    wait $pid
    status=$?
    want ended 130
    want is "$(cat "$err")" "memtrace: interrupted"
    rm "$dir/alone"
}
for signal in TERM INT; do
    alone $signal --backend none --ctx 3 --trace
    alone $signal replay
    alone $signal replay --check
    alone $signal generate --backend cpu $small --prompt-file
done

# ---- commands that are not there -------------------------------------------------------------------

for unknown in generat RUN r halp; do
    refused "memtrace $unknown" 2 "unknown command '$unknown'; known: run, generate, tokenize, " $unknown
    refused "memtrace help $unknown" 2 "unknown command '$unknown'; known: run, " help $unknown
done

finish
