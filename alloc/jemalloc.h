/* jemalloc.h - what jemalloc says of itself, to hold against the ledger. */
#ifndef MT_ALLOC_JEMALLOC_H
#define MT_ALLOC_JEMALLOC_H

#include "alloc/internal.h"

/* Sums over the arenas of an allocator, in bytes. */
typedef struct mt_jemalloc_stats {
    uint64_t allocated;                      /* of live blocks, by size class */
    uint64_t active, dirty, muzzy, retained; /* of its extents */
    uint64_t committed, held, addresses;     /* by the count of our hooks */
} mt_jemalloc_stats;

/* False when the policy is another, or jemalloc does not say. */
bool mt_jemalloc_read(const mt_policy *p, mt_jemalloc_stats *out);

#endif
