/* check.c - see check.h. */
#include "traces/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "alloc/torch/torch.h"
#include "base/size.h"
#include "traces/replay.h"

typedef struct block {
    uint64_t offset, size, requested;
    uint32_t segment, stream;
    const char *state, *pool;
} block;

typedef struct check {
    mt_reader *in;
    mt_item item;
    mt_source *source;
    mt_alloc *alloc;
    const mt_torch_stats *stats; /* of the policy */
    mt_replay replay;
    mt_calls made;                /* by the operation */
    bool history_told;            /* by this format */
    MT_ARRAY(mt_history) history; /* ours, not compared yet from next_history on */
    MT_ARRAY(block) block;        /* ours, while a snapshot is compared */
    size_t next_history, next_block;
    uint64_t rows;              /* of the snapshot, still to come */
    bool lost;                  /* no memory for something above */
    uint64_t operations, bytes; /* so far; of the latest request */
    uint32_t stream;
    mt_check_counts *counts;
    mt_error *err;
} check;

/* ---- messages -------------------------------------------------------------------------------- */

#define TEXT 160

static mt_status differs(check *c, const char *what, const char *ours, const char *theirs) {
    return mt_reader_fail(c->in, c->item.line, MT_CHECK, c->err,
                          "operation %" PRIu64 ": %s: memtrace %s, recorded %s", c->operations,
                          what, ours, theirs);
}

static mt_status differs_number(check *c, const char *what, uint64_t ours, uint64_t theirs) {
    char a[24], b[24];
    snprintf(a, sizeof a, "%" PRIu64, ours);
    snprintf(b, sizeof b, "%" PRIu64, theirs);
    return differs(c, what, a, b);
}

static mt_status bad(check *c, const char *text) {
    return mt_reader_fail(c->in, c->item.line, MT_BAD, c->err, "%s", text);
}

/* ---- what the policy does -------------------------------------------------------------------- */

static void on_driver(void *context, char op, uint32_t segment, uint64_t offset, uint64_t bytes) {
    check *c = context;
    mt_call call = { op, segment, offset, bytes };
    if (strchr(c->in->format->calls, op) != NULL && !mt_calls_add(&c->made, call))
        c->lost = true;
}

static void add_history(check *c, mt_action action, uint32_t segment, uint64_t offset,
                        uint64_t bytes) {
    if (c->next_history == c->history.count)
        c->next_history = c->history.count = 0; /* all are compared */
    mt_history *h = mt_array_push(&c->history);
    if (h != NULL)
        *h = (mt_history){ offset, bytes, segment, action };
    c->lost = c->lost || h == NULL;
}

static void on_event(void *context, const mt_event *e) {
    bool block = e->kind == MT_EV_ALLOC || e->kind == MT_EV_FREE;
    if (e->kind != MT_EV_MARK)
        add_history(context, mt_action_of(e->kind), e->segment, e->offset,
                    block ? e->requested : e->rounded);
}

