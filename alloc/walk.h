/* walk.h - what a walk over an allocator's segments and blocks meets. */
#ifndef MT_ALLOC_WALK_H
#define MT_ALLOC_WALK_H

#include "alloc/events.h"
#include "base/status.h"

typedef enum mt_block_state {
    MT_BLOCK_ACTIVE,  /* it serves a request */
    MT_BLOCK_PENDING, /* its free waits for other streams */
    MT_BLOCK_FREE,
    MT_BLOCK_UNMAPPED /* addresses without memory, of a growable segment */
} mt_block_state;

typedef struct mt_segment_info {
    uint64_t bytes;  /* of the whole; of the reserved range if growable */
    uint64_t mapped; /* bytes with memory behind them */
    uint32_t number; /* in order of creation, from 0 */
    uint32_t slot;   /* as in its events; meaningless while nothing is mapped */
    uint32_t stream;
    mt_pool pool;
    bool growable;
} mt_segment_info;

typedef struct mt_block_info {
    uint64_t offset, size;
    uint64_t requested; /* by the request it serves; of a free block, by the last one that its
                           record served, which PyTorch's snapshots show too */
    uint64_t order;     /* free: among those of one stream and size, the lower is found first */
    uint64_t id;        /* active and pending: number of the request; MT_NO_ID otherwise */
    mt_block_state state;
    uint32_t stream;
    uint32_t live; /* for the allocator's own use */
    int32_t layer; /* of the request; -1: none */
    mt_tag tag;    /* of the request; MT_OTHER if there is none */
} mt_block_info;

/* Called for each segment in order of number, and then for each of its blocks by offset. Anything
 * but MT_OK ends the walk, which returns it. */
typedef struct mt_visitor {
    mt_status (*segment)(void *context, const mt_segment_info *s, mt_error *err); /* NULL: none */
    mt_status (*block)(void *context, const mt_segment_info *s, const mt_block_info *b,
                       mt_error *err);
    void *context;
} mt_visitor;

#endif
