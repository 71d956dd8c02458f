/* core.h - segments and blocks: what every policy with blocks of its own is built on.
 *
 * A segment is memory from the source; its blocks tile it, linked as neighbours by address. A free
 * block that may serve a request stands in an index ordered by (stream, size, order, offset), so
 * that the first entry not below (stream, size) is the best fit. The core splits, merges, maps and
 * unmaps, gives segments numbers and virtual addresses, and sends the segment events. What to
 * round, where to look and when to split is the policy's business.
 *
 * Real addresses decide nothing: a run is the same on every source. Records live in this program's
 * own memory; device memory is never read or written here. */
#ifndef MT_ALLOC_CORE_H
#define MT_ALLOC_CORE_H

#include "alloc/source.h"
#include "alloc/walk.h"
#include "base/array.h"

typedef struct mt_segment mt_segment;
typedef struct mt_block mt_block;

struct mt_block {
    mt_block *prev, *next; /* neighbours in the segment */
    mt_segment *segment;
    uint64_t offset, size;
    uint64_t order; /* ranks blocks of one size in the index, see mt_order */
    mt_block *parent, *left, *right;
    uint32_t stream;
    uint32_t live;   /* of the request it serves; meaningless when free */
    uint32_t events; /* torch: streams that its free waits for */
    uint32_t users;  /* torch: entry of its table of using streams, 0 none */
    bool red;        /* the index's balance */
    bool used;       /* it serves a request, pending frees included */
    bool mapped;     /* there is memory behind it */
    bool allocated;  /* used and its free was not asked for */
    uint8_t pool;
    uint64_t birth;     /* number of the record, rising */
    uint64_t requested; /* torch: of the last request this record served (stale when free) */
    uint64_t search;    /* torch: the pool's search counter when it was freed */
};

struct mt_segment {
    mt_segment *prev, *next; /* all held ones, in order of number */
    mt_block *first;
    void *base;      /* from the source */
    uint64_t vaddr;  /* decides order where a policy asks for addresses */
    uint64_t bytes;  /* of the whole; of the reserved range if growable */
    uint64_t mapped; /* bytes with memory behind them */
    uint64_t page;   /* growable: pages are mapped in this size; else 0 */
    uint32_t number; /* in order of creation, from 0 */
    uint32_t slot;   /* while mapped > 0 */
    uint32_t stream;
    uint8_t pool;
};

/* How free blocks of one size are ranked. */
typedef enum mt_order {
    MT_ORDER_SEGMENT, /* by segment number, then offset */
    MT_ORDER_ADDRESS, /* by virtual address */
    MT_ORDER_BIRTH    /* by age of the record */
} mt_order;

/* Where the next segment's virtual address lies. */
typedef enum mt_addresses { MT_ADDRESSES_UP, MT_ADDRESSES_DOWN, MT_ADDRESSES_REUSE } mt_addresses;

/* Free blocks in order: a red-black tree through the blocks themselves. O(log n) to insert and
 * remove, O(log n) to find, O(1) amortised to walk. */
typedef struct mt_index {
    mt_block *root;
    uint64_t count;
    bool by_address; /* ordered by (stream, virtual address) instead */
    mt_order order;
} mt_index;

void mt_index_insert(mt_index *x, mt_block *b);
void mt_index_remove(mt_index *x, mt_block *b);
mt_block *mt_index_first(const mt_index *x);
mt_block *mt_index_last(const mt_index *x);
mt_block *mt_index_next(const mt_block *b);
mt_block *mt_index_prev(const mt_block *b);

/* The first block of (stream, size or more), which may belong to a later stream; NULL when there is
 * none. */
mt_block *mt_index_at_least(const mt_index *x, uint32_t stream, uint64_t size);

/* Hears of what becomes of segments, and of frees that are complete. */
typedef struct mt_owner {
    void *context;
    void (*segment)(void *context, mt_event_kind kind, uint32_t number, uint32_t slot, uint8_t pool,
                    uint64_t offset, uint64_t bytes);
    void (*freed)(void *context, uint32_t live);
    void (*failed)(void *context, const char *what); /* no host memory for it; see mt_core_failed */
} mt_owner;

typedef struct mt_core {
    mt_owner owner;
    mt_source *source;
    mt_segment *first, *last;
    mt_block *spare; /* unused records */
    uint32_t spares;
    struct mt_chunk *chunks; /* the memory of all records */
    uint32_t next_number, next_slot;
    MT_ARRAY(uint32_t) free_slots; /* last in, first out */
    uint64_t births;
    uint64_t next_vaddr;
    mt_addresses addresses;
    uint64_t reserved;         /* bytes held: the policy's own count, for limits */
    mt_driver_listener driver; /* on_call NULL: nobody listens */
} mt_core;

