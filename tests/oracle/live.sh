#!/bin/sh
# memtrace beside PyTorch itself: new random traces of the allocator and new models, every time.
#
# Environment: TRACES (100) and SHAPES (40), how many of each; SEED (the clock), where the seeds start;
# PYTHON, an interpreter that has PACKAGES (else a virtual environment is made in build/oracle);
# MEMTRACE (./memtrace); MEMTRACE_REAL=1 runs on this machine's GPU instead of the simulated device.
# Status 1: something differs. What was recorded stays in build/oracle/live.
set -u
cd "$(dirname "$0")/../.." || exit 2
: "${MEMTRACE:=./memtrace}" "${TRACES:=100}" "${SHAPES:=40}" "${SEED:=$(date +%s)}"
here=tests/oracle
out=build/oracle/live
tab=$(printf '\t')
rm -rf "$out"
mkdir -p "$out" || exit 2
passed=0 failed=0

result() { # STATUS NAME: one line
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok $2"
    else
        failed=$((failed + 1))
        echo "not ok $2"
    fi
}

# ---- PyTorch and its device ----------------------------------------------------------------------

if [ -z "${PYTHON:-}" ]; then
    PYTHON=build/oracle/venv/bin/python
    sh $here/setup.sh build/oracle/venv || exit 2
fi
prefix=$("$PYTHON" -c 'import sys; print(sys.prefix)') || exit 2
export TORCH_CPP_LOG_LEVEL=ERROR PYTHONWARNINGS=ignore PYTHONDONTWRITEBYTECODE=1
export TRITON_CACHE_DIR="$PWD/build/oracle/triton" HF_HUB_OFFLINE=1
unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF CUBLAS_WORKSPACE_CONFIG \
    TORCH_CUBLAS_WORKSPACE_CACHE CUBLASLT_WORKSPACE_SIZE TORCH_CUBLASLT_UNIFIED_WORKSPACE
if [ "${MEMTRACE_REAL:-}" = 1 ]; then
    nvidia-smi >/dev/null 2>&1 || { echo "MEMTRACE_REAL=1: nvidia-smi finds no GPU" >&2; exit 2; }
    run=
    echo "# real device, seeds from $SEED"
else
    sh "$here/device/build.sh" "$prefix" build/oracle/device || exit 2
    run=build/oracle/device/run
    echo "# simulated device, seeds from $SEED"
fi

# ---- the allocator -------------------------------------------------------------------------------

. $here/again.shi

check_summary() { # RECORDING: memory_summary as memtrace writes it for the same operations
    summary_of "$1" >"$out/summary"
    diff "$out/summary" "${1%.tsv}.summary"
}

if [ "$TRACES" -gt 0 ]; then
    $run "$PYTHON" $here/record.py "$out" --seed "$SEED" --count "$TRACES" 2>"$out/record.log" ||
        { tail -n 20 "$out/record.log"; result 1 "all traces recorded"; }
fi
for f in "$out"/trace-*.tsv; do
    [ -f "$f" ] || continue
    name=$(basename "$f" .tsv)
    "$MEMTRACE" replay --quiet --check "$f" >"$out/check"
    status=$?
    [ $status -eq 0 ] || head -n 1 "$out/check"
    result $status "$name: $(grep -vc "^[#@~!]\|^snap$tab" "$f") operations, $(sed -n 's/^# options //p' "$f")"
    check_summary "$f" >"$out/differences"
    status=$?
    [ $status -eq 0 ] || head -n 6 "$out/differences"
    result $status "$name: memory_summary"
done

# ---- models --------------------------------------------------------------------------------------

if [ "$SHAPES" -gt 0 ]; then
    $run "$PYTHON" $here/decode.py "$out" --seed "$SEED" --count "$SHAPES" 2>"$out/decode.log" ||
        { tail -n 20 "$out/decode.log"; result 1 "all decodes recorded"; }
fi
for f in "$out"/decode-*.tsv; do
    [ -f "$f" ] || continue
    predicted "$f" 2>"$out/errors" | compared >"$out/ours"
    compared <"$f" >"$out/theirs"
    cmp -s "$out/ours" "$out/theirs"
    status=$?
    [ $status -eq 0 ] || { head -n 3 "$out/errors"; diff "$out/ours" "$out/theirs" | head -n 4; }
    result $status "$(basename "$f" .tsv): $(grep -vc '^#' "$f") rows, $(sed -n 's/^# case //p' "$f")"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
