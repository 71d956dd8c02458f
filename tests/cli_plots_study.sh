#!/bin/sh
# The charts of `memtrace study`: on a small one, their titles' figures against figures computed here from
# the same table, and on input that is missing, empty, cut short or of another kind.
. tests/cli.shi
. tests/plots.shi

charts="study study-ratio study-roofline study-split"

# cell BLOCK COLUMN FIRST SECOND FILE: of the last row of a block that begins with these two words
cell() {
    awk -v block="$1" -v column="$2" -v first="$3" -v second="$4" '
        /^# (context|pass) / { b++; for (i = 2; i <= NF; i++) at[$i] = i - 1; next }
        /^#/ || NF == 0 { next }
        b == block && (first == "" || $1 == first) && (second == "" || $2 == second) { v = $at[column] }
        END { print v }' "$5"
}

table=$dir/study.dat
"$MEMTRACE" study --layers 2 --heads 3 --width 51 --vocab 97 --positions 64 --repeat 3 --contexts 5,17,64 \
    --capacity 100MiB --quiet >"$table"

# ---- the titles ------------------------------------------------------------------------------------

ms() { # ms NUMBER: as the charts write it
    awk -v x="$1" 'function d(x) { return sprintf(x >= 99.95 ? "%.0f" : x >= 9.995 ? "%.1f" : x >= 0.9995 ? "%.2f" : x >= 0.00995 ? "%.3f" : "%.4f", x) }
        BEGIN { print (x >= 999.5 ? d(x / 1000) " s" : d(x) " ms") }'
}
figure() {
    ms "$1" | cut -d ' ' -f 1
}
factor() {
    awk -v x="$1" 'BEGIN { print sprintf(x >= 9.95 ? "%.0f" : x >= 0.995 ? "%.1f" : "%.2f", x) }'
}
percent() { # percent PART WHOLE
    awk -v a="$1" -v b="$2" 'BEGIN { p = 100 * a / b; print sprintf(p < 0.095 ? "%.2f %%" : p < 9.95 ? "%.1f %%" : "%.0f %%", p) }'
}
block0() { # block0 COLUMN: at 64 tokens
    cell 1 "$1" 64 "" "$table"
}

latency="At 64 tokens a cached step takes $(ms "$(block0 cached_ms)"), an uncached one $(ms "$(block0 uncached_ms)"): \
$(factor "$(block0 time_ratio)") times"
drawn study "$latency" "$table"
want says "$dir/chart.svg" "at least $(ms "$(block0 cached_bound_ms)"): "
want says "$dir/chart.svg" "at least $(ms "$(block0 uncached_bound_ms)"): "
want no says "$dir/chart.svg" "recorded graph"

# 24 L C^2 T + 4 L C T^2 + 2 C V, over the same for one token.
last=$(awk -v L=2 -v C=51 -v V=97 -v T=64 'BEGIN { printf "%.0f", (T*24*L*C*C + 4*L*C*T*T + 2*C*V) / (24*L*C*C + 4*L*C*T + 2*C*V) }')
ratio="does $last times the FLOPs of a cached one (64 with all logits) and takes $(factor "$(block0 time_ratio)") times as long"
drawn study-ratio "$ratio" "$table"
want says "$dir/chart.svg" "logits of the last token: $last times"
want says "$dir/chart.svg" "$(figure "$(block0 uncached_gflops)") GFLOP/s without a cache"

roofline="a cached step does $(figure "$(block0 cached_intensity)") FLOP per byte: \
$(sed -n 's/^# verdict cached step at 64: \([a-z -]*\).*/\1/p' "$table")"
drawn study-roofline "$roofline" "$table"
want says "$dir/chart.svg" "an uncached one does $(figure "$(block0 uncached_intensity)"): "
want says "$dir/chart.svg" "arithmetic at $(figure "$(sed -n 's/^# peak_gflops //p' "$table")") GFLOP/s"
for kernel in qkv attention proj fc fcp logits; do
    want says "$dir/chart.svg" " $kernel $(percent "$(cell 3 percent_of_roof uncached $kernel "$table")" 100) "
done
want no says "$dir/chart.svg" "layernorm"

# The largest part of each step.
largest() { # largest PASS FILE
    awk -v pass="$1" '/^# pass context/ { for (i = 2; i <= NF; i++) name[i - 1] = $i }
        $1 == pass && $2 == 64 && NF > 12 {
            for (i = 3; i <= 10; i++) { sum += $i; if ($i > most) { most = $i; best = name[i] } }
            sub(/^products/, "matmuls", best); p = 100 * most / sum; printf "%.0f %% %s", p, best }' "$2"
}
drawn study-split "At 64 tokens a cached step is $(largest cached "$table")" "$table"
want says "$dir/chart.svg" "an uncached one $(largest uncached "$table")"
want says "$dir/chart.svg" "cached step, ms"
total=$(awk '$1 == "uncached" && $2 == 64 { for (i = 3; i <= 10; i++) s += $i; print s }' "$table")
want says "$dir/chart.svg" "$(ms "$total")"

# ---- verdicts --------------------------------------------------------------------------------------

