/* read_rmm.c - RMM's log of what its logging adaptor was asked for:
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     1979932,14:21:19.998533,allocate,0x30a000000,256,0x2
 *
 * The first line names the columns, in this order or another, or is missing. Thread is the
 * operating system's number. Time is the wall clock with microseconds behind a point or a colon,
 * without a date, so that it starts again at midnight; or seconds since 1970. Action is allocate,
 * allocate failure, free or deallocate. Pointer is 0x and hexadecimal digits, (nil) where nothing
 * was allocated. Size is what the caller asked for, in a row of a free too. Stream is a handle: 0
 * the default, 0x1 the legacy default, 0x2 the default of the thread, else a pointer.
 *
 * What a pool behind the adaptor reserved is not in the file. A row of a free is written before the
 * free happens, one of a request after it, so that an address is never allocated twice. */
#include "traces/address_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "traces/columns.h"

enum { THREAD, TIME, ACTION, POINTER, SIZE, STREAM, COLUMNS };
#define MOST 16 /* columns of a row; those of other names are passed over */

#define SECOND UINT64_C(1000000000)
#define DAY    (86400 * SECOND)

static const char *const names[COLUMNS] = {
    "Thread", "Time", "Action", "Pointer", "Size", "Stream",
};

static const struct {
    const char *name;
    mt_item_kind kind;
    bool refused;
} actions[] = {
    { "allocate", MT_ITEM_ALLOC, false },
    { "allocate failure", MT_ITEM_ALLOC, true },
    { "free", MT_ITEM_FREE, false },
    { "deallocate", MT_ITEM_FREE, false },
};

typedef struct rmm {
    mt_address_log log;
    int columns;          /* of a row; 0: not known yet */
    int at[COLUMNS];      /* where each stands */
    bool timed;           /* a time was read */
    uint64_t first, days; /* the first time; days since then, in ns */
    uint64_t last;        /* the last time as it stands there */
} rmm;

/* ---- detection ------------------------------------------------------------------------------- */

static bool begins(const char *at, const char *end, const char *text) {
    size_t n = strlen(text);
    return (size_t)(end - at) >= n && memcmp(at, text, n) == 0;
}

