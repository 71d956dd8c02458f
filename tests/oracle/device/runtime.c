/* runtime.c - the part of the CUDA runtime that PyTorch needs an answer from.
 *
 * What is not here is a generated function that returns success (build.sh). Kernels do not run;
 * streams are always idle; device memory reads as zeros, and as 1 where one byte is read, so that a
 * question "did all of them ...?" is answered with yes. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory.h"

#define UNUSED __attribute__((unused))

static __thread cudaError_t last_error;

static cudaError_t result(cudaError_t e) {
    if (e != cudaSuccess)
        last_error = e;
    return e;
}

/* ---- errors ---------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void) {
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

const char *cudaGetErrorString(cudaError_t e) {
    return e == cudaSuccess                 ? "no error"
           : e == cudaErrorMemoryAllocation ? "out of memory"
                                            : "error";
}

const char *cudaGetErrorName(cudaError_t e) {
    return cudaGetErrorString(e);
}

/* ---- memory ---------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes) {
    *p = bytes > 0 ? device_malloc(bytes) : NULL;
    return result(*p == NULL && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFree(void *p) {
    return result(p == NULL || device_free(p) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    const device *d = device_get();
    *available = d->total - d->used;
    *total = d->total;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, UNUSED unsigned flags) {
    int error = posix_memalign(p, 4096, bytes > 0 ? bytes : 1);
    return result(error != 0 ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFreeHost(void *p) {
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            UNUSED enum cudaMemcpyKind kind, UNUSED cudaStream_t stream) {
    if (device_holds(from) && !device_holds(to))
        memset(to, bytes == 1, bytes);
    else if (!device_holds(to))
        memmove(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
    memset(a, 0, sizeof *a);
    a->type = cudaMemoryTypeUnregistered;
    if (device_holds(p)) {
        a->type = cudaMemoryTypeDevice;
        a->devicePointer = (void *)(uintptr_t)p;
    }
    return cudaSuccess;
}

/* ---- the device ------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *d) {
    *d = 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int room, UNUSED int d) {
    snprintf(id, (size_t)room, "0000:01:00.0");
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return cudaSuccess;
}

/* KiB of shared memory of a multiprocessor, and its threads: small on the consumer chips. */
static int shared_kib(const device *d) {
    int cc = 10 * d->major + d->minor;
    return cc == 86 || cc == 89 || cc == 120 ? 100 : cc < 90 ? 164 : 228;
}

static int most_threads(const device *d) {
    return shared_kib(d) == 100 ? 1536 : 2048;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, UNUSED int ordinal) {
    const device *d = device_get();
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "simulated device");
    p->totalGlobalMem = d->total;
    p->major = d->major;
    p->minor = d->minor;
    p->multiProcessorCount = d->multiprocessors;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxThreadsPerMultiProcessor = most_threads(d);
    p->maxBlocksPerMultiProcessor = 16;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerMultiprocessor = (size_t)shared_kib(d) << 10;
    p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor - 1024;
    p->reservedSharedMemPerBlock = 1024;
    p->l2CacheSize = 6 << 20;
    p->totalConstMem = 65536;
    p->memPitch = 0x7fffffff;
    p->textureAlignment = 512;
    p->concurrentKernels = p->unifiedAddressing = p->cooperativeLaunch = 1;
    return cudaSuccess;
}

