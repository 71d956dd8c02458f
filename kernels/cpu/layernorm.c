/* layernorm.c - layer normalisation: one thread does one row, in two passes for mean and variance
 * and a third that writes (simd_body.h). */
#include "kernels/cpu/cpu.h"

void mt_cpu_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                      const float *b, uint32_t R, uint32_t C, float epsilon) {
    const mt_cpu *c = (const mt_cpu *)d;
    if (mt_cpu_failed(d))
        return;
    int threads = mt_cpu_threads(c, (size_t)R * C);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint32_t r = 0; r < R; r++)
        c->simd->layernorm(out + (size_t)r * C, x + r * stride, w, b, C, epsilon);
}
