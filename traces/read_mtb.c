/* read_mtb.c - the binary trace (mtb.h, docs/trace-format.md), each record checked.
 *
 * A record lies whole in a buffer and is decoded there without looking for its end: behind the
 * buffer there is room for the longest one, and only then is asked whether it was long enough. An
 * event that was put together must be able to follow those before it (follow.h). Requests are named
 * by their live numbers, so that nothing need be looked up. */
#include "traces/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "traces/follow.h"
#include "traces/mtb.h"

#define BUFFER ((size_t)MT_MTB_BODY * 2)
#define BEHIND ((size_t)256) /* more than the numbers of any record */

typedef struct fields {
    uint64_t offset, requested, rounded, id;
    uint32_t stream, slot, device, private_pool, stack, thread, process;
    int32_t layer;
    uint8_t tag, pool;
    bool host, event; /* event: of a request, an alloc told of it */
    bool live;
} fields;

typedef struct mtb {
    mt_reader base;
    mt_error *err; /* of the call */
    uint8_t *data; /* [BUFFER + BEHIND]; what is before at is used up */
    size_t at, used;
    bool opened, grows, ended; /* the header is read; its flag; the last record was */
    const uint8_t *next, *end; /* in the record's body: to be decoded from here; behind it */
    bool wide;                 /* a number in it had more than its bits */
    uint64_t seq, next_id, last_ns;
    int64_t step;
    fields before;
    mt_event event; /* the latest */
    mt_follow follow;
    MT_ARRAY(fields) request; /* by live number */
    MT_ARRAY(uint32_t) spare; /* live numbers, the one given back last on top */
    MT_ARRAY(char *) string;
    uint64_t stacks;
    char *text; /* of the latest note */
} mtb;

#define CONTEXT                                                                                    \
    (MT_MTB_STREAM | MT_MTB_DEVICE | MT_MTB_PRIVATE_POOL | MT_MTB_STACK_OF | MT_MTB_THREAD |       \
     MT_MTB_PROCESS | MT_MTB_HOST)

/* Refuses the record; the arguments are a format and what it needs. */
#define refuse(r, ...) mt_reader_bad(&(r)->base, (r)->err, __VA_ARGS__)

static mt_status no_memory(mtb *r) {
    return mt_no_memory(r->err, "reading a trace");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t long_number(mtb *r, uint64_t n) {
    for (int shift = 7; shift < 64; shift += 7) {
        uint8_t byte = *r->next++;
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            r->wide = r->wide || (shift == 63 && byte > 1);
            return n;
        }
    }
    r->wide = true;
    return n;
}

static inline uint64_t number(mtb *r) {
    uint8_t byte = *r->next++;
    return byte < 0x80 ? byte : long_number(r, byte & 0x7f);
}

/* Below most + 1. */
static inline uint32_t number_to(mtb *r, uint32_t most) {
    uint64_t n = number(r);
    r->wide = r->wide || n > most;
    return (uint32_t)n;
}

static inline uint32_t number32(mtb *r) {
    return number_to(r, UINT32_MAX - 1);
}

static inline uint64_t fixed(mtb *r, int bytes) {
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++)
        n |= (uint64_t)*r->next++ << 8 * i;
    return n;
}

