/* read_chrome.c - PyTorch's profiler: memory events among those of a Chrome trace.
 *
 *     {"traceEvents": [{"ph": "i", "name": "[memory]", "ts": 5236957656833.914, "args": {
 *       "Device Type": 1, "Device Id": 0, "Addr": 122491525660672, "Bytes": 400384,
 *       "Total Allocated": 400384, "Total Reserved": 2097152}}, ...], ...}
 *
 * or the array of events alone; keys in any order, all others and all other events passed over. ts
 * is in microseconds. Device Type is 0 for host memory, else a device's. Bytes are those of the
 * block that the allocator gave (PyTorch rounds requests up to 512), negative for a free. The
 * totals are the allocator's after it. "[OutOfMemory]" is a request that was refused. Profiles of
 * 2021 have no Addr: what of them can be told are the totals, as statistics.
 *
 * Threads record by themselves, so events stand in order of time only within one: all of them are
 * kept, 72 bytes each, and sorted. An address that is requested while it is live was freed, by an
 * event that came later or not at all. */
#include "traces/reader.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/torch/torch.h"
#include "base/json_scan.h"

#define HOST UINT32_MAX /* the space of host addresses */

typedef struct event {
    int64_t ns, bytes;
    uint64_t address, count[2];
    int64_t type, device;
    uint64_t line;
    uint32_t serial; /* in the order of the file */
    bool oom, sized, addressed, totals;
} event;

typedef struct chrome {
    mt_reader base;
    mt_numbers pages;
    MT_ARRAY(event) events;
    size_t at;
    int64_t total; /* of the events without an address */
    bool ready, owed;
    mt_scan scan;
} chrome;

#define AT(name, part)                                                                             \
    { name, offsetof(mt_torch_stats, pool[0][part].current) }
static const mt_counter counters[] = {
    AT("allocated", MT_TORCH_allocated_bytes),
    AT("reserved", MT_TORCH_reserved_bytes),
};

/* Blanks and a bracket, and soon behind it a key of such files. */
static bool detect(const char *data, size_t n) {
    static const char *const keys[] = { "\"traceEvents\"", "\"schemaVersion\"", "\"ph\"" };
    size_t i = 0;
    bool found = false;
    while (i < n && strchr(" \t\r\n", data[i]) != NULL && data[i] != '\0')
        i++;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        found = found || memmem(data, n, keys[k], strlen(keys[k])) != NULL;
    return found && i < n && (data[i] == '{' || data[i] == '[');
}

/* ---- events ---------------------------------------------------------------------------------- */

/* What a key of "args" says. */
static void argument(event *e, const char *key, const mt_scan *s) {
    static const struct {
        const char *key;
        size_t at, told;
    } fields[] = {
        { "Bytes", offsetof(event, bytes), offsetof(event, sized) },
        { "Addr", offsetof(event, address), offsetof(event, addressed) },
        { "Total Allocated", offsetof(event, count[0]), offsetof(event, totals) },
        { "Total Reserved", offsetof(event, count[1]), offsetof(event, totals) },
        { "Device Type", offsetof(event, type), 0 },
        { "Device Id", offsetof(event, device), 0 },
    };
    int64_t value;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(key, fields[i].key) == 0 && mt_scan_integer(s, &value)) {
            memcpy((char *)e + fields[i].at, &value, sizeof value);
            if (fields[i].told > 0)
                *((bool *)e + fields[i].told) = true;
        }
}

static mt_status arguments(mt_scan *s, event *e, mt_error *err) {
    char key[MT_SCAN_TEXT];
    mt_token t;
    for (;;) {
        MT_TRY(mt_scan_next(s, &t, err));
        if (t == MT_TOKEN_CLOSE)
            return MT_OK;
        memcpy(key, s->text, sizeof key);
        MT_TRY(mt_scan_next(s, &t, err));
        if (t == MT_TOKEN_NUMBER)
            argument(e, key, s);
        MT_TRY(mt_scan_skip(s, t, err));
    }
}

/* The rest of an event; *memory when it is one of memory. */
static mt_status read_event(mt_scan *s, event *e, bool *memory, mt_error *err) {
    mt_token t;
    *memory = false;
    *e = (event){ .line = s->lines + 1 };
    for (;;) {
        MT_TRY(mt_scan_next(s, &t, err));
        if (t == MT_TOKEN_CLOSE)
            return MT_OK;
        bool name = strcmp(s->text, "name") == 0, ts = strcmp(s->text, "ts") == 0,
             args = strcmp(s->text, "args") == 0;
        MT_TRY(mt_scan_next(s, &t, err));
        if (name && t == MT_TOKEN_STRING) {
            e->oom = strcmp(s->text, "[OutOfMemory]") == 0;
            *memory = e->oom || strcmp(s->text, "[memory]") == 0;
        }
        if (ts && t == MT_TOKEN_NUMBER && !mt_scan_thousandths(s, &e->ns))
            return mt_scan_bad(s, err, "a time in microseconds");
        if (args && t == MT_TOKEN_OBJECT)
            MT_TRY(arguments(s, e, err));
        else
            MT_TRY(mt_scan_skip(s, t, err));
    }
}

