/* heap.c - see heap.h. */
#include "traces/heap.h"

#include <string.h>

#include "base/size.h"

/* A remainder of a large block is kept as a free one when it is larger than this. */
#define LARGE_REST MT_MIB
#define SMALL_REST 512

/* Searches are rare in what an allocator recorded. What takes more steps than this is no such
 * thing, and no longer followed. */
#define MOST_EFFORT 200000000

static mt_status no_memory(mt_error *err) {
    return mt_no_memory(err, "following the events");
}

static inline mt_heap_block *block_at(mt_heap *h, uint32_t number) {
    return &h->block.at[number];
}

static inline mt_heap_segment *segment_at(mt_heap *h, uint32_t number) {
    return &h->segment.at[number];
}

void mt_heap_open(mt_heap *h, const mt_alloc *rules, uint64_t max_split) {
    *h = (mt_heap){ .rules = rules, .max_split = max_split };
}

void mt_heap_close(mt_heap *h) {
    mt_array_free(&h->block);
    mt_array_free(&h->segment);
    mt_map_free(&h->begins);
    mt_map_free(&h->ends);
}

/* ---- records --------------------------------------------------------------------------------- */

static mt_status odd(mt_heap *h) {
    h->odd++;
    return MT_OK;
}

/* A new record, all zero; *number. */
static bool new_block(mt_heap *h, uint32_t *number) {
    if (h->spare_block != 0) {
        *number = h->spare_block;
        h->spare_block = block_at(h, *number)->next;
    } else {
        size_t n = h->block.count > 0 ? h->block.count : 1;
        if (n >= UINT32_MAX || !mt_array_extend(&h->block, n + 1))
            return false;
        *number = (uint32_t)n;
    }
    *block_at(h, *number) = (mt_heap_block){ .state = MT_BLOCK_FREE };
    return true;
}

static bool new_segment(mt_heap *h, uint32_t *number) {
    if (h->spare_segment != 0) {
        *number = h->spare_segment;
        h->spare_segment = segment_at(h, *number)->first;
    } else {
        size_t n = h->segment.count > 0 ? h->segment.count : 1;
        if (n >= UINT32_MAX || !mt_array_extend(&h->segment, n + 1))
            return false;
        *number = (uint32_t)n;
    }
    return true;
}

/* Takes a block out of its segment's list; its record is spare from now on. */
static void drop_block(mt_heap *h, uint32_t number) {
    mt_heap_block *b = block_at(h, number);
    mt_heap_segment *g = segment_at(h, b->segment);
    *(b->prev != 0 ? &block_at(h, b->prev)->next : &g->first) = b->next;
    *(b->next != 0 ? &block_at(h, b->next)->prev : &g->last) = b->prev;
    g->blocks--;
    mt_map_remove(&h->begins, b->address);
    b->next = h->spare_block;
    h->spare_block = number;
}

static void drop_segment(mt_heap *h, uint32_t number) {
    mt_heap_segment *g = segment_at(h, number);
    mt_map_remove(&h->ends, g->address + g->size);
    while (g->first != 0)
        drop_block(h, g->first);
    *g = (mt_heap_segment){ .first = h->spare_segment };
    h->spare_segment = number;
}

/* Cuts a block in two: the front has size bytes, the back is a new free one, *back. */
static bool cut(mt_heap *h, uint32_t front, uint64_t size, uint32_t *back) {
    uint64_t address = block_at(h, front)->address + size;
    if (!new_block(h, back))
        return false;
    if (!mt_map_set(&h->begins, address, *back)) {
        block_at(h, *back)->next = h->spare_block;
        h->spare_block = *back;
        return false;
    }
    mt_heap_block *f = block_at(h, front), *b = block_at(h, *back);
    mt_heap_segment *g = segment_at(h, f->segment);
    *b =
        (mt_heap_block){ address, f->size - size, 0, front, f->next, f->segment, 0, MT_BLOCK_FREE };
    *(b->next != 0 ? &block_at(h, b->next)->prev : &g->last) = *back;
    f->next = *back;
    f->size = size;
    g->blocks++;
    return true;
}

/* Joins a free block with the one behind it, if that is free. */
static void merge_next(mt_heap *h, uint32_t number) {
    mt_heap_block *b = block_at(h, number);
    if (b->next == 0 || b->state != MT_BLOCK_FREE || block_at(h, b->next)->state != MT_BLOCK_FREE)
        return;
    b->size += block_at(h, b->next)->size;
    drop_block(h, b->next);
}