/* Whether the record had all that was decoded, and no number was too large. */
static inline mt_status check_body(mtb *r) {
    if (r->next > r->end)
        return refuse(r, "the record ends %td bytes early", r->next - r->end);
    return r->wide ? refuse(r, "a number is out of its range") : MT_OK;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Those few records have. */
static void read_rare(mtb *r, fields *f, unsigned mask) {
    if ((mask & MT_MTB_DEVICE) != 0)
        f->device = number32(r);
    if ((mask & MT_MTB_PRIVATE_POOL) != 0)
        f->private_pool = number32(r);
    if ((mask & MT_MTB_STACK_OF) != 0)
        f->stack = number32(r);
    if ((mask & MT_MTB_THREAD) != 0)
        f->thread = number32(r);
    if ((mask & MT_MTB_PROCESS) != 0)
        f->process = number32(r);
    if ((mask & MT_MTB_HOST) != 0)
        f->host = number_to(r, 1) != 0;
    r->wide = r->wide || f->stack > r->stacks;
}

static void read_tag_pool(mtb *r, fields *f) {
    uint32_t n = number_to(r, 8 * MT_POOLS - 1);
    f->tag = n % 8;
    f->pool = (uint8_t)(n / 8);
    r->wide = r->wide || f->tag >= MT_TAGS;
}

/* Reads what of the allowed fields is there over what f says, and sets f->id. */
static inline void read_fields(mtb *r, fields *f, unsigned allowed) {
    unsigned mask = number_to(r, allowed);
    r->wide = r->wide || (mask & ~allowed) != 0;
    if ((mask & MT_MTB_STREAM) != 0)
        f->stream = number32(r);
    if ((allowed & MT_MTB_OFFSET) != 0)
        f->offset += f->rounded;
    if ((mask & MT_MTB_OFFSET) != 0)
        f->offset += mt_mtb_signed(number(r));
    if ((mask & MT_MTB_REQUESTED) != 0)
        f->requested = number(r);
    if ((allowed & MT_MTB_ROUNDED) != 0)
        f->rounded = f->requested;
    if ((mask & MT_MTB_ROUNDED) != 0)
        f->rounded += mt_mtb_signed(number(r));
    if ((mask & MT_MTB_LAYER) != 0)
        f->layer = (int32_t)((int64_t)number_to(r, UINT32_C(1) << 31) - 1);
    if ((mask & MT_MTB_SLOT) != 0)
        f->slot = number32(r);
    if ((mask & MT_MTB_TAG_POOL) != 0)
        read_tag_pool(r, f);
    if ((allowed & MT_MTB_ID) != 0)
        f->id = r->next_id;
    if ((mask & MT_MTB_ID) != 0)
        f->id += number(r);
    if (mask >= MT_MTB_DEVICE)
        read_rare(r, f, mask);
}

static void fill_context(mt_item *item, const fields *f) {
    item->stream = f->stream;
    item->device = f->device;
    item->private_pool = f->private_pool;
    item->stack = f->stack;
    item->thread = f->thread;
    item->process = f->process;
    item->host = f->host;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Gives a request that was read its id and live number. */
static inline mt_status take_live(mtb *r, const fields *f, mt_item *item) {
    if (f->id < r->next_id || f->id >= MT_NO_ID)
        return refuse(r, "an id beyond 2^64 - 2");
    uint32_t live = (uint32_t)r->request.count;
    if (r->spare.count > 0)
        live = r->spare.at[--r->spare.count];
    else if (live == MT_NO_NUMBER || mt_array_push(&r->request) == NULL ||
             !mt_array_reserve(&r->spare, r->request.count))
        return no_memory(r);
    fields *request = &r->request.at[live];
    *request = *f;
    request->live = true;
    item->id = f->id;
    item->live = live;
    r->next_id = f->id + 1;
    return MT_OK;
}

/* The live request of that number; it stays where it is when it is dropped. */
static inline mt_status find_live(mtb *r, uint64_t live, bool drop, const fields **f,
                                  mt_item *item) {
    if (live >= r->request.count || !r->request.at[live].live)
        return refuse(r, "request %" PRIu64 " is not live", live);
    fields *request = &r->request.at[live];
    *f = request;
    item->live = (uint32_t)live;
    item->id = request->id;
    if (drop) {
        request->live = false;
        r->spare.at[r->spare.count++] = (uint32_t)live;
    }
    return MT_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The event of what was read, in its segment if it has one. */
static void fill_event(mtb *r, mt_event_kind kind, const fields *f) {
    r->event = (mt_event){
        .seq = r->seq++,
        .id = f->id,
        .offset = f->offset,
        .requested = f->requested,
        .rounded = f->rounded,
        .time_ns = r->last_ns,
        .slot = f->slot,
        .stream = f->stream,
        .step = (int32_t)r->step,
        .layer = f->layer,
        .kind = (uint8_t)kind,
        .tag = f->tag,
        .pool = f->pool,
    };
}

/* Sets the number of the segment that the event's slot names. */
static inline mt_status find_segment(mtb *r, uint32_t slot) {
    const mt_ledger *l = &r->follow.ledger;
    if (slot >= l->segment.count || l->segment.at[slot].reserved == 0)
        return refuse(r, "slot %" PRIu32 " has no segment", slot);
    r->event.segment = l->segment.at[slot].number;
    return MT_OK;
}

static inline mt_status tell_event(mtb *r, const fields *f, mt_item *item) {
    MT_TRY(mt_follow_event(&r->follow, &r->base, &r->event, r->err));
    mt_item_tell(item, &r->event);
    fill_context(item, f);
    return MT_OK;
}

static mt_status read_alloc(mtb *r, mt_item *item) {
    fields *f = &r->before;
    read_fields(r, f, (1u << MT_MTB_FIELDS) - 1);
    MT_TRY(check_body(r));
    f->event = true;
    fill_event(r, MT_EV_ALLOC, f);
    MT_TRY(find_segment(r, f->slot));
    MT_TRY(take_live(r, f, item));
    return tell_event(r, f, item);
}

static mt_status read_free(mtb *r, mt_item *item) {
    const fields *request = NULL;
    MT_TRY(find_live(r, number(r), true, &request, item));
    fields f = *request;
    read_fields(r, &f, CONTEXT | MT_MTB_LAYER | MT_MTB_TAG_POOL);
    MT_TRY(check_body(r));
    if (!f.event || f.tag != request->tag)
        return refuse(r, "a free that is not of its alloc");
    fill_event(r, MT_EV_FREE, &f);
    MT_TRY(find_segment(r, f.slot));
    return tell_event(r, &f, item);
}

/* The segment's number + 1 when it begins; 0 when it names one that is held. */
static mt_status read_segment(mtb *r, mt_event_kind kind, mt_item *item) {
    fields *f = &r->before;
    uint64_t begins = mt_follow_begins(kind) ? number_to(r, UINT32_MAX) : 0, cause = number(r);
    read_fields(r, f, ((1u << MT_MTB_FIELDS) - 1) & ~(unsigned)MT_MTB_ID);
    MT_TRY(check_body(r));
    if (kind == MT_EV_SEGMENT_ALLOC && begins == 0)
        return refuse(r, "a segment without its number");
    f->id = cause - 1;
    fill_event(r, kind, f);
    if (begins == 0) {
        MT_TRY(find_segment(r, f->slot));
    } else {
        r->event.segment = (uint32_t)(begins - 1);
        if (mt_numbers_find(&r->follow.slots, r->event.segment) != MT_NO_NUMBER)
            return refuse(r, "segment %" PRIu32 " is already allocated", r->event.segment);
        MT_TRY(mt_follow_slot(&r->follow, &r->base, &r->event, r->err));
        f->slot = r->event.slot;
    }
    return tell_event(r, f, item);
}

static mt_status read_oom(mtb *r, mt_item *item) {
    fields *f = &r->before;
    uint64_t cause = number(r);
    read_fields(r, f, ((1u << MT_MTB_FIELDS) - 1) & ~(unsigned)MT_MTB_ID);
    MT_TRY(check_body(r));
    f->id = cause - 1;
    fill_event(r, MT_EV_OOM, f);
    r->event.slot = 0;
    r->event.pool = 0;
    return tell_event(r, f, item);
}

static mt_status read_mark(mtb *r, mt_item *item) {
    fields f = { .id = MT_NO_ID, .layer = -1, .tag = MT_OTHER };
    f.offset = number(r);
    f.requested = number(r);
    f.rounded = number(r);
    f.stream = number32(r);
    MT_TRY(check_body(r));
    if (r->step == INT32_MAX)
        return refuse(r, "more steps than can be counted");
    fill_event(r, MT_EV_MARK, &f);
    r->step++;
    return tell_event(r, &f, item);
}

/* ---- operations ------------------------------------------------------------------------------ */

static mt_status read_request(mtb *r, bool refused, mt_item *item) {
    fields *f = &r->before;
    item->has = number_to(r, MT_HAS_PLACE | MT_HAS_ROUNDED);
    read_fields(r, f, (1u << MT_MTB_FIELDS) - 1);
    MT_TRY(check_body(r));
    if (f->requested == 0)
        return refuse(r, "a request of 0 bytes");
    f->event = false;
    MT_TRY(take_live(r, f, item));
    item->kind = MT_ITEM_ALLOC;
    item->refused = refused;
    item->has |= refused ? MT_HAS_PLACE : 0;
    item->bytes = f->requested;
    item->layer = f->layer;
    item->tag = f->tag;
    item->segment = f->slot;
    item->offset = f->offset;
    item->rounded = f->rounded;
    fill_context(item, f);
    return MT_OK;
}

static mt_status read_naming(mtb *r, bool use, mt_item *item) {
    static const fields none = { .layer = -1 };
    const fields *request = &none;
    uint64_t live = number(r);
    if (live == 0)
        item->id = number(r);
    else
        MT_TRY(find_live(r, live - 1, !use, &request, item));
    fields f = *request;
    read_fields(r, &f, CONTEXT);
    MT_TRY(check_body(r));
    if (f.event && !use)
        return refuse(r, "a free without an event, of an alloc with one");
    item->kind = use ? MT_ITEM_USE : MT_ITEM_FREE;
    fill_context(item, &f);
    return MT_OK;
}

static mt_status read_plain(mtb *r, mt_item_kind kind, mt_item *item) {
    fields f = r->before;
    read_fields(r, &f, CONTEXT);
    item->kind = kind;
    fill_context(item, &f);
    return check_body(r);
}

static mt_status read_step(mtb *r, mt_item *item) {
    item->kind = MT_ITEM_MARK;
    item->ctx = number(r);
    item->kv_ideal = number(r);
    return check_body(r);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* The rest of the record as a string of its own; NULL when there is no memory. A zero byte ends
 * it. */
static char *copy_text(mtb *r) {
    return strndup((const char *)r->next, (size_t)(r->end - r->next));
}

static mt_status read_note(mtb *r, mt_item *item) {
    free(r->text);
    if ((r->text = copy_text(r)) == NULL)
        return no_memory(r);
    item->kind = MT_ITEM_NOTE;
    item->text = r->text;
    return MT_OK;
}

static mt_status read_string(mtb *r) {
    char **string = mt_array_push(&r->string);
    if (string == NULL)
        return no_memory(r);
    *string = copy_text(r);
    return *string != NULL ? MT_OK : no_memory(r);
}

static mt_status read_stack(mtb *r, mt_item *item) {
    uint64_t caller = number(r), string = number(r);
    MT_TRY(check_body(r));
    if (caller > r->stacks || string == 0 || string > r->string.count)
        return refuse(r, "a call stack of a caller or a string that did not come before it");
    item->kind = MT_ITEM_STACK;
    item->stack = (uint32_t)++r->stacks;
    item->id = caller;
    item->text = r->string.at[string - 1];
    return r->stacks < UINT32_MAX ? MT_OK : refuse(r, "more call stacks than can be counted");
}

static mt_status read_settings(mtb *r) {
    bool timed = number_to(r, 1) != 0;
    uint64_t capacity = number(r);
    MT_TRY(check_body(r));
    char *policy = copy_text(r);
    if (policy == NULL)
        return no_memory(r);
    if (r->base.begun || r->base.settings.policy != NULL) {
        free(policy);
        return refuse(r, "settings twice, or after the first event");
    }
    r->base.settings.timed = timed;
    r->base.settings.capacity = capacity;
    r->base.settings.policy = policy;
    if (*policy == '\0') {
        free(policy);
        r->base.settings.policy = NULL;
    }
    return MT_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

static mt_status fill_more(mtb *r, size_t n) {
    size_t more = 1;
    memmove(r->data, r->data + r->at, r->used - r->at);
    r->used -= r->at;
    r->at = 0;
    while (r->used < n && more > 0) {
        MT_TRY(mt_input_some(r->base.in, r->data + r->used, BUFFER - r->used, &more, r->err));
        r->used += more;
    }
    return MT_OK;
}

/* Makes n bytes stand in the buffer from at on, or all that there are. */
static inline mt_status fill(mtb *r, size_t n) {
    return r->used - r->at >= n ? MT_OK : fill_more(r, n);
}

static mt_status read_header(mtb *r) {
    r->base.line = 0;
    if ((r->data = calloc(1, BUFFER + BEHIND)) == NULL)
        return no_memory(r);
    MT_TRY(fill(r, MT_MTB_HEADER));
    if (r->used < MT_MTB_HEADER)
        return refuse(r, "the file ends inside its header, expected %d bytes", MT_MTB_HEADER);
    r->next = r->data + sizeof MT_MTB_MAGIC - 1;
    uint64_t version = fixed(r, 2), flags = fixed(r, 2);
    if (version != MT_MTB_VERSION || flags > MT_MTB_GROWS || fixed(r, 4) != 0)
        return refuse(r, "version %" PRIu64 ", flags %" PRIu64 ", expected version %d", version,
                      flags, MT_MTB_VERSION);
    r->at = MT_MTB_HEADER;
    r->grows = (flags & MT_MTB_GROWS) != 0;
    r->opened = true;
    r->step = -1;
    r->before.layer = -1;
    return MT_OK;
}

/* The file ends where no whole record does. */
static mt_status cut(mtb *r, mt_item *item) {
    static char text[] = "cut: the file ends inside a record";
    if (!r->grows)
        return refuse(r, "the file is cut: it ends before its last record");
    r->ended = true;
    if (r->used > r->at) {
        item->kind = MT_ITEM_NOTE;
        item->text = text;
    }
    r->at = r->used;
    return MT_OK;
}

/* Passes over n bytes; *all when there were that many. */
static mt_status skip(mtb *r, uint64_t n, bool *all) {
    while (n > r->used - r->at) {
        n -= r->used - r->at;
        r->at = r->used;
        MT_TRY(fill(r, 1));
        if (r->at == r->used) {
            *all = false;
            return MT_OK;
        }
    }
    r->at += n;
    *all = true;
    return MT_OK;
}

/* A record of a kind that this version does not know, and an entry of the index: passed over. */
static bool is_passed(uint8_t kind) {
    kind &= (uint8_t)~MT_MTB_TIMED;
    return kind == 0 || kind == MT_MTB_INDEX || kind >= MT_MTB_KINDS;
}

/* The head of the next record: its kind and the bytes of its body, which stand from next on.
 * *whole: there was one. */
static mt_status read_head(mtb *r, uint8_t *kind, uint64_t *length, bool *whole) {
    MT_TRY(fill(r, 2));
    if (r->used - r->at >= 2 && r->data[r->at + 1] >= 0x80)
        MT_TRY(fill(r, 1 + MT_MTB_VARINT));
    r->next = r->data + r->at;
    *whole = r->used - r->at >= 2;
    *kind = *r->next++;
    r->wide = false;
    *length = number(r);
    *whole = *whole && r->next <= r->data + r->used;
    return *whole && r->wide ? refuse(r, "a length beyond 2^64 - 1") : MT_OK;
}

/* The next record that is not passed over, whole in the buffer. *whole: there was one. */
static mt_status read_record(mtb *r, uint8_t *kind, bool *whole) {
    uint64_t length;
    do {
        MT_TRY(read_head(r, kind, &length, whole));
        if (!*whole)
            return MT_OK;
        r->base.line++;
        size_t head = (size_t)(r->next - (r->data + r->at));
        if (is_passed(*kind)) {
            r->at += head;
            MT_TRY(skip(r, length, whole));
        } else if (length > MT_MTB_BODY) {
            return refuse(r, "a body of %" PRIu64 " bytes, expected at most %d", length,
                          MT_MTB_BODY);
        } else {
            MT_TRY(fill(r, head + length));
            *whole = r->used - r->at >= head + length;
            r->next = r->data + r->at + head;
            r->end = r->next + length;
        }
    } while (*whole && is_passed(*kind));
    return MT_OK;
}

/* The last record, which says how many came before it; nothing follows. */
static mt_status read_end(mtb *r) {
    r->next += 8;
    uint64_t records = fixed(r, 8);
    MT_TRY(check_body(r));
    if (records != r->base.line - 1)
        return refuse(r, "record %" PRIu64 " says that it is number %" PRIu64, r->base.line,
                      records + 1);
    r->at = (size_t)(r->end - r->data);
    MT_TRY(fill(r, 1));
    if (r->used > r->at)
        return refuse(r, "more bytes behind the last record");
    r->ended = true;
    return MT_OK;
}

static mt_status read_time(mtb *r) {
    uint64_t more = number(r);
    MT_TRY(check_body(r));
    if (more > UINT64_MAX - r->last_ns)
        return refuse(r, "a time beyond 2^64 - 1 ns");
    r->last_ns += more;
    return MT_OK;
}

static mt_status read_event(mtb *r, mt_mtb_kind kind, mt_item *item) {
    switch (kind) {
    case MT_MTB_ALLOC:
        return read_alloc(r, item);
    case MT_MTB_FREE:
        return read_free(r, item);
    case MT_MTB_OOM:
        return read_oom(r, item);
    case MT_MTB_MARK:
        return read_mark(r, item);
    default:
        return read_segment(r, MT_EV_SEGMENT_ALLOC + (kind - MT_MTB_SEGMENT_ALLOC), item);
    }
}

static mt_status read_operation(mtb *r, mt_mtb_kind kind, mt_item *item) {
    switch (kind) {
    case MT_MTB_REQUEST:
    case MT_MTB_REFUSED:
        return read_request(r, kind == MT_MTB_REFUSED, item);
    case MT_MTB_RELEASE:
    case MT_MTB_USE:
        return read_naming(r, kind == MT_MTB_USE, item);
    case MT_MTB_STEP:
        return read_step(r, item);
    default:
        return read_plain(r, MT_ITEM_TRIM + (kind - MT_MTB_TRIM), item);
    }
}

static mt_status read_body(mtb *r, mt_mtb_kind kind, mt_item *item) {
    if (kind >= MT_MTB_ALLOC && kind <= MT_MTB_MARK)
        return read_event(r, kind, item);
    if (kind >= MT_MTB_REQUEST && kind <= MT_MTB_STEP)
        return read_operation(r, kind, item);
    switch (kind) {
    case MT_MTB_NOTE:
        return read_note(r, item);
    case MT_MTB_SETTINGS:
        return read_settings(r);
    case MT_MTB_STRING:
        return read_string(r);
    case MT_MTB_STACK:
        return read_stack(r, item);
    default:
        return read_end(r);
    }
}

static mt_status next(mt_reader *base, mt_item *item, mt_error *err) {
    mtb *r = (mtb *)base;
    r->err = err;
    if (!r->opened)
        MT_TRY(read_header(r));
    while (!r->ended && item->kind == MT_ITEM_END) {
        uint8_t kind;
        bool whole;
        MT_TRY(read_record(r, &kind, &whole));
        if (!whole)
            return cut(r, item);
        const uint8_t *end = r->end;
        if ((kind & MT_MTB_TIMED) != 0)
            MT_TRY(read_time(r));
        MT_TRY(read_body(r, kind & ~MT_MTB_TIMED, item));
        item->time_ns = item->kind > MT_ITEM_STACK ? r->last_ns : 0;
        r->at = (size_t)(end - r->data);
    }
    return MT_OK;
}

static void close_mtb(mt_reader *base) {
    mtb *r = (mtb *)base;
    for (size_t i = 0; i < r->string.count; i++)
        free(r->string.at[i]);
    mt_array_free(&r->string);
    mt_array_free(&r->request);
    mt_array_free(&r->spare);
    mt_follow_free(&r->follow);
    free(r->text);
    free(r->data);
}

static bool detect(const char *data, size_t n) {
    static const char magic[] = MT_MTB_MAGIC;
    return n >= sizeof magic - 1 && memcmp(data, magic, sizeof magic - 1) == 0;
}

const mt_format mt_format_mtb = {
    .word = "mtb",
    .name = "a binary trace of memtrace",
    .tells = MT_TELLS_PLACES | MT_TELLS_EVENTS | MT_TELLS_CONTEXT | MT_TELLS_MOST,
    .calls = "",
    .detect = detect,
    .size = sizeof(mtb),
    .next = next,
    .close = close_mtb,
};
