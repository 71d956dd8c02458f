#!/bin/sh
# The rows of bench_alloc.c for PyTorch's own allocator; nothing where build/oracle holds no PyTorch.
# usage: bench_torch.sh    PYTHON: an interpreter that has it
set -eu
cd "$(dirname "$0")/../.."
: "${PYTHON:=build/oracle/venv/bin/python}"
[ -x "$PYTHON" ] || exit 0
"$PYTHON" -c 'from importlib.metadata import version; version("torch")' 2>/dev/null || exit 0
export TORCH_CPP_LOG_LEVEL=ERROR PYTHONDONTWRITEBYTECODE=1
out=build/oracle/device
mkdir -p "$out"
"${CC:-gcc}" -std=gnu11 -O2 -fPIC -shared -Wall -Wextra -Werror -o "$out/libpairs.so" \
    tests/oracle/pairs.c
run=
if [ "${MEMTRACE_REAL:-}" != 1 ]; then
    sh tests/oracle/device/build.sh "$("$PYTHON" -c 'import sys; print(sys.prefix)')" "$out"
    run=$out/run
fi
export ORACLE_MEMORY=274877906944
for options in "" expandable_segments:True; do
    PYTORCH_ALLOC_CONF=$options $run "$PYTHON" tests/oracle/bench_torch.py "$out/libpairs.so"
done
