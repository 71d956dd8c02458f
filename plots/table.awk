# table.awk - a per-step table (.dat) as gnuplot commands, for read.gp.
#
#     awk -v name=r -f header.awk -f table.awk < RUN.dat
#
# sets  bad                  what is wrong with the table, in words; the rest only if nothing is
#       $r                   two lines a row, at the left and right end of the step: x and, in
#                            bytes, the columns weights ... peak_reserved, kv_ideal, bump
#       r_COLUMN             the last row's
#       r_base_COLUMN        the state after loading or, when it is not known, that of row 0
#       r_top_COLUMN         the largest
#       r_left, r_right      range of x
#       r_end                the right end in words
#       r_axis               what x is
#       r_rows, r_ending     number of rows; "out of memory", "interrupted" or ""
#       r_bumps, r_drops     rows with a bump; those where it is negative
#       r_kv_differs         rows where kv is not kv_ideal
#       r_peak_higher        rows where peak_reserved is more than reserved and than the row before
#       r_option_NAME        the header's words for model, policy, kv, ...; "" when not there
#       r_settings           all of them in one line
#       r_model_name
#
# A row of ctx tokens is drawn from the ctx of the row before to its own. When ctx does not grow
# from row to row (a trace of another program), x counts steps instead.

function settle(reason) {
    if (bad == "") bad = rows ? reason : "no per-step table of memtrace (" reason ")"
}

function set_text(key, value) { printf "%s_%s = '%s'\n", name, key, value }
function set_count(key, value) { printf "%s_%s = %d\n", name, key, value }
function set_number(key, value) { printf "%s_%s = %.0f.0\n", name, key, value }

function row_ok(    i) {
    if (NF < 20) { settle("line " NR ": " NF " columns where at least 20 are expected"); return 0 }
    for (i = 1; i <= 20; i++)
        if (i != 19 && $i !~ /^-?[0-9]+(\.[0-9]+)?$/) {
            settle("line " NR ": column " i " (" column[i] ") is no number"); return 0
        }
    if ($3 + $4 + $5 + $6 + $7 + $8 != $9 || $9 + $10 + $11 + $12 != $13) {
        settle("line " NR ": the parts do not add up to reserved"); return 0
    }
    return 1
}

BEGIN {
    rows = 0
    split("step ctx weights kv activations logits workspace other requested rounding split " \
          "cached reserved peak_requested peak_reserved segments kv_ideal bump cause ms", column)
}

{ sub(/\r$/, "") }
/^# load / {
    sub(/^# load +/, "")
    if (row_ok()) {
        for (i = 1; i <= 18; i++) base[i] = $i
        have_base = 1
        reserved_before = $13
    }
    next
}
/^# *out of memory/ { ending = "out of memory"; next }
/^# *interrupted/ { ending = "interrupted"; next }
/^#/ { if (!rows) read_option(); next }
NF == 0 { next }
{
    if (!row_ok()) exit
    if (rows && $2 <= value[rows - 1, 2]) by_step = 1
    for (i = 1; i <= 18; i++) {
        value[rows, i] = $i
        if (!rows || $i > largest[i]) largest[i] = $i
    }
    if ($18 != 0) bumps++
    if ($4 != $17) kv_differs++
    if ($15 > $13 && $15 > reserved_before) peak_higher++
    reserved_before = $13
    if ($18 < 0) drops++
    rows++
}

END {
    if (!rows) settle(ending == "" ? "it has no rows" : ending " before the end of the first step")
    printf "bad = '%s'\n", safe(bad, 200)
    if (bad != "") exit
    set_text("settings", settings())
    set_text("option_capacity", option["capacity"])
    for (i = 1; i <= option_names; i++) set_text("option_" option_name[i], option[option_name[i]])
    set_text("model_name", model_name())
    set_text("ending", ending)
    set_text("axis", by_step ? "steps" : \
                     option["kv"] ~ /^none/ ? "tokens of context" : "tokens in the cache")
    set_count("rows", rows); set_count("bumps", bumps); set_count("drops", drops)
    set_count("kv_differs", kv_differs); set_count("peak_higher", peak_higher)
    for (i = 1; i <= 18; i++) {
        set_number(column[i], value[rows - 1, i])
        set_number("base_" column[i], have_base ? base[i] : value[0, i])
        set_number("top_" column[i], largest[i])
    }
    set_count("has_base", have_base)
    x = by_step ? 0 : value[0, 2] - 1
    set_number("left", x)
    printf "$%s << END_OF_ROWS\n", name
    for (row = 0; row < rows; row++)
        for (end = 0; end < 2; end++) {
            if (end) x = by_step ? row + 1 : value[row, 2]
            printf "%d", x
            for (i = 3; i <= 18; i++) if (i != 16) printf " %s", value[row, i]
            printf "\n"
        }
    print "END_OF_ROWS"
    set_number("right", x)
    set_text("end", by_step ? "step " x : x (x == 1 ? " token" : " tokens"))
}
