/* forward.c - GPT-2's forward pass, as a recipe.
 *
 *     x  = wte[id] + wpe[place]
 *     for each layer:
 *         x += proj(attention(qkv(ln1(x)), cache))
 *         x += fcp(gelu(fc(ln2(x))))
 *     logits = head(lnf(x)),   next = argmax(logits)
 *
 * Buffers are taken when they are needed and given back after their last use; a step's logits live
 * until the next step's exist. */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"

/* All activations of a pass. */
typedef struct buffers {
    mt_act ids;     /* [R] int32: tokens in, later the most likely next ones */
    mt_act x;       /* [R, C]: the residual stream */
    mt_act h;       /* [R, C]: normalised; of the head: [rows, C] */
    mt_act qkv;     /* [R, 3C]: queries, keys, values */
    mt_act scratch; /* of the attention, see mt_attention_scratch */
    mt_act att;     /* [R, C]: attention's output */
    mt_act fc;      /* [R, inner]: the MLP's hidden layer */
} buffers;

/* What a pass works with, so that the recipe stays short. */
typedef struct pass {
    mt_engine *e;
    mt_acts *acts;
    mt_device *d;
    const mt_config *c;
    uint32_t B, T, R, first;
    uint64_t element; /* bytes of an activation's element */
    bool records;     /* the device records: ids are copied in and out at each replay */
    buffers b;
} pass;

static mt_status get(pass *p, mt_act *act, uint64_t rows, uint64_t cols, int32_t layer,
                     mt_error *err) {
    return mt_acts_get(p->acts, act, rows * cols * p->element, layer, err);
}

static mt_status embed(pass *p, const int32_t *ids, mt_error *err) {
    const mt_weights *w = &p->e->model->weights;
    const mt_config *c = p->c;
    uint64_t bytes = p->R * sizeof(int32_t);
    uint32_t place = mt_kv_position(p->e->kv, p->first, p->T);
    MT_TRY(mt_acts_get(p->acts, &p->b.ids, bytes, -1, err));
    MT_TRY(get(p, &p->b.x, p->R, c->width, -1, err));
    if (p->records)
        p->e->recording.in = p->b.ids.ptr;
    else
        p->d->copy_in(p->d, p->b.ids.ptr, ids, bytes);
    p->d->embed(p->d, p->b.x.ptr, p->b.ids.ptr, w->wte, w->wpe, p->B, p->T, place, c->width,
                c->vocab);
    mt_acts_put(p->acts, &p->b.ids);
    return MT_OK;
}

/* Where this layer's keys and values lie, with the pass's own written. */
static mt_status cache(pass *p, uint32_t l, mt_kv_view *view, mt_error *err) {
    if (p->acts->mode == MT_PLAN)
        return MT_OK;
    return mt_kv_update(p->e->kv, l, p->first, p->T, p->b.qkv.ptr, view, err);
}

static mt_status attention(pass *p, uint32_t l, mt_error *err) {
    const mt_layer_weights *w = &p->e->model->weights.layer[l];
    const mt_config *c = p->c;
    uint32_t C = c->width, D = C / c->heads;
    uint64_t scratch = mt_attention_scratch(p->B, p->T, p->first, c->heads, D);
    int32_t layer = (int32_t)l;
    mt_kv_view view = { 0 };
    buffers *b = &p->b;

    MT_TRY(get(p, &b->h, p->R, C, layer, err));
    p->d->layernorm(p->d, b->h.ptr, b->x.ptr, C, w->ln1_w, w->ln1_b, p->R, C, c->epsilon);
    MT_TRY(get(p, &b->qkv, p->R, 3 * (uint64_t)C, layer, err));
    p->d->linear(p->d, b->qkv.ptr, b->h.ptr, w->attn_w, w->attn_b, p->R, 3 * C, C, MT_STORE);
    mt_acts_put(p->acts, &b->h);

    MT_TRY(cache(p, l, &view, err));

    MT_TRY(mt_acts_get(p->acts, &b->scratch, scratch, layer, err));
    MT_TRY(get(p, &b->att, p->R, C, layer, err));
    p->d->attention(p->d, b->att.ptr, b->qkv.ptr, &view, p->B, p->T, p->first, c->heads, D,
                    b->scratch.ptr);
    mt_acts_put(p->acts, &b->scratch);
    mt_acts_put(p->acts, &b->qkv);

    p->d->linear(p->d, b->x.ptr, b->att.ptr, w->proj_w, w->proj_b, p->R, C, C, MT_ADD);
    mt_acts_put(p->acts, &b->att);
    return MT_OK;
}

static mt_status mlp(pass *p, uint32_t l, mt_error *err) {
    const mt_layer_weights *w = &p->e->model->weights.layer[l];
    const mt_config *c = p->c;
    uint32_t C = c->width;
    int32_t layer = (int32_t)l;
    buffers *b = &p->b;

    MT_TRY(get(p, &b->h, p->R, C, layer, err));
    p->d->layernorm(p->d, b->h.ptr, b->x.ptr, C, w->ln2_w, w->ln2_b, p->R, C, c->epsilon);
    MT_TRY(get(p, &b->fc, p->R, c->inner, layer, err));
    p->d->linear(p->d, b->fc.ptr, b->h.ptr, w->fc_w, w->fc_b, p->R, c->inner, C, MT_GELU);
    mt_acts_put(p->acts, &b->h);

    p->d->linear(p->d, b->x.ptr, b->fc.ptr, w->fcp_w, w->fcp_b, p->R, C, c->inner, MT_ADD);
    mt_acts_put(p->acts, &b->fc);
    return MT_OK;
}

