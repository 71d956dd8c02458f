/* stats.h - the statistics that PyTorch keeps, under its own names. */
#ifndef MT_ALLOC_TORCH_STATS_H
#define MT_ALLOC_TORCH_STATS_H

#include <stdbool.h>
#include <stdint.h>

/* Kept for all, small_pool and large_pool. */
#define TORCH_STATS(X)                                                                             \
    X(allocation)                                                                                  \
    X(segment)                                                                                     \
    X(active)                                                                                      \
    X(inactive_split)                                                                              \
    X(allocated_bytes)                                                                             \
    X(reserved_bytes)                                                                              \
    X(active_bytes)                                                                                \
    X(inactive_split_bytes)                                                                        \
    X(requested_bytes)

typedef enum torch_stat_name {
#define X(name) TORCH_##name,
    TORCH_STATS(X)
#undef X
        TORCH_STAT_COUNT
} torch_stat_name;

typedef struct torch_stat {
    uint64_t current, peak, allocated, freed;
} torch_stat;

typedef struct torch_stats {
    torch_stat pool[3][TORCH_STAT_COUNT]; /* all, small_pool, large_pool */
    torch_stat oversize_allocations, oversize_segments;
    uint64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free,
        num_oom_rejections;
    int64_t max_split_size; /* -1: unlimited */
} torch_stats;

static inline void torch_stat_up(torch_stat *s, uint64_t n) {
    s->current += n;
    s->allocated += n;
    if (s->current > s->peak)
        s->peak = s->current;
}

static inline void torch_stat_down(torch_stat *s, uint64_t n) {
    s->current -= n;
    s->freed += n;
}

/* Adds to all and to the pool's own. */
static inline void torch_up(torch_stats *s, bool small, torch_stat_name name, uint64_t n) {
    torch_stat_up(&s->pool[0][name], n);
    torch_stat_up(&s->pool[small ? 1 : 2][name], n);
}

static inline void torch_down(torch_stats *s, bool small, torch_stat_name name, uint64_t n) {
    torch_stat_down(&s->pool[0][name], n);
    torch_stat_down(&s->pool[small ? 1 : 2][name], n);
}

/* PyTorch's reset_peak_memory_stats: peaks fall to what is now. */
void torch_stats_reset_peaks(torch_stats *s);

/* The value under PyTorch's key, for example "allocated_bytes.all.current"; false if none. */
bool torch_stats_get(const torch_stats *s, const char *key, int64_t *value);

#endif