/* ---- searching ------------------------------------------------------------------------------- */

/* The segment that holds an address; 0: none. */
static uint32_t segment_of(mt_heap *h, uint64_t address) {
    for (uint32_t i = 1; i < h->segment.count && h->effort < MOST_EFFORT; i++, h->effort++) {
        const mt_heap_segment *g = segment_at(h, i);
        if (address >= g->address && address - g->address < g->size)
            return i;
    }
    return 0;
}

/* The block that holds an address; 0: none. */
static uint32_t block_of(mt_heap *h, uint64_t address) {
    const uint64_t *begins = mt_map_find(&h->begins, address);
    if (begins != NULL)
        return (uint32_t)*begins;
    uint32_t g = segment_of(h, address), b = g != 0 ? segment_at(h, g)->first : 0;
    while (b != 0 && address - block_at(h, b)->address >= block_at(h, b)->size) {
        b = block_at(h, b)->next;
        h->effort++;
    }
    return b;
}

/* Whether a new segment would lie on what is there: looked for at both of its ends. */
static bool taken(mt_heap *h, const mt_heap_segment *g) {
    return g->size == 0 || g->address > UINT64_MAX - g->size ||
           mt_map_find(&h->begins, g->address) != NULL ||
           mt_map_find(&h->ends, g->address + g->size) != NULL;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Adds a segment; *number 0 when its place is taken. */
static mt_status add(mt_heap *h, const mt_heap_segment *g, uint32_t *number, mt_error *err) {
    uint32_t block;
    *number = 0;
    if (taken(h, g))
        return odd(h);
    if (!new_block(h, &block) || !new_segment(h, number) ||
        !mt_map_set(&h->begins, g->address, block) ||
        !mt_map_set(&h->ends, g->address + g->size, *number))
        return no_memory(err);
    mt_heap_segment *new = segment_at(h, *number);
    *new = *g;
    new->first = new->last = block;
    new->blocks = 1;
    mt_heap_block *b = block_at(h, block);
    b->address = g->address;
    b->size = g->size;
    b->segment = *number;
    return MT_OK;
}

mt_status mt_heap_add_segment(mt_heap *h, const mt_heap_segment *g, mt_error *err) {
    uint32_t number;
    return add(h, g, &number, err);
}

mt_status mt_heap_remove_segment(mt_heap *h, uint64_t address, mt_error *err) {
    const uint64_t *block = mt_map_find(&h->begins, address);
    (void)err;
    if (block == NULL)
        return odd(h);
    const mt_heap_block *b = block_at(h, (uint32_t)*block);
    if (b->prev != 0 || b->next != 0 || b->state != MT_BLOCK_FREE)
        return odd(h);
    drop_segment(h, b->segment);
    return MT_OK;
}

static void set_segment(mt_heap *h, uint32_t first, uint32_t segment) {
    for (uint32_t b = first; b != 0; b = block_at(h, b)->next)
        block_at(h, b)->segment = segment;
}

/* Makes one of two segments that touch, the one of more blocks keeping its number. */
static mt_status join(mt_heap *h, uint32_t low, uint32_t high, mt_error *err) {
    mt_heap_segment *a = segment_at(h, low), *b = segment_at(h, high);
    bool keep_low = a->blocks >= b->blocks;
    uint32_t kept = keep_low ? low : high, gone = keep_low ? high : low, seam = a->last;
    if (!mt_map_set(&h->ends, b->address + b->size, kept))
        return no_memory(err);
    mt_map_remove(&h->ends, b->address);
    set_segment(h, keep_low ? b->first : a->first, kept);
    block_at(h, a->last)->next = b->first;
    block_at(h, b->first)->prev = a->last;
    mt_heap_segment *g = segment_at(h, kept);
    *g = (mt_heap_segment){ .address = a->address,
                            .size = a->size + b->size,
                            .stream = g->stream,
                            .first = a->first,
                            .last = b->last,
                            .blocks = a->blocks + b->blocks,
                            .pool = g->pool,
                            .stack = g->stack,
                            .large = g->large,
                            .expandable = true };
    *segment_at(h, gone) = (mt_heap_segment){ .first = h->spare_segment };
    h->spare_segment = gone;
    merge_next(h, seam);
    return MT_OK;
}

/* Whether a segment may grow into pages of this kind. */
static bool same_range(mt_heap *h, uint32_t segment, const mt_heap_segment *g) {
    const mt_heap_segment *other = segment_at(h, segment);
    return other->expandable && other->stream == g->stream && other->pool == g->pool;
}

mt_status mt_heap_map(mt_heap *h, const mt_heap_segment *g, mt_error *err) {
    uint32_t number;
    const uint64_t *low = mt_map_find(&h->ends, g->address);
    uint32_t before = low != NULL ? (uint32_t)*low : 0, after = 0;
    const uint64_t *high = mt_map_find(&h->begins, g->address + g->size);
    if (high != NULL && block_at(h, (uint32_t)*high)->prev == 0)
        after = block_at(h, (uint32_t)*high)->segment;
    MT_TRY(add(h, g, &number, err));
    if (number == 0)
        return MT_OK;
    if (after != 0 && same_range(h, after, g)) {
        MT_TRY(join(h, number, after, err));
        number = block_at(h, (uint32_t)*mt_map_find(&h->begins, g->address))->segment;
    }
    return before != 0 && same_range(h, before, g) ? join(h, before, number, err) : MT_OK;
}

/* Makes a segment of its own of what stands from a block on. */
static mt_status split_segment(mt_heap *h, uint32_t block, mt_error *err) {
    uint32_t number;
    if (!new_segment(h, &number))
        return no_memory(err);
    mt_heap_block *b = block_at(h, block);
    mt_heap_segment *old = segment_at(h, b->segment), *new = segment_at(h, number);
    uint64_t end = old->address + old->size;
    if (!mt_map_set(&h->ends, b->address, b->segment))
        return no_memory(err);
    *new = *old;
    new->address = b->address;
    new->size = end - b->address;
    new->first = block;
    new->blocks = 0;
    for (uint32_t i = block; i != 0; i = block_at(h, i)->next, h->effort++)
        new->blocks++;
    old->size -= new->size;
    old->last = b->prev;
    old->blocks -= new->blocks;
    block_at(h, b->prev)->next = 0;
    b->prev = 0;
    set_segment(h, block, number);
    return mt_map_set(&h->ends, end, number) ? MT_OK : no_memory(err);
}

mt_status mt_heap_unmap(mt_heap *h, uint64_t address, uint64_t size, mt_error *err) {
    uint32_t b = block_of(h, address), back;
    if (b == 0 || size == 0 || h->effort >= MOST_EFFORT)
        return odd(h);
    const mt_heap_block *found = block_at(h, b);
    uint64_t before = address - found->address;
    if (found->state != MT_BLOCK_FREE || size > found->size - before ||
        !segment_at(h, found->segment)->expandable)
        return odd(h);
    if (before > 0) {
        if (!cut(h, b, before, &back))
            return no_memory(err);
        b = back;
    }
    if (block_at(h, b)->size > size && !cut(h, b, size, &back))
        return no_memory(err);
    if (block_at(h, b)->next != 0)
        MT_TRY(split_segment(h, block_at(h, b)->next, err));
    if (block_at(h, b)->prev != 0)
        MT_TRY(split_segment(h, b, err));
    drop_segment(h, block_at(h, b)->segment);
    return MT_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The free block that begins at an address. Where one is known to be free from further below, what
 * lies before the address belongs to a block whose length was not known exactly: to the live one
 * before it, or it stays free. 0: there is none. */
static mt_status free_at(mt_heap *h, uint64_t address, uint32_t *out, mt_error *err) {
    uint32_t b = block_of(h, address), back;
    *out = 0;
    if (b == 0 || block_at(h, b)->state != MT_BLOCK_FREE)
        return MT_OK;
    uint64_t before = address - block_at(h, b)->address;
    if (before > 0) {
        if (!cut(h, b, before, &back))
            return no_memory(err);
        uint32_t prev = block_at(h, b)->prev;
        if (prev != 0 && before <= LARGE_REST && segment_at(h, block_at(h, b)->segment)->large) {
            block_at(h, prev)->size += before;
            drop_block(h, b);
        }
        b = back;
    }
    *out = b;
    return MT_OK;
}

/* Bytes of a free block that a request takes. */
static uint64_t length(mt_heap *h, uint32_t block, uint64_t requested) {
    const mt_heap_block *b = block_at(h, block);
    const mt_heap_segment *g = segment_at(h, b->segment);
    uint64_t rounded = mt_alloc_roundup(h->rules, requested);
    if (rounded >= b->size)
        return b->size;
    bool large = g->large && !g->expandable;
    uint64_t rest = b->size - rounded;
    bool splits = large ? rest > LARGE_REST && rounded < h->max_split : rest >= SMALL_REST;
    return splits ? rounded : b->size;
}

mt_status mt_heap_take(mt_heap *h, uint64_t address, uint64_t requested, uint32_t stack,
                       uint32_t *block, mt_error *err) {
    uint32_t rest;
    MT_TRY(free_at(h, address, block, err));
    if (*block == 0 || requested > block_at(h, *block)->size) {
        *block = 0;
        return odd(h);
    }
    uint64_t size = length(h, *block, requested);
    if (size < block_at(h, *block)->size && !cut(h, *block, size, &rest))
        return no_memory(err);
    mt_heap_block *b = block_at(h, *block);
    b->state = MT_BLOCK_ACTIVE;
    b->requested = requested;
    b->stack = stack;
    return MT_OK;
}

mt_status mt_heap_place(mt_heap *h, uint32_t segment, const mt_snapshot_block *from,
                        uint32_t *block, mt_error *err) {
    uint32_t rest;
    *block = segment_at(h, segment)->last;
    const mt_heap_block *last = block_at(h, *block);
    if (last->state != MT_BLOCK_FREE || from->address < last->address ||
        from->size > last->size - (from->address - last->address)) {
        *block = 0;
        return odd(h);
    }
    if (from->address > last->address && !cut(h, *block, from->address - last->address, block))
        return no_memory(err);
    if (from->size < block_at(h, *block)->size && !cut(h, *block, from->size, &rest))
        return no_memory(err);
    mt_heap_block *b = block_at(h, *block);
    b->state = from->state;
    b->requested = from->requested;
    b->stack = from->stack;
    return MT_OK;
}

void mt_heap_release(mt_heap *h, uint32_t block) {
    mt_heap_block *b = block_at(h, block);
    b->state = MT_BLOCK_FREE;
    b->stack = 0;
    merge_next(h, block);
    if (b->prev != 0)
        merge_next(h, b->prev);
}

/* ---- views ----------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const mt_snapshot_segment *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* A block of the heap as a snapshot has it, counted into its segment. */
static void show_block(mt_snapshot_block *to, const mt_heap_block *b, mt_snapshot_segment *g) {
    *to = (mt_snapshot_block){ b->address, b->size, b->requested, b->stack, b->state };
    g->blocks++;
    if (b->state == MT_BLOCK_FREE)
        return;
    g->active += b->size;
    g->requested += b->requested;
    if (b->state == MT_BLOCK_ACTIVE)
        g->allocated += b->size;
}

mt_status mt_view_of_heap(mt_view *out, const mt_heap *h, uint32_t device, mt_error *err) {
    *out = (mt_view){ 0 };
    for (size_t i = 1; i < h->segment.count; i++) {
        const mt_heap_segment *from = &h->segment.at[i];
        if (from->size == 0)
            continue;
        mt_snapshot_segment *g = mt_array_push(&out->segments);
        if (g == NULL || !mt_array_reserve(&out->own, out->own.count + from->blocks))
            return no_memory(err);
        *g = (mt_snapshot_segment){ .address = from->address,
                                    .total = from->size,
                                    .stream = from->stream,
                                    .first = (uint32_t)out->own.count,
                                    .device = device,
                                    .stack = from->stack,
                                    .pool = from->pool,
                                    .large = from->large,
                                    .expandable = from->expandable };
        for (uint32_t b = from->first; b != 0; b = h->block.at[b].next)
            show_block(&out->own.at[out->own.count++], &h->block.at[b], g);
    }
    if (out->segments.count > 0)
        qsort(out->segments.at, out->segments.count, sizeof *out->segments.at, by_address);
    out->blocks = out->own.at;
    return MT_OK;
}

mt_status mt_view_of_snapshot(mt_view *out, const mt_snapshot *s, uint32_t device, mt_error *err) {
    *out = (mt_view){ .blocks = s->blocks.at };
    for (size_t i = 0; i < s->segments.count; i++) {
        if (s->segments.at[i].device != device)
            continue;
        mt_snapshot_segment *g = mt_array_push(&out->segments);
        if (g == NULL)
            return no_memory(err);
        *g = s->segments.at[i];
    }
    if (out->segments.count > 0)
        qsort(out->segments.at, out->segments.count, sizeof *out->segments.at, by_address);
    return MT_OK;
}

void mt_view_free(mt_view *v) {
    mt_array_free(&v->segments);
    mt_array_free(&v->own);
}
