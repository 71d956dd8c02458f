/* attention.c - attention: one operation at a time (eager), or in one call of
 * scaled_dot_product_attention (sdpa), which chooses among three kernels:
 *
 *     flash      16-bit types, no mask, heads up to 256 wide
 *     efficient  rows of a head aligned to 16 bytes
 *     math       else: the operations one by one, 16-bit types widened to 32 bits on the way
 *
 * All shapes are [B, H, ...]. Queries are always a part of c_attn's output [B, Q, 3C], and so are
 * keys and values without a cache: batch and heads of such a part are two dimensions with unrelated
 * strides, unless there is one sequence or one head. */
#include "predict/internal.h"

#include "base/size.h"

#define FLASH_WIDEST 256

/* Bytes of queries, keys or values, scores. */
static uint64_t query_size(const pass *t, uint64_t element) {
    return BYTES(t->B, t->H, t->Q, t->D, element);
}

static uint64_t key_size(const pass *t, uint64_t element) {
    return BYTES(t->B, t->H, t->T, t->D, element);
}

static uint64_t score_size(const pass *t, uint64_t element) {
    return BYTES(t->B, t->H, t->Q, t->T, element);
}

static mt_mem make(pass *t, uint64_t bytes) {
    return pass_new(t, MT_ACTIVATIONS, bytes);
}

/* Whether a part of c_attn's output must be copied before batch and heads can be one dimension. */
static bool parts_scatter(const pass *t) {
    return t->B > 1 && t->H > 1;
}

/* The same of the result of an operation on such a part: its tokens lie between the two, closely
 * packed, so that a single token does no harm. */
static bool results_scatter(const pass *t) {
    return parts_scatter(t) && t->Q > 1;
}

static bool keys_are_parts(const pass *t) {
    return t->o->cache == MT_CACHE_NONE;
}

/* [B, H, Q, D] in that order becomes [B, Q, H, D]: a copy, unless one of the two moved dimensions
 * is 1. */
static void heads_together(pass *t, mt_mem *out) {
    if (t->Q > 1 && t->H > 1)
        pass_replace(t, out, pass_rows(t, t->C));
}

/* ---- eager ----------------------------------------------------------------------------------- */

static mt_mem eager(pass *t, mt_mem *weights) {
    uint64_t copied_key = keys_are_parts(t) && parts_scatter(t) ? key_size(t, t->E) : 0;
    uint64_t copied_query = parts_scatter(t) ? query_size(t, t->E) : 0;
    mt_mem x = pass_bmm(t, copied_query, copied_key, score_size(t, t->E));
    pass_replace(t, &x, make(t, score_size(t, t->E))); /* times the scale */
    pass_replace(t, &x, make(t, score_size(t, t->E))); /* plus the mask */
    pass_replace(t, &x, make(t, score_size(t, t->E))); /* softmax */
    *weights = x;
    mt_mem out = pass_bmm(t, 0, copied_key, query_size(t, t->E));
    heads_together(t, &out);
    return out;
}

/* ---- flash ----------------------------------------------------------------------------------- */

/* How many parts the keys are divided into, so that thread blocks fill the device, by the rule of
 * FlashAttention's num_splits_heuristic: the fewest that fill the last wave to 85 % of the best
 * possible. tiles: blocks without a division; parts of which
 * the largest is no smaller than with one part fewer do not count. */
static uint64_t key_parts(uint64_t tiles, uint64_t slots, uint64_t key_blocks) {
    uint64_t most = 128;
    float best = 0;
    if ((float)tiles >= 0.8f * (float)slots)
        return 1;
    most = slots < most ? slots : most;
    most = key_blocks < most ? key_blocks : most;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t n = 1; n <= most; n++) {
            if (n > 1 && (key_blocks + n - 1) / n == (key_blocks + n - 2) / (n - 1))
                continue;
            uint64_t waves = (tiles * n + slots - 1) / slots;
            float used = (float)(tiles * n) / (float)slots / (float)waves;
            if (pass == 0 && used > best)
                best = used;
            if (pass == 1 && (double)used >= 0.85 * (double)best)
                return n;
        }
    return 1;
}

static uint64_t flash_parts(const pass *t, uint64_t head) {
    uint64_t block = head <= 64 ? 256 : head <= 128 ? 128 : 64;
    uint64_t tiles = BYTES(t->B, t->H, (t->Q + 63) / 64);
    return key_parts(tiles, 2 * predict_multiprocessors(t->o), (t->T + block - 1) / block);
}

/* Heads are widened with zeros to a multiple of 8 first. Beside the output there are the logarithm
 * of each row's sum, partial results when the keys are divided, and the state of a random generator
 * that no dropout asks for. */
static mt_mem flash(pass *t) {
    uint64_t head = mt_round_up(t->D, 8), padded = head != t->D;
    uint64_t part = mt_round_up(head, head <= 128 ? 32 : 64);
    uint64_t parts = flash_parts(t, head);
    mt_mem q = make(t, padded * BYTES(t->B, t->H, t->Q, head, t->E));
    mt_mem k = make(t, padded * BYTES(t->B, t->H, t->T, head, t->E));
    mt_mem v = make(t, padded * BYTES(t->B, t->H, t->T, head, t->E));
    mt_mem out = make(t, BYTES(t->B, t->Q, t->H, head, t->E));
    mt_mem sums = make(t, BYTES(t->B, t->H, t->Q, FLOAT_BYTES));
    uint64_t part_sums = parts > 1 ? BYTES(parts, t->B, t->H, t->Q, FLOAT_BYTES) : 0;
    mt_mem sums_of_parts = make(t, part_sums);
    mt_mem out_of_parts = make(t, BYTES(part_sums, part));
    mt_mem random_state = make(t, 2 * LONG_BYTES);
    mt_mem unused = make(t, LONG_BYTES);
    pass_drop(t, &sums_of_parts);
    pass_drop(t, &out_of_parts);
    pass_drop(t, &sums);
    pass_drop(t, &random_state);
    pass_drop(t, &unused);
    pass_drop(t, &v);
    pass_drop(t, &k);
    pass_drop(t, &q);
    if (padded && t->B * t->H * t->Q > 1) /* a view of rows with gaps becomes contiguous */
        pass_replace(t, &out, pass_rows(t, t->C));
    return out;
}

