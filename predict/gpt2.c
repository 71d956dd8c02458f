/* gpt2.c - the model: GPT2LMHeadModel's modules, one function each. See gpt2.h.
 *
 * Read it beside the model's Python code. A local variable there holds its tensor until it is given
 * another value or its function returns, and at a return the locals go in the order in which they
 * first appear; an expression's parts go when the next operation has used them. That is all there
 * is to the order of the drops below. */
#include "predict/internal.h"

#include <stdlib.h>

#include "alloc/torch/torch.h"

/* ---- weights --------------------------------------------------------------------------------- */

static void weight(pass *t, uint64_t rows, uint64_t columns) {
    pass_new(t, MT_WEIGHTS, BYTES(rows, columns, t->E)); /* kept to the end */
}

/* model.to("cuda") moves one parameter after the other; the head shares wte unless it is untied. */
static void load(pass *t) {
    const mt_config *c = &t->o->model;
    weight(t, t->V, t->C);         /* wte */
    weight(t, c->positions, t->C); /* wpe */
    for (t->layer = 0; t->layer < (int32_t)c->layers; t->layer++) {
        weight(t, 1, t->C);        /* ln_1.weight */
        weight(t, 1, t->C);        /* ln_1.bias */
        weight(t, t->C, 3 * t->C); /* attn.c_attn.weight */
        weight(t, 1, 3 * t->C);    /* attn.c_attn.bias */
        weight(t, t->C, t->C);     /* attn.c_proj.weight */
        weight(t, 1, t->C);        /* attn.c_proj.bias */
        weight(t, 1, t->C);        /* ln_2.weight */
        weight(t, 1, t->C);        /* ln_2.bias */
        weight(t, t->C, t->F);     /* mlp.c_fc.weight */
        weight(t, 1, t->F);        /* mlp.c_fc.bias */
        weight(t, t->F, t->C);     /* mlp.c_proj.weight */
        weight(t, 1, t->C);        /* mlp.c_proj.bias */
    }
    t->layer = -1;
    weight(t, 1, t->C); /* ln_f.weight */
    weight(t, 1, t->C); /* ln_f.bias */
    if (!c->tied)
        weight(t, t->V, t->C); /* lm_head.weight */
}

/* ---- masks ----------------------------------------------------------------------------------- */

static mt_mem longs(pass *t, uint64_t rows, uint64_t columns) {
    return pass_new(t, MT_OTHER, BYTES(rows, columns, LONG_BYTES));
}

static mt_mem bools(pass *t, uint64_t rows, uint64_t columns) {
    return pass_new(t, MT_OTHER, BYTES(rows, columns, BOOL_BYTES));
}

/* torch.arange(n) + start */
static mt_mem range(pass *t, uint64_t n) {
    mt_mem x = longs(t, 1, n);
    pass_replace(t, &x, longs(t, 1, n));
    return x;
}

/* Without a cache or a mask the positions tell whether several texts are packed into one sequence:
 * differences to the one before that are not 1, summed along the row. None are, so nothing
 * stays. */
static void look_for_packed_texts(pass *t) {
    mt_mem first = longs(t, t->B, 1);       /* position_ids[:, :1] - 1 */
    mt_mem both = longs(t, t->B, t->Q + 1); /* put before position_ids */
    mt_mem difference = longs(t, t->B, t->Q);
    pass_drop(t, &both);
    mt_mem breaks = bools(t, t->B, t->Q); /* difference != 1 */
    mt_mem texts = pass_cumsum(t);
    pass_drop(t, &breaks);
    mt_mem single = bools(t, t->B, 1); /* last column == 0 */
    mt_mem all = bools(t, 1, 1);
    pass_drop(t, &single);
    pass_drop(t, &all);
    pass_drop(t, &first);
    pass_drop(t, &difference);
    pass_drop(t, &texts);
}

/* Which query may see which key, [Q, T]: an expression over four ranges of indices. */
static mt_mem truth_mask(pass *t) {
    mt_mem batch = longs(t, 1, t->B);
    mt_mem head = longs(t, 1, 1);
    mt_mem query = range(t, t->Q);
    mt_mem key = range(t, t->T);
    mt_mem mask = bools(t, t->Q, t->T);
    pass_drop(t, &batch);
    pass_drop(t, &head);
    pass_drop(t, &query);
    pass_drop(t, &key);
    return mask;
}

