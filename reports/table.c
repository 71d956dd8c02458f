/* table.c - see table.h.
 *
 * A piece is bytes that some request took from the source: a segment, or pages mapped in a growable
 * one. The pieces of a segment are a stack, the latest on top. Those that came since the last row
 * are also in a list, the step's changes, together with one negative piece for each older piece, or
 * part of one, that went. What came and went within the step is in neither. Each event costs O(1),
 * a mark as much as its step has changes. */
#include "reports/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define COLUMN(name, cell)                                                                         \
    { #name, cell, offsetof(mt_row, name), 0 }
#define BYTES(name) COLUMN(name, MT_CELL_U64)
#define TAG(name, tag_)                                                                            \
    { name, MT_CELL_U64, offsetof(mt_row, tag[tag_]), 0 }

const mt_column mt_table_columns[] = {
    COLUMN(step, MT_CELL_I64),
    BYTES(ctx),
    TAG("weights", MT_WEIGHTS),
    TAG("kv", MT_KV),
    TAG("activations", MT_ACTIVATIONS),
    TAG("logits", MT_LOGITS),
    TAG("workspace", MT_WORKSPACE),
    TAG("other", MT_OTHER),
    BYTES(requested),
    BYTES(rounding),
    BYTES(split),
    BYTES(cached),
    BYTES(reserved),
    BYTES(peak_requested),
    BYTES(peak_reserved),
    BYTES(segments),
    BYTES(kv_ideal),
    COLUMN(bump, MT_CELL_I64),
    COLUMN(cause, MT_CELL_CHARS),
    { "ms", MT_CELL_MS, offsetof(mt_row, nanoseconds), 0 },
    { .name = NULL },
};

#define HEAD 0 /* piece 0 is the head of the changes and the bottom of every stack */

typedef struct piece {
    int64_t bytes;
    uint64_t requested;  /* of the request that took it */
    uint64_t step;       /* number of the row in whose step it came */
    uint32_t prev, next; /* in the changes; next also chains unused pieces */
    uint32_t below;      /* in its segment's stack */
    uint32_t equal;      /* how many changes like this one, at the first of them; else 0 */
    int32_t layer;
    uint8_t tag, pool;
} piece;

struct mt_table {
    const mt_ledger *ledger; /* own, or the allocator's */
    mt_ledger own;
    mt_row_fn on_row;
    void *context;
    MT_ARRAY(piece) piece;
    uint32_t spare;         /* first unused one, HEAD if none */
    MT_ARRAY(uint32_t) top; /* of each segment's stack, by slot */
    uint32_t changes;       /* length of the list */
    uint64_t rows;
    MT_ARRAY(uint32_t) place; /* hash of changes, for joining */
    uint64_t reserved, kv;    /* at the last row */
    mt_error error;           /* the first thing that did not hold */
    mt_row row;
};

/* ---- pieces ---------------------------------------------------------------------------------- */

static void no_memory(mt_table *t) {
    mt_no_memory(&t->error, "the table of steps");
}

/* An unused piece, or HEAD when there is no memory for it. */
static uint32_t take_piece(mt_table *t) {
    uint32_t taken = t->spare;
    if (taken != HEAD) {
        t->spare = t->piece.at[taken].next;
        return taken;
    }
    if (t->piece.count > UINT32_MAX || mt_array_push(&t->piece) == NULL) {
        no_memory(t);
        return HEAD;
    }
    return (uint32_t)(t->piece.count - 1);
}

static void give_piece(mt_table *t, uint32_t i) {
    t->piece.at[i].next = t->spare;
    t->spare = i;
}

/* A new piece at the end of the changes, with the words of like; HEAD when there is no memory. */
static uint32_t append(mt_table *t, piece like, int64_t bytes) {
    uint32_t i = take_piece(t);
    if (i == HEAD)
        return HEAD;
    like.bytes = bytes;
    like.step = t->rows;
    like.prev = t->piece.at[HEAD].prev;
    like.next = HEAD;
    t->piece.at[i] = like;
    t->piece.at[like.prev].next = i;
    t->piece.at[HEAD].prev = i;
    t->changes++;
    return i;
}

static void unlink_piece(mt_table *t, uint32_t i) {
    const piece *p = &t->piece.at[i];
    t->piece.at[p->prev].next = p->next;
    t->piece.at[p->next].prev = p->prev;
    t->changes--;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* A segment came, or pages were mapped. */
static void add(mt_table *t, const mt_event *e) {
    piece like = { .requested = e->requested, .layer = e->layer, .tag = e->tag, .pool = e->pool };
    if (!mt_array_extend(&t->top, (size_t)e->slot + 1)) { /* new ones are HEAD */
        no_memory(t);
        return;
    }
    like.below = t->top.at[e->slot];
    uint32_t i = append(t, like, (int64_t)e->rounded);
    if (i != HEAD)
        t->top.at[e->slot] = i;
}

/* Takes bytes from the topmost piece of a stack; returns how many. */
static int64_t shorten(mt_table *t, uint32_t *top, int64_t bytes) {
    uint32_t i = *top;
    bool old = t->piece.at[i].step != t->rows;
    int64_t part = bytes < t->piece.at[i].bytes ? bytes : t->piece.at[i].bytes;
    if (old && append(t, t->piece.at[i], -part) == HEAD)
        return part;
    t->piece.at[i].bytes -= part;
    if (t->piece.at[i].bytes == 0) {
        *top = t->piece.at[i].below;
        if (!old)
            unlink_piece(t, i);
        give_piece(t, i);
    }
    return part;
}

/* A segment went, or pages were unmapped. */
static void take_away(mt_table *t, const mt_event *e) {
    int64_t left = (int64_t)e->rounded;
    while (left > 0 && e->slot < t->top.count && t->top.at[e->slot] != HEAD &&
           t->error.status == MT_OK)
        left -= shorten(t, &t->top.at[e->slot], left);
    if (left > 0 && t->error.status == MT_OK)
        mt_fail(&t->error, MT_CHECK,
                "event %" PRIu64 " (%s): segment %" PRIu32 " gives back %" PRId64
                " bytes more than it took",
                e->seq, mt_event_kind_name(e->kind), e->segment, left);
}

/* ---- the cause of a row ---------------------------------------------------------------------- */

static bool equal(const piece *a, const piece *b) {
    return a->bytes == b->bytes && a->requested == b->requested && a->layer == b->layer &&
           a->tag == b->tag && a->pool == b->pool;
}

static uint32_t hash(const piece *p) {
    uint64_t h = (uint64_t)p->bytes;
    h = (h ^ p->requested) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 29 ^ (uint32_t)p->layer) * UINT64_C(0xBF58476D1CE4E5B9);
    h = (h ^ h >> 32 ^ (uint64_t)p->tag << 8 ^ p->pool) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32);
}