/* ---- the mask -------------------------------------------------------------------------------- */

/* A mask of truth values [rows, T] becomes one to add: 0 or minus infinity, chosen between two
 * numbers that are tensors themselves. */
static mt_mem additive_mask(pass *t, uint64_t rows, uint64_t element) {
    mt_mem infinity = make(t, element);
    mt_mem zero = make(t, element);
    mt_mem mask = make(t, BYTES(rows, t->T, element));
    pass_drop(t, &zero);
    pass_drop(t, &infinity);
    return mask;
}

/* ---- efficient ------------------------------------------------------------------------------- */

/* Rows of a mask begin at multiples of 8 elements, or it is copied to wider rows. Heads wider than
 * 128 gather their sums in memory, which is extra memory when the output's type is narrower. */
static mt_mem efficient(pass *t) {
    mt_mem mask = { 0 };
    if (t->masked) {
        mask = additive_mask(t, t->B * t->Q, t->E);
        if (t->T % 8 != 0)
            pass_replace(t, &mask, make(t, BYTES(t->B, t->Q, mt_round_up(t->T, 8), t->E)));
    }
    /* The state of a random generator that no dropout asks for; up to 2.11 not on the device. */
    uint64_t state = t->o->release == MT_TORCH_2_11 ? 0 : LONG_BYTES;
    mt_mem seed = make(t, state);
    mt_mem offset = make(t, state);
    mt_mem out = pass_rows(t, t->C);
    if (t->D > 128 && t->E < FLOAT_BYTES)
        pass_scratch(t, query_size(t, FLOAT_BYTES));
    pass_drop(t, &seed);
    pass_drop(t, &offset);
    pass_drop(t, &mask);
    return out;
}

/* ---- math ------------------------------------------------------------------------------------ */

/* Softmax, then 0 in rows whose scores are all minus infinity. */
static mt_mem safe_softmax(pass *t, mt_mem *scores) {
    mt_mem out = make(t, score_size(t, FLOAT_BYTES));
    mt_mem infinite = make(t, score_size(t, BOOL_BYTES));
    mt_mem all = make(t, BYTES(t->B, t->H, t->Q, BOOL_BYTES));
    mt_mem zero = make(t, FLOAT_BYTES);
    pass_drop(t, &zero);
    pass_drop(t, &all);
    pass_drop(t, &infinite);
    pass_drop(t, scores);
    return out;
}

/* Ones, and of them the lower triangle. */
static mt_mem causal_mask(pass *t) {
    mt_mem ones = make(t, BYTES(t->Q, t->T, BOOL_BYTES));
    mt_mem triangle = make(t, BYTES(t->Q, t->T, BOOL_BYTES));
    pass_drop(t, &ones);
    mt_mem mask = additive_mask(t, t->Q, FLOAT_BYTES);
    pass_drop(t, &triangle);
    return mask;
}

static mt_mem math(pass *t) {
    bool wide = t->E < FLOAT_BYTES;
    bool results = results_scatter(t), keys = keys_are_parts(t);
    bool copy_value = keys && (wide ? results : parts_scatter(t));
    uint64_t q = query_size(t, FLOAT_BYTES), k = key_size(t, FLOAT_BYTES);
    mt_mem mask = t->masked ? additive_mask(t, t->B * t->Q, t->E) : (mt_mem){ 0 };
    mt_mem query = make(t, wide * q), key = make(t, wide * k), value = make(t, wide * k);
    mt_mem scaled_query = make(t, q);
    mt_mem causal = !t->masked && t->Q > 1 ? causal_mask(t) : (mt_mem){ 0 };
    mt_mem scaled_key = make(t, k);
    mt_mem scores = pass_bmm(t, results * q, results && keys ? k : 0, score_size(t, FLOAT_BYTES));
    pass_drop(t, &scaled_key);
    mt_mem weights = safe_softmax(t, &scores); /* the mask is added in place */
    mt_mem narrow = make(t, wide * score_size(t, t->E));
    mt_mem out = pass_bmm(t, 0, copy_value * k, q);
    if (wide) {
        pass_replace(t, &out, make(t, query_size(t, t->E)));
        pass_drop(t, &weights);
    }
    pass_drop(t, &scaled_query);
    pass_drop(t, &causal);
    pass_drop(t, &value);
    pass_drop(t, &key);
    pass_drop(t, &query);
    pass_drop(t, wide ? &narrow : &weights);
    pass_drop(t, &mask);
    heads_together(t, &out);
    return out;
}

/* ---- the choice ------------------------------------------------------------------------------ */

bool predict_needs_cudnn(const mt_predict_options *o) {
    bool prefers = o->cc / 10 == 9 || o->cc / 10 == 10;
    return o->attn == MT_ATTN_SDPA && o->model.dtype != MT_F32 && prefers;
}

mt_mem pass_attention(pass *t, mt_mem *weights) {
    *weights = (mt_mem){ 0 };
    if (t->o->attn == MT_ATTN_EAGER)
        return eager(t, weights);
    if (t->E < FLOAT_BYTES && !t->masked && t->D <= FLASH_WIDEST)
        return flash(t);
    if (t->D * t->E % 16 == 0)
        return efficient(t);
    return math(t);
}
