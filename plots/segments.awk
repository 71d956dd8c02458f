# segments.awk - a trace as rectangles, for segments.gp.
#
#     awk -v every=0|N -v wide=PIXELS -v tall=PIXELS -f header.awk -f trace.awk -f segments.awk < RUN.trace
#
# Each column of pixels shows the state at the end of one step (with every=N, for traces without
# marks: after so many events): one of several where there are more steps than pixels. A block that
# lives at the end of a step is one rectangle for as long as it stays; blocks that come and go
# within a step are joined to one shadow. All corners are whole pixels, so that neighbours meet.
#
# sets  bad                what is wrong with the trace, in words; the rest only if nothing is
#       $segment, $shadow, $weights, $kv, ...   x1 x2 y1 y2 of each rectangle, y in pixels
#       has_segment, ...   how many; seen_segment, ...: 1 when a reader can find it in the chart
#       $edges, edges      x, y and length of the lower edges of segments, where there is room
#       $names, names      y and words of the segments of the last column, where there is room
#       left, r_right, axis                      x: range, and what it is
#       bar, bar_bytes                           a scale for heights
#       reserved, segments, empty, empty_bytes, split_bytes, folds    of the last column
#       steps, model_name, settings, r_ending
#
# Heights are bytes, with two exceptions. Each segment gets the lowest place that is free when it
# comes, whatever its address; a growable one has a place of its own. And weights that stay to the
# end are folded: however many lie side by side, they are one thin band.

# ---- places for segments: the holes below `top`, by address

function move_hole(i, to) { hole_at[to] = hole_at[i]; hole_size[to] = hole_size[i] }
function remove_hole(i) {
    for (; i < holes; i++) move_hole(i + 1, i)
    holes--
}
function take(size,    i, at) {
    for (i = 1; i <= holes && hole_size[i] < size; i++) continue
    if (i > holes) { at = top; top += size; return at }
    at = hole_at[i]; hole_at[i] += size; hole_size[i] -= size
    if (hole_size[i] == 0) remove_hole(i)
    return at
}
function give(at, size,    i) {
    for (i = ++holes; i > 1 && hole_at[i - 1] > at; i--) move_hole(i - 1, i)
    hole_at[i] = at; hole_size[i] = size
    if (i < holes && at + size == hole_at[i + 1]) {
        hole_size[i] += hole_size[i + 1]; remove_hole(i + 1)
    }
    if (i > 1 && hole_at[i - 1] + hole_size[i - 1] == at) {
        hole_size[i - 1] += hole_size[i]; remove_hole(i)
    }
}

# ---- rectangles: columns from c0 to before c1, places from y0 to y1

function keep(kind, from, to, low, high, segment) {
    n++; what[n] = kind; of[n] = segment
    c0[n] = from < 0 ? 0 : from; c1[n] = to; y0[n] = low; y1[n] = high
}
function now() { return every ? int(events / every) : $3 < 0 && !marks ? -1 : marks }

# What came and went in a column, sorted and joined.
function shade(low, high) {
    if ((low, high) in seen) return
    seen[low, high] = 1; shades++; shade_low[shades] = low; shade_high[shades] = high
}
function cast(column,    i, j, low, high) {
    for (i = 2; i <= shades; i++) {
        low = shade_low[i]; high = shade_high[i]
        for (j = i; j > 1 && shade_low[j - 1] > low; j--) {
            shade_low[j] = shade_low[j - 1]; shade_high[j] = shade_high[j - 1]
        }
        shade_low[j] = low; shade_high[j] = high
    }
    for (i = 1; i <= shades; i = j) {
        high = shade_high[i]
        for (j = i + 1; j <= shades && shade_low[j] <= high; j++)
            if (shade_high[j] > high) high = shade_high[j]
        keep("shadow", column, column + 1, shade_low[i], high, "")
    }
    shades = 0; split("", seen)
}

