#!/bin/sh
# `memtrace generate`: ids and text.
. tests/cli.shi

trained=tests/recordings/reverse
bpe=tests/recordings/bpe
small="--layers 2 --width 32 --heads 2 --vocab 300 --threads 1"

# ---- a trained model ---------------------------------------------------------------------------------

# It says six digits backwards: a sample of all prompts, over the strategies in turn.
set -- concat concat-tuple static doubling:7 paged:4 none
awk -F '\t' 'NR > 1 && NR % 81 == 5 {
    gsub(/./, "&,", $1); sub(/,$/, "", $1); gsub(/./, "& ", $2); sub(/ $/, "", $2); print $1 "\t" $2 }' \
    "$trained/greedy.tsv" >"$dir/sample"
while read -r prompt answer; do
    begin "turns $prompt ($1)"
    for activations in eager arena; do
        run generate --ids --model "$trained" --prompt-ids "$prompt" --ctx 11 --kv "$1" \
            --activations $activations --threads 1
        want ended 0
        want empty "$err"
        want lines 1 "$out"
        want is "$(cat "$out")" "$answer"
    done
    first=$1
    shift
    set -- "$@" "$first"
done <"$dir/sample"

begin "the end-of-text id ends nothing, but with --stop"
run generate --ids --model "$trained" --prompt-ids 2,1,1,2,0,0 --ctx 11
want is "$(cat "$out")" "0 0 2 1 1 2"
run generate --ids --model "$trained" --prompt-ids 2,1,1,2,0,0 --ctx 11 --stop
want ended 0
want is "$(cat "$out")" "0 0" # its last id is 2

begin "watched: turns digits"
watched generate --ids --model "$trained" --prompt-ids 2,1,1,2,0,0 --ctx 11 --threads 1
want ended 0
want is "$(cat "$out")" "0 0 2 1 1 2"

refused "an id the model lacks" 2 "id 2: 3: expected 0 to 2" generate --ids --model "$trained" \
    --prompt-ids 1,3
refused "more than the model's positions" 2 "11 positions" generate --ids --model "$trained" --ctx 12
refused "text for a model without a vocabulary" 2 "vocabulary" generate --model "$trained" --ctx 5
refused "another shape of a stored model" 2 "preset" generate --ids --model "$trained" --layers 2

# ---- the tokens that another program computed ----------------------------------------------------------

# oracle NAME OPTION...: 201 tokens after 64 seeded ones.
oracle() {
    begin "the tokens of $1"
    awk -F '\t' '$1 == "step" { printf "%s%s", n++ ? " " : "", $3 } END { print "" }' \
        "tests/oracle/$1.tsv" >"$dir/expected"
    shift
    run generate --ids --seed 0 --prompt-tokens 64 --ctx 264 "$@"
    want ended 0
    want is "$(wc -w <"$dir/expected")" 201
    want cmp "$out" "$dir/expected"
}
if [ -r tests/oracle/small4-seed0.tsv ]; then
    oracle small4-seed0 --layers 4 --heads 4 --width 128 --vocab 512 --threads 1
    [ -n "$quick" ] || oracle gpt2-small-seed0
else
    skip "the tokens that another program computed" "tests/oracle has no such file"
fi

# ---- seeded models, no vocabulary --------------------------------------------------------------------

count() { # count N FILE: words
    [ "$(wc -w <"$2")" -eq "$1" ]
}

begin "ids without a vocabulary"
run generate --ids $small --ctx 30 --prompt-tokens 4
want ended 0
want empty "$err"
want lines 1 "$out"
want count 27 "$out" # 30 - 4 + 1
want grep -qE '^[0-9]+( [0-9]+)*$' "$out"
want awk '{ for (i = 1; i <= NF; i++) if ($i >= 300) exit 1 }' "$out"
cp "$out" "$dir/one"

begin "the same ids in every way"
for options in "--kv concat-tuple" "--kv static" "--kv doubling:5" "--kv paged:3" "--kv none" \
    "--activations arena" "--threads 2" "--policy direct" "--policy block:64KiB" "--logits all" \
    "--positions 1024" "--seed 0"; do
    run generate --ids $small --ctx 30 --prompt-tokens 4 $options
    want ended 0
    want count 27 "$out"
    want cmp "$out" "$dir/one"
done

begin "another seed, other ids"
run generate --ids $small --ctx 30 --prompt-tokens 4 --seed 1
want ended 0
want no cmp "$out" "$dir/one"

begin "other presets"
run generate --ids --model gpt2-xl $small --ctx 5
want ended 0
want count 5 "$out"

