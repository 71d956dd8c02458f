/* paged.c - pages of N tokens, requested as sequences need them.
 *
 * A page holds the keys of N tokens of one sequence in one layer, then their values: one request of
 * 2 N row bytes. Nothing is copied and nothing is freed before the end; at most N - 1 rows a
 * sequence are reached by no token yet. Kernels find pages through a table [L, B, pages] in device
 * memory, requested once at the first update (tag other). A step that is repeated finds its pages
 * there. */
#include "engine/kv/kv.h"

#include <stdlib.h>

typedef struct paged {
    mt_kv base;
    uint32_t pages; /* per sequence, for the longest context */
    mt_mem *page;   /* [L][B][pages]; handle 0: not requested yet */
    mt_mem table;   /* the same as pointers, in device memory */
} paged;

static uint64_t pages_of(const mt_kv *kv, uint64_t tokens) {
    return (tokens + kv->n - 1) / kv->n;
}

static mt_status records(paged *p, mt_error *err) {
    mt_kv *kv = &p->base;
    p->pages = (uint32_t)pages_of(kv, kv->ctx);
    size_t count = (size_t)kv->layers * kv->batch * p->pages;
    mt_request r = { .bytes = count * sizeof(float *), .tag = MT_OTHER, .layer = -1 };
    if (p->page == NULL)
        p->page = calloc(count, sizeof *p->page);
    if (p->page == NULL)
        return mt_no_memory(err, "a cache's records");
    return p->table.handle != 0 ? MT_OK : mt_alloc_get(kv->alloc, &r, &p->table, err);
}

/* Requests those pages of a layer and sequence from number `from` to `to` that are not there yet,
 * and enters them. */
static mt_status add_pages(paged *p, uint32_t layer, uint32_t sequence, uint64_t from, uint64_t to,
                           mt_error *err) {
    mt_kv *kv = &p->base;
    size_t row = ((size_t)layer * kv->batch + sequence) * p->pages;
    mt_request r = { .bytes = 2 * kv->n * kv->row, .tag = MT_KV, .layer = (int32_t)layer };
    for (uint64_t i = from; i < to; i++) {
        mt_mem *m = &p->page[row + i];
        if (m->handle != 0)
            continue;
        MT_TRY(mt_alloc_get(kv->alloc, &r, m, err));
        kv->device->copy_in(kv->device, (void **)p->table.ptr + row + i, &m->ptr, sizeof m->ptr);
    }
    return MT_OK;
}

static mt_status paged_room(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, mt_kv_view *view,
                            mt_error *err) {
    paged *p = (paged *)kv;
    MT_TRY(records(p, err));
    for (uint32_t b = 0; b < kv->batch; b++)
        MT_TRY(add_pages(p, layer, b, first / kv->n, pages_of(kv, (uint64_t)first + T), err));
    *view =
        (mt_kv_view){ .pages = (float *const *)p->table.ptr + (size_t)layer * kv->batch * p->pages,
                      .page_tokens = (uint32_t)kv->n,
                      .pages_per_sequence = p->pages };
    return MT_OK;
}

static uint64_t paged_bytes(const mt_kv *kv, uint64_t ctx) {
    return kv->batch * pages_of(kv, ctx) * kv->n * 2 * kv->layers * kv->row;
}

static void paged_close(mt_kv *kv) {
    paged *p = (paged *)kv;
    size_t count = (size_t)kv->layers * kv->batch * p->pages;
    for (size_t i = 0; p->page != NULL && i < count; i++)
        mt_alloc_put(kv->alloc, &p->page[i], NULL);
    mt_alloc_put(kv->alloc, &p->table, NULL);
    free(p->page);
}

const mt_kv_ops mt_kv_paged = {
    .traits = { .name = "paged",
                .syntax = "paged:N",
                .help = "a page of N tokens per layer and sequence, whenever one is full",
                .takes = true,
                .repeats = true,
                .sized_by_ctx = true },
    .size = sizeof(paged),
    .room = paged_room,
    .bytes = paged_bytes,
    .close = paged_close,
};
