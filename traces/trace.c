/* trace.c - see trace.h.
 *
 * The writer turns numbers into text by itself and hands whole lines to an mt_output. The reader
 * goes line by line through a fixed buffer, so a trace of any length takes little memory: cut the
 * line into words, check each word by its column, then check that the event can follow the ones
 * before it. For that it keeps the segments held (number -> slot), the requests (id -> what the
 * alloc said, or that it is freed already) and a ledger. */
#include "traces/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/ledger.h"
#include "base/output.h"
#include "base/size.h"

#define FIRST_LINE "# memtrace trace 1\n"
#define COLUMNS    "seq kind step stream id segment offset requested rounded tag layer pool"
#define TIMES      " ns"

/* ---------------------------------------------------------------- writing */

struct mt_trace {
    mt_output *out;
    bool times;
    bool named;   /* the columns are written */
    bool started; /* first_ns is that of the first event */
    uint64_t first_ns;
};

mt_status mt_trace_create(mt_trace **out, const char *path, bool times, mt_error *err) {
    *out = NULL;
    mt_trace *t = calloc(1, sizeof *t);
    if (t == NULL)
        return mt_fail(err, MT_FAILED, "%s: not enough memory to write it", path);
    t->times = times;
    mt_status status = mt_output_open(&t->out, path, err);
    if (status != MT_OK) {
        free(t);
        return status;
    }
    mt_output_write(t->out, FIRST_LINE, strlen(FIRST_LINE));
    *out = t;
    return MT_OK;
}

void mt_trace_header(mt_trace *t, const char *line) {
    size_t length = strnlen(line, MT_TRACE_LINE - 8);
    mt_output_write(t->out, "# ", 2);
    for (size_t i = 0; i < length; i++)
        mt_output_write(t->out, line[i] == '\n' || line[i] == '\r' ? " " : &line[i], 1);
    mt_output_write(t->out, "\n", 1);
}

static void write_columns(mt_trace *t) {
    if (!t->named)
        mt_trace_header(t, t->times ? COLUMNS TIMES : COLUMNS);
    t->named = true;
}

/* How many digits n has. */
static int digits_of(uint64_t n) {
    int digits = 1;
    for (; n >= 10000; n /= 10000)
        digits += 4;
    return digits + (n >= 10) + (n >= 100) + (n >= 1000);
}

/* Writers of a word: each returns the place after the blank that follows it. */
static char *write_number(char *at, uint64_t n) {
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    int digits = digits_of(n), i = digits;
    for (; n >= 10; n /= 100)
        memcpy(at + (i -= 2), pairs + n % 100 * 2, 2);
    if (i > 0)
        at[0] = (char)('0' + n);
    at[digits] = ' ';
    return at + digits + 1;
}

static char *write_signed(char *at, int32_t n) {
    if (n < 0)
        *at++ = '-';
    return write_number(at, n < 0 ? (uint64_t) - (int64_t)n : (uint64_t)n);
}

static char *write_word(char *at, const char *word) {
    at = stpcpy(at, word);
    *at++ = ' ';
    return at;
}

/* The columns that do not apply to every event have a dash where they do not. */
static char *write_event(char *at, const mt_event *e, bool times) {
    bool mark = e->kind == MT_EV_MARK, nowhere = mark || e->kind == MT_EV_OOM;
    at = write_number(at, e->seq);
    at = write_word(at, mt_event_kind_name(e->kind));
    at = write_signed(at, e->step);
    at = write_number(at, e->stream);
    at = mark || e->id == MT_NO_ID ? write_word(at, "-") : write_number(at, e->id);
    at = nowhere ? write_word(at, "-") : write_number(at, e->segment);
    at = write_number(at, e->offset);
    at = write_number(at, e->requested);
    at = write_number(at, mark && !times ? 0 : e->rounded);
    at = write_word(at, mark ? "-" : mt_tag_name(e->tag));
    at = write_signed(at, mark ? -1 : e->layer);
    return write_word(at, nowhere ? "-" : mt_pool_name(e->pool));
}

static void write_line(void *context, const mt_event *e) {
    mt_trace *t = context;
    char line[400]; /* 13 columns of at most 21 characters */
    write_columns(t);
    if (!t->started)
        t->first_ns = e->time_ns;
    t->started = true;
    char *at = write_event(line, e, t->times);
    if (t->times)
        at = write_number(at, e->time_ns > t->first_ns ? e->time_ns - t->first_ns : 0);
    at[-1] = '\n';
    mt_output_write(t->out, line, (size_t)(at - line));
}

