#!/bin/sh
# The plan of the sources holds (tests/layers.sh), and what breaks it is noticed.
. tests/cli.shi

begin "includes, circles, names and lengths of functions"
sh tests/layers.sh "${BUILD:-build}" >"$out"
want [ $? = 0 ]
want empty "$out"

# A copy of the sources in which one file has a line more.
breaks() { # breaks NAME FILE LINE TEXT: LINE behind FILE's end is told of with TEXT
    begin "$1"
    rm -rf "$dir/copy"
    mkdir -p "$dir/copy/tests"
    cp -r base alloc kernels engine predict traces reports cli "$dir/copy"
    cp tests/layers.sh "$dir/copy/tests"
    printf '%b\n' "$3" >>"$dir/copy/$2"
    sh "$dir/copy/tests/layers.sh" >"$out"
    want [ $? = 1 ]
    want has "$out" "$4"
}

breaks "a private header of another folder" reports/table.c '#include "alloc/torch/internal.h"' \
    'reports/table.c: includes the private header alloc/torch/internal.h'
breaks "an include that points upward" alloc/events.c '#include "traces/reader.h"' \
    'alloc/events.c: includes traces/reader.h'
breaks "headers in a circle" base/status.h '#include "base/output.h"' 'headers in a circle'
breaks "a strategy's name outside its file" cli/run.c 'static bool f(const char *s) { return strcmp(s, "paged") == 0; }' \
    'compares the name of a strategy or policy'
breaks "a function that is too long" cli/run.c "void long_one(void) {$(printf '\\n    f();%.0s' $(seq 41))\n}" \
    'a function of 43 lines'

finish
