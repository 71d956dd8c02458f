/* cublas.cc - the cuBLAS stand-in: handles, their workspaces, and products in stream order.
 *
 * A handle takes a pool of its own at creation and holds it to the end. cublasSetWorkspace puts a
 * user's workspace in its place, cublasSetStream puts the pool back. A product captured without a
 * user's workspace makes the graph hold memory of the library's. */
#include <cublas_v2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "calls.h"
#include "product.h"
#include "state.h"
#include "workspace.h"

using namespace emulation;

struct cublasContext {
    cudaStream_t stream = nullptr;
    std::shared_ptr<LibraryMemory> pool;
    std::weak_ptr<LibraryMemory> in_graphs;
    mt_emulation_workspace user = {};
    bool has_user = false; /* since the last cublasSetStream */
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace emulation {

static std::map<cublasHandle_t, std::unique_ptr<cublasContext>> handles;
static std::set<std::string> kernels; /* names of those ever used; an address stands for each */

size_t cublas_count() {
    return handles.size();
}

void reset_cublas() {
    handles.clear();
    reset_workspace();
}

} // namespace emulation

namespace {

/* ---- handles --------------------------------------------------------------------------------- */

cublasStatus_t create(cublasHandle_t *handle) {
    auto context = std::make_unique<cublasContext>();
    context->pool = LibraryMemory::take(default_pool_bytes());
    if (!context->pool)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = context.get();
    handles[*handle] = std::move(context);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_workspace(cublasHandle_t handle, void *ptr, size_t bytes) {
    if (uintptr_t(ptr) % 256 || (!ptr && bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->user = { ptr, bytes, false, false };
    handle->has_user = true;
    return CUBLAS_STATUS_SUCCESS;
}

/* Calls work if the handle is one. */
template <class F> cublasStatus_t with(Api api, cublasHandle_t handle, F work) {
    return cublas_call(
        api, [&] { return handles.count(handle) ? work() : CUBLAS_STATUS_NOT_INITIALIZED; });
}

/* ---- workspaces ------------------------------------------------------------------------------ */

/* What the next product uses, and what must live as long as it can be replayed. */
struct Scratch {
    mt_emulation_workspace workspace = {};
    std::shared_ptr<LibraryMemory> owner;
};

bool choose(cublasHandle_t handle, Scratch *scratch) {
    if (handle->has_user) {
        scratch->workspace = handle->user;
        return true;
    }
    const bool captured = is_capturing(handle->stream);
    scratch->owner = captured ? handle->in_graphs.lock() : handle->pool;
    if (!scratch->owner)
        handle->in_graphs = scratch->owner = LibraryMemory::take(handle->pool->bytes);
    if (!scratch->owner)
        return false;
    scratch->workspace = { scratch->owner->ptr, scratch->owner->bytes, true, captured };
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

struct Operand {
    const char *name;
    const void *ptr;
    uint64_t bytes;
};

bool apart(const Operand &o, const mt_emulation_workspace &w) {
    const uintptr_t a = uintptr_t(o.ptr), b = uintptr_t(w.ptr);
    return a + o.bytes <= b || b + w.bytes <= a;
}

bool check_operands(const std::vector<Operand> &operands, const mt_emulation_workspace &w) {
    for (const Operand &o : operands) {
        const char *wrong = !range_covers(o.ptr, o.bytes) ? "is not all live device memory"
                            : !apart(o, w)                ? "overlaps the workspace"
                                                          : nullptr;
        if (!wrong)
            continue;
        fault("a product's %s, %llu bytes at %p, %s", o.name, (unsigned long long)o.bytes, o.ptr,
              wrong);
        return false;
    }
    return true;
}

/* Loads the kernel, chooses the workspace and hands the product to the handle's stream. */
template <class P>
cublasStatus_t run_product(cublasHandle_t handle, const std::string &kernel, const P &product,
                           std::vector<Operand> operands) {
    Scratch scratch;
    if (!load_kernel(&*kernels.insert(kernel).first) || !choose(handle, &scratch))
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (!workspace_suffices(scratch.workspace.bytes))
        return CUBLAS_STATUS_ALLOC_FAILED;
    cudaError_t e = submit(handle->stream, [=] {
        if (!use_workspace(scratch.workspace) || !check_operands(operands, scratch.workspace))
            return cudaErrorIllegalAddress;
        compute(product);
        return cudaSuccess;
    });
    return e ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* Bytes of count matrices that lie stride elements apart. */
uint64_t bytes_of(uint64_t extent, long long stride, int count) {
    const uint64_t last = uint64_t(stride) * uint64_t(count - 1);
    return extent ? (last + extent) * sizeof(float) : 0;
}

/* A library has kernels for kinds of shapes, not for each shape. */
std::string kernel_name(const Product &p) {
    return std::string("gemm ") + "ntc"[p.transa] + "ntc"[p.transb] +
           (std::min(p.m, p.n) == 1   ? " row"
            : std::min(p.m, p.n) < 64 ? " narrow"
                                      : "") +
           (p.count > 1 ? " batched" : "") + (p.tf32 ? " tf32" : "");
}

cublasStatus_t gemm(cublasHandle_t handle, const Product &p) {
    const bool a_plain = p.transa == CUBLAS_OP_N, b_plain = p.transb == CUBLAS_OP_N;
    const int a_rows = a_plain ? p.m : p.k, a_columns = a_plain ? p.k : p.m;
    const int b_rows = b_plain ? p.k : p.n, b_columns = b_plain ? p.n : p.k;
    if (p.m < 0 || p.n < 0 || p.k < 0 || p.count < 0 || p.lda < std::max(1, a_rows) ||
        p.ldb < std::max(1, b_rows) || p.ldc < std::max(1, p.m) || p.stride_a < 0 ||
        p.stride_b < 0 || p.stride_c < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p.m == 0 || p.n == 0 || p.count == 0)
        return CUBLAS_STATUS_SUCCESS;
    auto bytes = [&](int rows, int columns, int ld, long long stride) {
        uint64_t extent = matrix_extent(uint64_t(rows), uint64_t(columns), uint64_t(ld));
        return bytes_of(extent, stride, p.count);
    };
    return run_product(handle, kernel_name(p), p,
                       { { "A", p.A, bytes(a_rows, a_columns, p.lda, p.stride_a) },
                         { "B", p.B, bytes(b_rows, b_columns, p.ldb, p.stride_b) },
                         { "C", p.C, bytes(p.m, p.n, p.ldc, p.stride_c) } });
}

cublasStatus_t gemv(cublasHandle_t handle, const VectorProduct &p) {
    if (p.m < 0 || p.n < 0 || p.lda < std::max(1, p.m) || p.incx == 0 || p.incy == 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p.m == 0 || p.n == 0)
        return CUBLAS_STATUS_SUCCESS;
    const bool plain = p.trans == CUBLAS_OP_N;
    const uint64_t m = uint64_t(p.m), n = uint64_t(p.n);
    return run_product(handle, plain ? "gemv n" : "gemv t", p,
                       { { "A", p.A, matrix_extent(m, n, uint64_t(p.lda)) * 4 },
                         { "x", p.x, vector_extent(plain ? n : m, p.incx) * 4 },
                         { "y", p.y, vector_extent(plain ? m : n, p.incy) * 4 } });
}

bool rounds(cublasHandle_t handle, cublasComputeType_t compute) {
    if (device.major < 8 || compute == CUBLAS_COMPUTE_32F_PEDANTIC)
        return false;
    return compute == CUBLAS_COMPUTE_32F_FAST_TF32 || handle->math == CUBLAS_TF32_TENSOR_OP_MATH;
}

} // namespace

/* ---- the calls ------------------------------------------------------------------------------- */

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    return cublas_call(API_cublasCreate, [&] { return create(handle); });
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    return with(API_cublasDestroy, handle, [&] {
        sync_pools();
        handles.erase(handle);
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *version) {
    return with(API_cublasGetVersion, handle, [&] {
        *version = CUBLAS_VERSION;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
    return cublas_call(API_cublasGetProperty, [&] {
        static const int values[] = { CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH };
        if (type < MAJOR_VERSION || type > PATCH_LEVEL)
            return CUBLAS_STATUS_INVALID_VALUE;
        *value = values[type];
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    return with(API_cublasSetStream, handle, [&] {
        handle->stream = stream;
        handle->has_user = false;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream) {
    return with(API_cublasGetStream, handle, [&] {
        *stream = handle->stream;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes) {
    return with(API_cublasSetWorkspace, handle,
                [&] { return set_workspace(handle, workspace, bytes); });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    return with(API_cublasSetMathMode, handle, [&] {
        handle->math = mode;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float *alpha,
                           const float *A, int lda, const float *B, int ldb, const float *beta,
                           float *C, int ldc) {
    return with(API_cublasSgemm, handle, [&] {
        return gemm(handle, { transa, transb, m, n, k, *alpha, *beta, A, B, C, lda, ldb, ldc, 0, 0,
                              0, 1, rounds(handle, CUBLAS_COMPUTE_32F) });
    });
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k,
                                         const float *alpha, const float *A, int lda,
                                         long long stride_a, const float *B, int ldb,
                                         long long stride_b, const float *beta, float *C, int ldc,
                                         long long stride_c, int count) {
    return with(API_cublasSgemmStridedBatched, handle, [&] {
        return gemm(handle,
                    { transa, transb, m, n, k, *alpha, *beta, A, B, C, lda, ldb, ldc, stride_a,
                      stride_b, stride_c, count, rounds(handle, CUBLAS_COMPUTE_32F) });
    });
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *A, cudaDataType type_a, int lda, const void *B,
                            cudaDataType type_b, int ldb, const void *beta, void *C,
                            cudaDataType type_c, int ldc, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t) {
    return with(API_cublasGemmEx, handle, [&] {
        if (type_a != CUDA_R_32F || type_b != CUDA_R_32F || type_c != CUDA_R_32F)
            return CUBLAS_STATUS_NOT_SUPPORTED;
        return gemm(handle, { transa, transb, m, n, k, *static_cast<const float *>(alpha),
                              *static_cast<const float *>(beta), static_cast<const float *>(A),
                              static_cast<const float *>(B), static_cast<float *>(C), lda, ldb, ldc,
                              0, 0, 0, 1, rounds(handle, compute_type) });
    });
}

cublasStatus_t cublasSgemv(cublasHandle_t handle, cublasOperation_t trans, int m, int n,
                           const float *alpha, const float *A, int lda, const float *x, int incx,
                           const float *beta, float *y, int incy) {
    return with(API_cublasSgemv, handle, [&] {
        return gemv(handle, { trans, m, n, *alpha, *beta, A, x, y, lda, incx, incy });
    });
}

const char *cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
#define MT_ERROR(name, value, text)                                                                \
    case name:                                                                                     \
        return text;
        MT_CUBLAS_STATUSES(MT_ERROR)
#undef MT_ERROR
    }
    return "unknown status";
}

const char *cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define MT_ERROR(name, value, text)                                                                \
    case name:                                                                                     \
        return #name;
        MT_CUBLAS_STATUSES(MT_ERROR)
#undef MT_ERROR
    }
    return "unknown status";
}
