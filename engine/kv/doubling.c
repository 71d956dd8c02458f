/* doubling.c - one block of keys and one of values for all layers, doubled when full.
 *
 * A block is [L, B, capacity, width]. The capacity starts at N (256), or the next N 2^k that holds
 * the prompt. When the next row does not fit: new K, new V of twice the capacity, copy, free both;
 * three times the old cache is alive for a moment. Growth happens at the first layer of a step. */
#include "engine/kv/kv.h"

typedef struct doubling {
    mt_kv base;
    mt_mem mem[2];
    uint64_t capacity; /* tokens; 0 before the first step */
} doubling;

static uint64_t doubled(uint64_t capacity, uint64_t tokens) {
    while (capacity < tokens)
        capacity *= 2;
    return capacity;
}

static mt_status grow(doubling *d, uint64_t first, uint64_t capacity, mt_error *err) {
    mt_kv *kv = &d->base;
    mt_mem fresh[2] = { { 0 }, { 0 } };
    uint64_t sequences = (uint64_t)kv->layers * kv->batch;
    mt_request r = { .bytes = sequences * capacity * kv->row, .tag = MT_KV, .layer = -1 };
    MT_TRY(mt_alloc_get(kv->alloc, &r, &fresh[0], err));
    mt_status status = mt_alloc_get(kv->alloc, &r, &fresh[1], err);
    if (status != MT_OK) {
        mt_alloc_put(kv->alloc, &fresh[0], NULL);
        return status;
    }
    for (int i = 0; i < 2 && first > 0; i++)
        kv->device->copy_rows(kv->device, fresh[i].ptr, capacity * kv->row, d->mem[i].ptr,
                              d->capacity * kv->row, first * kv->row, sequences);
    for (int i = 0; i < 2; i++) {
        mt_alloc_put(kv->alloc, &d->mem[i], NULL);
        d->mem[i] = fresh[i];
    }
    d->capacity = capacity;
    return MT_OK;
}

static mt_status doubling_room(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T,
                               mt_kv_view *view, mt_error *err) {
    doubling *d = (doubling *)kv;
    uint64_t capacity = doubled(d->capacity > 0 ? d->capacity : kv->n, (uint64_t)first + T);
    if (capacity != d->capacity)
        MT_TRY(grow(d, first, capacity, err));
    size_t sequence = capacity * kv->width;
    *view = (mt_kv_view){ .k = (float *)d->mem[0].ptr + layer * kv->batch * sequence,
                          .v = (float *)d->mem[1].ptr + layer * kv->batch * sequence,
                          .sequence = sequence,
                          .row = kv->width };
    return MT_OK;
}

static uint64_t doubling_capacity(const mt_kv *kv, uint64_t tokens) {
    return doubled(kv->n, tokens);
}

static uint64_t doubling_bytes(const mt_kv *kv, uint64_t ctx) {
    return 2 * kv->layers * kv->batch * doubled(kv->n, ctx) * kv->row;
}

static void doubling_close(mt_kv *kv) {
    doubling *d = (doubling *)kv;
    mt_alloc_put(kv->alloc, &d->mem[0], NULL);
    mt_alloc_put(kv->alloc, &d->mem[1], NULL);
}

const mt_kv_ops mt_kv_doubling = {
    .traits = { .name = "doubling",
                .syntax = "doubling[:N]",
                .help = "one K and one V for all layers, of N tokens (256), doubled when full",
                .takes = true,
                .standard = 256,
                .repeats = true,
                .stays = true },
    .size = sizeof(doubling),
    .room = doubling_room,
    .capacity = doubling_capacity,
    .bytes = doubling_bytes,
    .close = doubling_close,
};