begin "a batch: one line a sequence"
run generate --ids $small --ctx 30 --prompt-tokens 4 --batch 3
want ended 0
want lines 3 "$out"
want count 81 "$out"
want is "$(head -n 1 "$out")" "$(cat "$dir/one")"
run generate --ids $small --ctx 9 --prompt-ids 3,1,4 --batch 2
want ended 0
want lines 2 "$out"
want is "$(head -n 1 "$out")" "$(tail -n 1 "$out")"

# The end-of-text id of a model without a vocabulary is its last one: with three ids it soon comes.
begin "--stop"
stopped=0
for seed in 0 1 2 3 4 5 6 7 8 9; do
    run generate --ids --layers 1 --width 8 --heads 1 --vocab 3 --ctx 12 --threads 1 --batch 2 \
        --prompt-tokens 2 --seed $seed
    want ended 0
    want lines 2 "$out"
    sed -e 's/2.*//' -e 's/ $//' "$out" >"$dir/cut"
    cmp -s "$out" "$dir/cut" || stopped=$((stopped + 1))
    run generate --ids --stop --layers 1 --width 8 --heads 1 --vocab 3 --ctx 12 --threads 1 --batch 2 \
        --prompt-tokens 2 --seed $seed
    want ended 0
    want cmp "$out" "$dir/cut"
done
want [ $stopped -gt 0 ]

begin "ctx as long as the prompt: one id"
run generate --ids $small --ctx 6 --prompt-tokens 6
want count 1 "$out"

begin "an empty prompt is one end of text"
model="--layers 1 --width 8 --heads 1 --threads 1"
run generate --ids $model --ctx 3 --prompt-ids 50256
want ended 0
want count 3 "$out"
cp "$out" "$dir/end"
run generate --ids $model --ctx 3 --prompt ""
want cmp "$out" "$dir/end"
: >"$dir/nothing"
run generate --ids $model --ctx 3 --prompt-file "$dir/nothing"
want cmp "$out" "$dir/end"

begin "out of memory keeps what came before"
run generate --ids $small --ctx 200 --policy direct --capacity 400KiB
want ended 3
want has "$err" "out of device memory in step"
want lines 1 "$out"
want [ "$(wc -w <"$out")" -gt 5 ]

refused "an empty prompt of a small model" 2 "lacks" generate --ids $small --prompt ""
refused "a text prompt, ids wanted" 2 "vocabulary" generate --ids $small --prompt hello
refused "text without a vocabulary" 2 "--tokenizer DIR" generate $small --ctx 5
refused "a dry run has no ids" 2 "computes nothing" generate --ids $small --backend none
refused "a trace of generate" 2 "memtrace run" generate --ids $small --trace "$dir/x"
refused "JSON of generate" 2 "memtrace run" generate --ids $small --json
begin "out of memory at the default capacity"
run generate --ids --backend cpu --layers 1 --heads 2 --width 16 --vocab 50 --positions 1048576 --ctx 1048576 \
    --batch 1024 --kv static --quiet
want ended 3
want empty "$out"
want has "$err" "out of device memory in step 0"
want is "$(tail -n 1 "$err")" "the capacity is the default, 48GiB"
refused "an argument of generate" 2 "unexpected argument 'hello'" generate --ids hello
refused "a folder as prompt" 2 "$dir" generate --ids $small --prompt-file "$dir"
want no [ -e "$dir/x" ]

# ---- text --------------------------------------------------------------------------------------------

model="--layers 1 --width 16 --heads 2 --vocab 1000 --threads 1 --tokenizer $bpe"
begin "text in, text out"
run generate $model --prompt "Hello world" --ctx 12
want ended 0
want empty "$err"
cp "$out" "$dir/text"
run generate $model --prompt-ids 39,68,75,280,701,490 --ctx 12 --ids
want ended 0
want count 7 "$out"
{ echo 39 68 75 280 701 490; cat "$out"; } >"$dir/ids"
run tokenize --decode --model "$bpe" <"$dir/ids"
want ended 0
echo >>"$out" # generate ends a sequence with a line end
want cmp "$out" "$dir/text"

begin "a prompt from a file"
printf 'Hello world' >"$dir/prompt"
run generate $model --prompt-file "$dir/prompt" --ctx 12
want ended 0
want cmp "$out" "$dir/text"

begin "text of a batch"
run generate $model --prompt "Hello world" --ctx 12 --batch 2 --kv paged:4
want ended 0
cat "$dir/text" "$dir/text" >"$dir/twice"
want cmp "$out" "$dir/twice"

refused "text whose ids the model lacks" 2 "expected 0 to 299" generate $model --vocab 300 \
    --prompt "Hello world"
finish
