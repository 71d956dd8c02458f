/* snapshot.c - see snapshot.h. The pickle's dictionaries are told apart by their keys and turned
 * into records as they are completed; what a list holds follows from its first item. */
#include "traces/snapshot.h"

#include <ctype.h>
#include <string.h>

#include "base/pickle.h"
#include "base/size.h"

/* No size of a device's memory reaches this. */
#define TOO_LARGE ((uint64_t)1 << 56)

/* ---- names ----------------------------------------------------------------------------------- */

/* Texts that matter; the actions first, in the order of mt_action. */
#define NAME_LIST(X)                                                                               \
    X(ALLOC, "alloc")                                                                              \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_ALLOC, "segment_alloc")                                                              \
    X(SEGMENT_FREE, "segment_free")                                                                \
    X(SEGMENT_MAP, "segment_map")                                                                  \
    X(SEGMENT_UNMAP, "segment_unmap")                                                              \
    X(OOM, "oom")                                                                                  \
    X(ACTION, "action")                                                                            \
    X(ADDR, "addr")                                                                                \
    X(SIZE, "size")                                                                                \
    X(STREAM, "stream")                                                                            \
    X(FRAMES, "frames")                                                                            \
    X(TIME_US, "time_us")                                                                          \
    X(DEVICE_FREE, "device_free")                                                                  \
    X(POOL_ID, "pool_id")                                                                          \
    X(USER_METADATA, "user_metadata")                                                              \
    X(FILENAME, "filename")                                                                        \
    X(LINE, "line")                                                                                \
    X(NAME, "name")                                                                                \
    X(ADDRESS, "address")                                                                          \
    X(STATE, "state")                                                                              \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(HISTORY, "history")                                                                          \
    X(REAL_SIZE, "real_size")                                                                      \
    X(TOTAL_SIZE, "total_size")                                                                    \
    X(ALLOCATED_SIZE, "allocated_size")                                                            \
    X(ACTIVE_SIZE, "active_size")                                                                  \
    X(SEGMENT_TYPE, "segment_type")                                                                \
    X(SEGMENT_POOL_ID, "segment_pool_id")                                                          \
    X(IS_EXPANDABLE, "is_expandable")                                                              \
    X(DEVICE, "device")                                                                            \
    X(BLOCKS, "blocks")                                                                            \
    X(SEGMENTS, "segments")                                                                        \
    X(DEVICE_TRACES, "device_traces")                                                              \
    X(EXTERNAL_ANNOTATIONS, "external_annotations")                                                \
    X(HOST_SEGMENTS, "host_segments")                                                              \
    X(HOST_TRACES, "host_traces")                                                                  \
    X(CONF, "PYTORCH_CUDA_ALLOC_CONF")                                                             \
    X(MAX_SPLIT_SIZE, "max_split_size")                                                            \
    X(GARBAGE_COLLECTION, "garbage_collection_threshold")                                          \
    X(EXPANDABLE_SEGMENTS, "expandable_segments")                                                  \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                        \
    X(ACTIVE_PENDING_FREE, "active_pending_free")                                                  \
    X(ACTIVE_AWAITING_FREE, "active_awaiting_free")                                                \
    X(INACTIVE, "inactive")                                                                        \
    X(LARGE, "large")

typedef enum name {
    NO_NAME,
#define X(name, text) name,
    NAME_LIST(X)
#undef X
        NAMES_COUNT
} name;

static const char *const NAMES[] = {
#define X(name, text) text,
    NAME_LIST(X)
#undef X
        NULL
};

/* What a container was made into: mt_pickle_value.shape. Lists are named after their items; a list
 * of shape 0 is empty. */
typedef enum shape {
    EMPTY,
    OTHER,
    EVENT,
    EVENT_LIST, /* u: number in lists */
    TRACES,     /* u: where its lists begin in trace_lists, count in the 8 bits below */
    BLOCK,
    BLOCK_LIST, /* u: number in ranges */
    SEGMENT,
    SEGMENT_LIST, /* u: number in ranges */
    FRAME,
    STACK,
    PAST, /* an item of a block's history */
    PAST_LIST,
    PAIR,
    POWERS, /* the divisions of the settings */
    SETTINGS,
    TOP
} shape;

