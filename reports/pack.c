/* pack.c - see pack.h. */
#include "reports/pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"

#define ALL_ORDERS   8                 /* items up to which every order is tried */
#define ORDER_PAIRS  UINT64_C(6000000) /* pairs that placing in one order may look at */
#define SEARCH_PAIRS UINT64_C(2000000) /* that local search may look at in all */
#define SEARCH_TRIES 400               /* orders that it may try */

typedef struct range {
    uint64_t from, to;
} range;

typedef struct packer {
    const mt_pack_item *item;
    uint32_t n;
    uint64_t low;
    uint64_t *offset; /* of the candidate being made */
    uint64_t height;
    uint64_t *best_offset;
    mt_pack_result *best;
    uint32_t *by_death; /* items in order of death */
    uint32_t *order;    /* in which items are placed */
    range *hole;        /* free ranges, or the ranges in the way; room for n + 1 */
    uint64_t pairs;     /* looked at so far; left of the budget */
    /* Placed items: a tree over positions, whose nodes list those that live all through the node,
     * and a set of the placed, by position. */
    uint32_t leaves;
    uint32_t *head, *next, *entry, entries;
    uint64_t *placed;
} packer;

/* ---- the bound, and the check ---------------------------------------------------------------- */

/* Items in order of death; births rise, so two of one death keep their order. */
static int compare_deaths(const void *a, const void *b) {
    const mt_pack_item *x = *(const mt_pack_item *const *)a, *y = *(const mt_pack_item *const *)b;
    if (x->death != y->death)
        return x->death < y->death ? -1 : 1;
    return x < y ? -1 : x > y;
}

static mt_status sort_deaths(const mt_pack_item *item, uint32_t n, uint32_t *by_death,
                             mt_error *err) {
    const mt_pack_item **p = malloc((n + 1) * sizeof *p);
    if (p == NULL)
        return mt_no_memory(err, "a packing");
    for (uint32_t i = 0; i < n; i++)
        p[i] = &item[i];
    qsort(p, n, sizeof *p, compare_deaths);
    for (uint32_t i = 0; i < n; i++)
        by_death[i] = (uint32_t)(p[i] - item);
    free(p);
    return MT_OK;
}

static uint64_t peak(const packer *p) {
    uint64_t live = 0, most = 0;
    for (uint32_t i = 0, d = 0; i < p->n; i++) {
        for (; p->item[p->by_death[d]].death <= p->item[i].birth; d++)
            live -= p->item[p->by_death[d]].size;
        live += p->item[i].size;
        most = live > most ? live : most;
    }
    return most;
}

