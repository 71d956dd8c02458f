# blocks.awk - the table of blocks.sh as gnuplot commands, for blocks.gp.
#
# sets  bad              what is wrong with the table, in words; the rest only if nothing is
#       sets, name1 ...  number of strategies and their names
#       $set1 ...        rows of each: block_bytes requested rounding split cached reserved
#                        peak_reserved segments bumps
#       least, most      the smallest and largest overhead, reserved - requested, with
#       least_name, least_block, most_name, most_block
#       low, high        of reserved and requested, peak_higher: rows whose peak_reserved is higher
#       model_name, settings, failed (sizes that ran out of memory, in words)

function safe(text, most) {
    gsub(/[^ -~]|['`\\]/, "?", text)
    return length(text) > most ? substr(text, 1, most - 3) "..." : text
}
function begin(name) {
    if (sets && !rows[sets]) { names[sets] = name; return }
    names[++sets] = name
}
function block_words(b) { return b >= 1048576 ? b / 1048576 " MiB" : b / 1024 " KiB" }

{ sub(/\r$/, "") }
/^# kv / { sub(/^# kv +/, ""); begin(safe($0, 24)); next }
/^# block:.* out of memory/ {
    size = $2; sub(/block:/, "", size)
    failed = failed (failed == "" ? "" : ", ") safe(names[sets] " " size, 40); next
}
/^# (model|dtype|activations|workspace|backend|ctx|batch) / {
    if (!($2 in option)) {
        key = $2; sub(/^# [^ ]+ +/, ""); option[key] = safe($0, 36)
        settings = settings (settings == "" ? "" : ",  ") key " " option[key]
    }
    next
}
/^#/ || NF == 0 { next }
{
    if (!sets) begin("")
    for (i = 1; i <= 9; i++)
        if (NF != 9 || $i !~ /^[0-9]+$/) { bad = "line " NR " is no row of blocks.sh"; exit }
    if ($1 < 1 || $2 + $3 + $4 + $5 != $6) { bad = "line " NR ": the parts do not add up to reserved"; exit }
    row[sets, ++rows[sets]] = $0
    extra = $6 - $2
    if (!all || extra < least) { least = extra; least_set = sets; least_block = $1 }
    if (!all || extra > most) { most = extra; most_set = sets; most_block = $1 }
    if (!all || $2 < low) low = $2
    if (!all || $1 < first) first = $1
    if ($1 > last) last = $1
    if ($7 > high) high = $7
    if ($7 > $6) peak_higher++
    all++
}
END {
    if (bad == "" && !all) bad = failed == "" ? "no table of blocks.sh" : "no rows (out of memory with every size)"
    printf "bad = '%s'\n", bad
    if (bad != "") exit
    if (!rows[sets]) sets--
    printf "sets = %d\nleast = %.0f.0\nmost = %.0f.0\nlow = %.0f.0\nhigh = %.0f.0\npeak_higher = %d\n", \
           sets, least, most, low, high, peak_higher
    printf "first = %.0f.0\nlast = %.0f.0\n", first, last
    printf "least_name = '%s'\nleast_block = '%s'\nmost_name = '%s'\nmost_block = '%s'\n", \
           names[least_set], block_words(least_block), names[most_set], block_words(most_block)
    model = option["model"]; sub(/ .*/, "", model); sub(/\/+$/, "", model); sub(/.*\//, "", model)
    if (model == "") model = "The run"
    else if (model == "gpt2") model = "GPT-2 small"
    else if (model ~ /^gpt2-(medium|large)$/) model = "GPT-2 " substr(model, 6)
    else if (model == "gpt2-xl") model = "GPT-2 XL"
    printf "model_name = '%s'\nsettings = '%s'\nfailed = '%s'\n", model, settings, failed
    for (s = 1; s <= sets; s++) {
        printf "name%d = '%s'\n$set%d << END_OF_SET\n", s, names[s], s
        for (r = 1; r <= rows[s]; r++) print row[s, r]
        print "END_OF_SET"
    }
}
