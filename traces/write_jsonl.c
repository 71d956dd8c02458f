/* write_jsonl.c - items as JSON, one object a line; what is not told is left out. */
#include <string.h>

#include "base/json.h"
#include "traces/writer.h"

static const char *kind_name(const mt_item *item) {
    static const char *const names[] = {
        [MT_ITEM_NOTE] = "note", [MT_ITEM_STACK] = "stack", [MT_ITEM_ALLOC] = "alloc",
        [MT_ITEM_FREE] = "free", [MT_ITEM_USE] = "use",     [MT_ITEM_TRIM] = "trim",
        [MT_ITEM_HOLD] = "hold", [MT_ITEM_GO] = "go",       [MT_ITEM_MARK] = "mark",
    };
    if (item->kind == MT_ITEM_ALLOC && item->refused)
        return "refused";
    if (item->kind == MT_ITEM_EVENT)
        return mt_event_kind_name(item->event->kind);
    return item->kind < sizeof names / sizeof *names ? names[item->kind] : NULL;
}

static void told(mt_json *j, const char *key, uint64_t value) {
    if (value != 0)
        mt_json_unsigned(j, key, value);
}

static void write_mark(mt_json *j, const mt_item *item) {
    mt_json_unsigned(j, "ctx", item->ctx);
    mt_json_unsigned(j, "kv_ideal", item->kv_ideal);
}

static void write_event(mt_json *j, const mt_event *e) {
    mt_json_unsigned(j, "seq", e->seq);
    mt_json_signed(j, "step", e->step);
    if (e->kind == MT_EV_OOM)
        mt_json_unsigned(j, "device_free", e->offset);
    else if (e->kind != MT_EV_MARK)
        mt_json_text(j, "pool", mt_pool_name(e->pool));
}

static void write_place(mt_json *j, const mt_item *item) {
    bool event = (item->has & MT_HAS_EVENT) != 0 && item->event->kind < MT_EV_OOM;
    if (!item->refused && (event || (item->has & MT_HAS_PLACE) != 0)) {
        mt_json_unsigned(j, "segment", item->segment);
        mt_json_unsigned(j, "offset", item->offset);
    }
    if (!item->refused && (event || (item->has & MT_HAS_ROUNDED) != 0))
        mt_json_unsigned(j, "rounded", item->rounded);
}

/* Of requests and events of segments. */
static void write_request(mt_json *j, const mt_item *item) {
    if (item->id != MT_NO_ID)
        mt_json_unsigned(j, "id", item->id);
    if (item->kind == MT_ITEM_USE)
        return;
    told(j, "requested", item->bytes);
    if (item->bytes != 0) {
        mt_json_text(j, "tag", mt_tag_name(item->tag));
        if (item->layer >= 0)
            mt_json_signed(j, "layer", item->layer);
    }
    write_place(j, item);
}

static void write_context(mt_trace *t, mt_json *j, const mt_item *item) {
    told(j, "stream", item->stream);
    told(j, "device", item->device);
    told(j, "private_pool", item->private_pool);
    told(j, "stack", item->stack);
    told(j, "thread", item->thread);
    told(j, "process", item->process);
    if (item->host)
        mt_json_bool(j, "host", true);
    if (t->times)
        mt_json_unsigned(j, "ns", mt_trace_time(t, item));
}

static void write_members(mt_trace *t, mt_json *j, const mt_item *item) {
    if (item->kind == MT_ITEM_NOTE) {
        mt_json_text(j, "text", item->text);
        return;
    }
    if (item->kind == MT_ITEM_STACK) {
        mt_json_unsigned(j, "stack", item->stack);
        told(j, "caller", item->id);
        mt_json_text(j, "frame", item->text);
        return;
    }
    if ((item->has & MT_HAS_EVENT) != 0)
        write_event(j, item->event);
    if (item->kind == MT_ITEM_MARK)
        write_mark(j, item);
    else
        write_request(j, item);
    write_context(t, j, item);
}

static void write_item(mt_trace *t, const mt_item *item) {
    const char *kind = kind_name(item);
    mt_json j;
    if (kind == NULL)
        return;
    mt_json_to_output(&j, t->out);
    mt_json_begin_object(&j, NULL);
    mt_json_text(&j, "kind", kind);
    write_members(t, &j, item);
    mt_json_end(&j);
    mt_error err;
    if (mt_json_finish(&j, &err) != MT_OK)
        mt_trace_broken(t, err.status, err.text);
}

static void end(mt_trace *t, const char *ending) {
    mt_item item;
    mt_item_clear(&item);
    item.kind = MT_ITEM_NOTE;
    item.text = ending;
    if (ending != NULL)
        write_item(t, &item);
}

const mt_trace_form mt_form_jsonl = {
    .name = "jsonl",
    .ending = ".jsonl",
    .loses = "driver calls, counters, blocks and history of a recording",
    .only = MT_TELLS_CALLS | MT_TELLS_COUNTERS | MT_TELLS_SNAPSHOTS | MT_TELLS_HISTORY,
    .size = sizeof(mt_trace),
    .item = write_item,
    .end = end,
};
