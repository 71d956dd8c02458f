#!/bin/sh
# Everything that only a machine with a GPU can show, in under ten minutes.
# usage: tests/gpu.sh FOLDER               the evidence (tables, logs, this table) goes there
#        tests/gpu.sh FOLDER rehearse      this script on a machine without a GPU
#
# Builds for the card that is there, runs the device tests, the main job with every cache strategy, the
# comparison with the cpu and with a dry run, the workspace with and without isolation, graphs, the study
# if this memtrace has one, and compute-sanitizer if it is installed. Prints one table; the exit status
# is 1 when a line of it says FAILED.
#
# A program of the CUDA toolkit that is missing leaves its lines out, with a word why.
#
# A rehearsal needs nvcc. What is about memory runs on the stand-in (tests/cuda_standin/), what is about
# values on the emulated device and with a small model; times mean nothing.
set -u
LC_ALL=C
export LC_ALL
case $#/${2:-} in
1/ | 2/rehearse) rehearsal=${2:-} ;;
*)
    echo "usage: tests/gpu.sh FOLDER [rehearse]" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")/.." || exit 1
case $1 in
/*) out=$1 ;;
*) out=${OLDPWD:-.}/$1 ;;
esac
mkdir -p "$out" || exit 1
table=$out/table.txt
: >"$table"
failed=0
began=$(date +%s)
build=${BUILD:-build/gpu}
program=$build/memtrace
card="" # words before a program that uses the card
values=$program # what computes on it
device_tests=$build/gpu
shape=""
model="GPT-2 small"
targets="all gpu-tests"
if [ -n "$rehearsal" ]; then
    values=$program-emulated
    device_tests=$build/tests
    model="a small model"
    shape="--layers 2 --heads 3 --width 51 --vocab 97 --positions 128"
    targets="all standin emulated $build/tests/test_cuda_kernels $build/tests/test_cuda_engine"
    MEMTRACE_QUICK=1
    export MEMTRACE_QUICK
fi

line() { # line WHAT RESULT
    printf '%-46s %s\n' "$1" "$2" | tee -a "$table"
    case $2 in
    FAILED*) failed=1 ;;
    esac
}

# step SECONDS LOG COMMAND...: runs it within its limit, and within ten minutes of the beginning.
step() {
    limit=$1
    log=$out/$2
    shift 2
    left=$((590 - $(date +%s) + began))
    [ "$left" -gt 5 ] || left=5
    [ "$limit" -le "$left" ] || limit=$left
    timeout -k 5 "$limit" "$@" >"$log" 2>"$log.err"
}

rows() {
    grep -v '^#' "$1"
}

# The rows without their times, the load row included.
untimed() {
    sed -n -e 's/^# load //p' -e '/^#/!s/ [^ ]*$//p' "$1"
}

value() { # value FILE NAME: of a header or a closing line
    sed -n "s/^# $2 //p" "$1" | head -n 1
}

# Median of the last column over the last 500 steps, in ms.
median() {
    rows "$1" | tail -n 500 | awk '{ print $NF }' | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

per_second() {
    awk -v ms="$1" 'BEGIN { if (ms > 0) printf "%.1f", 1000 / ms; else print "-" }'
}

verdict() { # verdict STATUS
    if [ "$1" = 0 ]; then echo ok; else echo "FAILED, see $log"; fi
}

# ---- machine and build -----------------------------------------------------------------------------------

gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
line "card" "${gpu:-unknown: no nvidia-smi}"
nvidia-smi >"$out/nvidia-smi.txt" 2>&1
arch=$(printf '%s' "$gpu" | awk -F', *' '{ gsub(/\./, "", $3); print $3 }')
step 240 build.log make -j"$(nproc)" BUILD="$build" PROGRAM="$program" ${arch:+CUDA_ARCHS=$arch} $targets
status=$?
line "build for ${arch:-all architectures}" "$(verdict $status)"
[ "$status" = 0 ] || exit 1
[ -f "$(dirname "$program")/memtrace-cuda.so" ] || {
    line "the CUDA back end" "FAILED: it was not built, see $out/build.log"
    exit 1
}

if [ -n "$rehearsal" ]; then
    card="env LD_PRELOAD=$(cat "$build/standin/preload")"
    line "a rehearsal" "no GPU: memory on the stand-in, values on the emulated device"
fi

# ---- device tests ------------------------------------------------------------------------------------------

for t in test_cuda_kernels test_cuda_engine; do
    step 120 "$t.log" "$device_tests/$t"
    status=$?
    n=$(cat "$out/$t.log" "$out/$t.log.err" | sed -n 's/^\[  PASSED  \] \([0-9]*\).*/\1/p' | tail -n 1)
    [ "$status" = 0 ] && line "$t" "${n:-0} passed" || line "$t" "FAILED, see $log"
done

# ---- the main job, every strategy, against a dry run ---------------------------------------------------------

ws=
for kv in concat concat-tuple static doubling paged:16; do
    f=run-$(printf %s "$kv" | tr : -).dat
    step 60 "$f" $card "$program" --backend cuda --ctx 1024 --kv "$kv"
    status=$?
    ws=$(value "$out/$f" workspace)
    "$program" --backend none --ctx 1024 --kv "$kv" --workspace "${ws:-0}" --quiet >"$out/dry.dat" 2>&1
    untimed "$out/$f" >"$out/a"
    untimed "$out/dry.dat" >"$out/b"
    if [ "$status" != 0 ] || [ "$(rows "$out/$f" | wc -l)" != 1024 ]; then
        line "1024 tokens, $kv" "FAILED, see $out/$f.err"
    elif ! awk -f tests/identity.awk "$out/$f" >"$out/identity.log" 2>&1; then
        line "1024 tokens, $kv" "FAILED: the identity, see $out/identity.log"
    elif ! cmp -s "$out/a" "$out/b"; then
        line "1024 tokens, $kv" "FAILED: other rows than the dry run's"
    else
        ms=$(median "$out/$f")
        line "1024 tokens, $kv" "identity ok, rows as the dry run, $(per_second "$ms") tokens/s"
    fi