mt_listener mt_trace_listener(mt_trace *t) {
    return (mt_listener){ write_line, t };
}

mt_status mt_trace_commit(mt_trace *t, const char *ending, mt_error *err) {
    write_columns(t);
    if (ending != NULL)
        mt_trace_header(t, ending);
    mt_status status = mt_output_commit(t->out, err);
    free(t);
    return status;
}

void mt_trace_abandon(mt_trace *t) {
    if (t == NULL)
        return;
    mt_output_abandon(t->out);
    free(t);
}

/* ---------------------------------------------------------------- reading: the state */

/* A hash from 64-bit keys to small values: open addressing, linear probing. */
#define ABSENT UINT32_MAX
#define FREED  (UINT32_MAX - 1) /* of a request */

typedef struct entry {
    uint64_t key;
    uint32_t value; /* ABSENT: the place is empty */
} entry;

typedef struct map {
    entry *entry;
    size_t places, used; /* places: a power of two, 0 at first */
} map;

/* What the alloc of a live request said. */
typedef struct request {
    uint64_t offset, requested, rounded;
    uint32_t segment;
    uint32_t spare; /* the next unused one, when this one is unused */
    uint8_t tag;
} request;

typedef struct slot_state {
    uint64_t bytes; /* blocks end at or before this */
    uint32_t spare; /* as above */
    bool growable;  /* pages were mapped or unmapped: blocks may lie anywhere */
} slot_state;

/* The use of an array: entries so far, room for, first of the unused ones (ABSENT: none). */
typedef struct usage {
    uint32_t count, room, spare;
} usage;

typedef struct reader {
    const char *path;
    mt_input *in;
    char buffer[2 * MT_TRACE_LINE];
    size_t at, end;  /* what is not yet cut into lines */
    bool all_read;   /* the file has no more than that */
    uint64_t number; /* of the line, from 1 */
    bool named, times;
    mt_listener listener;
    void (*header)(void *context, const char *line);
    void *context;
    uint64_t seq, last_ns;
    int64_t step;
    map slot_of, request_of;
    usage slots, requests;
    slot_state *slot; /* [slots.room] */
    request *request; /* [requests.room] */
    mt_ledger ledger;
    mt_error *err;
} reader;

/* Refuses the line; the rest of the arguments are as of printf. */
#define refuse(r, format, ...)                                                                     \
    mt_fail((r)->err, MT_BAD, "%s, line %" PRIu64 ": " format, (r)->path, (r)->number, __VA_ARGS__)

static mt_status no_memory(reader *r) {
    return mt_fail(r->err, MT_FAILED, "%s: not enough memory to read it", r->path);
}

/* The place of key, or the empty one where it would stand. There is always an empty one. */
static size_t place_of(const map *m, uint64_t key) {
    size_t mask = m->places - 1;
    size_t i = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & mask;
    while (m->entry[i].value != ABSENT && m->entry[i].key != key)
        i = (i + 1) & mask;
    return i;
}

static uint32_t map_get(const map *m, uint64_t key) {
    return m->places == 0 ? ABSENT : m->entry[place_of(m, key)].value;
}

static bool map_grow(map *m) {
    map bigger = { NULL, m->places == 0 ? 64 : 2 * m->places, m->used };
    bigger.entry = malloc(bigger.places * sizeof *bigger.entry);
    if (bigger.entry == NULL)
        return false;
    for (size_t i = 0; i < bigger.places; i++)
        bigger.entry[i].value = ABSENT;
    for (size_t i = 0; i < m->places; i++)
        if (m->entry[i].value != ABSENT)
            bigger.entry[place_of(&bigger, m->entry[i].key)] = m->entry[i];
    free(m->entry);
    *m = bigger;
    return true;
}

/* Sets or replaces; false when there is no memory. */
static bool map_set(map *m, uint64_t key, uint32_t value) {
    if (2 * m->used >= m->places && !map_grow(m))
        return false;
    entry *e = &m->entry[place_of(m, key)];
    m->used += e->value == ABSENT;
    *e = (entry){ key, value };
    return true;
}

