/* read_trace.c - memtrace's own traces (trace.h), each line checked.
 *
 * A line is read column by column; then the event must be able to follow those before it
 * (follow.h), and a free what its alloc said. Ids rise from alloc to alloc, so that a second use is
 * seen without keeping those that are freed. */
#include "traces/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "traces/follow.h"
#include "traces/trace.h"

#define SHOWN 40 /* characters of a wrong word, in a message */

/* What the alloc of a live request said. */
typedef struct request {
    uint64_t offset, requested, rounded;
    uint32_t segment;
    uint8_t tag;
} request;

/* The names that a column may have. */
typedef struct names {
    const char *name[MT_EVENTS];
    int count;
} names;

typedef enum column {
    SEQ,
    KIND,
    STEP,
    STREAM,
    ID,
    SEGMENT,
    OFFSET,
    REQUESTED,
    ROUNDED,
    TAG,
    LAYER,
    POOL,
    NS,
    COLUMNS
} column;

static const char *const column_names[COLUMNS] = {
    "seq",       "kind",    "step", "stream", "id",   "segment", "offset",
    "requested", "rounded", "tag",  "layer",  "pool", "ns",
};

typedef struct trace_reader {
    mt_reader base;
    mt_error *err; /* of the call */
    names kinds, tags, pools;
    bool named, times; /* the columns are named; with ns among them */
    column column;     /* being read, and the rest of its line */
    const char *line, *at;
    mt_event event; /* the latest */
    uint64_t seq, next_id, last_ns;
    int64_t step;
    mt_follow follow;
    MT_ARRAY(request) request; /* by live number */
} trace_reader;

/* Refuses the line; the arguments are a format and what it needs. */
#define refuse(r, ...) mt_reader_bad(&(r)->base, (r)->err, __VA_ARGS__)

static mt_status no_memory(trace_reader *r) {
    return mt_no_memory(r->err, "reading a trace");
}

/* ---- columns --------------------------------------------------------------------------------- */

static int count_columns(const char *line) {
    int n = 1;
    for (; *line != '\0'; line++)
        n += *line == ' ';
    return n;
}

/* Refuses the word at r->at; the number of columns, if wrong, is what is wrong. */
static mt_status refuse_word(trace_reader *r, const char *expected) {
    int length = (int)strcspn(r->at, " "), n = count_columns(r->line),
        wanted = r->times ? COLUMNS : COLUMNS - 1;
    if (n != wanted)
        return refuse(r, "%d columns, expected %d separated by one space", n, wanted);
    return refuse(r, "%s is '%.*s', expected %s", column_names[r->column],
                  length < SHOWN ? length : SHOWN, r->at, expected);
}

/* Whether the word of this column ends at `end`; moves to the next column. */
static inline bool word_ends(trace_reader *r, const char *end) {
    bool last = r->column == (r->times ? NS : POOL);
    if (*end != (last ? '\0' : ' '))
        return false;
    r->at = end + !last;
    r->column++;
    return true;
}

static mt_status refuse_number(trace_reader *r, uint64_t most) {
    char expected[64];
    snprintf(expected, sizeof expected, "a whole number up to %" PRIu64, most);
    return refuse_word(r, expected);
}

/* A number without leading zeros, up to most. */
static inline mt_status number(trace_reader *r, uint64_t most, uint64_t *value) {
    const char *at = r->at;
    bool zeros = at[0] == '0' && at[1] >= '0' && at[1] <= '9';
    if (!zeros && mt_digits(&at, value) && *value <= most && word_ends(r, at))
        return MT_OK;
    return refuse_number(r, most);
}

static mt_status number32(trace_reader *r, uint32_t *value) {
    uint64_t n = 0;
    MT_TRY(number(r, UINT32_MAX - 1, &n));
    *value = (uint32_t)n;
    return MT_OK;
}

/* ---- 1, or a whole number. ------------------------------------------------------------------- */
static mt_status signed32(trace_reader *r, int32_t *value) {
    uint64_t n = 0;
    const char *at = r->at;
    bool none = at[0] == '-' && at[1] == '1';
    if (none)
        at += 2;
    if ((none || (mt_digits(&at, &n) && n <= INT32_MAX)) && word_ends(r, at)) {
        *value = none ? -1 : (int32_t)n;
        return MT_OK;
    }
    return refuse_word(r, "-1 or a whole number up to 2147483647");
}

static mt_status dash(trace_reader *r) {
    if (r->at[0] == '-' && word_ends(r, r->at + 1))
        return MT_OK;
    return refuse_word(r, "- for this kind of event");
}

