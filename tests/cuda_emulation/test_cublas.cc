/* test_cublas.cc - products, and the rules of workspaces. */
#include "test.h"

#include <cstdlib>

namespace {

cublasHandle_t create() {
    cublasHandle_t handle;
    OK(cublasCreate(&handle));
    return handle;
}

/* A product of small matrices in column order: C[3, 2] = op(A) op(B). */
struct Small {
    const int m = 3, n = 2, k = 4;
    float *A = nullptr, *B = nullptr, *C = nullptr;
    std::vector<float> a, b; /* as [rows, columns] of op(A) and op(B), in column order */

    Small(bool transa, bool transb) {
        for (int i = 0; i < m * k; i++)
            a.push_back(float(i % 5) - 1.5f);
        for (int i = 0; i < k * n; i++)
            b.push_back(float(i % 3) + 0.25f);
        A = floats_of(transa ? flipped(a, m, k) : a);
        B = floats_of(transb ? flipped(b, k, n) : b);
        C = floats_of(std::vector<float>(size_t(m * n), 2));
    }

    ~Small() {
        cudaFree(A);
        cudaFree(B);
        cudaFree(C);
    }

    static std::vector<float> flipped(const std::vector<float> &x, int rows, int columns) {
        std::vector<float> y(x.size());
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++)
                y[size_t(j + i * columns)] = x[size_t(i + j * rows)];
        return y;
    }

    void check(const float *result, float alpha, float beta) const {
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float sum = 0;
                for (int l = 0; l < k; l++)
                    sum += a[size_t(i + l * m)] * b[size_t(l + j * k)];
                assert_true(std::fabs(result[i + j * m] - (alpha * sum + beta * 2)) < 1e-5f);
            }
    }
};

/* A product by this handle; its status. */
cublasStatus_t multiply(cublasHandle_t handle, Small &s, float alpha = 1, float beta = 0) {
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n, s.k, &alpha, s.A, s.m, s.B, s.k,
                       &beta, s.C, s.m);
}

/* ---- products -------------------------------------------------------------------------------- */

void test_sgemm(void **) {
    cublasHandle_t handle = create();
    for (int transposed = 0; transposed < 4; transposed++)
        for (float beta : { 0.0f, 0.5f }) {
            const bool ta = transposed & 1, tb = transposed & 2;
            Small s(ta, tb);
            const float alpha = 2;
            OK(cublasSgemm(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                           s.m, s.n, s.k, &alpha, s.A, ta ? s.k : s.m, s.B, tb ? s.n : s.k, &beta,
                           s.C, s.m));
            s.check(s.C, alpha, beta);
            OK(cudaMemset(s.C, 0xff, sizeof(float) * 6)); /* with beta 0, C is not read */
            if (beta == 0) {
                OK(cublasGemmEx(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                                tb ? CUBLAS_OP_T : CUBLAS_OP_N, s.m, s.n, s.k, &alpha, s.A,
                                CUDA_R_32F, ta ? s.k : s.m, s.B, CUDA_R_32F, tb ? s.n : s.k, &beta,
                                s.C, CUDA_R_32F, s.m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
                s.check(s.C, alpha, beta);
            }
        }
    OK(cublasDestroy(handle));
}

void test_batched_and_vector(void **) {
    cublasHandle_t handle = create();
    const float one = 1, zero = 0;
    float *A = floats_of({ 1, 2, 3, 4, 5, 6, 7, 8 }), *B = floats_of({ 1, 0, 0, 1, 0, 1, 1, 0 });
    float *C = floats(8);
    OK(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, A, 2, 4, B, 2, 4,
                                 &zero, C, 2, 4, 2));
    const float batched[] = { 1, 2, 3, 4, 7, 8, 5, 6 };
    assert_memory_equal(C, batched, sizeof batched);
    float *x = floats_of({ 1, 10 }), *y = floats(4);
    OK(cublasSgemv(handle, CUBLAS_OP_N, 4, 2, &one, A, 4, x, 1, &zero, y, 1));
    const float plain[] = { 51, 62, 73, 84 };
    assert_memory_equal(y, plain, sizeof plain);
    OK(cublasSgemv(handle, CUBLAS_OP_T, 2, 4, &one, A, 2, x, 1, &one, y, 1));
    const float transposed[] = { 51 + 21, 62 + 43, 73 + 65, 84 + 87 };
    assert_memory_equal(y, transposed, sizeof transposed);
    for (float *p : { A, B, C, x, y })
        OK(cudaFree(p));
    OK(cublasDestroy(handle));
}

void test_tf32(void **) {
    cublasHandle_t handle = create();
    const float fine = 1 + 1.0f / 4096, one = 1, zero = 0;
    float *a = floats_of({ fine }), *b = floats_of({ 1 }), *c = floats(1);
    auto product = [&](cublasComputeType_t compute) {
        OK(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, CUDA_R_32F, 1, b,
                        CUDA_R_32F, 1, &zero, c, CUDA_R_32F, 1, compute, CUBLAS_GEMM_DEFAULT));
        return *c;
    };
    assert_true(product(CUBLAS_COMPUTE_32F) == fine);
    assert_true(product(CUBLAS_COMPUTE_32F_FAST_TF32) == 1);
    OK(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH));
    assert_true(product(CUBLAS_COMPUTE_32F) == 1);
    assert_true(product(CUBLAS_COMPUTE_32F_PEDANTIC) == fine);
    for (float *p : { a, b, c })
        OK(cudaFree(p));
    OK(cublasDestroy(handle));
}