/* The first of the sorted ranges that begins at or after `from`. */
static uint32_t lower_bound(const range *r, uint32_t n, uint64_t from) {
    uint32_t low = 0;
    while (low < n) {
        uint32_t middle = low + (n - low) / 2;
        if (r[middle].from < from)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

static void insert(range *r, uint32_t *n, uint32_t at, range value) {
    memmove(r + at + 1, r + at, (*n - at) * sizeof *r);
    r[at] = value;
    ++*n;
}

static void erase(range *r, uint32_t *n, uint32_t at) {
    --*n;
    memmove(r + at, r + at + 1, (*n - at) * sizeof *r);
}

/* Live items sorted by place: a new one must end before the next begins, and so on. */
static mt_status check_sorted(const mt_pack_item *item, uint32_t n, const uint64_t *offset,
                              uint64_t height, const uint32_t *by_death, range *live,
                              mt_error *err) {
    uint32_t lives = 0;
    for (uint32_t i = 0, d = 0; i < n; i++) {
        for (; item[by_death[d]].death <= item[i].birth; d++)
            erase(live, &lives, lower_bound(live, lives, offset[by_death[d]]));
        uint32_t at = lower_bound(live, lives, offset[i]);
        uint64_t end = offset[i] + item[i].size;
        if (end > height || (at < lives && live[at].from < end) ||
            (at > 0 && live[at - 1].to > offset[i]))
            return mt_fail(err, MT_CHECK,
                           "packing: request %u at %" PRIu64 " overlaps another or ends above the "
                           "height of %" PRIu64 " bytes",
                           i, offset[i], height);
        insert(live, &lives, at, (range){ offset[i], end });
    }
    return MT_OK;
}

mt_status mt_pack_check(const mt_pack_item *item, uint32_t n, const uint64_t *offset,
                        uint64_t height, mt_error *err) {
    uint32_t *by_death = malloc((n + 1) * sizeof *by_death);
    range *live = malloc((n + 1) * sizeof *live);
    mt_status status = by_death != NULL && live != NULL
                           ? sort_deaths(item, n, by_death, err)
                           : mt_no_memory(err, "the check of a packing");
    if (status == MT_OK)
        status = check_sorted(item, n, offset, height, by_death, live, err);
    free(by_death);
    free(live);
    return status;
}

/* Keeps the candidate if it is lower than the best so far. */
static bool keep(packer *p, const char *how) {
    if (p->height >= p->best->height)
        return false;
    p->best->height = p->height;
    p->best->how = how;
    memcpy(p->best_offset, p->offset, p->n * sizeof *p->offset);
    return true;
}

/* Nothing better is to be had, or someone asks for an end: mt_pack tells the two apart. */
static bool done(const packer *p) {
    return p->best->height == p->low || mt_interrupted();
}

/* ---- in the order of time -------------------------------------------------------------------- */

static void make_hole(packer *p, uint32_t *holes, uint32_t i) {
    uint64_t from = p->offset[i], to = from + p->item[i].size;
    uint32_t at = lower_bound(p->hole, *holes, from);
    if (p->hole[at].from == to) { /* the last hole has no end: there is always one above */
        p->hole[at].from = from;
        if (at > 0 && p->hole[at - 1].to == from) {
            p->hole[at - 1].to = p->hole[at].to;
            erase(p->hole, holes, at);
        }
    } else if (at > 0 && p->hole[at - 1].to == from) {
        p->hole[at - 1].to = to;
    } else {
        insert(p->hole, holes, at, (range){ from, to });
    }
}

static uint32_t find_hole(const packer *p, uint32_t holes, uint64_t size, bool best) {
    uint32_t found = holes - 1;
    for (uint32_t i = 0; i + 1 < holes; i++) {
        uint64_t bytes = p->hole[i].to - p->hole[i].from;
        if (bytes < size)
            continue;
        if (!best)
            return i;
        if (found == holes - 1 || bytes < p->hole[found].to - p->hole[found].from)
            found = i;
    }
    return found;
}

static void online(packer *p, bool best) {
    uint32_t holes = 1;
    p->height = 0;
    p->hole[0] = (range){ 0, UINT64_MAX };
    for (uint32_t i = 0, d = 0; i < p->n; i++) {
        for (; p->item[p->by_death[d]].death <= p->item[i].birth; d++)
            make_hole(p, &holes, p->by_death[d]);
        uint32_t at = find_hole(p, holes, p->item[i].size, best);
        p->offset[i] = p->hole[at].from;
        p->hole[at].from += p->item[i].size;
        if (p->hole[at].from > p->height && at == holes - 1)
            p->height = p->hole[at].from;
        if (p->hole[at].from == p->hole[at].to)
            erase(p->hole, &holes, at);
    }
    keep(p, best ? "best fit" : "first fit");
}

/* ---- in an order of choice ------------------------------------------------------------------- */

static void forget(packer *p) {
    memset(p->head, 0, 2 * (size_t)p->leaves * sizeof *p->head);
    memset(p->placed, 0, (p->n / 64 + 1) * sizeof *p->placed);
    p->entries = 1;
    p->height = 0;
}

/* Lists item i at the nodes that make up its positions [i, its end). */
static void enter(packer *p, uint32_t i, uint32_t end) {
    uint32_t a = p->leaves + i, b = p->leaves + end;
    p->placed[i / 64] |= UINT64_C(1) << i % 64;
    for (; a < b; a /= 2, b /= 2) {
        uint32_t nodes[2] = { a % 2 == 1 ? a++ : 0, b % 2 == 1 ? --b : 0 };
        for (int k = 0; k < 2; k++)
            if (nodes[k] != 0) {
                p->entry[p->entries] = i;
                p->next[p->entries] = p->head[nodes[k]];
                p->head[nodes[k]] = p->entries++;
            }
    }
}

static void in_the_way(packer *p, uint32_t *n, uint32_t i) {
    p->hole[(*n)++] = (range){ p->offset[i], p->offset[i] + p->item[i].size };
}

/* The placed items that live with item i: those alive at its birth, and those born in its life. */
static uint32_t conflicts(packer *p, uint32_t i, uint32_t end) {
    uint32_t n = 0;
    for (uint32_t node = p->leaves + i; node > 0; node /= 2)
        for (uint32_t e = p->head[node]; e != 0; e = p->next[e])
            in_the_way(p, &n, p->entry[e]);
    for (uint32_t w = (i + 1) / 64; w * 64 < end; w++) {
        uint64_t bits = p->placed[w];
        if (w == (i + 1) / 64)
            bits &= ~UINT64_C(0) << (i + 1) % 64;
        for (; bits != 0; bits &= bits - 1) {
            uint32_t k = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (k < end)
                in_the_way(p, &n, k);
        }
    }
    p->pairs += n + (end - i) / 64;
    return n;
}

static int compare_ranges(const void *a, const void *b) {
    const range *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* The first position whose item is born at the death of item i or later. */
static uint32_t end_of(const packer *p, uint32_t i) {
    uint32_t low = i + 1, high = p->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->item[middle].birth < p->item[i].death)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void place_lowest(packer *p, uint32_t i) {
    uint32_t end = end_of(p, i), n = conflicts(p, i, end);
    uint64_t at = 0, size = p->item[i].size;
    qsort(p->hole, n, sizeof *p->hole, compare_ranges);
    for (uint32_t k = 0; k < n && p->hole[k].from < at + size; k++)
        at = p->hole[k].to > at ? p->hole[k].to : at;
    p->offset[i] = at;
    if (at + size > p->height)
        p->height = at + size;
    enter(p, i, end);
}

/* False when it would look at more pairs than that. */
static bool place_in_order(packer *p, uint64_t most) {
    uint64_t before = p->pairs;
    forget(p);
    for (uint32_t k = 0; k < p->n; k++) {
        place_lowest(p, p->order[k]);
        if (p->pairs - before > most)
            return false;
    }
    return true;
}

typedef enum ranking { BY_SIZE, BY_DURATION, BY_AREA, RANKINGS } ranking;

static const char *const ranking_names[] = { "largest first", "longest first",
                                             "largest size x duration first" };

typedef struct ranked {
    double first, second;
    uint32_t item;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->first != y->first)
        return x->first > y->first ? -1 : 1;
    if (x->second != y->second)
        return x->second > y->second ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static mt_status rank(packer *p, ranking by, mt_error *err) {
    ranked *r = malloc((p->n + 1) * sizeof *r);
    if (r == NULL)
        return mt_no_memory(err, "a packing");
    for (uint32_t i = 0; i < p->n; i++) {
        double size = (double)p->item[i].size;
        double life = (double)p->item[i].death - (double)p->item[i].birth;
        r[i].first = by == BY_SIZE ? size : by == BY_DURATION ? life : size * life;
        r[i].second = by == BY_SIZE ? life : size;
        r[i].item = i;
    }
    qsort(r, p->n, sizeof *r, compare_ranked);
    for (uint32_t i = 0; i < p->n; i++)
        p->order[i] = r[i].item;
    free(r);
    return MT_OK;
}

/* ---- local search ---------------------------------------------------------------------------- */

static uint32_t random_below(uint64_t *seed, uint32_t n) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*seed >> 33) % n);
}

