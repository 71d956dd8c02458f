/* ledger.h - where every reserved byte is, after every event, in O(1) per event.
 *
 * A ledger is a function of the event stream alone: feed it the events of a run or of a stored
 * trace and it knows, to the byte,
 *
 *     reserved = requested (by tag) + rounding + split + cached
 *
 * Each segment contributes its free bytes to split while it holds a live block and to cached while
 * it holds none; that is the only rule. Reserved is counted on its own, from segment events, so the
 * identity is a check and not a definition. */
#ifndef MT_ALLOC_LEDGER_H
#define MT_ALLOC_LEDGER_H

#include "alloc/events.h"
#include "base/array.h"
#include "base/status.h"

/* A quantity: now, the highest so far, and all that was ever added. */
typedef struct mt_count {
    uint64_t current, peak, total;
} mt_count;

/* What the ledger knows of a segment that is held. */
typedef struct mt_ledger_segment {
    uint64_t reserved;  /* its bytes; mapped ones if growable */
    uint64_t live;      /* rounded bytes of its live blocks */
    uint64_t blocks;    /* number of its live blocks */
    uint64_t requested; /* of the request that caused it, or that mapped its latest pages */
    uint32_t number;
    int32_t layer;
    uint8_t tag, pool;
} mt_ledger_segment;

typedef struct mt_ledger {
    mt_count tag[MT_TAGS]; /* requested, by tag */
    mt_count requested;    /* their sum */
    mt_count reserved;
    uint64_t rounding, split, cached;
    uint64_t step_requested,
        step_reserved; /* highest values since the last mark, its value included */
    uint64_t mark_requested, mark_reserved; /* the same of the step that the last mark ended */
    uint64_t segments;                      /* held; a growable one while any page is mapped */
    uint64_t segment_events; /* segments taken, mapped, unmapped and given back so far */
    uint64_t allocs, frees, ooms;
    MT_ARRAY(mt_ledger_segment) segment; /* by slot */
} mt_ledger;

void mt_ledger_init(mt_ledger *l);
void mt_ledger_free(mt_ledger *l); /* what it holds, not l */

/* Takes one event. MT_CHECK when the event cannot follow what came before (a free of more than is
 * live, a block larger than its segment's free bytes): the stream, not the ledger, is wrong. */
mt_status mt_ledger_apply(mt_ledger *l, const mt_event *e, mt_error *err);

/* The identity; MT_CHECK and a line with all parts when it does not hold. */
mt_status mt_ledger_check(const mt_ledger *l, mt_error *err);

#endif
