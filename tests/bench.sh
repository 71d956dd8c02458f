#!/bin/sh
# Speed, in numbers. usage: bench.sh BUILD PROGRAM
#
# Allocators alone, then a dry run, then real decoding with the memory's own speed measured beside it, then
# start and peak memory. All but the last part (other programs) needs nothing but this build. THREADS: of
# decoding (2). The weights are seeded values of GPT-2 small, fp32.
set -eu
build=$1
program=$2
# All of it goes to BUILD/bench.dat too, once it is whole: the last line says that it went well.
if [ -z "${BENCH_WORK:-}" ]; then
    BENCH_WORK=$(mktemp -d "$build/.bench.XXXXXX")
    export BENCH_WORK
    trap 'rm -rf "$BENCH_WORK"' EXIT
    trap 'exit 130' HUP INT TERM
    { sh "$0" "$@" && echo "# done"; } | tee "$BENCH_WORK/dat"
    [ "$(tail -n 1 "$BENCH_WORK/dat")" = "# done" ]
    mv "$BENCH_WORK/dat" "$build/bench.dat"
    exit
fi
: "${THREADS:=2}"

echo "# allocator"
"$build/tests/bench_alloc"

sh tests/oracle/bench_torch.sh

echo "# dry run of GPT-2 small to ctx 1024, in one process: what listening to the allocator costs"
"$build/tests/bench_events" "$BENCH_WORK/trace"

echo "# the whole program, the same dry run: seconds without and with a trace, medians of 5"
for extra in "" "--trace /dev/null"; do
    for _ in 1 2 3 4 5; do
        start=$(date +%s%N)
        # shellcheck disable=SC2086
        "$program" --quiet --backend none --ctx 1024 $extra >/dev/null
        end=$(date +%s%N)
        echo $(((end - start) / 1000))
    done | sort -n | sed -n 3p | awk -v x="${extra:-none}" '{ printf "%-20s %.3f s\n", x, $1 / 1e6 }'
done

echo "# the dry run's trace through torch again, read and printed by the program: events per second, median of 5"
"$program" --quiet --backend none --ctx 1024 --trace "$BENCH_WORK/trace" >/dev/null
events=$(grep -vc '^#' "$BENCH_WORK/trace")
for _ in 1 2 3 4 5; do
    start=$(date +%s%N)
    "$program" replay "$BENCH_WORK/trace" --policy torch >/dev/null
    end=$(date +%s%N)
    echo $(((end - start) / 1000))
done | sort -n | sed -n 3p | awk -v n="$events" '{ printf "%d events %.3f s %.1f million/s\n", n, $1 / 1e6, n / $1 }'

echo "# that trace read and checked alone, as text and as .mtb, on one core: processor time, median of 7"
"$program" convert "$BENCH_WORK/trace" -o "$BENCH_WORK/trace.mtb" -q
"$build/tests/bench_reading" "$BENCH_WORK/trace" "$BENCH_WORK/trace.mtb" | sed "s#$BENCH_WORK/##"

echo "# a snapshot of 999,111 events explained, in seconds, median of 5, and the memory beside the file; the"
echo "# same file in Python by pickle.load, and by PyTorch's _memory_viz.py stats where PYTHON has it"
"$build/tests/bench_snapshot" 999111 "$BENCH_WORK/snapshot"
seconds() { # seconds N COMMAND...: the median of N times
    n=$1
    shift
    for _ in $(seq "$n"); do
        start=$(date +%s%N)
        "$@" >/dev/null
        end=$(date +%s%N)
        echo $(((end - start) / 1000))
    done | sort -n | sed -n "$(((n + 1) / 2))p" | awk '{ printf "%.3f s", $1 / 1e6 }'
}
size=$(wc -c <"$BENCH_WORK/snapshot")
peak=$("$build/tests/bench_child" "$program" explain "$BENCH_WORK/snapshot" | cut -d " " -f 3)
echo "explain $(seconds 5 "$program" explain "$BENCH_WORK/snapshot"), $(((peak - size) / 1048576)) MiB, file $size bytes"
python=${PYTHON:-python3}
if command -v "$python" >/dev/null; then
    echo "pickle.load $(seconds 1 "$python" -c 'import pickle, sys; pickle.load(open(sys.argv[1], "rb"))' "$BENCH_WORK/snapshot")"
    viz=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) &&
        echo "_memory_viz.py stats $(seconds 1 "$python" "$viz/cuda/_memory_viz.py" stats "$BENCH_WORK/snapshot")"
fi

# A step reads all weights but wpe once (wte is the head) and the keys and values of ctx tokens; the
# memory's rate is the mean of a probe before and one after the run (tests/bench_read.c).
probe() {
    "$build/tests/bench_read" "$THREADS" | cut -d ' ' -f 1
}
echo "# decoding, GPT-2 small fp32, batch 1, $THREADS threads: median ms per step of the 15 steps up to ctx;"
echo "# the bound is what the step must read at the memory's rate of the same minute"
before=$(probe)
for kv in static concat; do
    for ctx in 16 512 1000; do
        ms=$("$program" --quiet --backend cpu --threads "$THREADS" --kv $kv --prompt-tokens $((ctx - 15)) --ctx $ctx |
            awk '$1 == "#" && $2 == "step" { for (i = 2; i <= NF; i++) if ($i == "ms") at = i - 1 }
                 !/^#/ && $1 > 0 { print $at }' | sort -n |
            awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }')
        after=$(probe)
        awk -v kv=$kv -v c=$ctx -v ms="$ms" -v b="$before" -v a="$after" 'BEGIN {
            C = 768; L = 12; rate = (a + b) / 2
            bytes = 4 * (50257 * C + L * (12 * C * C + 13 * C) + 2 * C) + 2 * L * C * 4 * c
            bound = bytes / rate / 1e6
            printf "%-7s ctx %-5s %7.2f ms %6.1f tokens/s  bound %6.2f ms at %5.2f GB/s  %5.1f %%\n", \
                   kv, c, ms, 1000 / ms, bound, rate, 100 * bound / ms
        }'
        before=$after
    done
done

echo "# start to the first token of a prompt of 16, seeded weights: ms, median of 5; peak memory of it and of"
echo "# a decode from 1 to 1000 tokens (--kv static), and that over weights + cache at the end"
for _ in 1 2 3 4 5; do
    "$build/tests/bench_child" "$program" generate --quiet --backend cpu --threads "$THREADS" --ids --kv static \
        --prompt-tokens 16 --ctx 16
done | sort -n | sed -n 3p >"$BENCH_WORK/first"
"$build/tests/bench_child" "$program" --quiet --backend cpu --threads "$THREADS" --kv static --prompt-tokens 1 --ctx 1000 |
    cat "$BENCH_WORK/first" - | awk '{
        bytes = 4 * 124439808 + 73728 * (NR == 1 ? 16 : 1000)
        if (NR == 1) printf "first token  %8.1f ms\n", $1
        printf "ctx %-5d %9.1f MiB peak RSS, %.3f of weights + cache\n", NR == 1 ? 16 : 1000, $3 / 1048576, $3 / bytes
    }'

if [ -x build/peers/venv/bin/python ]; then
    echo "# other programs, tests/peers/bench.py"
    BUILD=$build MEMTRACE=$program THREADS=$THREADS python3 tests/peers/bench.py
else
    echo "# other programs: \`make peers\` sets them up (PyTorch, llama.cpp, CTranslate2, OpenVINO) and compares"
fi
