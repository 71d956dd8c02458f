/* torch.h - PyTorch's CUDA caching allocator, as seen from outside: the statistics it keeps, under
 * PyTorch's names. All else of the policy is private to this folder; what every policy shows
 * (events, driver calls, a walk over segments and blocks) is in alloc/alloc.h. */
#ifndef MT_ALLOC_TORCH_TORCH_H
#define MT_ALLOC_TORCH_TORCH_H

#include "alloc/alloc.h"

/* Kept for all, small_pool and large_pool. */
#define MT_TORCH_STATS(X)                                                                          \
    X(allocation)                                                                                  \
    X(segment)                                                                                     \
    X(active)                                                                                      \
    X(inactive_split)                                                                              \
    X(allocated_bytes)                                                                             \
    X(reserved_bytes)                                                                              \
    X(active_bytes)                                                                                \
    X(inactive_split_bytes)                                                                        \
    X(requested_bytes)

typedef enum mt_torch_stat_name {
#define X(name) MT_TORCH_##name,
    MT_TORCH_STATS(X)
#undef X
        MT_TORCH_STAT_COUNT
} mt_torch_stat_name;

typedef struct mt_torch_stat {
    uint64_t current, peak, allocated, freed;
} mt_torch_stat;

typedef struct mt_torch_stats {
    mt_torch_stat pool[3][MT_TORCH_STAT_COUNT]; /* all, small_pool, large_pool */
    mt_torch_stat oversize_allocations, oversize_segments;
    uint64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free,
        num_oom_rejections;
    int64_t max_split_size; /* -1: unlimited */
} mt_torch_stats;

/* The statistics of an allocator, current for as long as it is open; NULL: its policy is
 * another. */
const mt_torch_stats *mt_alloc_torch_stats(const mt_alloc *a);

/* PyTorch's reset_peak_memory_stats: peaks fall to what is now. Nothing where the policy is
 * another. */
void mt_alloc_torch_reset_peaks(mt_alloc *a);

/* The value under PyTorch's key, for example "allocated_bytes.all.current"; false if none. */
bool mt_torch_stats_get(const mt_torch_stats *s, const char *key, int64_t *value);

#endif