/* The same as numbers to add, one copy for each sequence: where(mask, 0, lowest). */
static mt_mem number_mask(pass *t) {
    mt_mem truth = truth_mask(t);
    mt_mem zero = pass_new(t, MT_OTHER, t->E);
    mt_mem lowest = pass_new(t, MT_OTHER, t->E);
    mt_mem mask = pass_new(t, MT_OTHER, BYTES(t->B, t->Q, t->T, t->E));
    pass_drop(t, &lowest);
    pass_drop(t, &zero);
    pass_drop(t, &truth);
    return mask;
}

static mt_mem causal_mask(pass *t) {
    if (t->o->cache == MT_CACHE_NONE)
        look_for_packed_texts(t);
    if (t->o->attn == MT_ATTN_EAGER)
        return number_mask(t);
    return t->masked ? truth_mask(t) : (mt_mem){ 0 };
}

/* ---- the cache ------------------------------------------------------------------------------- */

static uint64_t kv_size(const pass *t) {
    return BYTES(t->B, t->H, t->T, t->D, t->E);
}

/* DynamicCache: the old keys and the new ones are put together in a new tensor. */
static void update_dynamic(pass *t) {
    pass_replace(t, &t->key[t->layer], pass_new(t, MT_KV, kv_size(t)));
    pass_replace(t, &t->value[t->layer], pass_new(t, MT_KV, kv_size(t)));
}

/* StaticCache: keys and values for all positions, and a counter, at a layer's first update; then
 * rows are written in place, at indices that are a tensor. */
static void update_static(pass *t) {
    uint64_t bytes = BYTES(t->B, t->H, t->o->model.positions, t->D, t->E);
    if (t->key[t->layer].handle == 0) {
        t->key[t->layer] = pass_new(t, MT_KV, bytes);
        t->value[t->layer] = pass_new(t, MT_KV, bytes);
        t->cache_length[t->layer] = longs(t, 1, 1);
    }
    mt_mem position = range(t, t->Q);
    pass_drop(t, &position);
}

