/* lifetimes.c - see lifetimes.h. */
#include "traces/lifetimes.h"

#include <stdlib.h>

mt_status mt_lifetimes_add(mt_lifetimes *l, uint64_t begin, uint64_t end, uint64_t bytes,
                           mt_error *err) {
    if (begin >= end || bytes == 0)
        return mt_reader_bad(&l->base, err, "expected an end after the beginning, and bytes");
    if (l->base.line >= UINT32_MAX)
        return mt_reader_bad(&l->base, err, "expected fewer than %u lines", UINT32_MAX);
    mt_lifetime *more = mt_array_push(&l->of);
    if (more == NULL)
        return mt_no_memory(err, "reading a recording");
    *more = (mt_lifetime){ begin, end, bytes, (uint32_t)l->base.line, 0 };
    return MT_OK;
}

/* By time, then in the order of the file, which is that of the indices. */
static int order(uint64_t x, uint64_t y, uint32_t i, uint32_t j) {
    return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

static int by_begin(const void *a, const void *b, void *list) {
    const mt_lifetime *of = list;
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return order(of[i].begin, of[j].begin, i, j);
}

static int by_end(const void *a, const void *b, void *list) {
    const mt_lifetime *of = list;
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return order(of[i].end, of[j].end, i, j);
}

/* The indices in an order; NULL when there is no memory. */
static uint32_t *sorted(mt_lifetimes *l, int (*compare)(const void *, const void *, void *)) {
    uint32_t *index = calloc(l->of.count, sizeof *index);
    for (size_t i = 0; index != NULL && i < l->of.count; i++)
        index[i] = (uint32_t)i;
    if (index != NULL)
        qsort_r(index, l->of.count, sizeof *index, compare, l->of.at);
    return index;
}

static mt_status sort(mt_lifetimes *l, mt_error *err) {
    l->ready = true;
    if (l->of.count == 0)
        return MT_OK;
    l->by_begin = sorted(l, by_begin);
    l->by_end = sorted(l, by_end);
    l->spare = calloc(l->of.count, sizeof *l->spare);
    return l->by_begin != NULL && l->by_end != NULL && l->spare != NULL
               ? MT_OK
               : mt_no_memory(err, "reading a recording");
}

/* As many numbers are out as requests are live: with none to spare, the next is the count. */
static uint32_t number(mt_lifetimes *l) {
    return l->spares > 0 ? l->spare[--l->spares] : (uint32_t)(l->begun - l->ended);
}

mt_status mt_lifetimes_next(mt_lifetimes *l, mt_item *item, mt_error *err) {
    if (!l->ready)
        MT_TRY(sort(l, err));
    size_t n = l->of.count;
    if (l->ended == n)
        return MT_OK;
    size_t first = l->by_end[l->ended], next = l->by_begin[l->begun < n ? l->begun : 0];
    bool alloc = l->begun < n && l->of.at[next].begin < l->of.at[first].end;
    mt_lifetime *of = &l->of.at[alloc ? next : first];
    l->base.line = of->line;
    item->kind = alloc ? MT_ITEM_ALLOC : MT_ITEM_FREE;
    item->id = alloc ? next : first;
    if (alloc) {
        of->live = number(l);
        item->bytes = of->bytes;
        l->begun++;
    } else {
        l->spare[l->spares++] = of->live;
        l->ended++;
    }
    item->live = of->live;
    return MT_OK;
}

void mt_lifetimes_close(mt_reader *r) {
    mt_lifetimes *l = (mt_lifetimes *)r;
    mt_array_free(&l->of);
    free(l->by_begin);
    free(l->by_end);
    free(l->spare);
}
