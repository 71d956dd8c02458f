/* timeline.h - the events of one device, kept small, and what was there at any moment of them.
 *
 * A snapshot holds the final state and the events that led to it, or the last ones of them: the
 * recorder keeps a ring. What was there at their beginning follows from both ends: a block is live
 * then when it is freed without a request for it among the events, or live at the end without one;
 * segments are those at the end, less those obtained, with those given back. From there the events
 * are followed forward, to any of them.
 *
 * An event takes 2 to 12 bytes here, those of segments some more. Steps count events from 0: the
 * state at a step is that before the event of this number. */
#ifndef MT_TRACES_TIMELINE_H
#define MT_TRACES_TIMELINE_H

#include "traces/heap.h"

/* An event of a segment, or a refusal. */
typedef struct mt_segment_event {
    uint64_t step, time_us;
    uint64_t address; /* oom: what the device had left, MT_SNAPSHOT_NONE: not told */
    uint64_t size;
    uint64_t stream;
    uint64_t requested; /* of the request that caused it: the next one; 0: none */
    uint32_t stack, pool;
    uint32_t cause; /* stack of that request, 0: not told */
    uint8_t action; /* mt_action */
} mt_segment_event;

/* A level that events raise and lower, with its highest value. Relative to the beginning until the
 * timeline is concluded, absolute from then on. */
typedef struct mt_level {
    int64_t now, peak;
    uint64_t step;    /* the first one at which the peak holds */
    uint64_t time_us; /* of the event before it */
} mt_level;

/* A request whose block was live when the events began. */
typedef struct mt_early {
    uint64_t address, requested;
    uint32_t slot;
    bool pending; /* its free had been asked for already */
} mt_early;

/* A place that requests get, by its slot: what is or was there. Places are taken again and again,
 * so the slot of one that is free is kept for a while. */
typedef struct mt_place {
    uint64_t address, requested;
    uint8_t state; /* MT_BLOCK_ACTIVE, _PENDING or _FREE */
} mt_place;

typedef struct mt_timeline {
    uint64_t events;
    uint64_t first_us, last_us;    /* MT_SNAPSHOT_NONE: without times */
    uint64_t after_us, after_step; /* as asked for; how many events came up to then */
    mt_level requested, reserved;
    MT_ARRAY(mt_segment_event) segments; /* refusals too, in order */
    uint64_t early;                      /* frees of what was requested before the events began */
    uint64_t odd;                        /* events that contradict others */
    bool completes;                      /* there are free_completed events */

    /* Of the timeline alone. */
    MT_ARRAY(unsigned char) log;
    MT_ARRAY(mt_place) places;
    MT_ARRAY(uint32_t) spare; /* slots without a place */
    MT_ARRAY(mt_early) earlies;
    mt_map slots;        /* of places, by address */
    size_t free;         /* of places: those whose state is free, spare ones not counted */
    uint64_t last_alloc; /* the place that a request got last */
    uint32_t asked;      /* slot of a free that the event before asked for, + 1 */
    size_t asked_at;     /* its record in the log */
    size_t caused;       /* segment events whose request is known */

    /* From the conclusion on; of the above only the log is left. */
    size_t slot_count;
    const mt_snapshot *snapshot;
    const mt_alloc *rules;
    uint32_t device;
    mt_view start;
    MT_ARRAY(uint32_t) start_slots; /* of start's blocks, + 1; 0: live to the end */
} mt_timeline;

/* after_us: a time after the first event whose step is wanted; MT_SNAPSHOT_NONE: none. */
void mt_timeline_open(mt_timeline *t, uint64_t after_us);
void mt_timeline_close(mt_timeline *t);

/* Adds events, in their order. */
mt_status mt_timeline_add(mt_timeline *t, const mt_snapshot_event *event, size_t n, mt_error *err);

/* An allocator that rounds requests as the snapshot's did. The caller closes both. */
mt_status mt_snapshot_rules(const mt_snapshot *s, mt_source **source, mt_alloc **rules,
                            mt_error *err);

/* All events are there: works out what there was at their beginning. The snapshot and the rules
 * must outlive the timeline. */
mt_status mt_timeline_conclude(mt_timeline *t, const mt_snapshot *s, const mt_alloc *rules,
                               uint32_t device, mt_error *err);

/* The states at n steps, in rising order, the number of events being the end; out[n]. *odd: events
 * up to the last of them that could not be followed. */
mt_status mt_timeline_at(const mt_timeline *t, const uint64_t *step, size_t n, mt_view *out,
                         uint64_t *odd, mt_error *err);

#endif
