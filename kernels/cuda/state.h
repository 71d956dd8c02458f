/* state.h - what the files of the CUDA back end share: the device, its stream and handle, the
 * functions that start a kernel, and the kernels' own helpers.
 *
 * All work goes to one stream. A kernel's place in the cache is a number, or, while a graph is
 * recorded, the number that lies in device memory (mt_place), so that one graph serves every
 * step. */
#ifndef MT_KERNELS_CUDA_STATE_H
#define MT_KERNELS_CUDA_STATE_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.h"

extern "C" {
#include "alloc/source.h"
#include "base/array.h"
#include "kernels/cuda/backend.h"
}

struct mt_cuda {
    mt_device device; /* first, so that an mt_device * is an mt_cuda * */
    mt_cuda_options options;
    cudaStream_t stream;
    cublasHandle_t blas;
    void *workspace; /* the caller's; meaningless unless workspace_set */
    size_t workspace_bytes;
    bool workspace_set;
    uint32_t *bad_row; /* in pinned host memory: 1 + the row of an id outside the vocabulary */
    uint32_t *place;   /* in device memory: where a graph's kernels stand; NULL before the first */
    bool recording;    /* a graph is being recorded */
    cudaGraphExec_t graph; /* the recorded one, or NULL */
    mt_cuda_note notes[MT_CUDA_NOTES];
    uint32_t noted;
    uint64_t before_graph;       /* used bytes before the recording */
    MT_ARRAY(cudaEvent_t) event; /* the notes of stamp */
    size_t total;
    int major, minor;
};

/* ---- failures -------------------------------------------------------------------------------- */

static inline bool mt_cuda_failed(const mt_cuda *c) {
    return c->device.failure.status != MT_OK;
}

/* Where a failure is written: the device's note while it is empty, later ones are dropped. */
static inline mt_error *mt_cuda_slot(mt_cuda *c) {
    return mt_cuda_failed(c) ? NULL : &c->device.failure;
}

static inline bool mt_cuda_noted(mt_cuda *c, mt_status status) {
    (void)c;
    return status == MT_OK;
}

/* Notes a kernel launch that failed. */
void mt_cuda_launched(mt_cuda *c, const char *kernel, const char *file, int line);
#define MT_LAUNCHED(c, kernel) mt_cuda_launched((c), kernel, __FILE__, __LINE__)

/* ---- the device's memory --------------------------------------------------------------------- */

/* Total minus free bytes of the device, of all programs together. */
mt_status mt_cuda_used(mt_cuda *c, uint64_t *used, mt_error *err);

/* Adds what happened between two calls of mt_cuda_used under a name; see mt_cuda_note. */
void mt_cuda_add_note(mt_cuda *c, const char *what, uint64_t before, uint64_t after);

mt_status mt_cuda_source(mt_source **out, mt_cuda *c, mt_error *err);

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

/* Sets the stream, which gives the handle its own pool back, and then the caller's workspace. */
mt_status mt_cuda_bind(mt_cuda *c, mt_error *err);

/* ---- the kernels; contracts in device.h ------------------------------------------------------ */

void mt_cuda_copy_in(mt_device *d, void *dst, const void *host, size_t bytes);
void mt_cuda_copy_out(mt_device *d, void *host, const void *src, size_t bytes);
void mt_cuda_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                       size_t bytes, size_t rows);
void mt_cuda_zero(mt_device *d, void *dst, size_t bytes);
void mt_cuda_embed(mt_device *d, float *out, const int32_t *ids, const float *wte, const float *wpe,
                   uint32_t B, uint32_t T, uint32_t first, uint32_t C, uint32_t vocab);
void mt_cuda_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                       const float *b, uint32_t R, uint32_t C, float epsilon);
void mt_cuda_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                    uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue);
void mt_cuda_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B, uint32_t T,
                      uint32_t first, uint32_t C);
void mt_cuda_attention(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv, uint32_t B,
                       uint32_t T, uint32_t first, uint32_t H, uint32_t D, float *scratch);
void mt_cuda_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V);
void mt_cuda_use_workspace(mt_device *d, void *ptr, size_t bytes);
mt_status mt_cuda_record(mt_device *d, mt_error *err);
mt_status mt_cuda_record_end(mt_device *d, mt_error *err);
void mt_cuda_replay(mt_device *d, uint32_t first);
void mt_cuda_drop_graph(mt_cuda *c);
void mt_cuda_read(mt_device *d, const float *x, size_t n);
void mt_cuda_nothing(mt_device *d);
void mt_cuda_stamp(mt_device *d, uint32_t i);
mt_status mt_cuda_stamps(mt_device *d, double *ms, uint32_t count, mt_error *err);
void mt_cuda_drop_events(mt_cuda *c);

/* Threads of a block where the kernel does not decide. */
static inline uint32_t mt_cuda_block(const mt_cuda *c) {
    return c->options.block > 0 ? c->options.block : 256;
}

/* ---- inside kernels -------------------------------------------------------------------------- */

/* A place in the cache: the value, or what device memory holds while a graph runs. */
struct mt_where {
    uint32_t value;
    const uint32_t *in_memory;
};

static inline mt_where mt_cuda_where(const mt_cuda *c, uint32_t first) {
    return { first, c->recording ? c->place : NULL };
}

static __device__ __forceinline__ uint32_t mt_read_place(mt_where where) {
    return where.in_memory != NULL ? *where.in_memory : where.value;
}

/* Where place j of sequence b keeps its keys; its values are at *v. */
static __device__ __forceinline__ float *mt_place_of(const mt_kv_view &kv, uint32_t b, uint32_t j,
                                                     size_t C, float **v) {
    if (kv.pages == NULL) {
        size_t at = b * kv.sequence + j * kv.row;
        *v = kv.v + at;
        return kv.k + at;
    }
    float *page = kv.pages[(size_t)b * kv.pages_per_sequence + j / kv.page_tokens];
    float *k = page + j % kv.page_tokens * C;
    *v = k + kv.page_tokens * C;
    return k;
}

static __device__ __forceinline__ float mt_warp_sum(float x) {
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffff, x, lanes);
    return x;
}

static __device__ __forceinline__ float mt_warp_max(float x) {
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, lanes));
    return x;
}

/* Sum or maximum over a block whose size is a multiple of 32, the same in every thread. part: 33
 * floats in shared memory, free for other uses once the call returns. */
static __device__ __forceinline__ float mt_block_sum(float x, float *part) {
    uint32_t warps = blockDim.x / 32, lane = threadIdx.x % 32;
    x = mt_warp_sum(x);
    if (lane == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x < 32) {
        x = mt_warp_sum(lane < warps ? part[lane] : 0.0f);
        if (lane == 0)
            part[32] = x;
    }
    __syncthreads();
    x = part[32];
    __syncthreads();
    return x;
}

static __device__ __forceinline__ float mt_block_max(float x, float *part) {
    uint32_t warps = blockDim.x / 32, lane = threadIdx.x % 32;
    x = mt_warp_max(x);
    if (lane == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x < 32) {
        x = mt_warp_max(lane < warps ? part[lane] : -INFINITY);
        if (lane == 0)
            part[32] = x;
    }
    __syncthreads();
    x = part[32];
    __syncthreads();
    return x;
}

#endif