/* New logits for `rows` rows; the old ones are freed once the new exist. An arena run keeps the
 * block that it requested for its largest step. */
static mt_status new_logits(pass *p, uint32_t rows, mt_error *err) {
    mt_engine *e = p->e;
    if (p->acts->mode == MT_PLAN)
        return MT_OK;
    if (!e->options.arena) {
        mt_request r = { .bytes = rows * (uint64_t)p->c->vocab * p->element,
                         .tag = MT_LOGITS,
                         .layer = -1 };
        mt_mem fresh;
        MT_TRY(mt_alloc_get(e->alloc, &r, &fresh, err));
        mt_alloc_put(e->alloc, &e->logits, NULL);
        e->logits = fresh;
    }
    e->logits_rows = rows;
    return MT_OK;
}

static mt_status head(pass *p, int32_t *next, mt_error *err) {
    const mt_weights *w = &p->e->model->weights;
    const mt_config *c = p->c;
    bool all = p->e->options.logits_all;
    uint32_t C = c->width, rows = all ? p->R : p->B;
    size_t stride = all ? C : (size_t)p->T * C;
    const float *x = (const float *)p->b.x.ptr + (all ? 0 : (size_t)(p->T - 1) * C);
    buffers *b = &p->b;

    MT_TRY(get(p, &b->h, rows, C, -1, err));
    p->d->layernorm(p->d, b->h.ptr, x, stride, w->lnf_w, w->lnf_b, rows, C, c->epsilon);
    mt_acts_put(p->acts, &b->x);

    MT_TRY(new_logits(p, rows, err));
    p->d->linear(p->d, p->e->logits.ptr, b->h.ptr, w->head, NULL, rows, c->vocab, C, MT_STORE);
    mt_acts_put(p->acts, &b->h);

    MT_TRY(mt_acts_get(p->acts, &b->ids, rows * sizeof(int32_t), -1, err));
    p->d->argmax(p->d, b->ids.ptr, p->e->logits.ptr, rows, c->vocab);
    if (p->records)
        p->e->recording.out = b->ids.ptr;
    for (uint32_t i = 0; i < p->B && !p->records; i++) {
        uint32_t last = all ? (i + 1) * p->T - 1 : i;
        p->d->copy_out(p->d, &next[i], (int32_t *)b->ids.ptr + last, sizeof *next);
    }
    mt_acts_put(p->acts, &b->ids);
    return MT_OK;
}

static void begin(pass *p, const char *range) {
    if (p->d->range_begin != NULL)
        p->d->range_begin(p->d, range);
}

static void end(pass *p) {
    if (p->d->range_end != NULL)
        p->d->range_end(p->d);
}

/* A pass may take seconds: it ends before the next layer when someone asks for it. */
static mt_status layer(pass *p, uint32_t l, mt_error *err) {
    char name[24];
    if (mt_interrupted())
        return mt_fail(err, MT_INTERRUPTED, "interrupted");
    snprintf(name, sizeof name, "layer %u", l);
    begin(p, name);
    mt_status status = attention(p, l, err);
    if (status == MT_OK)
        status = mlp(p, l, err);
    end(p);
    return status;
}

static mt_status recipe(pass *p, const int32_t *ids, int32_t *next, mt_error *err) {
    MT_TRY(embed(p, ids, err));
    for (uint32_t l = 0; l < p->c->layers; l++)
        MT_TRY(layer(p, l, err));
    begin(p, "head");
    mt_status status = head(p, next, err);
    end(p);
    return status;
}

static pass new_pass(mt_engine *e, uint32_t T, uint32_t first) {
    return (pass){ .e = e,
                   .acts = &e->acts,
                   .d = e->device,
                   .c = &e->model->config,
                   .B = e->options.batch,
                   .T = T,
                   .R = e->options.batch * T,
                   .first = first,
                   .element = mt_dtype_bytes(e->model->config.dtype) };
}

mt_status mt_forward(mt_engine *e, const int32_t *ids, uint32_t T, uint32_t first, int32_t *next,
                     mt_error *err) {
    pass p = new_pass(e, T, first);
    mt_status status = recipe(&p, ids, next, err);
    if (status != MT_OK)
        mt_acts_put_all(&e->acts);
    mt_error late;
    mt_status sync = e->device->sync(e->device, &late);
    if (status == MT_OK && sync != MT_OK)
        return mt_fail(err, sync, "%s", late.text);
    return status;
}

mt_status mt_forward_record(mt_engine *e, uint32_t last, mt_error *err) {
    pass p = new_pass(e, 1, last);
    p.records = true;
    MT_TRY(e->device->record(e->device, err));
    mt_status status = recipe(&p, NULL, NULL, err);
    if (status != MT_OK)
        mt_acts_put_all(&e->acts);
    mt_error late;
    mt_status end = e->device->record_end(e->device, &late);
    if (status == MT_OK && end != MT_OK)
        return mt_fail(err, end, "%s", late.text);
    return status;
}
