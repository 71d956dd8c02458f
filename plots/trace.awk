# trace.awk - reads a trace; loaded before the awk of a chart, which has rules for the events.
#
# Several traces may follow each other, with the line "(next)" in between: `between` is true there, and
# the chart sets lines = partial = 0 and ending = command = "" before the next one.
#
# Leaves     lines                of this trace so far
#            ending, command      "out of memory", "interrupted" or ""; what made the trace
#            partial              the line that is no event: the last of a file that was cut short
# and calls  fail(reason)         which sets bad, for a trace that is damaged

function fail(reason) { if (bad == "") bad = reason; exit }

BEGIN {
    split("weights kv activations logits workspace other", tags)
    for (i in tags) known[tags[i]] = 1
}
{ sub(/\r$/, ""); between = $0 == "(next)" }
!between && !lines++ && !/^# memtrace trace / { fail("no trace of memtrace") }
/^# *out of memory/ { ending = "out of memory"; next }
/^# *interrupted/ { ending = "interrupted"; next }
/^# command / { command = $3 }
/^#/ { read_option(); next }
NF == 0 { next }
!between && partial { fail("line " partial " is no event") }
!between && (NF < 12 || $1 !~ /^[0-9]+$/) { partial = lines; next }
!between && $2 !~ /^((alloc|free|mark|oom)|segment_(alloc|free|map|unmap))$/ {
    fail("line " lines ": " $2 " is no kind of event")
}
$2 ~ /^(alloc|segment_)/ && ($6 $7 $9) !~ /^[0-9]+$/ {
    fail("line " lines ": segment, offset and rounded must be numbers")
}
$2 == "alloc" && !($10 in known) { fail("line " lines ": " $10 " is no tag") }
