/* internal.h - the parts of PyTorch's CUDA caching allocator, as memtrace reproduces it.
 *
 * Two pools by rounded size: small (up to 1 MiB, segments of 2 MiB) and large (segments of 20 MiB
 * below 10 MiB, else the request rounded up to 2 MiB). Best fit per stream; a block is split when
 * the rest is worth keeping; frees merge with free neighbours; segments are kept until memory runs
 * out. With expandable segments, one range of addresses per pool and stream grows page by page.
 * Described from its observed behaviour; the options have PyTorch's names. */
#ifndef MT_ALLOC_TORCH_INTERNAL_H
#define MT_ALLOC_TORCH_INTERNAL_H

#include "alloc/torch/streams.h"
#include "alloc/torch/torch.h"
#include "alloc/internal.h"
#include "base/array.h"
#include "base/size.h"

#define TORCH_MIN_BLOCK     UINT64_C(512) /* every rounded size is a multiple of it */
#define TORCH_SMALL_MAX     MT_MIB        /* largest rounded size of the small pool */
#define TORCH_SMALL_SEGMENT (2 * MT_MIB)  /* also the page of small growable segments */
#define TORCH_OWN_SEGMENT   (10 * MT_MIB) /* from here on a segment of its own */
#define TORCH_OWN_ROUND     (2 * MT_MIB)  /* rounded up to this */
#define TORCH_UNLIMITED     UINT64_MAX    /* max_split_size when unset */
#define TORCH_DIVISIONS     16            /* entries of the table of division counts */

#define TORCH_SPARE 8 /* records that one request may need */

typedef struct torch_options {
    uint64_t max_split_size;         /* blocks this large are not split; TORCH_UNLIMITED */
    uint64_t max_non_split_rounding; /* how much larger an unsplit block may be; = large_segment */
    uint64_t large_segment;          /* 20 MiB */
    uint8_t division_log2[TORCH_DIVISIONS]; /* log2 of the division count, 0 = off */
    double garbage_collection_threshold;    /* 0 = off */
    double fraction;                        /* of the device, by option; 1 = no limit */
    double call_fraction; /* the same by a call, which goes before; TORCH_NO_CALL */
    double reserve;       /* of a growable segment: of the device, or GiB; 0 = by default */
    bool reserve_gib;
    bool expandable_segments;
    bool throw_on_cudamalloc_oom;
    mt_addresses addresses;
    mt_order order;             /* among free blocks of one size, by release */
    char reserve_by_class[501]; /* as given; no stream has a class here */
    /* The last value that is ignored, of each of the two. */
    char ignored_reserve[48], ignored_class[48];
} torch_options;

#define TORCH_NO_CALL (-1.0)
#define TORCH_RESERVE "a fraction of the device's memory such as 0.5, or GiB such as 40G"

typedef struct torch_pool {
    mt_index free;     /* mapped free blocks */
    mt_index unmapped; /* of growable segments, by address */
    uint64_t searches; /* counted while garbage collection is on */
    uint8_t pool;      /* MT_POOL_SMALL or MT_POOL_LARGE */
} torch_pool;

/* A free that waits for a stream: a list per stream. */
typedef struct torch_wait {
    mt_block *block;
    uint32_t next; /* entry, 0 = end */
} torch_wait;

typedef struct torch {
    mt_policy base;
    torch_options options;
    torch_pool small, large;
    uint64_t limit; /* bytes this allocator may hold; UINT64_MAX = none */
    uint64_t range; /* bytes of a growable segment, before they are rounded up to pages */
    mt_torch_stats stats;
    MT_ARRAY(torch_streams) users; /* of a block; entry 0 is never used */
    uint32_t free_users;           /* entry, 0 = none */
    MT_ARRAY(torch_wait) waits;    /* entry 0 is never used */
    torch_streams waiting;         /* the streams with waits, in the order of completion */
    bool held;
} torch;

mt_status torch_read_options(torch_options *o, const char *text, mt_error *err);
void torch_describe(const torch_options *o, char *out, size_t room);

static inline torch_pool *torch_pool_of(torch *t, const mt_block *b) {
    return b->pool == MT_POOL_SMALL ? &t->small : &t->large;
}

static inline bool torch_growable(const mt_block *b) {
    return b->segment->page != 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

static inline void torch_stat_up(mt_torch_stat *s, uint64_t n) {
    s->current += n;
    s->allocated += n;
    if (s->current > s->peak)
        s->peak = s->current;
}

static inline void torch_stat_down(mt_torch_stat *s, uint64_t n) {
    s->current -= n;
    s->freed += n;
}

/* Adds to all and to the pool's own. */
static inline void torch_up(mt_torch_stats *s, bool small, mt_torch_stat_name name, uint64_t n) {
    torch_stat_up(&s->pool[0][name], n);
    torch_stat_up(&s->pool[small ? 1 : 2][name], n);
}

static inline void torch_down(mt_torch_stats *s, bool small, mt_torch_stat_name name, uint64_t n) {
    torch_stat_down(&s->pool[0][name], n);
    torch_stat_down(&s->pool[small ? 1 : 2][name], n);
}

/* ---- pool.c: free blocks --------------------------------------------------------------------- */

/* Puts a free block into its pool. */
void torch_insert(torch_pool *p, mt_block *b);

/* Merges a block with a neighbour that is free and mapped alike; returns its bytes, 0 if it is
 * not. */
uint64_t torch_merge(torch *t, mt_block *b, mt_block *other);

/* The second half of a free: the block merges with its neighbours and is free for others. */
void torch_complete_free(torch *t, mt_block *b);

/* ---- wait.c, on pool.c: frees that wait ------------------------------------------------------ */

/* Notes a use by another stream; makes a freed block wait for its users; completes frees whose
 * streams are done (all of them when wait). */
void torch_use_block(mt_policy *base, void *block, uint32_t stream);
void torch_wait_for_users(torch *t, mt_block *b);
void torch_process_waits(torch *t, bool wait);

/* ---- expand.c, on pool.c: growable segments -------------------------------------------------- */

/* A free mapped block of at least size bytes, out of its pool, from pages newly mapped;
 * MT_NO_MEMORY when a page is refused. Unmaps what is wholly free of b. */
mt_status torch_expand(torch *t, torch_pool *p, uint64_t size, uint32_t stream, mt_block **out,
                       mt_error *err);
void torch_unmap(torch *t, mt_block *b);

/* ---- release.c, on all three: memory goes back ----------------------------------------------- */

/* Enough oversize blocks for a request (false: not enough); by age above the threshold; everything
 * that is wholly free. */
bool torch_release_oversize(torch *t, torch_pool *p, uint64_t size, uint32_t stream);
void torch_collect(torch *t);
void torch_release_all(torch *t);

#endif
