/* ledger.c - see ledger.h.
 *
 * Every event changes a handful of counters. A segment's free bytes sit in split or in cached; they
 * move from one to the other when its first block comes to life or its last one dies. The driver's
 * pool, whose inside nobody sees, has all of them in cached. */
#include "alloc/ledger.h"

#include <inttypes.h>
#include <string.h>

#define SLOTS_MOST (UINT32_C(1) << 28)

void mt_ledger_init(mt_ledger *l) {
    memset(l, 0, sizeof *l);
}

void mt_ledger_free(mt_ledger *l) {
    mt_array_free(&l->segment);
    mt_ledger_init(l);
}

static inline void rise(mt_count *c, uint64_t n) {
    c->current += n;
    c->total += n;
    if (c->current > c->peak)
        c->peak = c->current;
}

static mt_status impossible(const mt_event *e, const char *why, mt_error *err) {
    return mt_fail(err, MT_CHECK, "event %" PRIu64 " (%s): %s", e->seq, mt_event_kind_name(e->kind),
                   why);
}

/* Makes room for the slot; new ones are all zero. */
static mt_status grow(mt_ledger *l, const mt_event *e, mt_error *err) {
    if (e->slot >= SLOTS_MOST)
        return impossible(e, "too many segments at once", err);
    return mt_array_extend(&l->segment, (size_t)e->slot + 1) ? MT_OK
                                                             : mt_no_memory(err, "the ledger");
}

/* The free bytes of a segment that holds a block, or that holds none. */
static inline uint64_t *free_part(mt_ledger *l, const mt_ledger_segment *s) {
    return s->blocks > 0 && s->pool != MT_POOL_DRIVER ? &l->split : &l->cached;
}

static mt_status apply_alloc(mt_ledger *l, const mt_event *e, mt_error *err) {
    mt_ledger_segment *s = &l->segment.at[e->slot];
    uint64_t free_bytes = s->reserved - s->live;
    if (e->rounded > free_bytes)
        return impossible(e, "the block is larger than its segment's free bytes", err);
    if (e->requested > e->rounded)
        return impossible(e, "the block is smaller than the request", err);
    *free_part(l, s) -= free_bytes;
    s->live += e->rounded;
    s->blocks++;
    *free_part(l, s) += free_bytes - e->rounded;
    l->rounding += e->rounded - e->requested;
    rise(&l->tag[e->tag], e->requested);
    rise(&l->requested, e->requested);
    if (l->requested.current > l->step_requested)
        l->step_requested = l->requested.current;
    l->allocs++;
    return MT_OK;
}

static mt_status apply_free(mt_ledger *l, const mt_event *e, mt_error *err) {
    mt_ledger_segment *s = &l->segment.at[e->slot];
    if (s->blocks == 0 || e->rounded > s->live || e->requested > l->tag[e->tag].current ||
        e->requested > e->rounded || e->rounded - e->requested > l->rounding)
        return impossible(e, "more bytes are freed than are live", err);
    if ((s->blocks == 1) != (e->rounded == s->live))
        return impossible(e, "its size contradicts the live bytes of its segment", err);
    uint64_t free_bytes = s->reserved - s->live;
    *free_part(l, s) -= free_bytes;
    s->live -= e->rounded;
    s->blocks--;
    *free_part(l, s) += free_bytes + e->rounded;
    l->rounding -= e->rounded - e->requested;
    l->tag[e->tag].current -= e->requested;
    l->requested.current -= e->requested;
    l->frees++;
    return MT_OK;
}

static void add_segment_bytes(mt_ledger *l, const mt_event *e) {
    mt_ledger_segment *s = &l->segment.at[e->slot];
    if (s->reserved == 0)
        l->segments++;
    s->reserved += e->rounded;
    s->requested = e->requested;
    s->number = e->segment;
    s->layer = e->layer;
    s->tag = e->tag;
    s->pool = e->pool;
    *free_part(l, s) += e->rounded;
    rise(&l->reserved, e->rounded);
    if (l->reserved.current > l->step_reserved)
        l->step_reserved = l->reserved.current;
    l->segment_events++;
}