static mt_status keep(chrome *x, const event *e, mt_error *err) {
    if (!e->sized || e->bytes == 0 || e->bytes == INT64_MIN)
        return MT_OK;
    if (x->events.count == UINT32_MAX)
        return mt_scan_bad(&x->scan, err, "fewer than 2^32 memory events");
    event *more = mt_array_push(&x->events);
    if (more == NULL)
        return mt_no_memory(err, "the events of a profile");
    *more = *e;
    more->serial = (uint32_t)(x->events.count - 1);
    return MT_OK;
}

/* The rest of the array of events. */
static mt_status read_events(chrome *x, mt_error *err) {
    mt_token t;
    event e;
    bool memory;
    for (;;) {
        MT_TRY(mt_scan_next(&x->scan, &t, err));
        if (t == MT_TOKEN_CLOSE)
            return MT_OK;
        if (t != MT_TOKEN_OBJECT)
            return mt_scan_bad(&x->scan, err, "an event");
        MT_TRY(read_event(&x->scan, &e, &memory, err));
        if (memory)
            MT_TRY(keep(x, &e, err));
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static mt_status read_object(chrome *x, mt_error *err) {
    mt_token t;
    for (;;) {
        MT_TRY(mt_scan_next(&x->scan, &t, err));
        if (t == MT_TOKEN_CLOSE)
            return MT_OK;
        bool events = strcmp(x->scan.text, "traceEvents") == 0;
        MT_TRY(mt_scan_next(&x->scan, &t, err));
        MT_TRY(events && t == MT_TOKEN_ARRAY ? read_events(x, err)
                                             : mt_scan_skip(&x->scan, t, err));
    }
}

static int by_time(const void *a, const void *b) {
    const event *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns)
                          : (x->serial > y->serial) - (x->serial < y->serial);
}

static mt_status read_all(chrome *x, mt_error *err) {
    mt_token t;
    x->ready = true;
    x->scan.in = x->base.in;
    MT_TRY(mt_scan_next(&x->scan, &t, err));
    if (t != MT_TOKEN_OBJECT && t != MT_TOKEN_ARRAY)
        return mt_scan_bad(&x->scan, err, "an object or an array");
    MT_TRY(t == MT_TOKEN_OBJECT ? read_object(x, err) : read_events(x, err));
    MT_TRY(mt_scan_next(&x->scan, &t, err));
    x->base.line = x->scan.lines + 1;
    if (x->events.count == 0)
        return mt_reader_bad(&x->base, err,
                             "no [memory] event, expected a profile with profile_memory=True");
    qsort(x->events.at, x->events.count, sizeof *x->events.at, by_time);
    return MT_OK;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* A profile without addresses: the sum of what was allocated. */
static void statistic(chrome *x, const event *e, mt_item *item) {
    x->base.tells &= ~(unsigned)MT_TELLS_FREES;
    x->total += e->bytes;
    item->kind = MT_ITEM_STATISTIC;
    item->text = "allocated";
    item->value = e->totals ? (int64_t)e->count[0] : x->total;
    x->at++;
}

static mt_status operation(chrome *x, const event *e, mt_item *item, mt_error *err) {
    uint32_t space = item->host ? HOST : item->device;
    bool again = false;
    item->kind = e->bytes > 0 ? MT_ITEM_ALLOC : MT_ITEM_FREE;
    item->bytes = e->bytes > 0 ? (uint64_t)e->bytes : 0;
    item->refused = e->oom;
    if (x->owed) { /* a refused request holds nothing */
        item->kind = MT_ITEM_FREE;
        item->bytes = 0;
        item->refused = false;
    }
    MT_TRY(
        mt_reader_address(&x->base, &x->pages, space, e->oom ? 0 : e->address, item, &again, err));
    x->owed = item->refused && !again;
    x->at += !x->owed && !again;
    if (e->totals && !again) {
        item->has |= MT_HAS_COUNTERS;
        item->counter = counters;
        item->count = e->count;
        item->counters = 2;
    }
    return MT_OK;
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    chrome *x = (chrome *)r;
    if (!x->ready)
        MT_TRY(read_all(x, err));
    if (x->at == x->events.count)
        return MT_OK;
    const event *e = &x->events.at[x->at];
    r->line = e->line;
    if (e->device < -1 || e->device >= UINT32_MAX || e->type < 0)
        return mt_reader_bad(r, err, "expected the number of a device");
    if (!e->totals)
        r->tells &= ~(unsigned)MT_TELLS_RESERVED;
    item->time_ns = (uint64_t)e->ns - (uint64_t)x->events.at[0].ns;
    item->host = e->type == 0;
    item->device = e->device > 0 ? (uint32_t)e->device : 0;
    if (!e->addressed && !e->oom) {
        statistic(x, e, item);
        return MT_OK;
    }
    return operation(x, e, item, err);
}

static void close_chrome(mt_reader *r) {
    mt_array_free(&((chrome *)r)->events);
    mt_numbers_free(&((chrome *)r)->pages);
}

const mt_format mt_format_chrome = {
    .word = "chrome",
    .name = "a profile of PyTorch in Chrome's form",
    .tells = MT_TELLS_CONTEXT | MT_TELLS_RESERVED | MT_TELLS_FREES,
    .detect = detect,
    .size = sizeof(chrome),
    .next = next,
    .close = close_chrome,
};
