#!/bin/sh
# One style for all sources: clang-format's, headings of one form, comments that end on their last
# line of text, and includes in one order: the file's own header, system headers, the project's.
. tests/cli.shi

sources=$(find . -path './build*' -prune -o -path './.whole*' -prune -o -name '*.[ch]' -print -o -name '*.c[cu]' -print | sort)

begin "sources are found"
want [ "$(echo "$sources" | wc -l)" -gt 200 ]

if ! command -v clang-format >/dev/null; then
    skip "clang-format" "it is not installed"
elif ! clang-format --version | grep -q 'version 14[.]'; then
    skip "clang-format" "this is $(clang-format --version | grep -o 'version [0-9.]*'), the style is that of 14"
else
    begin "clang-format (make format)"
    # shellcheck disable=SC2086
    clang-format --dry-run -Werror $sources 2>"$dir/format"
    want no grep error: "$dir/format"
fi

begin "headings: /* ---- title ---- */, 100 columns wide"
# shellcheck disable=SC2086
awk '/^\/\* --/ && (length($0) != 100 || $0 !~ /^\/\* ---- [^-].* -+ \*\/$/) { print FILENAME ":" FNR ": " $0 }' \
    $sources >"$dir/headings"
want no grep . "$dir/headings"

begin "a comment ends on its last line of text"
# shellcheck disable=SC2086
want no grep -nE '^ *\*/$' $sources

begin "includes: the own header, then system headers, then the project's"
# shellcheck disable=SC2086
awk '
FNR == 1 { kinds = ""; over = 0; comment = 0 }
over { next }
/^\/\*/ { comment = 1 }
comment { if (/\*\//) comment = 0; next }
/^ *$/ { next }
/^#include *</ { kinds = kinds "s" }
/^#include *"/ { kinds = kinds "p" }
!/^#include/ && !/^\/\// { over = kinds != ""; next }
kinds !~ /^p?s*p*$/ { print FILENAME ":" FNR ": " $0; over = 1 }' $sources >"$dir/includes"
want no grep . "$dir/includes"
finish
