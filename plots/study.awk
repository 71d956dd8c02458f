# study.awk - reads the table of `memtrace study`; loaded before the awk of a chart, which goes on in
# its own END when bad is "".
#
# Leaves     rows, at[row, COLUMN]         block 0: latency and work, a row for each context
#            splits[PASS], split_of[PASS, row, COLUMN]  block 1, PASS is cached or uncached
#            kernels, kernel[row, COLUMN]  block 2
#            last, T, tokens               the last row, its context, that in words
#            peak, start_us, own_clock, repeat, measured    of the header; measured: last or all logits
#            verdict[PASS]                 the name of what the step at T is bound by, or ""
#            part_at[PASS, T, WHAT]        the part of its time that reading, arithmetic, starting take
#            graph_ms                      of the recorded step, or 0
# and sets   bad          what is wrong with the table, in words; the rest only if nothing is
#            contexts     number of rows
#            ending       "interrupted", "out of memory", "failed" or ""
#            settings     how it was set up

# ---- words ----------------------------------------------------------------------------------------

function figure(x) { # three digits
    return sprintf(x >= 99.95 ? "%.0f" : x >= 9.995 ? "%.1f" : x >= 0.9995 ? "%.2f" : \
                   x >= 0.00995 || x == 0 ? "%.3f" : "%.4f", x)
}
function time_words(ms) { return ms >= 999.5 ? figure(ms / 1000) " s" : figure(ms) " ms" }
function range_words(a, b) { # 78.9 to 88.5 ms
    a = time_words(a); b = time_words(b)
    if (substr(a, index(a, " ")) == substr(b, index(b, " "))) sub(/ .*/, "", a)
    return a " to " b
}
function times_words(x) { return sprintf(x >= 9.95 ? "%.0f" : x >= 0.995 ? "%.1f" : "%.2f", x) }
function share(part, whole,    p) { # with a percent sign
    p = whole > 0 ? 100 * part / whole : 0
    if (p > 0 && p < 0.005) return "<0.01 %"
    return sprintf(p == 0 ? "%.0f %%" : p < 0.095 ? "%.2f %%" : p < 9.95 ? "%.1f %%" : "%.0f %%", p)
}
function counted(n, word) { return n " " word (n == 1 ? "" : "s") }
function say(name, text, most) { printf "%s = '%s'\n", name, safe(text, most) }

# ---- axes -----------------------------------------------------------------------------------------

function log10(x) { return log(x) / 2.302585092994046 }
function power10(x) { return exp(x * 2.302585092994046) }

# Tics of a logarithmic axis, for `set xtics (...)`: 1, 2, 5, or powers of ten when there are many.
function log_tics(low, high,    e, m, k, n, text, mantissa, v) {
    n = split(log10(high / low) < 3 ? "1 2 5" : "1", mantissa)
    for (e = int(log10(low)) - 2; e <= log10(high) + 1; e++)
        for (m = 1; m < 10; m++) {
            v = m * power10(e)
            if (v < low * 0.999999 || v > high * 1.000001) continue
            for (k = n; k > 0 && mantissa[k] != m; k--) continue
            text = text (text == "" ? "" : ", ") \
                   (k ? sprintf("\"%.10g\" %.9g", v, v) : sprintf("\"\" %.9g 1", v))
        }
    return text
}
# Tics at the contexts; without words where those have no room on an axis `span` long and `pixels` wide.
function context_tics(logarithmic, span, pixels,    r, x, half, before, text) {
    for (r = rows; r > 0; r--) {
        x = (logarithmic ? log(at[r, "context"]) : at[r, "context"]) * pixels / span
        half = 5 * length(at[r, "context"]) + 4
        if (r == rows || before - x >= half) {
            text = sprintf("\"%d\" %d", at[r, "context"], at[r, "context"]) (text == "" ? "" : ", ") text
            before = x - half
        } else text = sprintf("\"\" %d", at[r, "context"]) ", " text
    }
    return text
}

# ---- reading --------------------------------------------------------------------------------------

function row_of(block,    i) {
    if (NF != columns[block]) {
        bad = "line " NR ": " counted(NF, "column") " where " columns[block] " are expected"; return 0
    }
    for (i = 1; i <= NF; i++)
        if (column[block, i] !~ /^(pass|kernel)$/ && $i !~ /^-?[0-9]+(\.[0-9]+)?$/) {
            bad = "line " NR ": " column[block, i] " is no number"; return 0
        }
    return 1
}
# The first percentage in brackets after a word, as a part of 1; -1: there is none.
function part_of(line, word) {
    if (!index(line, word)) return -1
    line = substr(line, index(line, word))
    return match(line, /\([0-9]+ %\)/) ? substr(line, RSTART + 1) / 100 : -1
}

