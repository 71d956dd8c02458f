/* jemalloc.h - what jemalloc says of itself, to hold against the ledger. */
#ifndef MT_ALLOC_JEMALLOC_H
#define MT_ALLOC_JEMALLOC_H

#include "alloc/alloc.h"

/* Sums over the arenas of an allocator, in bytes. */
typedef struct mt_jemalloc_stats {
    uint64_t allocated;                      /* of live blocks, by size class */
    uint64_t active, dirty, muzzy, retained; /* of its extents */
    uint64_t committed, held, addresses;     /* by the count of our hooks */
} mt_jemalloc_stats;

/* Whether this program was built with jemalloc. */
bool mt_jemalloc_built(void);

/* False when the allocator's policy is another, or jemalloc does not say. */
bool mt_jemalloc_read(mt_alloc *a, mt_jemalloc_stats *out);

#endif
