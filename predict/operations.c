/* operations.c - operations of PyTorch, as far as they take memory. See internal.h. */
#include "predict/internal.h"

#include "base/size.h"

/* ---- matmul ---------------------------------------------------------------------------------- */

/* cuBLASLt adds the bias in its epilogue, but takes no weight of a single row or column: then the
 * bias is copied to every row of the result first and cuBLAS adds to it. */
mt_mem pass_addmm(pass *t, uint64_t from, uint64_t to) {
    mt_mem out = pass_rows(t, to);
    if (from > 1 && to > 1)
        pass_call_lt(t);
    else
        pass_call_blas(t);
    return out;
}

mt_mem pass_bmm(pass *t, uint64_t left_copy, uint64_t right_copy, uint64_t bytes) {
    mt_mem left = pass_new(t, MT_ACTIVATIONS, left_copy);
    mt_mem right = pass_new(t, MT_ACTIVATIONS, right_copy);
    mt_mem out = pass_new(t, MT_ACTIVATIONS, bytes);
    pass_call_blas(t);
    pass_drop(t, &right);
    pass_drop(t, &left);
    return out;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* The kernel also writes mean and deviation of each row, for a backward pass that never comes. */
mt_mem pass_layer_norm(pass *t) {
    mt_mem out = pass_rows(t, t->C);
    mt_mem mean = pass_new(t, MT_ACTIVATIONS, BYTES(t->B, t->Q, FLOAT_BYTES));
    mt_mem deviation = pass_new(t, MT_ACTIVATIONS, BYTES(t->B, t->Q, FLOAT_BYTES));
    pass_drop(t, &mean);
    pass_drop(t, &deviation);
    return out;
}

/* Temporary storage of CUB's DeviceScan over one row: a tile descriptor of 16 bytes for each tile
 * of 896 numbers and for 32 tiles before the first, and a counter, each rounded up to 256 bytes,
 * and room to align the start. */
static uint64_t scan_scratch(uint64_t n) {
    uint64_t tiles = (n + 895) / 896;
    return mt_round_up((tiles + 32) * 16, 256) + 256 + 255;
}

/* Running sum of truth values [B, Q] along each row: they become numbers first. Several rows need
 * no scratch. */
mt_mem pass_cumsum(pass *t) {
    mt_mem sum = pass_new(t, MT_ACTIVATIONS, BYTES(t->B, t->Q, LONG_BYTES));
    mt_mem numbers = pass_new(t, MT_ACTIVATIONS, BYTES(t->B, t->Q, LONG_BYTES));
    if (t->B == 1)
        pass_scratch(t, scan_scratch(t->Q));
    pass_drop(t, &numbers);
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

uint64_t predict_multiprocessors(const mt_predict_options *o) {
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

/* How many thread blocks share one row of n numbers in a reduction to B results, by the rule of
 * ATen's Reduce.cuh (setReduceConfig): 1 as long as none of the 512 threads of a block has more
 * than 255 numbers. Beyond that, as many as fill the device, but with at least 16 numbers a thread
 * and, if need be, so many that none has more than 256. */
static uint64_t blocks_per_row(const pass *t, uint64_t n) {
    uint32_t cc = t->o->cc;
    uint64_t threads = cc == 86 || cc == 89 || cc == 120 ? 1536 : 2048;
    uint64_t fill = predict_multiprocessors(t->o) * (threads / 512), each = ceiling(n, 512);
    if (each < 256 || t->B > fill)
        return 1;
    return most(least(ceiling(fill, t->B), ceiling(each, 16)), ceiling(each, 256));
}

/* The most likely id of each sequence. When several thread blocks share a row they leave their
 * candidates, value and index, in scratch memory, and count themselves in another. */
mt_mem pass_argmax(pass *t) {
    mt_mem ids = pass_new(t, MT_OTHER, BYTES(t->B, LONG_BYTES));
    uint64_t blocks = blocks_per_row(t, t->V);
    if (blocks > 1) {
        mt_mem candidates = pass_new(t, MT_OTHER, BYTES(t->B, blocks, 16));
        mt_mem counters = pass_new(t, MT_OTHER, BYTES(t->B, 4));
        pass_drop(t, &counters);
        pass_drop(t, &candidates);
    }
    return ids;
}
