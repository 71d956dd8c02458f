/* read_recording.c - recordings of PyTorch's allocator: every operation of a scripted run, the
 * place it got, the counters after it, the driver calls it made.
 *
 *     # torch VERSION ...          the release; other notes: "# options O", "# device_bytes N",
 *     # ...                        "# fraction F", "# addresses up|down|reuse"; - is none
 *     OP ID BYTES STREAM [SEGMENT OFFSET BLOCK REQUESTED ALLOCATED ACTIVE RESERVED INACTIVE_SPLIT
 *                         SEGMENTS CALLS]
 *     snap N                       N rows follow, every block of the device in order:
 *     @ SEGMENT OFFSET SIZE REQUESTED STATE POOL STREAM
 *     ! KEY VALUE                  a value of torch.cuda.memory_stats()
 *     ~ ACTION SEGMENT OFFSET SIZE an entry of the memory history; ~ oom DEVICE_FREE - SIZE
 *
 * Columns are separated by tabs (a line without any: by blanks), in lines of ! and ~ by blanks. OP
 * is a, f, rs (record_stream), ec (empty_cache), hold or go (from here on no event finishes; all
 * do). Rows have 4 columns or all 14; SEGMENT is OOM in the row of a refused request. A free of a
 * refused request is left out. */
#include "traces/reader.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "alloc/torch/torch.h"
#include "base/size.h"
#include "traces/columns.h"

#define COUNTERS 6

enum {
    OP,
    ID,
    BYTES,
    STREAM,
    SHORT_ROW,
    SEGMENT = SHORT_ROW,
    OFFSET,
    BLOCK,
    COUNTER,
    CALLS = COUNTER + COUNTERS,
    ROW
};

#define AT(name, part)                                                                             \
    { name, offsetof(mt_torch_stats, pool[0][part].current) }
static const mt_counter counters[COUNTERS] = {
    AT("requested", MT_TORCH_requested_bytes),
    AT("allocated", MT_TORCH_allocated_bytes),
    AT("active", MT_TORCH_active_bytes),
    AT("reserved", MT_TORCH_reserved_bytes),
    AT("inactive_split", MT_TORCH_inactive_split_bytes),
    AT("segments", MT_TORCH_segment),
};

typedef struct recording {
    mt_reader base;
    int columns;     /* of the first row; 0 before it */
    uint64_t blocks; /* of a snapshot, still to come */
    mt_calls calls;
    uint64_t count[COUNTERS];
} recording;

static bool detect(const char *data, size_t n) {
    static const char first[] = "# torch ";
    return n >= sizeof first - 1 && memcmp(data, first, sizeof first - 1) == 0;
}

/* ---- header ---------------------------------------------------------------------------------- */

/* What follows the name in a line "# NAME VALUE"; NULL for another line. */
static const char *value_of(const char *line, const char *name) {
    size_t n = strlen(name);
    return strncmp(line, "# ", 2) == 0 && strncmp(line + 2, name, n) == 0 && line[2 + n] == ' '
               ? line + 3 + n
               : NULL;
}

