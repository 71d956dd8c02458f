/* none.c - no cache: every pass computes the keys and values of all tokens again.
 *
 * They are read where the pass's own projection left them, so no byte is tagged kv. */
#include "engine/kv/kv.h"

#include <stdlib.h>

static mt_status none_open(mt_kv **out, const char *argument, mt_error *err) {
    if (argument != NULL)
        return mt_fail(err, MT_BAD, "kv strategy none takes no argument, not %.60s", argument);
    mt_kv *kv = calloc(1, sizeof *kv);
    if (kv == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a cache's records");
    kv->reads_pass = true;
    *out = kv;
    return MT_OK;
}

static mt_status none_layer(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, float *qkv,
                            mt_kv_view *view, mt_error *err) {
    (void)layer;
    (void)first;
    (void)err;
    *view = (mt_kv_view){ .k = qkv + kv->width,
                          .v = qkv + 2 * (size_t)kv->width,
                          .sequence = (size_t)T * 3 * kv->width,
                          .row = 3 * (size_t)kv->width };
    return MT_OK;
}

static uint64_t none_bytes(const mt_kv *kv, uint64_t ctx) {
    (void)kv;
    (void)ctx;
    return 0;
}

static void none_close(mt_kv *kv) {
    free(kv);
}

const mt_kv_ops mt_kv_none = { "none", none_open, none_layer, NULL, none_bytes, none_close, false };
