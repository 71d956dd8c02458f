#!/bin/sh
# The main job and its charts: out/mem.dat, out/*.png, out/*.svg. usage: tools/run.sh [memtrace options]
set -eu
[ -x ./memtrace ] || { echo "run make first" >&2; exit 2; }
mkdir -p out
out=out

draw() { # draw NAME INPUT... : as PNG and SVG
    name=$1
    shift
    for type in png svg; do
        gnuplot -c "plots/$name.gp" "$@" "$out/$name.$type"
    done
    echo "$out/$name.png"
}

./memtrace --ctx 1024 --trace $out/mem.trace.zst "$@" >$out/mem.dat
echo "$out/mem.dat"
draw reserved $out/mem.dat
draw bumps $out/mem.dat
./memtrace --quiet --backend none --ctx 1024 --trace $out/map.trace "$@" >/dev/null
draw segments $out/map.trace
./memtrace --quiet --backend none --ctx 1024 "$@" --policy torch,expandable_segments:True >$out/expandable.dat
draw compare $out/mem.dat $out/expandable.dat
sh plots/blocks.sh ./memtrace >$out/blocks.dat
draw blocks $out/blocks.dat
echo "more charts of policies and cache strategies: plots/lab.sh ./memtrace $out/lab"
