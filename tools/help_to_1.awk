# help_to_1.awk - the man page from what from_help.sh gathered.

function roff(text) { # as it stands
    gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text)
    return text ~ /^[.']/ ? "\\&" text : text
}
function verbatim(on) {
    if (on != is_verbatim) print on ? ".PP\n.nf" : ".fi"
    is_verbatim = on
}
function section(title) { verbatim(0); print ".SH " title }

NR == 1 {
    printf ".TH MEMTRACE 1 \"\" \"%s\" \"User Commands\"\n", $0
    section("NAME"); print "memtrace \\- where GPU memory goes, to the byte"
    section("SYNOPSIS")
    print ".B memtrace\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]"
    section("COMMANDS")
    print "Without a command it is \\fBrun\\fR."
    next
}
$1 == "command" && !command { name = $2; sub(/^command [a-z]+ */, ""); printf ".TP\n.B %s\n%s\n", name, roff($0); next }
$1 == "help" && NF == 2 { command = $2; section("\"memtrace " command "\""); skipping = 0; next }
$1 == "list" && NF == 1 { command = "list"; section("CHARTS"); print "The kinds of \\fBmemtrace plot\\fR."; next }
command == "list" {
    kind = $1; sub(/^[^ ]+ +/, ""); printf ".TP\n.B %s\n%s\n", roff(kind), roff($0); next
}
/^Commands/ { skipping = 1; next }
skipping && NF == 0 { skipping = 0 }
skipping { next }
/^Usage: / { sub(/^Usage: /, ""); verbatim(0); printf ".B %s\n", roff($0); next }
/^ +(-.,)? *--[a-z]/ { # an option: its words, then two or more spaces, then what it does
    verbatim(0); sub(/^ +/, "")
    at = match($0, /  +/)
    printf ".TP\n.B %s\n%s\n", roff(at ? substr($0, 1, at - 1) : $0), roff(at ? substr($0, at + RLENGTH) : "")
    next
}
/^  / { verbatim(1); print roff($0); next }
NF == 0 { verbatim(0); next }
/^ [^ ].*:$/ { verbatim(0); sub(/^ /, ""); printf ".SS %s\n", roff($0); next }
{ verbatim(0); sub(/^ /, ""); printf ".PP\n%s\n", roff($0) }
END { verbatim(0) }
