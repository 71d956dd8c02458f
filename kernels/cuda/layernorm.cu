/* layernorm.cu - layer normalisation: a block does one row, with the mean first, then the mean of
 * squared distances, then the row. */
#include "kernels/cuda/state.h"

static __global__ void layernorm_rows(float *out, const float *x, size_t stride, const float *w,
                                      const float *b, uint32_t C, float epsilon) {
    __shared__ float part[33];
    const float *in = x + (size_t)blockIdx.x * stride;
    float *to = out + (size_t)blockIdx.x * C;
    float sum = 0, squares = 0;
    for (uint32_t i = threadIdx.x; i < C; i += blockDim.x)
        sum += in[i];
    float mean = mt_block_sum(sum, part) / (float)C;
    for (uint32_t i = threadIdx.x; i < C; i += blockDim.x)
        squares += (in[i] - mean) * (in[i] - mean);
    float scale = 1.0f / sqrtf(mt_block_sum(squares, part) / (float)C + epsilon);
    for (uint32_t i = threadIdx.x; i < C; i += blockDim.x)
        to[i] = (in[i] - mean) * scale * w[i] + b[i];
}

void mt_cuda_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                       const float *b, uint32_t R, uint32_t C, float epsilon) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || R == 0)
        return;
    MT_LAUNCH(layernorm_rows, R, mt_cuda_block(c), 0, c->stream, out, x, stride, w, b, C, epsilon);
    MT_LAUNCHED(c, "layernorm_rows");
}
