/* argmax.cu - the most likely next token: a block reads one row of logits. Of equal values the
 * lowest index wins; NaN equals nothing, and a row of nothing else gives 0. */
#include "kernels/cuda/state.h"

struct best {
    float value;
    uint32_t index;
};

static __device__ __forceinline__ best better(best a, best b) {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

static __device__ __forceinline__ best warp_best(best a) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        best b;
        b.value = __shfl_xor_sync(0xffffffff, a.value, lanes);
        b.index = __shfl_xor_sync(0xffffffff, a.index, lanes);
        a = better(a, b);
    }
    return a;
}

static __global__ void argmax_rows(int32_t *ids, const float *logits, uint32_t V) {
    __shared__ float value[32];
    __shared__ uint32_t index[32];
    const float *row = logits + (size_t)blockIdx.x * V;
    uint32_t lane = threadIdx.x % 32;
    best a = { -INFINITY, UINT32_MAX };
    for (uint32_t i = threadIdx.x; i < V; i += blockDim.x)
        a = better(a, { row[i], i });
    a = warp_best(a);
    if (lane == 0) {
        value[threadIdx.x / 32] = a.value;
        index[threadIdx.x / 32] = a.index;
    }
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    if (lane < blockDim.x / 32)
        a = { value[lane], index[lane] };
    else
        a = { -INFINITY, UINT32_MAX };
    a = warp_best(a);
    if (lane == 0)
        ids[blockIdx.x] = a.index == UINT32_MAX ? 0 : (int32_t)a.index;
}

void mt_cuda_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || R == 0)
        return;
    uint32_t block = c->options.block > 0 ? c->options.block : 1024;
    MT_LAUNCH(argmax_rows, R, block, 0, c->stream, ids, logits, V);
    MT_LAUNCHED(c, "argmax_rows");
}