static void update_cache(pass *t) {
    if (t->o->cache == MT_CACHE_DYNAMIC)
        update_dynamic(t);
    else if (t->o->cache == MT_CACHE_STATIC)
        update_static(t);
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* Queries, keys and values are parts of one tensor, which lives until the function returns. */
static mt_mem attention(pass *t, mt_mem *weights) {
    mt_mem parts = pass_addmm(t, t->C, 3 * t->C); /* c_attn */
    update_cache(t);
    mt_mem x = pass_attention(t, weights);
    pass_replace(t, &x, pass_addmm(t, t->C, t->C)); /* c_proj */
    pass_drop(t, &parts);
    return x;
}

/* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), an operation at a time. */
static mt_mem gelu_new(pass *t) {
    mt_mem half = pass_rows(t, t->F);
    mt_mem inner = pass_rows(t, t->F);           /* x^3 */
    pass_replace(t, &inner, pass_rows(t, t->F)); /* times 0.044715 */
    pass_replace(t, &inner, pass_rows(t, t->F)); /* plus x */
    pass_replace(t, &inner, pass_rows(t, t->F)); /* times the root */
    pass_replace(t, &inner, pass_rows(t, t->F)); /* tanh */
    pass_replace(t, &inner, pass_rows(t, t->F)); /* plus 1 */
    mt_mem out = pass_rows(t, t->F);
    pass_drop(t, &half);
    pass_drop(t, &inner);
    return out;
}

static mt_mem mlp(pass *t) {
    mt_mem x = pass_addmm(t, t->C, t->F); /* c_fc */
    pass_replace(t, &x, gelu_new(t));
    pass_replace(t, &x, pass_addmm(t, t->F, t->C)); /* c_proj */
    return x;
}

static mt_mem block(pass *t) {
    mt_mem weights;
    mt_mem x = pass_layer_norm(t); /* ln_1 */
    mt_mem attended = attention(t, &weights);
    pass_replace(t, &x, pass_rows(t, t->C)); /* plus the block's input */
    mt_mem residual = x;
    x = pass_layer_norm(t); /* ln_2 */
    mt_mem fed = mlp(t);
    pass_replace(t, &x, pass_rows(t, t->C)); /* plus residual */
    pass_drop(t, &residual);
    pass_drop(t, &attended);
    pass_drop(t, &weights);
    pass_drop(t, &fed);
    return x;
}

/* ---- the model ------------------------------------------------------------------------------- */

static mt_mem transformer(pass *t) {
    mt_mem tokens = pass_rows(t, t->C); /* wte */
    mt_mem position_ids = range(t, t->Q);
    mt_mem positions = pass_new(t, MT_ACTIVATIONS, BYTES(t->Q, t->C, t->E)); /* wpe */
    mt_mem x = pass_rows(t, t->C);                                           /* their sum */
    mt_mem mask = causal_mask(t);
    for (t->layer = 0; t->layer < (int32_t)t->o->model.layers; t->layer++)
        pass_replace(t, &x, block(t));
    t->layer = -1;
    pass_replace(t, &x, pass_layer_norm(t)); /* ln_f */
    pass_drop(t, &position_ids);
    pass_drop(t, &tokens);
    pass_drop(t, &positions);
    pass_drop(t, &mask);
    return x;
}

/* The head computes the logits of every token, not of the last one only. */
static mt_mem language_model(pass *t) {
    mt_mem x = transformer(t);
    mt_mem logits = pass_new(t, MT_LOGITS, BYTES(t->B, t->Q, t->V, t->E));
    pass_call_blas(t);
    pass_drop(t, &x);
    return logits;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void shape_of(pass *t, const mt_predict_options *o) {
    const mt_config *c = &o->model;
    t->B = o->batch;
    t->H = c->heads;
    t->D = c->width / c->heads;
    t->C = c->width;
    t->F = c->inner;
    t->V = c->vocab;
    t->E = mt_dtype_bytes(c->dtype);
}

/* A pass of Q tokens, after which there are so many. A static cache always shows attention all its
 * positions and needs a mask for that; but the first pass of several tokens, which begins at
 * position 0, needs none with sdpa and then looks at its own keys only. */
static void length_of(pass *t, uint64_t query, uint64_t tokens) {
    bool first = query == tokens;
    bool own = t->o->attn == MT_ATTN_SDPA && first && query > 1;
    bool all = t->o->cache == MT_CACHE_STATIC && !own;
    t->Q = query;
    t->T = all ? t->o->model.positions : tokens;
    t->masked = all;
}

static mt_status report(pass *t, int64_t step, uint64_t tokens, mt_predict_on_row on_row,
                        void *context) {
    const mt_torch_stats *stats = mt_alloc_torch_stats(t->alloc);
    const mt_torch_stat *s = stats->pool[0];
    mt_predict_row row = {
        .step = step,
        .tokens = tokens,
        .allocated = s[MT_TORCH_allocated_bytes].current,
        .reserved = s[MT_TORCH_reserved_bytes].current,
        .requested = s[MT_TORCH_requested_bytes].current,
        .active = s[MT_TORCH_active_bytes].current,
        .inactive_split = s[MT_TORCH_inactive_split_bytes].current,
        .inactive_split_blocks = s[MT_TORCH_inactive_split].current,
        .segments = s[MT_TORCH_segment].current,
        .peak_allocated = s[MT_TORCH_allocated_bytes].peak,
        .peak_reserved = s[MT_TORCH_reserved_bytes].peak,
        .peak_requested = s[MT_TORCH_requested_bytes].peak,
        .allocs = s[MT_TORCH_allocation].allocated,
        .frees = s[MT_TORCH_allocation].freed,
        .device_allocs = stats->num_device_alloc,
        .device_frees = stats->num_device_free,
    };
    if (t->status == MT_OK) {
        mt_alloc_mark(t->alloc, tokens, tokens * t->B * mt_config_kv_bytes_per_token(&t->o->model),
                      0);
        mt_alloc_torch_reset_peaks(t->alloc);
        t->status = on_row(context, &row);
    }
    return t->status;
}

/* With a cache: the prompt, then each id that came out. */
static void decode(pass *t, mt_predict_on_row on_row, void *context) {
    uint64_t query = t->o->prompt, tokens = query;
    mt_mem ids = longs(t, t->B, query), logits = { 0 };
    for (int64_t step = 0; tokens <= t->o->ctx; step++, tokens++, query = 1) {
        length_of(t, query, tokens);
        pass_replace(t, &logits, language_model(t));
        pass_replace(t, &ids, pass_argmax(t));
        if (report(t, step, tokens, on_row, context) != MT_OK)
            return;
    }
}

/* Without one: whole contexts. */
static void read_contexts(pass *t, mt_predict_on_row on_row, void *context) {
    const mt_predict_options *o = t->o;
    size_t count = o->context_count > 0 ? o->context_count : o->ctx - o->prompt + 1;
    mt_mem ids = { 0 }, logits = { 0 };
    for (size_t i = 0; i < count; i++) {
        uint64_t n = o->context_count > 0 ? o->contexts[i] : o->prompt + i;
        length_of(t, n, n);
        pass_replace(t, &ids, longs(t, t->B, n));
        pass_replace(t, &logits, language_model(t));
        pass_replace(t, &ids, pass_argmax(t));
        if (report(t, (int64_t)i, n, on_row, context) != MT_OK)
            return;
    }
}

/* ---- checks and the run ---------------------------------------------------------------------- */

mt_status mt_predict_check(const mt_predict_options *o, mt_error *err) {
    uint32_t positions = o->model.positions;
    MT_TRY(mt_config_check(&o->model, err));
    if (o->batch == 0 || o->prompt == 0 || o->prompt > o->ctx)
        return mt_fail(err, MT_BAD, "a prompt of %u tokens does not fit a context of %u", o->prompt,
                       o->ctx);
    if (o->ctx > positions)
        return mt_fail(err, MT_BAD, "a context of %u: this model has %u positions", o->ctx,
                       positions);
    if (o->context_count > 0 && o->cache != MT_CACHE_NONE)
        return mt_fail(err, MT_BAD, "a list of contexts needs --cache none");
    for (size_t i = 0; i < o->context_count; i++)
        if (o->contexts[i] == 0 || o->contexts[i] > positions)
            return mt_fail(err, MT_BAD, "a context of %u: expected 1 to %u", o->contexts[i],
                           positions);
    if (o->model.width == o->model.heads)
        return mt_fail(err, MT_BAD,
                       "heads of a single element are not known here: expected a width of at least "
                       "twice the heads");
    if (predict_needs_cudnn(o))
        return mt_fail(err, MT_BAD,
                       "sdpa of %s at compute capability %u.%u runs in cuDNN, whose scratch memory "
                       "is not known: expected f32, eager attention or another capability",
                       mt_dtype_name(o->model.dtype), o->cc / 10, o->cc % 10);
    return MT_OK;
}

static mt_status open_cache(pass *t, mt_error *err) {
    size_t layers = t->o->model.layers;
    t->key = calloc(layers, sizeof *t->key);
    t->value = calloc(layers, sizeof *t->value);
    t->cache_length = calloc(layers, sizeof *t->cache_length);
    if (t->key == NULL || t->value == NULL || t->cache_length == NULL)
        return mt_no_memory(err, "the cache of a model");
    return MT_OK;
}

mt_status mt_predict_run(mt_alloc *a, const mt_predict_options *o, mt_predict_on_row on_row,
                         void *context, mt_error *err) {
    pass t = { .alloc = a, .o = o, .err = err, .layer = -1 };
    if (mt_alloc_torch_stats(a) == NULL)
        return mt_fail(err, MT_BAD, "policy %s: expected torch", mt_alloc_policy(a));
    MT_TRY(mt_predict_check(o, err));
    shape_of(&t, o);
    mt_status status = open_cache(&t, err);
    if (status == MT_OK) {
        load(&t);
        if (report(&t, -1, 0, on_row, context) == MT_OK) {
            if (o->cache == MT_CACHE_NONE)
                read_contexts(&t, on_row, context);
            else
                decode(&t, on_row, context);
        }
        status = t.status;
    }
    free(t.key);
    free(t.value);
    free(t.cache_length);
    return status;
}