/* An empty hash with room for twice the changes. */
static bool clear_places(mt_table *t) {
    size_t places = 16;
    while (places < 2 * (size_t)t->changes)
        places *= 2;
    t->place.count = 0;
    if (mt_array_extend(&t->place, places))
        return true;
    no_memory(t);
    return false;
}

/* Counts equal changes at the first of them; returns how many different ones there are. */
static uint32_t join(mt_table *t) {
    uint32_t different = 0;
    if (!clear_places(t))
        return 0;
    for (uint32_t i = t->piece.at[HEAD].next; i != HEAD; i = t->piece.at[i].next) {
        uint32_t at = hash(&t->piece.at[i]) & ((uint32_t)t->place.count - 1);
        while (t->place.at[at] != HEAD && !equal(&t->piece.at[t->place.at[at]], &t->piece.at[i]))
            at = (at + 1) & ((uint32_t)t->place.count - 1);
        t->piece.at[i].equal = 0;
        if (t->place.at[at] == HEAD) {
            t->place.at[at] = i;
            different++;
        }
        t->piece.at[t->place.at[at]].equal++;
    }
    return different;
}

/* Writes one change, joined with its equals, and returns its length. */
static int print_change(char *text, size_t room, const piece *p) {
    char layer[24] = "", times[16] = "";
    if (p->layer >= 0)
        snprintf(layer, sizeof layer, "layer%" PRId32 ":", p->layer);
    if (p->equal > 1)
        snprintf(times, sizeof times, "x%" PRIu32, p->equal);
    return snprintf(text, room, "%s:%s%" PRIu64 ":%s%+" PRId64 "%s", mt_tag_name(p->tag), layer,
                    p->requested, mt_pool_name(p->pool), p->bytes, times);
}

/* At most MT_CAUSE_MAX changes of fewer than 110 characters each: they fit. */
static void write_cause(mt_table *t, char *text, size_t room) {
    uint32_t different = join(t), shown = 0;
    size_t at = 0;
    snprintf(text, room, "-");
    for (uint32_t i = t->piece.at[HEAD].next; i != HEAD && shown < MT_CAUSE_MAX;
         i = t->piece.at[i].next) {
        if (t->piece.at[i].equal == 0)
            continue;
        if (shown++ > 0)
            text[at++] = ',';
        at += (size_t)print_change(text + at, room - at, &t->piece.at[i]);
    }
    if (different > shown)
        snprintf(text + at, room - at, ",...+%" PRIu32, different - shown);
}

