/* cpu.h - what the files of the cpu back end share: the device, what a piece of work must be worth
 * for all threads, and the kernels that cpu.c puts in the table.
 *
 * linear.c, attention.c, layernorm.c and elementwise.c decide who computes what (threads,
 * addresses, order of blocks); the inner loops are vector code, written once in simd_body.h and
 * compiled for each instruction set (simd.h). */
#ifndef MT_KERNELS_CPU_CPU_H
#define MT_KERNELS_CPU_CPU_H

#include "kernels/cpu/blas.h"
#include "base/threads.h"
#include "kernels/cpu/simd.h"
#include "kernels/device.h"

typedef struct mt_cpu {
    mt_device device; /* first, so that an mt_device * is an mt_cpu * */
    int threads;
    mt_threads *pool;
    const mt_simd *simd;
    bool ahead; /* matrix products prefetch weights */
    const mt_blas *blas;
} mt_cpu;

/* Below this many multiply-adds (or elements moved) one thread is done before a second has
 * begun. */
#define MT_CPU_SERIAL ((size_t)64 << 10)

/* Calls chunk(context, i) for each i in [0, chunks): on all threads when the work is worth it. */
static inline void mt_cpu_run(const mt_cpu *c, size_t work, void (*chunk)(void *context, size_t i),
                              void *context, size_t chunks) {
    if (work >= MT_CPU_SERIAL) {
        mt_threads_run(c->pool, chunk, context, chunks);
        return;
    }
    for (size_t i = 0; i < chunks; i++)
        chunk(context, i);
}

/* True when an earlier call failed: nothing is computed until sync has reported it. */
static inline bool mt_cpu_failed(const mt_device *d) {
    return d->failure.status != MT_OK;
}

/* The kernels; contracts in device.h. */
void mt_cpu_copy_in(mt_device *d, void *dst, const void *host, size_t bytes);
void mt_cpu_copy_out(mt_device *d, void *host, const void *src, size_t bytes);
void mt_cpu_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                      size_t bytes, size_t rows);
void mt_cpu_zero(mt_device *d, void *dst, size_t bytes);
void mt_cpu_embed(mt_device *d, float *out, const int32_t *ids, const float *wte, const float *wpe,
                  uint32_t B, uint32_t T, uint32_t first, uint32_t C, uint32_t vocab);
void mt_cpu_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                      const float *b, uint32_t R, uint32_t C, float epsilon);
void mt_cpu_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                   uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue);
void mt_cpu_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B, uint32_t T,
                     uint32_t first, uint32_t C);
void mt_cpu_attention(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv, uint32_t B,
                      uint32_t T, uint32_t first, uint32_t H, uint32_t D, float *scratch);
void mt_cpu_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V);
void mt_cpu_read(mt_device *d, const float *x, size_t n);
void mt_cpu_nothing(mt_device *d);

#endif