void test_bad_products(void **) {
    cublasHandle_t handle = create();
    const float one = 1, zero = 0;
    {
        Small s(false, false);
        auto shaped = [&](int m, int lda, const float *A) {
            return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, s.n, s.k, &one, A, lda, s.B,
                               s.k, &zero, s.C, s.m);
        };
        GIVES(CUBLAS_STATUS_INVALID_VALUE, shaped(-1, s.m, s.A));
        GIVES(CUBLAS_STATUS_INVALID_VALUE, shaped(s.m, s.m - 1, s.A));
        OK(shaped(0, s.m, s.A));
        FAULTS(0);
        GIVES(CUBLAS_STATUS_EXECUTION_FAILED, shaped(s.m, s.m + 1, s.A)); /* reads past A */
        GIVES(CUBLAS_STATUS_EXECUTION_FAILED, shaped(s.m, s.m, &one));    /* not on the device */
        FAULTS(2);
        GIVES(CUBLAS_STATUS_NOT_SUPPORTED,
              cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, s.A, CUDA_R_16F, 1, s.B,
                           CUDA_R_32F, 1, &zero, s.C, CUDA_R_32F, 1, CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT));
    }
    OK(cublasDestroy(handle));
    GIVES(CUBLAS_STATUS_NOT_INITIALIZED, cublasDestroy(handle));
    assert_string_equal(cublasGetStatusName(CUBLAS_STATUS_ALLOC_FAILED),
                        "CUBLAS_STATUS_ALLOC_FAILED");
    assert_string_equal(cublasGetStatusString(CUBLAS_STATUS_ALLOC_FAILED),
                        "the resource allocation failed");
}

void test_versions(void **) {
    cublasHandle_t handle = create();
    int version, major;
    OK(cublasGetVersion(handle, &version));
    OK(cublasGetProperty(MAJOR_VERSION, &major));
    assert_int_equal(version / 10000, major);
    OK(cublasDestroy(handle));
}

/* ---- workspaces ------------------------------------------------------------------------------ */

/* Bytes of the pool that a new handle takes. */
uint64_t pool_bytes() {
    const uint64_t before = used();
    cublasHandle_t handle = create();
    const uint64_t taken = used() - before;
    assert_int_equal(mt_emulation_get_usage().library, taken);
    OK(cublasDestroy(handle));
    assert_int_equal(used(), before);
    return taken;
}

void test_default_pool(void **) {
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
    assert_int_equal(pool_bytes(), 4 * MIB);
    mt_emulation_set_capability(9, 0);
    assert_int_equal(pool_bytes(), 32 * MIB);
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8", 1);
    assert_int_equal(pool_bytes(), 10 * MIB); /* 8,519,680 in 2 MiB pages */
    setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0", 1);
    assert_int_equal(pool_bytes(), 0);
    setenv("CUBLAS_WORKSPACE_CONFIG", "nonsense", 1);
    assert_int_equal(pool_bytes(), 32 * MIB);
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
    mt_emulation_set_capacity(used() + 30 * MIB);
    cublasHandle_t handle;
    GIVES(CUBLAS_STATUS_ALLOC_FAILED, cublasCreate(&handle));
}

void expect_workspace(void *ptr, uint64_t bytes) {
    mt_emulation_workspace w = mt_emulation_last_workspace();
    assert_int_equal(w.own, ptr == nullptr);
    assert_int_equal(w.bytes, bytes);
    if (ptr)
        assert_ptr_equal(w.ptr, ptr);
}

void test_workspace_rules(void **) {
    cublasHandle_t handle = create();
    cudaStream_t stream;
    float *ours = floats(MIB);
    OK(cudaStreamCreate(&stream));
    Small s(false, false);
    OK(multiply(handle, s));
    expect_workspace(nullptr, 4 * MIB);
    GIVES(CUBLAS_STATUS_INVALID_VALUE, cublasSetWorkspace(handle, ours + 1, MIB));
    OK(multiply(handle, s));
    expect_workspace(nullptr, 4 * MIB);
    OK(cublasSetWorkspace(handle, ours, 4 * MIB));
    OK(multiply(handle, s));
    expect_workspace(ours, 4 * MIB);
    OK(cublasSetStream(handle, stream)); /* puts the default pool back */
    OK(multiply(handle, s));
    expect_workspace(nullptr, 4 * MIB);
    OK(cublasSetWorkspace(handle, nullptr, 0)); /* not the pool, and nothing else */
    OK(multiply(handle, s));
    assert_false(mt_emulation_last_workspace().own);
    assert_int_equal(mt_emulation_last_workspace().bytes, 0);
    assert_int_equal(mt_emulation_get_usage().library, 4 * MIB); /* held all the time */
    cudaStream_t got;
    OK(cublasGetStream(handle, &got));
    assert_ptr_equal(got, stream);
    mt_emulation_set_workspace_needed(16 * KIB);
    GIVES(CUBLAS_STATUS_ALLOC_FAILED, multiply(handle, s));
    OK(cublasDestroy(handle));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(ours));
    FAULTS(0);
}

