# maps.awk - what the segments of up to four traces hold after one token, for maps.gp.
#
#     { cat A.trace; echo "(next)"; cat B.trace; echo "(next)"; } | awk -v token=N \
#         -f header.awk -f trace.awk -f maps.awk
#
# All bytes of a panel stand in one line, segment after segment as they came, which is cut into rows
# of equal length, the same in all panels. Weights that lie side by side are folded: at most half a
# MiB (a 32nd of a row, if that is more) of them is drawn.
#
# sets  bad                    what is wrong, in words, and bad_trace, in which
#       panels, row_bytes, rows              number of each; rows is the most of a panel
#       $split, $cached, $rounding, $weights, $kv, ...    panel, x1, x2 (parts of a row), row
#       has_split, ...         how many; seen_split, ...: 1 when a reader can find it in the chart
#       $edges                 panel, x, row of each beginning of a segment
#       m1_model_name, m1_reserved, m1_segments, m1_split, m1_cached, m1_rounding, m1_requested,
#       m1_option_NAME, m1_ending            of each panel

function forget() {
    split("", low); split("", size); split("", asked); split("", tag); split("", home)
    split("", bytes); split("", mapped); split("", option); split("", order)
    seen = lines = found = segments = last = partial = 0; ending = command = ""
}
# Where segment `id` is held: ranges "from to", joined by blanks.
function cut_out(id, from, to,    n, part, i, text) {
    n = split(mapped[id], part, " ")
    for (i = 1; i < n; i += 2) {
        if (part[i] < from) text = text " " part[i] " " (part[i + 1] < from ? part[i + 1] : from)
        if (part[i + 1] > to) text = text " " (part[i] > to ? part[i] : to) " " part[i + 1]
    }
    mapped[id] = text
}
function hold(id) { if (!(id in bytes)) { bytes[id] = 0; order[++segments] = id } }

# One piece of the line of this panel.
function piece(kind, n) {
    if (n <= 0) return
    pieces++; piece_kind[pieces] = kind; piece_size[pieces] = n; piece_panel[pieces] = panels
    piece_first[pieces] = first; first = 0
}
function range(id, from, to, empty,    i, j, at, n, run, end) {
    for (i = n = 0; i < here_n; i++) if (start[i] >= from && start[i] < to) at_of[n++] = i
    at = from
    for (j = 0; j < n; j++) {
        i = at_of[j]
        if (start[i] > at) {
            piece("weights", run); run = 0
            piece(empty ? "cached" : "split", start[i] - at)
        }
        if (here_tag[i] == "weights") run += here_asked[i]
        else { piece("weights", run); run = 0; piece(here_tag[i], here_asked[i]) }
        if (here_size[i] - here_asked[i] >= 65536) {
            piece("weights", run); run = 0
            piece("rounding", here_size[i] - here_asked[i])
        }
        at = start[i] + here_size[i]
    }
    piece("weights", run)
    piece(empty ? "cached" : "split", to - at)
}

# A panel is complete: its sums, and its segments in pieces.
function close_panel(    i, j, s, id, n, part, live, t) {
    if (bad != "") exit
    if (!lines) fail("it is empty")
    if (!found && !seen && ending != "") fail(ending " before the end of the first step")
    if (!found) fail(seen ? "it has no step that ends with " token " tokens" : "no step ended")
    panels++
    if (ending != "") ending = ending " after " last " tokens"
    else if (command == "run" && last + 0 < option["ctx"] + 0)
        ending = "cut short after " last " of " option["ctx"] " tokens"
    for (id in low) {
        t = home[id]; lives[panels, t] += size[id]; count[panels, t]++
        list[panels, t] = list[panels, t] " " id
        requested[panels] += asked[id]; rounding[panels] += size[id] - asked[id]
    }
    for (s = 1; s <= segments; s++) {
        id = order[s]
        if (!(id in bytes) || bytes[id] == 0) continue
        held[panels]++; reserved[panels] += bytes[id]
        live = lives[panels, id] + 0
        if (live) split_bytes[panels] += bytes[id] - live; else cached[panels] += bytes[id]
        # Its live blocks, sorted.
        here_n = split(list[panels, id], part, " ")
        for (i = 1; i <= here_n; i++) {
            t = part[i]
            for (j = i - 1; j > 0 && start[j - 1] > low[t]; j--) {
                start[j] = start[j - 1]; here_tag[j] = here_tag[j - 1]
                here_size[j] = here_size[j - 1]; here_asked[j] = here_asked[j - 1]
            }
            start[j] = low[t]; here_tag[j] = tag[t]; here_size[j] = size[t]; here_asked[j] = asked[t]
        }
        n = split(mapped[id], part, " ")
        first = 1
        for (i = 1; i < n; i += 2) range(id, part[i] + 0, part[i + 1] + 0, !live)
    }
    for (i in option) kept_option[panels, i] = option[i]
    model_of[panels] = model_name(); ending_of[panels] = ending
    forget()
}

