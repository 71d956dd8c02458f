/* reader.c - what the readers of formats share: messages, lines, ids of live requests. */
#include "traces/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define CAPACITY_MOST (UINT64_C(1) << 50)

mt_action mt_action_of(mt_event_kind kind) {
    static const mt_action action[MT_EVENTS] = {
        [MT_EV_ALLOC] = MT_ACTION_ALLOC,
        [MT_EV_FREE] = MT_ACTION_FREE_COMPLETED,
        [MT_EV_SEGMENT_ALLOC] = MT_ACTION_SEGMENT_ALLOC,
        [MT_EV_SEGMENT_FREE] = MT_ACTION_SEGMENT_FREE,
        [MT_EV_SEGMENT_MAP] = MT_ACTION_SEGMENT_MAP,
        [MT_EV_SEGMENT_UNMAP] = MT_ACTION_SEGMENT_UNMAP,
        [MT_EV_OOM] = MT_ACTION_OOM,
    };
    return action[kind];
}

const char *mt_action_name(mt_action action) {
    static const char *const names[MT_ACTIONS] = {
        "alloc",        "free_requested", "free_completed", "segment_alloc",
        "segment_free", "segment_map",    "segment_unmap",  "oom",
    };
    return names[action];
}

void mt_item_tell(mt_item *item, const mt_event *e) {
    bool alloc = e->kind == MT_EV_ALLOC, mark = e->kind == MT_EV_MARK;
    item->kind = alloc                   ? MT_ITEM_ALLOC
                 : mark                  ? MT_ITEM_MARK
                 : e->kind == MT_EV_FREE ? MT_ITEM_FREE
                                         : MT_ITEM_EVENT;
    item->has = alloc ? MT_HAS_EVENT | MT_HAS_PLACE | MT_HAS_ROUNDED : MT_HAS_EVENT;
    item->event = e;
    item->id = e->id;
    item->stream = e->stream;
    item->layer = e->layer;
    item->tag = e->tag;
    item->time_ns = e->time_ns;
    if (mark) {
        item->ctx = e->ctx;
        item->kv_ideal = e->kv_ideal;
        return;
    }
    item->bytes = e->requested;
    item->segment = e->segment;
    item->offset = e->offset;
    item->rounded = e->rounded;
}

/* ---- messages -------------------------------------------------------------------------------- */

static mt_status fail_at(const mt_reader *r, uint64_t line, mt_status status, mt_error *err,
                         const char *format, va_list args) {
    char text[sizeof err->text];
    vsnprintf(text, sizeof text, format, args);
    return mt_fail(err, status, "%s:%" PRIu64 ": %s", mt_input_name(r->in), line, text);
}

mt_status mt_reader_fail(const mt_reader *r, uint64_t line, mt_status status, mt_error *err,
                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_at(r, line, status, err, format, args);
    va_end(args);
    return status;
}

mt_status mt_reader_bad(const mt_reader *r, mt_error *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_at(r, r->line, MT_BAD, err, format, args);
    va_end(args);
    return MT_BAD;
}

/* ---- lines ----------------------------------------------------------------------------------- */

mt_status mt_reader_line(mt_reader *r, char **text, mt_error *err) {
    mt_line line;
    MT_TRY(mt_input_line(r->in, MT_LINE, &line, err));
    r->line = line.number;
    r->cut = !line.ended;
    *text = line.text;
    return MT_OK;
}

/* ---- settings -------------------------------------------------------------------------------- */

mt_status mt_reader_option(mt_reader *r, const char *key, const char *text, const char *stop,
                           mt_error *err) {
    int n = (int)strcspn(text, stop);
    char *was = r->settings.policy;
    if (r->begun || n == 0 || (n == 1 && *text == '-'))
        return MT_OK;
    if (was != NULL && strlen(was) + (size_t)n > MT_LINE)
        return mt_reader_bad(r, err, "more than %zu characters of options", MT_LINE);
    if (asprintf(&r->settings.policy, "%s,%s%.*s", was != NULL ? was : "torch", key, n, text) < 0) {
        r->settings.policy = was;
        return mt_no_memory(err, "reading a recording");
    }
    free(was);
    return MT_OK;
}

mt_status mt_reader_capacity(mt_reader *r, const char *text, mt_error *err) {
    uint64_t n;
    if (!mt_digits(&text, &n) || n == 0 || n > CAPACITY_MOST || (*text != '\0' && *text != ' '))
        return mt_reader_bad(r, err, "expected the device's bytes, from 1 to %" PRIu64,
                             CAPACITY_MOST);
    if (!r->begun)
        r->settings.capacity = n;
    return MT_OK;
}

/* ---- ids ------------------------------------------------------------------------------------- */

mt_status mt_reader_request(mt_reader *r, mt_item *item, mt_error *err) {
    if (mt_numbers_find(&r->live, item->id) != MT_NO_NUMBER)
        return mt_reader_bad(r, err, "id %" PRIu64 " is already live", item->id);
    item->live = mt_numbers_take(&r->live, item->id);
    return item->live != MT_NO_NUMBER ? MT_OK : mt_no_memory(err, "reading a recording");
}

void mt_reader_release(mt_reader *r, mt_item *item) {
    item->live = mt_numbers_drop(&r->live, item->id);
}

/* An id of 64 bits for a space of 32 and an address of 64: 4 GiB of a space that have something in
 * them get a number, and that stands above the rest of the address. */
mt_status mt_reader_address(mt_reader *r, mt_numbers *pages, uint32_t space, uint64_t address,
                            mt_item *item, bool *again, mt_error *err) {
    uint64_t name = (uint64_t)space << 32 | address >> 32;
    uint32_t page = mt_numbers_find(pages, name);
    if (page == MT_NO_NUMBER && (page = mt_numbers_take(pages, name)) == MT_NO_NUMBER)
        return mt_no_memory(err, "reading a recording");
    item->id = (uint64_t)page << 32 | (uint32_t)address;
    *again = item->kind == MT_ITEM_ALLOC && mt_numbers_find(&r->live, item->id) != MT_NO_NUMBER;
    if (item->kind == MT_ITEM_ALLOC && !*again)
        return mt_reader_request(r, item, err);
    item->kind = MT_ITEM_FREE;
    mt_reader_release(r, item);
    return MT_OK;
}

/* ---- what is not told ------------------------------------------------------------------------ */

char *mt_reader_lacks(const mt_reader *r, char buffer[static MT_LACKS]) {
    static const struct {
        unsigned bit;
        const char *words;
    } lack[] = {
        { MT_TELLS_REQUESTED, "the bytes requested (those of blocks or segments stand for them)" },
        { MT_TELLS_RESERVED, "what was reserved" },
        { MT_TELLS_FREES, "frees" },
        { MT_TELLS_STREAMS, "streams" },
    };
    size_t n = 0;
    *buffer = '\0';
    for (size_t i = 0; i < sizeof lack / sizeof *lack; i++)
        if ((r->tells & lack[i].bit) == 0)
            n += (size_t)snprintf(buffer + n, MT_LACKS - n, "%s%s", n > 0 ? ", " : "",
                                  lack[i].words);
    return buffer;
}
