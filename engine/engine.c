/* engine.c - see engine.h. */
#include "engine/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Tokens of each sequence that a step feeds: all so far without a cache. */
static void step_shape(const mt_engine *e, uint32_t total, uint32_t fresh, uint32_t *T,
                       uint32_t *first) {
    bool cached = !e->kv->traits.uncached;
    *T = cached ? fresh : total;
    *first = cached ? total - fresh : 0;
}

/* The arena's size: every step of the run, without a device, following sizes alone. */
static mt_status plan(mt_engine *e, uint64_t *bytes, uint32_t *rows, mt_error *err) {
    mt_engine copy = *e;
    int32_t *next = calloc(e->options.batch, sizeof *next);
    mt_status status = next == NULL ? mt_no_memory(err, "a plan") : MT_OK;
    if (status == MT_OK)
        status = mt_device_none(&copy.device, err);
    mt_acts_init(&copy.acts, MT_PLAN, e->alloc);
    *rows = 0;
    for (uint32_t total = e->options.prompt; status == MT_OK && total <= e->options.ctx; total++) {
        uint32_t T, first, fresh = total == e->options.prompt ? total : 1;
        step_shape(e, total, fresh, &T, &first);
        uint32_t r = e->options.batch * (e->options.logits_all ? T : 1);
        *rows = r > *rows ? r : *rows;
        status = mt_forward(&copy, e->history, T, first, next, err);
    }
    if (next != NULL && copy.device != e->device)
        copy.device->close(copy.device);
    free(next);
    *bytes = copy.acts.arena_bytes;
    return status;
}

static mt_status request_arena(mt_engine *e, mt_error *err) {
    uint64_t bytes;
    uint32_t rows;
    mt_acts_init(&e->acts, e->options.arena ? MT_ARENA : MT_EAGER, e->alloc);
    if (!e->options.arena)
        return MT_OK;
    MT_TRY(plan(e, &bytes, &rows, err));
    MT_TRY(mt_acts_open(&e->acts, bytes, err));
    const mt_config *c = &e->model->config;
    mt_request r = { .bytes = (uint64_t)rows * c->vocab * mt_dtype_bytes(c->dtype),
                     .tag = MT_LOGITS,
                     .layer = -1 };
    return mt_alloc_get(e->alloc, &r, &e->logits, err);
}

static mt_status request_workspace(mt_engine *e, mt_error *err) {
    mt_request r = { .bytes = e->options.workspace, .tag = MT_WORKSPACE, .layer = -1 };
    MT_TRY(mt_alloc_get(e->alloc, &r, &e->workspace, err));
    if (e->device->use_workspace != NULL && !e->options.own_workspace)
        e->device->use_workspace(e->device, e->workspace.ptr, e->options.workspace);
    return MT_OK;
}

static mt_status check_options(const mt_engine_options *o, const mt_config *c, mt_error *err) {
    uint64_t rows;
    if (o->prompt < 1 || o->prompt > o->ctx || o->ctx > c->positions)
        return mt_fail(err, MT_BAD,
                       "a prompt of %u tokens and a context of %u do not fit, expected 1 <= prompt "
                       "<= ctx <= positions (%u)",
                       o->prompt, o->ctx, c->positions);
    if (o->batch < 1 || o->batch > 1 << 20)
        return mt_fail(err, MT_BAD, "batch %u: expected 1 to %d", o->batch, 1 << 20);
    /* Every buffer of a pass has at most this many elements; all byte counts stay below 2^60. */
    uint64_t widest = 3 * (uint64_t)c->width + c->inner + c->vocab;
    if (!mt_mul(o->batch, o->ctx, &rows) || rows > UINT32_MAX / 2 || !mt_mul(rows, widest, &rows) ||
        !mt_mul(rows, 8 * (uint64_t)c->layers, &rows) || rows > (uint64_t)1 << 60)
        return mt_fail(err, MT_BAD, "batch %u at context %u is more than 2^31 rows or 2^60 bytes",
                       o->batch, o->ctx);
    return MT_OK;
}

