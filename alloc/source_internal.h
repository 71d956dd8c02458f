/* source_internal.h - what sources share: counting against the capacity. */
#ifndef MT_ALLOC_SOURCE_INTERNAL_H
#define MT_ALLOC_SOURCE_INTERNAL_H

#include "alloc/source.h"
#include "base/size.h"

#include <inttypes.h>

/* Counts a piece; MT_NO_MEMORY when it does not fit or a test asked for a refusal. */
static inline mt_status mt_source_count(mt_source *s, uint64_t bytes, mt_error *err) {
    uint64_t left = s->capacity - s->used;
    bool asked = s->fail_at != 0 && --s->fail_at == 0;
    if (asked || bytes > left || mt_round_up(bytes, s->granularity) > left) {
        s->refusals++;
        return mt_fail(err, MT_NO_MEMORY, "%s: %" PRIu64 " bytes asked for, %" PRIu64 " left",
                       s->name, bytes, left);
    }
    s->used += mt_round_up(bytes, s->granularity);
    return MT_OK;
}

static inline void mt_source_uncount(mt_source *s, uint64_t bytes) {
    s->used -= mt_round_up(bytes, s->granularity);
}

#endif
