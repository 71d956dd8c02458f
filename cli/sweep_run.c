/* sweep_run.c - see sweep.h. A listener follows the ledger and notes, at each mark that ends a
 * wanted context, what the run has been like so far. */
#include "cli/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/cli.h"
#include "reports/optimum.h"

/* What listens: the meter sees each mark first. */
typedef struct watch {
    mt_meter meter;
    const uint32_t *ctx;
    size_t count;
    sweep_row *row;
    mt_optimum *optimum; /* NULL: not asked for */
    mt_status status;    /* of finding it */
    mt_error err;
} watch;

bool sweep_prefixes_exact(const mt_engine_options *o) {
    const mt_kv_traits *kv = mt_kv_find(o->kv);
    return !o->arena && kv != NULL && !kv->sized_by_ctx;
}

mt_status sweep_check_policy(const char *policy, bool quiet, mt_error *err) {
    mt_source *source;
    mt_alloc *a;
    MT_TRY(mt_source_sim(&source, MT_GIB, 4 * MT_KIB, err));
    mt_status status = mt_alloc_open(&a, source, policy, err);
    if (status == MT_OK) {
        cli_policy_notes(a, quiet);
        mt_alloc_close(a);
    }
    source->close(source);
    return status;
}

/* The best packing of the run so far; never above what the run itself needed. */
static mt_status fill_optimum(const watch *w, sweep_row *r, mt_error *err) {
    mt_bounds b;
    MT_TRY(mt_optimum_solve(w->optimum, &b, err));
    r->optimum_high = b.high < r->m.peak_reserved ? b.high : r->m.peak_reserved;
    r->overhead = r->m.peak_reserved - r->optimum_high;
    return MT_OK;
}

/* Completes the row of the run so far. */
static void fill(watch *w, sweep_row *r) {
    mt_meter_read(&w->meter, &r->m);
    r->done = true;
    r->refusals = mt_alloc_source(w->meter.alloc)->refusals;
    r->optimum_low = r->m.peak_requested;
    r->overhead = r->m.peak_reserved - r->optimum_low;
    if (w->optimum != NULL && w->status == MT_OK)
        w->status = fill_optimum(w, r, &w->err);
}

static void on_event(void *context, const mt_event *e) {
    watch *w = context;
    for (size_t i = 0; e->kind == MT_EV_MARK && e->step >= 0 && i < w->count; i++)
        if (w->ctx[i] == e->ctx)
            fill(w, &w->row[i]);
}

/* ---- the run --------------------------------------------------------------------------------- */

typedef struct parts {
    mt_source *source;
    mt_device *device;
    mt_alloc *alloc;
    mt_model *model;
    mt_engine *engine;
} parts;

static void close_parts(parts *p) {
    if (p->alloc != NULL)
        mt_alloc_unlisten(p->alloc);
    mt_engine_close(p->engine);
    mt_model_close(p->model);
    mt_alloc_close(p->alloc);
    if (p->source != NULL)
        p->source->close(p->source);
    if (p->device != NULL)
        p->device->close(p->device);
}

static mt_status steps(mt_engine *e, mt_error *err) {
    uint32_t B = e->options.batch, P = e->options.prompt;
    int32_t *ids = calloc((size_t)B * P, sizeof *ids);
    mt_status status = ids != NULL ? MT_OK : mt_no_memory(err, "a prompt");
    for (uint32_t ctx = P; status == MT_OK && ctx <= e->options.ctx; ctx++) {
        status = mt_engine_step(e, ids, ctx == P ? P : 1, ids, err);
        if (status == MT_OK)
            mt_alloc_mark(e->alloc, ctx, mt_engine_kv_ideal(e, ctx), 0);
    }
    free(ids);
    return status;
}

static mt_status open_and_run(const sweep_run *run, parts *p, watch *w, mt_error *err) {
    MT_TRY(mt_source_sim(&p->source, run->capacity, 4 * MT_KIB, err));
    MT_TRY(mt_device_none(&p->device, err));
    MT_TRY(mt_alloc_open(&p->alloc, p->source, run->policy, err));
    mt_meter_start(&w->meter, p->alloc);
    if (run->optimum) {
        MT_TRY(mt_optimum_open(&w->optimum, err));
        mt_alloc_listen(p->alloc, mt_optimum_listener(w->optimum));
    }
    mt_alloc_listen(p->alloc, (mt_listener){ on_event, w });
    MT_TRY(mt_model_load(&p->model, NULL, &run->config, p->alloc, p->device, 1, NULL, NULL, err));
    MT_TRY(mt_engine_open(&p->engine, p->model, &run->engine, err));
    MT_TRY(steps(p->engine, err));
    return mt_alloc_check(p->alloc, err);
}

/* Rows that the run did not reach end where it did. */
static void fill_refused(watch *w) {
    for (size_t i = 0; i < w->count; i++) {
        if (w->row[i].done)
            continue;
        fill(w, &w->row[i]);
        w->row[i].refused = true;
    }
}

mt_status sweep_dry_run(const sweep_run *run, const uint32_t *ctx, size_t count, sweep_row *row,
                        mt_error *err) {
    sweep_run r = *run;
    parts p = { 0 };
    watch w = { .ctx = ctx, .count = count, .row = row };
    for (size_t i = 0; i < count; i++)
        r.engine.ctx = ctx[i] > r.engine.ctx ? ctx[i] : r.engine.ctx;
    mt_status status = open_and_run(&r, &p, &w, err);
    if (status == MT_NO_MEMORY) {
        fill_refused(&w);
        status = MT_OK;
    }
    if (status == MT_OK && w.status != MT_OK)
        status = mt_fail(err, w.status, "%s", w.err.text);
    close_parts(&p);
    mt_optimum_close(w.optimum);
    return status;
}
