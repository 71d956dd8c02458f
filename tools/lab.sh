#!/bin/sh
# lab.sh - all tables and charts of docs/allocators.md and of `memtrace predict`, in a folder.
#
#     tools/lab.sh PROGRAM FOLDER [OPTION...]
#
# Options (--model, --ctx, --dtype, --batch) go to every run. The tables stay beside the charts; each
# file appears whole, so that two may run at once.
set -eu

if [ $# -lt 2 ] || [ "${2#-}" != "$2" ]; then
    echo "usage: tools/lab.sh PROGRAM FOLDER [--model NAME] [--ctx N] [--dtype TYPE] [--batch B]" >&2
    exit 2
fi
program=$1
out=$2
shift 2
whole="$(dirname -- "$0")/whole.sh"
command -v "$program" >/dev/null || { echo "$program: cannot be run" >&2; exit 2; }
unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF

draw() { # draw KIND CHART INPUT... : in the folder
    kind=$1
    chart=$out/$2.png
    shift 2
    for input; do
        shift
        set -- "$@" "$out/$input"
    done
    "$program" plot "$kind" "$@" "$chart"
    echo "$chart"
}
# table FILE ARGUMENT... : what the program prints. A run that does not fit (status 3) has a table up to
# there.
table() {
    file=$out/$1
    shift
    # shellcheck disable=SC2016
    sh "$whole" "$file" sh -c '"$@" || [ $? -eq 3 ]' sh "$program" "$@"
}
join() { # join FILE INPUT INPUT
    sh "$whole" "$out/$1" cat "$out/$2" "$out/$3"
}

kv=concat,concat-tuple,static,doubling,paged:16
settings=torch,torch,expandable_segments:True,torch,max_split_size_mb:20,torch,roundup_power2_divisions:4
jemalloc=
"$program" --quiet --backend none --ctx 1 --policy jemalloc >/dev/null 2>&1 && jemalloc=,jemalloc

# The optimum depends on the requests alone: one row for each strategy is enough.
table optimum.dat sweep --quiet "$@" --kv $kv --policy direct --optimum
table sizes.dat sweep --quiet "$@" --kv $kv --policy 'block:64KiB..64MiB*2'
join overhead.dat optimum.dat sizes.dat
draw overhead overhead overhead.dat
draw blocks blocks sizes.dat
table cells.dat sweep --quiet "$@" --kv $kv \
    --policy "$settings,block:64KiB,block:2MiB,block:20MiB,bfc$jemalloc"
join policies.dat optimum.dat cells.dat
draw heatmap policies policies.dat
table models.dat sweep --quiet "$@" --model gpt2,gpt2-medium,gpt2-large,gpt2-xl --policy \
    "torch,torch,expandable_segments:True,torch,roundup_power2_divisions:4,block:2MiB,block:20MiB,bfc$jemalloc"
draw models models models.dat

run() { # run NAME POLICY: its table and trace
    name=$1
    policy=$2
    shift 2
    table "$name.dat" --quiet --backend none "$@" --policy "$policy" --trace "$out/$name.trace.gz"
}
run torch torch "$@"
run expandable torch,expandable_segments:True "$@"
for size in 64KiB 2MiB 20MiB; do
    run block-$size block:$size "$@"
done
draw sawtooth sawtooth block-64KiB.dat block-2MiB.dat block-20MiB.dat
draw segments segments torch.trace.gz
[ -z "$jemalloc" ] || run jemalloc jemalloc "$@"
draw maps maps torch.trace.gz expandable.trace.gz block-2MiB.trace.gz ${jemalloc:+jemalloc.trace.gz}

table default.tsv predict "$@" --policy torch
table expandable.tsv predict "$@" --policy torch,expandable_segments:True
table max_split.tsv predict "$@" --policy torch,max_split_size_mb:20
table roundup.tsv predict "$@" --policy torch,roundup_power2_divisions:4
table static.tsv predict "$@" --policy torch --cache static
draw predict predict default.tsv expandable.tsv max_split.tsv roundup.tsv static.tsv
