# bumps.awk - the bumps of a per-step table as gnuplot commands, for bumps.gp.
#
#     awk -v base=BYTES -v by_step=0|1 -v most=N -v left=X -v right=X -v low=BYTES -v high=BYTES
#         -v wide=PIXELS -v tall=PIXELS -f header.awk -f bumps.awk < RUN.dat
#
# sets  $dots     every bump: x, growth of reserved since `base` after it, bump
#       $circles  the `most` largest, numbered by token: x and y of a place of its own, number, x
#                 and y of the bump
#       labels from 200 on: the same as a list, number, token, bump and cause, in columns at
#                 screen column1 ... column4, downwards from first_row by row
#       listed, placed, others, others_sum
#
# A number stands to the upper left of its bump, where the curve is not unless it fell; when that
# place is taken, in the nearest free one further up or left, if there is one near by.

function abs(x) { x += 0; return x < 0 ? -x : x }
function square(x) { return x * x }
function words(b) {
    b = abs(b)
    return b >= 4 * 1073741824 ? sprintf("%.2f GiB", b / 1073741824) : \
           b >= 1048576 ? sprintf("%.1f MiB", b / 1048576) : \
           b >= 102400 ? sprintf("%.0f KiB", b / 1024) : \
           b >= 1024 ? sprintf("%.1f KiB", b / 1024) : sprintf("%.0f B", b)
}

# "kv:layer3:1050624:large+20971520x2,...": the kind (tag, pool, direction) with the most bytes, the
# number of its segments, the largest request behind it; then how many other segments there were.
function short_cause(cause,    n, i, m, many, size, all, sign, kind, best, text,
                     item, part, layer, segs, bytes, request) {
    if (cause == "-" || cause == "") return "-"
    n = split(cause, item, ",")
    for (i = 1; i <= n; i++) {
        if (item[i] ~ /^\.\.\.\+[0-9]+$/) { all += substr(item[i], 5); continue }
        many = 1
        if (match(item[i], /x[0-9]+$/)) {
            many = substr(item[i], RSTART + 1); item[i] = substr(item[i], 1, RSTART - 1)
        }
        if (!match(item[i], /[-+][0-9]+$/)) return substr(cause, 1, 24)
        size = abs(substr(item[i], RSTART)); sign = substr(item[i], RSTART, 1)
        item[i] = substr(item[i], 1, RSTART - 1)
        m = split(item[i], part, ":")
        kind = part[1] " " part[m] " " sign
        if (!(kind in segs)) layer[kind] = m == 4 ? part[2] : ""
        segs[kind] += many; bytes[kind] += many * size; all += many
        if (part[m - 1] > request[kind] + 0) request[kind] = part[m - 1] + 0
    }
    for (kind in bytes)
        if (best == "" || bytes[kind] > bytes[best] || (bytes[kind] == bytes[best] && kind < best))
            best = kind
    if (best == "") return "-"
    split(best, part, " ")
    sub(/layer/, "layer ", layer[best])
    text = part[1]
    if (segs[best] > 1) text = segs[best] " x " text
    else if (layer[best] != "") text = text " " layer[best]
    text = text ", " words(request[best]) ", " part[2]
    if (part[3] == "-") text = "back: " text
    if (all > segs[best]) text = text " +" all - segs[best]
    if (length(text) > 33) { sub(/layer /, "L", text); sub(/activations/, "activ.", text) }
    return text
}

function write(k, col, text, side) {
    printf "set label %d '%s' at screen column%d, first_row - row * %d %s font plain(10.5)\n", \
           200 + 4 * k + col, safe(text, 35), col, k, side
}

/^#/ || NF < 20 { next }
{
    x = rows ? (by_step ? rows : ctx) : left
    ctx = $2; rows++
    if ($18 == 0) next
    n++; at[n] = x; token[n] = by_step ? rows : $2
    growth[n] = $13 - base; bump[n] = $18; cause[n] = $19
}

END {
    for (k = 0; k < most && k < n; k++) {
        best = 0
        for (i = 1; i <= n; i++)
            if (!chosen[i] && (!best || abs(bump[i]) > abs(bump[best]))) best = i
        chosen[best] = 1
    }
    print "$dots << END_OF_DOTS"
    for (i = 1; i <= n; i++) print at[i], growth[i], bump[i]
    print "END_OF_DOTS"
    sx = wide / (right - left); sy = tall / (high - low)
    print "$circles << END_OF_CIRCLES"
    for (i = 1; i <= n; i++) {
        if (!chosen[i]) { others++; sum += bump[i]; continue }
        px = (at[i] - left) * sx; py = (growth[i] - low) * sy
        found = 0
        for (ring = 0; ring < 9 && !found; ring++)
            for (j = 0; j <= ring && !found; j++) {
                cx = px - 14 - 23 * j; cy = py + 16 + 23 * (ring - j)
                if (cx < 13) cx = 13 + (j == 0 ? 0 : -100)
                if (cx < 0 || cy > tall - 12) continue
                found = 1
                for (q = 1; q <= placed && found; q++)
                    if (square(cx - qx[q]) + square(cy - qy[q]) < square(23)) found = 0
            }
        number++; number_of[number] = i
        if (!found) continue
        placed++; qx[placed] = cx; qy[placed] = cy
        print left + cx / sx, low + cy / sy, number, at[i], growth[i]
    }
    print "END_OF_CIRCLES"
    for (k = 1; k <= number; k++) {
        i = number_of[k]
        write(k, 1, k, "right"); write(k, 2, token[i], "right")
        write(k, 3, (bump[i] < 0 ? "-" : "+") words(bump[i]), "right")
        write(k, 4, short_cause(cause[i]), "left")
    }
    printf "listed = %d\nplaced = %d\n", number, placed
    printf "others = %d\nothers_sum = %.0f.0\n", others, sum
}
