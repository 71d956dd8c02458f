#!/bin/sh
# The charts: each script on small runs, its title's figures against figures computed here from the same
# table, and on input that is missing, empty, cut short or of another kind.
. tests/cli.shi
. tests/plots.shi

make_run() { # make_run NAME OPTION...: NAME.dat and NAME.trace
    run_name=$1
    shift
    "$MEMTRACE" --quiet --backend none --trace "$dir/$run_name.trace" "$@" >"$dir/$run_name.dat"
}

mib() { # mib BYTES: as the charts write them
    awk -v b="$1" 'BEGIN { printf "%.1f MiB", b / 1048576 }'
}
column() { # column N FILE: of the last row
    grep -v '^#' "$2" | tail -n 1 | tr -s ' \t' '  ' | cut -d ' ' -f "$1"
}
over() { # over FILE: reserved - requested of the last row
    mib $(($(column 13 "$1") - $(column 9 "$1")))
}
bumps() {
    awk '!/^#/ && $18 != 0 { n++ } END { print n + 0 }' "$1"
}

make_run torch --ctx 40
make_run grown --ctx 40 --policy torch,expandable_segments:True
make_run small --ctx 40 --policy block:64KiB
make_run large --ctx 40 --policy block:2MiB
make_run tiny --ctx 1 --policy block:2MiB
"$MEMTRACE" sweep --quiet --ctx 40 --kv static --policy direct --optimum >"$dir/optimum"
"$MEMTRACE" sweep --quiet --ctx 40 --kv static --policy 'block:64KiB..4MiB*2' >"$dir/sizes"
cat "$dir/optimum" "$dir/sizes" >"$dir/overhead"
"$MEMTRACE" sweep --quiet --ctx 40 --kv concat,static --policy direct,torch,bfc >"$dir/policies"
"$MEMTRACE" sweep --quiet --ctx 40 --model gpt2,gpt2-xl --policy torch,bfc >"$dir/models"
"$MEMTRACE" predict --ctx 400 --policy torch >"$dir/default.tsv"
"$MEMTRACE" predict --ctx 400 --policy torch,expandable_segments:True >"$dir/expandable.tsv"

# ---- the titles ------------------------------------------------------------------------------------

