/* timeline.c - see timeline.h.
 *
 * The log, a record for each event but where one stands for two; numbers are varints (7 bits a
 * byte, the lowest first), and the first one is a slot * 8 + what happened:
 *
 *     ALLOC, place, size, stack   a request, at a place that the slot did not have; see put_place
 *     AGAIN, size, stack          at the slot's own place
 *     ASKED                       free_requested
 *     FREED                       free_completed
 *     BOTH                        free_requested, free_completed
 *     SILENT                      a completion that the events do not have: no step
 *     SEGMENT                     the next one of segments
 *     OTHER */
#include "traces/timeline.h"

#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/size.h"

enum { OTHER, ALLOC, AGAIN, ASKED, FREED, BOTH, SILENT, SEGMENT };

#define LONGEST    64            /* bytes of a record */
#define LARGE_PAGE (20 * MT_MIB) /* of expandable segments */

static mt_status no_memory(mt_error *err) {
    return mt_no_memory(err, "the events of a snapshot");
}

void mt_timeline_open(mt_timeline *t, uint64_t after_us) {
    *t = (mt_timeline){ .first_us = MT_SNAPSHOT_NONE,
                        .last_us = MT_SNAPSHOT_NONE,
                        .after_us = after_us };
}

/* What is needed only while events are added. */
static void free_adding(mt_timeline *t) {
    t->slot_count = t->places.count;
    mt_array_free(&t->places);
    mt_array_free(&t->spare);
    mt_array_free(&t->earlies);
    mt_map_free(&t->slots);
}

void mt_timeline_close(mt_timeline *t) {
    free_adding(t);
    mt_array_free(&t->segments);
    mt_array_free(&t->log);
    mt_array_free(&t->start_slots);
    mt_view_free(&t->start);
}

/* ---- the log --------------------------------------------------------------------------------- */

static inline void put(mt_timeline *t, uint64_t n) {
    unsigned char *p = t->log.at + t->log.count;
    for (; n >= 128; n >>= 7)
        *p++ = (unsigned char)(n | 128);
    *p++ = (unsigned char)n;
    t->log.count = (size_t)(p - t->log.at);
}

static inline uint64_t get(const unsigned char **p) {
    uint64_t n = 0;
    unsigned shift = 0;
    for (; **p >= 128; shift += 7)
        n |= (uint64_t)(*(*p)++ & 127) << shift;
    return n | (uint64_t) * (*p)++ << shift;
}

/* Distances are mostly multiples of 512, either way: they end in 0 and lose nine bits. */
static inline void put_place(mt_timeline *t, uint64_t address) {
    int64_t d = (int64_t)(address - t->last_alloc);
    bool fine = d % 512 != 0;
    uint64_t n = (uint64_t)(fine ? d : d / 512);
    uint64_t zigzag = n << 1 ^ (uint64_t)((int64_t)n >> 63);
    put(t, fine);
    put(t, zigzag);
    t->last_alloc = address;
}