/* The end of a word that stands at `at`; NULL when another one does. */
static inline const char *after(const char *at, const char *word) {
    for (; *word != '\0'; at++, word++)
        if (*at != *word)
            return NULL;
    return at;
}

static mt_status name(trace_reader *r, const names *known, uint8_t *value) {
    char expected[256] = "one of";
    for (int i = 0; i < known->count; i++) {
        const char *end = after(r->at, known->name[i]);
        if (end != NULL && word_ends(r, end)) {
            *value = (uint8_t)i;
            return MT_OK;
        }
    }
    for (int i = 0; i < known->count; i++)
        strcat(strcat(expected, " "), known->name[i]);
    return refuse_word(r, expected);
}

/* The columns that only some kinds of event have; the event is all zero there before. */
static mt_status event_id(trace_reader *r, mt_event *e) {
    bool caused = e->kind == MT_EV_ALLOC || e->kind == MT_EV_FREE;
    e->id = MT_NO_ID;
    if (e->kind == MT_EV_MARK || (!caused && r->at[0] == '-'))
        return dash(r);
    return number(r, MT_NO_ID - 1, &e->id);
}

static mt_status read_event(trace_reader *r, mt_event *e) {
    memset(e, 0, sizeof *e);
    MT_TRY(number(r, UINT64_MAX, &e->seq));
    MT_TRY(name(r, &r->kinds, &e->kind));
    bool mark = e->kind == MT_EV_MARK, nowhere = mark || e->kind == MT_EV_OOM;
    e->tag = MT_OTHER;
    MT_TRY(signed32(r, &e->step));
    MT_TRY(number32(r, &e->stream));
    MT_TRY(event_id(r, e));
    MT_TRY(nowhere ? dash(r) : number32(r, &e->segment));
    MT_TRY(number(r, UINT64_MAX, &e->offset));
    MT_TRY(number(r, UINT64_MAX, &e->requested));
    MT_TRY(number(r, UINT64_MAX, &e->rounded));
    MT_TRY(mark ? dash(r) : name(r, &r->tags, &e->tag));
    MT_TRY(signed32(r, &e->layer));
    MT_TRY(nowhere ? dash(r) : name(r, &r->pools, &e->pool));
    return r->times ? number(r, UINT64_MAX, &e->time_ns) : MT_OK;
}

/* ---- what can follow ------------------------------------------------------------------------- */

static mt_status check_order(trace_reader *r, const mt_event *e) {
    if (e->seq != r->seq)
        return refuse(r, "seq is %" PRIu64 ", expected %" PRIu64, e->seq, r->seq);
    if (e->step != r->step)
        return refuse(r, "step is %" PRId32 ", expected %" PRId64 " (a mark ends a step)", e->step,
                      r->step);
    if (r->times && (e->time_ns < r->last_ns || (r->seq == 0 && e->time_ns != 0)))
        return refuse(r, "ns is %" PRIu64 ", expected %s", e->time_ns,
                      r->seq == 0 ? "0 at the first event" : "no less than before");
    if (e->kind == MT_EV_MARK && e->layer != -1)
        return refuse(r, "layer is %" PRId32 ", expected -1 for a mark", e->layer);
    r->seq++;
    r->last_ns = e->time_ns;
    r->step += e->kind == MT_EV_MARK;
    return MT_OK;
}

static mt_status check_alloc(trace_reader *r, const mt_event *e, mt_item *item) {
    if (e->id < r->next_id)
        return refuse(r, "id is %" PRIu64 ", expected %" PRIu64 " or more: ids rise", e->id,
                      r->next_id);
    item->live = mt_numbers_take(&r->base.live, e->id);
    if (item->live == MT_NO_NUMBER || !mt_array_extend(&r->request, (size_t)item->live + 1))
        return no_memory(r);
    r->request.at[item->live] =
        (request){ e->offset, e->requested, e->rounded, e->segment, e->tag };
    r->next_id = e->id + 1;
    return MT_OK;
}

/* A free must say what the alloc of the same id said. */
static mt_status check_free(trace_reader *r, const mt_event *e, mt_item *item) {
    item->live = mt_numbers_find(&r->base.live, e->id);
    if (item->live == MT_NO_NUMBER)
        return refuse(r, "id %" PRIu64 " %s", e->id,
                      e->id < r->next_id ? "is already freed" : "was never allocated");
    const request *q = &r->request.at[item->live];
    const uint64_t pair[][2] = { { e->segment, q->segment },
                                 { e->offset, q->offset },
                                 { e->requested, q->requested },
                                 { e->rounded, q->rounded } };
    for (int i = 0; i < 4; i++)
        if (pair[i][0] != pair[i][1])
            return refuse(r, "%s is %" PRIu64 ", the alloc of id %" PRIu64 " said %" PRIu64,
                          column_names[SEGMENT + i], pair[i][0], e->id, pair[i][1]);
    if (e->tag != q->tag)
        return refuse(r, "tag is %s, the alloc of id %" PRIu64 " said %s", mt_tag_name(e->tag),
                      e->id, mt_tag_name(q->tag));
    mt_numbers_drop(&r->base.live, e->id);
    return MT_OK;
}

