#!/bin/sh
# from_help.sh - the man page (1) and the completion of bash, made from what the program says of itself:
# the --help of each command, and `plot --list`.
#
#     tools/from_help.sh 1|bash PROGRAM
set -eu
[ $# = 2 ] || { echo "usage: tools/from_help.sh 1|bash PROGRAM" >&2; exit 2; }
program=$2
# One line for each option and paragraph, whatever the width of the terminal.
ARGP_HELP_FMT=rmargin=9999,opt-doc-col=99
LC_ALL=C
export ARGP_HELP_FMT LC_ALL

# "command NAME WHAT" of each, as run's help lists them.
commands=$("$program" --help |
    sed -n '/^Commands/,/^$/s/^ *memtrace \[*\([a-z]*\)\]*  */command \1 /p')
[ -n "$commands" ]
said=$(
    "$program" --version
    echo "$commands"
    for command in $(echo "$commands" | cut -d ' ' -f 2); do
        echo "help $command"
        "$program" "$command" --help
    done
    echo "list"
    "$program" plot --list
)
echo "$said" | awk -f "$(dirname -- "$0")/help_to_$1.awk"
