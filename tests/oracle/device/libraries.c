/* libraries.c - cuBLAS, cuBLASLt and the management library, as far as PyTorch needs an answer. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

/* ---- cuBLAS: handles and modes ----------------------------------------------------------------
 */

cublasStatus_t cublasCreate_v2(cublasHandle_t *h) {
    *h = calloc(1, 64);
    return *h != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t h) {
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(UNUSED cublasHandle_t h, cublasMath_t *mode) {
    *mode = CUBLAS_DEFAULT_MATH;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(UNUSED cublasHandle_t h, cublasPointerMode_t *mode) {
    *mode = CUBLAS_POINTER_MODE_HOST;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuBLASLt: descriptions, which are opaque, and one algorithm that always fits -------------
 */

size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}

static cublasStatus_t description(void **d) {
    *d = calloc(1, 512);
    return *d != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static cublasStatus_t end(void *d) {
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, UNUSED cublasComputeType_t c,
                                        UNUSED cudaDataType_t t) {
    return description((void **)d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
    return end(d);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, UNUSED cudaDataType t,
                                          UNUSED uint64_t rows, UNUSED uint64_t columns,
                                          UNUSED int64_t stride) {
    return description((void **)l);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
    return end(l);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
    return description((void **)p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
    return end(p);
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(UNUSED cublasLtHandle_t h, UNUSED cublasLtMatmulDesc_t d,
                               UNUSED cublasLtMatrixLayout_t a, UNUSED cublasLtMatrixLayout_t b,
                               UNUSED cublasLtMatrixLayout_t c, UNUSED cublasLtMatrixLayout_t e,
                               UNUSED cublasLtMatmulPreference_t p, int wanted,
                               cublasLtMatmulHeuristicResult_t r[], int *found) {
    *found = wanted > 0;
    if (wanted > 0)
        memset(r, 0, sizeof *r);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the management library: asked before expandable segments and after a refusal -------------
 */

#define NVML_SUCCESS       0
#define NVML_NOT_SUPPORTED 3

int nvmlInit_v2(void);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **d);
int nvmlDeviceGetComputeRunningProcesses(void *d, unsigned *n, void *infos);
int nvmlDeviceGetGpuFabricInfoV(void *d, void *info);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned link, int *type);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned link, void *pci);

int nvmlInit_v2(void) {
    return NVML_SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *n) {
    *n = 1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(UNUSED const char *id, void **d) {
    *d = (void *)1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(UNUSED void *d, unsigned *n, UNUSED void *infos) {
    *n = 0;
    return NVML_SUCCESS;
}

/* No fabric: all zeros after the version, which the caller set. */
int nvmlDeviceGetGpuFabricInfoV(UNUSED void *d, void *info) {
    memset((char *)info + sizeof(unsigned), 0, 28);
    return NVML_SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(UNUSED void *d, UNUSED unsigned link, UNUSED int *type) {
    return NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(UNUSED void *d, UNUSED unsigned link, UNUSED void *pci) {
    return NVML_NOT_SUPPORTED;
}