/* A header that names Action and Pointer, or digits, a comma, a time and an action. */
static bool detect(const char *data, size_t n) {
    const char *end = memchr(data, '\n', n), *comma;
    end = end != NULL ? end : data + n;
    comma = memchr(data, ',', (size_t)(end - data));
    if (comma == NULL)
        return false;
    if (memmem(data, (size_t)(end - data), "Action", 6) != NULL &&
        memmem(data, (size_t)(end - data), "Pointer", 7) != NULL)
        return true;
    comma = memchr(comma + 1, ',', (size_t)(end - comma - 1));
    return *data >= '0' && *data <= '9' && comma != NULL &&
           (begins(comma, end, ",allocate") || begins(comma, end, ",free,") ||
            begins(comma, end, ",deallocate,"));
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The header, or the order of columns without one. False when a column is missing. */
static bool find_columns(rmm *x, char **column, int n, bool header) {
    x->columns = n;
    for (int i = 0; i < COLUMNS; i++) {
        x->at[i] = header ? -1 : i;
        for (int j = 0; header && j < n && j < MOST; j++)
            if (strcmp(column[j], names[i]) == 0)
                x->at[i] = j;
        if (x->at[i] < 0 || x->at[i] >= n)
            return false;
    }
    return true;
}

/* Up to nine digits behind a point or colon, in ns. */
static uint64_t fraction(const char **at) {
    uint64_t ns = 0, unit = SECOND;
    for (++*at; **at >= '0' && **at <= '9'; ++*at)
        if ((unit /= 10) > 0)
            ns += (uint64_t)(**at - '0') * unit;
    return ns;
}

/* A time in ns: of the day, or since 1970 (*date). */
static bool read_time(const char *at, uint64_t *ns, bool *date) {
    uint64_t part[3];
    int n = 0;
    do
        if (!mt_digits(&at, &part[n++]))
            return false;
    while (n < 3 && *at == ':' && at++ != NULL);
    *date = n == 1;
    if (n == 2 || (n == 3 && (part[0] > 23 || part[1] > 59 || part[2] > 60)) || part[0] >> 33 != 0)
        return false;
    *ns = (*date ? part[0] : part[0] * 3600 + part[1] * 60 + part[2]) * SECOND;
    if (*at == '.' || (*at == ':' && !*date))
        *ns += fraction(&at);
    return *at == '\0';
}

/* Time since the first one, midnights included. */
static bool tell_time(rmm *x, const char *text, mt_item *item) {
    uint64_t ns;
    bool date;
    if (!read_time(text, &ns, &date))
        return false;
    if (!x->timed)
        x->first = ns;
    else if (!date && ns + DAY / 2 < x->last)
        x->days += DAY;
    x->timed = true;
    x->last = ns;
    item->time_ns = ns + x->days > x->first ? ns + x->days - x->first : 0;
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static mt_status bad_column(const rmm *x, int i, char **column, const char *expected,
                            mt_error *err) {
    return mt_reader_bad(&x->log.base, err, "%s is '%.40s', expected %s", names[i],
                         column[x->at[i]], expected);
}

static mt_status row(rmm *x, char **column, mt_item *item, mt_error *err) {
    uint64_t address, handle;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(column[x->at[ACTION]], actions[i].name) == 0) {
            item->kind = actions[i].kind;
            item->refused = actions[i].refused;
        }
    if (item->kind == MT_ITEM_END)
        return bad_column(x, ACTION, column, "allocate, allocate failure or free", err);
    if (!mt_column32(column[x->at[THREAD]], &item->thread))
        return bad_column(x, THREAD, column, "the number of a thread", err);
    if (!tell_time(x, column[x->at[TIME]], item))
        return bad_column(x, TIME, column, "HH:MM:SS.ffffff", err);
    if (!mt_column_pointer(column[x->at[POINTER]], &address))
        return bad_column(x, POINTER, column, "an address such as 0x30a000000", err);
    if (!mt_column(column[x->at[SIZE]], &item->bytes))
        return bad_column(x, SIZE, column, "a number of bytes", err);
    if (!mt_column_pointer(column[x->at[STREAM]], &handle))
        return bad_column(x, STREAM, column, "a stream such as 0 or 0x2", err);
    return mt_log_row(&x->log, address, handle, item, err);
}

static mt_status read_line(rmm *x, char *line, mt_item *item, mt_error *err) {
    char *column[MOST];
    size_t length = strlen(line);
    if (length > 0 && line[length - 1] == '\r')
        line[length - 1] = '\0';
    if (*line == '\0')
        return MT_OK;
    int n = mt_cut(line, ',', column, MOST);
    bool header = *line < '0' || *line > '9';
    if ((x->columns == 0 || header) && (n > MOST || !find_columns(x, column, n, header)))
        return mt_reader_bad(&x->log.base, err,
                             "expected the columns Thread,Time,Action,Pointer,Size,Stream");
    if (n != x->columns)
        return mt_reader_bad(&x->log.base, err, "%d columns, expected %d", n, x->columns);
    return header ? MT_OK : row(x, column, item, err);
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    rmm *x = (rmm *)r;
    char *line;
    if (mt_log_owed(&x->log, item))
        return MT_OK;
    do {
        MT_TRY(mt_reader_line(r, &line, err));
        if (line != NULL)
            MT_TRY(read_line(x, line, item, err));
    } while (line != NULL && item->kind == MT_ITEM_END);
    return MT_OK;
}

const mt_format mt_format_rmm = {
    .word = "rmm",
    .name = "an RMM log",
    .tells = MT_TELLS_CONTEXT | MT_TELLS_REQUESTED | MT_TELLS_FREES | MT_TELLS_STREAMS,
    .detect = detect,
    .size = sizeof(rmm),
    .next = next,
    .close = mt_log_close,
};
