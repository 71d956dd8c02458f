/* static.c - a cache of the run's full length, requested once.
 *
 * Each layer requests K and V of [B, C, width] at its first update, C the run's --ctx. Nothing is
 * requested later; the rows not yet reached are the price. */
#include "engine/kv/kv.h"

#include <stdlib.h>

typedef struct fixed {
    mt_kv base;
    mt_mem *mem; /* [L][2] */
} fixed;

static mt_status static_open(mt_kv **out, const char *argument, mt_error *err) {
    if (argument != NULL)
        return mt_fail(err, MT_BAD, "kv strategy static takes no argument, not %.60s", argument);
    fixed *s = calloc(1, sizeof *s);
    if (s == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a cache's records");
    *out = &s->base;
    return MT_OK;
}

static mt_status static_layer(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, float *qkv,
                              mt_kv_view *view, mt_error *err) {
    fixed *s = (fixed *)kv;
    (void)qkv;
    (void)first;
    (void)T;
    if (s->mem == NULL)
        s->mem = calloc(2 * (size_t)kv->layers, sizeof *s->mem);
    if (s->mem == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a cache's records");
    mt_mem *m = &s->mem[2 * layer];
    for (int i = 0; i < 2; i++) {
        mt_request r = { .bytes = kv->batch * kv->ctx * kv->row,
                         .tag = MT_KV,
                         .layer = (int32_t)layer };
        if (m[i].handle == 0)
            MT_TRY(mt_alloc_get(kv->alloc, &r, &m[i], err));
    }
    *view = (mt_kv_view){
        .k = m[0].ptr, .v = m[1].ptr, .sequence = (size_t)kv->ctx * kv->width, .row = kv->width
    };
    return MT_OK;
}

static uint64_t static_bytes(const mt_kv *kv, uint64_t ctx) {
    (void)ctx;
    return 2 * kv->layers * kv->batch * (uint64_t)kv->ctx * kv->row;
}

static void static_close(mt_kv *kv) {
    fixed *s = (fixed *)kv;
    for (size_t i = 0; s->mem != NULL && i < 2 * (size_t)kv->layers; i++)
        mt_alloc_put(kv->alloc, &s->mem[i], NULL);
    free(s->mem);
    free(s);
}

const mt_kv_ops mt_kv_static = { "static",     static_open,  static_layer, NULL,
                                 static_bytes, static_close, true };
