/* linear.c - products with the weights: out[R, N] from x[R, K], W[N, K] and b[N].
 *
 * Few rows (R <= MT_FEW_ROWS, every decode step): our own product. It is bound by the reading of W,
 * so each row of W is read from memory once, in order, for all R rows, and each thread has one
 * contiguous part of W. A result is one dot product in an order that depends on K alone.
 *
 * Many rows (a prefill): bound by arithmetic, so BLAS does it, and the order of summation is
 * BLAS's: it may change with R and with the number of threads. Bias and gelu are a second pass. */
#include "kernels/cpu/cpu.h"

#include <cblas.h>

/* Where BLAS takes over: it first repacks W, which costs as much as reading it a few times. On
 * GPT-2 small's shapes with AVX-512 ours took 0.7 to 1 times BLAS's time at 16 rows, was about
 * level at 24 and slower from 32 on. */
#define MT_FEW_ROWS 16

/* Outputs that a thread takes at a time: a cache line of out. */
#define MT_BLOCK 16

static void few_rows(const mt_cpu *c, float *out, const float *x, const float *W, const float *b,
                     uint32_t R, size_t N, size_t K, mt_epilogue epilogue) {
    size_t blocks = (N + MT_BLOCK - 1) / MT_BLOCK;
    int threads = mt_cpu_threads(c, R * N * K);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < blocks; i++) {
        size_t n = i * MT_BLOCK, count = N - n < MT_BLOCK ? N - n : MT_BLOCK;
        c->simd->product(out + n, N, x, W + n * K, R, count, K, epilogue == MT_ADD);
        if (b == NULL && epilogue != MT_GELU)
            continue;
        for (uint32_t r = 0; r < R; r++)
            c->simd->finish(out + r * N + n, b ? b + n : NULL, count, epilogue == MT_GELU);
    }
}

static void many_rows(const mt_cpu *c, float *out, const float *x, const float *W, const float *b,
                      uint32_t R, size_t N, size_t K, mt_epilogue epilogue) {
    openblas_set_num_threads(c->threads); /* one setting for the whole process: set it each time */
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)R, (int)N, (int)K, 1.0f, x, (int)K, W,
                (int)K, epilogue == MT_ADD ? 1.0f : 0.0f, out, (int)N);
    if (b == NULL && epilogue != MT_GELU)
        return;
    int threads = mt_cpu_threads(c, R * N);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint32_t r = 0; r < R; r++)
        c->simd->finish(out + r * N, b, N, epilogue == MT_GELU);
}

void mt_cpu_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                   uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue) {
    if (mt_cpu_failed(d) || R == 0 || N == 0)
        return;
    if (R <= MT_FEW_ROWS)
        few_rows((const mt_cpu *)d, out, x, W, b, R, N, K, epilogue);
    else
        many_rows((const mt_cpu *)d, out, x, W, b, R, N, K, epilogue);
}
