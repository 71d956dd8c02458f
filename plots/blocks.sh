#!/bin/sh
# blocks.sh - what block sizes cost: a dry run with each from 64 KiB to 64 MiB, for blocks.gp.
#
#     plots/blocks.sh PROGRAM [--kv STRATEGY]... [OPTION...] > blocks.dat
#
# runs PROGRAM --backend none OPTION... --kv STRATEGY --policy block:SIZE and keeps its last row:
# whole bytes, one set of rows per strategy (concat if none is named), two empty lines between sets.
# peak_reserved is the highest of the run, bumps the number of rows with one. A size that does not
# fit the device is a `# block:SIZE out of memory`.

usage() {
    echo "usage: plots/blocks.sh PROGRAM [--kv STRATEGY]... [OPTION...] > blocks.dat" >&2
    exit 2
}

[ $# -ge 1 ] || usage
program=$1
shift
case $program in -*) usage ;; esac
command -v "$program" >/dev/null || { echo "$program: cannot be run" >&2; exit 2; }

strategies=
left=$#
while [ "$left" -gt 0 ]; do
    option=$1
    shift
    left=$((left - 1))
    case $option in
    --kv)
        [ "$left" -gt 0 ] || usage
        strategies="$strategies $1"
        shift
        left=$((left - 1)) ;;
    --kv=*) strategies="$strategies ${option#--kv=}" ;;
    --policy | --policy=*) usage ;;
    *) set -- "$@" "$option" ;;
    esac
done

work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

last_row='
    /^# (model|layers|width|dtype|activations|workspace|backend|ctx|batch|prompt) / {
        if (!rows) option[++options] = $0
    }
    /^#/ || NF < 20 { next }
    { rows++; last = $0; if ($15 > peak) peak = $15; if ($18 != 0) bumps++ }
    END {
        if (!rows) exit 1
        if (header) {
            for (i = 1; i <= options; i++) print option[i]
            print "# block_bytes requested rounding split cached reserved peak_reserved" \
                  " segments bumps"
        }
        split(last, c, " ")
        printf "%.0f %s %s %s %s %s %.0f %s %d\n", block * (block ~ /MiB/ ? 1048576 : 1024),
               c[9], c[10], c[11], c[12], c[13], peak, c[16], bumps
    }'

for kv in ${strategies:-concat}; do
    [ ! -s "$work/table" ] || printf '\n\n' >>"$work/table"
    echo "# kv $kv" >>"$work/table"
    header=1
    for block in 64KiB 128KiB 256KiB 512KiB 1MiB 2MiB 4MiB 8MiB 16MiB 32MiB 64MiB; do
        "$program" --quiet --backend none "$@" --kv "$kv" --policy "block:$block" \
            >"$work/run" 2>"$work/errors"
        status=$?
        if [ $status -eq 3 ]; then
            echo "# block:$block out of memory" >>"$work/table"
            continue
        fi
        if [ $status -ne 0 ]; then
            cat "$work/errors" >&2
            echo "$program --kv $kv --policy block:$block: exit status $status" >&2
            exit $status
        fi
        LC_ALL=C awk -v header=$header -v block="$block" "$last_row" "$work/run" >>"$work/table" || {
            echo "$program: printed no per-step table" >&2
            exit 1
        }
        header=0
    done
done
cat "$work/table"
