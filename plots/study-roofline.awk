# study-roofline.awk - the kernels of the largest context against the roofs, for study-roofline.gp;
# after study.awk.
#
# sets  $cached, $uncached     FLOP per byte and GFLOP/s of each kernel
#       $step                  of the two steps as a whole
#       $label                 of each of them: where its words begin, 0 cached 1 uncached, the words
#       $leader                lines from the points to their words
#       left, right, low, high of the axes
#       cached_read, uncached_read, peak    the roofs (GB/s, GFLOP/s; 0: unknown)
#       xtics_words, ytics_words, and words for the key

# Where words may stand is reckoned in pixels of a picture of the usual size.
function px(x) { return (log10(x) - log10(left)) / log10(right / left) * width }
function py(y) { return (log10(y) - log10(low)) / log10(high / low) * height }
function from_px(x) { return left * power10(x / width * log10(right / left)) }
function from_py(y) { return low * power10(y / height * log10(high / low)) }

function add(pass, name, x, y, percent) {
    if (x <= 0 || y <= 0) return
    points++
    X[points] = x; Y[points] = y; of[points] = pass
    words[points] = name "  " (percent < 0.05 ? "under 0.1 %" : share(percent, 100))
    if (!least_x || x < least_x) least_x = x
    if (x > most_x) most_x = x
    if (!low || y < low) low = y
    if (y > high) high = y
}

# Points from i to j of `order` (by x) share a column of words right of them: by height, none lower
# than `line` pixels under the one above, all as near to their points as that allows, under the roof.
function column_of(i, j,    n, a, b, t, k, x, cap, moved, roof, end) {
    n = 0
    for (k = i; k <= j; k++) { by[++n] = order[k]; end = px(X[order[k]]) > end ? px(X[order[k]]) : end }
    for (a = 2; a <= n; a++)
        for (b = a; b > 1 && Y[by[b]] < Y[by[b - 1]]; b--) { t = by[b]; by[b] = by[b - 1]; by[b - 1] = t }
    x = from_px(end + 26)
    roof = peak > 0 ? peak : high
    if (slowest > 0 && x * slowest < roof) roof = x * slowest
    cap = py(roof) - 12
    if (cap > height - 10) cap = height - 10
    if (cap < line * n) cap = line * n
    for (a = 1; a <= n; a++) at_y[a] = py(Y[by[a]])
    for (t = 0; t < 400; t++) {
        moved = 0
        for (a = 1; a <= n; a++) {
            if (at_y[a] > cap) at_y[a] = cap
            if (at_y[a] < 12) at_y[a] = 12
        }
        for (a = 2; a <= n; a++)
            if (at_y[a] - at_y[a - 1] < line - 0.01) {
                k = (line - at_y[a] + at_y[a - 1]) / 2
                at_y[a] += k; at_y[a - 1] -= k; moved = 1
            }
        if (!moved) break
    }
    for (a = 1; a <= n; a++) { # at last, from the roof down and from the floor up
        b = n + 1 - a
        if (at_y[b] > cap - line * (a - 1)) at_y[b] = cap - line * (a - 1)
    }
    for (a = 1; a <= n; a++) {
        k = by[a]
        label_of[++labels] = sprintf("%.6g %.6g %d \"%s\"", x, from_py(at_y[a]), of[k] == "uncached", words[k])
        leader_of[labels] = sprintf("%.6g %.6g\n%.6g %.6g\n", X[k], Y[k], from_px(end + 22), from_py(at_y[a]))
    }
}

function whole_share(part) { return sprintf("%.0f %%", 100 * part) }
# What the step is bound by, with the part of its time that this takes at least; with no name, the
# largest part.
function found(pass,    name, read, compute, starts, ms, s) {
    name = verdict[pass]
    if (name == "") { # the last lines are missing
        name = "no verdict"; ms = at[last, pass "_ms"]
        read = at[last, pass "_bytes"] / at[last, pass "_read_gbs"] / 1e6 / ms
        compute = peak > 0 ? at[last, pass "_computed"] / peak / 1e6 / ms : 0
    } else {
        read = part_at[pass, T, "reading"]; compute = part_at[pass, T, "arithmetic"]
        starts = part_at[pass, T, "starting"]
    }
    for (s = 1; s < splits[pass] && split_of[pass, s, "context"] != T; s++) continue
    if (own_clock) starts = split_of[pass, s, "total"] > 0 ? split_of[pass, s, "gaps"] / split_of[pass, s, "total"] : 0
    if (name ~ /^(above DRAM|faster than memory)/) return "above DRAM bandwidth, in a cache (reading would be " whole_share(read) ")"
    if (name == "bandwidth-bound" || (name !~ /^(compute|launch)-/ && read >= compute && read >= starts))
        return name " (reading " whole_share(read) " of its time)"
    if (name == "compute-bound" || (name != "launch-bound" && compute >= starts))
        return name " (arithmetic " whole_share(compute) " of its time)"
    return name " (" (own_clock ? "gaps between kernels " : "launching kernels ") whole_share(starts) " of its time)"
}

