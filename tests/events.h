/* events.h - are two events the same? */
#ifndef MT_TESTS_EVENTS_H
#define MT_TESTS_EVENTS_H

#include "alloc/events.h"

/* All fields but those of time; not the bytes between the fields. */
static inline bool same_event(const mt_event *a, const mt_event *b) {
    return a->seq == b->seq && a->id == b->id && a->offset == b->offset &&
           a->requested == b->requested && (a->rounded == b->rounded || a->kind == MT_EV_MARK) &&
           a->segment == b->segment && a->slot == b->slot && a->stream == b->stream &&
           a->step == b->step && a->layer == b->layer && a->kind == b->kind && a->tag == b->tag &&
           a->pool == b->pool;
}

#endif
