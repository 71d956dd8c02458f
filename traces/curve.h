/* curve.h - memory over time as at most MT_CURVE_POINTS points, however many events there were.
 *
 * Of each window of events the one with the most reserved is kept (and among those the most
 * requested): peaks stay. When there is no more room, windows become twice as wide. */
#ifndef MT_TRACES_CURVE_H
#define MT_TRACES_CURVE_H

#include "alloc/ledger.h"
#include "base/array.h"

#define MT_CURVE_POINTS 4096

typedef struct mt_point {
    uint64_t time, requested, rounding, split, cached;
} mt_point;

/* All zero: nothing yet. */
typedef struct mt_curve {
    mt_ledger ledger;
    size_t most;     /* points; 0: MT_CURVE_POINTS */
    uint64_t window; /* events of each, at first 1 */
    uint64_t events; /* of the latest */
    MT_ARRAY(mt_point) point;
} mt_curve;

/* MT_CHECK when the event cannot follow (ledger.h), MT_FAILED when there is no memory. */
mt_status mt_curve_event(mt_curve *c, const mt_event *e, uint64_t time, mt_error *err);
void mt_curve_free(mt_curve *c);

static inline uint64_t mt_point_reserved(const mt_point *p) {
    return p->requested + p->rounding + p->split + p->cached;
}

#endif
