/* alloc.c - the front of the allocator: requests in, events out.
 *
 * Each live request has an entry in a table: what was asked for, where it lies, whose block serves
 * it. A handle is the entry's number and its generation, so that a second free, or a handle never
 * given out, is seen and refused. The policy places; this file counts, tells and checks. */
#include "alloc/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/internal.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/size.h"

#define LISTENERS 4

/* More than any device holds. Below it no rounding overflows. */
#define TOO_LARGE (UINT64_C(1) << 60)

#ifdef MT_WALK
static mt_status walk_all(const mt_alloc *a, mt_error *err);
#endif

typedef enum live_state { LIVE_NONE, LIVE_USED, LIVE_PENDING } live_state;

typedef struct live {
    uint64_t id, requested, rounded, offset;
    void *block;
    uint32_t segment, slot, stream;
    uint32_t generation;
    uint32_t next_free;
    int32_t layer;
    uint8_t tag, pool, state;
} live;

struct mt_alloc {
    mt_source *source;
    mt_policy *policy;
    mt_ledger ledger;
    mt_listener listener[LISTENERS];
    int listeners;
    MT_ARRAY(live) live; /* entry 0 is never used */
    uint32_t free_live;  /* entry, 0 = none */
    uint64_t seq, next_id;
    int32_t step;
    bool stamp;
    const mt_request *cause; /* of the events being sent */
    uint64_t cause_id;       /* MT_NO_ID outside a request */
    mt_alloc_times *times;   /* NULL: nobody asks */
    mt_refusal refusal;
    mt_error broken; /* what failed first where nothing could be returned: the ledger could not take
                        an event, or there was no memory */
};

/* ---- events ---------------------------------------------------------------------------------- */

static void send(mt_alloc *a, mt_event *e) {
    e->seq = a->seq++;
    e->step = a->step;
    e->time_ns = a->stamp ? mt_now_ns() : 0;
    mt_error err;
    if (mt_ledger_apply(&a->ledger, e, &err) != MT_OK && a->broken.status == MT_OK)
        a->broken = err;
#ifdef MT_WALK
    if (a->broken.status == MT_OK && walk_all(a, &err) != MT_OK)
        a->broken = err;
#endif
    uint64_t begin = a->times != NULL ? mt_now_ns() : 0;
    for (int i = 0; i < a->listeners; i++)
        a->listener[i].on_event(a->listener[i].context, e);
    if (a->times != NULL) {
        a->times->events++;
        a->times->listen_ns += mt_now_ns() - begin;
    }
}

static void send_segment(void *context, mt_event_kind kind, uint32_t number, uint32_t slot,
                         uint8_t pool, uint64_t offset, uint64_t bytes) {
    mt_alloc *a = context;
    mt_event e = { .id = a->cause_id,
                   .offset = offset,
                   .requested = a->cause->bytes,
                   .rounded = bytes,
                   .segment = number,
                   .slot = slot,
                   .stream = a->cause->stream,
                   .layer = a->cause->layer,
                   .kind = (uint8_t)kind,
                   .tag = (uint8_t)a->cause->tag,
                   .pool = pool };
    send(a, &e);
}

/* Fields one by one, here and in mt_block_serve: a struct that is built and then copied is read in
 * wider pieces than it was written in, which costs more than all of the ledger. */
static inline void live_event(mt_event *e, const live *l, mt_event_kind kind) {
    e->id = l->id;
    e->offset = l->offset;
    e->requested = l->requested;
    e->rounded = l->rounded;
    e->segment = l->segment;
    e->slot = l->slot;
    e->stream = l->stream;
    e->layer = l->layer;
    e->kind = (uint8_t)kind;
    e->tag = l->tag;
    e->pool = l->pool;
}

static void drop_live(mt_alloc *a, uint32_t number) {
    live *l = &a->live.at[number];
    l->state = LIVE_NONE;
    l->generation++;
    l->next_free = a->free_live;
    a->free_live = number;
}

static void send_free(void *context, uint32_t number) {
    mt_alloc *a = context;
    mt_event e;
    live_event(&e, &a->live.at[number], MT_EV_FREE);
    drop_live(a, number);
    send(a, &e);
}

/* What goes wrong where nothing can be returned: what comes first stays. */
static void failed(void *context, const char *what) {
    mt_alloc *a = context;
    if (a->broken.status == MT_OK)
        mt_no_memory(&a->broken, what);
}

