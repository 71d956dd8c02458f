/* core.c - see core.h. */
#include "alloc/core.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/size.h"

#define CHUNK_BLOCKS 256
#define FIRST_VADDR  UINT64_C(0x7f0000000000)

typedef struct mt_chunk {
    struct mt_chunk *next;
    mt_block block[CHUNK_BLOCKS];
} mt_chunk;

void mt_core_init(mt_core *c, const mt_owner *owner, mt_source *source) {
    *c = (mt_core){ .owner = *owner, .source = source, .next_vaddr = FIRST_VADDR };
}

static void unlink_segment(mt_core *c, mt_segment *s) {
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        c->first = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    else
        c->last = s->prev;
}

/* Pages are mapped and unmapped one by one: each is a piece of its own to the source. */
static void unmap_pages(mt_core *c, const mt_segment *s, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to; at += s->page)
        c->source->unmap(c->source, s->base, at, s->page);
}

/* All of them or none. */
static mt_status map_pages(mt_core *c, const mt_segment *s, uint64_t from, uint64_t to,
                           mt_error *err) {
    uint64_t left = c->source->capacity - c->source->used;
    if (to - from > left)
        return mt_fail(err, MT_NO_MEMORY, "%s: cannot map %" PRIu64 " bytes, %" PRIu64 " are free",
                       c->source->name, to - from, left);
    for (uint64_t at = from; at < to; at += s->page) {
        mt_status status = c->source->map(c->source, s->base, at, s->page, err);
        if (status != MT_OK) {
            unmap_pages(c, s, from, at);
            return status;
        }
    }
    return MT_OK;
}

/* Returns a segment's memory to the source, mapped pages and range if it is growable. */
static void return_memory(mt_core *c, mt_segment *s) {
    if (s->page == 0) {
        c->source->give(c->source, s->base, s->bytes);
        return;
    }
    /* Whole runs of mapped blocks: pages begin and end with a run, not with a block. */
    for (mt_block *b = s->first; b != NULL; b = b->next) {
        uint64_t from = b->offset;
        if (!b->mapped)
            continue;
        while (b->next != NULL && b->next->mapped)
            b = b->next;
        unmap_pages(c, s, from, b->offset + b->size);
    }
    c->source->release(c->source, s->base, s->bytes);
}

void mt_core_free(mt_core *c) {
    while (c->first != NULL) {
        mt_segment *s = c->first;
        return_memory(c, s);
        unlink_segment(c, s);
        free(s);
    }
    while (c->chunks != NULL) {
        mt_chunk *chunk = c->chunks;
        c->chunks = chunk->next;
        free(chunk);
    }
    mt_array_free(&c->free_slots);
}

/* ---- records --------------------------------------------------------------------------------- */

mt_status mt_core_spare(mt_core *c, uint32_t n, mt_error *err) {
    while (c->spares < n) {
        mt_chunk *chunk = malloc(sizeof *chunk);
        if (chunk == NULL)
            return mt_no_memory(err, "the records of blocks");
        chunk->next = c->chunks;
        c->chunks = chunk;
        for (int i = CHUNK_BLOCKS - 1; i >= 0; i--) {
            chunk->block[i].next = c->spare;
            c->spare = &chunk->block[i];
        }
        c->spares += CHUNK_BLOCKS;
    }
    return MT_OK;
}

static mt_block *new_block(mt_core *c) {
    mt_block *b = c->spare;
    c->spare = b->next;
    c->spares--;
    b->prev = b->next = NULL;
    b->offset = 0;
    b->stream = b->live = b->events = b->users = 0;
    b->used = b->mapped = b->allocated = false;
    b->requested = b->search = 0;
    b->birth = c->births++;
    return b;
}

static void drop_block(mt_core *c, mt_block *b) {
    b->next = c->spare;
    c->spare = b;
    c->spares++;
}

/* ---- virtual addresses and slots ------------------------------------------------------------- */

/* The lowest gap between held segments that fits; linear, for replays that ask for it. */
static uint64_t lowest_gap(const mt_core *c, uint64_t bytes) {
    uint64_t at = FIRST_VADDR;
    for (bool moved = true; moved;) {
        moved = false;
        for (const mt_segment *s = c->first; s != NULL; s = s->next) {
            uint64_t end = s->vaddr + mt_round_up(s->bytes, 2 * MT_MIB);
            if (s->vaddr < at + bytes && at < end) {
                at = end;
                moved = true;
            }
        }
    }
    return at;
}

static uint64_t new_vaddr(mt_core *c, uint64_t bytes) {
    uint64_t size = mt_round_up(bytes, 2 * MT_MIB), at = c->next_vaddr;
    switch (c->addresses) {
    case MT_ADDRESSES_UP:
        c->next_vaddr += size;
        return at;
    case MT_ADDRESSES_DOWN:
        c->next_vaddr -= size;
        return c->next_vaddr;
    default:
        return lowest_gap(c, size);
    }
}

static uint32_t new_slot(mt_core *c) {
    return c->free_slots.count > 0 ? c->free_slots.at[--c->free_slots.count] : c->next_slot++;
}

