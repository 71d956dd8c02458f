/* model.c - see model.h. */
#include "engine/model.h"

#include <stdlib.h>

#include "base/interrupt.h"

#define STAGE_BYTES                                                                                \
    ((uint64_t)64 << 20) /* of host memory, for devices we cannot write to directly */

static uint64_t tensor_bytes(const mt_config *c, const mt_tensor *t) {
    return t->rows * t->cols * mt_dtype_bytes(c->dtype);
}

typedef struct loader {
    mt_model *m;
    mt_checkpoint *ck;
    float *stage;
    mt_threads *pool;
    mt_progress_fn progress;
    void *context;
    uint64_t done, total;
} loader;

/* Fills one tensor through the stage, some rows at a time. */
static mt_status fill_staged(loader *l, uint32_t i, const mt_tensor *t, float *dst, mt_error *err) {
    mt_device *d = l->m->device;
    uint64_t most = STAGE_BYTES / (t->cols * sizeof(float));
    for (uint64_t row = 0, n; row < t->rows; row += n) {
        n = t->rows - row < most ? t->rows - row : most;
        MT_TRY(mt_checkpoint_read(l->ck, i, row, n, l->stage, l->pool, err));
        d->copy_in(d, dst + row * t->cols, l->stage, n * t->cols * sizeof(float));
        MT_TRY(d->sync(d, err));
    }
    return MT_OK;
}

static mt_status fill(loader *l, uint32_t i, const mt_tensor *t, float *dst, mt_error *err) {
    if (!l->m->device->computes)
        return MT_OK;
    if (l->stage != NULL)
        return fill_staged(l, i, t, dst, err);
    return mt_checkpoint_read(l->ck, i, 0, t->rows, dst, l->pool, err);
}

static mt_status load_tensor(loader *l, uint32_t i, mt_error *err) {
    mt_model *m = l->m;
    mt_tensor t;
    mt_tensor_at(&m->config, i, &t);
    if (mt_interrupted())
        return mt_fail(err, MT_INTERRUPTED, "stopped before loading %s", t.name);
    mt_request r = { .bytes = tensor_bytes(&m->config, &t), .tag = MT_WEIGHTS, .layer = t.layer };
    MT_TRY(mt_alloc_get(m->alloc, &r, &m->mem[i], err));
    *mt_weights_slot(&m->weights, &m->config, i) = m->mem[i].ptr;
    MT_TRY(fill(l, i, &t, m->mem[i].ptr, err));
    l->done += r.bytes;
    if (l->progress != NULL)
        l->progress(l->context, l->done, l->total);
    return MT_OK;
}

static mt_status load_all(loader *l, mt_error *err) {
    mt_model *m = l->m;
    for (uint32_t i = 0; i < m->tensors; i++) {
        mt_tensor t;
        mt_tensor_at(&m->config, i, &t);
        l->total += tensor_bytes(&m->config, &t);
    }
    for (uint32_t i = 0; i < m->tensors; i++)
        MT_TRY(load_tensor(l, i, err));
    if (m->config.tied)
        m->weights.head = m->weights.wte;
    return MT_OK;
}

static mt_model *new_model(const mt_config *config, mt_alloc *alloc, mt_device *device) {
    mt_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->config = *config;
    m->alloc = alloc;
    m->device = device;
    m->tensors = mt_tensor_count(config);
    m->mem = calloc(m->tensors, sizeof *m->mem);
    m->weights.layer = calloc(config->layers, sizeof *m->weights.layer);
    if (m->mem != NULL && m->weights.layer != NULL)
        return m;
    mt_model_close(m);
    return NULL;
}

/* What fills the tensors of a device that computes: threads, and memory between file and device
 * where this program cannot write to the device's. */
static mt_status open_tools(loader *l, int threads, mt_error *err) {
    const mt_device *d = l->m->device;
    if (!d->computes)
        return MT_OK;
    if (!d->host_memory && (l->stage = malloc(STAGE_BYTES)) == NULL)
        return mt_no_memory(err, "the weights on their way");
    return mt_threads_open(&l->pool, threads > 0 ? threads : mt_threads_cores(), err);
}

mt_status mt_model_load(mt_model **out, mt_checkpoint *ck, const mt_config *config, mt_alloc *alloc,
                        mt_device *device, int threads, mt_progress_fn progress, void *context,
                        mt_error *err) {
    loader l = { .ck = ck, .progress = progress, .context = context };
    MT_TRY(mt_config_check(config, err));
    l.m = new_model(config, alloc, device);
    if (l.m == NULL)
        return mt_no_memory(err, "a model's records");
    if (device->range_begin != NULL)
        device->range_begin(device, "load");
    mt_status status = open_tools(&l, threads, err);
    if (status == MT_OK)
        status = load_all(&l, err);
    if (device->range_end != NULL)
        device->range_end(device);
    mt_threads_close(l.pool);
    free(l.stage);
    if (status != MT_OK) {
        mt_model_close(l.m);
        return status;
    }
    *out = l.m;
    return MT_OK;
}

void mt_model_close(mt_model *m) {
    if (m == NULL)
        return;
    for (uint32_t i = 0; m->mem != NULL && i < m->tensors; i++)
        mt_alloc_put(m->alloc, &m->mem[i], NULL);
    free(m->mem);
    free(m->weights.layer);
    free(m);
}