BEGIN {
    marks = 0
    window = 17592186044416 # 16 TiB, for a growable segment
}
{ events++ }
every && (events - 1) % every == 0 { if (shades) cast(now() - 1) }
$2 == "alloc" {
    if (!($6 in base)) fail("line " lines ": a block in segment " $6 ", which is not held")
    low[$5] = base[$6] + $7; high[$5] = low[$5] + $9; born[$5] = now(); tag[$5] = $10; home[$5] = $6
    next
}
$2 == "free" {
    if (!($5 in low)) fail("line " lines ": block " $5 " is not live")
    t = now()
    if (born[$5] < t && t > 0) keep(tag[$5], born[$5], t, low[$5], high[$5], home[$5])
    else if (t >= 0) shade(low[$5], high[$5])
    delete low[$5]; delete high[$5]; delete born[$5]; delete tag[$5]; delete home[$5]
    next
}
$2 == "segment_alloc" {
    base[$6] = take($9); bytes[$6] = $9; since[$6] = now(); pool[$6] = $12
    next
}
$2 == "segment_free" {
    if (!($6 in bytes)) fail("line " lines ": segment " $6 " is not held")
    if (since[$6] < now() && now() > 0)
        keep("segment", since[$6], now(), base[$6], base[$6] + bytes[$6], $6)
    give(base[$6], bytes[$6])
    delete base[$6]; delete bytes[$6]; delete since[$6]
    next
}
$2 == "segment_map" {
    if (!($6 in base)) { base[$6] = ++windows * window; pool[$6] = $12 }
    w = base[$6] / window
    if ($7 + $9 > widest[w]) widest[w] = $7 + $9
    maps++; map_segment[maps] = $6; map_since[maps] = now()
    map_low[maps] = base[$6] + $7; map_high[maps] = map_low[maps] + $9
    next
}
$2 == "segment_unmap" {
    if (!($6 in base)) fail("line " lines ": segment " $6 " is not held")
    from = base[$6] + $7; to = from + $9; t = now()
    for (m = maps; m >= 1; m--) { # each mapped range keeps what lies outside
        l = map_low[m] > from ? map_low[m] : from; h = map_high[m] < to ? map_high[m] : to
        if (l >= h) continue
        if (map_since[m] < t && t > 0) keep("segment", map_since[m], t, l, h, $6)
        if (map_high[m] > h) {
            maps++; map_segment[maps] = $6; map_since[maps] = map_since[m]
            map_low[maps] = h; map_high[maps] = map_high[m]
        }
        map_high[m] = l
    }
    next
}
$2 == "mark" {
    if ($3 < 0 || every) next
    cast(marks)
    if (!marks) first_ctx = $7
    last_ctx = $7
    if ($7 != first_ctx + marks) by_step = 1
    marks++
    next
}
# ---- heights: address to height, in pieces of which some are folded

function piece(low, high, height) {
    if (high <= low) return
    pieces++; piece_low[pieces] = low; piece_high[pieces] = high
    piece_y[pieces] = total; piece_scale[pieces] = height / (high - low)
    total += height
}
function y(at,    a, b, m) {
    a = 1; b = pieces
    while (a < b) { m = int((a + b + 1) / 2); if (piece_low[m] <= at) a = m; else b = m - 1 }
    if (at > piece_high[a]) at = piece_high[a]
    return int((piece_y[a] + (at - piece_low[a]) * piece_scale[a]) * tall / total + 0.5)
}
function region(low, high,    i) {
    for (i = 1; i <= folds; i++) {
        if (fold_low[i] < low || fold_low[i] >= high) continue
        piece(low, fold_low[i], fold_low[i] - low)
        piece(fold_low[i], fold_high[i], fold_height)
        low = fold_high[i]
    }
    piece(low, high, high - low)
}
# The first column of pixels whose middle is not left of a column's beginning.
function x(column,    p) {
    p = column * wide / marks - 0.5
    return p <= 0 ? 0 : int(p) == p ? p : int(p) + 1
}
function mib(b) { return sprintf(b >= 10 * 1048576 ? "%.0f MiB" : "%.1f MiB", b / 1048576) }

