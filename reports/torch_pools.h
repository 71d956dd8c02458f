/* torch_pools.h - the state of the torch policy's pools around a request, for a person who looks
 * for the reason of a difference. */
#ifndef MT_REPORTS_TORCH_POOLS_H
#define MT_REPORTS_TORCH_POOLS_H

#include <stdio.h>

#include "alloc/alloc.h"

/* For the small and the large pool: its free blocks in the order in which they are searched, at
 * most sixteen around (stream, bytes), and its segments with how much of each is live. */
void mt_torch_pools_print(FILE *out, const mt_alloc *a, uint32_t stream, uint64_t bytes);

#endif
