/* linear.c - matrix products with the weights: out[R, N] from x[R, K], W[N, K] and b[N].
 *
 * Few rows (R <= MT_FEW_ROWS, every decode step): our own GEMV. It is bound by the reading of W,
 * so each row of W is read from memory once, in order, for all R rows, some rows of W at a time
 * by each thread. A result is one dot product in an order that depends on K alone.
 *
 * Many rows (a prefill): bound by arithmetic, so BLAS does it, and the order of summation is
 * BLAS's: it may change with R. Each thread calls BLAS for a block of outputs and rows, the same
 * blocks whatever the number of threads. Bias and gelu are a second pass. */
#include "kernels/cpu/cpu.h"

/* Where BLAS takes over: it first repacks W, which costs as much as reading it a few times. On
 * GPT-2 small's shapes with AVX-512 ours took 0.7 to 1 times BLAS's time at 16 rows, was about
 * level at 24 and slower from 32 on. */
#define MT_FEW_ROWS 16

/* What a thread takes at a time. Few rows: outputs that are whole cache lines and some 50
 * microseconds of reading W. Many rows: a block of outputs and rows, enough for BLAS, which repacks
 * both sides of it, and little enough to share out. */
#define MT_FEW_OUTPUTS  64
#define MT_MANY_OUTPUTS 384
#define MT_MANY_ROWS    512

typedef struct linear_call {
    const mt_simd *simd;
    const mt_blas *blas;
    bool ahead;
    float *out;
    const float *x, *W, *b;
    uint32_t R;
    size_t N, K;
    mt_epilogue epilogue;
} linear_call;

static void finish(const linear_call *a, size_t row, size_t rows, size_t n, size_t count) {
    if (a->b == NULL && a->epilogue != MT_GELU)
        return;
    for (size_t r = row; r < row + rows; r++)
        a->simd->finish(a->out + r * a->N + n, a->b ? a->b + n : NULL, count,
                        a->epilogue == MT_GELU);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void few_rows(void *context, size_t i) {
    const linear_call *a = context;
    size_t n = i * MT_FEW_OUTPUTS, count = least(a->N - n, MT_FEW_OUTPUTS);
    (a->ahead ? a->simd->product_ahead : a->simd->product)(
        a->out + n, a->N, a->x, a->W + n * a->K, a->R, count, a->K, a->epilogue == MT_ADD);
    finish(a, 0, a->R, n, count);
}

static size_t parts(size_t n, size_t of) {
    return (n + of - 1) / of;
}

static void many_rows(void *context, size_t i) {
    const linear_call *a = context;
    size_t across = parts(a->N, MT_MANY_OUTPUTS);
    size_t n = i % across * MT_MANY_OUTPUTS, count = least(a->N - n, MT_MANY_OUTPUTS);
    size_t row = i / across * MT_MANY_ROWS, rows = least(a->R - row, MT_MANY_ROWS);
    mt_blas_alone(a->blas);
    a->blas->sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)count, (int)a->K, 1.0f,
                   a->x + row * a->K, (int)a->K, a->W + n * a->K, (int)a->K,
                   a->epilogue == MT_ADD ? 1.0f : 0.0f, a->out + row * a->N + n, (int)a->N);
    finish(a, row, rows, n, count);
}

void mt_cpu_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                   uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue) {
    if (mt_cpu_failed(d) || R == 0 || N == 0)
        return;
    const mt_cpu *c = (const mt_cpu *)d;
    linear_call a = { c->simd, c->blas, c->ahead, out, x, W, b, R, N, K, epilogue };
    if (R <= MT_FEW_ROWS) {
        mt_cpu_run(c, (size_t)R * N * K, few_rows, &a, parts(N, MT_FEW_OUTPUTS));
        return;
    }
    c->blas->set_num_threads(1);
    mt_cpu_run(c, (size_t)R * N * K, many_rows, &a,
               parts(N, MT_MANY_OUTPUTS) * parts(R, MT_MANY_ROWS));
}
