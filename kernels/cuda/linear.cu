/* linear.cu - matrix products with the weights, by cuBLAS, and what follows them.
 *
 * cuBLAS thinks in columns: out[R, N] = x[R, K] W[N, K]^T in rows is out^T = W x^T in columns. The
 * residual is added by the product itself (beta = 1); bias and gelu are one kernel after it. */
#include "kernels/cuda/state.h"

#include <limits.h>
#include <stdio.h>

/* ---- kernels --------------------------------------------------------------------------------- */

/* gelu(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
static __device__ __forceinline__ float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)));
}

static __global__ void add_bias(float *out, const float *b, size_t count, uint32_t N) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] += b[i % N];
}

/* b may be NULL. */
static __global__ void add_bias_gelu(float *out, const float *b, size_t count, uint32_t N) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = gelu(out[i] + (b != NULL ? b[i % N] : 0.0f));
}

/* ---- cuBLAS's stream and workspace ----------------------------------------------------------- */

mt_status mt_cuda_bind(mt_cuda *c, mt_error *err) {
    MT_CUDA_TRY(err, 0, cublasSetStream(c->blas, c->stream));
    if (c->workspace_set && !c->options.forget_workspace)
        MT_CUDA_TRY(err, c->workspace_bytes,
                    cublasSetWorkspace(c->blas, c->workspace, c->workspace_bytes));
    return MT_OK;
}

void mt_cuda_use_workspace(mt_device *d, void *ptr, size_t bytes) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c))
        return;
    c->workspace = ptr;
    c->workspace_bytes = bytes;
    c->workspace_set = true;
    mt_cuda_bind(c, &c->device.failure);
}

/* ---- products -------------------------------------------------------------------------------- */

static void product(mt_cuda *c, float *out, const float *x, const float *W, uint32_t R, uint32_t N,
                    uint32_t K, float beta) {
    const float one = 1.0f;
    cublasComputeType_t compute =
        c->options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    MT_CUDA_NOTE(c, (size_t)R * N * sizeof(float),
                 cublasGemmEx(c->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int)N, (int)R, (int)K, &one, W,
                              CUDA_R_32F, (int)K, x, CUDA_R_32F, (int)K, &beta, out, CUDA_R_32F,
                              (int)N, compute, CUBLAS_GEMM_DEFAULT));
}

/* Whether the next matrix product of this shape is to be measured: the first two of a name are. */
static bool unmeasured(const mt_cuda *c, const char *name) {
    if (!c->options.watch || c->recording)
        return false;
    for (uint32_t i = 0; i < c->noted; i++)
        if (strcmp(c->notes[i].what, name) == 0)
            return c->notes[i].calls < 2;
    return c->noted < MT_CUDA_NOTES - 2; /* the last two are for graphs */
}

/* The first matrix products of a shape load code and may take memory: measured when asked to. */
static void measured_product(mt_cuda *c, float *out, const float *x, const float *W, uint32_t R,
                             uint32_t N, uint32_t K, float beta) {
    char name[sizeof c->notes[0].what] = "";
    uint64_t before = 0, after = 0;
    if (c->options.watch)
        snprintf(name, sizeof name, "matmul %u x %u x %u", R, N, K);
    if (!unmeasured(c, name)) {
        product(c, out, x, W, R, N, K, beta);
        return;
    }
    if (mt_cuda_used(c, &before, &c->device.failure) != MT_OK)
        return;
    product(c, out, x, W, R, N, K, beta);
    if (!mt_cuda_failed(c) && mt_cuda_used(c, &after, &c->device.failure) == MT_OK)
        mt_cuda_add_note(c, name, before, after);
}

void mt_cuda_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                    uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || R == 0 || N == 0)
        return;
    if (R > INT_MAX || N > INT_MAX || K > INT_MAX) {
        mt_fail(&c->device.failure, MT_BAD, "cuda: matrix product %u x %u x %u is too large", R, N,
                K);
        return;
    }
    measured_product(c, out, x, W, R, N, K, epilogue == MT_ADD ? 1.0f : 0.0f);
    if (mt_cuda_failed(c) || (b == NULL && epilogue != MT_GELU))
        return;
    size_t count = (size_t)R * N, block = mt_cuda_block(c);
    uint32_t grid = (uint32_t)((count + block - 1) / block);
    if (epilogue == MT_GELU)
        MT_LAUNCH(add_bias_gelu, grid, (uint32_t)block, 0, c->stream, out, b, count, N);
    else
        MT_LAUNCH(add_bias, grid, (uint32_t)block, 0, c->stream, out, b, count, N);
    MT_LAUNCHED(c, epilogue == MT_GELU ? "add_bias_gelu" : "add_bias");
}
