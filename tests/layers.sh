#!/bin/sh
# Is the house built as README's table of folders says?
#
#   1. a folder includes only what stands below it, and no private header of another folder;
#   2. no header includes itself, not even by way of others; with a build folder as argument, neither
#      do the objects of a folder call each other in a circle;
#   3. what is special about a cache strategy or a policy is a field of its table: its name is
#      compared nowhere but in its own file and in the list;
#   4. no function is longer than 40 lines, but for a forward pass, which reads as a recipe.
#
# usage: tests/layers.sh [BUILD]; prints each line that does not hold, status 1 if there is one.
set -u
cd "$(dirname "$0")/.." || exit 2
build=${1:-}
files=$(find base alloc kernels engine predict traces reports lib cli \
    -name '*.[ch]' -o -name '*.cu' 2>/dev/null | sort)
temp=$(mktemp -d) || exit 2
trap 'rm -rf "$temp"' EXIT
bad=$temp/bad
: >"$bad"

# ---- 1. arrows between folders, and private headers ------------------------------------------------

for f in $files; do
    sed -n "s|^ *# *include \"\([^\"]*\)\".*|$f \1|p" "$f"
done >"$temp/includes"

awk '
BEGIN {
    below["base"] = ""
    below["alloc"] = "base"
    below["kernels"] = "base alloc/source.h"
    below["engine"] = "base alloc kernels"
    below["predict"] = "base alloc engine/config.h"
    below["traces"] = "base alloc"
    below["reports"] = "base alloc traces"
    below["lib"] = "base alloc traces"
    below["cli"] = "base alloc kernels engine predict traces reports lib"
}
# What only the folder itself may include.
function private(h) {
    return h ~ /(^|\/|_)internal\.h$/ || h ~ /^alloc\/(core|jemalloc|index)\.h$/ ||
           (h ~ /^alloc\/torch\// && h != "alloc/torch/torch.h") ||
           h ~ /^kernels\/(cpu|none)\// || (h ~ /^kernels\/cuda\// && h != "kernels/cuda/backend.h")
}
function allowed(from, h,    n, list, i) {
    n = split(below[from], list, " ")
    for (i = 1; i <= n; i++)
        if (h == list[i] || index(h, list[i] "/") == 1)
            return 1
    return 0
}
{
    split($1, from, "/"); split($2, to, "/")
    if (!(to[1] in below)) {
        print $1 ": includes " $2 ", which is in no folder of the project"
    } else if (from[1] != to[1]) {
        if (private($2))
            print $1 ": includes the private header " $2
        if (!allowed(from[1], $2))
            print $1 ": includes " $2 "; " from[1] " may depend on: " \
                  (below[from[1]] == "" ? "nothing" : below[from[1]])
    }
}' "$temp/includes" >>"$bad"

# ---- 2. circles ------------------------------------------------------------------------------------

# Pairs "a b" on standard input: a needs b. Says which stand in a circle.
circle() { # circle WHAT
    tsort 2>"$temp/loop" >"$temp/order"
    if [ -s "$temp/loop" ]; then
        sed 's/^tsort: //' "$temp/loop" | grep -v 'input contains a loop' | tr '\n' ' ' |
            sed "s|^|$1 in a circle: |; s| *$||" >>"$bad"
        echo >>"$bad"
    fi
}

grep '\.h [^ ]*$' "$temp/includes" | grep '^[^ ]*\.h ' | circle "headers"

# An object needs those that define what it calls; both in one folder.
if [ -n "$build" ]; then
    for folder in $(printf '%s\n' $files | grep '\.c$' | sed 's|/[^/]*$||' | sort -u); do
        objects=$(printf '%s\n' $files | grep "^$folder/[^/]*\.c\$" | sed "s|.*|$build/&|; s|\.c\$|.o|")
        nm -A $objects 2>/dev/null | awk '
            { split($1, at, ":"); name = $NF; kind = $(NF - 1) }
            kind ~ /^[TDBRV]$/ { home[name] = at[1] }
            kind == "U" { need[++n] = at[1] " " name }
            END {
                for (i = 1; i <= n; i++) {
                    split(need[i], p, " ")
                    if (p[2] in home && home[p[2]] != p[1])
                        print p[1], home[p[2]]
                }
            }' | sort -u | circle "calls"
    done
fi

# ---- 3. names --------------------------------------------------------------------------------------

# Names that mean nothing else, wherever they are compared; and the others beside the words kv and policy.
names='concat|concat-tuple|static|doubling|paged|bfc|jemalloc|async|direct|block|torch:env'
awk -v names="$names" '
FNR == 1 { own = FILENAME ~ /^engine\/kv\// || FILENAME ~ /^alloc\// }
own { next }
/str(n|case|ncase)?cmp|str(str|chr)\(/ {
    if ($0 ~ "\"(" names ")[:,\"]" || ($0 ~ /kv|policy/ && $0 ~ /"(torch|none)"/))
        print FILENAME ":" FNR ": compares the name of a strategy or policy:" $0
}' $(printf '%s\n' $files | grep -v '\.h$') >>"$bad"

# ---- 4. length -------------------------------------------------------------------------------------

# A function begins with a line at the margin that ends in "{" and is no type, and ends with "}" there.
awk '
FNR == 1 { start = 0 }
/^[a-z_].*[)] ?(const )?\{$/ || (/^ .*\{$/ && !start && previous ~ /^[a-z_].*\([^;]*$/) {
    if (!start) start = FNR
}
/^[a-z_].*\(.*[^;{}]$/ { if (!start) head = FNR }
{ previous = $0 }
/^\}/ {
    if (start && FNR - start + 1 > 40 && FILENAME !~ /^(engine\/forward|predict\/gpt2)\.c$/)
        print FILENAME ":" start ": a function of " FNR - start + 1 " lines; 40 at most"
    start = 0
}' $(printf '%s\n' $files | grep -v '\.h$') >>"$bad"

sed 's/^/layers: /' "$bad"
[ ! -s "$bad" ]