/* Removes a key that is there: later entries of the same run are put in again. */
static void map_remove(map *m, uint64_t key) {
    size_t mask = m->places - 1, i = place_of(m, key);
    m->entry[i].value = ABSENT;
    m->used--;
    for (i = (i + 1) & mask; m->entry[i].value != ABSENT; i = (i + 1) & mask) {
        entry moved = m->entry[i];
        m->entry[i].value = ABSENT;
        m->entry[place_of(m, moved.key)] = moved;
    }
}

/* Makes room for one more entry; false when there is no memory. */
static bool make_room(usage *u, void **array, size_t size) {
    if (u->count < u->room)
        return true;
    uint32_t room = u->room == 0 ? 64 : 2 * u->room;
    void *grown = room < FREED ? realloc(*array, room * size) : NULL;
    if (grown == NULL)
        return false;
    *array = grown;
    u->room = room;
    return true;
}

/* An unused entry, the one given back last if any; ABSENT when there is no memory. */
static uint32_t take_slot(reader *r) {
    uint32_t taken = r->slots.spare;
    if (taken != ABSENT) {
        r->slots.spare = r->slot[taken].spare;
        return taken;
    }
    void *array = r->slot;
    bool room = make_room(&r->slots, &array, sizeof *r->slot);
    r->slot = array;
    return room ? r->slots.count++ : ABSENT;
}

static uint32_t take_request(reader *r) {
    uint32_t taken = r->requests.spare;
    if (taken != ABSENT) {
        r->requests.spare = r->request[taken].spare;
        return taken;
    }
    void *array = r->request;
    bool room = make_room(&r->requests, &array, sizeof *r->request);
    r->request = array;
    return room ? r->requests.count++ : ABSENT;
}

/* ---------------------------------------------------------------- reading: words */

enum {
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
    WORDS
};

static const char *const column_names[WORDS] = {
    "seq",       "kind",    "step", "stream", "id",   "segment", "offset",
    "requested", "rounded", "tag",  "layer",  "pool", "ns",
};

/* Text of unknown origin as it may be shown in a message: short and printable. */
static const char *shown(const char *text, size_t length, char buffer[static 28]) {
    size_t n = length < 24 ? length : 24;
    for (size_t i = 0; i < n; i++)
        buffer[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    strcpy(buffer + n, length > n ? "..." : "");
    return buffer;
}

static mt_status refuse_word(reader *r, int column, const char *word, const char *expected) {
    char buffer[28];
    return refuse(r, "%s is '%s', expected %s", column_names[column],
                  shown(word, strlen(word), buffer), expected);
}

/* Reads decimal digits that fill the word, without leading zeros. 19 of them always fit. */
static bool whole(const char *word, uint64_t most, uint64_t *value) {
    uint64_t n = 0;
    unsigned digit;
    int i = 0;
    for (; (digit = (unsigned char)word[i] - (unsigned)'0') <= 9; i++) {
        if (i < 19)
            n = n * 10 + digit;
        else if (!mt_mul(n, 10, &n) || !mt_add(n, digit, &n))
            return false;
    }
    *value = n;
    return i > 0 && word[i] == '\0' && n <= most && (i == 1 || word[0] != '0');
}

static mt_status number(reader *r, char **word, int column, uint64_t most, uint64_t *value) {
    char expected[64];
    if (whole(word[column], most, value))
        return MT_OK;
    snprintf(expected, sizeof expected, "a whole number up to %" PRIu64, most);
    return refuse_word(r, column, word[column], expected);
}

static mt_status number32(reader *r, char **word, int column, uint32_t *value) {
    uint64_t n = 0;
    MT_TRY(number(r, word, column, ABSENT - 1, &n));
    *value = (uint32_t)n;
    return MT_OK;
}

/* -1, or a whole number. */
static mt_status signed32(reader *r, char **word, int column, int32_t *value) {
    uint64_t n = 0;
    *value = -1;
    if (strcmp(word[column], "-1") == 0)
        return MT_OK;
    if (!whole(word[column], INT32_MAX, &n))
        return refuse_word(r, column, word[column], "-1 or a whole number up to 2147483647");
    *value = (int32_t)n;
    return MT_OK;
}

static mt_status dash(reader *r, char **word, int column) {
    if (strcmp(word[column], "-") == 0)
        return MT_OK;
    return refuse_word(r, column, word[column], "- for this kind of event");
}

/* Name i of those that a column may have; NULL after the last. */
static const char *known_name(int column, int i) {
    switch (column) {
    case KIND:
        return i < MT_EVENTS ? mt_event_kind_name((mt_event_kind)i) : NULL;
    case TAG:
        return i < MT_TAGS ? mt_tag_name((mt_tag)i) : NULL;
    default:
        return i < MT_POOLS ? mt_pool_name((mt_pool)i) : NULL;
    }
}

static mt_status name(reader *r, char **word, int column, uint8_t *value) {
    char expected[256] = "one of";
    const char *known;
    for (int i = 0; (known = known_name(column, i)) != NULL; i++) {
        if (known[0] == word[column][0] && strcmp(known, word[column]) == 0) {
            *value = (uint8_t)i;
            return MT_OK;
        }
    }
    for (int i = 0; (known = known_name(column, i)) != NULL; i++) {
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, " %s", known);
    }
    return refuse_word(r, column, word[column], expected);
}

