/* instruments.cu - what the CUDA back end is measured with: a plain read of memory, a kernel that
 * does nothing, and the device's clock (one event a note). */
#include "kernels/cuda/state.h"

#include <stdlib.h>

/* What a sum is compared with, so that the reads are not left out. */
static __device__ float sink = -1.2345e30f;

static __global__ void read_all(const float4 *x, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (; i < n; i += (size_t)gridDim.x * blockDim.x)
        sum += x[i].x + x[i].y + x[i].z + x[i].w;
    if (sum == sink)
        sink = 0;
}

static __global__ void do_nothing(int) {}

/* Enough blocks to fill every multiprocessor of the largest cards. */
#define READERS 2048

void mt_cuda_read(mt_device *d, const float *x, size_t n) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || n < 4)
        return;
    uint32_t block = mt_cuda_block(c);
    size_t blocks = (n / 4 + block - 1) / block;
    MT_LAUNCH(read_all, (uint32_t)(blocks < READERS ? blocks : READERS), block, 0, c->stream,
              reinterpret_cast<const float4 *>(x), n / 4);
    MT_LAUNCHED(c, "read_all");
}

void mt_cuda_nothing(mt_device *d) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c))
        return;
    MT_LAUNCH(do_nothing, 1, 32, 0, c->stream, 0);
    MT_LAUNCHED(c, "do_nothing");
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* Makes events up to number i. */
static bool have_event(mt_cuda *c, uint32_t i) {
    if (!mt_array_reserve(&c->event, (size_t)i + 1)) {
        mt_no_memory(mt_cuda_slot(c), "events of the device");
        return false;
    }
    for (; c->event.count <= i; c->event.count++)
        if (!MT_CUDA_NOTE(c, 0, cudaEventCreate(&c->event.at[c->event.count])))
            return false;
    return true;
}

void mt_cuda_stamp(mt_device *d, uint32_t i) {
    mt_cuda *c = (mt_cuda *)d;
    if (!mt_cuda_failed(c) && have_event(c, i))
        MT_CUDA_NOTE(c, 0, cudaEventRecord(c->event.at[i], c->stream));
}

mt_status mt_cuda_stamps(mt_device *d, double *ms, uint32_t count, mt_error *err) {
    mt_cuda *c = (mt_cuda *)d;
    if (count > c->event.count)
        return mt_fail(err, MT_FAILED, "cuda: %u notes asked for, %zu were taken", count,
                       c->event.count);
    for (uint32_t i = 0; i < count; i++) {
        float since = 0;
        MT_CUDA_TRY(err, 0, cudaEventElapsedTime(&since, c->event.at[0], c->event.at[i]));
        ms[i] = since;
    }
    return MT_OK;
}

void mt_cuda_drop_events(mt_cuda *c) {
    for (size_t i = 0; i < c->event.count; i++)
        MT_CUDA_NOTE(c, 0, cudaEventDestroy(c->event.at[i]));
    mt_array_free(&c->event);
}
