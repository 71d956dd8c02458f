#!/bin/sh
# Computes the reference files again and compares them with the kept ones. Status 1: they differ.
# PYTHON: an interpreter that has torch and transformers.
set -eu
cd "$(dirname "$0")/../.."
out=build/oracle
mkdir -p "$out"
run=
if [ -z "${PYTHON:-}" ]; then
    PYTHON=$out/venv/bin/python
    sh tests/oracle/setup.sh "$out/venv"
    sh tests/oracle/device/build.sh "$out/venv" "$out/device" # PyTorch does not load without it
    run=$out/device/run
fi
status=0
for shape in gpt2-small small4; do
    $run "$PYTHON" tests/oracle/gpt2_seeded.py "$shape" >"$out/$shape-seed0.tsv"
    "$PYTHON" tests/oracle/compare.py "tests/oracle/$shape-seed0.tsv" "$out/$shape-seed0.tsv" ||
        status=1
done
exit $status
