# help_to_bash.awk - the completion of bash from what from_help.sh gathered: commands, the options of
# each, and the values of those whose values the help lists, as in --backend=cpu|cuda|none or under a
# heading such as "Policies (--policy):".

$1 == "command" && !command { commands = commands " " $2; next }
$1 == "help" && NF == 2 { command = $2; next }
$1 == "list" && NF == 1 { command = ""; done = 1; next }
/^[A-Z].*\(--[a-z-]+\):$/ { # a list of values
    listing = $0; sub(/.*\(/, "", listing); sub(/\):$/, "", listing)
    if (listing in listed) listing = ""
    next
}
listing && /^  [a-z]/ { match($0, /[a-z-]+/); listed[listing] = listed[listing] " " substr($0, RSTART, RLENGTH); next }
listing && NF == 0 { listing = "" }
done || !command || !/^ +(-.,)? *--[a-z]/ { next }
{
    match($0, /--[a-z0-9-]+/)
    option = substr($0, RSTART, RLENGTH)
    options[command] = options[command] " " option
    rest = substr($0, RSTART + RLENGTH)
    if (rest !~ /^=/) next
    sub(/^=/, "", rest); sub(/  .*/, "", rest)
    n = split(rest, value, "|"); words = ""
    for (i = 1; i <= n; i++) if (value[i] ~ /^[a-z0-9-]+$/) words = words (words == "" ? "" : " ") value[i]
    if (words != "" && n > 1)
        values = values sprintf("    \"%s %s\") words=\"%s\" ;;\n", command, option, words)
}
END {
    print "# bash completion of memtrace, made from its help."
    print "_memtrace() {"
    print "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=run words=\"\""
    printf "    local commands=\"%s\"\n", substr(commands, 2)
    print "    if [[ \" $commands \" == *\" ${COMP_WORDS[1]} \"* && $COMP_CWORD -gt 1 ]]; then command=${COMP_WORDS[1]}; fi"
    print "    # In --option=value the = is a word of its own."
    print "    if [[ $current == \"=\" ]]; then current=\"\"; elif [[ $previous == \"=\" ]]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi"
    print "    case \"$command $previous\" in"
    printf "%s", values
    for (option in listed) printf "    *\" %s\") words=\"%s\" ;;\n", option, substr(listed[option], 2)
    print "    esac"
    print "    if [[ -z $words && $current == -* ]]; then"
    print "        case $command in"
    n = split(substr(commands, 2), name, " ")
    for (i = 1; i <= n; i++) printf "        %s) words=\"%s\" ;;\n", name[i], substr(options[name[i]], 2)
    print "        esac"
    print "    elif [[ -z $words && $COMP_CWORD == 1 ]]; then words=$commands"
    print "    elif [[ -z $words && $command == plot && $COMP_CWORD == 2 ]]; then"
    print "        words=$(memtrace plot --list 2>/dev/null | cut -d ' ' -f 1)"
    print "    fi"
    print "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")"
    print "}"
    print "complete -o default -F _memtrace memtrace"
}
