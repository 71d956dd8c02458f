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

static mt_status static_room(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T,
                             mt_kv_view *view, mt_error *err) {
    fixed *s = (fixed *)kv;
    (void)first, (void)T;
    if (s->mem == NULL)
        s->mem = calloc(2 * (size_t)kv->layers, sizeof *s->mem);
    if (s->mem == NULL)
        return mt_no_memory(err, "a cache's records");
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
}

const mt_kv_ops mt_kv_static = {
    .traits = { .name = "static",
                .syntax = "static",
                .help = "K and V of --ctx tokens per layer, once",
                .repeats = true,
                .stays = true,
                .sized_by_ctx = true },
    .size = sizeof(fixed),
    .room = static_room,
    .bytes = static_bytes,
    .close = static_close,
};
