/* follow.h - whether an event can follow those before it: by the segments held and a ledger. What
 * the readers of event streams ask after each event. */
#ifndef MT_TRACES_FOLLOW_H
#define MT_TRACES_FOLLOW_H

#include "alloc/ledger.h"
#include "traces/reader.h"

typedef struct mt_follow_segment {
    uint64_t bytes; /* blocks end at or before this */
    bool growable;  /* pages were mapped or unmapped: blocks may lie anywhere */
} mt_follow_segment;

/* All zero: nothing came before. */
typedef struct mt_follow {
    mt_numbers slots;                    /* of the segments held, by their numbers */
    MT_ARRAY(mt_follow_segment) segment; /* by slot */
    mt_ledger ledger;
} mt_follow;

void mt_follow_free(mt_follow *f);

/* Whether an event of this kind may begin a segment. */
static inline bool mt_follow_begins(uint8_t kind) {
    return kind == MT_EV_SEGMENT_ALLOC || kind == MT_EV_SEGMENT_MAP;
}

/* Sets the slot of an event that names its segment: a new one when it begins it. MT_BAD, at the
 * reader's latest line, when the segment is not held, or held already. */
mt_status mt_follow_slot(mt_follow *f, const mt_reader *r, mt_event *e, mt_error *err);

/* Takes an event that has its slot. MT_BAD when it cannot follow: a block ends behind its segment,
 * a sum of bytes overflows, or the ledger says why. */
mt_status mt_follow_event(mt_follow *f, const mt_reader *r, const mt_event *e, mt_error *err);

#endif
