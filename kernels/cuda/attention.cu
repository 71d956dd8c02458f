/* attention.cu - causal attention over the cache, softmax streamed, so that no scores are kept.
 *
 * A block does one head of one query over a range of places, as many at a time as it has threads:
 * each warp computes scores (a lane takes every 32nd element of the head), the block finds their
 * maximum and the sum of their exponentials, then each thread gathers one element of the weighted
 * values. When a block has more threads than the head has elements, groups of threads share the
 * places and are added up at the end, in order.
 *
 * A prompt's queries walk all their places alone. A single query is split over the cache in parts
 * of MT_ATTENTION_SPLIT places whose results go to scratch, and a second kernel merges them in
 * order, be it one part, so that all code is loaded by the first token. The result does not depend
 * on how many parts a graph provides. */
#include "kernels/cuda/state.h"

#define LONGEST_HEAD 1024 /* one thread an element */

/* ---- kernels --------------------------------------------------------------------------------- */

struct attention_shape {
    uint32_t T, H, D;
    mt_where first;
};

/* What a block gathered: element threadIdx.x of the head where that is below D, in `value`. */
struct attention_sum {
    float value, max, sum;
};

/* Scores of n places from `place` on, in s. One warp a place. */
static __device__ __forceinline__ void score(float *s, const float *q, const mt_kv_view &kv,
                                             uint32_t b, uint32_t place, uint32_t n, uint32_t head,
                                             uint32_t D, size_t C, float scale) {
    uint32_t lane = threadIdx.x % 32;
    for (uint32_t j = threadIdx.x / 32; j < n; j += blockDim.x / 32) {
        float *v, *k = mt_place_of(kv, b, place + j, C, &v) + (size_t)head * D;
        float sum = 0;
        for (uint32_t i = lane; i < D; i += 32)
            sum += q[i] * k[i];
        sum = mt_warp_sum(sum);
        if (lane == 0)
            s[j] = sum * scale;
    }
}

/* The values of n places, weighted by s: what this thread's group gathers of its element. */
static __device__ __forceinline__ float weigh(const float *s, const mt_kv_view &kv, uint32_t b,
                                              uint32_t place, uint32_t n, uint32_t head, uint32_t D,
                                              size_t C) {
    uint32_t groups = blockDim.x / D, group = threadIdx.x / D, i = threadIdx.x % D;
    float sum = 0;
    if (group < groups)
        for (uint32_t j = group; j < n; j += groups) {
            float *v;
            mt_place_of(kv, b, place + j, C, &v);
            sum += s[j] * v[(size_t)head * D + i];
        }
    return sum;
}

/* Adds the groups' sums in order; threads below D hold the result. all: blockDim.x floats. */
static __device__ __forceinline__ float add_groups(float value, float *all, uint32_t D) {
    uint32_t groups = blockDim.x / D;
    all[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x < D)
        for (uint32_t g = 1; g < groups; g++)
            value += all[g * D + threadIdx.x];
    __syncthreads();
    return value;
}

/* One head of one query over the places [begin, end). shared: blockDim.x floats. */
static __device__ __forceinline__ attention_sum walk(const float *q, const mt_kv_view &kv,
                                                     uint32_t b, uint32_t head, uint32_t begin,
                                                     uint32_t end, uint32_t D, size_t C,
                                                     float *shared, float *part) {
    const float scale = 1.0f / sqrtf((float)D);
    attention_sum a = { 0, -INFINITY, 0 };
    for (uint32_t place = begin; place < end; place += blockDim.x) {
        uint32_t n = end - place < blockDim.x ? end - place : blockDim.x;
        score(shared, q, kv, b, place, n, head, D, C, scale);
        __syncthreads();
        float mine = threadIdx.x < n ? shared[threadIdx.x] : -INFINITY;
        float max = fmaxf(a.max, mt_block_max(mine, part));
        float weight = threadIdx.x < n ? expf(mine - max) : 0.0f;
        shared[threadIdx.x] = weight;
        float keep = expf(a.max - max);
        a.sum = a.sum * keep + mt_block_sum(weight, part);
        a.value = a.value * keep + weigh(shared, kv, b, place, n, head, D, C);
        a.max = max;
        __syncthreads();
    }
    a.value = add_groups(a.value, shared, D);
    return a;
}

/* Block x: new token, y: head, z: sequence. */
static __global__ void attend_prompt(float *out, const float *qkv, mt_kv_view kv,
                                     attention_shape shape) {
    MT_DYNAMIC_SHARED(float, shared);
    __shared__ float part[33];
    uint32_t t = blockIdx.x, head = blockIdx.y, b = blockIdx.z, D = shape.D;
    size_t C = (size_t)shape.H * D, row = (size_t)b * shape.T + t;
    uint32_t seen = mt_read_place(shape.first) + t + 1;
    attention_sum a =
        walk(qkv + row * 3 * C + (size_t)head * D, kv, b, head, 0, seen, D, C, shared, part);
    if (threadIdx.x < D)
        out[row * C + (size_t)head * D + threadIdx.x] = a.value / a.sum;
}

