/* concat.c - keys and values grow by concatenation, as in most frameworks.
 *
 * At every step each layer gets a new tensor one row longer, copies the old one into it and frees
 * the old: new K, free old K, new V, free old V. concat-tuple is the older habit of a caller that
 * still holds the previous cache: nothing old is freed until the step ends, so twice the cache is
 * alive for a moment. A tensor is [B, ctx, width]. */
#include "engine/kv/kv.h"

#include <stdlib.h>
#include <string.h>

typedef struct concat {
    mt_kv base;
    mt_mem *now;  /* [L][2]: K and V of each layer */
    mt_mem *past; /* [L][2]: the tuple's old tensors, until the step ends */
    bool tuple;
} concat;

static mt_status open_concat(mt_kv **out, const char *argument, bool tuple, mt_error *err) {
    if (argument != NULL)
        return mt_fail(err, MT_BAD, "kv strategy concat takes no argument, not %.60s", argument);
    concat *c = calloc(1, sizeof *c);
    if (c == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a cache's records");
    c->tuple = tuple;
    *out = &c->base;
    return MT_OK;
}

static mt_status concat_open(mt_kv **out, const char *argument, mt_error *err) {
    return open_concat(out, argument, false, err);
}

static mt_status tuple_open(mt_kv **out, const char *argument, mt_error *err) {
    return open_concat(out, argument, true, err);
}

static mt_status records(concat *c, mt_error *err) {
    if (c->now != NULL)
        return MT_OK;
    c->now = calloc(2 * (size_t)c->base.layers, sizeof *c->now);
    c->past = calloc(2 * (size_t)c->base.layers, sizeof *c->past);
    return c->now != NULL && c->past != NULL
               ? MT_OK
               : mt_fail(err, MT_FAILED, "no memory for a cache's records");
}

/* Replaces one tensor by a longer one that begins with its rows. */
static mt_status lengthen(concat *c, uint32_t layer, int which, uint32_t first, uint32_t T,
                          mt_error *err) {
    mt_kv *kv = &c->base;
    mt_mem *now = &c->now[2 * layer + which], *past = &c->past[2 * layer + which], longer;
    size_t old_bytes = first * kv->row, new_bytes = ((size_t)first + T) * kv->row;
    mt_request r = { .bytes = kv->batch * new_bytes, .tag = MT_KV, .layer = (int32_t)layer };
    MT_TRY(mt_alloc_get(kv->alloc, &r, &longer, err));
    if (first > 0)
        kv->device->copy_rows(kv->device, longer.ptr, new_bytes, now->ptr, old_bytes, old_bytes,
                              kv->batch);
    if (c->tuple)
        *past = *now;
    else
        mt_alloc_put(kv->alloc, now, NULL);
    *now = longer;
    return MT_OK;
}

static mt_status concat_layer(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, float *qkv,
                              mt_kv_view *view, mt_error *err) {
    concat *c = (concat *)kv;
    (void)qkv;
    MT_TRY(records(c, err));
    MT_TRY(lengthen(c, layer, 0, first, T, err));
    MT_TRY(lengthen(c, layer, 1, first, T, err));
    *view = (mt_kv_view){ .k = c->now[2 * layer].ptr,
                          .v = c->now[2 * layer + 1].ptr,
                          .sequence = ((size_t)first + T) * kv->width,
                          .row = kv->width };
    return MT_OK;
}

static void concat_end(mt_kv *kv) {
    concat *c = (concat *)kv;
    for (size_t i = 0; c->past != NULL && i < 2 * (size_t)kv->layers; i++)
        mt_alloc_put(kv->alloc, &c->past[i], NULL);
}

static uint64_t concat_bytes(const mt_kv *kv, uint64_t ctx) {
    return 2 * kv->layers * kv->batch * ctx * kv->row;
}

static void concat_close(mt_kv *kv) {
    concat *c = (concat *)kv;
    concat_end(kv);
    for (size_t i = 0; c->now != NULL && i < 2 * (size_t)kv->layers; i++)
        mt_alloc_put(kv->alloc, &c->now[i], NULL);
    free(c->now);
    free(c->past);
    free(c);
}

const mt_kv_ops mt_kv_concat = { "concat",     concat_open,  concat_layer, concat_end,
                                 concat_bytes, concat_close, false };
const mt_kv_ops mt_kv_concat_tuple = { "concat-tuple", tuple_open,   concat_layer, concat_end,
                                       concat_bytes,   concat_close, false };