BEGIN {
    block = -1
    need_of[0] = "context cached_ms cached_least cached_most uncached_ms uncached_least uncached_most " \
                 "time_ratio flops_ratio_last flops_ratio_all cached_intensity cached_gflops " \
                 "cached_read_gbs cached_bound_ms cached_bytes cached_computed uncached_intensity " \
                 "uncached_gflops uncached_read_gbs uncached_bound_ms uncached_bytes uncached_computed"
    need_of[1] = "pass context products attention elementwise logits cache allocator tracing gaps total calls"
    need_of[2] = "pass kernel ms flops bytes intensity gflops percent_of_roof"
}
bad != "" { exit } # after a line that the end of a damaged file may have cut
{ sub(/\r$/, "") }
/^# (interrupted|out of memory|failed)$/ { ending = substr($0, 3); next }
/^# tracing / { closed = 1 } # one of the lines that a whole table ends with
/^# command / && $3 != "study" { bad = "no table of memtrace study"; exit }
/^# command study/ { known = 1 }
known && (/^# context cached_ms / || /^# pass context / || /^# pass kernel /) {
    block++
    if ((/^# context/ && block != 0) || (/^# pass context/ && block != 1) || (/^# pass kernel/ && block != 2)) {
        bad = "line " NR ": the blocks are not those of one study"; exit
    }
    columns[block] = NF - 1
    for (i = 2; i <= NF; i++) { column[block, i - 1] = $i; place[block, $i] = i - 1 }
    n = split(need_of[block], need)
    for (i = 1; i <= n; i++) if (!((block, need[i]) in place)) { bad = "no column " need[i]; exit }
    next
}
/^# verdict / && $4 == "step" {
    text = $0
    if (match(text, /: of [0-9]/)) text = substr(text, 1, RSTART - 1)
    sub(/^# verdict [a-z]+ step at [0-9]+: /, "", text)
    verdict_at[$3, $6 + 0] = safe(text, 80)
    part_at[$3, $6 + 0, "reading"] = part_of($0, "reading")
    part_at[$3, $6 + 0, "arithmetic"] = part_of($0, "GFLOP at")
    part_at[$3, $6 + 0, "starting"] = part_of($0, / starting /? "starting" : "launching")
    next
}
/^# graph step at [0-9]+: [0-9.]+ ms/ { graph_context = $5 + 0; graph_ms = $6 + 0; next }
/^# device / { device = $0; sub(/^# device /, "", device); next }
/^# peak_gflops / { peak = $3 + 0; next }
/^# start_us / { start_us = $3 + 0; next }
/^# repeat / { repeat = $3 + 0; next }
/^# clock of the device/ { own_clock = 1; next }
/^# logits / { measured = $3; next }
/^# graph / { if ($3 == "on") graph_on = 1; next }
/^#/ { read_option(); next }
NF == 0 { next }
block < 0 { bad = "no table of memtrace study"; exit }
!row_of(block) { next }
block == 0 {
    rows++
    for (i = 1; i <= NF; i++) at[rows, column[0, i]] = $i + 0
    if (rows > 1 && at[rows, "context"] <= at[rows - 1, "context"]) {
        bad = "line " NR ": contexts do not rise"; exit
    }
    if (at[rows, "context"] < 1 || at[rows, "cached_ms"] <= 0 || at[rows, "uncached_ms"] <= 0) {
        bad = "line " NR ": a step without time"; exit
    }
    next
}
block == 1 {
    s = ++splits[$1]
    for (i = 2; i <= NF; i++) split_of[$1, s, column[1, i]] = $i > 0 ? $i + 0 : 0
    next
}
{
    kernels++
    for (i = 1; i <= NF; i++) kernel[kernels, column[2, i]] = $i
}

# ---- what a chart's END begins and ends with ------------------------------------------------------

# The first thing in a chart's END: is there a table, with rows in `blocks` blocks?
function ready(blocks) {
    if (bad == "" && !known) bad = "no table of memtrace study"
    if (bad == "" && !rows)
        bad = ending == "" ? "it has no rows" : ending " before the end of the first context"
    if (bad == "" && blocks > 1 && (splits["cached"] != rows || splits["uncached"] != rows))
        bad = "cut short: it lacks the split of some steps"
    if (bad == "" && blocks > 2 && !kernels) bad = "cut short: it has no rows of kernels"
    if (bad == "" && !closed) bad = "cut short: it lacks its closing lines"
    if (bad != "") { printf "bad = '%s'\n", safe(bad, 200); return 0 }
    last = rows; T = at[rows, "context"]; tokens = counted(T, "token")
    verdict["cached"] = verdict_at["cached", T]; verdict["uncached"] = verdict_at["uncached", T]
    return 1
}
function setup(    text, names, n, i) {
    text = model_name()
    if (text ~ / of (layers|width)/ && ("width" in option)) text = text ", width " option["width"]
    n = split("dtype batch kv policy", names)
    for (i = 1; i <= n; i++)
        if ((names[i] in option) && !(names[i] == "batch" && option["batch"] == 1))
            text = text ",  " names[i] " " option[names[i]]
    if (measured != "") text = text ",  logits " measured
    if (graph_on) text = text ",  graph on"
    if (device != "") text = text ",  " safe(device, 60)
    return text (repeat > 1 ? ",  medians of " repeat : ",  one sample each")
}
function finish() {
    if (bad == "") {
        print "bad = ''"
        printf "contexts = %d\n", rows
        if (ending != "") finding = finding "; " ending " after " counted(rows, "context")
        say("title", finding, 400); say("settings", setup(), 200)
    }
}
