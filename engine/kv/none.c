/* none.c - no cache: every pass computes the keys and values of all tokens again.
 *
 * They are read where the pass's own projection left them, so no byte is tagged kv. */
#include "engine/kv/kv.h"

static mt_status none_room(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, mt_kv_view *view,
                           mt_error *err) {
    (void)kv, (void)layer, (void)first, (void)T, (void)view, (void)err;
    return MT_OK;
}

static mt_status none_write(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, const float *qkv,
                            mt_kv_view *view, mt_error *err) {
    (void)layer, (void)first, (void)err;
    *view = (mt_kv_view){ .k = (float *)qkv + kv->width,
                          .v = (float *)qkv + 2 * (size_t)kv->width,
                          .sequence = (size_t)T * 3 * kv->width,
                          .row = 3 * (size_t)kv->width };
    return MT_OK;
}

static uint64_t none_bytes(const mt_kv *kv, uint64_t ctx) {
    (void)kv, (void)ctx;
    return 0;
}

const mt_kv_ops mt_kv_none = {
    .traits = { .name = "none",
                .syntax = "none",
                .help = "no cache: each step computes the whole context again",
                .uncached = true },
    .size = sizeof(mt_kv),
    .room = none_room,
    .write = none_write,
    .bytes = none_bytes,
};
