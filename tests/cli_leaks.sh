#!/bin/sh
# A leak planted on purpose is found: by AddressSanitizer's leak check, and by valgrind where it is
# installed. Without this, a clean run of make asan or make valgrind would prove nothing.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

cat >"$work/leak.c" <<'C'
#include "alloc/alloc.h"
#include "base/size.h"
/* Opens an allocator and forgets it. */
static void forget(void)
{
    mt_source *s = 0;
    mt_alloc *a = 0;
    mt_mem m;
    mt_request r = { .bytes = 4096, .tag = MT_KV, .layer = 0 };
    if (mt_source_sim(&s, MT_GIB, 4096, 0) == MT_OK && mt_alloc_open(&a, s, "torch", 0) == MT_OK)
        mt_alloc_get(a, &r, &m, 0);
}
int main(void)
{
    forget();
    return 0;
}
C

build() { # build OUTPUT FLAGS...
    out=$1
    shift
    gcc -std=c11 -D_GNU_SOURCE -I. -O0 -g "$@" "$work/leak.c" alloc/*.c alloc/torch/*.c \
        base/array.c base/map.c base/size.c base/status.c base/text.c -lm \
        -o "$out" 2>"$work/log" || { cat "$work/log"; echo "not ok the program with the leak builds"; exit 1; }
}

build "$work/asan" -fsanitize=address
if ASAN_OPTIONS=detect_leaks=1 "$work/asan" >"$work/log" 2>&1; then
    echo "not ok AddressSanitizer finds a planted leak"
elif grep -q "detected memory leaks" "$work/log"; then
    echo "ok AddressSanitizer finds a planted leak"
elif grep -q "LeakSanitizer has encountered a fatal error" "$work/log"; then
    echo "skip AddressSanitizer's leak check does not run here"
else
    cat "$work/log"
    echo "not ok AddressSanitizer finds a planted leak"
fi

if ! command -v valgrind >/dev/null; then
    echo "skip valgrind is not installed"
    exit 0
fi
build "$work/plain"
if valgrind -q --error-exitcode=99 --leak-check=full "$work/plain" >"$work/log" 2>&1; then
    echo "not ok valgrind finds a planted leak"
else
    echo "ok valgrind finds a planted leak"
fi