void test_scratch_is_written(void **) {
    cublasHandle_t handle = create();
    const size_t n = 100 * KIB;
    uint32_t *ours;
    OK(cudaMalloc(&ours, 4 * n));
    OK(cublasSetWorkspace(handle, ours, 4 * n));
    {
        Small s(false, false);
        OK(multiply(handle, s));
        assert_int_equal(ours[0], MT_EMULATION_SCRATCH);
        assert_int_equal(ours[n - 1], MT_EMULATION_SCRATCH);
        assert_int_equal(ours[n / 2], 0xffffffff);
        for (int i = 0; i < 7; i++) /* the part moves on */
            OK(multiply(handle, s));
        for (size_t i = 0; i < n; i++)
            if (ours[i] != MT_EMULATION_SCRATCH)
                fail_msg("word %zu is not written", i);
        OK(cudaMemset(ours, 0, 4 * n));
        mt_emulation_set_scratch(0); /* all of it each time */
        OK(multiply(handle, s));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(ours[i], MT_EMULATION_SCRATCH);
    }
    OK(cublasDestroy(handle));
    OK(cudaFree(ours));
}

void test_bad_workspaces(void **) {
    cublasHandle_t handle = create();
    {
        Small s(false, false);
        float *ours = floats(64 * KIB);
        OK(cublasSetWorkspace(handle, ours, 256 * KIB));
        OK(cudaFree(ours));
        GIVES(CUBLAS_STATUS_EXECUTION_FAILED, multiply(handle, s));
        LAST_FAULT_HAS("a workspace of 262144 bytes");
        OK(cublasSetWorkspace(handle, s.C, 16));
        GIVES(CUBLAS_STATUS_EXECUTION_FAILED, multiply(handle, s));
        LAST_FAULT_HAS("C, 24 bytes");
        LAST_FAULT_HAS("overlaps the workspace");
    }
    OK(cublasDestroy(handle));
}

/* ---- captured products ----------------------------------------------------------------------- */

/* Captures one product; what the graph takes from the device. */
uint64_t captured_bytes(cublasHandle_t handle, cudaStream_t stream, Small &s) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(multiply(handle, s)); /* loads the kernel */
    const uint64_t before = used();
    OK(cudaMemset(s.C, 0, 24));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(multiply(handle, s));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph));
    OK(cudaGraphDestroy(graph));
    const uint64_t taken = used() - before;
    assert_true(s.C[0] == 0);
    OK(cudaGraphLaunch(exec, stream));
    s.check(s.C, 1, 0);
    assert_int_equal(mt_emulation_last_workspace().captured, taken > 0);
    OK(cudaGraphExecDestroy(exec));
    assert_int_equal(used(), before);
    return taken;
}

void test_captured_products(void **) {
    cublasHandle_t handle = create();
    cudaStream_t stream;
    float *ours = floats(MIB);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
        Small s(false, false);
        OK(cublasSetStream(handle, stream));
        assert_int_equal(captured_bytes(handle, stream, s), 4 * MIB);
        OK(cublasSetWorkspace(handle, ours, 4 * MIB));
        assert_int_equal(captured_bytes(handle, stream, s), 0);
    }
    OK(cublasDestroy(handle));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(ours));
}

void test_kernels_of_products(void **) {
    mt_emulation_set_kernel_bytes(2 * MIB);
    cublasHandle_t handle = create();
    {
        Small s(false, false), t(true, false);
        const uint64_t before = used();
        OK(multiply(handle, s));
        assert_int_equal(used() - before, 2 * MIB);
        OK(multiply(handle, s));
        assert_int_equal(used() - before, 2 * MIB);
        const float one = 1, zero = 0;
        OK(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, t.m, t.n, t.k, &one, t.A, t.k, t.B, t.k,
                       &zero, t.C, t.m));
        assert_int_equal(used() - before, 4 * MIB);
    }
    OK(cublasDestroy(handle));
}

} // namespace

void add_cublas_tests(std::vector<CMUnitTest> *all) {
    const std::vector<CMUnitTest> tests = {
        TEST(test_sgemm),
        TEST(test_batched_and_vector),
        TEST(test_tf32),
        TEST(test_bad_products),
        TEST(test_versions),
        TEST(test_default_pool),
        TEST(test_workspace_rules),
        TEST(test_scratch_is_written),
        TEST(test_bad_workspaces),
        TEST(test_captured_products),
        TEST(test_kernels_of_products),
    };
    all->insert(all->end(), tests.begin(), tests.end());
}