mt_status mt_engine_open(mt_engine **out, mt_model *model, const mt_engine_options *options,
                         mt_error *err) {
    MT_TRY(check_options(options, &model->config, err));
    mt_engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return mt_no_memory(err, "an engine");
    e->model = model;
    e->alloc = model->alloc;
    e->device = model->device;
    e->options = *options;
    mt_acts_init(&e->acts, MT_EAGER, e->alloc);
    e->history = calloc((size_t)options->batch * options->ctx, sizeof *e->history);
    mt_status status = e->history == NULL ? mt_no_memory(err, "the run's tokens") : MT_OK;
    if (status == MT_OK)
        status = mt_kv_open(&e->kv, options->kv, &model->config, options->batch, options->ctx,
                            e->alloc, e->device, err);
    if (status == MT_OK && options->wrap != NULL)
        status = options->wrap(&e->kv, options->wrapped_with, err);
    if (status == MT_OK)
        status = mt_graph_check(options, e->device, err);
    if (status == MT_OK)
        status = request_workspace(e, err);
    if (status == MT_OK)
        status = request_arena(e, err);
    if (status != MT_OK) {
        mt_engine_close(e);
        return status;
    }
    mt_alloc_mark(e->alloc, 0, 0, 0);
    *out = e;
    return MT_OK;
}

/* Appends T new tokens of each sequence to the history. */
static void remember(mt_engine *e, const int32_t *ids, uint32_t T) {
    for (uint32_t b = 0; b < e->options.batch; b++)
        memcpy(e->history + (size_t)b * e->options.ctx + e->tokens, ids + (size_t)b * T,
               T * sizeof *ids);
}

/* The first T tokens of each sequence, side by side, as a pass without a cache feeds them. */
static int32_t *all_so_far(const mt_engine *e, uint32_t T) {
    int32_t *ids = malloc((size_t)e->options.batch * T * sizeof *ids);
    for (uint32_t b = 0; ids != NULL && b < e->options.batch; b++)
        memcpy(ids + (size_t)b * T, e->history + (size_t)b * e->options.ctx, T * sizeof *ids);
    return ids;
}

/* One pass over T new tokens, or over all so far. */
static mt_status full_pass(mt_engine *e, const int32_t *ids, uint32_t T, uint32_t pass,
                           uint32_t first, int32_t *next, mt_error *err) {
    int32_t *fed = all_so_far(e, e->tokens + T);
    if (fed == NULL)
        return mt_no_memory(err, "the tokens of a step");
    mt_status status = mt_forward(e, first == 0 ? fed : ids, pass, first, next, err);
    free(fed);
    e->recording.warm |= status == MT_OK && pass == 1;
    return status;
}

mt_status mt_engine_step(mt_engine *e, const int32_t *ids, uint32_t T, int32_t *next,
                         mt_error *err) {
    uint32_t pass, first;
    if (T < 1 || T > e->options.ctx - e->tokens)
        return mt_fail(err, MT_BAD, "%u tokens after %u exceed the context of %u", T, e->tokens,
                       e->options.ctx);
    remember(e, ids, T);
    step_shape(e, e->tokens + T, T, &pass, &first);
    if (e->device->range_begin != NULL)
        e->device->range_begin(e->device, e->tokens == 0 ? "prefill" : "decode");
    mt_status status = mt_graph_serves(e, pass) ? mt_graph_step(e, ids, next, err)
                                                : full_pass(e, ids, T, pass, first, next, err);
    if (e->device->range_end != NULL)
        e->device->range_end(e->device);
    MT_TRY(status);
    mt_kv_end(e->kv);
    e->tokens += T;
    return MT_OK;
}

bool mt_engine_rewind(mt_engine *e, uint32_t tokens) {
    if (!e->kv->traits.repeats || tokens > e->tokens)
        return false;
    e->tokens = tokens;
    return true;
}

mt_status mt_engine_logits(mt_engine *e, uint32_t first, uint32_t rows, float *host,
                           mt_error *err) {
    size_t V = e->model->config.vocab;
    if (first > e->logits_rows || rows > e->logits_rows - first)
        return mt_fail(err, MT_CHECK, "rows %u to %u requested of %u logits", first, first + rows,
                       e->logits_rows);
    e->device->copy_out(e->device, host, (const float *)e->logits.ptr + first * V,
                        rows * V * sizeof(float));
    return e->device->sync(e->device, err);
}

uint64_t mt_engine_kv_ideal(const mt_engine *e, uint64_t ctx) {
    return mt_config_kv_bytes_per_token(&e->model->config) * e->options.batch * ctx;
}

void mt_engine_close(mt_engine *e) {
    if (e == NULL)
        return;
    mt_acts_close(&e->acts);
    mt_kv_close(e->kv);
    mt_alloc_put(e->alloc, &e->logits, NULL);
    if (e->workspace.handle != 0 && e->device->use_workspace != NULL)
        e->device->use_workspace(e->device, NULL, 0);
    mt_alloc_put(e->alloc, &e->workspace, NULL);
    free(e->history);
    free(e);
}