static mt_status header(mt_reader *r, const char *line, mt_error *err) {
    static const struct {
        const char *name, *key, *stop;
    } option[] = {
        { "torch", "version:", " +" },
        { "options", "", "" },
        { "fraction", "set_per_process_memory_fraction:", " " },
        { "addresses", "addresses:", " " },
    };
    const char *value;
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        if ((value = value_of(line, option[i].name)) != NULL)
            return mt_reader_option(r, option[i].key, value, option[i].stop, err);
    value = value_of(line, "device_bytes");
    return value != NULL ? mt_reader_capacity(r, value, err) : MT_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

static bool signed_number(const char *text, int64_t *value) {
    uint64_t n;
    bool minus = *text == '-';
    if (!mt_column(text + minus, &n) || n > INT64_MAX)
        return false;
    *value = minus ? -(int64_t)n : (int64_t)n;
    return true;
}

static mt_status bad_column(const mt_reader *r, const char *name, const char *found,
                            const char *expected, mt_error *err) {
    return mt_reader_bad(r, err, "%s is '%.40s', expected %s", name, found, expected);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    mt_item_kind kind;
} operations[] = {
    { "a", MT_ITEM_ALLOC }, { "f", MT_ITEM_FREE },    { "rs", MT_ITEM_USE },
    { "ec", MT_ITEM_TRIM }, { "hold", MT_ITEM_HOLD }, { "go", MT_ITEM_GO },
};

/* The first four columns: what the program did. */
static mt_status operation(recording *x, char **column, mt_item *item, mt_error *err) {
    mt_reader *r = &x->base;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(column[OP], operations[i].name) == 0)
            item->kind = operations[i].kind;
    if (item->kind == MT_ITEM_END)
        return bad_column(r, "op", column[OP], "a, f, rs, ec, hold, go or snap", err);
    bool alloc = item->kind == MT_ITEM_ALLOC, use = item->kind == MT_ITEM_USE;
    if ((alloc || use || item->kind == MT_ITEM_FREE) && !mt_column(column[ID], &item->id))
        return bad_column(r, "id", column[ID], "the number of an allocation", err);
    if (alloc && (!mt_column(column[BYTES], &item->bytes) || item->bytes == 0))
        return bad_column(r, "bytes", column[BYTES], "a number of bytes", err);
    if ((alloc || use) && !mt_column32(column[STREAM], &item->stream))
        return bad_column(r, "stream", column[STREAM], "the number of a stream", err);
    if (alloc)
        return mt_reader_request(r, item, err);
    if (use)
        item->live = mt_numbers_find(&r->live, item->id);
    if (item->kind == MT_ITEM_FREE)
        mt_reader_release(r, item);
    return MT_OK;
}

/* Where the block of a request lies. */
static mt_status place(recording *x, char **column, mt_item *item, mt_error *err) {
    item->has |= MT_HAS_PLACE | MT_HAS_ROUNDED;
    item->refused = strcmp(column[SEGMENT], "OOM") == 0;
    if (item->refused ||
        (mt_column32(column[SEGMENT], &item->segment) && mt_column(column[OFFSET], &item->offset) &&
         mt_column(column[BLOCK], &item->rounded)))
        return MT_OK;
    return mt_reader_bad(&x->base, err, "segment, offset, block: expected numbers, or OOM");
}

/* Space-separated driver calls; - is none. */
static mt_status calls(recording *x, const char *text, mt_item *item, mt_error *err) {
    const char *at = text;
    mt_call call;
    x->calls.count = 0;
    item->has |= MT_HAS_CALLS;
    item->calls = &x->calls;
    if (strcmp(text, "-") == 0)
        return MT_OK;
    for (;; at++) {
        if (!mt_call_read(&at, &call))
            return bad_column(&x->base, "driver", text, "driver calls such as M2097152", err);
        if (!mt_calls_add(&x->calls, call))
            return mt_no_memory(err, "the driver calls of a recording");
        if (*at != ' ')
            break;
    }
    return *at == '\0' ? MT_OK
                       : bad_column(&x->base, "driver", at, "a space between driver calls", err);
}

