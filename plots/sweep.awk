# sweep.awk - reads the table of `memtrace sweep`; loaded before the awk of a chart, which goes on
# in its own END when bad is "".
#
# Leaves     rows, at[row, COLUMN]: the cells of the rows that were run to their end
#            optimum[row], over[row]: the least bytes that the requests need, and how much the
#            policy reserved above them. The requests of rows that differ in nothing but the
#            policy are the same, and so is their optimum: the smallest that one of them found
#            varies[COLUMN]: of the columns that say what was run, those with several values
#            fixed_settings: the others in one line
# and sets   bad            what is wrong with the table, in words; the rest only if nothing is
#            model_name     the first row's
#            left_out       rows that ended early, in words; "" when there are none
#            bound          what the optimum is, in words
#
# A table may be several, one after the other (a small one made with --optimum, a large one without).

function bytes_of(size) { # 64KiB
    if (size !~ /^[0-9]+([KMG](iB)?|B)?$/) return 0
    return (size + 0) * (size ~ /K/ ? 1024 : size ~ /M/ ? 1048576 : size ~ /G/ ? 1073741824 : 1)
}
function in_words(b,    sign) {
    sign = b < 0 ? "-" : ""; if (b < 0) b = -b
    return sign (b >= 1073741824 ? sprintf("%.2f GiB", b / 1073741824) : \
                 b >= 104857.6 ? sprintf("%.1f MiB", b / 1048576) : \
                 b >= 1024 ? sprintf("%.0f KiB", b / 1024) : b " B")
}
function percent_words(part, whole,    p) {
    p = 100 * part / whole
    if (p == 0) return "0 %"
    return sprintf(p < 0.095 && p > 0 ? "%.2f %%" : p < 9.95 ? "%.1f %%" : "%.0f %%", p)
}
function counted(n,    text) { # 12,345
    for (text = ""; n >= 1000; n = int(n / 1000)) text = sprintf(",%03d", n % 1000) text
    return n text
}
function workload(row,    i, text) {
    for (i = 1; i <= shown; i++) if (show[i] != "policy") text = text SUBSEP at[row, show[i]]
    return text
}
function size_words(b) { b = short_size(b); sub(/[KMG]iB/, " &", b); return b }
function setting(i,    text) { # policy i; torch,expandable_segments:True is expandable_segments:True
    text = policy[i]; sub(/^torch,/, "", text)
    return text
}
# What a row was, without the columns named in `but`, when there is a choice.
function what(row, but,    i, c, text) {
    for (i = 1; i <= shown; i++) {
        c = show[i]
        if (!varies[c] || index(but, " " c " ")) continue
        text = text (text == "" ? "" : ", ") (c == "policy" || c == "kv" ? "" : c " ") at[row, c]
    }
    return text
}

BEGIN {
    shown = split("kv policy model dtype batch prompt-tokens logits activations workspace " \
                  "capacity ctx", show)
    need = split("model policy kv ctx peak_requested peak_reserved reserved rounding split cached " \
                 "optimum_low optimum_high overhead calls ended", needed)
}
{ sub(/\r$/, "") }
/^# *interrupted/ { interrupted = 1; next }
/^# command / && $3 != "sweep" { bad = "no table of memtrace sweep"; exit }
/^# model dtype / {
    columns = NF - 1
    for (i = 2; i <= NF; i++) column[i - 1] = $i
    for (i = 2; i <= NF; i++) has[$i] = 1
    for (i = 1; i <= need; i++) if (!(needed[i] in has)) { bad = "no column " needed[i]; exit }
    next
}
/^#/ || NF == 0 { next }
!columns { bad = "no table of memtrace sweep"; exit }
NF != columns { bad = "line " NR ": " NF " columns where " columns " are expected"; exit }
$NF != "done" { cut_short++; next }
{
    rows++
    for (i = 1; i <= columns; i++) {
        c = column[i]; at[rows, c] = $i
        if (c ~ /^(peak_|reserved|rounding|split|cached|optimum|overhead|calls)/ && $i !~ /^-?[0-9]+$/) {
            bad = "line " NR ": " c " is no number"; exit
        }
    }
    for (i = 1; i <= shown; i++) {
        c = show[i]; at[rows, c] = safe(at[rows, c], 60)
        gsub(/%/, "?", at[rows, c]) # the words of a tic are a format
        if (at[rows, c] != at[1, c]) varies[c] = 1
    }
    w = workload(rows); packing = at[rows, "optimum_high"] + 0
    if (at[rows, "optimum_low"] + 0 <= 0 || at[rows, "peak_reserved"] + 0 < at[rows, "optimum_low"] + 0) {
        bad = "line " NR ": peak_reserved is not above optimum_low"; exit
    }
    lowest[w] = at[rows, "optimum_low"] + 0
    if (packing && (!(w in packed) || packing < packed[w])) packed[w] = packing
    if (!(w in least_reserved) || at[rows, "peak_reserved"] + 0 < least_reserved[w])
        least_reserved[w] = at[rows, "peak_reserved"] + 0
}
END {
    if (bad == "" && !rows)
        bad = !columns ? "no table of memtrace sweep" : cut_short ? "no row was run to its end" \
                                                                  : "it has no rows"
    for (r = 1; r <= rows && bad == ""; r++) {
        w = workload(r); optimum[r] = lowest[w]
        if (w in packed) {
            optimum[r] = packed[w] < least_reserved[w] ? packed[w] : least_reserved[w]
            with_packing++
        }
        over[r] = at[r, "peak_reserved"] - optimum[r]
    }
    for (i = 1; i <= shown && bad == ""; i++) {
        c = show[i]
        if (varies[c] || at[1, c] == "" || c == "capacity") continue
        if (c " " at[1, c] ~ /^(batch 1|prompt-tokens 1|logits last)$/) continue
        fixed_settings = fixed_settings (fixed_settings == "" ? "" : ",  ") c " " at[1, c]
    }
    option["model"] = at[1, "model"]
    if (bad == "") {
        printf "model_name = '%s'\n", model_name()
        printf "left_out = '%s'\n", !cut_short ? "" : \
               cut_short (cut_short == 1 ? " row that ended early is" : " rows that ended early are") \
               " left out"
        if (interrupted) print "left_out = left_out.(left_out eq '' ? '' : ', ').'interrupted'"
        printf "bound = '%s'\n", !with_packing ? "the peak of requested" : \
               "the best packing found" (with_packing < rows ? ", or the peak of requested" : "")
    }
}
# Of the chart, last.
function finish() {
    printf "settings = '%s'\nbad = '%s'\n", safe(fixed_settings, 200), safe(bad, 200)
}