/* What segment events name when no request caused them. */
static const mt_request nobody = { .tag = MT_OTHER, .layer = -1 };

static void no_cause(mt_alloc *a) {
    a->cause = &nobody;
    a->cause_id = MT_NO_ID;
}

/* ---- opening and closing --------------------------------------------------------------------- */

mt_status mt_alloc_open(mt_alloc **out, mt_source *source, const char *policy, mt_error *err) {
    mt_alloc *a = calloc(1, sizeof *a);
    if (a == NULL)
        return mt_no_memory(err, "an allocator");
    a->source = source;
    a->step = -1;
    mt_ledger_init(&a->ledger);
    no_cause(a);
    if (!mt_array_extend(&a->live, 1)) {
        free(a);
        return mt_no_memory(err, "an allocator");
    }
    const mt_owner owner = { a, send_segment, send_free, failed };
    mt_status status = mt_policy_open(&a->policy, policy, &owner, source, err);
    if (status != MT_OK) {
        mt_array_free(&a->live);
        free(a);
        return status;
    }
    *out = a;
    return MT_OK;
}

void mt_alloc_close(mt_alloc *a) {
    if (a == NULL)
        return;
    mt_policy_close(a->policy);
    mt_ledger_free(&a->ledger);
    mt_array_free(&a->live);
    free(a);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* An entry of the table, taken. */
static mt_status take_entry(mt_alloc *a, uint32_t *number, mt_error *err) {
    *number = a->free_live;
    if (*number != 0) {
        a->free_live = a->live.at[*number].next_free;
        return MT_OK;
    }
    if (a->live.count > UINT32_MAX || !mt_array_extend(&a->live, a->live.count + 1))
        return mt_no_memory(err, "the table of live requests");
    *number = (uint32_t)(a->live.count - 1);
    return MT_OK;
}

/* What the source could still give: a real device may hold less than its capacity says. */
static uint64_t source_free(mt_source *s) {
    uint64_t left = s->capacity - (s->used < s->capacity ? s->used : s->capacity), used;
    if (s->device_used == NULL || s->device_used(s, &used, NULL) != MT_OK)
        return left;
    uint64_t there = s->device_total - used;
    return there < left ? there : left;
}

static void note_refusal(mt_alloc *a, const mt_request *r) {
    mt_refusal *f = &a->refusal;
    f->request = *r;
    f->rounded = mt_alloc_roundup(a, r->bytes);
    f->capacity = a->source->capacity;
    f->source_free = source_free(a->source);
    f->reserved = a->ledger.reserved.current;
    f->free_total = a->ledger.split + a->ledger.cached;
    f->step = a->step;
    a->policy->ops->refusal(a->policy, r->bytes < TOO_LARGE ? r->bytes : TOO_LARGE, r->stream,
                            &f->segment, &f->largest_free);
    if (f->segment < f->rounded)
        f->segment = f->rounded;
    if (f->segment <= (uint64_t)1 << 61)
        f->segment = mt_round_up(f->segment, a->source->granularity);
    mt_event e = { .id = a->cause_id,
                   .offset = f->source_free,
                   .requested = r->bytes,
                   .rounded = f->rounded,
                   .stream = r->stream,
                   .layer = r->layer,
                   .kind = MT_EV_OOM,
                   .tag = (uint8_t)r->tag };
    send(a, &e);
}

/* What an event left broken; it stays so. */
static mt_status settle(mt_alloc *a, mt_error *err) {
    if (a->broken.status == MT_OK)
        return MT_OK;
    return mt_fail(err, a->broken.status, "%s", a->broken.text);
}

static void fill_entry(mt_alloc *a, uint32_t number, const mt_request *r, const mt_place *place) {
    live *l = &a->live.at[number];
    l->id = a->cause_id;
    l->requested = r->bytes;
    l->rounded = place->rounded;
    l->offset = place->offset;
    l->block = place->block;
    l->segment = place->segment;
    l->slot = place->slot;
    l->stream = r->stream;
    l->layer = r->layer;
    l->tag = (uint8_t)r->tag;
    l->pool = place->pool;
    l->state = LIVE_USED;
}

static mt_status get(mt_alloc *a, const mt_request *request, mt_mem *out, mt_error *err) {
    uint32_t number;
    mt_place place;
    /* An entry is taken before the policy runs: completing a pending free frees entries too. */
    MT_TRY(take_entry(a, &number, err));
    a->cause = request;
    a->cause_id = a->next_id;
    mt_status status =
        request->bytes >= TOO_LARGE
            ? mt_fail(err, MT_NO_MEMORY, "%" PRIu64 " bytes: larger than any device",
                      request->bytes)
            : a->policy->ops->get(a->policy, request->bytes, request->stream, number, &place, err);
    if (status != MT_OK) {
        drop_live(a, number);
        if (status == MT_NO_MEMORY)
            note_refusal(a, request);
        no_cause(a);
        return status;
    }
    a->next_id++;
    fill_entry(a, number, request, &place);
    mt_event e;
    live_event(&e, &a->live.at[number], MT_EV_ALLOC);
    send(a, &e);
    no_cause(a);
    out->ptr = place.ptr;
    out->handle = (uint64_t)a->live.at[number].generation << 32 | number;
    return settle(a, err);
}

/* A call's time, but for what listeners took of it. */
static void add_time(mt_alloc_times *t, uint64_t begin, uint64_t listened) {
    t->calls++;
    t->alloc_ns += mt_now_ns() - begin - (t->listen_ns - listened);
}

mt_status mt_alloc_get(mt_alloc *a, const mt_request *request, mt_mem *out, mt_error *err) {
    *out = (mt_mem){ 0 };
    if (request->bytes == 0)
        return MT_OK;
    if (a->times == NULL)
        return get(a, request, out, err);
    uint64_t begin = mt_now_ns(), listened = a->times->listen_ns;
    mt_status status = get(a, request, out, err);
    add_time(a->times, begin, listened);
    return status;
}

/* The entry of a handle, or NULL with a line that says what is wrong with it. */
static live *find_live(const mt_alloc *a, mt_mem mem, mt_error *err) {
    uint32_t number = (uint32_t)mem.handle, generation = (uint32_t)(mem.handle >> 32);
    const bool known = number != 0 && number < a->live.count;
    if (!known || generation > a->live.at[number].generation ||
        (generation == a->live.at[number].generation && a->live.at[number].state == LIVE_NONE)) {
        mt_fail(err, MT_BAD, "memory %p (handle %#" PRIx64 ") was never allocated", mem.ptr,
                mem.handle);
        return NULL;
    }
    live *l = &a->live.at[number];
    if (l->state == LIVE_USED && generation == l->generation)
        return l;
    mt_fail(err, MT_BAD, "memory %p (handle %#" PRIx64 ") is already freed", mem.ptr, mem.handle);
    return NULL;
}

static mt_status put(mt_alloc *a, mt_mem *mem, mt_error *err) {
    live *l = find_live(a, *mem, err);
    if (l == NULL)
        return MT_BAD;
    l->state = LIVE_PENDING;
    *mem = (mt_mem){ 0 };
    a->policy->ops->put(a->policy, l->block);
    return settle(a, err);
}

mt_status mt_alloc_put(mt_alloc *a, mt_mem *mem, mt_error *err) {
    if (mem->handle == 0)
        return MT_OK;
    if (a->times == NULL)
        return put(a, mem, err);
    uint64_t begin = mt_now_ns(), listened = a->times->listen_ns;
    mt_status status = put(a, mem, err);
    add_time(a->times, begin, listened);
    return status;
}

void mt_alloc_time(mt_alloc *a, mt_alloc_times *times) {
    a->times = times;
}

mt_status mt_alloc_use(mt_alloc *a, mt_mem mem, uint32_t stream, mt_error *err) {
    if (mem.handle == 0)
        return MT_OK;
    live *l = find_live(a, mem, err);
    if (l == NULL)
        return MT_BAD;
    if (a->policy->ops->use != NULL)
        a->policy->ops->use(a->policy, l->block, stream);
    return settle(a, err);
}

void mt_alloc_hold(mt_alloc *a, bool held) {
    if (a->policy->ops->hold != NULL)
        a->policy->ops->hold(a->policy, held);
}

void mt_alloc_trim(mt_alloc *a) {
    no_cause(a);
    if (a->policy->ops->trim != NULL)
        a->policy->ops->trim(a->policy);
}

uint64_t mt_alloc_roundup(const mt_alloc *a, uint64_t bytes) {
    uint64_t rounded = a->policy->ops->roundup(a->policy, bytes);
    return rounded >= bytes ? rounded : UINT64_MAX; /* less: it overflowed */
}

void mt_alloc_mark(mt_alloc *a, uint64_t ctx, uint64_t kv_ideal, uint64_t nanoseconds) {
    if (a->policy->ops->poll != NULL)
        a->policy->ops->poll(a->policy);
    mt_event e = { .id = MT_NO_ID,
                   .ctx = ctx,
                   .kv_ideal = kv_ideal,
                   .nanoseconds = nanoseconds,
                   .layer = -1,
                   .kind = MT_EV_MARK,
                   .tag = MT_OTHER };
    send(a, &e);
    if (a->step < INT32_MAX)
        a->step++;
}

/* ---- reading --------------------------------------------------------------------------------- */

void mt_alloc_listen(mt_alloc *a, mt_listener listener) {
    if (a->listeners < LISTENERS)
        a->listener[a->listeners++] = listener;
}

void mt_alloc_on_driver_call(mt_alloc *a, mt_driver_listener listener) {
    a->policy->core.driver = listener;
}

void mt_alloc_unlisten(mt_alloc *a) {
    a->listeners = 0;
}

void mt_alloc_stamp(mt_alloc *a, bool on) {
    a->stamp = on;
}

const mt_ledger *mt_alloc_ledger(const mt_alloc *a) {
    return &a->ledger;
}

mt_source *mt_alloc_source(const mt_alloc *a) {
    return a->source;
}

const char *mt_alloc_policy(const mt_alloc *a) {
    return a->policy->description;
}

const char *mt_alloc_note(const mt_alloc *a, uint32_t i) {
    return i < a->policy->notes ? a->policy->note[i] : NULL;
}

const mt_refusal *mt_alloc_refusal(const mt_alloc *a) {
    return &a->refusal;
}

mt_policy *mt_alloc_policy_of(const mt_alloc *a) {
    return a->policy;
}

mt_status mt_alloc_info(const mt_alloc *a, mt_mem mem, mt_live_info *out, mt_error *err) {
    const live *l = find_live(a, mem, err);
    if (l == NULL)
        return MT_BAD;
    *out = (mt_live_info){ .id = l->id,
                           .requested = l->requested,
                           .rounded = l->rounded,
                           .offset = l->offset,
                           .segment = l->segment,
                           .stream = l->stream,
                           .layer = l->layer,
                           .tag = (mt_tag)l->tag,
                           .pool = (mt_pool)l->pool };
    return MT_OK;
}

/* ---- the full walk --------------------------------------------------------------------------- */

/* A walk of another's, who is told whose request a block serves. */
typedef struct named_walk {
    const mt_alloc *a;
    const mt_visitor *v;
} named_walk;

static mt_status pass_segment(void *context, const mt_segment_info *s, mt_error *err) {
    return mt_visit_segment(((named_walk *)context)->v, s, err);
}

static mt_status pass_block(void *context, const mt_segment_info *s, const mt_block_info *b,
                            mt_error *err) {
    const named_walk *w = context;
    mt_block_info named = *b;
    if (b->state == MT_BLOCK_ACTIVE || b->state == MT_BLOCK_PENDING) {
        const live *l = &w->a->live.at[b->live];
        named.id = l->id;
        named.requested = l->requested;
        named.layer = l->layer;
        named.tag = (mt_tag)l->tag;
    }
    return w->v->block(w->v->context, s, &named, err);
}

mt_status mt_alloc_walk(const mt_alloc *a, const mt_visitor *v, mt_error *err) {
    named_walk w = { a, v };
    mt_visitor naming = { pass_segment, pass_block, &w };
    return mt_policy_walk(a->policy, &naming, err);
}

/* A recount of what the ledger knows, made by walking. */
typedef struct recount {
    const mt_alloc *a;
    uint64_t tag[MT_TAGS];
    uint64_t rounding, split, cached, reserved, segments, lives;
    uint64_t bytes, mapped, at, free_bytes, live_bytes; /* of the segment being walked */
    uint32_t number;
    bool open;
} recount;

static void end_segment(recount *r) {
    *(r->live_bytes > 0 ? &r->split : &r->cached) += r->free_bytes;
    r->reserved += r->mapped;
    r->segments += r->mapped > 0;
}

static mt_status check_end(const recount *r, mt_error *err) {
    if (r->open && (r->at != r->bytes || r->free_bytes + r->live_bytes != r->mapped))
        return mt_fail(err, MT_CHECK,
                       "segment %u: blocks end at %" PRIu64 " of %" PRIu64 " bytes, %" PRIu64
                       " of %" PRIu64 " mapped",
                       r->number, r->at, r->bytes, r->free_bytes + r->live_bytes, r->mapped);
    return MT_OK;
}

static mt_status walk_segment(void *context, const mt_segment_info *s, mt_error *err) {
    recount *r = context;
    MT_TRY(check_end(r, err));
    if (r->open)
        end_segment(r);
    r->open = true;
    r->number = s->number;
    r->bytes = s->bytes;
    r->mapped = s->mapped;
    r->at = r->free_bytes = r->live_bytes = 0;
    return MT_OK;
}

static mt_status walk_block(void *context, const mt_segment_info *s, const mt_block_info *b,
                            mt_error *err) {
    recount *r = context;
    (void)s;
    if (b->offset != r->at || b->size == 0)
        return mt_fail(err, MT_CHECK,
                       "segment %u: a block of %" PRIu64 " bytes at %" PRIu64
                       ", the one before ends at %" PRIu64,
                       r->number, b->size, b->offset, r->at);
    r->at += b->size;
    if (b->state == MT_BLOCK_FREE)
        r->free_bytes += b->size;
    if (b->state == MT_BLOCK_FREE || b->state == MT_BLOCK_UNMAPPED)
        return MT_OK;
    const live *l = &r->a->live.at[b->live];
    if (l->state == LIVE_NONE || l->segment != r->number || l->offset != b->offset ||
        l->rounded != b->size)
        return mt_fail(err, MT_CHECK,
                       "segment %u: the block at %" PRIu64 " is neither free nor live", r->number,
                       b->offset);
    r->live_bytes += b->size;
    r->tag[l->tag] += l->requested;
    r->rounding += b->size - l->requested;
    r->lives++;
    return MT_OK;
}

static mt_status compare(const recount *r, const mt_ledger *l, mt_error *err) {
    const struct {
        const char *name;
        uint64_t walked, counted;
    } parts[] = {
        { "weights", r->tag[MT_WEIGHTS], l->tag[MT_WEIGHTS].current },
        { "kv", r->tag[MT_KV], l->tag[MT_KV].current },
        { "activations", r->tag[MT_ACTIVATIONS], l->tag[MT_ACTIVATIONS].current },
        { "logits", r->tag[MT_LOGITS], l->tag[MT_LOGITS].current },
        { "workspace", r->tag[MT_WORKSPACE], l->tag[MT_WORKSPACE].current },
        { "other", r->tag[MT_OTHER], l->tag[MT_OTHER].current },
        { "rounding", r->rounding, l->rounding },
        { "split", r->split, l->split },
        { "cached", r->cached, l->cached },
        { "reserved", r->reserved, l->reserved.current },
        { "segments", r->segments, l->segments },
        { "live blocks", r->lives, l->allocs - l->frees },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].walked != parts[i].counted)
            return mt_fail(err, MT_CHECK,
                           "%s: a walk over all segments finds %" PRIu64
                           ", the ledger says %" PRIu64,
                           parts[i].name, parts[i].walked, parts[i].counted);
    return MT_OK;
}

