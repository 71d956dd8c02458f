#!/bin/sh
# The main job and its charts: mem.dat, its trace, *.png and *.svg in a folder.
#
#     tools/run.sh PROGRAM FOLDER [OPTION...]
#
# Options go to every run. Each file appears whole, so that two may run at once.
set -eu
[ $# -ge 2 ] || { echo "usage: tools/run.sh PROGRAM FOLDER [OPTION...]" >&2; exit 2; }
program=$1
out=$2
shift 2
whole="$(dirname -- "$0")/whole.sh"

draw() { # draw KIND INPUT... : as PNG and SVG
    kind=$1
    shift
    for type in png svg; do
        "$program" plot "$kind" "$@" "$out/$kind.$type"
    done
    echo "$out/$kind.png"
}
dry() { # dry FILE OPTION... : a dry run's table
    file=$1
    shift
    sh "$whole" "$file" "$program" --ctx 1024 "$@" --quiet --backend none
}

sh "$whole" "$out/mem.dat" "$program" --ctx 1024 --trace "$out/mem.trace.gz" "$@"
echo "$out/mem.dat"
draw reserved "$out/mem.dat"
draw bumps "$out/mem.dat"
draw segments "$out/mem.trace.gz"
dry "$out/expandable.dat" "$@" --policy torch,expandable_segments:True
draw compare "$out/mem.dat" "$out/expandable.dat"
sh "$whole" "$out/blocks.dat" "$program" sweep --quiet --policy 'block:64KiB..64MiB*2' --kv concat,static,paged:16
draw blocks "$out/blocks.dat"
echo "more charts of policies and cache strategies: make lab"