/* The columns that only some kinds of event have; the event is all zero there before. */
static mt_status parse_place(reader *r, char **word, mt_event *e) {
    bool mark = e->kind == MT_EV_MARK, nowhere = mark || e->kind == MT_EV_OOM;
    bool caused = e->kind == MT_EV_ALLOC || e->kind == MT_EV_FREE;
    e->id = MT_NO_ID;
    e->tag = MT_OTHER;
    if (mark)
        MT_TRY(dash(r, word, ID));
    else if (caused || strcmp(word[ID], "-") != 0)
        MT_TRY(number(r, word, ID, MT_NO_ID - 1, &e->id));
    MT_TRY(nowhere ? dash(r, word, SEGMENT) : number32(r, word, SEGMENT, &e->segment));
    MT_TRY(mark ? dash(r, word, TAG) : name(r, word, TAG, &e->tag));
    MT_TRY(nowhere ? dash(r, word, POOL) : name(r, word, POOL, &e->pool));
    return MT_OK;
}

static mt_status parse_event(reader *r, char **word, mt_event *e) {
    memset(e, 0, sizeof *e);
    MT_TRY(number(r, word, SEQ, UINT64_MAX, &e->seq));
    MT_TRY(name(r, word, KIND, &e->kind));
    MT_TRY(signed32(r, word, STEP, &e->step));
    MT_TRY(number32(r, word, STREAM, &e->stream));
    MT_TRY(parse_place(r, word, e));
    MT_TRY(number(r, word, OFFSET, UINT64_MAX, &e->offset));
    MT_TRY(number(r, word, REQUESTED, UINT64_MAX, &e->requested));
    MT_TRY(number(r, word, ROUNDED, UINT64_MAX, &e->rounded));
    MT_TRY(signed32(r, word, LAYER, &e->layer));
    if (r->times)
        MT_TRY(number(r, word, NS, UINT64_MAX, &e->time_ns));
    return MT_OK;
}

/* ---------------------------------------------------------------- reading: what can follow */

