#!/bin/sh
# whole.sh - runs a command whose file must appear whole or not at all, so that two builds or runs in
# one folder never read each other's halves.
#
#     tools/whole.sh OUT COMMAND [ARGUMENT...]
#
# COMMAND writes into a folder of its own beside OUT: an argument that is OUT names the file there; when
# none is, what COMMAND prints is the file. When it succeeds everything it left there moves to OUT's
# folder, OUT last. The exit status is COMMAND's.
set -eu
[ $# -ge 2 ] || { echo "usage: tools/whole.sh OUT COMMAND [ARGUMENT...]" >&2; exit 2; }
out=$1
shift
case $out in */*) folder=${out%/*} ;; *) folder=. ;; esac
mkdir -p "$folder"
temp=$(mktemp -d "$folder/.whole.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' HUP INT TERM
new=$temp/${out##*/}

named=
for argument; do
    shift
    if [ "$argument" = "$out" ]; then
        argument=$new
        named=1
    fi
    set -- "$@" "$argument"
done
if [ -n "$named" ]; then "$@"; else "$@" >"$new"; fi

for file in "$temp"/*; do
    [ "$file" = "$new" ] || mv -f "$file" "$folder/"
done
mv -f "$new" "$out"
