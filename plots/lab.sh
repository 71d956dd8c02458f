#!/bin/sh
# lab.sh - all data and charts of the allocator laboratory and of `memtrace predict`, in a folder.
#
#     plots/lab.sh PROGRAM FOLDER [OPTION...]
#
# Options (--model, --ctx, --dtype, --batch) go to every run. The tables stay beside the charts.
set -eu

if [ $# -lt 2 ] || [ "${2#-}" != "$2" ]; then
    echo "usage: plots/lab.sh PROGRAM FOLDER [--model NAME] [--ctx N] [--dtype TYPE] [--batch B]" >&2
    exit 2
fi
program=$1
out=$2
shift 2
here=$(cd -- "$(dirname -- "$0")" && pwd)
command -v "$program" >/dev/null || { echo "$program: cannot be run" >&2; exit 2; }
command -v gnuplot >/dev/null || { echo "gnuplot is not installed" >&2; exit 2; }
mkdir -p "$out"
unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF

# draw SCRIPT CHART INPUT... : in the folder
draw() {
    script=$1
    chart=$2
    shift 2
    (cd "$out" && gnuplot -c "$here/$script.gp" "$@" "$chart.png")
    echo "$out/$chart.png"
}
# A run that does not fit (status 3) has a table up to there.
dry() { "$program" --quiet --backend none "$@" || [ $? -eq 3 ]; }
predict() { "$program" predict "$@" || [ $? -eq 3 ]; }
sweep() { "$program" sweep --quiet "$@" || [ $? -eq 3 ]; }

kv=concat,concat-tuple,static,doubling,paged:16
settings=torch,torch,expandable_segments:True,torch,max_split_size_mb:20,torch,roundup_power2_divisions:4
jemalloc=
"$program" --quiet --backend none --ctx 1 --policy jemalloc >/dev/null 2>&1 && jemalloc=,jemalloc

# The optimum depends on the requests alone: one row for each strategy is enough.
sweep "$@" --kv $kv --policy direct --optimum >"$out/optimum.dat"
{
    cat "$out/optimum.dat"
    sweep "$@" --kv $kv --policy 'block:64KiB..64MiB*2'
} >"$out/overhead.dat"
draw overhead overhead overhead.dat
{
    cat "$out/optimum.dat"
    sweep "$@" --kv $kv \
        --policy "$settings,block:64KiB,block:2MiB,block:20MiB,bfc$jemalloc"
} >"$out/policies.dat"
draw heatmap policies policies.dat
sweep "$@" --model gpt2,gpt2-medium,gpt2-large,gpt2-xl --policy \
    "torch,torch,expandable_segments:True,torch,roundup_power2_divisions:4,block:2MiB,block:20MiB,bfc$jemalloc" \
    >"$out/models.dat"
draw models models models.dat

for size in 64KiB 2MiB 20MiB; do
    dry "$@" --policy block:$size >"$out/block-$size.dat"
done
draw sawtooth sawtooth block-64KiB.dat block-2MiB.dat block-20MiB.dat
sh "$here/blocks.sh" "$program" "$@" --kv concat --kv static --kv paged:16 >"$out/blocks.dat"
draw blocks blocks blocks.dat

dry "$@" --trace "$out/torch.trace.gz" >"$out/torch.dat"
dry "$@" --policy block:2MiB --trace "$out/block-2MiB.trace.gz" >"$out/block-2MiB.dat"
dry "$@" --policy torch,expandable_segments:True --trace "$out/expandable.trace.gz" >"$out/expandable.dat"
draw segments segments torch.trace.gz
if [ -n "$jemalloc" ]; then
    dry "$@" --policy jemalloc --trace "$out/jemalloc.trace.gz" >"$out/jemalloc.dat"
    draw maps maps torch.trace.gz expandable.trace.gz block-2MiB.trace.gz jemalloc.trace.gz
else
    draw maps maps torch.trace.gz expandable.trace.gz block-2MiB.trace.gz
fi

predict "$@" --policy torch >"$out/default.tsv"
predict "$@" --policy torch,expandable_segments:True >"$out/expandable.tsv"
predict "$@" --policy torch,max_split_size_mb:20 >"$out/max_split.tsv"
predict "$@" --policy torch,roundup_power2_divisions:4 >"$out/roundup.tsv"
predict "$@" --policy torch --cache static >"$out/static.tsv"
draw predict predict default.tsv expandable.tsv max_split.tsv roundup.tsv static.tsv
