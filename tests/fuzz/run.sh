#!/bin/sh
# Looks for inputs that break a target, for some seconds, and adds to its corpus those that reach
# code which no input there reaches. What breaks it is left as build/fuzz/NAME-crash-..., status 1.
# 160 MB at once: 128 are what a zstd frame may ask for as its window, though only what is filled is used.
# usage: run.sh PROGRAM NAME SECONDS
set -u
corpus=tests/fuzz/corpus/$2
work=build/fuzz/corpus/$2
mkdir -p "$corpus" "$work"
"$1" -max_total_time="$3" -max_len=4096 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=160 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/$2-" "$work" "$corpus" || exit 1
"$1" -merge=1 -use_counters=0 -max_len=4096 "$corpus" "$work"