static void drop_slot(mt_core *c, const mt_segment *s) {
    c->free_slots.at[c->free_slots.count++] = s->slot;
}

/* Room for one slot more, and for every slot to be free at once: giving one back cannot fail. */
static mt_status slot_room(mt_core *c, mt_error *err) {
    return mt_array_reserve(&c->free_slots, (size_t)c->next_slot + 1)
               ? MT_OK
               : mt_no_memory(err, "the numbers of segments");
}

/* ---- segments -------------------------------------------------------------------------------- */

static void tell(mt_core *c, char op, uint32_t segment, uint64_t offset, uint64_t bytes) {
    if (c->driver.on_call != NULL)
        c->driver.on_call(c->driver.context, op, segment, offset, bytes);
}

/* Enters a segment of one block, which covers it. */
static mt_block *enter(mt_core *c, mt_segment *s, bool mapped) {
    mt_block *b = new_block(c);
    s->number = c->next_number++;
    s->slot = mapped ? new_slot(c) : 0;
    s->vaddr = new_vaddr(c, s->bytes);
    s->prev = c->last;
    if (c->last != NULL)
        c->last->next = s;
    else
        c->first = s;
    c->last = s;
    s->first = b;
    s->mapped = mapped ? s->bytes : 0;
    b->segment = s;
    b->size = s->bytes;
    b->stream = s->stream;
    b->pool = s->pool;
    b->mapped = mapped;
    return b;
}

static mt_status new_segment(mt_core *c, mt_segment **out, uint64_t bytes, mt_pool pool,
                             uint32_t stream, mt_error *err) {
    MT_TRY(mt_core_spare(c, 1, err));
    MT_TRY(slot_room(c, err));
    if (c->next_number == UINT32_MAX)
        return mt_fail(err, MT_BAD, "more than %u segments in one run", UINT32_MAX - 1);
    mt_segment *s = calloc(1, sizeof *s);
    if (s == NULL)
        return mt_no_memory(err, "the record of a segment");
    s->bytes = bytes;
    s->pool = (uint8_t)pool;
    s->stream = stream;
    *out = s;
    return MT_OK;
}

mt_status mt_core_take(mt_core *c, uint64_t bytes, mt_pool pool, uint32_t stream, mt_block **out,
                       mt_error *err) {
    mt_segment *s;
    MT_TRY(new_segment(c, &s, bytes, pool, stream, err));
    mt_status status = c->source->take(c->source, bytes, &s->base, err);
    if (status != MT_OK) {
        tell(c, 'X', 0, 0, bytes);
        free(s);
        return status;
    }
    *out = enter(c, s, true);
    c->reserved += bytes;
    tell(c, 'M', s->number, 0, bytes);
    mt_send_segment(c, MT_EV_SEGMENT_ALLOC, s->number, s->slot, s->pool, 0, bytes);
    return MT_OK;
}

/* Takes a segment out of the list, and frees its record and its slot (a growable one has none by
 * then). */
static void leave(mt_core *c, mt_segment *s) {
    drop_block(c, s->first);
    unlink_segment(c, s);
    if (s->page == 0)
        drop_slot(c, s);
    free(s);
}

void mt_core_give(mt_core *c, mt_block *b) {
    mt_segment *s = b->segment;
    mt_segment gone = *s;
    c->source->give(c->source, s->base, s->bytes);
    c->reserved -= s->bytes;
    tell(c, 'F', s->number, 0, s->bytes);
    leave(c, s);
    mt_send_segment(c, MT_EV_SEGMENT_FREE, gone.number, gone.slot, gone.pool, 0, gone.bytes);
}

mt_status mt_core_reserve(mt_core *c, uint64_t bytes, uint64_t page, mt_pool pool, uint32_t stream,
                          mt_block **out, mt_error *err) {
    mt_segment *s;
    MT_TRY(new_segment(c, &s, bytes, pool, stream, err));
    mt_status status = c->source->reserve(c->source, bytes, &s->base, err);
    if (status != MT_OK) {
        free(s);
        return status;
    }
    s->page = page;
    *out = enter(c, s, false);
    tell(c, 'R', s->number, 0, bytes);
    return MT_OK;
}

