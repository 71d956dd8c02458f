/* optimum.h - the yardstick: how little memory a run's requests could have been served with.
 *
 * A listener collects requests and frees. Below every placement lies the peak of live requested
 * bytes. Above, the best found:
 *
 *   - a packing of all requests into one range of addresses, each at a multiple of 256 bytes as
 *     every policy places them (pack.h), of which those never freed that came before the first free
 *     lie at the bottom;
 *   - what a policy reserves that gives segments back at once, which can be less than one range
 *     needs: direct, and block:4KiB,round:256,keep:none with best and with first fit, each over a
 *     simulated device.
 *
 * The packing is not a policy: it knows when each request will be freed. Streams are ignored. */
#ifndef MT_REPORTS_OPTIMUM_H
#define MT_REPORTS_OPTIMUM_H

#include <stdbool.h>

#include "alloc/alloc.h"

typedef struct mt_optimum mt_optimum;

typedef struct mt_bounds {
    uint64_t low;    /* peak of live requested bytes */
    uint64_t packed; /* height of the best packing found */
    uint64_t high;   /* the least found in any way; low <= high <= packed */
    bool exact;      /* no packing is lower than packed */
    const char *how; /* what found high */
} mt_bounds;

mt_status mt_optimum_open(mt_optimum **out, mt_error *err);
void mt_optimum_close(mt_optimum *o); /* NULL is allowed */

/* What collects, for mt_alloc_listen; from the first request heard on. */
mt_listener mt_optimum_listener(mt_optimum *o);

/* The bounds of the run so far. MT_FAILED when something was missed for want of memory. */
mt_status mt_optimum_solve(const mt_optimum *o, mt_bounds *out, mt_error *err);

#endif
