#!/bin/sh
# `memtrace predict` against what PyTorch's counters showed in recorded decodes: every row and column.
# Options, release, device and environment come from each recording's header and first column.
set -u
: "${MEMTRACE:=./memtrace}"
shared=${MEMTRACE_SHARED:-../shared}
folder=$shared/golden/hf-gpt2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF CUBLAS_WORKSPACE_CONFIG \
    TORCH_CUBLAS_WORKSPACE_CACHE CUBLASLT_WORKSPACE_SIZE TORCH_CUBLASLT_UNIFIED_WORKSPACE

# field FILE NAME: the value after NAME= in the header
field() {
    sed -n "/^#/s/.*[ (]$2=\([^ ]*\).*/\1/p" "$1" | head -n 1
}

# predict FILE: what memtrace says for the run that FILE records
predict() {
    environment=$(grep '^# [A-Z_]*=' "$1" | cut -c 3-)
    cache=$(field "$1" cache)
    dtype=f32
    grep -q bfloat16 "$1" && dtype=bf16
    set -- "$1" --model gpt2 --attn "$(field "$1" attn_implementation)" --cache "$cache" --dtype $dtype \
        --capacity "$(sed -n 's/.*simulated, \([0-9]*\) bytes.*/\1/p' "$1")" \
        --cc "$(sed -n 's/.*compute capability \([0-9.]*\).*/\1/p' "$1")" \
        --torch "$(sed -n 's/^# torch \([0-9]*\.[0-9]*\).*/\1/p' "$1")"
    file=$1
    shift
    if [ "$cache" = none ]; then
        contexts=$(grep -v '^#' "$file" | awk '$1 != "load" { printf "%s%s", c++ ? "," : "", $2 }')
        set -- "$@" --contexts "$contexts"
    else
        set -- "$@" --prompt-tokens "$(field "$file" prompt)" --ctx "$(field "$file" total)"
    fi
    # shellcheck disable=SC2086
    env $environment "$MEMTRACE" predict "$@"
}

# same FILE COMMAND...: a recording's rows and what COMMAND prints
same() {
    name=$(basename "$1" .gz)
    gzip -dcf "$1" | compared >"$work/recorded"
    shift
    "$@" >"$work/predicted" 2>"$work/errors"
    compared <"$work/predicted" >"$work/ours"
    if cmp -s "$work/ours" "$work/recorded"; then
        echo "ok predict $name: 0 bytes of difference"
    else
        cat "$work/errors"
        diff "$work/ours" "$work/recorded" | head -n 4
        echo "not ok predict $name"
    fi
}

. tests/oracle/again.shi
for f in tests/recordings/gpt2-*/*.tsv.gz; do
    same "$f" predicted "$f"
done
for f in "$folder"/*.tsv; do # where the shared recordings are
    [ ! -f "$f" ] || same "$f" predict "$f"
done

# Rows known from such recordings, which need no file: the end of GPT-2 small's decode.
row() { # row NAME EXPECTED OPTIONS...
    name=$1
    expected=$2
    shift 2
    got=$("$MEMTRACE" predict "$@" | tail -n 1 | cut -f 3,4)
    [ "$got" = "$expected" ] && echo "ok $name" || echo "not ok $name: $got instead of $expected"
}
tab=$(printf '\t')
row "default settings" "574258176${tab}692060160" --ctx 1024
for bad in "--attn flash" "--cache paged" "--cc 1" "--torch x" "--contexts 5" "--prompt-tokens 9 --ctx 5" \
    "--policy block:2MiB" "--heads 5" "extra"; do
    # shellcheck disable=SC2086
    "$MEMTRACE" predict $bad >"$work/out" 2>"$work/errors"
    status=$?
    if [ $status = 2 ] && [ ! -s "$work/out" ] && [ -s "$work/errors" ]; then
        echo "ok bad: $bad"
    else
        echo "not ok bad: $bad: status $status"
    fi
done
