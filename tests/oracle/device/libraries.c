/* libraries.c - cuBLAS, cuBLASLt and the management library, as far as PyTorch needs an answer.
 *
 * Handles and descriptions are opaque; of the libraries' headers (which fill packages of hundreds
 * of megabytes) nothing is needed but the layout of one answer. */
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

/* ---- cuBLAS and cuBLASLt: handles and modes -------------------------------------------------- */

enum { SUCCESS, ALLOC_FAILED = 3 };

int cublasCreate_v2(void **h);
int cublasDestroy_v2(void *h);
int cublasGetMathMode(void *h, int *mode);
int cublasGetPointerMode_v2(void *h, int *mode);
size_t cublasLtGetVersion(void);
int cublasLtMatmulDescCreate(void **d, int compute, int type);
int cublasLtMatmulDescDestroy(void *d);
int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t columns, int64_t stride);
int cublasLtMatrixLayoutDestroy(void *l);
int cublasLtMatmulPreferenceCreate(void **p);
int cublasLtMatmulPreferenceDestroy(void *p);

static int opaque(void **p) {
    *p = calloc(1, 512);
    return *p != NULL ? SUCCESS : ALLOC_FAILED;
}

static int end(void *p) {
    free(p);
    return SUCCESS;
}

int cublasCreate_v2(void **h) {
    return opaque(h);
}

int cublasDestroy_v2(void *h) {
    return end(h);
}

int cublasGetMathMode(UNUSED void *h, int *mode) {
    *mode = 0; /* the default */
    return SUCCESS;
}

int cublasGetPointerMode_v2(UNUSED void *h, int *mode) {
    *mode = 0; /* on the host */
    return SUCCESS;
}

size_t cublasLtGetVersion(void) {
    return 10 * CUDA_VERSION;
}

int cublasLtMatmulDescCreate(void **d, UNUSED int compute, UNUSED int type) {
    return opaque(d);
}

int cublasLtMatmulDescDestroy(void *d) {
    return end(d);
}

int cublasLtMatrixLayoutCreate(void **l, UNUSED int type, UNUSED uint64_t rows,
                               UNUSED uint64_t columns, UNUSED int64_t stride) {
    return opaque(l);
}

int cublasLtMatrixLayoutDestroy(void *l) {
    return end(l);
}

int cublasLtMatmulPreferenceCreate(void **p) {
    return opaque(p);
}

int cublasLtMatmulPreferenceDestroy(void *p) {
    return end(p);
}

/* ---- cuBLASLt: one algorithm that always fits and needs no workspace ------------------------- */

typedef struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} heuristic;

int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *e, void *p,
                                   int wanted, heuristic *answers, int *found);

int cublasLtMatmulAlgoGetHeuristic(UNUSED void *h, UNUSED void *d, UNUSED void *a, UNUSED void *b,
                                   UNUSED void *c, UNUSED void *e, UNUSED void *p, int wanted,
                                   heuristic *answers, int *found) {
    *found = wanted > 0;
    if (wanted > 0)
        memset(answers, 0, sizeof *answers);
    return SUCCESS;
}

/* ---- the management library: asked before expandable segments and after a refusal ------------ */

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
