#!/bin/sh
# Out of host memory: every allocation of every command fails in turn (tests/malloc_failure), and the
# address space is limited to many sizes. The right answer, or one line and status 4.
. tests/cli.shi

BUILD=${BUILD:-build}
preload=$BUILD/malloc_failure/preload.so
drive=$BUILD/malloc_failure/drive
small="--layers 1 --heads 1 --width 8 --vocab 32"
few="" # of the slow commands
[ -z "$quick" ] || few="-n 6"

if ! [ -x "$drive" ] || ! [ -f "$preload" ]; then
    skip "out of host memory" "there is no $drive: make check builds it"
    finish
fi
if ! (ulimit -v 300000 && "$MEMTRACE" --version) >/dev/null 2>&1; then
    skip "out of host memory" "this program brings a malloc of its own: a sanitizer"
    finish
fi

preload=$(realpath "$preload")
program=$(realpath "$MEMTRACE")
here=$(realpath tests/recordings)
mkdir "$dir/work"
printf 'the key of a cache\n' >"$dir/text"
run --backend none --quiet $small --ctx 3 --trace "$dir/run.trace"
run --backend none --quiet $small --ctx 3 --trace "$dir/run.mtb"
gzip -c tests/recordings/snapshots/events-2.15.pkl >"$dir/packed.gz"
cat >"$dir/oom.txt" <<'END'
CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 1.00 GiB total capacity; 900.00 MiB already allocated; 1.00 MiB free; 930.00 MiB reserved in total by PyTorch)
END

# fails OPTIONS ARGUMENT...: the driver, whose lines are those of a test.
fails() {
    options=$1
    shift
    end
    "$drive" $options "$preload" "$dir/work" "$dir/text" "$program" "$@" | sed "s|$dir/||g; s|$here/||g"
}

fails "" run --backend none --quiet $small --ctx 3 --trace out.trace
fails "" run --backend none --quiet $small --ctx 3 --trace out.mtb
fails -j run --backend none --quiet $small --ctx 3 --json
fails "" run --backend none --quiet $small --ctx 3 --csv --policy block:2MiB --kv paged:2
fails "" run --backend none --quiet $small --ctx 3 --policy jemalloc --kv static
fails "" run --backend none --quiet $small --ctx 3 --policy bfc --kv doubling
fails "" run --backend none --quiet $small --ctx 3 --policy direct --activations arena
fails -m run --backend none --quiet $small --ctx 3 --policy torch,expandable_segments:True --summary torch
fails "-t $few" run --backend cpu --threads 1 --quiet $small --ctx 3 --trace out.trace.zst
fails "$few" generate --threads 1 --quiet --backend cpu --model "$here/reverse" --ids --ctx 4 --prompt-ids 1,2
fails "" tokenize --model "$here/bpe"
fails "-t $few" verify --threads 1 --quiet $small --ctx 3
fails "" predict $small --ctx 3
fails "" replay "$dir/run.trace" --policy torch,block:2MiB,direct,bfc,jemalloc --optimum
fails -m replay "$dir/run.trace" --summary stats
fails -s replay --check "$here/torch-2.15/edges--default.tsv.gz"
fails -s replay --check "$here/gpt2-2.15/schedule-gpt2-static-sdpa.txt.gz"
for format in rmm stalloc minimalloc allocatorsim chrome pprof nsight; do
    fails "" replay "$(realpath tests/fuzz/corpus/$format/sample)"
done
fails "" convert "$dir/run.trace" -q -o out.mtb
fails "" convert "$dir/run.mtb" -q -o out.massif
fails "" convert "$dir/run.mtb" -q --from-step 1 -o out.json
fails "" convert "$here/torch-2.15/edges--default.tsv.gz" -q -o out.csv
fails -s explain "$here/snapshots/events-2.15.pkl"
fails -s explain "$here/snapshots/events-2.15-expandable.pkl" --at peak
fails -j explain "$here/snapshots/events-2.15.pkl" --json
fails -s explain "$dir/packed.gz"
fails -s explain "$dir/oom.txt"
fails "" plot --list
fails "" sweep --ctx 2,3 --kv concat,static --quiet --threads 1
fails -j sweep --ctx 2 --kv concat --quiet --threads 1 --json
fails "-t -n 12" study --contexts 2 $small --positions 8 --capacity 72MiB --threads 1 --quiet --profile out.json
fails -hs --help
fails "" --version
fails "" --no-such-option

# ---- little address space --------------------------------------------------------------------------

# limited ARGUMENT...: from too little to load the program to enough. What it cannot load it says itself.
limited() {
    begin "less and less address space: $*"
    run "$@"
    cp "$out" "$dir/whole"
    for limit in 300000 200000 100000 60000 40000 30000 24000 20000 16000 14000 12000 11000 10000 9000 8000; do
        command="ulimit -v $limit; $MEMTRACE $*"
        (ulimit -v "$limit" && exec timeout -s KILL 60 "$MEMTRACE" "$@") >"$out" 2>"$err"
        status=$?
        case $status in
        0) want cmp "$out" "$dir/whole" ;;
        127) want has "$err" "error while loading shared libraries" ;;
        *)
            want ended 4
            want one_message
            ;;
        esac
    done
}
limited sweep --quiet --kv concat,static --policy torch,block:2MiB --ctx 128 --threads 2
limited sweep --quiet --policy jemalloc --ctx 128 --threads 1
limited --backend none --quiet --ctx 128
limited replay "$dir/run.trace" --policy torch,direct
limited predict --ctx 5

small="--layers 2 --heads 2 --width 64 --vocab 50257"
for what in "--policy torch" "--policy torch,expandable_segments:True" "--policy bfc" \
    "--policy block:2MiB" "--policy direct"; do
    for call in "--ctx 8 --threads 1" "--ctx 8 --threads 1 --quiet"; do
        begin "the host refuses what the device would hold: $call $what"
        command="ulimit -v; $MEMTRACE --backend cpu --model gpt2-xl $call $what"
        (ulimit -v 1500000 && exec "$MEMTRACE" --backend cpu --model gpt2-xl $call $what) >"$out" 2>"$err"
        status=$?
        want ended 4
        want has "$err" "the host refused "
        want has "$err" "Cannot allocate memory"
    done
    want one_message
done
finish