END {
    if (!ready(3)) exit
    cached_read = at[last, "cached_read_gbs"]; uncached_read = at[last, "uncached_read_gbs"]
    if (cached_read <= 0 || uncached_read <= 0) bad = "no rate of the memory, so no roof"
    slowest = cached_read < uncached_read ? cached_read : uncached_read
    for (r = 1; r <= kernels; r++) {
        if (kernel[r, "flops"] <= 0 || kernel[r, "bytes"] <= 0) continue
        ms = kernel[r, "ms"]
        add(kernel[r, "pass"], kernel[r, "kernel"], kernel[r, "flops"] / kernel[r, "bytes"], \
            ms > 0 ? kernel[r, "flops"] / ms / 1e6 : kernel[r, "gflops"], kernel[r, "percent_of_roof"])
    }
    if (bad == "" && !points) bad = "no kernel with FLOPs"
    if (bad != "") { printf "bad = '%s'\n", bad; exit }
    add("cached", "the step", at[last, "cached_intensity"], at[last, "cached_computed"] / at[last, "cached_ms"] / 1e6, \
        100 * at[last, "cached_bound_ms"] / at[last, "cached_ms"])
    add("uncached", "the step", at[last, "uncached_intensity"], \
        at[last, "uncached_computed"] / at[last, "uncached_ms"] / 1e6, \
        100 * at[last, "uncached_bound_ms"] / at[last, "uncached_ms"])

    # The axes: the points, both roofs and where they meet, and room for the words on the right.
    width = 895; height = 385; line = 19
    ridge = peak > 0 ? peak / slowest : most_x
    left = least_x / 2; right = most_x * 1.5
    if (ridge * 2 > right) right = ridge * 2
    if (slowest * left < low) low = slowest * left # the roof at the left edge
    if (peak > high) high = peak
    low /= 1.6; high *= 1.7
    if (high / low < 100) low = high / 100
    for (t = 0; t < 20; t++) if (width - px(most_x) < 185) right = right * 1.25

    for (p = 1; p <= points; p++) order[p] = p
    for (a = 2; a <= points; a++)
        for (b = a; b > 1 && X[order[b]] < X[order[b - 1]]; b--) { t = order[b]; order[b] = order[b - 1]; order[b - 1] = t }
    for (a = 1; a <= points; a = b + 1) {
        for (b = a; b < points && px(X[order[b + 1]]) - px(X[order[b]]) < 190; b++) continue
        column_of(a, b)
    }

    n = split("cached uncached", pass)
    for (p = 1; p <= n; p++) {
        printf "$%s << END_OF_PASS\n", pass[p]
        for (k = 1; k <= points; k++)
            if (of[k] == pass[p] && words[k] !~ /^the step/) printf "%.6g %.6g\n", X[k], Y[k]
        print "NaN NaN\nEND_OF_PASS"
    }
    print "$step << END_OF_STEP"
    for (k = 1; k <= points; k++) if (words[k] ~ /^the step/) printf "%.6g %.6g %d\n", X[k], Y[k], of[k] == "uncached"
    print "NaN NaN 0\nEND_OF_STEP\n$label << END_OF_LABEL"
    for (k = 1; k <= labels; k++) print safe(label_of[k], 200)
    print "END_OF_LABEL\n$leader << END_OF_LEADER"
    for (k = 1; k <= labels; k++) print leader_of[k]
    print "END_OF_LEADER"
    printf "left = %.6g\nright = %.6g\nlow = %.6g\nhigh = %.6g\n", left, right, low, high
    printf "cached_read = %.6g\nuncached_read = %.6g\npeak = %.6g\n", cached_read, uncached_read, peak
    say("xtics_words", log_tics(left, right), 4000)
    say("ytics_words", log_tics(low, high), 4000)
    say("cached_roof_key", "reads at " figure(cached_read) " GB/s (cached)", 60)
    say("uncached_roof_key", "reads at " figure(uncached_read) " GB/s (uncached)", 60)
    say("peak_key", peak > 0 ? "arithmetic at " figure(peak) " GFLOP/s" : "", 60)
    finding = "At " tokens " a cached step does " figure(at[last, "cached_intensity"]) " FLOP per byte: " \
              found("cached") "; an uncached one does " figure(at[last, "uncached_intensity"]) ": " found("uncached")
    finish()
}