/* Everything but the merging of neighbours, which holds only between operations. */
static mt_status walk_all(const mt_alloc *a, mt_error *err) {
    recount r = { .a = a };
    mt_visitor v = { walk_segment, walk_block, &r };
    if (a->broken.status != MT_OK)
        return mt_fail(err, a->broken.status, "%s", a->broken.text);
    MT_TRY(mt_ledger_check(&a->ledger, err));
    if (a->policy->ops->traits.hidden)
        return MT_OK;
    MT_TRY(mt_policy_walk(a->policy, &v, err));
    MT_TRY(check_end(&r, err));
    if (r.open)
        end_segment(&r);
    return compare(&r, &a->ledger, err);
}

mt_status mt_alloc_check(const mt_alloc *a, mt_error *err) {
    MT_TRY(walk_all(a, err));
    return mt_policy_check_merged(a->policy, err);
}

static mt_status note_largest(void *context, const mt_segment_info *s, const mt_block_info *b,
                              mt_error *err) {
    uint64_t *largest = context;
    (void)s, (void)err;
    if (b->state == MT_BLOCK_FREE && b->size > *largest)
        *largest = b->size;
    return MT_OK;
}

uint64_t mt_alloc_largest_free(const mt_alloc *a) {
    uint64_t largest = 0;
    mt_visitor v = { NULL, note_largest, &largest };
    mt_policy_walk(a->policy, &v, NULL);
    return largest;
}
