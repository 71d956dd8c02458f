#!/bin/sh
# `memtrace sweep --optimum` and `memtrace replay --optimum`: the yardstick as a column and as a row.
. tests/cli.shi

small="--layers 2 --width 64 --heads 2 --positions 128 --vocab 500"

# between: every row of $out has peak_requested <= optimum_low <= optimum_high <= peak_reserved, and
# overhead is what is left
between() {
    awk '!/^#/ { n++; if ($12 > $18 || $18 > $19 || $19 > $13 || $20 != $13 - $19) exit 1 }
         END { exit n != '"$1"' }' "$out"
}

begin "sweep: the optimum lies between the bound and what each row reserves"
run sweep --quiet --optimum --ctx 32,64,128 --policy torch,block:64KiB,direct,bfc --kv concat,static,paged:16
want [ "$status" = 0 ]
want between 36

begin "sweep: the optimum does not depend on the threads"
run sweep --quiet --optimum --threads 1 --ctx 32,64 --policy torch,direct,bfc --kv concat,static
want [ "$status" = 0 ]
cp "$out" "$dir/one"
run sweep --quiet --optimum --threads 4 --ctx 32,64 --policy torch,direct,bfc --kv concat,static
want cmp "$dir/one" "$out"

begin "sweep: a row of several contexts equals the single run"
grep ' torch concat ' "$dir/one" >"$dir/rows"
run sweep --quiet --optimum --ctx 32 --policy torch --kv concat
grep -v '^#' "$out" >"$dir/single"
want [ "$(grep ' 48GiB 32 ' "$dir/rows")" = "$(cat "$dir/single")" ]

begin "replay: one more row, below all others and not below the peak of requested"
run --backend none $small --ctx 64 --trace "$dir/run.trace"
want [ "$status" = 0 ]
run replay "$dir/run.trace" --policy torch,block:64KiB,direct,bfc --optimum
want [ "$status" = 0 ]
want awk '!/^#/ { n++; if ($1 != "optimum" && (!least || $3 < least)) least = $3; last = $1; low = $2; high = $3 }
          END { exit !(n == 5 && last == "optimum" && low <= high && high <= least) }' "$out"
want grep -q '^# optimum: one contiguous range needs' "$out"

refused "replay: --check takes no --optimum" 2 "no --optimum" replay --check --optimum "$dir/run.trace"

finish
