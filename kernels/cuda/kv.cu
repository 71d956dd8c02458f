/* kv.cu - what moves and does not compute: copies, and the writing of keys and values. */
#include "kernels/cuda/state.h"

#include <limits.h>

/* A block writes one token's row of keys and of values. */
static __global__ void write_rows(mt_kv_view kv, const float *qkv, uint32_t T, mt_where first,
                                  uint32_t C) {
    uint32_t r = blockIdx.x;
    const float *from = qkv + (size_t)r * 3 * C + C;
    float *v, *k = mt_place_of(kv, r / T, mt_read_place(first) + r % T, C, &v);
    for (uint32_t i = threadIdx.x; i < C; i += blockDim.x) {
        k[i] = from[i];
        v[i] = from[C + i];
    }
}

void mt_cuda_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B, uint32_t T,
                      uint32_t first, uint32_t C) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || B == 0 || T == 0)
        return;
    MT_LAUNCH(write_rows, B * T, mt_cuda_block(c), 0, c->stream, *kv, qkv, T,
              mt_cuda_where(c, first), C);
    MT_LAUNCHED(c, "write_rows");
}

/* From pageable memory a copy returns once its source is read, and to it once it is written: the
 * host's side may be reused at once. */
void mt_cuda_copy_in(mt_device *d, void *dst, const void *host, size_t bytes) {
    mt_cuda *c = (mt_cuda *)d;
    if (!mt_cuda_failed(c) && bytes > 0)
        MT_CUDA_NOTE(c, bytes,
                     cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, c->stream));
}

void mt_cuda_copy_out(mt_device *d, void *host, const void *src, size_t bytes) {
    mt_cuda *c = (mt_cuda *)d;
    if (!mt_cuda_failed(c) && bytes > 0)
        MT_CUDA_NOTE(c, bytes,
                     cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, c->stream));
}

/* Pitches as large as the device takes go in one call, larger ones row by row. */
void mt_cuda_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                       size_t bytes, size_t rows) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || bytes == 0 || rows == 0)
        return;
    if (rows > 1 && dst_pitch <= INT_MAX && src_pitch <= INT_MAX) {
        MT_CUDA_NOTE(c, bytes * rows,
                     cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, bytes, rows,
                                       cudaMemcpyDeviceToDevice, c->stream));
        return;
    }
    for (size_t r = 0; r < rows && !mt_cuda_failed(c); r++)
        MT_CUDA_NOTE(c, bytes,
                     cudaMemcpyAsync((char *)dst + r * dst_pitch, (const char *)src + r * src_pitch,
                                     bytes, cudaMemcpyDeviceToDevice, c->stream));
}

void mt_cuda_zero(mt_device *d, void *dst, size_t bytes) {
    mt_cuda *c = (mt_cuda *)d;
    if (!mt_cuda_failed(c) && bytes > 0)
        MT_CUDA_NOTE(c, bytes, cudaMemsetAsync(dst, 0, bytes, c->stream));
}