/* Block x: part of the cache, y: head, z: sequence. scratch: [B, H, parts] x (D values, maximum,
 * sum). Parts past the cache's end do nothing. */
static __global__ void attend_part(float *scratch, const float *qkv, mt_kv_view kv,
                                   attention_shape shape) {
    MT_DYNAMIC_SHARED(float, shared);
    __shared__ float part[33];
    uint32_t head = blockIdx.y, b = blockIdx.z, D = shape.D,
             begin = blockIdx.x * MT_ATTENTION_SPLIT;
    size_t C = (size_t)shape.H * D;
    uint32_t seen = mt_read_place(shape.first) + 1;
    if (begin >= seen)
        return;
    uint32_t end = seen - begin < MT_ATTENTION_SPLIT ? seen : begin + MT_ATTENTION_SPLIT;
    attention_sum a = walk(qkv + (size_t)b * 3 * C + (size_t)head * D, kv, b, head, begin, end, D,
                           C, shared, part);
    float *to = scratch + (((size_t)b * shape.H + head) * gridDim.x + blockIdx.x) * (D + 2);
    if (threadIdx.x < D)
        to[threadIdx.x] = a.value;
    if (threadIdx.x == 0) {
        to[D] = a.max;
        to[D + 1] = a.sum;
    }
}

/* Block x: head, y: sequence. parts: as many as scratch has room for. */
static __global__ void merge_parts(float *out, const float *scratch, uint32_t parts,
                                   attention_shape shape) {
    uint32_t D = shape.D, seen = mt_read_place(shape.first) + 1;
    uint32_t used = (seen + MT_ATTENTION_SPLIT - 1) / MT_ATTENTION_SPLIT;
    size_t pair = (size_t)blockIdx.y * shape.H + blockIdx.x;
    const float *from = scratch + pair * parts * (D + 2);
    float max = -INFINITY;
    for (uint32_t p = 0; p < used; p++)
        max = fmaxf(max, from[p * (D + 2) + D]);
    float value = 0, sum = 0;
    for (uint32_t p = 0; p < used; p++) {
        const float *one = from + p * (D + 2);
        float weight = expf(one[D] - max);
        sum += one[D + 1] * weight;
        value += threadIdx.x < D ? one[threadIdx.x] * weight : 0.0f;
    }
    if (threadIdx.x < D)
        out[pair * D + threadIdx.x] = value / sum;
}

/* ---- launchers ------------------------------------------------------------------------------- */

static void attend_split(mt_cuda *c, float *out, const float *qkv, const mt_kv_view &kv, uint32_t B,
                         uint32_t parts, uint32_t block, attention_shape shape, float *scratch) {
    MT_LAUNCH(attend_part, dim3(parts, shape.H, B), block, block * sizeof(float), c->stream,
              scratch, qkv, kv, shape);
    MT_LAUNCHED(c, "attend_part");
    MT_LAUNCH(merge_parts, dim3(shape.H, B), (shape.D + 31) / 32 * 32, 0, c->stream, out, scratch,
              parts, shape);
    MT_LAUNCHED(c, "merge_parts");
}

void mt_cuda_attention(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv, uint32_t B,
                       uint32_t T, uint32_t first, uint32_t H, uint32_t D, float *scratch) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || B == 0 || T == 0 || H == 0)
        return;
    if (D > LONGEST_HEAD || H > 65535 || B > 65535) {
        mt_fail(
            &c->device.failure, MT_BAD,
            "cuda: attention of %u sequences with %u heads of %u: expected at most 65535, 65535 "
            "and %d",
            B, H, D, LONGEST_HEAD);
        return;
    }
    uint32_t parts = (first + MT_ATTENTION_SPLIT) / MT_ATTENTION_SPLIT; /* of a single query */
    uint32_t block = mt_cuda_block(c), needed = (D + 31) / 32 * 32;
    block = block < needed ? needed : block;
    attention_shape shape = { T, H, D, mt_cuda_where(c, first) };
    if (T == 1) {
        attend_split(c, out, qkv, *kv, B, parts, block, shape, scratch);
        return;
    }
    MT_LAUNCH(attend_prompt, dim3(T, H, B), block, block * sizeof(float), c->stream, out, qkv, *kv,
              shape);
    MT_LAUNCHED(c, "attend_prompt");
}