/* The place in the order of an item that reaches the top; the first one after a random start. */
static uint32_t at_the_top(const packer *p, uint64_t *seed) {
    uint32_t start = random_below(seed, p->n);
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t at = (start + k) % p->n, i = p->order[at];
        if (p->offset[i] + p->item[i].size == p->height)
            return at;
    }
    return 0;
}

static void move(uint32_t *order, uint32_t from, uint32_t to) {
    uint32_t value = order[from];
    if (from < to)
        memmove(order + from, order + from + 1, (to - from) * sizeof *order);
    else
        memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = value;
}

/* Moves that make it no worse stay; others are undone. */
static void search(packer *p) {
    uint64_t seed = p->n, now = 0, begin = p->pairs;
    if (!place_in_order(p, SEARCH_PAIRS / 8))
        return;
    now = p->height;
    for (int t = 0; t < SEARCH_TRIES && !done(p) && p->pairs - begin < SEARCH_PAIRS; t++) {
        uint32_t from = at_the_top(p, &seed), to = random_below(&seed, from + 1);
        move(p->order, from, to);
        if (place_in_order(p, UINT64_MAX) && p->height <= now) {
            now = p->height;
            keep(p, "local search");
            continue;
        }
        move(p->order, to, from);
        place_in_order(p, UINT64_MAX);
    }
}

