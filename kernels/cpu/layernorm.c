/* layernorm.c - layer normalisation: one thread does one row, in two passes for mean and variance
 * and a third that writes (simd_body.h). */
#include "kernels/cpu/cpu.h"

typedef struct layernorm_call {
    const mt_simd *simd;
    float *out;
    const float *x, *w, *b;
    size_t stride;
    uint32_t C;
    float epsilon;
} layernorm_call;

static void layernorm_row(void *context, size_t r) {
    const layernorm_call *a = context;
    a->simd->layernorm(a->out + r * a->C, a->x + r * a->stride, a->w, a->b, a->C, a->epsilon);
}

void mt_cpu_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                      const float *b, uint32_t R, uint32_t C, float epsilon) {
    const mt_cpu *c = (const mt_cpu *)d;
    if (mt_cpu_failed(d))
        return;
    layernorm_call a = { c->simd, out, x, w, b, stride, C, epsilon };
    mt_cpu_run(c, (size_t)R * C, layernorm_row, &a, R);
}