BEGIN {
    forget()
}
between { close_panel(); next }
found && $2 == "mark" { last = $7 }
found { next }
$2 == "alloc" {
    if (!($6 in bytes)) fail("line " lines ": a block in segment " $6 ", which is not held")
    low[$5] = $7 + 0; asked[$5] = $8 + 0; size[$5] = $9 + 0; tag[$5] = $10; home[$5] = $6
    next
}
$2 == "free" {
    if (!($5 in low)) fail("line " lines ": block " $5 " is not live")
    delete low[$5]; delete asked[$5]; delete size[$5]; delete tag[$5]; delete home[$5]
    next
}
$2 == "segment_alloc" { hold($6); bytes[$6] = $9 + 0; mapped[$6] = "0 " $9; next }
$2 == "segment_free" {
    if (!($6 in bytes)) fail("line " lines ": segment " $6 " is not held")
    delete bytes[$6]; delete mapped[$6]
    next
}
$2 == "segment_map" {
    hold($6); bytes[$6] += $9; join($6, $7 + 0, $7 + $9)
    next
}
$2 == "segment_unmap" {
    if (!($6 in bytes)) fail("line " lines ": segment " $6 " is not held")
    bytes[$6] -= $9; cut_out($6, $7 + 0, $7 + $9)
    next
}
$2 == "mark" {
    if ($3 < 0) next
    seen = 1; last = $7
    if ($7 == token) found = 1
    next
}

# Adds a range to those of segment `id`, in order, neighbours as one.
function join(id, from, to,    n, part, i, text, added) {
    n = split(mapped[id], part, " ")
    for (i = 1; i < n; i += 2) {
        if (part[i + 1] + 0 == from) { from = part[i] + 0; continue }
        if (part[i] + 0 == to) { to = part[i + 1] + 0; continue }
        if (!added && part[i] + 0 > to) { text = text " " from " " to; added = 1 }
        text = text " " part[i] " " part[i + 1]
    }
    mapped[id] = added ? text : text " " from " " to
}

function drawn(p) { return piece_kind[p] == "weights" && piece_size[p] > fold ? fold : piece_size[p] }
END {
    if (bad == "" && !panels) bad = "no trace of memtrace"
    printf "bad = '%s'\nbad_trace = %d\n", safe(bad, 200), panels + 1
    if (bad != "") exit
    # The length of a row, so that the tallest panel has at most 30.
    for (row = 65536; row < 1e15; row *= 2) {
        fold = row / 32 > 524288 ? row / 32 : 524288
        split("", total); most = 0
        for (p = 1; p <= pieces; p++) {
            t = total[piece_panel[p]] += drawn(p)
            if (t > most) most = t
        }
        if (most <= 30 * row) break
    }
    split("split cached rounding weights kv activations logits workspace other", kinds)
    at = panel = 0
    for (p = 1; p <= pieces; p++) {
        if (piece_panel[p] != panel) { at = 0; panel = piece_panel[p] }
        r = int(at / row)
        if (piece_first[p]) edge[++edges] = sprintf("%d %.5f %d", panel, at / row - r, r)
        for (left = drawn(p); left > 0; left -= n) {
            r = int(at / row); n = (r + 1) * row - at; if (n > left) n = left
            k = piece_kind[p]
            if (n > longest[k]) longest[k] = n
            box[k, ++boxes[k]] = sprintf("%d %.5f %.5f %d", panel, at / row - r, (at + n) / row - r, r)
            at += n
        }
    }
    for (k = 1; k <= 9; k++) {
        printf "has_%s = %d\nseen_%s = %d\n$%s << END_OF_BOXES\n", kinds[k], boxes[kinds[k]], \
               kinds[k], (longest[kinds[k]] > 0.012 * row), kinds[k]
        for (i = 1; i <= boxes[kinds[k]]; i++) print box[kinds[k], i]
        print "END_OF_BOXES"
    }
    print "$edges << END_OF_EDGES"
    for (i = 1; i <= edges; i++) print edge[i]
    print "END_OF_EDGES"
    printf "panels = %d\nrow_bytes = %.0f.0\nrows = %d\n", panels, row, int((most + row - 1) / row)
    for (p = 1; p <= panels; p++) {
        printf "m%d_model_name = '%s'\nm%d_ending = '%s'\n", p, model_of[p], p, ending_of[p]
        printf "m%d_segments = %d\nm%d_reserved = %.0f.0\nm%d_requested = %.0f.0\n", p, held[p], p, \
               reserved[p], p, requested[p]
        printf "m%d_rounding = %.0f.0\nm%d_split = %.0f.0\nm%d_cached = %.0f.0\n", p, rounding[p], p, \
               split_bytes[p], p, cached[p]
        for (i = 1; i <= option_names; i++)
            printf "m%d_option_%s = '%s'\n", p, option_name[i], kept_option[p, option_name[i]]
    }
}
