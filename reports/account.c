/* account.c - see account.h. */
#include "reports/account.h"

#include <stdlib.h>

#include "base/size.h"

#define LARGE_PAGE (20 * MT_MIB) /* of expandable segments */
#define SMALL_PAGE (2 * MT_MIB)

/* What tells one row from another. */
typedef struct row_key {
    uint64_t stream;
    uint32_t pool, large;
} row_key;

/* Rows are numbered as keys. */
static mt_account_row *row_of(mt_account *a, mt_intern *keys, const mt_snapshot_segment *g) {
    const row_key key = { g->stream, g->pool, g->large };
    uint32_t id;
    if (!mt_intern_add(keys, &key, sizeof key, &id))
        return NULL;
    if (id < a->rows.count)
        return &a->rows.at[id];
    mt_account_row *r = mt_array_push(&a->rows);
    if (r != NULL)
        *r = (mt_account_row){ .stream = g->stream, .pool = g->pool, .large = g->large };
    return r;
}

/* Bytes of whole pages in a free block of an expandable segment. */
static uint64_t pages(const mt_snapshot_segment *g, const mt_snapshot_block *b) {
    uint64_t page = g->large ? LARGE_PAGE : SMALL_PAGE;
    uint64_t first = mt_round_up(b->address - g->address, page);
    uint64_t end = (b->address - g->address + b->size) / page * page;
    return end > first ? end - first : 0;
}

static void count_live(mt_account *a, mt_share *s, mt_pinned *p, const mt_view *v, uint32_t i,
                       const mt_alloc *rules) {
    const mt_snapshot_block *b = &v->blocks[i];
    bool told = b->requested != MT_SNAPSHOT_NONE && b->requested <= b->size;
    uint64_t requested = told ? b->requested : b->size;
    uint64_t rounded = told ? mt_alloc_roundup(rules, requested) : b->size;
    if (rounded > b->size)
        rounded = b->size;
    s->live++;
    s->requested += requested;
    s->rounding += b->size - requested;
    if (b->state == MT_BLOCK_PENDING)
        s->pending += b->size;
    a->by_rule += rounded - requested;
    a->unsplit += b->size - rounded;
    a->requests_told &= told;
    if (p->live++ == 0 || b->size > v->blocks[p->holder].size)
        p->holder = i;
    p->held += b->size;
}

static mt_share count_segment(mt_account *a, mt_pinned *p, const mt_view *v,
                              const mt_snapshot_segment *g, const mt_alloc *rules) {
    mt_share s = { .reserved = g->total, .segments = 1, .blocks = g->blocks };
    uint64_t whole = 0, tiled = 0;
    for (uint32_t i = g->first; i < g->first + g->blocks; i++) {
        const mt_snapshot_block *b = &v->blocks[i];
        tiled += b->size;
        if (b->state != MT_BLOCK_FREE) {
            count_live(a, &s, p, v, i, rules);
            continue;
        }
        p->free += b->size;
        p->largest = b->size > p->largest ? b->size : p->largest;
        whole += g->expandable ? pages(g, b) : 0;
    }
    if (g->blocks == 0) { /* a file without blocks */
        p->free = p->largest = g->total;
        tiled = g->total;
    }
    a->untiled += tiled != g->total;
    s.reserved = tiled;
    s.largest = p->largest;
    *(p->live > 0 ? &s.split : &s.cached) = p->free;
    a->unmappable += p->live > 0 ? whole : 0;
    a->dormant += p->live > 0 && !g->expandable ? p->free : 0;
    return s;
}

static void add(mt_share *to, const mt_share *s) {
    to->reserved += s->reserved;
    to->requested += s->requested;
    to->rounding += s->rounding;
    to->split += s->split;
    to->cached += s->cached;
    to->pending += s->pending;
    to->segments += s->segments;
    to->blocks += s->blocks;
    to->live += s->live;
    to->largest = s->largest > to->largest ? s->largest : to->largest;
}

static int by_reserved(const void *x, const void *y) {
    const mt_account_row *a = x, *b = y;
    return (a->share.reserved < b->share.reserved) - (a->share.reserved > b->share.reserved);
}

static int by_free(const void *x, const void *y) {
    const mt_pinned *a = x, *b = y;
    if (a->free != b->free)
        return (a->free < b->free) - (a->free > b->free);
    return (a->segment > b->segment) - (a->segment < b->segment);
}

static mt_status add_segment(mt_account *out, mt_intern *keys, const mt_view *v, uint32_t i,
                             const mt_alloc *rules, mt_error *err) {
    mt_pinned p = { .segment = i };
    mt_share s = count_segment(out, &p, v, &v->segments.at[i], rules);
    mt_account_row *row = row_of(out, keys, &v->segments.at[i]);
    if (row == NULL)
        return mt_no_memory(err, "the report");
    add(&row->share, &s);
    add(&out->total, &s);
    if (s.split == 0)
        return MT_OK;
    mt_pinned *pinned = mt_array_push(&out->pinned);
    if (pinned == NULL)
        return mt_no_memory(err, "the report");
    *pinned = p;
    return MT_OK;
}

mt_status mt_account_make(mt_account *out, const mt_view *v, const mt_alloc *rules, mt_error *err) {
    *out = (mt_account){ .requests_told = true };
    mt_intern keys = { 0 };
    mt_status status = MT_OK;
    for (size_t i = 0; i < v->segments.count && status == MT_OK; i++)
        status = add_segment(out, &keys, v, (uint32_t)i, rules, err);
    mt_intern_free(&keys);
    MT_TRY(status);
    out->active = out->total.requested + out->total.rounding;
    out->allocated = out->active - out->total.pending;
    if (out->rows.count > 0)
        qsort(out->rows.at, out->rows.count, sizeof *out->rows.at, by_reserved);
    if (out->pinned.count > 0)
        qsort(out->pinned.at, out->pinned.count, sizeof *out->pinned.at, by_free);
    return MT_OK;
}

void mt_account_free(mt_account *a) {
    mt_array_free(&a->rows);
    mt_array_free(&a->pinned);
}

mt_figures mt_account_figures(const mt_account *a) {
    uint64_t reserved = a->total.reserved, free = a->total.split + a->total.cached;
    mt_figures f = { 0, 0, 0 };
    if (reserved > 0) {
        f.idle = 1 - (double)a->active / (double)reserved;
        f.captive = (double)(a->total.split - a->unmappable) / (double)reserved;
    }
    if (free > 0)
        f.scattered = 1 - (double)a->total.largest / (double)free;
    return f;
}
