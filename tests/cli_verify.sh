#!/bin/sh
# `memtrace verify`: a right cache is found right, a wrong one is caught.
. tests/cli.shi

model="--layers 4 --width 128 --heads 4 --vocab 512 --threads 1"
ctx=64
[ -z "$quick" ] || ctx=24

# verified NAME TOKENS OPTION...: exit status 0, and the verdict is the last line.
verified() {
    begin "$1"
    tokens=$2
    shift 2
    run verify $model "$@"
    want ended 0
    want empty "$err"
    want last "$out" "verified: cached = uncached"
    want grep -q "^  tokens equal: *$tokens of $tokens\$" "$out"
}

for kv in concat concat-tuple static doubling doubling:10 paged:16 paged:1; do
    for activations in eager arena; do
        verified "$kv $activations" $ctx --ctx $ctx --kv $kv --activations $activations
        want has "$out" "cached (gpt2, $kv, $activations activations) against one causal pass"
    done
done
verified "every prefix again" 24 --ctx 24 --kv paged:5 --rerun
want has "$out" "against re-run prefixes"
verified "a batch" $((2 * (ctx - 4))) --ctx $ctx --prompt-tokens 5 --batch 2 --kv doubling:8
verified "a batch, every prefix again" 36 --ctx 20 --prompt-tokens 3 --batch 2 --rerun
verified "a prompt as long as ctx" 1 --ctx 9 --prompt-tokens 9
verified "quietly" 12 --ctx 12 --quiet
verified "another policy" 12 --ctx 12 --policy direct --logits all

for kv in concat static doubling:10 paged:16; do
    begin "faults are caught: $kv"
    run verify $model --ctx $ctx --kv $kv --fault
    want ended 0
    want empty "$err"
    want grep -q '^caught: ' "$out"
    want is "$(tail -n 1 "$out" | cut -c 1-7)" "caught:"
    want is "$(grep -c ': caught$' "$out")" 4
    want is "$(grep -c ': no difference, as expected$' "$out")" 1
    want is "$(grep -c 'check of the first token: passes$' "$out")" 5
    cp "$out" "$dir/loud"
    run verify $model --ctx $ctx --kv $kv --fault --quiet
    want ended 0
    want cmp "$out" "$dir/loud"
done

begin "out of memory"
run verify $model --ctx $ctx --policy direct --capacity 1MiB
want ended 3
want has "$err" "out of device memory"
want empty "$out"

refused "--kv none" 2 "no cache to verify" verify $model --kv none
refused "a dry run" 2 "computes nothing" verify $model --backend none
refused "--fault with --rerun" 2 "--fault goes without" verify $model --fault --rerun
refused "too short to go wrong" 2 "at least 4 tokens" verify $model --fault --ctx 4
refused "a trace of verify" 2 "memtrace run" verify $model --trace "$dir/x"
refused "JSON of verify" 2 "memtrace run" verify $model --json
refused "an argument of verify" 2 "unexpected argument 'x'" verify x

begin "watched: verified"
watched verify $model --layers 2 --width 32 --ctx 12 --kv paged:5
want ended 0
want last "$out" "verified: cached = uncached"
begin "watched: caught"
watched verify $model --layers 2 --ctx 12 --fault
want ended 0
want is "$(tail -n 1 "$out" | cut -c 1-7)" "caught:"
finish