/* Whether the event can follow; sets its slot, and the live number of its request. */
static mt_status check_event(trace_reader *r, mt_event *e, mt_item *item) {
    MT_TRY(check_order(r, e));
    if (e->kind < MT_EV_OOM)
        MT_TRY(mt_follow_slot(&r->follow, &r->base, e, r->err));
    if (e->kind == MT_EV_ALLOC)
        MT_TRY(check_alloc(r, e, item));
    if (e->kind == MT_EV_FREE)
        MT_TRY(check_free(r, e, item));
    return mt_follow_event(&r->follow, &r->base, e, r->err);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool detect(const char *data, size_t n) {
    static const char first[] = "# memtrace trace ";
    return n >= sizeof first - 1 && memcmp(data, first, sizeof first - 1) == 0;
}

/* The first line, and what is not zero at first. */
static mt_status first_line(trace_reader *r, const char *line) {
    r->step = -1;
    for (int i = 0; i < MT_EVENTS; i++)
        r->kinds.name[r->kinds.count++] = mt_event_kind_name((mt_event_kind)i);
    for (int i = 0; i < MT_TAGS; i++)
        r->tags.name[r->tags.count++] = mt_tag_name((mt_tag)i);
    for (int i = 0; i < MT_POOLS; i++)
        r->pools.name[r->pools.count++] = mt_pool_name((mt_pool)i);
    if (strcmp(line, MT_TRACE_FIRST) == 0)
        return MT_OK;
    return refuse(r, "a trace of another version: '%.40s', expected '%s'", line, MT_TRACE_FIRST);
}

/* A line that begins with #; the one that names the columns is no note. */
static mt_status note(trace_reader *r, const char *line, mt_item *item) {
    const char *text = line + 1 + (line[1] == ' ');
    bool plain = strcmp(text, MT_TRACE_COLUMNS) == 0,
         timed = strcmp(text, MT_TRACE_COLUMNS MT_TRACE_TIMES) == 0;
    if (r->base.line == 1)
        return first_line(r, line);
    if (plain || timed) {
        if (r->named)
            return refuse(r, "the columns are named twice");
        r->named = true;
        r->times = r->base.settings.timed = timed;
    } else if (strncmp(text, "seq ", 4) == 0) {
        return refuse(r, "other columns than '%s' and perhaps '%s'", MT_TRACE_COLUMNS,
                      &MT_TRACE_TIMES[1]);
    } else {
        item->kind = MT_ITEM_NOTE;
        item->text = text;
    }
    return MT_OK;
}

static mt_status event_line(trace_reader *r, const char *line, mt_item *item) {
    if (!r->named)
        return refuse(r, "an event before the line '# %s'", MT_TRACE_COLUMNS);
    r->line = r->at = line;
    r->column = SEQ;
    MT_TRY(read_event(r, &r->event));
    MT_TRY(check_event(r, &r->event, item));
    mt_item_tell(item, &r->event);
    return MT_OK;
}

static mt_status next(mt_reader *base, mt_item *item, mt_error *err) {
    trace_reader *r = (trace_reader *)base;
    char *line;
    r->err = err;
    do {
        MT_TRY(mt_reader_line(base, &line, err));
        if (line == NULL)
            return r->named ? MT_OK
                            : refuse(r, "the file ends before the line '# %s'", MT_TRACE_COLUMNS);
        if (base->cut)
            return refuse(r, "the file ends inside a line, expected a newline at its end");
        MT_TRY(line[0] == '#' ? note(r, line, item) : event_line(r, line, item));
    } while (item->kind == MT_ITEM_END);
    return MT_OK;
}

static void close_trace(mt_reader *base) {
    trace_reader *r = (trace_reader *)base;
    mt_follow_free(&r->follow);
    mt_array_free(&r->request);
}

const mt_format mt_format_trace = {
    .word = "trace",
    .name = "a memtrace trace",
    .tells = MT_TELLS_PLACES | MT_TELLS_EVENTS | MT_TELLS_MOST,
    .calls = "",
    .detect = detect,
    .size = sizeof(trace_reader),
    .next = next,
    .close = close_trace,
};