/* ---- the reader ------------------------------------------------------------------------------ */

typedef struct range {
    uint32_t first, count;
} range;

typedef struct past {
    uint64_t requested;
    uint32_t stack;
} past;

/* Frames of a stack. */
#define STACK_MOST 1000

/* Events wait here until the list that they stand in is known. */
#define BATCH 1024

typedef struct reader {
    mt_snapshot *s;
    mt_snapshot_events *events;
    void *context;
    MT_ARRAY(mt_snapshot_segment) segments;
    MT_ARRAY(range) ranges;
    MT_ARRAY(uint32_t) trace_lists;
    MT_ARRAY(past) pasts;
    MT_ARRAY(uint32_t) scratch;
    mt_snapshot_event batch[BATCH];
    uint64_t waiting; /* events in batch */
    uint64_t sent;    /* events before it */
    uint32_t open;    /* a list that events went to before it was known which; NONE_OPEN */
    uint64_t opened;  /* sent before its first one */
    bool top;
    range main, host; /* in segments */
    uint64_t size;    /* of the file */
    uint64_t records; /* made so far */
} reader;

#define NONE_OPEN UINT32_MAX

static mt_status bad(mt_error *err, const char *what) {
    return mt_fail(err, MT_BAD, "%s", what);
}

/* What is kept may not take more than the file is worth: 32 MiB, and 4 bytes for each of its bytes
 * (and as much again while tables grow). Looked at now and then. */
static mt_status afford(reader *r, mt_error *err) {
    const mt_snapshot *s = r->s;
    if (++r->records % 1024 != 0)
        return MT_OK;
    uint64_t taken = mt_intern_memory(&s->texts) + mt_intern_memory(&s->frames) +
                     mt_intern_memory(&s->stacks) + mt_intern_memory(&s->pools) +
                     s->blocks.count * sizeof *s->blocks.at +
                     r->segments.count * sizeof *r->segments.at +
                     r->ranges.count * sizeof *r->ranges.at + r->pasts.count * sizeof *r->pasts.at;
    if (taken <= 32 * MT_MIB + 4 * r->size)
        return MT_OK;
    return mt_fail(err, MT_BAD, "more frames, stacks or blocks than a snapshot of this size has");
}

static mt_status no_memory(mt_error *err) {
    return mt_no_memory(err, "the snapshot");
}

/* ---- fields of a dictionary ------------------------------------------------------------------ */

typedef struct fields {
    uint64_t seen; /* a bit for each name */
    const mt_pickle_value *of[NAMES_COUNT];
} fields;

#define BIT(name) ((uint64_t)1 << (name))

static inline bool has(const fields *f, uint64_t names) {
    return (f->seen & names) == names;
}

static inline void collect(fields *f, const mt_pickle_value *item, size_t n) {
    f->seen = 0;
    for (size_t i = 0; i < n; i += 2)
        if (item[i].kind == MT_PICKLE_TEXT) {
            f->of[item[i].shape] = &item[i + 1];
            f->seen |= BIT(item[i].shape);
        }
}

static mt_status wrong_kind(const fields *f, name n, const char *expected, mt_error *err) {
    return mt_fail(err, MT_BAD, "%s is %s, expected %s", NAMES[n - 1],
                   mt_pickle_kind_name(f->of[n]), expected);
}

/* An integer, modulo 2^64; absent: the value when it is not there. */
static inline mt_status integer(const fields *f, name n, uint64_t absent, uint64_t *out,
                                mt_error *err) {
    *out = absent;
    if (!(f->seen & BIT(n)) || mt_pickle_u64(f->of[n], out))
        return MT_OK;
    return wrong_kind(f, n, "an integer", err);
}

static inline mt_status size_of(const fields *f, name n, uint64_t absent, uint64_t *out,
                                mt_error *err) {
    MT_TRY(integer(f, n, absent, out, err));
    if (*out >= TOO_LARGE && *out != absent)
        return mt_fail(err, MT_BAD, "%s is %lld, expected a size of at most 2^56 bytes",
                       NAMES[n - 1], (long long)*out);
    return MT_OK;
}