done
rm -f "$out/a" "$out/b" "$out/dry.dat"

# ---- parity with the cpu --------------------------------------------------------------------------------------

step 60 ids-cuda.txt "$values" generate --ids --backend cuda --ctx 64 $shape
step 90 ids-cpu.txt "$program" generate --ids --backend cpu --ctx 64 $shape
same=$(awk 'NR == FNR { n = split($0, a, " "); next } { m = split($0, b, " "); for (i = 1; i <= m && a[i] == b[i]; i++); print i - 1 " of " m " ids equal" }' \
    "$out/ids-cuda.txt" "$out/ids-cpu.txt")
case $same in
"" | "0 of"*) line "$model against the cpu" "FAILED, see $out/ids-cuda.txt and ids-cpu.txt" ;;
*) line "$model against the cpu" "$same" ;;
esac
step 60 verify.log "$values" verify --backend cuda --ctx 128 $shape
line "cached = uncached on the card" "$(verdict $?)"

# ---- workspace and library bytes -------------------------------------------------------------------------------

ours=$out/run-static.dat
step 60 run-library.dat $card "$program" --backend cuda --ctx 1024 --kv static --workspace library --quiet
library=$out/run-library.dat
line "workspace ours" "${ws:-?} bytes; library bytes after the warm-up $(value "$ours" "library after warm-up"), change $(value "$ours" "library change")"
line "workspace of the library" "library bytes after the warm-up $(value "$library" "library after warm-up"), change $(value "$library" "library change")"
line "context" "$(value "$ours" "library baseline")"
line "cublasCreate" "$(value "$ours" "library cublasCreate")"
for f in "$ours" "$library"; do
    sed -n 's/^# library //p' "$f" >"$f.library"
done
[ "$(value "$ours" "library unknown: device shared")" = "" ] || line "library bytes" "unknown: device shared"
case $(value "$ours" "library change") in
+0) line "0 library bytes with our workspace" ok ;;
*) line "0 library bytes with our workspace" "FAILED: see $ours.library" ;;
esac

# ---- graphs and launch overhead -----------------------------------------------------------------------------------

graph() { # graph NAME OPTION...
    name=$1
    shift
    step 60 "run-$name.dat" $card "$program" --backend cuda --ctx 1024 --kv static --activations arena --quiet "$@"
}
graph eager-arena
graph graph --graph
eager_ms=$(median "$out/run-eager-arena.dat")
graph_ms=$(median "$out/run-graph.dat")
untimed "$out/run-eager-arena.dat" >"$out/a"
untimed "$out/run-graph.dat" >"$out/b"
if [ -s "$out/a" ] && cmp -s "$out/a" "$out/b"; then
    line "decode, step by step" "$(per_second "$eager_ms") tokens/s, $eager_ms ms a step"
    line "decode, graph" "$(per_second "$graph_ms") tokens/s, $graph_ms ms a step, rows equal"
    # 13 launches a layer and 4 around them.
    line "launch overhead" "$(awk -v a="$eager_ms" -v b="$graph_ms" 'BEGIN { printf "%.2f us each of 160 launches", (a - b) * 1000 / 160 }')"
else
    line "graph" "FAILED: other rows than without, see $out/run-graph.dat.err"
fi
rm -f "$out/a" "$out/b"
step 60 run-tf32.dat $card "$program" --backend cuda --ctx 1024 --kv static --tf32 --quiet
status=$?
if [ "$status" = 0 ]; then
    line "decode with TF32" "$(per_second "$(median "$out/run-tf32.dat")") tokens/s"
else
    line "decode with TF32" "FAILED, see $out/run-tf32.dat.err"
fi
step 60 run-async.dat $card "$program" --backend cuda --ctx 1024 --policy async --quiet
if [ "$(rows "$out/run-async.dat" | wc -l)" = 1024 ] &&
    awk -f tests/identity.awk "$out/run-async.dat" >"$out/identity.log" 2>&1; then
    line "the driver's pool" "identity ok, reserved at the end $(rows "$out/run-async.dat" | tail -n 1 | awk '{ print $13 }')"
else
    line "the driver's pool" "FAILED, see $out/run-async.dat.err"
fi

# ---- the study, and compute-sanitizer --------------------------------------------------------------------------------

if "$program" study --help >/dev/null 2>&1; then
    step 120 study.txt $card "$program" study --backend cuda
    line "study" "$(verdict $?)"
else
    line "study" "left out: this memtrace has none"
fi
if command -v compute-sanitizer >/dev/null; then
    small="--backend cuda --layers 2 --heads 3 --width 51 --vocab 97 --positions 300 --ctx 280 --quiet"
    for tool in memcheck racecheck initcheck synccheck; do
        step 60 "sanitizer-$tool.log" compute-sanitizer --tool $tool --error-exitcode 9 "$program" $small
        line "compute-sanitizer $tool" "$(verdict $?)"
    done
else
    line "compute-sanitizer" "left out: it is not installed"
fi

line "time" "$(($(date +%s) - began)) s"
exit $failed
