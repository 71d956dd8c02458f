/* torch.c - operations of PyTorch, as far as they take memory. See hf_internal.h. */
#include "predict/internal.h"

#include "base/size.h"

/* ---- the verbs ------------------------------------------------------------------------------ */

uint64_t hf_product(const uint64_t *factor, size_t count) {
    uint64_t product = 1;
    for (size_t i = 0; i < count; i++)
        if (!mt_mul(product, factor[i], &product))
            return UINT64_MAX;
    return product;
}

mt_mem hf_new(hf *t, mt_tag tag, uint64_t bytes) {
    mt_mem m = { 0 };
    mt_request r = { .bytes = bytes, .tag = tag, .layer = t->layer };
    if (t->status == MT_OK)
        t->status = mt_alloc_get(t->alloc, &r, &m, t->err);
    return m;
}

void hf_drop(hf *t, mt_mem *m) {
    if (t->status == MT_OK)
        t->status = mt_alloc_put(t->alloc, m, t->err);
}

void hf_scratch(hf *t, uint64_t bytes) {
    mt_mem m = hf_new(t, MT_ACTIVATIONS, bytes);
    hf_drop(t, &m);
}

mt_mem hf_rows(hf *t, uint64_t width) {
    return hf_new(t, MT_ACTIVATIONS, HF_SIZE(t->B, t->Q, width, t->E));
}

void hf_replace(hf *t, mt_mem *x, mt_mem next) {
    hf_drop(t, x);
    *x = next;
}

/* ---- products ------------------------------------------------------------------------------- */

/* cuBLASLt adds the bias on the way, but takes no weight of a single row or column: then the bias
 * is spread over the result first and cuBLAS adds the product. */
mt_mem hf_addmm(hf *t, uint64_t from, uint64_t to) {
    mt_mem out = hf_rows(t, to);
    if (from > 1 && to > 1)
        hf_call_lt(t);
    else
        hf_call_blas(t);
    return out;
}

mt_mem hf_bmm(hf *t, uint64_t left_copy, uint64_t right_copy, uint64_t bytes) {
    mt_mem left = hf_new(t, MT_ACTIVATIONS, left_copy);
    mt_mem right = hf_new(t, MT_ACTIVATIONS, right_copy);
    mt_mem out = hf_new(t, MT_ACTIVATIONS, bytes);
    hf_call_blas(t);
    hf_drop(t, &right);
    hf_drop(t, &left);
    return out;
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* The kernel also writes mean and deviation of each row, for a backward pass that never comes. */
mt_mem hf_layer_norm(hf *t) {
    mt_mem out = hf_rows(t, t->C);
    mt_mem mean = hf_new(t, MT_ACTIVATIONS, HF_SIZE(t->B, t->Q, HF_FLOAT));
    mt_mem deviation = hf_new(t, MT_ACTIVATIONS, HF_SIZE(t->B, t->Q, HF_FLOAT));
    hf_drop(t, &mean);
    hf_drop(t, &deviation);
    return out;
}

/* Scratch of a scan over one row: a word of 16 bytes for each tile of 896 numbers and for 32 tiles
 * before the first, and a counter, each rounded up to 256 bytes, and room to align the start. */
static uint64_t scan_scratch(uint64_t n) {
    uint64_t tiles = (n + 895) / 896;
    return mt_round_up((tiles + 32) * 16, 256) + 256 + 255;
}

/* Running sum of truth values [B, Q] along each row: they become numbers first. Several rows need
 * no scratch. */
mt_mem hf_cumsum(hf *t) {
    mt_mem sum = hf_new(t, MT_ACTIVATIONS, HF_SIZE(t->B, t->Q, HF_LONG));
    mt_mem numbers = hf_new(t, MT_ACTIVATIONS, HF_SIZE(t->B, t->Q, HF_LONG));
    if (t->B == 1)
        hf_scratch(t, scan_scratch(t->Q));
    hf_drop(t, &numbers);
    return sum;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t ceiling(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

uint64_t hf_multiprocessors(const mt_hf_options *o) {
    static const struct {
        uint32_t cc, count;
    } usual[] = { { 80, 108 }, { 86, 84 }, { 89, 128 }, { 90, 132 }, { 100, 148 }, { 120, 170 } };
    if (o->multiprocessors > 0)
        return o->multiprocessors;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (usual[i].cc == o->cc)
            return usual[i].count;
    return 84;
}

/* How many thread blocks share one row of n numbers in a reduction to B results: 1 as long as none
 * of the 512 threads of a block has more than 255 numbers. Beyond that, as many as fill the device,
 * but with at least 16 numbers a thread and, if need be, so many that none has more than 256. */
static uint64_t blocks_per_row(const hf *t, uint64_t n) {
    uint32_t cc = t->o->cc;
    uint64_t threads = cc == 86 || cc == 89 || cc == 120 ? 1536 : 2048;
    uint64_t fill = hf_multiprocessors(t->o) * (threads / 512), each = ceiling(n, 512);
    if (each < 256 || t->B > fill)
        return 1;
    return most(least(ceiling(fill, t->B), ceiling(each, 16)), ceiling(each, 256));
}

/* The most likely id of each sequence. When several thread blocks share a row they leave their
 * candidates, value and index, in scratch memory, and count themselves in another. */
mt_mem hf_argmax(hf *t) {
    mt_mem ids = hf_new(t, MT_OTHER, HF_SIZE(t->B, HF_LONG));
    uint64_t blocks = blocks_per_row(t, t->V);
    if (blocks > 1) {
        mt_mem candidates = hf_new(t, MT_OTHER, HF_SIZE(t->B, blocks, 16));
        mt_mem counters = hf_new(t, MT_OTHER, HF_SIZE(t->B, 4));
        hf_drop(t, &counters);
        hf_drop(t, &candidates);
    }
    return ids;
}
