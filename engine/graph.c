/* graph.c - decode steps that the device recorded once.
 *
 * From one decode step to the next nothing changes but the ids and the place they stand at, as long
 * as every buffer stays where it is: activations in an arena, a cache that does not move (static,
 * or doubling between two growths). Then the step is recorded for the latest place that the cache
 * has room for, and replayed with the true place. The first step of one token is done without, so
 * that all code is loaded; a cache that moved is recorded again. Requests and events are those of a
 * run without graphs. */
#include "engine/engine.h"

#include <string.h>

static bool stays(const char *kv) {
    return strcmp(kv, "static") == 0 || strncmp(kv, "doubling", 8) == 0;
}

mt_status mt_graph_check(const mt_engine_options *o, const mt_device *d, mt_error *err) {
    if (!o->graph)
        return MT_OK;
    if (!stays(o->kv) || !o->arena)
        return mt_fail(
            err, MT_BAD,
            "--graph needs buffers that stay where they are: --kv static or doubling (not "
            "%s) and --activations arena",
            o->kv);
    if (d->computes && d->record == NULL)
        return mt_fail(err, MT_BAD, "--graph needs --backend cuda (or none), not %s", d->name);
    return MT_OK;
}

bool mt_graph_serves(const mt_engine *e, uint32_t T) {
    return e->options.graph && e->device->record != NULL && T == 1 && e->recording.warm &&
           e->options.fault.kind == MT_FAULT_NONE;
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
    MT_TRY(e->kv->ops->layer(e->kv, 0, e->tokens, 1, NULL, &view, err));
    if (!r->made || !same(&r->view, &view))
        MT_TRY(record(e, &view, err));
    d->copy_in(d, r->in, ids, bytes);
    d->replay(d, e->tokens);
    d->copy_out(d, next, r->out, bytes);
    e->logits_rows = e->options.batch;
    return d->sync(d, err);
}