static mt_status open_policy(check *c) {
    const mt_settings *s = &c->in->settings;
    if ((c->in->format->tells & MT_TELLS_SETTINGS) == 0)
        return mt_fail(
            c->err, MT_BAD,
            "%s: %s does not say what PyTorch's allocator did, expected a recording of it",
            mt_input_name(c->in->in), c->in->format->name);
    if (s->capacity == 0)
        return bad(c, "the device's bytes are missing in the header");
    MT_TRY(mt_source_sim(&c->source, s->capacity, 2 * MT_MIB, c->err));
    MT_TRY(mt_alloc_open(&c->alloc, c->source, s->policy != NULL ? s->policy : "torch", c->err));
    MT_TRY(mt_replay_open(&c->replay, &c->alloc, 1, c->err));
    c->stats = mt_alloc_torch_stats(c->alloc);
    mt_alloc_on_driver_call(c->alloc, (mt_driver_listener){ on_driver, c });
    c->history_told = (c->in->format->tells & MT_TELLS_HISTORY) != 0;
    if (c->history_told)
        mt_alloc_listen(c->alloc, (mt_listener){ on_event, c });
    return MT_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static mt_status check_place(check *c, bool refused) {
    const mt_item *item = &c->item;
    bool told = (item->has & MT_HAS_PLACE) != 0;
    mt_live_info info = { 0 };
    char ours[TEXT], theirs[TEXT];
    if (refused != item->refused)
        return differs(c, "request", refused ? "refuses it" : "serves it",
                       refused ? "served" : "refused");
    if (!told || refused)
        return MT_OK;
    MT_TRY(mt_alloc_info(c->alloc, *mt_replay_mem(&c->replay, 0, item->live), &info, c->err));
    snprintf(ours, sizeof ours, "%u+%" PRIu64, info.segment, info.offset);
    snprintf(theirs, sizeof theirs, "%u+%" PRIu64, item->segment, item->offset);
    if (info.segment != item->segment || info.offset != item->offset)
        return differs(c, "place", ours, theirs);
    if ((item->has & MT_HAS_ROUNDED) != 0 && info.rounded != item->rounded)
        return differs_number(c, "size of the block", info.rounded, item->rounded);
    return MT_OK;
}

static mt_status check_counters(check *c) {
    const char *stats = (const char *)c->stats;
    for (size_t i = 0; i < c->item.counters; i++) {
        uint64_t ours;
        memcpy(&ours, stats + c->item.counter[i].at, sizeof ours);
        if (ours != c->item.count[i])
            return differs_number(c, c->item.counter[i].name, ours, c->item.count[i]);
    }
    if (c->item.kind != MT_ITEM_MARK)
        return mt_alloc_check(c->alloc, c->err);
    mt_alloc_torch_reset_peaks(c->alloc);
    return MT_OK;
}

static mt_status check_calls(check *c) {
    const mt_calls *made = &c->made, *told = c->item.calls;
    char a[64], b[64];
    for (size_t i = 0; i < made->count || i < told->count; i++) {
        const mt_call *x = i < made->count ? &made->at[i] : NULL;
        const mt_call *y = i < told->count ? &told->at[i] : NULL;
        if (x == NULL || y == NULL || !mt_call_equal(x, y))
            return differs(c, "driver call", mt_call_write(x, a), mt_call_write(y, b));
    }
    return MT_OK;
}

/* A row that tells all of an operation is one comparison; see check.h. */
static void count_operation(check *c) {
    const mt_item *item = &c->item;
    bool row = item->kind != MT_ITEM_MARK && (item->has & MT_HAS_COUNTERS) != 0;
    c->counts->operations += item->kind != MT_ITEM_MARK;
    if (row)
        return;
    c->counts->places += (item->has & MT_HAS_PLACE) != 0;
    c->counts->calls += (item->has & MT_HAS_CALLS) != 0 ? item->calls->count : 0;
    c->counts->statistics += (item->has & MT_HAS_COUNTERS) != 0 ? item->counters : 0;
}

/* Notes what is gone after the operation. */
static mt_status before(check *c) {
    const mt_item *item = &c->item;
    mt_live_info info;
    bool names = item->kind == MT_ITEM_FREE || item->kind == MT_ITEM_USE;
    if (item->kind == MT_ITEM_ALLOC) {
        c->stream = item->stream;
        c->bytes = item->bytes;
    }
    if (names && item->live == MT_NO_LIVE)
        return bad(c, "an id that is not live");
    if (item->kind != MT_ITEM_FREE || !c->history_told)
        return MT_OK;
    MT_TRY(mt_alloc_info(c->alloc, *mt_replay_mem(&c->replay, 0, item->live), &info, c->err));
    add_history(c, MT_ACTION_FREE_REQUESTED, info.segment, info.offset, info.requested);
    return MT_OK;
}

static mt_status check_operation(check *c) {
    mt_item *item = &c->item;
    uint64_t refused = c->replay.refused[0].count, rejected = c->stats->num_oom_rejections;
    c->made.count = 0;
    c->operations += item->kind != MT_ITEM_MARK;
    MT_TRY(before(c));
    MT_TRY(mt_replay_item(&c->replay, item, c->err));
    if (c->stats->num_oom_rejections != rejected && c->history.count > 0)
        c->history.count--; /* PyTorch keeps no entry of a rejection */
    count_operation(c);
    if (item->kind == MT_ITEM_ALLOC)
        MT_TRY(check_place(c, c->replay.refused[0].count != refused));
    if ((item->has & MT_HAS_COUNTERS) != 0)
        MT_TRY(check_counters(c));
    return (item->has & MT_HAS_CALLS) != 0 ? check_calls(c) : MT_OK;
}

/* ---- blocks, statistics, history ------------------------------------------------------------- */

static mt_status add_block(void *context, const mt_segment_info *s, const mt_block_info *b,
                           mt_error *err) {
    static const char *const states[] = { "active_allocated", "active_pending_free", "inactive" };
    check *c = context;
    if (b->state == MT_BLOCK_UNMAPPED)
        return MT_OK;
    block *new = mt_array_push(&c->block);
    if (new == NULL)
        return mt_no_memory(err, "checking a recording");
    *new = (block){ b->offset, b->size,          b->requested,         s->number,
                    b->stream, states[b->state], mt_pool_name(s->pool) };
    return MT_OK;
}

static mt_status begin_snapshot(check *c) {
    const mt_visitor v = { NULL, add_block, c };
    c->block.count = c->next_block = 0;
    c->rows = c->item.bytes;
    return mt_alloc_walk(c->alloc, &v, c->err);
}

static const char *block_text(const block *b, char text[TEXT]) {
    if (b == NULL)
        return "none";
    snprintf(text, TEXT, "%u+%" PRIu64 " %" PRIu64 " requested %" PRIu64 " %.30s %.30s stream %u",
             b->segment, b->offset, b->size, b->requested, b->state, b->pool, b->stream);
    return text;
}

static bool same_block(const block *a, const block *b) {
    return a->offset == b->offset && a->size == b->size && a->requested == b->requested &&
           a->segment == b->segment && a->stream == b->stream && strcmp(a->state, b->state) == 0 &&
           strcmp(a->pool, b->pool) == 0;
}

/* Once all rows were compared none of ours may be left. */
static mt_status end_snapshot(check *c) {
    char text[TEXT];
    if (c->rows > 0 || c->next_block == c->block.count)
        return MT_OK;
    return differs(c, "block", block_text(&c->block.at[c->next_block], text), "none");
}

static mt_status check_block(check *c) {
    const mt_item *item = &c->item;
    const block theirs = { item->offset, item->rounded, item->bytes, item->segment,
                           item->stream, item->state,   item->pool };
    const block *ours = c->next_block < c->block.count ? &c->block.at[c->next_block++] : NULL;
    char a[TEXT], b[TEXT];
    c->counts->blocks++;
    c->rows--;
    if (ours == NULL || !same_block(ours, &theirs))
        return differs(c, "block", block_text(ours, a), block_text(&theirs, b));
    return end_snapshot(c);
}

static mt_status check_statistic(check *c) {
    int64_t ours;
    char a[24], b[24];
    if (!mt_torch_stats_get(c->stats, c->item.text, &ours))
        return MT_OK; /* one of other parts of PyTorch */
    c->counts->statistics++;
    if (ours == c->item.value)
        return MT_OK;
    snprintf(a, sizeof a, "%" PRId64, ours);
    snprintf(b, sizeof b, "%" PRId64, c->item.value);
    return differs(c, c->item.text, a, b);
}

static const char *history_text(const mt_history *h, char text[TEXT]) {
    if (h == NULL)
        return "none";
    snprintf(text, TEXT, "%s %u+%" PRIu64 " %" PRIu64, mt_action_name((mt_action)h->action),
             h->segment, h->offset, h->bytes);
    return text;
}

static mt_status check_history(check *c) {
    const mt_history *theirs = &c->item.history;
    const mt_history *ours =
        c->next_history < c->history.count ? &c->history.at[c->next_history++] : NULL;
    char a[TEXT], b[TEXT];
    c->counts->history++;
    if (ours != NULL && ours->action == theirs->action && ours->segment == theirs->segment &&
        ours->offset == theirs->offset && ours->bytes == theirs->bytes)
        return MT_OK;
    return differs(c, "history", history_text(ours, a), history_text(theirs, b));
}

/* ---- all of it ------------------------------------------------------------------------------- */

static mt_status check_item(check *c) {
    switch (c->item.kind) {
    case MT_ITEM_NOTE:
    case MT_ITEM_END:
    case MT_ITEM_EVENT:
        return MT_OK;
    case MT_ITEM_SNAPSHOT:
        MT_TRY(begin_snapshot(c));
        return end_snapshot(c);
    case MT_ITEM_BLOCK:
        return check_block(c);
    case MT_ITEM_STATISTIC:
        return check_statistic(c);
    case MT_ITEM_HISTORY:
        return check_history(c);
    default:
        return check_operation(c);
    }
}

static mt_status check_all(check *c) {
    bool told = false;
    do {
        MT_TRY(mt_reader_next(c->in, &c->item, c->err));
        if (c->item.kind == MT_ITEM_NOTE)
            continue;
        if (c->alloc == NULL)
            MT_TRY(open_policy(c));
        mt_status status = check_item(c);
        if (c->lost) /* what was lost may be all that differs */
            return mt_no_memory(c->err, "checking a recording");
        MT_TRY(status);
        told = told || c->item.has != 0 || c->item.kind > MT_ITEM_MARK;
    } while (c->item.kind != MT_ITEM_END);
    if (!told)
        return bad(c, "nothing to compare in this file, expected places, counters or driver calls");
    return mt_alloc_check(c->alloc, c->err);
}

static void close_check(check *c) {
    if (c->alloc != NULL)
        mt_alloc_unlisten(c->alloc);
    mt_replay_close(&c->replay);
    mt_alloc_close(c->alloc);
    if (c->source != NULL)
        c->source->close(c->source);
    mt_reader_close(c->in);
    mt_array_free(&c->made);
    mt_array_free(&c->history);
    mt_array_free(&c->block);
}

mt_status mt_check(const char *path, const mt_reading *how, mt_check_counts *counts,
                   mt_check_around *around, void *context, mt_error *err) {
    check c = { .counts = counts, .err = err };
    MT_TRY(mt_reader_open_as(&c.in, path, how, err));
    mt_status status = check_all(&c);
    if (status == MT_CHECK && around != NULL && c.alloc != NULL)
        around(context, c.alloc, c.stream, mt_alloc_roundup(c.alloc, c.bytes));
    close_check(&c);
    return status;
}
