#!/bin/sh
# Computes the reference files again and compares them with the kept ones. Status 1: they differ.
# PACKAGES chooses other versions, PYTHON an interpreter that has them.
set -eu
cd "$(dirname "$0")/../.."
out=build/oracle
mkdir -p "$out"
if [ -z "${PYTHON:-}" ]; then
    python3 -m venv "$out/venv"
    PYTHON=$out/venv/bin/python
    # shellcheck disable=SC2086
    "$PYTHON" -m pip install --quiet ${PACKAGES:-torch==2.15.0 transformers==5.24.0 numpy==2.4.6}
fi
status=0
for shape in gpt2-small small4; do
    "$PYTHON" tests/oracle/gpt2_seeded.py "$shape" >"$out/$shape-seed0.tsv"
    "$PYTHON" tests/oracle/compare.py "tests/oracle/$shape-seed0.tsv" "$out/$shape-seed0.tsv" ||
        status=1
done
exit $status
