/* sweep_run.c - see sweep.h. A listener follows the ledger and notes, at each mark that ends a
 * wanted context, what the run has been like so far. */
#include "cli/sweep.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

typedef struct meter {
    const mt_ledger *ledger;
    const mt_alloc *alloc;
    sweep_row now;    /* of the run so far */
    uint64_t rounded; /* at the peak */
    uint64_t at_peak; /* requested at the peak */
    uint64_t before_reserved, before_kv, steps, changes;
    const uint32_t *ctx;
    size_t count;
    sweep_row *row;
} meter;

bool sweep_prefixes_exact(const mt_engine_options *o) {
    return !o->arena && (strncmp(o->kv, "concat", 6) == 0 || strncmp(o->kv, "doubling", 8) == 0 ||
                         strcmp(o->kv, "none") == 0);
}

mt_status sweep_check_policy(const char *policy, mt_error *err) {
    mt_source *source;
    mt_alloc *a;
    MT_TRY(mt_source_sim(&source, MT_GIB, 4 * MT_KIB, err));
    mt_status status = mt_alloc_open(&a, source, policy, err);
    if (status == MT_OK)
        mt_alloc_close(a);
    source->close(source);
    return status;
}

/* The peak: reserved highest, requested highest then. */
static void on_request(meter *m) {
    const mt_ledger *l = m->ledger;
    uint64_t reserved = l->reserved.current, requested = l->requested.current;
    if (reserved < m->now.peak_reserved ||
        (reserved == m->now.peak_reserved && requested <= m->at_peak))
        return;
    m->now.peak_reserved = reserved;
    m->at_peak = requested;
    m->rounded = requested + l->rounding;
    m->now.rounding = l->rounding;
    m->now.split = l->split;
    m->now.cached = l->cached;
}

static double part(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : (double)a / (double)b;
}

/* Completes the row of the run so far. */
static void fill(const meter *m, sweep_row *r) {
    const mt_ledger *l = m->ledger;
    uint64_t free_bytes = l->split + l->cached;
    *r = m->now;
    r->done = true;
    r->peak_requested = l->requested.peak;
    r->peak_reserved = l->reserved.peak;
    r->reserved = l->reserved.current;
    r->optimum_low = r->peak_requested;
    r->overhead = r->peak_reserved - r->optimum_low;
    r->calls = l->segment_events;
    r->change_mean = m->changes == 0 ? 0 : r->change_mean / (double)m->changes;
    r->unused = 1 - part(m->at_peak, r->peak_reserved);
    r->internal = part(r->rounding, m->rounded);
    r->external = free_bytes == 0 ? 0 : 1 - part(mt_alloc_largest_free(m->alloc), free_bytes);
}

static void on_mark(meter *m, const mt_event *e) {
    const mt_ledger *l = m->ledger;
    uint64_t reserved = l->reserved.current, kv = l->tag[MT_KV].current;
    int64_t change = (int64_t)(reserved - m->before_reserved);
    int64_t bump = change == 0 ? 0 : change - (int64_t)(kv - m->before_kv);
    if (e->step >= 0 && bump != 0) {
        m->now.bumps++;
        if (llabs(bump) > llabs(m->now.bump_largest))
            m->now.bump_largest = bump;
    }
    if (e->step >= 1) { /* from one token to the next: the prefill is no token's change */
        m->changes++;
        m->now.change_mean += (double)llabs(change);
        if (llabs(change) > llabs(m->now.change_largest))
            m->now.change_largest = change;
    }
    m->before_reserved = reserved;
    m->before_kv = kv;
    for (size_t i = 0; e->step >= 0 && i < m->count; i++)
        if (m->ctx[i] == e->ctx)
            fill(m, &m->row[i]);
}

static void on_event(void *context, const mt_event *e) {
    meter *m = context;
    if (e->kind == MT_EV_ALLOC)
        on_request(m);
    else if (e->kind == MT_EV_MARK)
        on_mark(m, e);
}

/* ---- the run
 * ---------------------------------------------------------------------------------------- */

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

static mt_status steps(mt_engine *e, bool (*stop)(void), mt_error *err) {
    uint32_t B = e->options.batch, P = e->options.prompt;
    int32_t *ids = calloc((size_t)B * P, sizeof *ids);
    mt_status status = ids != NULL ? MT_OK : mt_fail(err, MT_FAILED, "no memory for a prompt");
    for (uint32_t ctx = P; status == MT_OK && ctx <= e->options.ctx; ctx++) {
        status = mt_engine_step(e, ids, ctx == P ? P : 1, ids, err);
        if (status == MT_OK)
            mt_alloc_mark(e->alloc, ctx, mt_engine_kv_ideal(e, ctx), 0);
        if (status == MT_OK && stop())
            status = mt_fail(err, MT_INTERRUPTED, "interrupted");
    }
    free(ids);
    return status;
}

static mt_status open_and_run(const sweep_run *run, parts *p, meter *m, bool (*stop)(void),
                              mt_error *err) {
    MT_TRY(mt_source_sim(&p->source, run->capacity, 4 * MT_KIB, err));
    MT_TRY(mt_device_none(&p->device, err));
    MT_TRY(mt_alloc_open(&p->alloc, p->source, run->policy, err));
    m->alloc = p->alloc;
    m->ledger = mt_alloc_ledger(p->alloc);
    mt_alloc_listen(p->alloc, (mt_listener){ on_event, m });
    MT_TRY(mt_model_load(&p->model, NULL, &run->config, p->alloc, p->device, 1, NULL, NULL, err));
    MT_TRY(mt_engine_open(&p->engine, p->model, &run->engine, err));
    MT_TRY(steps(p->engine, stop, err));
    return mt_alloc_check(p->alloc, err);
}

/* Rows that the run did not reach say why. */
static mt_status note_refusal(meter *m, const mt_error *err) {
    for (size_t i = 0; i < m->count; i++) {
        if (m->row[i].done)
            continue;
        fill(m, &m->row[i]);
        m->row[i].note = strdup(err->text);
        if (m->row[i].note == NULL)
            return MT_FAILED;
    }
    return MT_OK;
}

mt_status sweep_dry_run(const sweep_run *run, const uint32_t *ctx, size_t count, sweep_row *row,
                        bool (*stop)(void), mt_error *err) {
    sweep_run r = *run;
    parts p = { 0 };
    meter m = { .ctx = ctx, .count = count, .row = row };
    for (size_t i = 0; i < count; i++)
        r.engine.ctx = ctx[i] > r.engine.ctx ? ctx[i] : r.engine.ctx;
    mt_status status = open_and_run(&r, &p, &m, stop, err);
    if (status == MT_NO_MEMORY)
        status = note_refusal(&m, err);
    close_parts(&p);
    return status;
}