/* Number of the caller's name that a field's text is; 0 when it is none, or not there. */
static inline uint16_t word(const fields *f, name n) {
    return f->seen & BIT(n) && f->of[n]->kind == MT_PICKLE_TEXT ? f->of[n]->shape : 0;
}

/* u of a field that must have that shape; absent otherwise. */
static inline uint64_t made_of(const fields *f, name n, shape shape, uint64_t absent) {
    return f->seen & BIT(n) && f->of[n]->kind >= MT_PICKLE_TUPLE && f->of[n]->shape == shape
               ? f->of[n]->u
               : absent;
}

static uint32_t stack_of(const fields *f) {
    return (uint32_t)made_of(f, FRAMES, STACK, 0);
}

static mt_status text_of(reader *r, const mt_pickle_value *v, uint32_t *text, mt_error *err) {
    bool is = v->kind == MT_PICKLE_TEXT;
    return mt_intern_add(&r->s->texts, is ? v->text : "?", is ? v->n : 1, text) ? MT_OK
                                                                                : no_memory(err);
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

static mt_status make_frame(reader *r, const fields *f, mt_pickle_value *made, mt_error *err) {
    static const mt_pickle_value none = { .kind = MT_PICKLE_NONE };
    mt_snapshot_frame frame;
    uint64_t line;
    uint32_t id;
    MT_TRY(text_of(r, has(f, BIT(FILENAME)) ? f->of[FILENAME] : &none, &frame.file, err));
    MT_TRY(text_of(r, has(f, BIT(NAME)) ? f->of[NAME] : &none, &frame.name, err));
    MT_TRY(integer(f, LINE, 0, &line, err));
    frame.line = (int64_t)line;
    if (!mt_intern_add(&r->s->frames, &frame, sizeof frame, &id))
        return no_memory(err);
    made->shape = FRAME;
    made->u = id;
    return MT_OK;
}

static mt_status make_past(reader *r, const fields *f, mt_pickle_value *made, mt_error *err) {
    past *p = mt_array_push(&r->pasts);
    if (p == NULL)
        return no_memory(err);
    p->stack = stack_of(f);
    made->shape = PAST;
    made->u = r->pasts.count - 1;
    return size_of(f, REAL_SIZE, 0, &p->requested, err);
}

static mt_status state_of(const fields *f, uint8_t *state, mt_error *err) {
    switch (word(f, STATE)) {
    case ACTIVE_ALLOCATED:
        *state = MT_BLOCK_ACTIVE;
        return MT_OK;
    case ACTIVE_PENDING_FREE:
    case ACTIVE_AWAITING_FREE:
        *state = MT_BLOCK_PENDING;
        return MT_OK;
    case INACTIVE:
        *state = MT_BLOCK_FREE;
        return MT_OK;
    default:
        return bad(err, "a block in an unknown state, expected active_allocated, "
                        "active_pending_free or inactive");
    }
}

static mt_status make_block(reader *r, const fields *f, mt_pickle_value *made, mt_error *err) {
    mt_snapshot_block *b = mt_array_push(&r->s->blocks);
    if (b == NULL)
        return no_memory(err);
    *b = (mt_snapshot_block){ .stack = stack_of(f) };
    MT_TRY(state_of(f, &b->state, err));
    MT_TRY(integer(f, ADDRESS, MT_SNAPSHOT_NONE, &b->address, err));
    MT_TRY(size_of(f, SIZE, 0, &b->size, err));
    MT_TRY(size_of(f, REQUESTED_SIZE, MT_SNAPSHOT_NONE, &b->requested, err));
    uint64_t history = made_of(f, HISTORY, PAST_LIST, MT_SNAPSHOT_NONE);
    if (b->requested == MT_SNAPSHOT_NONE && b->state == MT_BLOCK_FREE)
        b->requested = 0;
    if (b->requested == MT_SNAPSHOT_NONE && history != MT_SNAPSHOT_NONE) {
        b->requested = r->pasts.at[history].requested;
        b->stack = r->pasts.at[history].stack;
        r->s->history = true;
    }
    made->shape = BLOCK;
    made->u = r->s->blocks.count - 1;
    return MT_OK;
}

/* Gives each block its address where the file has none: they follow one another. */
static void place_blocks(const reader *r, const mt_snapshot_segment *g) {
    uint64_t address = g->address;
    for (uint32_t i = 0; i < g->blocks; i++) {
        mt_snapshot_block *b = &r->s->blocks.at[g->first + i];
        if (b->address == MT_SNAPSHOT_NONE)
            b->address = address;
        address = b->address + b->size;
    }
}

static mt_status make_segment(reader *r, const fields *f, mt_pickle_value *made, mt_error *err) {
    mt_snapshot_segment *g = mt_array_push(&r->segments);
    uint64_t device, blocks = made_of(f, BLOCKS, BLOCK_LIST, MT_SNAPSHOT_NONE);
    if (g == NULL)
        return no_memory(err);
    *g = (mt_snapshot_segment){ .stack = stack_of(f),
                                .pool = (uint32_t)made_of(f, SEGMENT_POOL_ID, PAIR, 0),
                                .large = word(f, SEGMENT_TYPE) == LARGE };
    MT_TRY(integer(f, ADDRESS, 0, &g->address, err));
    MT_TRY(integer(f, STREAM, 0, &g->stream, err));
    MT_TRY(size_of(f, TOTAL_SIZE, 0, &g->total, err));
    MT_TRY(size_of(f, ALLOCATED_SIZE, 0, &g->allocated, err));
    MT_TRY(size_of(f, ACTIVE_SIZE, 0, &g->active, err));
    MT_TRY(size_of(f, REQUESTED_SIZE, MT_SNAPSHOT_NONE, &g->requested, err));
    MT_TRY(integer(f, DEVICE, 0, &device, err));
    if (device >= 1024)
        return bad(err, "a device number above 1023");
    g->device = (uint32_t)device;
    g->expandable = has(f, BIT(IS_EXPANDABLE)) && f->of[IS_EXPANDABLE]->u == 1;
    if (blocks != MT_SNAPSHOT_NONE) {
        g->first = r->ranges.at[blocks].first;
        g->blocks = r->ranges.at[blocks].count;
    }
    place_blocks(r, g);
    made->shape = SEGMENT;
    made->u = r->segments.count - 1;
    return MT_OK;
}

/* The divisions of a size of 1, 2, 4, ... MiB, by those sizes as text. */
static mt_status make_powers(reader *r, const mt_pickle_value *item, size_t n,
                             mt_pickle_value *made) {
    for (size_t i = 0; i < n; i += 2) {
        uint64_t mib = 0;
        for (uint32_t k = 0; item[i].kind == MT_PICKLE_TEXT && k < item[i].n && k < 8; k++)
            mib = mib * 10 + (uint64_t)(item[i].text[k] - '0');
        if (item[i].kind == MT_PICKLE_TEXT && mib > 0 && mib <= 32768)
            mt_pickle_u64(&item[i + 1], &r->s->settings.divisions[63 - __builtin_clzll(mib)]);
    }
    made->shape = POWERS;
    return MT_OK;
}

static mt_status make_settings(reader *r, const fields *f, mt_pickle_value *made, mt_error *err) {
    mt_snapshot_settings *s = &r->s->settings;
    uint64_t split;
    MT_TRY(integer(f, MAX_SPLIT_SIZE, UINT64_MAX, &split, err));
    s->max_split = (int64_t)split;
    s->expandable = has(f, BIT(EXPANDABLE_SEGMENTS)) && f->of[EXPANDABLE_SEGMENTS]->u == 1;
    if (has(f, BIT(GARBAGE_COLLECTION)) && f->of[GARBAGE_COLLECTION]->kind == MT_PICKLE_FLOAT)
        s->garbage_collection = f->of[GARBAGE_COLLECTION]->f;
    if (has(f, BIT(CONF))) {
        MT_TRY(text_of(r, f->of[CONF], &s->text, err));
        s->text++;
    }
    s->told = true;
    made->shape = SETTINGS;
    return MT_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

static mt_status action_of(reader *r, const mt_pickle_value *v, uint32_t *action, mt_error *err) {
    if (v->kind != MT_PICKLE_TEXT)
        return mt_fail(err, MT_BAD, "action is %s, expected text", mt_pickle_kind_name(v));
    if (v->shape >= ALLOC && v->shape <= OOM) {
        *action = v->shape - ALLOC;
        return MT_OK;
    }
    for (uint32_t i = 0; i < v->n; i++)
        if (!isalnum((unsigned char)v->text[i]) && memchr("_-. ", v->text[i], 4) == NULL)
            return bad(err, "an action that is no word");
    if (v->n == 0 || v->n > 64)
        return bad(err, "an action that is no word");
    if (!mt_intern_add(&r->s->actions, v->text, v->n, action))
        return no_memory(err);
    return *action < 256 ? MT_OK : bad(err, "more than 256 different actions");
}

/* Sends the events that wait to a list. */
static mt_status deliver(reader *r, uint32_t list, mt_error *err) {
    mt_snapshot_list *l = &r->s->lists.at[list];
    size_t n = r->waiting;
    if (!mt_array_extend(&l->count, mt_intern_count(&r->s->actions)))
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        l->count.at[r->batch[i].action]++;
    l->events += n;
    r->sent += n;
    r->waiting = 0;
    return r->events != NULL ? r->events(r->context, r->s, list, r->batch, n, err) : MT_OK;
}

static mt_status new_list(reader *r, uint32_t *list, mt_error *err) {
    mt_snapshot_list *l = mt_array_push(&r->s->lists);
    if (l == NULL)
        return no_memory(err);
    *l = (mt_snapshot_list){ .device = -1 };
    *list = (uint32_t)r->s->lists.count - 1;
    return MT_OK;
}

/* Makes room in the batch. A pickler that fills a list at once has more than a batch waiting. */
static mt_status make_room(reader *r, mt_error *err) {
    if (r->open == NONE_OPEN) {
        r->opened = r->sent;
        MT_TRY(new_list(r, &r->open, err));
    }
    return deliver(r, r->open, err);
}

static mt_status make_event(reader *r, const fields *f, mt_pickle_value *made, mt_error *err) {
    if (r->waiting == BATCH)
        MT_TRY(make_room(r, err));
    mt_snapshot_event *e = &r->batch[r->waiting];
    *e =
        (mt_snapshot_event){ .stack = stack_of(f), .pool = (uint32_t)made_of(f, POOL_ID, PAIR, 0) };
    MT_TRY(action_of(r, f->of[ACTION], &e->action, err));
    name address = e->action == MT_ACTION_OOM ? DEVICE_FREE : ADDR;
    MT_TRY(integer(f, address, MT_SNAPSHOT_NONE, &e->address, err));
    MT_TRY(integer(f, STREAM, 0, &e->stream, err));
    MT_TRY(integer(f, TIME_US, MT_SNAPSHOT_NONE, &e->time_us, err));
    MT_TRY(size_of(f, SIZE, 0, &e->size, err));
    if (has(f, BIT(USER_METADATA)) && f->of[USER_METADATA]->kind == MT_PICKLE_TEXT &&
        f->of[USER_METADATA]->n > 0) {
        e->metadata = f->of[USER_METADATA]->text;
        e->metadata_n = f->of[USER_METADATA]->n;
    }
    made->shape = EVENT;
    made->u = r->sent + r->waiting++;
    return MT_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static mt_status fill_events(reader *r, mt_pickle_value *made, const mt_pickle_value *item,
                             size_t n, mt_error *err) {
    bool open = r->open != NONE_OPEN;
    uint64_t first = open ? r->opened : r->sent;
    for (size_t i = 0; i < n; i++)
        if (item[i].kind != MT_PICKLE_DICT || item[i].shape != EVENT || item[i].u != first + i)
            return bad(err, "an event that stands in two lists, or among other things");
    if (first + n != r->sent + r->waiting || (open && made->shape != EMPTY))
        return bad(err, "an event that stands in no list");
    uint32_t list = (uint32_t)made->u;
    if (open)
        list = r->open;
    else if (made->shape == EMPTY)
        MT_TRY(new_list(r, &list, err));
    r->open = NONE_OPEN;
    made->shape = EVENT_LIST;
    made->u = list;
    return deliver(r, list, err);
}

/* A list of records that were appended to an array one after the other. */
static mt_status fill_range(reader *r, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                            shape of, shape list, mt_error *err) {
    if (made->shape == EMPTY) {
        range *new = mt_array_push(&r->ranges);
        if (new == NULL)
            return no_memory(err);
        *new = (range){ (uint32_t)item[0].u, 0 };
        made->shape = list;
        made->u = r->ranges.count - 1;
    }
    range *g = &r->ranges.at[made->u];
    for (size_t i = 0; i < n; i++)
        if (item[i].kind != MT_PICKLE_DICT || item[i].shape != of ||
            item[i].u != (uint64_t)g->first + g->count++)
            return bad(err, "a segment or block that stands in two lists, or among other things");
    return MT_OK;
}

/* A pickler fills a list in steps of 1,000 items: deeper stacks lose their outermost frames. */
static mt_status fill_stack(reader *r, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                            mt_error *err) {
    uint32_t before = 0, id;
    if (made->shape == STACK) {
        mt_snapshot_stack(r->s, (uint32_t)made->u, &before);
        return before == STACK_MOST ? MT_OK : bad(err, "a stack that is filled in small steps");
    }
    n = n < STACK_MOST ? n : STACK_MOST;
    if (!mt_array_reserve(&r->scratch, n))
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (item[i].kind != MT_PICKLE_DICT || item[i].shape != FRAME)
            return bad(err, "a stack that holds something else than frames");
        r->scratch.at[i] = (uint32_t)item[i].u;
    }
    if (!mt_intern_add(&r->s->stacks, r->scratch.at, (uint32_t)(n * sizeof *r->scratch.at), &id))
        return no_memory(err);
    made->shape = STACK;
    made->u = id;
    return afford(r, err);
}

static mt_status fill_pasts(mt_pickle_value *made, const mt_pickle_value *item) {
    if (made->shape == EMPTY)
        made->u = item[0].u; /* the latest one */
    made->shape = PAST_LIST;
    return MT_OK;
}

/* Lists of events, one for each device. */
static mt_status fill_traces(reader *r, mt_pickle_value *made, const mt_pickle_value *item,
                             size_t n, mt_error *err) {
    if (made->shape != EMPTY || n > 255)
        return bad(err, "traces of more than 255 devices");
    made->shape = TRACES;
    made->u = r->trace_lists.count << 8 | n;
    for (size_t i = 0; i < n; i++) {
        uint32_t *list = mt_array_push(&r->trace_lists);
        if (list == NULL)
            return no_memory(err);
        *list = item[i].kind == MT_PICKLE_LIST && item[i].shape == EVENT_LIST ? (uint32_t)item[i].u
                                                                              : NONE_OPEN;
    }
    return MT_OK;
}

/* What a list will be, by its first item. */
static shape list_of(const mt_pickle_value *item) {
    if (item->kind == MT_PICKLE_LIST)
        return item->shape == EVENT_LIST || item->shape == EMPTY ? TRACES : OTHER;
    if (item->kind != MT_PICKLE_DICT)
        return OTHER;
    switch (item->shape) {
    case EVENT:
        return EVENT_LIST;
    case BLOCK:
        return BLOCK_LIST;
    case SEGMENT:
        return SEGMENT_LIST;
    case FRAME:
        return STACK;
    case PAST:
        return PAST_LIST;
    default:
        return OTHER;
    }
}

static mt_status fill_list(reader *r, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                           mt_error *err) {
    switch (made->shape != EMPTY ? made->shape : list_of(item)) {
    case EVENT_LIST:
        return fill_events(r, made, item, n, err);
    case BLOCK_LIST:
        return fill_range(r, made, item, n, BLOCK, BLOCK_LIST, err);
    case SEGMENT_LIST:
        return fill_range(r, made, item, n, SEGMENT, SEGMENT_LIST, err);
    case STACK:
        return fill_stack(r, made, item, n, err);
    case PAST_LIST:
        return fill_pasts(made, item);
    case TRACES:
        return fill_traces(r, made, item, n, err);
    default:
        made->u = (made->shape == OTHER ? made->u : 0) + n;
        made->shape = OTHER;
        return MT_OK;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Gives each list of device_traces the number of its device. */
static mt_status number_lists(reader *r, uint64_t traces, mt_error *err) {
    for (uint64_t i = 0; i < (traces & 255); i++) {
        uint32_t list = r->trace_lists.at[(traces >> 8) + i];
        if (list == NONE_OPEN)
            continue;
        if (r->s->lists.at[list].device >= 0)
            return bad(err, "one list of events for two devices");
        r->s->lists.at[list].device = (int64_t)i;
    }
    return MT_OK;
}

/* host_traces is a list of events, or of lists of them. */
static void mark_host(reader *r, const mt_pickle_value *v) {
    if (v == NULL || v->kind != MT_PICKLE_LIST)
        return;
    if (v->shape == EVENT_LIST)
        r->s->lists.at[v->u].host = true;
    for (uint64_t i = 0; v->shape == TRACES && i < (v->u & 255); i++) {
        uint32_t list = r->trace_lists.at[(v->u >> 8) + i];
        if (list != NONE_OPEN)
            r->s->lists.at[list].host = true;
    }
}

static mt_status make_top(reader *r, const fields *f, mt_pickle_value *made, mt_error *err) {
    if (r->top)
        return bad(err, "a second snapshot in one file");
    r->top = true;
    uint64_t main = made_of(f, SEGMENTS, SEGMENT_LIST, MT_SNAPSHOT_NONE);
    uint64_t host = made_of(f, HOST_SEGMENTS, SEGMENT_LIST, MT_SNAPSHOT_NONE);
    if (main != MT_SNAPSHOT_NONE)
        r->main = r->ranges.at[main];
    if (host != MT_SNAPSHOT_NONE)
        r->host = r->ranges.at[host];
    r->s->annotations = made_of(f, EXTERNAL_ANNOTATIONS, OTHER, 0);
    mark_host(r, f->seen & BIT(HOST_TRACES) ? f->of[HOST_TRACES] : NULL);
    made->shape = TOP;
    return number_lists(r, made_of(f, DEVICE_TRACES, TRACES, 0), err);
}

static mt_status fill_dict(reader *r, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                           mt_error *err) {
    fields f;
    if (made->shape == OTHER)
        return MT_OK;
    if (made->shape != EMPTY)
        return bad(err, "a dictionary that is filled in two steps");
    collect(&f, item, n);
    if (has(&f, BIT(ACTION)))
        return make_event(r, &f, made, err);
    MT_TRY(afford(r, err));
    if (has(&f, BIT(STATE) | BIT(SIZE)))
        return make_block(r, &f, made, err);
    if (has(&f, BIT(TOTAL_SIZE)))
        return make_segment(r, &f, made, err);
    if (has(&f, BIT(LINE)) || has(&f, BIT(FILENAME)))
        return make_frame(r, &f, made, err);
    if (has(&f, BIT(REAL_SIZE)))
        return make_past(r, &f, made, err);
    if (has(&f, BIT(SEGMENTS)) || has(&f, BIT(DEVICE_TRACES)))
        return make_top(r, &f, made, err);
    if (f.seen & (BIT(MAX_SPLIT_SIZE) | BIT(EXPANDABLE_SEGMENTS)))
        return make_settings(r, &f, made, err);
    if (n <= 64 && item[0].kind == MT_PICKLE_TEXT && item[0].n == 1 && item[0].text[0] == '1')
        return make_powers(r, item, n, made);
    made->shape = OTHER;
    return MT_OK;
}

static mt_status fill(void *context, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                      mt_error *err) {
    if (made->kind == MT_PICKLE_DICT)
        return fill_dict(context, made, item, n, err);
    if (made->kind == MT_PICKLE_LIST)
        return fill_list(context, made, item, n, err);
    made->shape = OTHER;
    return MT_OK;
}

static mt_status tuple(void *context, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                       mt_error *err) {
    reader *r = context;
    mt_snapshot_pool p;
    uint32_t id = 0;
    made->shape = OTHER;
    if (n != 2 || !mt_pickle_u64(&item[0], &p.id[0]) || !mt_pickle_u64(&item[1], &p.id[1]))
        return MT_OK;
    if ((p.id[0] | p.id[1]) != 0) {
        if (!mt_intern_add(&r->s->pools, &p, sizeof p, &id))
            return no_memory(err);
        MT_TRY(afford(r, err));
    }
    made->shape = PAIR;
    made->u = id;
    return MT_OK;
}

/* ---- from outside ---------------------------------------------------------------------------- */

/* The entries that every table has. */
static bool enter_known(mt_snapshot *s) {
    const mt_snapshot_pool pool = { { 0, 0 } };
    uint32_t id;
    bool entered =
        mt_intern_add(&s->stacks, "", 0, &id) && mt_intern_add(&s->pools, &pool, sizeof pool, &id);
    for (int i = 0; entered && i < MT_ACTIONS; i++) {
        const char *action = mt_action_name((mt_action)i);
        entered = mt_intern_add(&s->actions, action, (uint32_t)strlen(action), &id);
    }
    return entered;
}

/* Keeps a list's segments. */
static mt_status keep(const reader *r, range g, void *array, size_t *count, mt_error *err) {
    mt_snapshot_segment *at = NULL;
    if (g.count > 0) {
        at = malloc(g.count * sizeof *at);
        if (at == NULL)
            return no_memory(err);
        memcpy(at, r->segments.at + g.first, g.count * sizeof *at);
    }
    memcpy(array, &at, sizeof at);
    *count = g.count;
    return MT_OK;
}

/* What the pickle as a whole is. */
static mt_status conclude(reader *r, const char *file, const mt_pickle_value *made, mt_error *err) {
    mt_snapshot *s = r->s;
    bool list = made->kind == MT_PICKLE_LIST;
    if (list && made->shape == SEGMENT_LIST)
        r->main = r->ranges.at[made->u];
    else if (!(list && made->shape == EMPTY) &&
             !(made->kind == MT_PICKLE_DICT && made->shape == TOP))
        return mt_fail(err, MT_BAD,
                       "%s: a pickle, but no snapshot of PyTorch's allocator: expected a "
                       "dictionary with segments or a list of them, found %s",
                       file, mt_pickle_kind_name(made));
    MT_TRY(keep(r, r->main, &s->segments.at, &s->segments.count, err));
    return keep(r, r->host, &s->host.at, &s->host.count, err);
}

mt_status mt_snapshot_read(mt_snapshot *out, const char *file, const void *data, uint64_t size,
                           mt_snapshot_events *events, void *context, mt_error *err) {
    static const mt_pickle_maker maker = { .names = NAMES, .fill = fill, .tuple = tuple };
    mt_pickle_value made;
    *out = (mt_snapshot){ .settings = { .max_split = -1 } };
    reader *r = calloc(1, sizeof *r);
    mt_status status = r != NULL && enter_known(out) ? MT_OK : no_memory(err);
    if (status == MT_OK) {
        r->s = out;
        r->size = size;
        r->events = events;
        r->context = context;
        r->open = NONE_OPEN;
        status = mt_pickle_read(&maker, r, file, data, size, &made, err);
        if (status == MT_OK)
            status = conclude(r, file, &made, err);
        mt_array_free(&r->segments);
        mt_array_free(&r->ranges);
        mt_array_free(&r->trace_lists);
        mt_array_free(&r->pasts);
        mt_array_free(&r->scratch);
    }
    free(r);
    if (status != MT_OK)
        mt_snapshot_free(out);
    return status;
}

void mt_snapshot_free(mt_snapshot *s) {
    for (size_t i = 0; i < s->lists.count; i++)
        mt_array_free(&s->lists.at[i].count);
    mt_array_free(&s->segments);
    mt_array_free(&s->host);
    mt_array_free(&s->blocks);
    mt_array_free(&s->lists);
    mt_intern_free(&s->texts);
    mt_intern_free(&s->frames);
    mt_intern_free(&s->stacks);
    mt_intern_free(&s->pools);
    mt_intern_free(&s->actions);
}

const char *mt_snapshot_text(const mt_snapshot *s, uint32_t text, uint32_t *n) {
    return mt_intern_get(&s->texts, text, n);
}

const uint32_t *mt_snapshot_stack(const mt_snapshot *s, uint32_t stack, uint32_t *n) {
    const uint32_t *frames = mt_intern_get(&s->stacks, stack, n);
    *n /= (uint32_t)sizeof *frames;
    return frames;
}

const mt_snapshot_frame *mt_snapshot_frame_of(const mt_snapshot *s, uint32_t frame) {
    return mt_intern_get(&s->frames, frame, NULL);
}
