/* range.h - some steps of a recording as a recording of their own.
 *
 * What is live when the first of them begins is written as if it were loaded: its segments (a
 * growable one as one range of pages), its requests in the order of their ids, and a mark. Events
 * and steps are numbered from there: the first step of the range is step 0. */
#ifndef MT_TRACES_RANGE_H
#define MT_TRACES_RANGE_H

#include "traces/trace.h"

#define MT_RANGE_ALL INT64_MAX

/* What is known of a request or a segment that is live: the item that began it. */
typedef struct mt_range_live {
    mt_item item;
    mt_event event;
    bool held;
    uint64_t bytes; /* of a segment */
} mt_range_live;

typedef struct mt_range {
    mt_trace *to;                    /* not owned */
    int64_t first, last, step, told; /* told: of the latest item */
    bool begun;
    uint64_t seq; /* of the next event, and its step */
    int32_t new_step;
    mt_numbers requests, segments;   /* by id, by number */
    MT_ARRAY(mt_range_live) request; /* by number */
    MT_ARRAY(mt_range_live) segment;
} mt_range;

/* Begins a range of steps, first to last; first -1: with what comes before step 0, which is all
 * that there is. */
mt_range mt_range_of(mt_trace *to, int64_t first, int64_t last);

/* Takes the next item. MT_FAILED when there is no memory. */
mt_status mt_range_item(mt_range *r, const mt_item *item, mt_error *err);

/* The steps of the range are over. */
static inline bool mt_range_over(const mt_range *r) {
    return r->step > r->last;
}

void mt_range_free(mt_range *r);

#endif
