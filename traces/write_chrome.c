/* write_chrome.c - memory over time as a Chrome trace (chrome.h) for Perfetto: the four parts of
 * what is reserved as one counter, which add up to it, steps as spans, refusals as moments. Without
 * times an event counts as a microsecond. */
#include "traces/chrome.h"

#include <stdio.h>
#include <stdlib.h>

#include "traces/curve.h"
#include "traces/writer.h"

#define INSTANTS 1000  /* at most */
#define SPANS    20000 /* at most: viewers stay quick */

typedef struct chrome {
    mt_trace base;
    mt_chrome *out;
    mt_curve curve;
    double begun; /* of the step */
    int64_t step;
    uint64_t instants, spans;
} chrome;

static mt_status begin(mt_trace *t, mt_error *err) {
    chrome *c = (chrome *)t;
    c->step = -1;
    MT_TRY(mt_chrome_begin(&c->out, t->out, "memtrace", err));
    mt_chrome_track(c->out, 1, "steps");
    return MT_OK;
}

static double us_of(const mt_trace *t, const mt_item *item) {
    return t->times ? (double)mt_trace_time(t, item) / 1000 : (double)item->event->seq;
}

/* The step that a mark ends. */
static void write_step(chrome *c, const mt_item *item, double us) {
    const mt_chrome_arg args[] = { { "ctx", item->ctx }, { "kv_ideal", item->kv_ideal } };
    char name[32];
    snprintf(name, sizeof name, c->step < 0 ? "loading" : "step %lld", (long long)c->step);
    if (c->spans++ < SPANS)
        mt_chrome_span(c->out, 1, name, "step", c->begun, us - c->begun, args, 2);
    c->begun = us;
    c->step++;
}

static void write_refusal(chrome *c, const mt_item *item, double us) {
    const mt_chrome_arg args[] = { { "requested", item->bytes },
                                   { "device_free", item->event->offset } };
    if (c->instants++ < INSTANTS)
        mt_chrome_instant(c->out, "out of memory", us, args, 2);
}

static void write_item(mt_trace *t, const mt_item *item) {
    chrome *c = (chrome *)t;
    mt_error err;
    if ((item->has & MT_HAS_EVENT) == 0)
        return;
    double us = us_of(t, item);
    uint64_t time = t->times ? mt_trace_time(t, item) : item->event->seq * 1000;
    mt_status status = mt_curve_event(&c->curve, item->event, time, &err);
    if (status != MT_OK)
        mt_trace_broken(t, status, err.text);
    if (item->kind == MT_ITEM_MARK)
        write_step(c, item, us);
    if (item->event->kind == MT_EV_OOM)
        write_refusal(c, item, us);
}

static void end(mt_trace *t, const char *ending) {
    chrome *c = (chrome *)t;
    mt_error err;
    (void)ending;
    for (size_t i = 0; i < c->curve.point.count; i++) {
        const mt_point *p = &c->curve.point.at[i];
        const mt_chrome_arg parts[] = { { "requested", p->requested },
                                        { "rounding", p->rounding },
                                        { "split", p->split },
                                        { "cached", p->cached } };
        mt_chrome_counter(c->out, "device memory", (double)p->time / 1000, parts, 4);
    }
    mt_status status = mt_chrome_finish(c->out, &err);
    c->out = NULL;
    if (status != MT_OK)
        mt_trace_broken(t, status, err.text);
}

static void close_chrome(mt_trace *t) {
    chrome *c = (chrome *)t;
    free(c->out);
    mt_curve_free(&c->curve);
}

const mt_trace_form mt_form_chrome = {
    .name = "chrome",
    .ending = ".json",
    .loses = "all but 4096 moments, the first 20000 steps and 1000 refusals",
    .events = true,
    .size = sizeof(chrome),
    .begin = begin,
    .item = write_item,
    .end = end,
    .close = close_chrome,
};
