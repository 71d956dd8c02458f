/* concat.c - keys and values grow by concatenation, as in most frameworks.
 *
 * At every step each layer gets a new tensor one row longer, copies the old one into it and frees
 * the old: new K, free old K, new V, free old V. concat-tuple is the older habit of a caller that
 * still holds the previous cache: nothing old is freed until the step ends, so twice the cache is
 * alive for a moment. A tensor is [B, ctx, width]. */
#include "engine/kv/kv.h"

#include <stdlib.h>

typedef struct concat {
    mt_kv base;
    mt_mem *now;  /* [L][2]: K and V of each layer */
    mt_mem *past; /* [L][2]: the old ones; the tuple's live until the step ends */
} concat;

static mt_status records(concat *c, mt_error *err) {
    size_t tensors = 2 * (size_t)c->base.layers;
    if (c->now == NULL)
        c->now = calloc(2 * tensors, sizeof *c->now);
    if (c->now == NULL)
        return mt_no_memory(err, "a cache's records");
    c->past = c->now + tensors;
    return MT_OK;
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
    mt_alloc_put(kv->alloc, past, NULL); /* of a step that did not end */
    *past = *now;
    *now = longer;
    if (!kv->ops->end)
        mt_alloc_put(kv->alloc, past, NULL);
    return MT_OK;
}

static mt_status concat_room(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T,
                             mt_kv_view *view, mt_error *err) {
    concat *c = (concat *)kv;
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
}

const mt_kv_ops mt_kv_concat = {
    .traits = { .name = "concat",
                .syntax = "concat",
                .help = "new K and V of the whole context per layer and step, as torch.cat does" },
    .size = sizeof(concat),
    .room = concat_room,
    .bytes = concat_bytes,
    .close = concat_close,
};

const mt_kv_ops mt_kv_concat_tuple = {
    .traits = { .name = "concat-tuple",
                .syntax = "concat-tuple",
                .help = "the same; all old tensors are freed at the end of the step" },
    .size = sizeof(concat),
    .room = concat_room,
    .end = concat_end,
    .bytes = concat_bytes,
    .close = concat_close,
};
