#!/bin/sh
# `memtrace tokenize`: text to ids, and back.
. tests/cli.shi

bpe=$shared/data/gpt2-bpe
text=$shared/data/tinyshakespeare

# ---- a vocabulary of our own -------------------------------------------------------------------------

# Each byte is its own id; 256 is "he", 257 "hehe", 258 the end of text.
mkdir "$dir/own"
awk 'BEGIN {
    other = 256
    printf "{"
    for (b = 0; b < 256; b++) {
        printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174
        printf "\"\\u%04x\": %d, ", printable ? b : other++, b
    }
    printf "\"he\": 256, \"hehe\": 257, \"<|endoftext|>\": 258}\n"
}' >"$dir/own/vocab.json"
printf '#version: 0.2\nh e\nhe he\n' >"$dir/own/merges.txt"

ids() { # ids TEXT EXPECTED [OPTION]: of the text that printf makes
    printf "$1" >"$dir/in"
    run tokenize --model "$dir/own" <"$dir/in"
    want ended 0
    want empty "$err"
    want is "$(cat "$out")" "$2"
    want lines 1 "$out"
}
begin "ids of a small vocabulary"
ids 'hehe!' '257 33'
ids 'hhee' '104 256 101'
ids 'a he' '97 32 256'
ids '' ''
ids '\n' '10'
ids '\0' '0'
ids '\303\251' '195 169'
ids '\377\376' '255 254'
ids '<|endoftext|>' "$(printf '<|endoftext|>' | od -An -v -tu1 | tr -s ' ' | sed 's/^ //')"

text_of() { # text_of IDS EXPECTED
    printf "$1" >"$dir/in"
    printf "$2" >"$dir/expected"
    run tokenize --decode --model "$dir/own" <"$dir/in"
    want ended 0
    want empty "$err"
    want cmp "$out" "$dir/expected"
}
begin "text of a small vocabulary"
text_of '257 33' 'hehe!'
text_of '257 33\n' 'hehe!'
text_of '\n\t 257\n\n33  ' 'hehe!'
text_of '' ''
text_of ' \n' ''
text_of '0 255 10' '\0\377\n'
text_of '0000257' 'hehe'
text_of '258' '<|endoftext|>'

begin "--tokenizer is --model"
printf 'hehe!' >"$dir/in"
run tokenize --tokenizer "$dir/own" <"$dir/in"
want is "$(cat "$out")" '257 33'

begin "binary input comes back"
{ cat "$MEMTRACE" | head -c 60000; awk 'BEGIN { for (i = 0; i < 256; i++) printf "\\%03o", i }' |
    { read -r bytes; printf "$bytes"; }; } >"$dir/binary"
run tokenize --model "$dir/own" <"$dir/binary"
want ended 0
cp "$out" "$dir/ids"
run tokenize --decode --model "$dir/own" <"$dir/ids"
want ended 0
want cmp "$out" "$dir/binary"

begin "watched: there and back"
head -c 500 "$dir/binary" >"$dir/in"
watched tokenize --model "$dir/own" <"$dir/in"
want ended 0
cp "$out" "$dir/ids"
watched tokenize --decode --model "$dir/own" <"$dir/ids"
want ended 0
want cmp "$out" "$dir/in"

bad_ids() { # bad_ids INPUT TEXT: refused, with TEXT in the message
    printf -- "$1" >"$dir/in"
    begin "bad ids: $1"
    run tokenize --decode --model "$dir/own" <"$dir/in"
    want ended 2
    want empty "$out"
    want one_message
    want has "$err" "$2"
}
bad_ids 'x' 'id 1: '
bad_ids '104 101 x' 'id 3: '
bad_ids '104,101' 'id 1: '
bad_ids '-1' 'id 1: '
bad_ids '+1' 'id 1: '
bad_ids '1.0' 'id 1: '
bad_ids '0x10' 'id 1: '
bad_ids '1\0002' 'id 1: '
bad_ids '104 259' 'id 259'
bad_ids '2147483647' 'id 2147483647'
bad_ids '2147483648' 'id 1: '
bad_ids '18446744073709551616' 'id 1: '
bad_ids '0000000000000000000000000000000000000000000000000000000000259' 'id '
bad_ids '\001\002' 'id 1: '

# ---- broken vocabularies -----------------------------------------------------------------------------

