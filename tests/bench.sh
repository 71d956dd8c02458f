#!/bin/sh
# Speed, in numbers. usage: bench.sh BUILD PROGRAM
set -eu
build=$1
program=$2

echo "# allocator"
"$build/tests/bench_alloc"

sh tests/oracle/bench_torch.sh

echo "# dry run of GPT-2 small to ctx 1024: seconds without and with a trace, medians of 5"
for extra in "" "--trace /dev/null"; do
    for i in 1 2 3 4 5; do
        start=$(date +%s%N)
        "$program" --quiet --backend none --ctx 1024 $extra >/dev/null
        end=$(date +%s%N)
        echo $(((end - start) / 1000))
    done | sort -n | sed -n 3p | awk -v x="${extra:-none}" '{ printf "%-20s %.3f s\n", x, $1 / 1e6 }'
done

echo "# decoding, GPT-2 small fp32, batch 1: median ms per step of the 16 steps up to ctx"
for ctx in 16 512 1000; do
    "$program" --quiet --kv static --prompt-tokens $((ctx - 15)) --ctx $ctx |
        awk '!/^#/ && $1 > 0 { print $NF }' | sort -n |
        awk -v c=$ctx '{ a[NR] = $1 } END { m = a[int((NR + 1) / 2)]; printf "ctx %-5s %7.2f ms %6.1f tokens/s\n", c, m, 1000 / m }'
done