static int attribute(int a) {
    struct cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    switch (a) {
    case cudaDevAttrComputeCapabilityMajor:
        return p.major;
    case cudaDevAttrComputeCapabilityMinor:
        return p.minor;
    case cudaDevAttrMultiProcessorCount:
        return p.multiProcessorCount;
    case cudaDevAttrWarpSize:
        return p.warpSize;
    case cudaDevAttrMaxThreadsPerBlock:
        return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimZ:
        return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
        return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        return p.maxGridSize[1];
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        return p.regsPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return (int)p.sharedMemPerBlock;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return (int)p.sharedMemPerMultiprocessor;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return (int)p.sharedMemPerBlockOptin;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        return (int)p.reservedSharedMemPerBlock;
    case cudaDevAttrL2CacheSize:
        return p.l2CacheSize;
    case cudaDevAttrClockRate:
        return 1740000;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCooperativeLaunch:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, UNUSED int d) {
    *value = attribute((int)a);
    return cudaSuccess;
}

/* ---- streams and events ---------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, UNUSED unsigned flags,
                                         UNUSED int priority) {
    static uintptr_t next = 0x10000; /* handles rise */
    *s = (cudaStream_t)__atomic_fetch_add(&next, 16, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(UNUSED cudaStream_t s, enum cudaStreamCaptureStatus *status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(UNUSED cudaStream_t s, int *priority) {
    *priority = 0;
    return cudaSuccess;
}

/* An event is the time at which it was recorded. */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, UNUSED unsigned flags) {
    *e = calloc(1, sizeof(struct timespec));
    return result(*e == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t e) {
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, UNUSED cudaStream_t s) {
    clock_gettime(CLOCK_MONOTONIC, (struct timespec *)e);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(UNUSED cudaEvent_t e) {
    return result(device_held() ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    const struct timespec *a = (struct timespec *)from, *b = (struct timespec *)to;
    *ms = (float)(1e3 * (double)(b->tv_sec - a->tv_sec) + 1e-6 * (double)(b->tv_nsec - a->tv_nsec));
    return cudaSuccess;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static __thread struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} launch;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
void **__cudaRegisterFatBinary(void *image);

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    launch.grid = grid;
    launch.block = block;
    launch.shared = shared;
    launch.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = launch.grid;
    *block = launch.block;
    *shared = launch.shared;
    *(cudaStream_t *)stream = launch.stream;
    return cudaSuccess;
}

void **__cudaRegisterFatBinary(UNUSED void *image) {
    static void *module;
    return &module;
}

/* PyTorch holds no code for capability 8.9: that of 8.6 runs there. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, UNUSED const void *f) {
    int cc = 10 * device_get()->major + device_get()->minor;
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->numRegs = 32;
    a->ptxVersion = a->binaryVersion = cc == 89 ? 86 : cc;
    a->maxDynamicSharedSizeBytes = 48 << 10;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, UNUSED const void *f,
                                                                   int threads,
                                                                   UNUSED size_t shared,
                                                                   UNUSED unsigned flags) {
    int most = most_threads(device_get());
    *n = threads > 0 && threads < most ? most / threads : 1;
    if (*n > 16)
        *n = 16;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int threads,
                                                          size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, threads, shared, 0);
}

/* ---- the driver ------------------------------------------------------------------------------ */

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, UNUSED CUdevice d) {
    *value = attribute((int)a);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *c) {
    *c = (CUcontext)1;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(UNUSED CUdevice d, unsigned *flags, int *active) {
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult e, const char **s) {
    *s = e == CUDA_SUCCESS ? "no error" : e == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "error";
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, UNUSED const CUmemAllocationProp *p,
                                       UNUSED CUmemAllocationGranularity_flags f) {
    *bytes = PAGE;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *p, size_t bytes, UNUSED size_t align,
                             UNUSED CUdeviceptr hint, UNUSED unsigned long long flags) {
    *p = (CUdeviceptr)device_reserve(bytes);
    return *p != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
    return device_unreserve((void *)p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t bytes,
                     UNUSED const CUmemAllocationProp *p, UNUSED unsigned long long flags) {
    if (bytes % PAGE != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *h = (CUmemGenericAllocationHandle)device_create(bytes);
    return *h != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
    device_release((void *)h);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr p, size_t bytes, UNUSED size_t offset, CUmemGenericAllocationHandle h,
                  UNUSED unsigned long long flags) {
    device_map((void *)p, bytes, (void *)h);
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
    return device_unmap((void *)p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(UNUSED CUdeviceptr p, UNUSED size_t bytes, UNUSED const CUmemAccessDesc *d,
                        UNUSED size_t n) {
    return CUDA_SUCCESS;
}

static CUresult unsupported(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* PyTorch asks for the driver's functions by name: ours, generated ones, or a refusal. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, UNUSED unsigned version,
                                             UNUSED unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    *f = dlsym(RTLD_DEFAULT, name);
    if (*f == NULL)
        *f = (void *)unsupported;
    if (status != NULL)
        *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
