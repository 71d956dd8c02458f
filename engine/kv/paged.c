/* paged.c - pages of N tokens, requested as sequences need them.
 *
 * A page holds the keys of N tokens of one sequence in one layer, then their values: one request of
 * 2 N row bytes. Nothing is copied and nothing is freed before the end; at most N - 1 rows a
 * sequence are reached by no token yet. Kernels find pages through a table [L, B, pages] in device
 * memory, requested once at the first update (tag other). */
#include "engine/kv/kv.h"

#include <stdlib.h>

#include "base/size.h"

typedef struct paged {
    mt_kv base;
    uint64_t tokens; /* N */
    uint32_t pages;  /* per sequence, for the longest context */
    mt_mem *page;    /* [L][B][pages] */
    mt_mem table;    /* the same as pointers, in device memory */
} paged;

static mt_status paged_open(mt_kv **out, const char *argument, mt_error *err) {
    uint64_t tokens;
    if (argument == NULL || !mt_parse_u64(argument, 1, MT_KV_MOST, &tokens))
        return mt_fail(
            err, MT_BAD,
            "kv strategy paged%s%.60s: expected paged:N, N from 1 to %d tokens a page, for "
            "example paged:16",
            argument != NULL ? ":" : "", argument != NULL ? argument : "", MT_KV_MOST);
    paged *p = calloc(1, sizeof *p);
    if (p == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a cache's records");
    p->tokens = tokens;
    *out = &p->base;
    return MT_OK;
}

static mt_status records(paged *p, mt_error *err) {
    mt_kv *kv = &p->base;
    if (p->page != NULL)
        return MT_OK;
    p->pages = (uint32_t)((kv->ctx + p->tokens - 1) / p->tokens);
    size_t count = (size_t)kv->layers * kv->batch * p->pages;
    p->page = calloc(count, sizeof *p->page);
    if (p->page == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a cache's records");
    mt_request r = { .bytes = count * sizeof(float *), .tag = MT_OTHER, .layer = -1 };
    return mt_alloc_get(kv->alloc, &r, &p->table, err);
}

/* Requests the pages of a layer and sequence from number `from` to `to`, and enters them. */
static mt_status add_pages(paged *p, uint32_t layer, uint32_t sequence, uint64_t from, uint64_t to,
                           mt_error *err) {
    mt_kv *kv = &p->base;
    size_t row = ((size_t)layer * kv->batch + sequence) * p->pages;
    mt_request r = { .bytes = 2 * p->tokens * kv->row, .tag = MT_KV, .layer = (int32_t)layer };
    for (uint64_t i = from; i < to; i++) {
        mt_mem *m = &p->page[row + i];
        MT_TRY(mt_alloc_get(kv->alloc, &r, m, err));
        kv->device->copy_in(kv->device, (void **)p->table.ptr + row + i, &m->ptr, sizeof m->ptr);
    }
    return MT_OK;
}

static mt_status paged_layer(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, float *qkv,
                             mt_kv_view *view, mt_error *err) {
    paged *p = (paged *)kv;
    (void)qkv;
    MT_TRY(records(p, err));
    uint64_t from = (first + p->tokens - 1) / p->tokens;
    uint64_t to = ((uint64_t)first + T + p->tokens - 1) / p->tokens;
    for (uint32_t b = 0; b < kv->batch; b++)
        MT_TRY(add_pages(p, layer, b, from, to, err));
    *view =
        (mt_kv_view){ .pages = (float *const *)p->table.ptr + (size_t)layer * kv->batch * p->pages,
                      .page_tokens = (uint32_t)p->tokens,
                      .pages_per_sequence = p->pages };
    return MT_OK;
}

static uint64_t paged_bytes(const mt_kv *kv, uint64_t ctx) {
    uint64_t n = ((const paged *)kv)->tokens;
    return kv->batch * ((ctx + n - 1) / n) * n * 2 * kv->layers * kv->row;
}

static void paged_close(mt_kv *kv) {
    paged *p = (paged *)kv;
    size_t count = (size_t)kv->layers * kv->batch * p->pages;
    for (size_t i = 0; p->page != NULL && i < count; i++)
        mt_alloc_put(kv->alloc, &p->page[i], NULL);
    mt_alloc_put(kv->alloc, &p->table, NULL);
    free(p->page);
    free(p);
}

const mt_kv_ops mt_kv_paged = { "paged",     paged_open,  paged_layer, NULL,
                                paged_bytes, paged_close, true };
