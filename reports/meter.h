/* meter.h - one row that says what a run cost: for sweeps and replays.
 *
 * The peak is the moment reserved was highest and, among those, requested highest. */
#ifndef MT_REPORTS_METER_H
#define MT_REPORTS_METER_H

#include "alloc/alloc.h"

typedef struct mt_meter_row {
    uint64_t peak_requested, peak_reserved, reserved; /* the last: at the end */
    uint64_t rounding, split, cached;                 /* at the peak */
    uint64_t calls;       /* segments taken and given back, pages mapped and unmapped */
    uint64_t bumps;       /* steps with one */
    int64_t bump_largest; /* by size, with its sign */
    double change_mean;   /* of reserved, from one token to the next, without sign */
    int64_t change_largest;
    double unused;   /* 1 - requested / reserved, at the peak */
    double internal; /* rounding / rounded, at the peak */
    double external; /* 1 - largest free block / all free bytes, at the end */
} mt_meter_row;

typedef struct mt_meter {
    const mt_alloc *alloc;
    const mt_ledger *ledger;
    mt_meter_row now;
    uint64_t at_peak, rounded; /* requested and rounded bytes at the peak */
    uint64_t before_reserved, before_kv, changes;
    double change_sum;
} mt_meter;

/* Starts measuring an allocator from here on; m must outlive its listening. */
void mt_meter_start(mt_meter *m, mt_alloc *a);

/* The row of the run so far; walks all segments once. */
void mt_meter_read(const mt_meter *m, mt_meter_row *row);

#endif
