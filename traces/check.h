/* check.h - a recording of PyTorch's allocator, held against the torch policy.
 *
 * The policy is opened as the recording's settings say, over a simulated device, is asked for every
 * operation, and all that the recording tells beside them is compared with what the policy did. */
#ifndef MT_TRACES_CHECK_H
#define MT_TRACES_CHECK_H

#include "alloc/alloc.h"
#include "traces/reader.h"

/* What was compared. An operation with its place, counters and driver calls in one row counts once;
 * where a format lists those on lines of their own, they count for themselves. */
typedef struct mt_check_counts {
    uint64_t operations, calls, places, blocks, statistics, history;
} mt_check_counts;

/* The state around a difference: the allocator, and what the operation asked for, rounded. */
typedef void mt_check_around(void *context, mt_alloc *a, uint32_t stream, uint64_t rounded);

/* MT_CHECK at the first difference: its line, what differs, and both values; around (may be NULL)
 * is called then. MT_BAD when the file is no recording, or tells nothing to compare. Adds to
 * counts.
 *
 * PyTorch's history stands at the end of a recording, so ours is kept until then: 24 bytes an
 * entry. */
mt_status mt_check(const char *path, const mt_reading *how, mt_check_counts *counts,
                   mt_check_around *around, void *context, mt_error *err);

#endif