END {
    if (bad == "" && !lines) bad = "no trace of memtrace"
    if (bad == "" && every) { marks = int((events - 1) / every) + 1; if (shades) cast(marks - 1) }
    if (bad == "" && !marks) bad = ending == "" ? "no step ended" : ending " before the end of the first step"
    # A run goes on to the tokens that its header names, or says why not.
    if (ending == "" && command == "run" && last_ctx + 0 < option["ctx"] + 0)
        ending = "cut short after " last_ctx + 0 " of " option["ctx"] " tokens"
    if (ending == "" && partial) ending = "cut short"
    printf "bad = '%s'\n", safe(bad, 200)
    if (bad != "") exit

    # What is there at the end. Events after the last mark belong to no column.
    for (id in low)
        if (born[id] < marks) keep(tag[id], born[id], marks, low[id], high[id], home[id])
    for (id in bytes)
        if (since[id] < marks)
            keep("segment", since[id], marks, base[id], base[id] + bytes[id], id)
    for (m = 1; m <= maps; m++)
        if (map_low[m] < map_high[m] && map_since[m] < marks)
            keep("segment", map_since[m], marks, map_low[m], map_high[m], map_segment[m])

    # Weights that stay from the first column to the last, sorted and joined.
    for (i = 1; i <= n; i++) {
        if (what[i] != "weights" || c0[i] > 0 || c1[i] < marks) continue
        for (j = ++folds; j > 1 && fold_low[j - 1] > y0[i]; j--) {
            fold_low[j] = fold_low[j - 1]; fold_high[j] = fold_high[j - 1]
        }
        fold_low[j] = y0[i]; fold_high[j] = y1[i]
        folded += y1[i] - y0[i]
    }
    for (i = 2; i <= folds; i++) {
        if (fold_low[i] == fold_high[kept + 1]) { fold_high[kept + 1] = fold_high[i]; continue }
        kept++
        fold_low[kept + 1] = fold_low[i]; fold_high[kept + 1] = fold_high[i]
    }
    if (folds) folds = kept + 1
    scaled = top - folded
    for (w = 1; w <= windows; w++) scaled += widest[w]
    fold_height = folds ? 0.15 * scaled / folds : 0
    if (fold_height > 0.015 * scaled) fold_height = 0.015 * scaled
    if (scaled <= 0) fold_height = 1048576
    region(0, top)
    for (w = 1; w <= windows; w++) {
        if (total) total += 0.012 * scaled
        region(w * window, w * window + widest[w])
    }
    if (!total) total = 1

    # Equal rectangles that follow each other are one.
    for (i = 1; i <= n; i++) {
        x0 = x(c0[i]); x1 = x(c1[i]); low_y = y(y0[i]); high_y = y(y1[i])
        if (x0 >= x1 || low_y >= high_y) continue
        key = what[i] SUBSEP low_y SUBSEP high_y
        if (key in last && box_x1[last[key]] == x0) { box_x1[last[key]] = x1; continue }
        last[key] = ++boxes; kind[boxes] = what[i]
        box_x0[boxes] = x0; box_x1[boxes] = x1; box_y0[boxes] = low_y; box_y1[boxes] = high_y
        count[what[i]]++
    }
    for (j = 1; j <= boxes; j++) { # thicker than a line, or many lines
        w = box_x1[j] - box_x0[j]; h = box_y1[j] - box_y0[j]
        area[kind[j]] += w * h
        if ((w > 1 && h > 1) || area[kind[j]] > 0.01 * wide * tall) seen_kind[kind[j]] = 1
    }
    left = every || by_step ? 0 : first_ctx - 1
    step = (every ? every : 1) * marks / wide
    split("segment shadow weights kv activations logits workspace other", kinds)
    for (k = 1; k <= 8; k++) {
        printf "has_%s = %d\nseen_%s = %d\n$%s << END_OF_BOXES\n", kinds[k], count[kinds[k]], \
               kinds[k], seen_kind[kinds[k]], kinds[k]
        for (j = 1; j <= boxes; j++)
            if (kind[j] == kinds[k])
                printf "%.7g %.7g %d %d\n", left + box_x0[j] * step, left + box_x1[j] * step, \
                       box_y0[j], box_y1[j]
        print "END_OF_BOXES"
    }
    print "$edges << END_OF_EDGES"
    for (j = 1; j <= boxes; j++) {
        if (kind[j] != "segment" || box_y1[j] - box_y0[j] < 6) continue
        printf "%.7g %d %.7g\n", left + box_x0[j] * step, box_y0[j], \
               (box_x1[j] - box_x0[j]) * step
        edges++
    }
    print "END_OF_EDGES"

    # The segments of the last column from below, and what is live in them.
    for (i = 1; i <= n; i++) {
        if (c1[i] < marks || what[i] == "shadow") continue
        if (what[i] != "segment") { live[of[i]] += y1[i] - y0[i]; continue }
        reserved += y1[i] - y0[i]
        id = of[i]
        if (!(id in held)) { segments++; held[id] = 0; lowest[id] = y0[i]; highest[id] = y1[i] }
        held[id] += y1[i] - y0[i]
        if (y0[i] < lowest[id]) lowest[id] = y0[i]
        if (y1[i] > highest[id]) highest[id] = y1[i]
    }
    for (id in held) {
        if (live[id] + 0 == 0) { empty++; empty_bytes += held[id] }
        else split_bytes += held[id] - live[id]
        for (j = ++sorted; j > 1 && lowest[order[j - 1]] > lowest[id]; j--) order[j] = order[j - 1]
        order[j] = id
    }
    # Their names, where there is room; equal neighbours that are too low for one share it.
    line = 15; named = -line
    print "$names << END_OF_NAMES"
    for (i = 1; i <= sorted; i = j) {
        id = order[i]; free = held[id] - live[id]; from = y(lowest[id]); to = y(highest[id])
        for (j = i + 1; to - from < line * (j - i) && j <= sorted; j++) {
            next_id = order[j]
            if (held[next_id] != held[id] || pool[next_id] != pool[id]) break
            if (y(highest[next_id]) - y(lowest[next_id]) >= line) break
            free += held[next_id] - live[next_id]; to = y(highest[next_id])
        }
        if (to - from < line - 3 || (from + to) / 2 - named < line) continue
        named = (from + to) / 2; names++
        printf "%.1f \"%s%s%s\"\n", named, (j - i > 1 ? j - i " x " : ""), mib(held[id]), \
               (free ? ", " mib(free) " free" : "")
    }
    print "END_OF_NAMES"
    for (bar = 4096; bar * 2 <= scaled / 3.4; bar *= 2) continue

    printf "settings = '%s'\nmodel_name = '%s'\nr_ending = '%s'\n", settings(), model_name(), ending
    printf "axis = '%s'\n", every ? "events" : by_step ? "steps" : \
                            option["kv"] ~ /^none/ ? "tokens of context" : "tokens in the cache"
    printf "left = %.0f.0\nr_right = %.0f.0\n", left, left + step * wide
    printf "bar_bytes = %.0f.0\nbar = %.3f\n", bar, bar * tall / total
    printf "steps = %d\nsegments = %d\nempty = %d\n", marks, segments, empty
    printf "folds = %d\nnames = %d\nedges = %d\n", folds, names, edges
    printf "reserved = %.0f.0\nempty_bytes = %.0f.0\nsplit_bytes = %.0f.0\n", \
           reserved, empty_bytes, split_bytes
}