# peak_reserved is column 13, optimum_low 18, optimum_high 19, the policy 6, the model 1.
best=$(awk '!/^#/ && $19 > 0 { low = $19 }
    !/^#/ && $6 ~ /^block/ { if (!least || $13 <= least) { least = $13; size = $6 }; if ($13 > most) { most = $13; wrong = $6 } }
    function words(s) { sub(/block:/, "", s); sub(/[KM]iB/, " &", s); return s }
    function percent(p) { return sprintf(p < 9.95 ? "%.1f %%" : "%.0f %%", p) }
    END { if (least < low) low = least
          printf "is %s for static; %s with static costs %s", words(size), words(wrong), percent(100 * (most - low) / low) }' \
    "$dir/overhead")
drawn overhead "the best block size $best" "$dir/overhead"

far=$(awk '!/^#/ && $6 ~ /^bfc/ { sum += 100 * ($13 - $18) / $18; n++ } END { printf "farthest is bfc (+%.0f %%)", sum / n }' \
    "$dir/policies")
drawn heatmap "$far" "$dir/policies"

costs=$(awk '!/^#/ && $6 == "torch" { base[$1] = $13 }
    !/^#/ && $6 ~ /^bfc/ { p[++n] = 100 * ($13 - base[$1]) / base[$1] }
    END { low = p[1] < p[2] ? p[1] : p[2]; high = p[1] + p[2] - low; printf "bfc costs %.0f to %.0f %% vs. torch", low, high }' \
    "$dir/models")
drawn models "At 40 tokens $costs" "$dir/models"

drawn sawtooth "overhead ends at $(over "$dir/small.dat") (block:64KiB), $(over "$dir/large.dat") (block:2MiB)" \
    "$dir/small.dat" "$dir/large.dat"
want says "$dir/chart.svg" "block:64KiB: $(bumps "$dir/small.dat") bumps, overhead "
want says "$dir/chart.svg" "block:2MiB: $(bumps "$dir/large.dat") bumps, overhead "

drawn maps "at 40 tokens: expandable_segments:True reserves $(mib "$(column 13 "$dir/grown.dat")"), torch \
$(mib "$(column 13 "$dir/torch.dat")")" "$dir/torch.trace" "$dir/grown.trace"
# Its figures below the names are the ledger's.
want says "$dir/chart.svg" "in $(column 16 "$dir/torch.dat") segments split $(mib "$(column 11 "$dir/torch.dat")")"
want says "$dir/chart.svg" "in $(column 16 "$dir/grown.dat") segments split $(mib "$(column 11 "$dir/grown.dat")")"

begin "maps: at a token that is asked for"
at=$(mib "$(awk '$2 == 15 { print $13 }' "$dir/torch.dat")")
draw maps 15 "$dir/torch.trace" "$dir/chart.svg"
want ended 0
want says "$dir/chart.svg" "at 15 tokens: torch reserves $at"

drawn predict "at 400 tokens: $(mib "$(column 3 "$dir/default.tsv")") allocated; reserved \
$(mib "$(column 4 "$dir/expandable.tsv")") (expandable_segments:True), $(mib "$(column 4 "$dir/default.tsv")") (torch)" \
    "$dir/default.tsv" "$dir/expandable.tsv"

drawn reserved "$(mib "$(column 9 "$dir/torch.dat")") requested, $(mib "$(column 13 "$dir/torch.dat")") reserved" "$dir/torch.dat"
drawn bumps "in $(bumps "$dir/small.dat") bumps" "$dir/small.dat"
drawn compare "$(mib "$(column 13 "$dir/grown.dat")") against $(mib "$(column 13 "$dir/torch.dat")")" \
    "$dir/torch.dat" "$dir/grown.dat"
drawn segments "$(mib "$(column 13 "$dir/torch.dat")") in $(column 16 "$dir/torch.dat") segments" "$dir/torch.trace"

# ---- what a reader sees ------------------------------------------------------------------------------

begin "compare: the option that differs is never cut, and what both requested is one line"
sed 's/^# backend none/# backend cpu/' "$dir/grown.dat" >"$dir/elsewhere.dat"
draw compare "$dir/torch.dat" "$dir/elsewhere.dat" "$dir/chart.svg"
want says "$dir/chart.svg" "expandable_segments:True: reserved"
want says "$dir/chart.svg" "both: requested $(mib "$(column 9 "$dir/torch.dat")")"
begin "compare: runs that differ in nothing else are named by their back ends"
sed 's/^# backend none/# backend cpu/' "$dir/torch.dat" >"$dir/cpu.dat"
draw compare "$dir/torch.dat" "$dir/cpu.dat" "$dir/chart.svg"
want says "$dir/chart.svg" "backend none and backend cpu: both reserve"
begin "bumps: KV is taken off, and the chart says so"
draw bumps "$dir/torch.dat" "$dir/chart.svg"
want says "$dir/chart.svg" "a bump is the growth of reserved less that of KV, in one step"
begin "segments: the key names what can be found, and nothing else"
make_run long --ctx 1024
draw segments "$dir/long.trace" "$dir/chart.svg"
want says "$dir/chart.svg" "weights, folded"
want no says "$dir/chart.svg" logits
make_run arena --layers 2 --width 64 --heads 2 --vocab 60000 --ctx 20 --activations arena --batch 16
draw segments "$dir/arena.trace" "$dir/chart.svg"
want says "$dir/chart.svg" logits
begin "maps: the same"
draw maps "$dir/torch.trace" "$dir/chart.svg"
want says "$dir/chart.svg" "weights, folded"
draw maps "$dir/arena.trace" "$dir/chart.svg"
want says "$dir/chart.svg" logits
begin "blocks and overhead: zero has a place on the axis"
draw blocks "$dir/sizes" "$dir/chart.svg"
want says "$dir/chart.svg" "overhead, MiB (log)"
want says "$dir/chart.svg" " 0 0.1 1 10 "
draw overhead "$dir/overhead" "$dir/chart.svg"
want says "$dir/chart.svg" "0 % 0.01 % 0.1 % "
begin "what lies on each other in a chart differs in lightness"
awk '/c_(kv|rounding|split|cached) =/ || /^blue =/ {
    n = split($0, part, ";")
    for (i = 1; i <= n; i++) if (match(part[i], /"#[0-9A-F]+"/)) {
        name = part[i]; sub(/ *=.*/, "", name); sub(/^ */, "", name)
        print name, substr(part[i], RSTART + 2, 6)
    }
}' plots/style.gp | while read -r name hex; do
    echo "$name $((0x${hex%????})) $((0x$(echo "$hex" | cut -c 3-4))) $((0x${hex#????}))"
done | awk 'function linear(c) { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ^ 2.4 }
    { y = 0.2126 * linear($2) + 0.7152 * linear($3) + 0.0722 * linear($4); l[$1] = 116 * y ^ (1 / 3) - 16 }
    END { print l["c_rounding"] - l["blue"], l["c_split"] - l["c_rounding"], l["c_cached"] - l["c_split"] }' >"$out"
want awk 'NF != 3 || $1 < 10 || $2 < 10 || $3 < 10 { exit 1 }' "$out"

# ---- very small, and cut short ------------------------------------------------------------------------

drawn sawtooth "overhead ends at $(over "$dir/tiny.dat") (block:2MiB)" "$dir/tiny.dat"
want says "$dir/chart.svg" "block:2MiB: 0 bumps, overhead "
drawn maps "at 1 token: block:2MiB reserves $(mib "$(column 13 "$dir/tiny.dat")")" "$dir/tiny.trace"
drawn segments "$(mib "$(column 13 "$dir/tiny.dat")") in $(column 16 "$dir/tiny.dat") segments" "$dir/tiny.trace"

half=$(($(wc -c <"$dir/torch.trace") / 2))
head -c $half "$dir/torch.trace" >"$dir/cut.trace"
last=$(awk '$2 == "mark" { t = $7 } END { print t }' "$dir/cut.trace")
drawn segments "cut short after $last of 40 tokens" "$dir/cut.trace"
drawn maps "torch: cut short after $last of 40 tokens" "$dir/cut.trace" "$dir/grown.trace"

{ head -n 200 "$dir/default.tsv"; echo '# interrupted'; } >"$dir/interrupted.tsv"
drawn predict "interrupted after $(head -n 200 "$dir/default.tsv" | tail -n 1 | cut -f 2) tokens" "$dir/interrupted.tsv"
{ sed '/^10 /,$d' "$dir/large.dat"; echo '# interrupted'; } >"$dir/interrupted.dat"
drawn sawtooth "block:2MiB: interrupted after 10 tokens" "$dir/small.dat" "$dir/interrupted.dat"
{ sed '/block:1MiB/,$d' "$dir/sizes"; echo '# interrupted'; } >"$dir/interrupted.sweep"
drawn overhead "interrupted, kv static" "$dir/interrupted.sweep"

# ---- what is refused -----------------------------------------------------------------------------------

: >"$dir/nothing"
grep '^#' "$dir/sizes" >"$dir/header.sweep"
grep '^#' "$dir/default.tsv" >"$dir/header.tsv"
gzip -c "$dir/torch.trace" | head -c 20000 >"$dir/damaged.trace.gz"
for chart in overhead heatmap models sawtooth maps predict segments reserved bumps blocks; do
    rejects "$chart: a file that is missing" $chart "no such file" "$dir/missing"
    rejects "$chart: an empty file" $chart "nothing: " "$dir/nothing"
    case $chart in
    sawtooth | reserved | bumps) other=torch.trace ;;
    *) other=torch.dat ;;
    esac
    rejects "$chart: a table of another kind" $chart "$other: " "$dir/$other"
