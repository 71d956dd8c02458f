/* cublas.c - cuBLAS of the stand-in device: a pool of its own while a handle lives, products that
 * do nothing. See standin.h. */
#include "standin.h"

#include <cublas_v2.h>

#include <stdint.h>

static int64_t pool(void) {
    return standin_major() >= 9 ? (int64_t)32 << 20 : (int64_t)4 << 20;
}

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    static int one;
    standin_library(pool());
    *handle = (cublasHandle_t)&one;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    (void)handle;
    standin_library(-pool());
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *version) {
    (void)handle;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    (void)handle, (void)stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *ptr, size_t bytes) {
    (void)handle, (void)bytes;
    return (uintptr_t)ptr % 256 == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *A, cudaDataType type_a, int lda, const void *B,
                            cudaDataType type_b, int ldb, const void *beta, void *C,
                            cudaDataType type_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo) {
    (void)handle, (void)transb, (void)n, (void)alpha, (void)A, (void)type_a, (void)B, (void)type_b;
    (void)beta, (void)C, (void)type_c, (void)compute, (void)algo;
    return lda >= (transa == CUBLAS_OP_N ? m : k) && ldb >= k && ldc >= m
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

const char *cublasGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS";
}

const char *cublasGetStatusString(cublasStatus_t status) {
    (void)status;
    return "the stand-in refuses";
}