/* The bytes of the changes, which must be the change of reserved. */
static void check_sum(mt_table *t) {
    int64_t sum = 0, change = (int64_t)(t->ledger->reserved.current - t->reserved);
    for (uint32_t i = t->piece.at[HEAD].next; i != HEAD; i = t->piece.at[i].next)
        sum += t->piece.at[i].bytes;
    if (sum != change && t->error.status == MT_OK)
        mt_fail(&t->error, MT_CHECK,
                "reserved changed by %" PRId64
                " bytes, the segments that came and went by %" PRId64,
                change, sum);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void fill_row(mt_table *t, const mt_event *e) {
    const mt_ledger *l = t->ledger;
    mt_row *row = &t->row;
    row->step = e->step;
    row->ctx = e->ctx;
    for (int i = 0; i < MT_TAGS; i++)
        row->tag[i] = l->tag[i].current;
    row->requested = l->requested.current;
    row->rounding = l->rounding;
    row->split = l->split;
    row->cached = l->cached;
    row->reserved = l->reserved.current;
    row->peak_requested = l->mark_requested;
    row->peak_reserved = l->mark_reserved;
    row->segments = l->segments;
    row->kv_ideal = e->kv_ideal;
    int64_t change = (int64_t)(row->reserved - t->reserved);
    row->bump = change == 0 ? 0 : change - (int64_t)(row->tag[MT_KV] - t->kv);
    row->nanoseconds = e->nanoseconds;
    write_cause(t, row->cause, sizeof row->cause);
}

/* The next step begins: no changes yet. */
static void begin_step(mt_table *t) {
    for (uint32_t i = t->piece.at[HEAD].next, next; i != HEAD; i = next) {
        next = t->piece.at[i].next;
        if (t->piece.at[i].bytes < 0)
            give_piece(t, i);
    }
    t->piece.at[HEAD].prev = t->piece.at[HEAD].next = HEAD;
    t->changes = 0;
    t->rows++;
    t->reserved = t->row.reserved;
    t->kv = t->row.tag[MT_KV];
}

static void end_step(mt_table *t, const mt_event *e) {
    mt_ledger_check(t->ledger, &t->error);
    check_sum(t);
    fill_row(t, e);
    if (t->error.status != MT_OK)
        return;
    if (t->on_row != NULL)
        t->on_row(t->context, &t->row);
    begin_step(t);
}

static void take_event(void *context, const mt_event *e) {
    mt_table *t = context;
    if (t->error.status != MT_OK)
        return;
    if (t->ledger == &t->own && mt_ledger_apply(&t->own, e, &t->error) != MT_OK)
        return;
    if (e->kind == MT_EV_SEGMENT_ALLOC || e->kind == MT_EV_SEGMENT_MAP)
        add(t, e);
    else if (e->kind == MT_EV_SEGMENT_FREE || e->kind == MT_EV_SEGMENT_UNMAP)
        take_away(t, e);
    else if (e->kind == MT_EV_MARK)
        end_step(t, e);
}

mt_status mt_table_open(mt_table **out, const mt_ledger *ledger, mt_row_fn on_row, void *context,
                        mt_error *err) {
    *out = NULL;
    mt_table *t = calloc(1, sizeof *t);
    if (t == NULL || !mt_array_extend(&t->piece, 1)) {
        free(t);
        return mt_no_memory(err, "the table of steps");
    }
    mt_ledger_init(&t->own);
    t->ledger = ledger != NULL ? ledger : &t->own;
    t->on_row = on_row;
    t->context = context;
    *out = t;
    return MT_OK;
}

mt_listener mt_table_listener(mt_table *t) {
    return (mt_listener){ take_event, t };
}

const mt_ledger *mt_table_ledger(const mt_table *t) {
    return t->ledger;
}

mt_status mt_table_status(const mt_table *t, mt_error *err) {
    if (t->error.status == MT_OK)
        return MT_OK;
    return mt_fail(err, t->error.status, "%s", t->error.text);
}

void mt_table_close(mt_table *t) {
    if (t == NULL)
        return;
    mt_ledger_free(&t->own);
    mt_array_free(&t->piece);
    mt_array_free(&t->top);
    mt_array_free(&t->place);
    free(t);
}

void mt_table_print(FILE *out, const mt_row *row, mt_form form) {
    fputs(form == MT_DAT && row->step < 0 ? "# load " : "", out);
    mt_columns_row(out, mt_table_columns, row, form);
}
