/* write_mtb.c - the binary trace: each record is put together in a buffer from what differs from
 * the one before it (mtb.h). Requests and segments get the small numbers that a reader will give
 * them. */
#include <stdlib.h>
#include <string.h>

#include "traces/mtb.h"
#include "traces/writer.h"

typedef struct fields {
    uint64_t offset, requested, rounded;
    uint32_t stream, slot, device, private_pool, stack, thread, process;
    int32_t layer;
    uint8_t tag, pool;
    bool host;
} fields;

/* A mark, for the index: where its record begins, the events before it, what was there. */
typedef struct step {
    uint64_t at, seq, requested, reserved;
} step;

typedef struct mtb_writer {
    mt_trace base;
    uint8_t data[MT_MTB_HEADER + 256]; /* a record but for a long text: room for its kind and
                                          length, then the body, up to end */
    uint8_t *end;
    bool timed, set;                          /* the record has a time; settings are written */
    uint64_t written, records, next_id, last; /* bytes, records; latest time */
    uint64_t seq, requested, reserved;        /* events so far; bytes now */
    fields before;
    mt_numbers live, slots;     /* by id; by number of the segment */
    MT_ARRAY(fields) request;   /* by live number */
    MT_ARRAY(uint64_t) segment; /* bytes, by slot */
    MT_ARRAY(step) step;
    MT_ARRAY(char *) string; /* by number - 1 */
    mt_map strings;          /* hash of a text -> its number */
} mtb_writer;

#define CONTEXT                                                                                    \
    (MT_MTB_STREAM | MT_MTB_DEVICE | MT_MTB_PRIVATE_POOL | MT_MTB_STACK_OF | MT_MTB_THREAD |       \
     MT_MTB_PROCESS | MT_MTB_HOST)

/* ---- records --------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *at, uint64_t n) {
    for (; n >= 0x80; n >>= 7)
        *at++ = (uint8_t)(n | 0x80);
    *at++ = (uint8_t)n;
    return at;
}

static void add(mtb_writer *w, uint64_t n) {
    w->end = put(w->end, n);
}

/* Little-endian. */
static void add_bytes(mtb_writer *w, uint64_t n, int bytes) {
    for (; bytes > 0; bytes--, n >>= 8)
        *w->end++ = (uint8_t)n;
}

static void begin_record(mtb_writer *w, const mt_item *item) {
    uint64_t time = w->base.times ? mt_trace_time(&w->base, item) : 0;
    w->end = w->data + MT_MTB_HEADER;
    w->timed = time > w->last;
    if (!w->timed)
        return;
    add(w, time - w->last);
    w->last = time;
}

static void write_bytes(mtb_writer *w, const void *data, size_t n) {
    mt_output_write(w->base.out, data, n);
    w->written += n;
}

/* Writes the record that was put together, with n bytes of text behind it. */
static void end_record(mtb_writer *w, mt_mtb_kind kind, const char *text, size_t n) {
    uint8_t head[MT_MTB_VARINT + 1], *start = w->data + MT_MTB_HEADER;
    size_t own = (size_t)(w->end - start);
    head[0] = (uint8_t)(kind | (w->timed ? MT_MTB_TIMED : 0));
    size_t length = (size_t)(put(head + 1, own + n) - head);
    memcpy(start - length, head, length);
    write_bytes(w, start - length, length + own);
    if (n > 0)
        write_bytes(w, text, n);
    w->records++;
    w->timed = false;
}