done
rejects "overhead: a header without rows" overhead "it has no rows" "$dir/header.sweep"
rejects "overhead: no block:SIZE" overhead "no row with a policy block:SIZE" "$dir/policies"
rejects "heatmap: several models" heatmap "several values of model" "$dir/models"
rejects "models: several strategies" models "several values of kv" "$dir/policies"
rejects "predict: a header without rows" predict "it has no rows" "$dir/header.tsv"
rejects "predict: one of two is missing" predict "missing: no such file" "$dir/default.tsv" "$dir/missing"
rejects "maps: a damaged file" maps "cut short, or not compressed" "$dir/torch.trace" "$dir/damaged.trace.gz"
rejects "segments: a damaged file" segments "cut short, or not compressed" "$dir/damaged.trace.gz"
begin "maps: a token that no step ends with"
draw maps 41 "$dir/torch.trace" "$dir/none.png"
want ended 2
want has "$err" "no step that ends with 41 tokens"
want no test -e "$dir/none.png"
for chart in overhead heatmap models sawtooth maps predict; do
    misused $chart "$dir/overhead"
done

# ---- all at once ---------------------------------------------------------------------------------------

if [ -n "$quick" ]; then
    skip "lab.sh: all charts of the laboratory" "MEMTRACE_QUICK"