void mt_core_init(mt_core *c, const mt_owner *owner, mt_source *source);

/* Gives every segment back, without events: for closing. */
void mt_core_free(mt_core *c);

/* Makes sure that n records are spare; call before an operation that must not fail half-way. */
mt_status mt_core_spare(mt_core *c, uint32_t n, mt_error *err);

/* A new segment of one free block, not indexed. MT_NO_MEMORY when the source refuses. */
mt_status mt_core_take(mt_core *c, uint64_t bytes, mt_pool pool, uint32_t stream, mt_block **out,
                       mt_error *err);

/* Gives back a segment that is one free block, not indexed. The block is gone. */
void mt_core_give(mt_core *c, mt_block *b);

/* A growable segment: a range of addresses, one unmapped block. */
mt_status mt_core_reserve(mt_core *c, uint64_t bytes, uint64_t page, mt_pool pool, uint32_t stream,
                          mt_block **out, mt_error *err);

/* Maps the first bytes (rounded up to pages) of an unmapped block that stands in no index; the rest
 * becomes an unmapped block of its own, returned in *rest (NULL when none). Needs one spare. */
mt_status mt_core_map(mt_core *c, mt_block *b, uint64_t bytes, mt_block **rest, mt_error *err);

/* Unmaps the whole pages inside a free mapped block that stands in no index. What is left of it at
 * either end becomes a block of its own (*head, *tail; NULL when none); b is the unmapped middle.
 * False, and nothing done, when there is no whole page. Needs two spares. */
bool mt_core_unmap(mt_core *c, mt_block *b, mt_block **head, mt_block **tail);

/* Gives a growable segment back whose only block is unmapped. The block is gone. */
void mt_core_release(mt_core *c, mt_block *b);

/* Splits a block: a new record takes its first size bytes and is returned, the old record keeps the
 * rest. Both free, neither indexed by this call. Needs one spare. */
mt_block *mt_core_split(mt_core *c, mt_block *b, uint64_t size);

/* b absorbs its neighbour other, whose record is gone (the caller took it out of its index). */
void mt_core_merge(mt_core *c, mt_block *b, mt_block *other);

/* Every segment and block; needs no more than the core. */
mt_status mt_core_walk(const mt_core *c, const mt_visitor *v, mt_error *err);

/* Whether every free block that could be merged with a free neighbour is. Not between the events of
 * one operation, so the walk after every event leaves it out. */
mt_status mt_core_check_merged(const mt_core *c, mt_error *err);

/* The largest free block of a stream in a pool; linear, for reports of refusals. */
uint64_t mt_core_largest_free(const mt_core *c, uint32_t stream, uint8_t pool);

/* What a walk says of a segment, and the visitor that hears it. */
static inline mt_segment_info mt_segment_view(const mt_segment *s) {
    return (mt_segment_info){ .bytes = s->bytes,
                              .mapped = s->mapped,
                              .number = s->number,
                              .slot = s->slot,
                              .stream = s->stream,
                              .pool = (mt_pool)s->pool,
                              .growable = s->page != 0 };
}

static inline mt_status mt_visit_segment(const mt_visitor *v, const mt_segment_info *s,
                                         mt_error *err) {
    return v->segment != NULL ? v->segment(v->context, s, err) : MT_OK;
}

/* Tells the owner. */
static inline void mt_send_segment(const mt_core *c, mt_event_kind kind, uint32_t number,
                                   uint32_t slot, uint8_t pool, uint64_t offset, uint64_t bytes) {
    c->owner.segment(c->owner.context, kind, number, slot, pool, offset, bytes);
}

static inline void mt_send_free(const mt_core *c, uint32_t live) {
    c->owner.freed(c->owner.context, live);
}

/* For what cannot return a failure: the operation goes on as well as it can, and the allocator
 * fails from then on. */
static inline void mt_core_failed(const mt_core *c, const char *what) {
    c->owner.failed(c->owner.context, what);
}

/* The device's address of a block, and its virtual one. */
static inline void *mt_block_ptr(const mt_block *b) {
    return (char *)b->segment->base + b->offset;
}

static inline uint64_t mt_block_vaddr(const mt_block *b) {
    return b->segment->vaddr + b->offset;
}

/* A block that is the whole of its segment. */
static inline bool mt_block_whole(const mt_block *b) {
    return b->prev == NULL && b->next == NULL;
}

#endif
