#!/bin/sh
# `memtrace explain` from the command line: snapshots and out-of-memory messages.
. tests/cli.shi

snapshots=tests/recordings/snapshots
small=$snapshots/events-2.15.pkl
growing=$snapshots/events-2.15-expandable.pkl
decode=$snapshots/decode-2.15.pkl.gz

# The file of counters beside a snapshot: what torch.cuda.memory_stats() said at that moment.
counter() { # counter KEY
    sed -n "s/^$2\t//p" "${1%.pkl*}.tsv"
}

# What the file states, held against PyTorch's counters.
as_counted() { # as_counted SNAPSHOT
    want is "$(first reserved)" "$(counter "$1" reserved_bytes.all.current)"
    want is "$(first allocated)" "$(counter "$1" allocated_bytes.all.current)"
    want is "$(first active)" "$(counter "$1" active_bytes.all.current)"
    want is "$(first requested)" "$(counter "$1" requested_bytes.all.current)"
    want is "$(first peak_reserved)" "$(counter "$1" reserved_bytes.all.peak)"
    want is "$(first peak_requested)" "$(counter "$1" requested_bytes.all.peak)"
}

# The first object of a key, and a value of a key in it.
inside() { # inside OBJECT KEY
    sed -n "s/.*\"$1\": {\([^{}]*\).*/\1/p; q" "$out" | sed -n "s/.*\"$2\": \([^,}]*\).*/\1/p"
}

first() { # the first value of a key, not the last
    grep -o "\"$1\": [^,}]*" "$out" | head -n 1 | cut -d ' ' -f 2
}

# ---- snapshots --------------------------------------------------------------------------------------

begin "a snapshot: what the file states"
run explain "$small" --json
want ended 0
want strict_json "$out"
as_counted "$small"
want is "$(first segments)" "$(counter "$small" segment.all.current)"
want is "$(first blocks)" 8
want is "$(inside events alloc)" 9
want is "$(inside events free_requested)" 4
want is "$(inside events free_completed)" 4
want is "$(inside events segment_alloc)" 4
want is "$(inside events segment_free)" 1
want is "$(inside events oom)" 1

begin "an expandable one"
run explain "$growing" --json
want ended 0
want strict_json "$out"
as_counted "$growing"
want is "$(inside events segment_map)" 4
want is "$(inside events segment_unmap)" 1

begin "the identity, at the end and at the peak"
for file in "$small" "$growing" "$decode"; do
    for at in end peak 5 1ms; do
        run explain "$file" --at $at
        want ended 0
        want empty "$err"
        awk '$3 ~ /^[KMG]?i?B$/ && $NF == "reserved" { sum = $1; n++ }
             $1 == "=" || $1 == "+" { sum -= $2; if (/ cached: /) { if (sum != 0) bad = 1 } }
             END { exit bad || n == 0 }' "$out" || echo "the identity does not hold at $at" >>"$wrong"
    done
done

begin "a decode: peaks are PyTorch's own"
run explain "$decode" --json
want ended 0
want strict_json "$out"
as_counted "$decode"
want has "$out" '"site": "transformers/cache_utils.py:'
want has "$out" '"contradictions": 0'

begin "for people"
run explain "$decode"
want ended 0
want has "$out" "25165824     24.0 MiB  reserved"
want has "$out" "transformers/cache_utils.py:"
run explain "$small"
want has "$out" "out of memory 1 times; the last one: "
want has "$out" "314572800 bytes (300.0 MiB)"

begin "file names without folders"
run explain "$decode" --strip-paths
want ended 0
want has "$out" "cache_utils.py:"
want is "$(grep -c transformers/ "$out")" 0

begin "standard input, packed or not, gives the same"
run explain "$small" --json
sed 's/"file": "[^"]*"//' "$out" >"$dir/plain"
for pack in cat gzip zstd; do
    command -v $pack >/dev/null || continue
    $pack <"$small" | "$MEMTRACE" explain --json - >"$out" 2>"$err"
    want is "$(sed 's/"file": "[^"]*"//' "$out")" "$(cat "$dir/plain")"
    want empty "$err"
done

begin "one device of several"
run explain "$small" --device 0 --json
want ended 0
want is "$(first reserved)" "$(counter "$small" reserved_bytes.all.current)"
refused "a device that is not there" 2 "has nothing of device 7" explain "$small" --device 7
refused "a step beyond the events" 2 "device 0 has 23 events" explain "$small" --at 24
refused "no moment" 2 "expected peak, end, the number of an event" explain "$small" --at never
head -c 2000 "$small" >"$dir/cut.pkl"
refused "a snapshot that is cut" 2 "cut.pkl: byte " explain "$dir/cut.pkl"

begin "a pickle that would run code"
printf '\200\004cos\nsystem\n(X\004\000\000\000truetR.' >"$dir/code.pkl"
run explain "$dir/code.pkl"
want ended 2
want has "$err" "code.pkl: byte 2: opcode GLOBAL names or runs code"
refused "an input above --max-input" 2 "snapshots/decode-2.15.pkl.gz" explain "$decode" --max-input 64KiB

# ---- out-of-memory messages ---------------------------------------------------------------------------

cat >"$dir/oom.txt" <<'END'
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 1 has a total capacity of 79.15 GiB of which 187.56 MiB is free. Including non-PyTorch memory, this process has 78.96 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 8.20 GiB is reserved by PyTorch but unallocated.
END

begin "an out-of-memory message"
run explain "$dir/oom.txt"
want ended 0
want has "$out" "rank 1, GPU 1: the allocator holds enough free bytes for it, but not in one piece"
want has "$out" "expandable_segments:True"
run explain "$dir/oom.txt" --json
want strict_json "$out"
want is "$(first kind)" '"fragmented"'
want is "$(first tried)" 268435456
want is "$(first free)" 196670915
want is "$(first closes)" true

begin "from standard input, without a name"
"$MEMTRACE" explain <"$dir/oom.txt" >"$out" 2>"$err"
want has "$out" "not in one piece"
want empty "$err"

begin "several messages in one log"
cat "$dir/oom.txt" "$dir/oom.txt" | sed '2s/rank1/rank5/' >"$dir/two.txt"
run explain "$dir/two.txt"
want is "$(grep -c '^out of memory at line' "$out")" 2
run explain "$dir/two.txt" --json
want strict_json "$out"
want has "$out" '"line": 2, "rank": 5'

echo "all is well" >"$dir/none.txt"
refused "no message" 2 "neither a memory snapshot of PyTorch nor a text" explain "$dir/none.txt"
: >"$dir/empty"
refused "an empty file" 2 "neither a memory snapshot of PyTorch nor a text" explain "$dir/empty"
printf 'PK\003\004' >"$dir/zip"
refused "a zip archive" 2 "a zip archive, as torch.save writes it" explain "$dir/zip"
refused "no such file" 2 "cannot be opened" explain "$dir/none"

finish
