/* heap.h - the segments and blocks of one device, followed event by event.
 *
 * An allocator decides where a request goes; here its decision is known, an address, and what
 * follows from it is carried out: how long the block is, what of it stays behind as a free block,
 * what merges with what. So a heap shows exactly what the recorded allocator had at any moment,
 * provided that it began as that one did.
 *
 * An event that cannot be in this state (a request at an address that is not free) changes nothing
 * and is counted. */
#ifndef MT_TRACES_HEAP_H
#define MT_TRACES_HEAP_H

#include "alloc/alloc.h"
#include "traces/snapshot.h"

/* Numbers of blocks and segments count from 1; 0 is none. They are used again. */
typedef struct mt_heap_block {
    uint64_t address, size;
    uint64_t requested;  /* of a free one: what it held last */
    uint32_t prev, next; /* by address, in its segment */
    uint32_t segment, stack;
    uint8_t state; /* mt_block_state */
} mt_heap_block;

typedef struct mt_heap_segment {
    uint64_t address, size; /* size 0: the number is not in use */
    uint64_t stream;
    uint32_t first, last, blocks;
    uint32_t pool, stack;
    bool large, expandable;
} mt_heap_segment;

typedef struct mt_heap {
    MT_ARRAY(mt_heap_block) block;
    MT_ARRAY(mt_heap_segment) segment;
    uint32_t spare_block, spare_segment; /* lists, by next and first */
    mt_map begins;                       /* address of a block: its number */
    mt_map ends;                         /* where a segment ends: its number */
    const mt_alloc *rules;               /* how requests are rounded */
    uint64_t max_split;                  /* from this size on large blocks are not split */
    uint64_t odd;                        /* events that could not be */
    uint64_t effort;                     /* steps of searches, so far */
} mt_heap;

/* An empty heap. rules must outlive it. */
void mt_heap_open(mt_heap *h, const mt_alloc *rules, uint64_t max_split);
void mt_heap_close(mt_heap *h);

/* Each of the following: MT_FAILED when there is no memory, else MT_OK, also when it counts as odd.
 *
 * A segment, one free block. Of g: address, size, stream, pool, stack, large, expandable. */
mt_status mt_heap_add_segment(mt_heap *h, const mt_heap_segment *g, mt_error *err);
mt_status mt_heap_remove_segment(mt_heap *h, uint64_t address, mt_error *err);

/* Pages of an expandable segment, joined with what lies beside them, and the reverse. */
mt_status mt_heap_map(mt_heap *h, const mt_heap_segment *g, mt_error *err);
mt_status mt_heap_unmap(mt_heap *h, uint64_t address, uint64_t size, mt_error *err);

/* A request at an address; *block: its number, 0 when that cannot be. */
mt_status mt_heap_take(mt_heap *h, uint64_t address, uint64_t requested, uint32_t stack,
                       uint32_t *block, mt_error *err);

/* A block of known size behind all live ones of the segment that it lies in, which must be the
 * segment's number: so that a heap can begin with live blocks. */
mt_status mt_heap_place(mt_heap *h, uint32_t segment, const mt_snapshot_block *b, uint32_t *block,
                        mt_error *err);

/* The block is free and merges with its neighbours. */
void mt_heap_release(mt_heap *h, uint32_t block);

/* ---- views ----------------------------------------------------------------------------------- */

/* What a device holds at one moment: segments by rising address, with their blocks. */
typedef struct mt_view {
    MT_ARRAY(mt_snapshot_segment) segments;
    MT_ARRAY(mt_snapshot_block) own; /* its blocks, unless they are a snapshot's */
    const mt_snapshot_block *blocks;
} mt_view;

mt_status mt_view_of_heap(mt_view *out, const mt_heap *h, uint32_t device, mt_error *err);

/* The final state of one device; good as long as the snapshot is. */
mt_status mt_view_of_snapshot(mt_view *out, const mt_snapshot *s, uint32_t device, mt_error *err);
void mt_view_free(mt_view *v);

#endif