static void write_text(mtb_writer *w, mt_mtb_kind kind, const char *text) {
    w->end = w->data + MT_MTB_HEADER;
    end_record(w, kind, text, strnlen(text, MT_MTB_BODY - 1));
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* What an item says of itself; the slot is still to be set. What it cannot say is as before. */
static fields fields_of(const mtb_writer *w, const mt_item *item) {
    bool event = (item->has & MT_HAS_EVENT) != 0, placed = event || (item->has & MT_HAS_PLACE) != 0,
         rounded = event || (item->has & MT_HAS_ROUNDED) != 0;
    return (fields){
        .offset = placed && !item->refused ? item->offset : w->before.offset + w->before.rounded,
        .requested = item->bytes,
        .rounded = rounded && !item->refused ? item->rounded : item->bytes,
        .stream = item->stream,
        .slot = w->before.slot,
        .device = item->device,
        .private_pool = item->private_pool,
        .stack = item->stack,
        .thread = item->thread,
        .process = item->process,
        .layer = item->layer,
        .tag = item->tag,
        .pool = event && item->event->kind != MT_EV_OOM ? item->event->pool : w->before.pool,
        .host = item->host,
    };
}

/* Writes those of the allowed fields of f that are not as in `as`. */
static void add_fields(mtb_writer *w, const fields *f, const fields *as, uint64_t more_id,
                       unsigned allowed) {
    uint64_t next = as->offset + as->rounded;
    const struct {
        bool differs;
        uint64_t value;
    } field[MT_MTB_FIELDS] = {
        { f->stream != as->stream, f->stream },
        { f->offset != next, mt_mtb_zigzag(f->offset - next) },
        { f->requested != as->requested, f->requested },
        { f->rounded != f->requested, mt_mtb_zigzag(f->rounded - f->requested) },
        { f->layer != as->layer, (uint64_t)((int64_t)f->layer + 1) },
        { f->slot != as->slot, f->slot },
        { f->tag != as->tag || f->pool != as->pool, f->tag + 8u * f->pool },
        { more_id != 0, more_id },
        { f->device != as->device, f->device },
        { f->private_pool != as->private_pool, f->private_pool },
        { f->stack != as->stack, f->stack },
        { f->thread != as->thread, f->thread },
        { f->process != as->process, f->process },
        { f->host != as->host, f->host },
    };
    unsigned mask = 0;
    for (int i = 0; i < MT_MTB_FIELDS; i++)
        mask |= (unsigned)field[i].differs << i;
    mask &= allowed;
    add(w, mask);
    for (int i = 0; i < MT_MTB_FIELDS; i++)
        if ((mask >> i & 1) != 0)
            add(w, field[i].value);
}

static void impossible(mtb_writer *w) {
    mt_trace_broken(&w->base, MT_CHECK, "an event of a segment or a request that is not held");
}

/* ---- requests -------------------------------------------------------------------------------- */

/* An alloc, or an operation: the request gets its live number. */
static void write_request(mtb_writer *w, const mt_item *item, mt_mtb_kind kind, const fields *f) {
    uint64_t id = item->id >= w->next_id ? item->id : w->next_id;
    uint32_t live = mt_numbers_take(&w->live, item->id);
    if (live == MT_NO_NUMBER || !mt_array_extend(&w->request, (size_t)live + 1)) {
        mt_trace_no_memory(&w->base);
        return;
    }
    add_fields(w, f, &w->before, id - w->next_id, ~0u);
    end_record(w, kind, NULL, 0);
    w->request.at[live] = w->before = *f;
    w->next_id = id + 1;
}

static void write_alloc(mtb_writer *w, const mt_item *item) {
    fields f = fields_of(w, item);
    f.slot = mt_numbers_find(&w->slots, item->segment);
    if (f.slot == MT_NO_NUMBER) {
        impossible(w);
        return;
    }
    w->requested += item->bytes;
    write_request(w, item, MT_MTB_ALLOC, &f);
}

/* Of an operation the place is the segment's number and what else is told. */
static void write_operation(mtb_writer *w, const mt_item *item) {
    fields f = fields_of(w, item);
    unsigned place = item->refused ? 0 : item->has & (MT_HAS_PLACE | MT_HAS_ROUNDED);
    if (place != 0)
        f.slot = item->segment;
    add(w, place);
    write_request(w, item, item->refused ? MT_MTB_REFUSED : MT_MTB_REQUEST, &f);
}

static void write_free(mtb_writer *w, const mt_item *item) {
    fields f = fields_of(w, item);
    uint32_t live = mt_numbers_drop(&w->live, item->id);
    if (live == MT_NO_NUMBER) {
        impossible(w);
        return;
    }
    const fields *was = &w->request.at[live];
    w->requested -= was->requested;
    add(w, live);
    add_fields(w, &f, was, 0, CONTEXT | MT_MTB_LAYER | MT_MTB_TAG_POOL);
    end_record(w, MT_MTB_FREE, NULL, 0);
}

/* A release or a use, of a request that perhaps was live before the recording began. */
static void write_naming(mtb_writer *w, const mt_item *item, mt_mtb_kind kind) {
    static const fields none = { .layer = -1 };
    bool use = kind == MT_MTB_USE;
    fields f = fields_of(w, item);
    uint32_t live = use ? mt_numbers_find(&w->live, item->id) : mt_numbers_drop(&w->live, item->id);
    bool known = live != MT_NO_NUMBER;
    add(w, known ? (uint64_t)live + 1 : 0);
    if (!known)
        add(w, item->id);
    add_fields(w, &f, known ? &w->request.at[live] : &none, 0, CONTEXT);
    end_record(w, kind, NULL, 0);
}

/* ---- segments, oom, marks -------------------------------------------------------------------- */

/* The slot of an event's segment, for the next record too; *begins when it is a new one. */
static bool find_slot(mtb_writer *w, const mt_event *e, fields *f, bool *begins) {
    f->slot = mt_numbers_find(&w->slots, e->segment);
    *begins = f->slot == MT_NO_NUMBER;
    if (!*begins)
        return e->kind != MT_EV_SEGMENT_ALLOC;
    if (e->kind != MT_EV_SEGMENT_ALLOC && e->kind != MT_EV_SEGMENT_MAP)
        return false;
    f->slot = mt_numbers_take(&w->slots, e->segment);
    if (f->slot == MT_NO_NUMBER || !mt_array_extend(&w->segment, (size_t)f->slot + 1))
        mt_trace_no_memory(&w->base);
    else
        w->segment.at[f->slot] = 0;
    return w->base.error.status == MT_OK;
}

/* Counts the segment's bytes; it is held no more when there are none. */
static void count_segment(mtb_writer *w, const mt_event *e, uint32_t slot) {
    bool adds = e->kind == MT_EV_SEGMENT_ALLOC || e->kind == MT_EV_SEGMENT_MAP;
    uint64_t bytes = adds ? e->rounded : -e->rounded;
    w->segment.at[slot] += bytes;
    w->reserved += bytes;
    if (w->segment.at[slot] == 0)
        mt_numbers_drop(&w->slots, e->segment);
}

static void write_segment(mtb_writer *w, const mt_item *item) {
    const mt_event *e = item->event;
    mt_mtb_kind kind = MT_MTB_SEGMENT_ALLOC + (e->kind - MT_EV_SEGMENT_ALLOC);
    fields f = fields_of(w, item);
    bool begins;
    if (!find_slot(w, e, &f, &begins)) {
        impossible(w);
        return;
    }
    if (kind == MT_MTB_SEGMENT_ALLOC || kind == MT_MTB_SEGMENT_MAP)
        add(w, begins ? (uint64_t)e->segment + 1 : 0);
    if (begins)
        w->before.slot = f.slot;
    add(w, e->id + 1);
    add_fields(w, &f, &w->before, 0, ~0u);
    end_record(w, kind, NULL, 0);
    w->before = f;
    count_segment(w, e, f.slot);
}

static void write_oom(mtb_writer *w, const mt_item *item) {
    fields f = fields_of(w, item);
    add(w, item->id + 1);
    add_fields(w, &f, &w->before, 0, ~0u);
    end_record(w, MT_MTB_OOM, NULL, 0);
    w->before = f;
}

static void write_mark(mtb_writer *w, const mt_item *item) {
    bool event = (item->has & MT_HAS_EVENT) != 0;
    step *s = mt_array_push(&w->step);
    if (s == NULL) {
        mt_trace_no_memory(&w->base);
        return;
    }
    *s = (step){ w->written, w->seq, w->requested, w->reserved };
    add(w, item->ctx);
    add(w, item->kv_ideal);
    if (event) {
        add(w, w->base.times ? item->event->nanoseconds : 0);
        add(w, item->stream);
    }
    end_record(w, event ? MT_MTB_MARK : MT_MTB_STEP, NULL, 0);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The number of a text; a new one is written first. 0: no memory. Of two texts with one hash the
 * later is written each time. */
static uint64_t string_of(mtb_writer *w, const char *text) {
    uint64_t hash = hash_of(text), number = w->string.count + 1;
    const uint64_t *known = mt_map_find(&w->strings, hash);
    if (known != NULL && strcmp(w->string.at[*known - 1], text) == 0)
        return *known;
    char **copy = mt_array_push(&w->string);
    if (copy == NULL || (*copy = strdup(text)) == NULL || !mt_map_set(&w->strings, hash, number))
        return 0;
    write_text(w, MT_MTB_STRING, text);
    return number;
}

static void write_stack(mtb_writer *w, const mt_item *item) {
    uint64_t string = string_of(w, item->text);
    if (string == 0) {
        mt_trace_no_memory(&w->base);
        return;
    }
    w->end = w->data + MT_MTB_HEADER;
    add(w, item->id);
    add(w, string);
    end_record(w, MT_MTB_STACK, NULL, 0);
}

/* ---- the form -------------------------------------------------------------------------------- */

static void write_event(mtb_writer *w, const mt_item *item) {
    switch (item->event->kind) {
    case MT_EV_ALLOC:
        write_alloc(w, item);
        break;
    case MT_EV_FREE:
        write_free(w, item);
        break;
    case MT_EV_OOM:
        write_oom(w, item);
        break;
    case MT_EV_MARK:
        write_mark(w, item);
        break;
    default:
        write_segment(w, item);
    }
    w->seq++;
}

/* One that names no request. */
static void write_plain(mtb_writer *w, const mt_item *item, mt_mtb_kind kind) {
    fields f = fields_of(w, item);
    add_fields(w, &f, &w->before, 0, CONTEXT);
    end_record(w, kind, NULL, 0);
}

static void write_settings(mt_trace *t, const mt_settings *s) {
    mtb_writer *w = (mtb_writer *)t;
    size_t n = s->policy != NULL ? strnlen(s->policy, MT_MTB_BODY - MT_MTB_VARINT - 1) : 0;
    w->end = w->data + MT_MTB_HEADER;
    add(w, s->timed);
    add(w, s->capacity);
    end_record(w, MT_MTB_SETTINGS, s->policy, n);
    w->set = true;
}

/* Of a trace that was given none. */
static void write_no_settings(mtb_writer *w) {
    if (!w->set)
        write_settings(&w->base, &(mt_settings){ .timed = w->base.times });
}

static void write_item(mt_trace *t, const mt_item *item) {
    mtb_writer *w = (mtb_writer *)t;
    if (item->kind != MT_ITEM_NOTE)
        write_no_settings(w);
    begin_record(w, item);
    if ((item->has & MT_HAS_EVENT) != 0)
        write_event(w, item);
    else if (item->kind == MT_ITEM_NOTE)
        write_text(w, MT_MTB_NOTE, item->text);
    else if (item->kind == MT_ITEM_STACK)
        write_stack(w, item);
    else if (item->kind == MT_ITEM_ALLOC)
        write_operation(w, item);
    else if (item->kind == MT_ITEM_FREE || item->kind == MT_ITEM_USE)
        write_naming(w, item, item->kind == MT_ITEM_USE ? MT_MTB_USE : MT_MTB_RELEASE);
    else if (item->kind == MT_ITEM_MARK)
        write_mark(w, item);
    else if (item->kind >= MT_ITEM_TRIM && item->kind <= MT_ITEM_GO)
        write_plain(w, item, MT_MTB_TRIM + (item->kind - MT_ITEM_TRIM));
}

static mt_status begin(mt_trace *t, mt_error *err) {
    mtb_writer *w = (mtb_writer *)t;
    (void)err;
    w->end = w->data;
    memcpy(w->end, MT_MTB_MAGIC, 8);
    w->end += 8;
    add_bytes(w, MT_MTB_VERSION, 2);
    add_bytes(w, 0, 2);
    add_bytes(w, 0, 4);
    write_bytes(w, w->data, MT_MTB_HEADER);
    w->before.layer = -1;
    return MT_OK;
}

/* A record of the index for each step: so a reader goes through them as through any others. */
static void write_index(mtb_writer *w) {
    for (size_t i = 0; i < w->step.count; i++) {
        const step *s = &w->step.at[i];
        w->end = w->data + MT_MTB_HEADER;
        add(w, s->at);
        add(w, s->seq);
        add(w, s->requested);
        add(w, s->reserved);
        end_record(w, MT_MTB_INDEX, NULL, 0);
    }
}

static void end(mt_trace *t, const char *ending) {
    mtb_writer *w = (mtb_writer *)t;
    uint64_t at;
    write_no_settings(w);
    if (ending != NULL)
        write_text(w, MT_MTB_NOTE, ending);
    at = w->written;
    write_index(w);
    w->end = w->data + MT_MTB_HEADER;
    uint64_t records = w->records;
    add_bytes(w, at, 8);
    add_bytes(w, records, 8);
    end_record(w, MT_MTB_END, NULL, 0);
}

static void close_writer(mt_trace *t) {
    mtb_writer *w = (mtb_writer *)t;
    mt_numbers_free(&w->live);
    mt_numbers_free(&w->slots);
    mt_array_free(&w->request);
    mt_array_free(&w->segment);
    mt_array_free(&w->step);
    for (size_t i = 0; i < w->string.count; i++)
        free(w->string.at[i]);
    mt_array_free(&w->string);
    mt_map_free(&w->strings);
}

const mt_trace_form mt_form_mtb = {
    .name = "mtb",
    .ending = ".mtb",
    .loses = "driver calls, counters, blocks and history of a recording",
    .only = MT_TELLS_CALLS | MT_TELLS_COUNTERS | MT_TELLS_SNAPSHOTS | MT_TELLS_HISTORY,
    .binary = true,
    .size = sizeof(mtb_writer),
    .begin = begin,
    .settings = write_settings,
    .item = write_item,
    .end = end,
    .close = close_writer,
};
