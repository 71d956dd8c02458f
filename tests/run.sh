#!/bin/sh
# Runs every test: the cmocka programs named on the command line (under $WATCH, if set) and the scripts
# beside this one. usage: run.sh BUILD PROGRAM TEST...
# Prints each failure, and at the end how many passed and failed.
set -u
build=$1
MEMTRACE=$2
export MEMTRACE
shift 2
log=$build/tests/log
mkdir -p "$log"
passed=0
failed=0
skipped=0

# Adds up cmocka's closing lines; a program that ends without them has failed.
count_cmocka() {
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test(s).*/\1/p' "$1" | tail -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test(s).*/\1/p' "$1" | tail -n 1)
    s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test(s).*/\1/p' "$1" | tail -n 1)
    [ -n "$p$f" ] || f=1
    [ "$2" = 0 ] || [ -n "$f" ] || f=1
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-0}))
    skipped=$((skipped + ${s:-0}))
    printf '%-28s %5s passed %3s failed %3s skipped\n' "$3" "${p:-0}" "${f:-0}" "${s:-0}"
    [ "${f:-0}" = 0 ] || cat "$1"
    grep -h '^skipped:' "$1" || true
}

# Scripts print "ok NAME", "not ok NAME" or "skip NAME" lines.
count_script() {
    p=$(grep -c '^ok ' "$1")
    f=$(grep -c '^not ok ' "$1")
    s=$(grep -c '^skip ' "$1")
    [ "$2" = 0 ] || [ "$f" != 0 ] || f=1
    [ "$p$f$s" != 000 ] || f=1
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    printf '%-28s %5s passed %3s failed %3s skipped\n' "$3" "$p" "$f" "$s"
    [ "$f" = 0 ] || cat "$1"
    grep -h '^skip ' "$1" || true
}

for t in "$@"; do
    name=$(basename "$t")
    ${WATCH:-} "$t" >"$log/$name" 2>&1
    count_cmocka "$log/$name" $? "$name"
done
for t in tests/cli_*.sh; do
    name=$(basename "$t")
    sh "$t" >"$log/$name" 2>&1
    count_script "$log/$name" $? "$name"
done

[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
