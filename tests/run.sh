#!/bin/sh
# Runs every test: the cmocka programs named on the command line (under $WATCH, if set) and the scripts
# beside this one (or those of $SCRIPTS). usage: run.sh BUILD PROGRAM TEST...
# Prints each failure, and at the end what was skipped and why, and how many passed and failed.
set -u
build=$1
BUILD=$build
MEMTRACE=$2
export BUILD MEMTRACE
shift 2
mkdir -p "$build/tests"
log=$(mktemp -d "$build/tests/log.XXXXXX") || exit 1
trap 'rm -rf "$log"' EXIT
trap 'exit 130' HUP INT TERM
skips=$log/skips
: >"$skips"
passed=0
failed=0
skipped=0

# Counts cmocka's tests by what each one ends with: one that was begun and neither passed nor was
# skipped has failed, whether it said so or took the program down. So has a program that begins none,
# or ends badly for no test's sake.
count_cmocka() {
    set -- "$@" $(awk '
        /\[ RUN      \]/ { run++; on = 1 }
        on && /\[       OK \]/ { ok++ }
        on && /\[  SKIPPED \]/ { skip++ }
        /test\(s\) run\./ { on = 0 } # a list of those that failed follows
        END { print ok + 0, run ? run - ok - skip : 1, skip + 0 }' "$1")
    p=$4 f=$5 s=$6
    [ "$2" = 0 ] || [ "$f" != 0 ] || f=1
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    printf '%-28s %5s passed %3s failed %3s skipped\n' "$3" "$p" "$f" "$s"
    [ "$f" = 0 ] || cat "$1"
    sed -n "s/^skipped: /  $3: /p" "$1" >>"$skips"
    [ "$s" = 0 ] || grep -q '^skipped: ' "$1" || echo "  $3: $s tests" >>"$skips"
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
    sed -n "s/^skip /  $3: /p" "$1" >>"$skips"
}

for t in "$@"; do
    name=$(basename "$t")
    ${WATCH:-} "$t" >"$log/$name" 2>&1
    count_cmocka "$log/$name" $? "$name"
done
for t in ${SCRIPTS-tests/cli_*.sh}; do
    name=$(basename "$t")
    sh "$t" >"$log/$name" 2>&1
    count_script "$log/$name" $? "$name"
done

[ "$skipped" = 0 ] || { echo "$skipped skipped:"; cat "$skips"; }
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