static mt_status offline(packer *p, mt_error *err) {
    uint64_t least = UINT64_MAX;
    ranking best = BY_SIZE;
    for (int by = 0; by < RANKINGS && !done(p); by++) {
        MT_TRY(rank(p, (ranking)by, err));
        if (!place_in_order(p, ORDER_PAIRS))
            continue;
        keep(p, ranking_names[by]);
        if (p->height < least) {
            least = p->height;
            best = (ranking)by;
        }
    }
    if (done(p) || least == UINT64_MAX)
        return MT_OK;
    MT_TRY(rank(p, best, err));
    search(p);
    return MT_OK;
}

/* ---- every order ----------------------------------------------------------------------------- */

/* Places the items left, one after the other, in every order. Sorted by place, an optimal packing
 * is an order in which each item's lowest place is not above its own there: so one of them finds
 * the optimum. */
static void every_order(packer *p, uint32_t k) {
    for (uint32_t other = k; other < p->n && !done(p); other++) {
        uint32_t i = p->order[other];
        p->order[other] = p->order[k];
        p->order[k] = i;
        if (k + 1 == p->n) {
            place_in_order(p, UINT64_MAX);
            keep(p, "every order");
        } else {
            every_order(p, k + 1);
        }
        p->order[k] = p->order[other];
        p->order[other] = i;
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static mt_status open_packer(packer *p, mt_error *err) {
    size_t n = p->n + 1, depth = 2;
    for (p->leaves = 1; p->leaves < p->n + 1; p->leaves *= 2)
        depth += 2;
    p->offset = malloc(n * sizeof *p->offset);
    p->by_death = malloc(n * sizeof *p->by_death);
    p->order = malloc(n * sizeof *p->order);
    p->hole = malloc(n * sizeof *p->hole);
    p->head = malloc(2 * (size_t)p->leaves * sizeof *p->head);
    p->next = malloc(n * depth * sizeof *p->next);
    p->entry = malloc(n * depth * sizeof *p->entry);
    p->placed = malloc((n / 64 + 1) * sizeof *p->placed);
    if (p->offset && p->by_death && p->order && p->hole && p->head && p->next && p->entry &&
        p->placed)
        return sort_deaths(p->item, p->n, p->by_death, err);
    return mt_no_memory(err, "a packing");
}

static void close_packer(packer *p) {
    free(p->offset);
    free(p->by_death);
    free(p->order);
    free(p->hole);
    free(p->head);
    free(p->next);
    free(p->entry);
    free(p->placed);
}

static mt_status pack(packer *p, mt_error *err) {
    MT_TRY(open_packer(p, err));
    p->best->low = p->low = peak(p);
    p->best->height = UINT64_MAX;
    online(p, false);
    if (!done(p))
        online(p, true);
    if (!done(p))
        MT_TRY(offline(p, err));
    if (!done(p) && p->n <= ALL_ORDERS) {
        for (uint32_t i = 0; i < p->n; i++)
            p->order[i] = i;
        every_order(p, 0);
    }
    p->best->exact = done(p) || p->n <= ALL_ORDERS;
    return mt_pack_check(p->item, p->n, p->best_offset, p->best->height, err);
}

mt_status mt_pack(const mt_pack_item *item, uint32_t n, uint64_t *offset, mt_pack_result *out,
                  mt_error *err) {
    packer p = { .item = item, .n = n, .best_offset = offset, .best = out };
    *out = (mt_pack_result){ .exact = true, .how = "nothing to pack" };
    if (n == 0)
        return MT_OK;
    mt_status status = pack(&p, err);
    close_packer(&p);
    return status == MT_OK && mt_interrupted() ? mt_fail(err, MT_INTERRUPTED, "interrupted")
                                               : status;
}
