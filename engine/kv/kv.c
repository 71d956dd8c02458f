/* kv.c - the list of strategies. */
#include "engine/kv/kv.h"

#include <stdio.h>
#include <string.h>

static const mt_kv_ops *const strategies[] = { &mt_kv_concat,   &mt_kv_concat_tuple, &mt_kv_static,
                                               &mt_kv_doubling, &mt_kv_paged,        &mt_kv_none };

/* The strategy of a spec; *argument: the text after ':', NULL if there is none. */
static const mt_kv_ops *find(const char *spec, const char **argument) {
    size_t n = strcspn(spec, ":");
    *argument = spec[n] == ':' ? spec + n + 1 : NULL;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        if (strlen(strategies[i]->name) == n && strncmp(strategies[i]->name, spec, n) == 0)
            return strategies[i];
    return NULL;
}

static mt_status open_strategy(mt_kv **out, const char *spec, mt_error *err) {
    const char *argument;
    const mt_kv_ops *ops = find(spec, &argument);
    if (ops == NULL)
        return mt_fail(err, MT_BAD,
                       "kv strategy %.60s: expected concat, concat-tuple, static, doubling[:N], "
                       "paged:N or none",
                       spec);
    MT_TRY(ops->open(out, argument, err));
    (*out)->ops = ops;
    snprintf((*out)->name, sizeof(*out)->name, "%s", spec);
    return MT_OK;
}

mt_status mt_kv_open(mt_kv **out, const char *spec, const mt_config *c, uint32_t batch,
                     uint32_t ctx, mt_alloc *alloc, mt_device *device, mt_error *err) {
    MT_TRY(open_strategy(out, spec, err));
    mt_kv *kv = *out;
    kv->alloc = alloc;
    kv->device = device;
    kv->layers = c->layers;
    kv->batch = batch;
    kv->width = c->width;
    kv->ctx = ctx;
    kv->row = (uint64_t)c->width * mt_dtype_bytes(c->dtype);
    return MT_OK;
}

mt_status mt_kv_check(const char *spec, mt_error *err) {
    mt_kv *kv;
    MT_TRY(open_strategy(&kv, spec, err));
    kv->ops->close(kv);
    return MT_OK;
}

bool mt_kv_again(const char *spec) {
    const char *argument;
    const mt_kv_ops *ops = find(spec, &argument);
    return ops != NULL && ops->again;
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
