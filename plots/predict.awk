# predict.awk - an output of `memtrace predict` as gnuplot commands, for predict.gp.
#
#     awk -v name=s1 -f header.awk -f predict.awk < RUN.tsv
#
# sets  bad                what is wrong with the table, in words; the rest only if nothing is
#       $s1                two lines a row, at the left and right end of the step: tokens,
#                          allocated, reserved; before them the state after loading
#       $s1_dots           left end and reserved of each row in which reserved changed
#       s1_allocated, s1_reserved       the last row's
#       s1_top, s1_low     the largest reserved, the smallest allocated
#       s1_left, s1_right  range of tokens
#       s1_bumps, s1_bumps_words        number of those rows, and how reserved changed in them
#       s1_option_NAME     the header's words, "" when not there
#       s1_model_name, s1_ending

function mib(b) { return sprintf("%g", int(b / 104857.6 + 0.5) / 10) }
function number(key, value) { printf "%s_%s = %.0f.0\n", name, key, value }
function row_ok(    i) {
    if (NF != 16) { bad = "line " NR ": " NF " columns where 16 are expected"; return 0 }
    for (i = 2; i <= 16; i++)
        if ($i !~ /^[0-9]+$/) { bad = "line " NR ": column " i " is no number"; return 0 }
    return 1
}
function point(x) { line[++lines] = x " " $3 " " $4 }

BEGIN { keys = split("model layers heads width vocab positions dtype attn cache batch " \
                     "prompt_tokens torch cc policy workspace capacity", key) }
{ sub(/\r$/, "") }
/^# *out of memory/ { ending = "out of memory"; next }
/^# *interrupted/ { ending = "interrupted"; next }
/^# step\t/ { headed = 1; next }
/^# command / && $3 != "predict" { bad = "no output of memtrace predict"; exit }
/^# [a-z_]+ / && !headed {
    text = $0; sub(/^# [a-z_]+ +/, "", text)
    if ($2 == "policy" || $2 == "workspace") option[$2] = safe(text, 90)
    else option[$2] = safe(text, 40)
    next
}
/^#/ || NF == 0 { next }
!headed { bad = "no output of memtrace predict"; exit }
{
    if (!row_ok()) exit
    if (!all || $3 < low) low = $3
    if (!all || $4 > top) top = $4
    all++
    if ($1 == "load") { held = $4; have_load = 1; load_row = $0; next }
    if (!rows) { left = $2 - 1; if (have_load) line[++lines] = left " " field(load_row) }
    else if ($2 <= last) { bad = "line " NR ": the tokens do not rise"; exit }
    point(rows ? last : left); point($2)
    if ((rows || have_load) && $4 != held) {
        dot[++dots] = (rows ? last : left) " " $4
        change = $4 - held; if (change < 0) drops++
        size = change < 0 ? -change : change
        if (size > most) { most = size; most_at = $2 }
    }
    held = $4; last = $2; rows++
    allocated = $3; reserved = $4
}
function field(text,    part) { split(text, part, "\t"); return part[3] " " part[4] }
END {
    if (bad == "" && !rows) bad = headed ? "it has no rows" : "no output of memtrace predict"
    printf "bad = '%s'\n", safe(bad, 200)
    if (bad != "") exit
    printf "$%s << END_OF_ROWS\n", name
    for (i = 1; i <= lines; i++) print line[i]
    print "END_OF_ROWS"
    printf "$%s_dots << END_OF_ROWS\n", name
    for (i = 1; i <= dots; i++) print dot[i]
    print "END_OF_ROWS"
    number("allocated", allocated); number("reserved", reserved)
    number("top", top); number("low", low); number("left", left); number("right", last)
    printf "%s_bumps = %d\n%s_bumps_words = '%s'\n", name, dots, name, \
           dots == 0 ? "stayed as after loading" : (drops ? "changed " : "grew ") \
           (dots == 1 ? "once" : dots " times") (dots == 1 ? ", at" : ", most at") " token " most_at \
           ": " mib(most) " MiB"
    for (i = 1; i <= keys; i++)
        printf "%s_option_%s = '%s'\n", name, key[i], option[key[i]]
    printf "%s_model_name = '%s'\n%s_ending = '%s'\n", name, model_name(), name, ending
}
