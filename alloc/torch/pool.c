/* pool.c - the free blocks of a pool: how a block comes in and merges with its neighbours. */
#include "alloc/torch/internal.h"

#include <stdlib.h>

void torch_insert(torch_pool *p, mt_block *b) {
    b->search = p->searches;
    mt_index_insert(&p->free, b);
}

static bool mergeable(const mt_block *b, const mt_block *other) {
    return other != NULL && !other->used && other->mapped == b->mapped;
}

uint64_t torch_merge(torch *t, mt_block *b, mt_block *other) {
    if (!mergeable(b, other))
        return 0;
    torch_pool *p = torch_pool_of(t, b);
    uint64_t bytes = other->size;
    mt_index_remove(other->mapped ? &p->free : &p->unmapped, other);
    mt_core_merge(&t->base.core, b, other);
    return bytes;
}

void torch_complete_free(torch *t, mt_block *b) {
    torch_pool *p = torch_pool_of(t, b);
    mt_torch_stats *s = &t->stats;
    bool small = p->pool == MT_POOL_SMALL;
    uint64_t size = b->size, requested = b->requested;
    int64_t pieces = 0, bytes = 0;
    b->used = false;
    mt_block *neighbours[2] = { b->prev, b->next };
    for (int i = 0; i < 2; i++) {
        uint64_t merged = torch_merge(t, b, neighbours[i]);
        pieces -= merged > 0;
        bytes -= (int64_t)merged;
    }
    torch_insert(p, b);
    if (!mt_block_whole(b)) {
        pieces++;
        bytes += (int64_t)b->size;
    }
    if (!torch_growable(b)) {
        if (pieces != 0)
            (pieces > 0 ? torch_up : torch_down)(s, small, MT_TORCH_inactive_split,
                                                 (uint64_t)llabs(pieces));
        if (bytes != 0)
            (bytes > 0 ? torch_up : torch_down)(s, small, MT_TORCH_inactive_split_bytes,
                                                (uint64_t)llabs(bytes));
    }
    torch_down(s, small, MT_TORCH_active, 1);
    torch_down(s, small, MT_TORCH_active_bytes, size);
    torch_down(s, small, MT_TORCH_requested_bytes, requested);
    mt_send_free(&t->base.core, b->live);
}