verdict() { # verdict NAME WORDS: a title for a step that is NAME
    sed "s/^\(# verdict cached step at 64: \).*\(: of [0-9]\)/\1$1\2/" "$table" >"$dir/verdict.dat"
    drawn study-roofline "FLOP per byte: $2" "$dir/verdict.dat"
}
# The parts of the time are those of the table, which has them from figures of more digits; the columns
# must give them too.
part() { # part WORD: the first percentage after it
    sed -n "s/^# verdict cached .*$1[^(]*(\([0-9]* %\)).*/\1/p" "$table"
}
near() { # near PERCENT PERCENT
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b <= 1 + 0.03 * b && b - a <= 1 + 0.03 * b) }'
}
begin "study: the verdict's figures follow from the columns"
cp "$table" "$out"
want near "$(part reading)" "$(awk -v b="$(block0 cached_bytes)" -v r="$(block0 cached_read_gbs)" -v m="$(block0 cached_ms)" \
    'BEGIN { print b / r / 1e4 / m }')"
want near "$(part launching)" "$(awk -v n="$(cell 2 calls cached 64 "$table")" -v us="$(sed -n 's/^# start_us //p' "$table")" \
    -v m="$(block0 cached_ms)" 'BEGIN { print n * us / 10 / m }')"
verdict "bandwidth-bound" "bandwidth-bound (reading $(part reading) of its time)"
verdict "launch-bound" "launch-bound (launching kernels $(part launching) of its time)"
verdict "compute-bound" "compute-bound (arithmetic $(part 'GFLOP at') of its time)"
verdict "no single bottleneck" "no single bottleneck ("
verdict "above DRAM bandwidth, so its data is in a cache" "above DRAM bandwidth, in a cache"
grep -v '^# verdict' "$table" >"$dir/verdict.dat"
drawn study-roofline "no verdict (" "$dir/verdict.dat"

# ---- one context, another clock, a graph, cut short ------------------------------------------------

sed '/^\(cached \|uncached \|\)\(5\|17\) /d' "$table" >"$dir/one.dat"
drawn study "$latency" "$dir/one.dat"
drawn study-ratio "$ratio" "$dir/one.dat"
drawn study-roofline "$roofline" "$dir/one.dat"
drawn study-split "At 64 tokens a cached step is $(largest cached "$table")" "$dir/one.dat"

{
    sed 's/^# clock .*/# clock of the device/; s/^# logits last/# logits all/
        s/^uncached 5 /graph 64 0 0 0 0 0 0 0 0.5 0.5 1 1.0\n&/' "$table"
    echo "# graph step at 64: 0.500 ms against 1.000 without: 2.00 times"
} >"$dir/device.dat"
drawn study "a recorded graph: 0.500 ms" "$dir/device.dat"
drawn study-ratio "does 64 times the FLOPs of a cached one ($last with the last logits only)" "$dir/device.dat"
drawn study-split "* on the host, beside the device" "$dir/device.dat"

for chart in $charts; do
    { cat "$table"; echo "# interrupted"; } >"$dir/interrupted.dat"
    drawn $chart "; interrupted after 3 contexts" "$dir/interrupted.dat"
done
{ cat "$dir/one.dat"; echo "# out of memory"; } >"$dir/full.dat"
drawn study "; out of memory after 1 context" "$dir/full.dat"

# ---- what is refused -----------------------------------------------------------------------------------

: >"$dir/nothing"
sed '/^[^#]/d; /^# verdict/,$d' "$table" >"$dir/header"
{ cat "$dir/header"; echo "# interrupted"; } >"$dir/early"
sed -n '1,/^# context/p; /^5 /s/ [^ ]*$//p' "$table" >"$dir/short-row"
sed 's/^17 [^ ]*/17 nan/' "$table" >"$dir/nan"
sed '/^# pass context/,$d' "$table" >"$dir/first-block"
sed '/^cached 17 /,$d' "$table" >"$dir/half-split"
sed 's/^17 /90 /' "$table" >"$dir/falls"
sed 's/cached_read_gbs/something/' "$table" >"$dir/no-column"
cat "$table" "$table" >"$dir/twice"
gzip -c "$table" | head -c 700 >"$dir/damaged.gz"
"$MEMTRACE" --quiet --backend none --ctx 2 >"$dir/run.dat"
for chart in $charts; do
    rejects "a file that is missing" $chart "missing: no such file" "$dir/missing"
    rejects "an empty file" $chart "no table of memtrace study" "$dir/nothing"
    rejects "another table" $chart "run.dat: no table of memtrace study" "$dir/run.dat"
    rejects "a header without rows" $chart "it has no rows" "$dir/header"
    rejects "interrupted without rows" $chart "interrupted before the end of the first context" "$dir/early"
    rejects "a row cut short" $chart "columns where 29 are expected" "$dir/short-row"
done
rejects "no number" study "cached_ms is no number" "$dir/nan"
rejects "contexts that fall" study "contexts do not rise" "$dir/falls"
rejects "a column less" study "no column cached_read_gbs" "$dir/no-column"
rejects "two studies" study "not those of one study" "$dir/twice"
rejects "a damaged file" study "cut short, or not compressed" "$dir/damaged.gz"
rejects "half a split" study-split "lacks the split of some steps" "$dir/half-split"
rejects "the first block alone" study-roofline "lacks the split of some steps" "$dir/first-block"
rejects "the first block alone" study "lacks its closing lines" "$dir/first-block"
for chart in $charts; do
    misused $chart "$table"
done
finish