void mt_core_release(mt_core *c, mt_block *b) {
    mt_segment *s = b->segment;
    c->source->release(c->source, s->base, s->bytes);
    tell(c, 'A', s->number, 0, s->bytes);
    leave(c, s);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A new record for the first size bytes of b, which keeps the rest. */
mt_block *mt_core_split(mt_core *c, mt_block *b, uint64_t size) {
    mt_block *low = new_block(c);
    low->segment = b->segment;
    low->offset = b->offset;
    low->size = size;
    low->stream = b->stream;
    low->pool = b->pool;
    low->mapped = b->mapped;
    low->prev = b->prev;
    low->next = b;
    if (b->prev != NULL)
        b->prev->next = low;
    else
        b->segment->first = low;
    b->prev = low;
    b->offset += size;
    b->size -= size;
    return low;
}

/* A new record for what follows the first size bytes of b, which keeps those. */
static mt_block *split_rest(mt_core *c, mt_block *b, uint64_t size) {
    mt_block *rest = new_block(c);
    rest->segment = b->segment;
    rest->offset = b->offset + size;
    rest->size = b->size - size;
    rest->stream = b->stream;
    rest->pool = b->pool;
    rest->mapped = b->mapped;
    rest->prev = b;
    rest->next = b->next;
    if (b->next != NULL)
        b->next->prev = rest;
    b->next = rest;
    b->size = size;
    return rest;
}

void mt_core_merge(mt_core *c, mt_block *b, mt_block *other) {
    if (b->prev == other) {
        b->offset = other->offset;
        b->prev = other->prev;
        if (b->prev != NULL)
            b->prev->next = b;
        else
            b->segment->first = b;
    } else {
        b->next = other->next;
        if (b->next != NULL)
            b->next->prev = b;
    }
    b->size += other->size;
    drop_block(c, other);
}

mt_status mt_core_map(mt_core *c, mt_block *b, uint64_t bytes, mt_block **rest, mt_error *err) {
    mt_segment *s = b->segment;
    uint64_t n = mt_round_up(bytes, s->page);
    MT_TRY(slot_room(c, err));
    mt_status status = map_pages(c, s, b->offset, b->offset + n, err);
    if (status != MT_OK) {
        tell(c, 'x', s->number, b->offset, s->page);
        return status;
    }
    *rest = n < b->size ? split_rest(c, b, n) : NULL;
    b->mapped = true;
    if (s->mapped == 0)
        s->slot = new_slot(c);
    s->mapped += n;
    c->reserved += n;
    tell(c, 'P', s->number, b->offset, n);
    mt_send_segment(c, MT_EV_SEGMENT_MAP, s->number, s->slot, s->pool, b->offset, n);
    return MT_OK;
}

bool mt_core_unmap(mt_core *c, mt_block *b, mt_block **head, mt_block **tail) {
    mt_segment *s = b->segment;
    uint64_t from = mt_round_up(b->offset, s->page);
    uint64_t to = (b->offset + b->size) / s->page * s->page;
    *head = *tail = NULL;
    if (from >= to)
        return false;
    if (from > b->offset)
        *head = mt_core_split(c, b, from - b->offset);
    if (to < b->offset + b->size)
        *tail = split_rest(c, b, to - from);
    unmap_pages(c, s, from, to);
    b->mapped = false;
    s->mapped -= to - from;
    c->reserved -= to - from;
    tell(c, 'U', s->number, from, to - from);
    mt_send_segment(c, MT_EV_SEGMENT_UNMAP, s->number, s->slot, s->pool, from, to - from);
    if (s->mapped == 0)
        drop_slot(c, s);
    return true;
}

/* ---- the full walk --------------------------------------------------------------------------- */

static mt_block_state state_of(const mt_block *b) {
    if (b->used)
        return b->allocated ? MT_BLOCK_ACTIVE : MT_BLOCK_PENDING;
    return b->mapped ? MT_BLOCK_FREE : MT_BLOCK_UNMAPPED;
}

static mt_block_info view_block(const mt_block *b) {
    return (mt_block_info){ .offset = b->offset,
                            .size = b->size,
                            .requested = b->requested,
                            .order = b->order,
                            .id = MT_NO_ID,
                            .state = state_of(b),
                            .stream = b->stream,
                            .live = b->live,
                            .layer = -1,
                            .tag = MT_OTHER };
}

mt_status mt_core_walk(const mt_core *c, const mt_visitor *v, mt_error *err) {
    for (const mt_segment *s = c->first; s != NULL; s = s->next) {
        mt_segment_info segment = mt_segment_view(s);
        MT_TRY(mt_visit_segment(v, &segment, err));
        for (const mt_block *b = s->first; b != NULL; b = b->next) {
            mt_block_info block = view_block(b);
            MT_TRY(v->block(v->context, &segment, &block, err));
        }
    }
    return MT_OK;
}

mt_status mt_core_check_merged(const mt_core *c, mt_error *err) {
    for (const mt_segment *s = c->first; s != NULL; s = s->next)
        for (const mt_block *b = s->first; b != NULL && b->next != NULL; b = b->next)
            if (!b->used && !b->next->used && b->mapped == b->next->mapped)
                return mt_fail(err, MT_CHECK,
                               "segment %u: the free blocks at %" PRIu64 " and %" PRIu64
                               " are neighbours and not merged",
                               s->number, b->offset, b->next->offset);
    return MT_OK;
}

uint64_t mt_core_largest_free(const mt_core *c, uint32_t stream, uint8_t pool) {
    uint64_t largest = 0;
    for (const mt_segment *s = c->first; s != NULL; s = s->next)
        for (const mt_block *b = s->first; b != NULL; b = b->next)
            if (!b->used && b->mapped && b->stream == stream && b->pool == pool &&
                b->size > largest)
                largest = b->size;
    return largest;
}
