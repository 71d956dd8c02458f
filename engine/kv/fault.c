/* fault.c - see fault.h.
 *
 * A strategy that wraps another: each call goes through to the one behind it. Right after the step
 * that makes the cache as long as the fault says has written a layer's rows, that layer is damaged;
 * only where this program can read the device's memory. */
#include "engine/kv/fault.h"

#include <stdlib.h>

typedef struct faulty {
    mt_kv base; /* the inner one's, but for the table */
    mt_kv *inner;
    mt_fault fault;
} faulty;

static void exchange(float *a, float *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        float t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

/* Exchanges the rows of the first place and the one in the middle of what was there. */
static void swap_places(uint32_t C, const mt_kv_view *v, uint32_t first, bool values) {
    float *k0, *v0, *k1, *v1;
    mt_kv_token(v, 0, 0, C, &k0, &v0);
    mt_kv_token(v, 0, first / 2, C, &k1, &v1);
    exchange(k0, k1, C);
    if (values)
        exchange(v0, v1, C);
}

static void repeat_last(uint32_t C, const mt_kv_view *v, uint32_t first) {
    float *k, *value, *k_before, *v_before;
    mt_kv_token(v, 0, first, C, &k, &value);
    mt_kv_token(v, 0, first - 1, C, &k_before, &v_before);
    for (uint32_t i = 0; i < C; i++) {
        k[i] = k_before[i];
        value[i] = v_before[i];
    }
}

static void mix(uint32_t C, const mt_kv_view *v, uint32_t first) {
    float *k, *value;
    for (uint32_t j = 0; j < first; j++) {
        mt_kv_token(v, 0, j, C, &k, &value);
        exchange(k, value, C);
    }
}

static void damage(const faulty *f, const mt_kv_view *view, uint32_t first) {
    uint32_t C = f->base.width;
    switch (f->fault.kind) {
    case MT_FAULT_SWAP_K:
    case MT_FAULT_SWAP_KV:
        swap_places(C, view, first, f->fault.kind == MT_FAULT_SWAP_KV);
        break;
    case MT_FAULT_STALE:
        repeat_last(C, view, first);
        break;
    case MT_FAULT_MIX_KV:
        mix(C, view, first);
        break;
    case MT_FAULT_POSITION:
        break;
    }
}

/* ---- the strategy ---------------------------------------------------------------------------- */

static mt_status faulty_room(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T,
                             mt_kv_view *view, mt_error *err) {
    mt_kv *inner = ((faulty *)kv)->inner;
    return inner->ops->room(inner, layer, first, T, view, err);
}

static mt_status faulty_write(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T,
                              const float *qkv, mt_kv_view *view, mt_error *err) {
    const faulty *f = (const faulty *)kv;
    MT_TRY(mt_kv_write(f->inner, layer, first, T, qkv, view, err));
    bool now = layer == f->fault.layer && first + T == f->fault.ctx && first >= 2;
    if (!now || f->fault.kind == MT_FAULT_POSITION)
        return MT_OK;
    if (!kv->device->host_memory || kv->traits.uncached)
        return mt_fail(err, MT_BAD, "faults need a cache in memory that this program can read");
    damage(f, view, first);
    return MT_OK;
}

static uint32_t faulty_position(const mt_kv *kv, uint32_t first, uint32_t T) {
    const mt_fault *f = &((const faulty *)kv)->fault;
    bool late = f->kind == MT_FAULT_POSITION && first + T >= f->ctx;
    return first + (late && first + T < f->positions);
}

static void faulty_end(mt_kv *kv) {
    mt_kv_end(((faulty *)kv)->inner);
}

static uint64_t faulty_bytes(const mt_kv *kv, uint64_t ctx) {
    const mt_kv *inner = ((const faulty *)kv)->inner;
    return inner->ops->bytes(inner, ctx);
}

static void faulty_close(mt_kv *kv) {
    mt_kv_close(((faulty *)kv)->inner);
}

static const mt_kv_ops faulty_ops = {
    .size = sizeof(faulty),
    .room = faulty_room,
    .write = faulty_write,
    .position = faulty_position,
    .end = faulty_end,
    .bytes = faulty_bytes,
    .close = faulty_close,
};

mt_status mt_kv_fault(mt_kv **kv, const void *fault, mt_error *err) {
    faulty *f = malloc(sizeof *f);
    if (f == NULL)
        return mt_no_memory(err, "a cache's records");
    *f = (faulty){ .base = **kv, .inner = *kv, .fault = *(const mt_fault *)fault };
    f->base.ops = &faulty_ops;
    f->base.traits.stays = false; /* a step that is replayed would never ask */
    *kv = &f->base;
    return MT_OK;
}
