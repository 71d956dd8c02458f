/* replay.c - see replay.h. */
#include "traces/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LOOK 4096 /* items between two questions whether to stop */

mt_status mt_replay_open(mt_replay *r, mt_alloc *const *alloc, size_t n, mt_error *err) {
    *r = (mt_replay){ .alloc = alloc, .n = n };
    r->refused = calloc(n, sizeof *r->refused);
    return r->refused != NULL ? MT_OK : mt_no_memory(err, "a replay");
}

void mt_replay_close(mt_replay *r) {
    free(r->refused);
    free(r->mem);
    *r = (mt_replay){ 0 };
}

/* Room for a live number. */
static mt_status make_room(mt_replay *r, uint32_t live, mt_error *err) {
    bool there =
        live < r->room || mt_array_grow(&r->mem, &r->room, (size_t)live + 1, r->n * sizeof *r->mem);
    return there ? MT_OK : mt_no_memory(err, "live requests");
}

static mt_status get(mt_replay *r, size_t i, const mt_item *item, mt_error *err) {
    const mt_request q = {
        .bytes = item->bytes, .tag = (mt_tag)item->tag, .layer = item->layer, .stream = item->stream
    };
    mt_status status = mt_alloc_get(r->alloc[i], &q, mt_replay_mem(r, i, item->live), err);
    if (status != MT_NO_MEMORY)
        return status;
    mt_refused *refused = &r->refused[i];
    if (refused->count++ == 0) {
        refused->line = item->line;
        refused->first = *mt_alloc_refusal(r->alloc[i]);
    }
    return MT_OK;
}

static mt_status ask(mt_replay *r, size_t i, const mt_item *item, mt_error *err) {
    mt_alloc *a = r->alloc[i];
    switch (item->kind) {
    case MT_ITEM_ALLOC:
        return get(r, i, item, err);
    case MT_ITEM_FREE:
        return mt_alloc_put(a, mt_replay_mem(r, i, item->live), err);
    case MT_ITEM_USE:
        return mt_alloc_use(a, *mt_replay_mem(r, i, item->live), item->stream, err);
    case MT_ITEM_TRIM:
        mt_alloc_trim(a);
        return MT_OK;
    case MT_ITEM_HOLD:
    case MT_ITEM_GO:
        mt_alloc_hold(a, item->kind == MT_ITEM_HOLD);
        return MT_OK;
    case MT_ITEM_MARK:
        mt_alloc_mark(a, item->ctx, item->kv_ideal, 0);
        return MT_OK;
    default:
        return MT_OK;
    }
}

/* Whether an item is of the device's memory. */
static bool ours(const mt_replay *r, const mt_item *item) {
    return !item->host && item->device == r->device;
}

mt_status mt_replay_item(mt_replay *r, const mt_item *item, mt_error *err) {
    if (!ours(r, item)) {
        r->elsewhere += item->kind == MT_ITEM_ALLOC;
        return MT_OK;
    }
    if (item->kind == MT_ITEM_ALLOC) {
        MT_TRY(make_room(r, item->live, err));
        r->requests++;
    } else if ((item->kind == MT_ITEM_FREE || item->kind == MT_ITEM_USE) &&
               item->live == MT_NO_LIVE) {
        r->unknown++;
        return MT_OK;
    }
    for (size_t i = 0; i < r->n; i++)
        MT_TRY(ask(r, i, item, err));
    return MT_OK;
}

mt_status mt_replay_all(mt_replay *r, mt_reader *in, bool (*stop)(void), mt_error *err) {
    mt_item item;
    uint64_t n = 0;
    do {
        if (stop != NULL && n++ % LOOK == 0 && stop())
            return mt_fail(err, MT_INTERRUPTED, "interrupted");
        MT_TRY(mt_reader_next(in, &item, err));
        MT_TRY(mt_replay_item(r, &item, err));
    } while (item.kind != MT_ITEM_END);
    if (r->requests == 0 && r->elsewhere > 0)
        return mt_reader_fail(in, item.line, MT_BAD, err,
                              "no request of device %u in this file, %" PRIu64
                              " of others or of host memory",
                              r->device, r->elsewhere);
    return r->requests > 0 ? MT_OK
                           : mt_reader_fail(in, item.line, MT_BAD, err, "no request in this file");
}