# broken NAME FILE TEXT: a folder whose FILE is stdin is refused; TEXT is in the message.
broken() {
    rm -rf "$dir/broken"
    cp -r "$dir/own" "$dir/broken"
    cat >"$dir/broken/$2"
    begin "broken: $1"
    run tokenize --model "$dir/broken"
    want ended 2
    want empty "$out"
    want one_message
    want grep -q "broken/$2:[0-9]*:* " "$err"
    want has "$err" "$3"
}
changed() { # changed SED: the good vocab.json, changed
    sed "$1" "$dir/own/vocab.json"
}
broken "an empty vocab.json" vocab.json empty </dev/null
head -c 1000 "$dir/own/vocab.json" | broken "half a vocab.json" vocab.json "byte 1000: not the JSON expected"
echo '[1, 2]' | broken "a list" vocab.json "JSON object"
echo '{}' | broken "no symbols" vocab.json "JSON object"
echo nonsense | broken "no JSON" vocab.json "not the JSON expected"
changed 's/}/} x/' | broken "more after the object" vocab.json "not the JSON expected"
changed 's/"\\u0061": 97, //' | broken "a byte without symbol" vocab.json "0x61"
changed 's/: 97,/: 98,/' | broken "an id twice" vocab.json "another token"
changed 's/: 97,/: -1,/' | broken "a negative id" vocab.json "-1"
changed 's/: 97,/: 99999999999,/' | broken "a large id" vocab.json "99999999999"
changed 's/: 97,/: 1e99,/' | broken "a real id" vocab.json "not an integer"
changed 's/: 97,/: "97",/' | broken "a string as id" vocab.json "not an integer"
changed 's/"he"/"h e"/' | broken "a blank in a symbol" vocab.json "outside the byte alphabet"
changed 's/"he"/""/' | broken "an empty token" vocab.json "a token is empty"
changed 's/"he"/"hehe"/' | broken "a symbol twice" vocab.json "not the JSON expected"
changed 's/"he": /"\\u4e16": /' | broken "a letter that is no byte" vocab.json "outside the byte alphabet"
head -c 3000 "$MEMTRACE" | broken "a program as vocab.json" vocab.json "not the JSON expected"
printf '#version: 0.2\nh e\nhe\n' | broken "half a merge" merges.txt "merges.txt:3: "
printf 'h e\nh e h\n' | broken "three symbols" merges.txt "merges.txt:2: "
printf 'h e\nq he\n' | broken "a merge without a result" merges.txt "merges.txt:2: "
printf 'h e\nhe xyz\n' | broken "an unknown symbol" merges.txt "merges.txt:2: "
printf 'h e\nh e\n' | broken "a merge twice" merges.txt "merges.txt:2: "
printf 'h  e\n' | broken "two blanks" merges.txt "merges.txt:1: "
printf 'h e\n\001 \002\n' | broken "control characters" merges.txt "merges.txt:2: "
head -c 3000 "$MEMTRACE" | broken "a program as merges.txt" merges.txt "merges.txt:1: "

begin "broken: a file is missing"
rm -rf "$dir/broken"
mkdir "$dir/broken"
for have in vocab.json merges.txt; do
    cp "$dir/own/$have" "$dir/broken"
    run tokenize --model "$dir/broken"
    want ended 2
    want empty "$out"
    want one_message
    want has "$err" "$dir/broken"
    rm "$dir/broken/$have"
done
begin "broken: a folder as file"
cp "$dir/own/vocab.json" "$dir/broken"
mkdir "$dir/broken/merges.txt"
run tokenize --model "$dir/broken"
want ended 2
want one_message

refused "no --model" 2 "--model DIR is needed" tokenize
refused "a folder that is not there" 2 "$dir/no" tokenize --model "$dir/no"
refused "an empty folder name" 2 "no vocabulary" tokenize --model ""
refused "an argument of tokenize" 2 "unexpected argument 'hello'" tokenize --model "$dir/own" hello
refused "an option of run" 2 "--ctx" tokenize --model "$dir/own" --ctx 5

# ---- whole vocabularies ------------------------------------------------------------------------------

# whole NAME MODEL GOLDEN TEXT TOKENS: a vocabulary, and what another program made of texts with it.
whole() {
    model=$2
    # Each row: the hexadecimal bytes of a text, its ids, the text for people. The bytes become printf
    # escapes here.
    awk -F '\t' -v every="${quick:+6}" '
        (NR + 1) % (every ? every : 1) == 0 {
            bytes = ""
            for (i = 1; i < length($1); i += 2) {
                byte = 16 * (index(hex, substr($1, i, 1)) - 1) + index(hex, substr($1, i + 1, 1)) - 1
                bytes = bytes sprintf("\\%03o", byte)
            }
            print NR "\t" bytes "\t" $2
        }' hex=0123456789abcdef "$3" >"$dir/golden"
    tab=$(printf '\t')
    while IFS= read -r line; do
        row=${line%%"$tab"*}
        line=${line#*"$tab"}
        printf "${line%%"$tab"*}" >"$dir/in"
        begin "$1: golden row $row"
        run tokenize --model "$model" <"$dir/in"
        want ended 0
        want is "$(cat "$out")" "${line#*"$tab"}"
        cp "$out" "$dir/ids"
        run tokenize --decode --model "$model" <"$dir/ids"
        want cmp "$out" "$dir/in"
    done <"$dir/golden"

    begin "$1: binary input comes back"
    run tokenize --model "$model" <"$dir/binary"
    want ended 0
    cp "$out" "$dir/ids"
    run tokenize --decode --model "$model" <"$dir/ids"
    want ended 0
    want cmp "$out" "$dir/binary"

    begin "$1: a whole text"
    run tokenize --model "$model" <"$4"
    want ended 0
    od -An -v -tu1 -w2 "$5" | awk '{ print $1 + 256 * $2 }' >"$dir/expected" # the lower byte first
    tr ' ' '\n' <"$out" >"$dir/ids"
    want cmp "$dir/ids" "$dir/expected"
    run tokenize --decode --model "$model" <"$dir/ids"
    want ended 0
    want cmp "$out" "$4"
}
own=tests/recordings/bpe
whole "our vocabulary" $own $own/golden.tsv $own/text.txt $own/tokens.u16
[ ! -r "$bpe/encoder.json" ] ||
    whole "GPT-2's vocabulary" "$bpe" "$bpe/golden.tsv" "$text/input.txt" "$text/tokens.u16"
finish
