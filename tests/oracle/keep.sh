#!/bin/sh
# Records tests/recordings again: what kept.txt lists, every release of PyTorch in an environment of its
# own, on the simulated device. What is the same to the byte stays; git shows what is not.
# usage: keep.sh [TORCH...]     releases; all of them without arguments (some 10 GB in build/oracle)
set -eu
cd "$(dirname "$0")/../.."
here=tests/oracle
out=build/oracle/kept
export TORCH_CPP_LOG_LEVEL=ERROR PYTHONWARNINGS=ignore PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1

pack() { # FOLDER FILE...: into tests/recordings/FOLDER
    folder=tests/recordings/$1
    shift
    for f in "$@"; do
        [ -f "$f" ] || continue
        mkdir -p "$folder"
        gzip -9n <"$f" >"$folder/$(basename "$f").gz"
    done
}

record() { # TORCH TRANSFORMERS
    venv=build/oracle/venv-$1
    short=${1%.*}
    sh $here/setup.sh "$venv" "$1" "$2"
    sh $here/device/build.sh "$venv" "$venv/device"
    rm -rf "$out"
    mkdir -p "$out/decodes"
    "$venv/device/run" "$venv/bin/python" $here/record.py "$out" --list $here/kept.txt
    pack "torch-$short" "$out"/*.tsv
    for f in "$out"/*.summary; do
        echo "== $(basename "$f" .summary)"
        cat "$f"
    done >"$out/summaries.txt"
    pack "torch-$short" "$out/summaries.txt"
    "$venv/device/run" "$venv/bin/python" $here/settings.py "tests/recordings/torch-$short/settings.tsv"
    "$venv/device/run" "$venv/bin/python" $here/decode.py "$out/decodes" --list $here/kept.txt
    [ "$short" != 2.8 ] || rm -f "$out"/decodes/*.tsv # `memtrace predict` knows no 2.8
    pack "gpt2-$short" "$out/decodes"/*
}

grep '^release ' $here/kept.txt | while read -r _ torch transformers; do
    case " ${*:-$torch} " in *" $torch "*) record "$torch" "$transformers" ;; esac
done