static inline uint64_t get_place(const unsigned char **p, uint64_t last) {
    bool fine = get(p) != 0;
    uint64_t zigzag = get(p), n = zigzag >> 1 ^ (0 - (zigzag & 1));
    return last + (fine ? n : n * 512);
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* Modulo 2^64: a file may tell of sizes that no device has. */
static inline int64_t sum(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline void change(mt_timeline *t, mt_level *l, int64_t bytes, uint64_t time_us) {
    l->now = sum(l->now, bytes);
    if (l->now > l->peak) {
        l->peak = l->now;
        l->step = t->events + 1;
        l->time_us = time_us;
    }
}

/* More free places than this, and than four times the others, are forgotten. */
#define FREE_KEPT 65536

static bool forget_free(mt_timeline *t) {
    for (uint32_t i = 0; i < t->places.count; i++) {
        const mt_place *l = &t->places.at[i];
        if (l->state != MT_BLOCK_FREE || !mt_map_remove(&t->slots, l->address))
            continue;
        uint32_t *spare = mt_array_push(&t->spare);
        if (spare == NULL)
            return false;
        *spare = i;
    }
    t->free = 0;
    return true;
}

/* A slot for a new place; one that no record mentions yet when never_used. */
static bool new_slot(mt_timeline *t, uint64_t address, bool never_used, uint32_t *slot) {
    if (t->free > FREE_KEPT && t->free > t->slots.count / 5 * 4 && !forget_free(t))
        return false;
    if (t->spare.count > 0 && !never_used) {
        *slot = t->spare.at[--t->spare.count];
    } else {
        if (t->places.count >= UINT32_MAX || mt_array_push(&t->places) == NULL)
            return false;
        *slot = (uint32_t)t->places.count - 1;
    }
    t->places.at[*slot] = (mt_place){ address, 0, MT_BLOCK_FREE };
    t->free++;
    return mt_map_set(&t->slots, address, *slot);
}

static inline void set_live(mt_timeline *t, mt_place *l, uint64_t requested) {
    l->state = MT_BLOCK_ACTIVE;
    l->requested = requested;
    t->free--;
}

static inline void set_free(mt_timeline *t, mt_place *l, uint64_t time_us) {
    l->state = MT_BLOCK_FREE;
    t->free++;
    change(t, &t->requested, -(int64_t)l->requested, time_us);
}

/* The segments that were obtained or given back since the last request are this one's doing. */
static void set_cause(mt_timeline *t, const mt_snapshot_event *e) {
    for (; t->caused < t->segments.count; t->caused++) {
        t->segments.at[t->caused].requested = e->size;
        t->segments.at[t->caused].cause = e->stack;
    }
}

static bool add_alloc(mt_timeline *t, const mt_snapshot_event *e) {
    const uint64_t *there = mt_map_find(&t->slots, e->address);
    uint32_t slot = there != NULL ? (uint32_t)*there : 0;
    uint8_t state = there != NULL ? t->places.at[slot].state : MT_BLOCK_FREE;
    set_cause(t, e);
    if (state == MT_BLOCK_ACTIVE) {
        t->odd++;
        put(t, OTHER);
        return true;
    }
    if (there == NULL && !new_slot(t, e->address, false, &slot))
        return false;
    mt_place *l = &t->places.at[slot];
    if (state == MT_BLOCK_PENDING) { /* its completion was not recorded */
        put(t, (uint64_t)slot << 3 | SILENT);
        set_free(t, l, e->time_us);
    }
    set_live(t, l, e->size);
    change(t, &t->requested, (int64_t)e->size, e->time_us);
    put(t, (uint64_t)slot << 3 | (there != NULL ? AGAIN : ALLOC));
    if (there == NULL)
        put_place(t, e->address);
    put(t, e->size);
    put(t, e->stack);
    return true;
}

/* The slot of a block that is freed; what was not requested here was live at the beginning. */
static bool slot_of(mt_timeline *t, const mt_snapshot_event *e, uint32_t *slot) {
    const uint64_t *there = mt_map_find(&t->slots, e->address);
    if (there != NULL && t->places.at[*there].state != MT_BLOCK_FREE) {
        *slot = (uint32_t)*there;
        return true;
    }
    t->odd += there != NULL; /* a second free of what was requested here */
    mt_early *early = mt_array_push(&t->earlies);
    if (early == NULL || !new_slot(t, e->address, true, slot))
        return false;
    set_live(t, &t->places.at[*slot], e->size);
    *early = (mt_early){ e->address, e->size, *slot, e->action == MT_ACTION_FREE_COMPLETED };
    t->early++;
    return true;
}

static bool add_asked(mt_timeline *t, const mt_snapshot_event *e) {
    uint32_t slot;
    if (!slot_of(t, e, &slot))
        return false;
    mt_place *l = &t->places.at[slot];
    bool first = l->state == MT_BLOCK_ACTIVE;
    t->odd += !first;
    t->asked = first ? slot + 1 : 0;
    t->asked_at = t->log.count;
    put(t, first ? (uint64_t)slot << 3 | ASKED : OTHER);
    l->state = MT_BLOCK_PENDING;
    return true;
}

/* Most frees complete right after they were asked for. */
static bool add_freed(mt_timeline *t, const mt_snapshot_event *e, uint32_t asked) {
    uint32_t slot = asked - 1;
    if (asked != 0 && t->places.at[slot].address == e->address) {
        t->log.at[t->asked_at] = (unsigned char)((t->log.at[t->asked_at] & ~7) | BOTH);
    } else {
        if (!slot_of(t, e, &slot))
            return false;
        put(t, (uint64_t)slot << 3 | FREED);
    }
    t->completes = true;
    set_free(t, &t->places.at[slot], e->time_us);
    return true;
}

static bool add_segment_event(mt_timeline *t, const mt_snapshot_event *e) {
    mt_segment_event *to = mt_array_push(&t->segments);
    if (to == NULL)
        return false;
    *to = (mt_segment_event){ .step = t->events,
                              .time_us = e->time_us,
                              .address = e->address,
                              .size = e->size,
                              .stream = e->stream,
                              .stack = e->stack,
                              .pool = e->pool,
                              .action = (uint8_t)e->action };
    put(t, SEGMENT);
    if (e->action == MT_ACTION_OOM)
        set_cause(t, e);
    else if (e->action == MT_ACTION_SEGMENT_ALLOC || e->action == MT_ACTION_SEGMENT_MAP)
        change(t, &t->reserved, (int64_t)e->size, e->time_us);
    else
        change(t, &t->reserved, -(int64_t)e->size, e->time_us);
    return true;
}

static bool add_event(mt_timeline *t, const mt_snapshot_event *e) {
    uint32_t asked = t->asked;
    bool added = true;
    t->asked = 0;
    if (e->action == MT_ACTION_ALLOC)
        added = add_alloc(t, e);
    else if (e->action == MT_ACTION_FREE_REQUESTED)
        added = add_asked(t, e);
    else if (e->action == MT_ACTION_FREE_COMPLETED)
        added = add_freed(t, e, asked);
    else if (e->action < MT_ACTIONS)
        added = add_segment_event(t, e);
    else
        put(t, OTHER);
    t->events++;
    return added;
}

mt_status mt_timeline_add(mt_timeline *t, const mt_snapshot_event *event, size_t n, mt_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (!mt_array_reserve(&t->log, t->log.count + LONGEST) || !add_event(t, &event[i]))
            return no_memory(err);
        if (event[i].time_us == MT_SNAPSHOT_NONE)
            continue;
        if (t->first_us == MT_SNAPSHOT_NONE)
            t->first_us = event[i].time_us;
        t->last_us = event[i].time_us;
        if (t->last_us - t->first_us <= t->after_us)
            t->after_step = t->events;
    }
    return MT_OK;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* The settings that decide how a request is rounded, as a policy's options. */
mt_status mt_snapshot_rules(const mt_snapshot *s, mt_source **source, mt_alloc **rules,
                            mt_error *err) {
    char policy[512];
    int n = snprintf(policy, sizeof policy, "torch");
    bool divides = false;
    for (int i = 0; i < 16; i++)
        divides |= s->settings.divisions[i] > 1;
    for (int i = 0; divides && i < 16; i++) {
        uint64_t d = s->settings.divisions[i];
        bool valid = d > 1 && d <= 1024 && (d & (d - 1)) == 0;
        n += snprintf(policy + n, sizeof policy - (size_t)n, "%s%u:%u",
                      i == 0 ? ",roundup_power2_divisions:[" : ",", 1u << i,
                      valid ? (unsigned)d : 0);
    }
    if (divides)
        snprintf(policy + n, sizeof policy - (size_t)n, "]");
    MT_TRY(mt_source_sim(source, UINT64_MAX / 2, 2 * MT_MIB, err));
    return mt_alloc_open(rules, *source, policy, err);
}

static uint64_t max_split(const mt_snapshot *s) {
    return s->settings.told && s->settings.max_split > 0 ? (uint64_t)s->settings.max_split
                                                         : UINT64_MAX;
}

/* What an event says of its segment. Which pool it is in follows from the request that it was
 * obtained for; of one that is given back from its size. */
static mt_heap_segment segment_of(const mt_timeline *t, const mt_segment_event *e,
                                  bool expandable) {
    bool gets = e->action == MT_ACTION_SEGMENT_ALLOC || e->action == MT_ACTION_SEGMENT_MAP;
    bool large = expandable ? e->size % LARGE_PAGE == 0 : e->size > 2 * MT_MIB;
    if (gets && e->requested > 0)
        large = mt_alloc_roundup(t->rules, e->requested) > MT_MIB;
    return (mt_heap_segment){ .address = e->address,
                              .size = e->size,
                              .stream = e->stream,
                              .pool = e->pool,
                              .stack = e->stack,
                              .large = large,
                              .expandable = expandable };
}

static mt_status do_segment(const mt_timeline *t, mt_heap *h, const mt_segment_event *e,
                            bool backward, mt_error *err) {
    mt_heap_segment g;
    bool gets = e->action == MT_ACTION_SEGMENT_ALLOC || e->action == MT_ACTION_SEGMENT_MAP;
    bool whole = e->action == MT_ACTION_SEGMENT_ALLOC || e->action == MT_ACTION_SEGMENT_FREE;
    if (e->action == MT_ACTION_OOM)
        return MT_OK;
    if (gets == backward)
        return whole ? mt_heap_remove_segment(h, e->address, err)
                     : mt_heap_unmap(h, e->address, e->size, err);
    g = segment_of(t, e, !whole);
    return whole ? mt_heap_add_segment(h, &g, err) : mt_heap_map(h, &g, err);
}

static mt_heap_segment in_heap(const mt_snapshot_segment *g) {
    return (mt_heap_segment){ .address = g->address,
                              .size = g->total,
                              .stream = g->stream,
                              .pool = g->pool,
                              .stack = g->stack,
                              .large = g->large,
                              .expandable = g->expandable };
}

static mt_status add_final_segments(const mt_timeline *t, mt_heap *h, mt_error *err) {
    for (size_t i = 0; i < t->snapshot->segments.count; i++) {
        const mt_snapshot_segment *g = &t->snapshot->segments.at[i];
        const mt_heap_segment segment = in_heap(g);
        if (g->device == t->device)
            MT_TRY(mt_heap_add_segment(h, &segment, err));
    }
    return MT_OK;
}

/* The segments at the beginning: from those at the end, backward. */
static mt_status find_segments(mt_timeline *t, mt_error *err) {
    mt_heap h;
    mt_heap_open(&h, t->rules, UINT64_MAX);
    mt_status status = add_final_segments(t, &h, err);
    for (size_t i = t->segments.count; i > 0 && status == MT_OK; i--)
        status = do_segment(t, &h, &t->segments.at[i - 1], true, err);
    if (status == MT_OK)
        status = mt_view_of_heap(&t->start, &h, t->device, err);
    t->odd += h.odd;
    t->start.own.count = 0;
    mt_heap_close(&h);
    return status;
}

/* A block at the beginning, with its slot + 1. */
typedef struct first_block {
    mt_snapshot_block block;
    uint32_t slot;
} first_block;

typedef MT_ARRAY(first_block) first_blocks;

static int by_address(const void *a, const void *b) {
    const first_block *x = a, *y = b;
    return (x->block.address > y->block.address) - (x->block.address < y->block.address);
}

/* Whether the events left a live block at an address. */
static bool is_live(const mt_timeline *t, uint64_t address) {
    const uint64_t *slot = mt_map_find(&t->slots, address);
    return slot != NULL && t->places.at[*slot].state != MT_BLOCK_FREE;
}

/* The blocks that were live at the beginning, by address; those freed since are as long as their
 * request rounded. */
static mt_status collect_first(const mt_timeline *t, first_blocks *out, mt_error *err) {
    const mt_snapshot *s = t->snapshot;
    for (size_t i = 0; i < t->earlies.count; i++) {
        first_block *b = mt_array_push(out);
        const mt_early *e = &t->earlies.at[i];
        if (b == NULL)
            return no_memory(err);
        *b = (first_block){ { e->address, mt_alloc_roundup(t->rules, e->requested), e->requested, 0,
                              e->pending ? MT_BLOCK_PENDING : MT_BLOCK_ACTIVE },
                            e->slot + 1 };
    }
    for (size_t i = 0; i < s->segments.count; i++) {
        const mt_snapshot_segment *g = &s->segments.at[i];
        for (uint32_t k = 0; g->device == t->device && k < g->blocks; k++) {
            const mt_snapshot_block *from = &s->blocks.at[g->first + k];
            if (from->state == MT_BLOCK_FREE || is_live(t, from->address))
                continue;
            first_block *b = mt_array_push(out);
            if (b == NULL)
                return no_memory(err);
            *b = (first_block){ *from, 0 };
        }
    }
    if (out->count > 0)
        qsort(out->at, out->count, sizeof *out->at, by_address);
    return MT_OK;
}

/* Corrects the length of a block that was freed since: it ends where the next one begins, or goes
 * on to there when what is between would not have been kept as a block. */
static void fit(first_block *b, uint64_t end, const mt_snapshot_segment *g) {
    uint64_t room = end - b->block.address;
    uint64_t rest = g->large && !g->expandable ? MT_MIB : 511;
    if (b->slot != 0 && (b->block.size > room || room - b->block.size <= rest))
        b->block.size = room;
}

/* Puts the blocks into the segments that they lie in; both are sorted. */
static mt_status place_first(mt_timeline *t, const first_blocks *blocks, mt_error *err) {
    size_t next = 0;
    if (!mt_array_reserve(&t->start.own, blocks->count) ||
        !mt_array_reserve(&t->start_slots, blocks->count))
        return no_memory(err);
    for (size_t i = 0; i < t->start.segments.count; i++) {
        mt_snapshot_segment *g = &t->start.segments.at[i];
        uint64_t end = g->address + g->total;
        for (; next < blocks->count && blocks->at[next].block.address < g->address; next++)
            t->odd++;
        g->first = (uint32_t)t->start.own.count;
        for (; next < blocks->count && blocks->at[next].block.address < end; next++) {
            first_block *b = &blocks->at[next];
            if (b->block.requested != MT_SNAPSHOT_NONE)
                g->large = mt_alloc_roundup(t->rules, b->block.requested) > MT_MIB;
            bool last = next + 1 == blocks->count || b[1].block.address >= end;
            fit(b, last ? end : b[1].block.address, g);
            t->start.own.at[t->start.own.count++] = b->block;
            t->start_slots.at[t->start_slots.count++] = b->slot;
        }
        g->blocks = (uint32_t)t->start.own.count - g->first;
    }
    t->odd += blocks->count - next;
    t->start.blocks = t->start.own.at;
    return MT_OK;
}

/* What the events changed, taken from what there is at the end, was there at the beginning. */
static void make_absolute(mt_timeline *t, mt_level *l, uint64_t final) {
    int64_t first = (int64_t) final - l->now;
    t->odd += first < 0;
    l->now = (int64_t) final;
    l->peak += first;
}

static void conclude_levels(mt_timeline *t) {
    const mt_snapshot *s = t->snapshot;
    uint64_t requested = 0, reserved = 0;
    for (size_t i = 0; i < s->segments.count; i++) {
        const mt_snapshot_segment *g = &s->segments.at[i];
        if (g->device != t->device)
            continue;
        reserved += g->total;
        for (uint32_t k = 0; k < g->blocks; k++) {
            const mt_snapshot_block *b = &s->blocks.at[g->first + k];
            if (b->state != MT_BLOCK_FREE && b->requested != MT_SNAPSHOT_NONE)
                requested += b->requested;
        }
    }
    make_absolute(t, &t->requested, requested);
    make_absolute(t, &t->reserved, reserved);
}

mt_status mt_timeline_conclude(mt_timeline *t, const mt_snapshot *s, const mt_alloc *rules,
                               uint32_t device, mt_error *err) {
    first_blocks blocks = { 0 };
    t->snapshot = s;
    t->rules = rules;
    t->device = device;
    conclude_levels(t);
    MT_TRY(find_segments(t, err));
    mt_status status = collect_first(t, &blocks, err);
    if (status == MT_OK)
        status = place_first(t, &blocks, err);
    mt_array_free(&blocks);
    free_adding(t);
    return status;
}

/* ---- following the events -------------------------------------------------------------------- */

/* What a slot stands for at the moment. */
typedef struct followed {
    uint64_t address;
    uint32_t block; /* 0: none */
} followed;

typedef struct follower {
    const mt_timeline *t;
    mt_heap heap;
    followed *slot;
    const unsigned char *p;
    uint64_t step, last_alloc;
    size_t segment; /* the next one of t->segments */
    bool half;      /* of the record at p, a BOTH, the first half is done */
} follower;

/* The state at the beginning. */
static mt_status begin(follower *f, mt_error *err) {
    const mt_timeline *t = f->t;
    for (size_t i = 0; i < t->start.segments.count; i++) {
        const mt_snapshot_segment *g = &t->start.segments.at[i];
        const mt_heap_segment segment = in_heap(g);
        MT_TRY(mt_heap_add_segment(&f->heap, &segment, err));
        const uint64_t *number = mt_map_find(&f->heap.begins, g->address);
        for (uint32_t k = 0; number != NULL && k < g->blocks; k++) {
            uint32_t block, slot = t->start_slots.at[g->first + k];
            MT_TRY(mt_heap_place(&f->heap, f->heap.block.at[*number].segment,
                                 &t->start.blocks[g->first + k], &block, err));
            if (slot != 0)
                f->slot[slot - 1] = (followed){ t->start.blocks[g->first + k].address, block };
            number = mt_map_find(&f->heap.begins, g->address);
        }
    }
    return MT_OK;
}

static void release(follower *f, followed *slot) {
    if (slot->block != 0)
        mt_heap_release(&f->heap, slot->block);
    slot->block = 0;
}

static void ask(follower *f, followed *slot) {
    if (!f->t->completes)
        release(f, slot);
    else if (slot->block != 0)
        f->heap.block.at[slot->block].state = MT_BLOCK_PENDING;
}

static mt_status take(follower *f, followed *slot, bool again, mt_error *err) {
    if (!again)
        slot->address = f->last_alloc = get_place(&f->p, f->last_alloc);
    uint64_t size = get(&f->p), stack = get(&f->p);
    return mt_heap_take(&f->heap, slot->address, size, (uint32_t)stack, &slot->block, err);
}

/* Carries out the next record, or the half of it that comes before step most. */
static mt_status follow(follower *f, uint64_t most, mt_error *err) {
    const unsigned char *record = f->p;
    uint64_t n = get(&f->p);
    followed *slot = &f->slot[n >> 3];
    f->step += (n & 7) != SILENT;
    switch (n & 7) {
    case ALLOC:
    case AGAIN:
        return take(f, slot, (n & 7) == AGAIN, err);
    case ASKED:
        ask(f, slot);
        return MT_OK;
    case BOTH:
        if (!f->half && f->step == most) {
            ask(f, slot);
            f->half = true;
            f->p = record;
            return MT_OK;
        }
        f->step += !f->half;
        f->half = false;
        release(f, slot);
        return MT_OK;
    case FREED:
    case SILENT:
        release(f, slot);
        return MT_OK;
    case SEGMENT:
        return do_segment(f->t, &f->heap, &f->t->segments.at[f->segment++], false, err);
    default:
        return MT_OK;
    }
}

mt_status mt_timeline_at(const mt_timeline *t, const uint64_t *step, size_t n, mt_view *out,
                         uint64_t *odd, mt_error *err) {
    const unsigned char *end = t->log.at + t->log.count;
    follower f = { .t = t, .p = t->log.at };
    memset(out, 0, n * sizeof *out);
    f.slot = calloc(t->slot_count + 1, sizeof *f.slot);
    mt_heap_open(&f.heap, t->rules, max_split(t->snapshot));
    mt_status status = f.slot != NULL ? begin(&f, err) : no_memory(err);
    for (size_t i = 0; i < n && status == MT_OK; i++) {
        while (status == MT_OK && f.p < end && f.step < step[i])
            status = f.step % 65536 == 65535 && mt_interrupted()
                         ? mt_fail(err, MT_INTERRUPTED, "interrupted")
                         : follow(&f, step[i], err);
        if (status == MT_OK)
            status = mt_view_of_heap(&out[i], &f.heap, t->device, err);
    }
    *odd = f.heap.odd;
    mt_heap_close(&f.heap);
    free(f.slot);
    for (size_t i = 0; i < n && status != MT_OK; i++)
        mt_view_free(&out[i]);
    return status;
}
