/* kv.c - the list of strategies, and what they have in common. */
#include "engine/kv/kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static const mt_kv_ops *const strategies[] = { &mt_kv_concat,   &mt_kv_concat_tuple, &mt_kv_static,
                                               &mt_kv_doubling, &mt_kv_paged,        &mt_kv_none };

#define STRATEGIES (sizeof strategies / sizeof *strategies)

/* ---- the list -------------------------------------------------------------------------------- */

static const mt_kv_ops *find(const char *spec) {
    size_t n = strcspn(spec, ":");
    for (size_t i = 0; i < STRATEGIES; i++) {
        const char *name = strategies[i]->traits.name;
        if (strlen(name) == n && strncmp(name, spec, n) == 0)
            return strategies[i];
    }
    return NULL;
}

const mt_kv_traits *mt_kv_find(const char *spec) {
    const mt_kv_ops *ops = find(spec);
    return ops != NULL ? &ops->traits : NULL;
}

const mt_kv_traits *mt_kv_nth(size_t i) {
    return i < STRATEGIES ? &strategies[i]->traits : NULL;
}

static mt_status unknown(const char *spec, mt_error *err) {
    char known[256];
    size_t n = 0;
    for (size_t i = 0; i < STRATEGIES && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "",
                              strategies[i]->traits.syntax);
    return mt_fail(err, MT_BAD, "unknown cache strategy '%.100s'; known: %s", spec, known);
}

/* What stands after the colon, by the strategy's table. */
static mt_status read_argument(const mt_kv_traits *t, const char *spec, uint64_t *n,
                               mt_error *err) {
    const char *colon = strchr(spec, ':');
    *n = t->standard;
    if (colon == NULL && (!t->takes || t->standard > 0))
        return MT_OK;
    if (!t->takes)
        return mt_fail(err, MT_BAD, "cache strategy '%.100s': %s takes no argument", spec, t->name);
    if (colon == NULL || !mt_parse_u64(colon + 1, 1, MT_KV_MOST, n))
        return mt_fail(err, MT_BAD,
                       "cache strategy '%.100s': expected %s, N from 1 to %d tokens, for example "
                       "%s:16",
                       spec, t->syntax, MT_KV_MOST, t->name);
    return MT_OK;
}

static mt_status read_spec(const mt_kv_ops **out, const char *spec, uint64_t *n, mt_error *err) {
    *out = find(spec);
    return *out != NULL ? read_argument(&(*out)->traits, spec, n, err) : unknown(spec, err);
}

mt_status mt_kv_check(const char *spec, mt_error *err) {
    const mt_kv_ops *ops;
    uint64_t n;
    return read_spec(&ops, spec, &n, err);
}

uint64_t mt_kv_capacity(const char *spec, uint64_t P) {
    const mt_kv_ops *ops;
    mt_kv kv = { 0 };
    mt_error err;
    if (read_spec(&ops, spec, &kv.n, &err) != MT_OK || ops->capacity == NULL)
        return 0;
    return ops->capacity(&kv, P);
}

/* ---- a cache --------------------------------------------------------------------------------- */

mt_status mt_kv_open(mt_kv **out, const char *spec, const mt_config *c, uint32_t batch,
                     uint32_t ctx, mt_alloc *alloc, mt_device *device, mt_error *err) {
    const mt_kv_ops *ops;
    uint64_t n;
    MT_TRY(read_spec(&ops, spec, &n, err));
    mt_kv *kv = calloc(1, ops->size);
    if (kv == NULL)
        return mt_no_memory(err, "a cache's records");
    *kv = (mt_kv){ .ops = ops,
                   .traits = ops->traits,
                   .alloc = alloc,
                   .device = device,
                   .layers = c->layers,
                   .batch = batch,
                   .width = c->width,
                   .ctx = ctx,
                   .row = (uint64_t)c->width * mt_dtype_bytes(c->dtype),
                   .n = n };
    *out = kv;
    return MT_OK;
}

void mt_kv_close(mt_kv *kv) {
    if (kv != NULL && kv->ops->close != NULL)
        kv->ops->close(kv);
    free(kv);
}

mt_status mt_kv_update(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, const float *qkv,
                       mt_kv_view *view, mt_error *err) {
    MT_TRY(kv->ops->room(kv, layer, first, T, view, err));
    return mt_kv_write(kv, layer, first, T, qkv, view, err);
}

mt_status mt_kv_write(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, const float *qkv,
                      mt_kv_view *view, mt_error *err) {
    if (kv->ops->write != NULL)
        return kv->ops->write(kv, layer, first, T, qkv, view, err);
    kv->device->kv_write(kv->device, view, qkv, kv->batch, T, first, kv->width);
    return MT_OK;
}

uint32_t mt_kv_position(const mt_kv *kv, uint32_t first, uint32_t T) {
    return kv->ops->position != NULL ? kv->ops->position(kv, first, T) : first;
}

void mt_kv_end(mt_kv *kv) {
    if (kv->ops->end != NULL)
        kv->ops->end(kv);
}

void mt_kv_token(const mt_kv_view *v, uint32_t sequence, uint32_t token, uint32_t width, float **k,
                 float **value) {
    if (v->pages == NULL) {
        size_t at = sequence * v->sequence + token * v->row;
        *k = v->k + at;
        *value = v->v + at;
        return;
    }
    float *page = v->pages[(size_t)sequence * v->pages_per_sequence + token / v->page_tokens];
    *k = page + (size_t)(token % v->page_tokens) * width;
    *value = *k + (size_t)v->page_tokens * width;
}
