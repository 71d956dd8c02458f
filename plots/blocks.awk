# blocks.awk - the table of blocks.sh as gnuplot commands, for blocks.gp.
#
# sets  bad              what is wrong with the table, in words; the rest only if nothing is
#       sets, name1 ...  number of strategies and their names
#       $set1 ...        rows of each: block_bytes requested rounding split cached reserved
#                        peak_reserved segments bumps
#       least, most      the smallest and largest overhead, reserved - requested, with
#       least_name, least_block, most_name, most_block
#       smallest         the smallest part of overhead above 64 KiB
#       low, high        of reserved and requested
#       peak_higher1 ... rows of each whose peak_reserved is higher than reserved
#       most_rounding, most_split, most_cached
#       model_name, settings, failed (sizes that ran out of memory, in words)

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
/^#/ { read_option(); next }
NF == 0 { next }
{
    if (!sets) begin("")
    for (i = 1; i <= 9; i++)
        if (NF != 9 || $i !~ /^[0-9]+$/) { bad = "line " NR " is no row of blocks.sh"; exit }
    if ($2 + $3 + $4 + $5 != $6) { bad = "line " NR ": the parts do not add up to reserved"; exit }
    if ($1 < 1) { bad = "line " NR ": a block of no bytes"; exit }
    row[sets, ++rows[sets]] = $0
    extra = $6 - $2
    if (!all || extra < least) { least = extra; least_set = sets; least_block = $1 }
    if (!all || extra > most) { most = extra; most_set = sets; most_block = $1 }
    for (i = 3; i <= 5; i++) {
        if ($i > top[i]) top[i] = $i
        if ($i > 65536 && (!smallest || $i < smallest)) smallest = $i
    }
    if (!all || $2 < low) low = $2
    if (!all || $1 < first) first = $1
    if ($1 > last) last = $1
    if ($7 > high) high = $7
    if ($7 > $6) peak_higher[sets]++
    all++
}
END {
    if (bad == "" && !all)
        bad = failed == "" ? "no table of blocks.sh" : "no rows (out of memory with every size)"
    printf "bad = '%s'\n", bad
    if (bad != "") exit
    if (!rows[sets]) sets--
    printf "sets = %d\nfirst = %.0f.0\nlast = %.0f.0\nlow = %.0f.0\nhigh = %.0f.0\n", \
           sets, first, last, low, high
    printf "least = %.0f.0\nmost = %.0f.0\nsmallest = %.0f.0\n", least, most, smallest
    printf "most_rounding = %.0f.0\nmost_split = %.0f.0\nmost_cached = %.0f.0\n", \
           top[3], top[4], top[5]
    printf "least_name = '%s'\nleast_block = '%s'\nmost_name = '%s'\nmost_block = '%s'\n", \
           names[least_set], block_words(least_block), names[most_set], block_words(most_block)
    printf "settings = '%s'\nmodel_name = '%s'\n", settings(), model_name()
    printf "failed = '%s'\n", failed
    for (s = 1; s <= sets; s++) {
        printf "name%d = '%s'\npeak_higher%d = %d\n", s, names[s], s, peak_higher[s]
        printf "$set%d << END_OF_SET\n", s
        for (r = 1; r <= rows[s]; r++) print row[s, r]
        print "END_OF_SET"
    }
}