else
    begin "lab.sh: all charts of the laboratory"
    command="tools/lab.sh $MEMTRACE $dir/lab --ctx 2"
    sh tools/lab.sh "$MEMTRACE" "$dir/lab" --ctx 2 >"$out" 2>"$err"
    status=$?
    want ended 0
    want empty "$err"
    for chart in overhead policies models sawtooth blocks segments maps predict; do
        want is_png "$dir/lab/$chart.png"
    done
fi
begin "lab.sh: usage, and a program that is not there"
command="tools/lab.sh"
sh tools/lab.sh >"$out" 2>"$err"
status=$?
want ended 2
want has "$err" "usage: tools/lab.sh"
sh tools/lab.sh "$dir/no-program" "$dir/lab" >"$out" 2>"$err"
status=$?
want ended 2
want lines 1 "$err"

# What a request costs: a table as `make bench` makes it.
printf '# ns per request and free\n# policy pattern ledger counted recorded\n' >"$dir/bench"
printf '%s\n' 'torch kv-growth 91.6 1 1' 'torch 2000-random 270.4 1 1' 'direct kv-growth 60.2 1 1' \
    'direct 2000-random 80 1 1' '# ns an event' 'torch 9' >>"$dir/bench"
drawn bench "torch takes 92 ns per request and free with kv-growth, 270 with 2000-random; fastest with kv-growth is direct, 60 ns" "$dir/bench"
sed 's/270.4/many/' "$dir/bench" >"$dir/bench-word"
sed '/^direct 2000/d' "$dir/bench" >"$dir/bench-gap"
rejects "bench: a word for a time" bench "line 4: not a row" "$dir/bench-word"
rejects "bench: a row that is missing" bench "no row of direct with 2000-random" "$dir/bench-gap"
rejects "bench: another table" bench "not a table of make bench" /dev/null


# Other programs: a figure is rounded once.
{
    printf '# %s\n' "memtrace peers 1" "weights_read 494613504" "kv_read 73728" "memory_rate 29.5 26.1 34.2" \
        "threads 2" "rounds 3" "device cpu, 2 threads, avx2, OpenBLAS"
    printf '%s\n' "memtrace-static decode 16 18.3 17 19 54 16.8 92.1" "memtrace-static decode 1000 19.849 19 20 50 19.2 97.2" \
        "torch decode 16 41.2 40 50 20 16.8 37.1" "torch decode 1000 52.4 46 54 20 19.2 37.46"
} >"$dir/peers"
drawn peers "memtrace-static takes 19.8 ms per token with 1000 tokens in the cache, the fastest other program, torch, 52.4 ms, 164 % more; memory bandwidth allows 19.3 ms" \
    "$dir/peers"
want says "$dir/chart.svg" "torch: 52.4 ms, 37 %"

finish
