/* fault.c - a wrong cache, made on purpose.
 *
 * Each fault touches one layer's rows right after the step that makes the cache as long as the
 * fault says. Only for devices whose memory this program can read. */
#include "engine/engine.h"

static void exchange(float *a, float *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        float t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

/* Exchanges the rows of the first place and the one in the middle of what was there. */
static void swap_places(const mt_engine *e, const mt_kv_view *v, uint32_t first, bool values) {
    uint32_t C = e->model->config.width;
    float *k0, *v0, *k1, *v1;
    mt_kv_token(v, 0, 0, C, &k0, &v0);
    mt_kv_token(v, 0, first / 2, C, &k1, &v1);
    exchange(k0, k1, C);
    if (values)
        exchange(v0, v1, C);
}

static void repeat_last(const mt_engine *e, const mt_kv_view *v, uint32_t first) {
    uint32_t C = e->model->config.width;
    float *k, *value, *k_before, *v_before;
    mt_kv_token(v, 0, first, C, &k, &value);
    mt_kv_token(v, 0, first - 1, C, &k_before, &v_before);
    for (uint32_t i = 0; i < C; i++) {
        k[i] = k_before[i];
        value[i] = v_before[i];
    }
}

static void mix(const mt_engine *e, const mt_kv_view *v, uint32_t first) {
    uint32_t C = e->model->config.width;
    float *k, *value;
    for (uint32_t j = 0; j < first; j++) {
        mt_kv_token(v, 0, j, C, &k, &value);
        exchange(k, value, C);
    }
}

mt_status mt_fault_apply(mt_engine *e, uint32_t layer, uint32_t first, uint32_t T,
                         const mt_kv_view *view, mt_error *err) {
    const mt_fault *f = &e->options.fault;
    if (f->kind == MT_FAULT_POSITION || layer != f->layer || first + T != f->ctx || first < 2)
        return MT_OK;
    if (!e->device->host_memory || e->kv->reads_pass)
        return mt_fail(err, MT_BAD, "faults need a cache in memory that this program can read");
    switch (f->kind) {
    case MT_FAULT_SWAP_K:
    case MT_FAULT_SWAP_KV:
        swap_places(e, view, first, f->kind == MT_FAULT_SWAP_KV);
        return MT_OK;
    case MT_FAULT_STALE:
        repeat_last(e, view, first);
        return MT_OK;
    default:
        mix(e, view, first);
        return MT_OK;
    }
}
