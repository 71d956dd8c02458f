/* graph.c - decode steps that the device recorded once.
 *
 * From one decode step to the next nothing changes but the ids and the place they stand at, as long
 * as every buffer stays where it is: activations in an arena, a cache that does not move (static,
 * or doubling between two growths). Then the step is recorded for the latest place that the cache
 * has room for, and replayed with the true place. The first step of one token is done without, so
 * that all code is loaded; a cache that moved is recorded again. Requests and events are those of a
 * run without graphs. */
#include "engine/engine.h"

#include <stdio.h>

#include "base/interrupt.h"

/* "static or doubling[:N]": the strategies that stay. */
static const char *those_that_stay(char *text, size_t room) {
    const mt_kv_traits *t;
    size_t n = 0;
    for (size_t i = 0; (t = mt_kv_nth(i)) != NULL && n < room; i++)
        if (t->stays)
            n += (size_t)snprintf(text + n, room - n, "%s%s", n > 0 ? " or " : "", t->syntax);
    return text;
}

mt_status mt_graph_check(const mt_engine_options *o, const mt_device *d, mt_error *err) {
    const mt_kv_traits *kv = mt_kv_find(o->kv);
    char names[128];
    if (!o->graph)
        return MT_OK;
    if (kv == NULL || !kv->stays || !o->arena)
        return mt_fail(err, MT_BAD,
                       "--graph needs fixed addresses: --kv %s (not %s) and "
                       "--activations arena",
                       those_that_stay(names, sizeof names), o->kv);
    if (d->computes && d->record == NULL)
        return mt_fail(err, MT_BAD, "--graph needs --backend cuda (or none), not %s", d->name);
    return MT_OK;
}

bool mt_graph_serves(const mt_engine *e, uint32_t T) {
    return e->options.graph && e->kv->traits.stays && e->device->record != NULL && T == 1 &&
           e->recording.warm;
}

static bool same(const mt_kv_view *a, const mt_kv_view *b) {
    return a->k == b->k && a->v == b->v && a->sequence == b->sequence;
}

/* Records for all the places that the cache has room for and the run will reach. */
static mt_status record(mt_engine *e, const mt_kv_view *view, mt_error *err) {
    uint64_t room = view->sequence / view->row;
    uint32_t last = (uint32_t)(room < e->options.ctx ? room : e->options.ctx) - 1;
    e->recording.made = false;
    MT_TRY(mt_forward_record(e, last, err));
    e->recording.view = *view;
    e->recording.made = true;
    return MT_OK;
}

/* Growth comes first: nothing is requested while the device records. */
mt_status mt_graph_step(mt_engine *e, const int32_t *ids, int32_t *next, mt_error *err) {
    mt_recording *r = &e->recording;
    mt_device *d = e->device;
    mt_kv_view view;
    size_t bytes = e->options.batch * sizeof *ids;
    if (mt_interrupted())
        return mt_fail(err, MT_INTERRUPTED, "interrupted");
    MT_TRY(e->kv->ops->room(e->kv, 0, e->tokens, 1, &view, err));
    if (!r->made || !same(&r->view, &view))
        MT_TRY(record(e, &view, err));
    d->copy_in(d, r->in, ids, bytes);
    d->replay(d, e->tokens);
    d->copy_out(d, next, r->out, bytes);
    e->logits_rows = e->options.batch;
    return d->sync(d, err);
}
