/* expand.c - expandable segments: ranges of addresses whose pages are mapped when needed.
 *
 * New memory for a request goes to the first place, by address, where free and unmapped blocks in a
 * row are large enough; when there is none, a new range is reserved, of 9/8 of the device unless an
 * option says less. A range too small for the request is given back, and the request refused. Pages
 * are mapped from the front of that place until the request fits. Memory goes back by unmapping the
 * whole pages of free blocks; a range without any page left is given up. */
#include "alloc/torch/internal.h"

#include <inttypes.h>

static bool is_free(const mt_block *b) {
    return b != NULL && !b->used;
}

/* Whether the free and unmapped blocks from b on hold size bytes. */
static bool holds(const mt_block *b, uint64_t size) {
    uint64_t sum = 0;
    for (; is_free(b) && sum < size; b = b->next)
        sum += b->size;
    return sum >= size;
}

/* Where to grow for size bytes: an unmapped block, or the free one before it; NULL if nowhere. */
static mt_block *place_to_grow(const torch_pool *p, uint64_t size, uint32_t stream) {
    for (mt_block *u = mt_index_at_least(&p->unmapped, stream, 0); u != NULL && u->stream == stream;
         u = mt_index_next(u)) {
        mt_block *b = is_free(u->prev) ? u->prev : u;
        if (holds(b, size))
            return b;
    }
    return NULL;
}

static mt_status new_range(torch *t, torch_pool *p, uint64_t size, uint32_t stream, mt_block **out,
                           mt_error *err) {
    mt_core *c = &t->base.core;
    uint64_t page = p->pool == MT_POOL_SMALL ? TORCH_SMALL_SEGMENT : t->options.large_segment;
    MT_TRY(mt_core_reserve(c, mt_round_up(t->range, page), page, p->pool, stream, out, err));
    if ((*out)->size < size) {
        mt_core_release(c, *out);
        return mt_fail(err, MT_NO_MEMORY,
                       "torch: %" PRIu64 " bytes are more than a growable segment", size);
    }
    mt_index_insert(&p->unmapped, *out);
    return MT_OK;
}

/* Maps the first bytes of an unmapped block, merges it with free neighbours, puts it in the
 * pool. */
static mt_status map(torch *t, torch_pool *p, mt_block *b, uint64_t bytes, mt_error *err) {
    mt_block *rest;
    uint64_t before = t->base.core.reserved;
    mt_index_remove(&p->unmapped, b);
    mt_status status = mt_core_map(&t->base.core, b, bytes, &rest, err);
    if (status != MT_OK) {
        mt_index_insert(&p->unmapped, b);
        return status;
    }
    if (rest != NULL)
        mt_index_insert(&p->unmapped, rest);
    torch_merge(t, b, b->prev);
    torch_merge(t, b, b->next);
    torch_insert(p, b);
    torch_up(&t->stats, p->pool == MT_POOL_SMALL, MT_TORCH_reserved_bytes,
             t->base.core.reserved - before);
    t->stats.num_device_alloc++;
    return MT_OK;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

mt_status torch_expand(torch *t, torch_pool *p, uint64_t size, uint32_t stream, mt_block **out,
                       mt_error *err) {
    mt_block *b = place_to_grow(p, size, stream);
    if (b == NULL)
        MT_TRY(new_range(t, p, size, stream, &b, err));
    if (!b->mapped)
        MT_TRY(map(t, p, b, least(b->size, size), err));
    while (b->size < size) {
        mt_block *next = b->next; /* unmapped; mapping it makes it absorb b */
        MT_TRY(map(t, p, next, least(size - b->size, next->size), err));
        b = next;
    }
    mt_index_remove(&p->free, b);
    *out = b;
    return MT_OK;
}

void torch_unmap(torch *t, mt_block *b) {
    torch_pool *p = torch_pool_of(t, b);
    mt_core *c = &t->base.core;
    mt_block *head, *tail;
    uint64_t before = c->reserved;
    mt_error err;
    if (mt_core_spare(c, 2 + TORCH_SPARE, &err) != MT_OK) { /* the request may go on after this */
        mt_core_failed(c, "the records of blocks");
        return;
    }
    mt_index_remove(&p->free, b);
    if (!mt_core_unmap(c, b, &head, &tail)) {
        torch_insert(p, b);
        return;
    }
    if (head != NULL)
        torch_insert(p, head);
    if (tail != NULL)
        torch_insert(p, tail);
    torch_merge(t, b, b->prev);
    torch_merge(t, b, b->next);
    torch_down(&t->stats, p->pool == MT_POOL_SMALL, MT_TORCH_reserved_bytes, before - c->reserved);
    t->stats.num_device_free++;
    if (mt_block_whole(b))
        mt_core_release(c, b);
    else
        mt_index_insert(&p->unmapped, b);
}
