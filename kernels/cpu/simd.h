/* simd.h - the inner loops of the cpu back end, as one table of functions per instruction set.
 *
 * Each table comes from a file of its own (simd_avx512.c, simd_avx2.c, simd_portable.c) that
 * defines a vocabulary of small vector operations and then includes simd_body.h, where the loops
 * are written once. A function pointer chooses at run time. The loops are single-threaded, and the
 * order of every sum is fixed by the shape of one row. */
#ifndef MT_KERNELS_CPU_SIMD_H
#define MT_KERNELS_CPU_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places of the cache that an attention handles at a time: chunk i holds places 32 i .. 32 i +
 * 31. */
#define MT_CHUNK 32

/* Heads of one query that are handled together at most. */
#define MT_HEADS 16

/* Where the keys and the values of one chunk's places lie, one row of all heads each. */
typedef struct mt_chunk {
    const float *k[MT_CHUNK];
    const float *v[MT_CHUNK];
} mt_chunk;

/* The state of one streamed softmax: the largest score so far, and the sum of exp(score - max). */
typedef struct mt_softmax {
    float max;
    float sum;
} mt_softmax;

typedef struct mt_simd {
    const char *name;

    /* out[r * stride + n] = x[r] . W[n] for r < R and n < N (out += that when add). x is [R, K];
     * each row of W [N, K] is read from memory once for all R. */
    void (*product)(float *out, size_t stride, const float *x, const float *W, uint32_t R, size_t N,
                    size_t K, bool add);

    /* The same, prefetching W. Which is faster depends on the processor:
     * on AMD's it cost a tenth to a fifth, on Intel's it kept up with a plain read. */
    void (*product_ahead)(float *out, size_t stride, const float *x, const float *W, uint32_t R,
                          size_t N, size_t K, bool add);

    /* x[i] += b[i] for i < n (b may be NULL), then x[i] = gelu(x[i]) when gelu. */
    void (*finish)(float *x, const float *b, size_t n, bool gelu);

    /* One row: out = (x - mean) / sqrt(variance + epsilon) * w + b. */
    void (*layernorm)(float *out, const float *x, const float *w, const float *b, size_t C,
                      float epsilon);

    /* One query q[D] of the head at column `column` meets the first n (1 .. MT_CHUNK) places of a
     * chunk: updates the state and out[D], the not yet divided sum of exp(score - max) v. */
    void (*attend)(float *out, mt_softmax *state, const float *q, const mt_chunk *chunk,
                   size_t column, uint32_t n, size_t D, float scale);

    /* The same for `heads` (up to MT_HEADS) neighbouring heads of one query, q, out and state side
     * by side: the cache's rows are read in order, which is what memory is fast at. Same
     * results. */
    void (*attend_heads)(float *out, mt_softmax *state, const float *q, const mt_chunk *chunk,
                         size_t column, uint32_t n, uint32_t heads, size_t D, float scale);

    /* The largest of x[n], NaN left out; -infinity when nothing is left. */
    float (*max)(const float *x, size_t n);

    /* The sum of x[n], in an order of its own: for reading memory as fast as it goes. */
    float (*sum)(const float *x, size_t n);
} mt_simd;

extern const mt_simd mt_simd_portable;

/* The table of an instruction set, or NULL when the processor or the build lacks it. */
const mt_simd *mt_simd_avx512(void);
const mt_simd *mt_simd_avx2(void);

#endif
