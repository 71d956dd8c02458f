/* release.c - giving memory back: everything free, oversize blocks, or by age. */
#include "alloc/torch/internal.h"

static void release_block(torch *t, mt_block *b) {
    torch_pool *p = torch_pool_of(t, b);
    bool small = p->pool == MT_POOL_SMALL;
    uint64_t bytes = b->size;
    mt_index_remove(&p->free, b);
    mt_core_give(&t->base.core, b);
    t->stats.num_device_free++;
    torch_down(&t->stats, small, MT_TORCH_segment, 1);
    torch_down(&t->stats, small, MT_TORCH_reserved_bytes, bytes);
    if (bytes >= t->options.max_split_size)
        torch_stat_down(&t->stats.oversize_segments, 1);
}

/* Without a block large enough, releases oversize blocks from the largest down until their sum
 * is. */
static bool release_downwards(torch *t, mt_block *b, uint64_t wanted, uint32_t stream) {
    uint64_t sum = 0;
    while (b != NULL && sum < wanted && b->size >= t->options.max_split_size &&
           b->stream == stream) {
        mt_block *before = mt_index_prev(b);
        if (!torch_growable(b)) {
            sum += b->size;
            release_block(t, b);
        }
        b = before;
    }
    return sum >= wanted;
}

bool torch_release_oversize(torch *t, torch_pool *p, uint64_t size, uint32_t stream) {
    uint64_t limit = t->options.max_split_size;
    if (limit == TORCH_UNLIMITED)
        return false;
    uint64_t wanted = size > limit ? size : limit;
    mt_block *b = mt_index_at_least(&p->free, stream, wanted);
    if (b != NULL && b->stream == stream && !torch_growable(b)) {
        release_block(t, b);
        return true;
    }
    mt_block *below = b != NULL ? mt_index_prev(b) : mt_index_last(&p->free);
    return release_downwards(t, below, wanted, stream);
}

/* The age of an unsplit free block in searches. */
static uint64_t age(const torch_pool *p, const mt_block *b) {
    return p->searches - b->search;
}

void torch_collect(torch *t) {
    torch_pool *p = &t->large;
    uint64_t goal = (uint64_t)(t->options.garbage_collection_threshold * (double)t->limit);
    uint64_t reclaimed = 0, total = 0, count = 0;
    if (t->base.core.reserved <= goal)
        return;
    uint64_t wanted = t->base.core.reserved - goal;
    for (mt_block *b = mt_index_first(&p->free); b != NULL; b = mt_index_next(b))
        if (mt_block_whole(b)) {
            total += age(p, b);
            count++;
        }
    for (bool freed = true; freed && reclaimed < wanted && count > 0;) {
        double threshold = (double)total / (double)count;
        freed = false;
        for (mt_block *b = mt_index_first(&p->free), *next; b != NULL; b = next) {
            next = mt_index_next(b);
            if (!mt_block_whole(b) || torch_growable(b) || (double)age(p, b) < threshold)
                continue;
            freed = true;
            reclaimed += b->size;
            total -= age(p, b);
            count--;
            release_block(t, b);
        }
    }
}

/* Releases the wholly free segments of a pool in order, then unmaps what is free in growable ones.
 * What an unmapped block leaves is smaller, so it stands before it and is not met again. */
static void release_pool(torch *t, torch_pool *p) {
    for (int growable = 0; growable < 2; growable++)
        for (mt_block *b = mt_index_first(&p->free), *next; b != NULL; b = next) {
            next = mt_index_next(b);
            if (torch_growable(b) != growable)
                continue;
            if (growable)
                torch_unmap(t, b);
            else if (mt_block_whole(b))
                release_block(t, b);
        }
}

void torch_release_all(torch *t) {
    t->stats.num_sync_all_streams++;
    torch_process_waits(t, true);
    release_pool(t, &t->large);
    release_pool(t, &t->small);
}