static mt_status check_order(reader *r, const mt_event *e) {
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

/* Gives the event its slot: a new one when it begins a segment. */
static mt_status find_slot(reader *r, mt_event *e) {
    bool begins = e->kind == MT_EV_SEGMENT_ALLOC;
    e->slot = map_get(&r->slot_of, e->segment);
    if (begins && e->slot != ABSENT)
        return refuse(r, "segment %" PRIu32 " is held already", e->segment);
    if (e->slot != ABSENT)
        return MT_OK;
    if (!begins && e->kind != MT_EV_SEGMENT_MAP)
        return refuse(r, "segment %" PRIu32 " is not held", e->segment);
    e->slot = take_slot(r);
    if (e->slot == ABSENT || !map_set(&r->slot_of, e->segment, e->slot))
        return no_memory(r);
    r->slot[e->slot] = (slot_state){ e->rounded, ABSENT, !begins };
    return MT_OK;
}

static void drop_slot(reader *r, const mt_event *e) {
    map_remove(&r->slot_of, e->segment);
    r->slot[e->slot].spare = r->slots.spare;
    r->slots.spare = e->slot;
}

static mt_status check_alloc(reader *r, const mt_event *e) {
    const slot_state *s = &r->slot[e->slot];
    if (map_get(&r->request_of, e->id) != ABSENT)
        return refuse(r, "id %" PRIu64 " is that of an earlier alloc", e->id);
    if (!s->growable && (e->rounded > s->bytes || e->offset > s->bytes - e->rounded))
        return refuse(r, "the block ends at %" PRIu64 " + %" PRIu64 ", its segment at %" PRIu64,
                      e->offset, e->rounded, s->bytes);
    uint32_t taken = take_request(r);
    if (taken == ABSENT || !map_set(&r->request_of, e->id, taken))
        return no_memory(r);
    r->request[taken] =
        (request){ e->offset, e->requested, e->rounded, e->segment, ABSENT, e->tag };
    return MT_OK;
}

/* A free must say what the alloc of the same id said. */
static mt_status check_free(reader *r, const mt_event *e) {
    uint32_t taken = map_get(&r->request_of, e->id);
    if (taken == ABSENT)
        return refuse(r, "id %" PRIu64 " was never allocated", e->id);
    if (taken == FREED)
        return refuse(r, "id %" PRIu64 " is freed already", e->id);
    request *q = &r->request[taken];
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
    q->spare = r->requests.spare;
    r->requests.spare = taken;
    return map_set(&r->request_of, e->id, FREED) ? MT_OK : no_memory(r);
}

/* Checks that no sum of bytes can overflow, then asks the ledger. */
static mt_status check_ledger(reader *r, const mt_event *e) {
    mt_error why = { MT_OK, "" };
    bool adds = e->kind == MT_EV_SEGMENT_ALLOC || e->kind == MT_EV_SEGMENT_MAP;
    if (e->kind < MT_EV_OOM && e->rounded == 0)
        return refuse(r, "rounded is 0, expected %s", "at least 1");
    if (adds && e->rounded > (uint64_t)INT64_MAX - r->ledger.reserved.current)
        return refuse(r, "more than 2^63 bytes are reserved with these %" PRIu64, e->rounded);
    mt_status status = mt_ledger_apply(&r->ledger, e, &why);
    if (status == MT_OK)
        return MT_OK;
    return status == MT_CHECK ? refuse(r, "%s", why.text)
                              : mt_fail(r->err, status, "%s: %s", r->path, why.text);
}

/* Takes one event: refused, or passed on to the listener. */
static mt_status take_event(reader *r, mt_event *e) {
    bool placed = e->kind < MT_EV_OOM;
    bool unmaps = e->kind == MT_EV_SEGMENT_UNMAP;
    MT_TRY(check_order(r, e));
    if (placed)
        MT_TRY(find_slot(r, e));
    if (unmaps || e->kind == MT_EV_SEGMENT_MAP)
        r->slot[e->slot].growable = true;
    if (e->kind == MT_EV_ALLOC)
        MT_TRY(check_alloc(r, e));
    if (e->kind == MT_EV_FREE)
        MT_TRY(check_free(r, e));
    MT_TRY(check_ledger(r, e));
    r->listener.on_event(r->listener.context, e);
    bool ends = e->kind == MT_EV_SEGMENT_FREE;
    if (ends || (unmaps && r->ledger.segment[e->slot].reserved == 0))
        drop_slot(r, e);
    return MT_OK;
}

/* ---------------------------------------------------------------- reading: lines */

/* Appends to the buffer what the file has next. */
static mt_status read_more(reader *r) {
    size_t n;
    memmove(r->buffer, r->buffer + r->at, r->end - r->at);
    r->end -= r->at;
    r->at = 0;
    MT_TRY(mt_input_some(r->in, r->buffer + r->end, sizeof r->buffer - r->end, &n, r->err));
    r->end += n;
    r->all_read = n == 0;
    return MT_OK;
}

/* Cuts the next line off, a string without its newline; NULL at the end. */
static mt_status next_line(reader *r, char **line) {
    char *newline;
    *line = NULL;
    r->number++;
    while ((newline = memchr(r->buffer + r->at, '\n', r->end - r->at)) == NULL && !r->all_read &&
           r->end - r->at < MT_TRACE_LINE)
        MT_TRY(read_more(r));
    if (newline == NULL && r->end == r->at)
        return MT_OK;
    char *start = r->buffer + r->at;
    size_t length = newline == NULL ? r->end - r->at : (size_t)(newline - start);
    if (length >= MT_TRACE_LINE)
        return refuse(r, "a line of %zu characters or more", MT_TRACE_LINE);
    if (memchr(start, '\0', length) != NULL)
        return refuse(r, "a zero byte, expected %s", "text");
    if (newline == NULL)
        return refuse(r, "the file ends inside a line, expected %s", "a newline at its end");
    *newline = '\0';
    r->at += length + 1;
    *line = start;
    return MT_OK;
}

/* What a file that is no trace looks like by its first bytes. */
static const char *looks_like(const char *data, size_t n) {
    static const struct {
        const char *begins, *what;
    } known[] = {
        { "# memtrace trace ", "a trace of another version" },
        { "# memtrace", "another output of memtrace" },
        { "\x80", "a Python pickle" },
        { "PK\x03\x04", "a zip archive" },
        { "SQLite format 3", "an SQLite database" },
        { "\x7f"
          "ELF",
          "a program" },
        { "{", "JSON" },
        { "[", "JSON" },
        { "<", "HTML or XML" },
        { "Thread,Time,Action", "an RMM log" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= strlen(known[i].begins) &&
            memcmp(data, known[i].begins, strlen(known[i].begins)) == 0)
            return known[i].what;
    return n == 0 ? "an empty file" : "something else";
}

static mt_status first_line(reader *r) {
    const size_t length = strlen(FIRST_LINE);
    char buffer[28];
    while (r->end < length && !r->all_read)
        MT_TRY(read_more(r));
    r->number = 1;
    if (r->end < length || memcmp(r->buffer, FIRST_LINE, length) != 0)
        return refuse(r, "no memtrace trace: '%s' looks like %s, expected '%.*s'",
                      shown(r->buffer, r->end, buffer), looks_like(r->buffer, r->end),
                      (int)length - 1, FIRST_LINE);
    r->at = length;
    return MT_OK;
}

/* A line that begins with #. */
static mt_status comment(reader *r, const char *line) {
    const char *text = line + 1 + (line[1] == ' ');
    bool plain = strcmp(text, COLUMNS) == 0, timed = strcmp(text, COLUMNS TIMES) == 0;
    if (plain || timed) {
        if (r->named)
            return refuse(r, "the columns are named %s", "twice");
        r->named = true;
        r->times = timed;
    } else if (strncmp(text, "seq ", 4) == 0) {
        return refuse(r, "other columns than '%s' and perhaps '%s'", COLUMNS, &TIMES[1]);
    } else if (r->header != NULL) {
        r->header(r->context, text);
    }
    return MT_OK;
}

/* Cuts the line at its blanks into words; returns how many there are, even when more than fit. */
static int cut(char *line, char **word) {
    int n = 1;
    word[0] = line;
    for (char *at = line; *at != '\0'; at++) {
        if (*at != ' ')
            continue;
        *at = '\0';
        if (n < WORDS)
            word[n] = at + 1;
        n++;
    }
    return n;
}

static mt_status event_line(reader *r, char *line) {
    char *word[WORDS];
    mt_event e;
    if (!r->named)
        return refuse(r, "an event before the line '# %s'", COLUMNS);
    int words = cut(line, word), expected = r->times ? WORDS : WORDS - 1;
    if (words != expected)
        return refuse(r, "%d columns, expected %d with one blank between them", words, expected);
    MT_TRY(parse_event(r, word, &e));
    return take_event(r, &e);
}

static mt_status read_lines(reader *r) {
    char *line;
    MT_TRY(first_line(r));
    for (;;) {
        MT_TRY(next_line(r, &line));
        if (line == NULL)
            break;
        MT_TRY(line[0] == '#' ? comment(r, line) : event_line(r, line));
    }
    return r->named ? MT_OK : refuse(r, "the file ends before the line '# %s'", COLUMNS);
}

static void free_reader(reader *r) {
    mt_input_close(r->in);
    mt_ledger_free(&r->ledger);
    free(r->slot_of.entry);
    free(r->request_of.entry);
    free(r->slot);
    free(r->request);
    free(r);
}

mt_status mt_trace_read(const char *path, mt_listener listener,
                        void (*header)(void *context, const char *line), void *context,
                        mt_error *err) {
    reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return mt_fail(err, MT_FAILED, "%s: not enough memory to read it", path);
    r->path = path;
    r->listener = listener;
    r->header = header;
    r->context = context;
    r->err = err;
    r->step = -1;
    r->slots.spare = r->requests.spare = ABSENT;
    mt_ledger_init(&r->ledger);
    mt_status status = mt_input_open(&r->in, path, err);
    if (status == MT_OK)
        status = read_lines(r);
    free_reader(r);
    return status;
}