static mt_status row(recording *x, char **column, mt_item *item, mt_error *err) {
    MT_TRY(operation(x, column, item, err));
    if (x->columns == SHORT_ROW)
        return MT_OK;
    if (item->kind == MT_ITEM_ALLOC)
        MT_TRY(place(x, column, item, err));
    for (int i = 0; i < COUNTERS; i++)
        if (!mt_column(column[COUNTER + i], &x->count[i]))
            return bad_column(&x->base, counters[i].name, column[COUNTER + i], "a number", err);
    item->has |= MT_HAS_COUNTERS;
    item->counter = counters;
    item->count = x->count;
    item->counters = COUNTERS;
    return calls(x, column[CALLS], item, err);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static mt_status snapshot(recording *x, const char *count, mt_item *item, mt_error *err) {
    item->kind = MT_ITEM_SNAPSHOT;
    if (!mt_column(count, &x->blocks))
        return bad_column(&x->base, "snap", count, "the number of blocks", err);
    item->bytes = x->blocks;
    return MT_OK;
}

static mt_status block(recording *x, char **column, int n, mt_item *item, mt_error *err) {
    item->kind = MT_ITEM_BLOCK;
    if (n != 8 || !mt_column32(column[1], &item->segment) || !mt_column(column[2], &item->offset) ||
        !mt_column(column[3], &item->rounded) || !mt_column(column[4], &item->bytes) ||
        !mt_column32(column[7], &item->stream))
        return mt_reader_bad(&x->base, err,
                             "expected @ SEGMENT OFFSET SIZE REQUESTED STATE POOL STREAM");
    if (x->blocks == 0)
        return mt_reader_bad(&x->base, err, "more rows of blocks than snap said");
    x->blocks--;
    item->state = column[5];
    item->pool = column[6];
    return MT_OK;
}

static mt_status statistic(recording *x, char *line, mt_item *item, mt_error *err) {
    char *column[3];
    item->kind = MT_ITEM_STATISTIC;
    if (mt_cut(line, ' ', column, 3) != 3 || !signed_number(column[2], &item->value))
        return mt_reader_bad(&x->base, err, "expected ! KEY VALUE");
    item->text = column[1];
    return MT_OK;
}

static mt_status history(recording *x, char *line, mt_item *item, mt_error *err) {
    char *column[5];
    mt_history *h = &item->history;
    item->kind = MT_ITEM_HISTORY;
    *h = (mt_history){ 0 };
    int n = mt_cut(line, ' ', column, 5);
    while (n == 5 && h->action < MT_ACTIONS &&
           strcmp(column[1], mt_action_name((mt_action)h->action)) != 0)
        h->action++;
    bool oom = h->action == MT_ACTION_OOM;
    if (n != 5 || h->action == MT_ACTIONS || !mt_column(column[oom ? 2 : 3], &h->offset) ||
        !mt_column(column[4], &h->bytes) ||
        (oom ? strcmp(column[3], "-") != 0 : !mt_column32(column[2], &h->segment)))
        return mt_reader_bad(&x->base, err,
                             "expected ~ ACTION SEGMENT OFFSET SIZE or ~ oom FREE - SIZE");
    return MT_OK;
}

static mt_status read_columns(recording *x, char *line, mt_item *item, mt_error *err) {
    char *column[ROW];
    int n = mt_cut(line, strchr(line, '\t') != NULL ? '\t' : ' ', column, ROW);
    if (*column[0] == '@')
        return block(x, column, n, item, err);
    if (strcmp(column[0], "snap") == 0)
        return snapshot(x, n > 1 ? column[1] : "", item, err);
    if (x->columns == 0 && (n == SHORT_ROW || n == ROW))
        x->columns = n;
    if (n != x->columns)
        return mt_reader_bad(&x->base, err, "%d columns, expected %s", n,
                             x->columns == SHORT_ROW ? "4 as before"
                             : x->columns == ROW     ? "14 as before"
                                                     : "4 or 14");
    return row(x, column, item, err);
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    recording *x = (recording *)r;
    char *line;
    do
        MT_TRY(mt_reader_line(r, &line, err));
    while (line != NULL && *line == '\0');
    if (x->blocks > 0 && (line == NULL || *line != '@'))
        return mt_reader_bad(r, err, "%" PRIu64 " rows of blocks (@) are missing", x->blocks);
    if (line == NULL)
        return MT_OK;
    switch (*line) {
    case '#':
        item->kind = MT_ITEM_NOTE;
        item->text = line + 1 + (line[1] == ' ');
        return header(r, line, err);
    case '!':
        return statistic(x, line, item, err);
    case '~':
        return history(x, line, item, err);
    default:
        return read_columns(x, line, item, err);
    }
}

static void close_recording(mt_reader *r) {
    mt_array_free(&((recording *)r)->calls);
}

const mt_format mt_format_recording = {
    .word = "recording",
    .name = "a recording of PyTorch's allocator",
    .tells = MT_TELLS_SETTINGS | MT_TELLS_PLACES | MT_TELLS_CALLS | MT_TELLS_COUNTERS |
             MT_TELLS_SNAPSHOTS | MT_TELLS_HISTORY | MT_TELLS_MOST,
    .calls = "MFRAPUXx",
    .detect = detect,
    .size = sizeof(recording),
    .next = next,
    .close = close_recording,
};