static void drop_segment_bytes(mt_ledger *l, const mt_event *e) {
    mt_ledger_segment *s = &l->segment.at[e->slot];
    s->reserved -= e->rounded;
    *free_part(l, s) -= e->rounded;
    l->reserved.current -= e->rounded;
    if (s->reserved == 0)
        l->segments--;
    l->segment_events++;
}

static mt_status apply_segment(mt_ledger *l, const mt_event *e, mt_error *err) {
    mt_ledger_segment *s = &l->segment.at[e->slot];
    bool adds = e->kind == MT_EV_SEGMENT_ALLOC || e->kind == MT_EV_SEGMENT_MAP;
    if (adds && e->rounded > UINT64_MAX - l->reserved.current)
        return impossible(e, "reserved bytes overflow 64 bits", err);
    switch (e->kind) {
    case MT_EV_SEGMENT_ALLOC:
        if (s->reserved != 0)
            return impossible(e, "the segment is already allocated", err);
        add_segment_bytes(l, e);
        return MT_OK;
    case MT_EV_SEGMENT_MAP:
        add_segment_bytes(l, e);
        return MT_OK;
    case MT_EV_SEGMENT_FREE:
        if (s->blocks != 0 || s->reserved != e->rounded)
            return impossible(e, "the segment has live blocks, or another size", err);
        drop_segment_bytes(l, e);
        return MT_OK;
    default:
        if (e->rounded > s->reserved - s->live)
            return impossible(e, "more bytes are unmapped than are mapped and free", err);
        drop_segment_bytes(l, e);
        return MT_OK;
    }
}

/* A step ended: its peaks are kept for the reader, the next step's begin at what is now. */
static void apply_mark(mt_ledger *l) {
    l->mark_requested = l->step_requested;
    l->mark_reserved = l->step_reserved;
    l->step_requested = l->requested.current;
    l->step_reserved = l->reserved.current;
}

/* Whether the segment that an event speaks of is held, under that number. Two kinds may begin
 * one. */
static bool is_held(const mt_ledger_segment *s, const mt_event *e) {
    if (s->reserved == 0)
        return e->kind == MT_EV_SEGMENT_ALLOC || e->kind == MT_EV_SEGMENT_MAP;
    return s->number == e->segment || e->kind == MT_EV_SEGMENT_ALLOC;
}

mt_status mt_ledger_apply(mt_ledger *l, const mt_event *e, mt_error *err) {
    if (e->kind >= MT_EVENTS)
        return mt_fail(err, MT_CHECK, "event %" PRIu64 ": unknown kind %u", e->seq, e->kind);
    if (e->kind == MT_EV_MARK) {
        apply_mark(l);
        return MT_OK;
    }
    if (e->kind == MT_EV_OOM) {
        l->ooms++;
        return MT_OK;
    }
    if (e->tag >= MT_TAGS || e->rounded == 0)
        return impossible(e, "unknown tag, or 0 bytes", err);
    if (e->slot >= l->segment.count)
        MT_TRY(grow(l, e, err));
    if (!is_held(&l->segment.at[e->slot], e))
        return impossible(e, "its segment is not allocated, or its slot holds another", err);
    switch (e->kind) {
    case MT_EV_ALLOC:
        return apply_alloc(l, e, err);
    case MT_EV_FREE:
        return apply_free(l, e, err);
    default:
        return apply_segment(l, e, err);
    }
}

mt_status mt_ledger_check(const mt_ledger *l, mt_error *err) {
    uint64_t requested = 0;
    for (int t = 0; t < MT_TAGS; t++)
        requested += l->tag[t].current;
    uint64_t sum = requested + l->rounding + l->split + l->cached;
    if (requested == l->requested.current && sum == l->reserved.current)
        return MT_OK;
    return mt_fail(
        err, MT_CHECK,
        "identity broken: reserved %" PRIu64 " is not requested %" PRIu64 " (by tag %" PRIu64
        ") + rounding %" PRIu64 " + split %" PRIu64 " + cached %" PRIu64,
        l->reserved.current, l->requested.current, requested, l->rounding, l->split, l->cached);
}
