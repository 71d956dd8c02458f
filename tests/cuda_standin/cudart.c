/* cudart.c - the runtime of the stand-in device, and the driver's calls that it hands out by name.
 * See standin.h. One thread at a time. */
#include "standin.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE      ((size_t)2 << 20)
#define CHUNK     ((size_t)32 << 20) /* a pool grows by these */
#define CONTEXT   ((size_t)256 << 20)
#define ADDRESSES ((size_t)32 << 40)
#define SMALL     ((size_t)512)
#define TABLE     ((size_t)1 << 18) /* entries, more than are ever live */

typedef struct piece {
    uintptr_t at; /* 0: free entry, 1: was used */
    size_t bytes;
    uint32_t page; /* of a small piece, 1 + its number */
} piece;

static struct {
    size_t capacity, used;
    uintptr_t begin, next;
    piece *table;
    uint32_t *page_live; /* small pieces in each shared page */
    uint32_t pages, page_room;
    size_t page_end; /* bytes handed out of the newest page */
    size_t pool_used, pool_reserved;
    int capturing;
} g;

static void start(void) {
    const char *capacity = getenv("STANDIN_CAPACITY");
    if (g.begin != 0)
        return;
    g.capacity = capacity != NULL ? strtoull(capacity, NULL, 10) : (size_t)48 << 30;
    void *range =
        mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    g.table = calloc(TABLE, sizeof *g.table);
    if (range == MAP_FAILED || g.table == NULL)
        abort();
    g.begin = g.next = ((uintptr_t)range + PAGE - 1) & ~(PAGE - 1);
    g.used = CONTEXT;
}

/* Bytes of the other program; asked at each look. */
static size_t other(void) {
    static unsigned asked;
    const char *does = getenv("STANDIN_OTHER");
    if (does == NULL)
        return 0;
    if (strcmp(does, "moves") == 0)
        return asked++ % 2 * PAGE;
    return g.used < CONTEXT + ((size_t)64 << 20) ? (size_t)1 << 30 : 0;
}

static size_t round_to(size_t n, size_t step) {
    return (n + step - 1) / step * step;
}

static int on_device(const void *p) {
    return g.begin != 0 && (uintptr_t)p >= g.begin && (uintptr_t)p < g.begin + ADDRESSES - PAGE;
}

int standin_major(void) {
    const char *major = getenv("STANDIN_MAJOR");
    return major != NULL ? atoi(major) : 8;
}

void standin_library(int64_t change) {
    start();
    g.used += (size_t)change;
}

/* ---- pieces of memory ------------------------------------------------------------------------ */

static piece *find(uintptr_t at) {
    size_t i = (at >> 9) * 0x9e3779b97f4a7c15u >> 46 & (TABLE - 1);
    for (; g.table[i].at != 0; i = (i + 1) & (TABLE - 1))
        if (g.table[i].at == at)
            return &g.table[i];
    return NULL;
}

static void enter(uintptr_t at, size_t bytes, uint32_t page) {
    size_t i = (at >> 9) * 0x9e3779b97f4a7c15u >> 46 & (TABLE - 1);
    while (g.table[i].at > 1)
        i = (i + 1) & (TABLE - 1);
    g.table[i] = (piece){ at, bytes, page };
}

static int fits(size_t bytes) {
    return bytes <= g.capacity - g.used;
}

static uintptr_t addresses(size_t bytes) {
    uintptr_t at = g.next;
    g.next += round_to(bytes, PAGE);
    return at;
}

/* A page that small pieces share; 0 when there is no room for one more. */
static int new_page(void) {
    if (!fits(PAGE))
        return 0;
    if (g.pages == g.page_room) {
        g.page_room = g.page_room == 0 ? 1024 : 2 * g.page_room;
        g.page_live = realloc(g.page_live, g.page_room * sizeof *g.page_live);
        if (g.page_live == NULL)
            abort();
    }
    if (g.pages > 0 && g.page_live[g.pages - 1] == 0)
        g.used -= PAGE; /* the newest one, kept although empty */
    g.page_live[g.pages++] = 0;
    g.page_end = 0;
    g.used += PAGE;
    addresses(PAGE);
    return 1;
}

static uintptr_t take_small(size_t bytes) {
    static uintptr_t newest;
    size_t size = round_to(bytes, SMALL);
    if (g.pages == 0 || g.page_end + size > PAGE) {
        if (!new_page())
            return 0;
        newest = g.next - PAGE;
    }
    uintptr_t at = newest + g.page_end;
    g.page_end += size;
    g.page_live[g.pages - 1]++;
    enter(at, bytes, g.pages);
    return at;
}

static uintptr_t take(size_t bytes) {
    if (bytes < PAGE)
        return take_small(bytes);
    if (!fits(round_to(bytes, PAGE)))
        return 0;
    uintptr_t at = addresses(bytes);
    g.used += round_to(bytes, PAGE);
    enter(at, bytes, 0);
    return at;
}

static cudaError_t give(uintptr_t at) {
    piece *p = find(at);
    if (p == NULL)
        return cudaErrorInvalidValue;
    if (p->page == 0)
        g.used -= round_to(p->bytes, PAGE);
    else if (--g.page_live[p->page - 1] == 0 && p->page != g.pages)
        g.used -= PAGE;
    p->at = 1;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
    start();
    *p = (void *)take(bytes);
    return *p != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *p) {
    return p == NULL ? cudaSuccess : give((uintptr_t)p);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
    start();
    *left = g.capacity - g.used - other();
    *total = g.capacity;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    *p = calloc(1, bytes);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p) {
    free(p);
    return cudaSuccess;
}

/* ---- the driver's pool ----------------------------------------------------------------------- */

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props) {
    (void)props;
    start();
    *pool = (cudaMemPool_t)&g;
    return cudaSuccess;
}

static void pool_shrink(void) {
    size_t least = round_to(g.pool_used, CHUNK);
    g.used -= g.pool_reserved - least;
    g.pool_reserved = least;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    (void)pool;
    pool_shrink();
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    (void)pool, (void)keep;
    pool_shrink();
    return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value) {
    (void)pool;
    *(uint64_t *)value = attr == cudaMemPoolAttrUsedMemCurrent ? g.pool_used : g.pool_reserved;
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t s) {
    (void)pool, (void)s;
    size_t size = round_to(bytes, SMALL), needed = round_to(g.pool_used + size, CHUNK);
    if (needed > g.pool_reserved && !fits(needed - g.pool_reserved))
        return cudaErrorMemoryAllocation;
    if (needed > g.pool_reserved) {
        g.used += needed - g.pool_reserved;
        g.pool_reserved = needed;
    }
    g.pool_used += size;
    uintptr_t at = addresses(bytes);
    enter(at, size, 0);
    *p = (void *)at;
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
    (void)s;
    piece *found = find((uintptr_t)p);
    if (found == NULL)
        return cudaErrorInvalidValue;
    g.pool_used -= found->bytes;
    found->at = 1;
    return cudaSuccess;
}

/* ---- physical memory and addresses apart ----------------------------------------------------- */

static CUresult reserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wish,
                        unsigned long long flags) {
    (void)align, (void)wish, (void)flags;
    *at = addresses(bytes);
    return CUDA_SUCCESS;
}

static CUresult release_addresses(CUdeviceptr at, size_t bytes) {
    (void)at, (void)bytes;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags) {
    (void)prop, (void)flags;
    if (bytes % PAGE != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fits(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    g.used += bytes;
    *handle = bytes;
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle) {
    (void)handle; /* every handle is mapped once, and lives as long */
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)at, (void)offset, (void)flags;
    return handle == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult unmap(CUdeviceptr at, size_t bytes) {
    (void)at;
    g.used -= bytes;
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n) {
    (void)at, (void)bytes, (void)access, (void)n;
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
    static const struct {
        const char *name;
        void *function;
    } calls[] = { { "cuMemAddressReserve", (void *)reserve },
                  { "cuMemAddressFree", (void *)release_addresses },
                  { "cuMemCreate", (void *)create },
                  { "cuMemRelease", (void *)release },
                  { "cuMemMap", (void *)map },
                  { "cuMemUnmap", (void *)unmap },
                  { "cuMemSetAccess", (void *)set_access } };
    (void)version, (void)flags;
    *function = NULL;
    *result = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0) {
            *function = calls[i].function;
            *result = cudaDriverEntryPointSuccess;
        }
    return cudaSuccess;
}

/* ---- copies: what is read from the device is zero -------------------------------------------- */

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s) {
    (void)src, (void)s;
    if (kind == cudaMemcpyDeviceToHost)
        memset(dst, 0, bytes);
    return (kind == cudaMemcpyDeviceToHost) == on_device(dst) ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t bytes, size_t rows, enum cudaMemcpyKind kind, cudaStream_t s) {
    (void)rows, (void)kind, (void)s;
    return on_device(dst) && on_device(src) && bytes <= dst_pitch && bytes <= src_pitch
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t s) {
    (void)value, (void)bytes, (void)s;
    return on_device(dst) ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- device, streams, graphs ----------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    start();
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    (void)device;
    start();
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "stand-in");
    p->totalGlobalMem = g.capacity;
    p->major = standin_major();
    p->minor = p->major == 8 ? 6 : 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) {
    (void)flags;
    *s = (cudaStream_t)&g.used;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
    (void)s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    (void)s;
    pool_shrink();
    return g.capturing ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
    (void)s, (void)mode;
    g.capturing = 1;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    (void)s;
    g.capturing = 0;
    *graph = (cudaGraph_t)&g;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    (void)flags;
    *exec = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    (void)s;
    return exec != NULL ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    (void)exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t e) {
    return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}

const char *cudaGetErrorString(cudaError_t e) {
    return e == cudaErrorMemoryAllocation ? "out of memory" : "the stand-in refuses";
}

/* ---- what nvcc's code calls by itself -------------------------------------------------------- */

cudaError_t cudaGetSymbolAddress(void **p, const void *symbol) {
    static uintptr_t at;
    (void)symbol;
    start();
    if (at == 0)
        at = addresses(PAGE);
    *p = (void *)at;
    return cudaSuccess;
}

/* Events: time stands still here. */
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = (cudaEvent_t)(uintptr_t)1;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
    (void)event, (void)s;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    (void)begin, (void)end;
    *ms = 0;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t s) {
    (void)kernel, (void)arguments, (void)shared, (void)s;
    return grid.x * grid.y * grid.z > 0 && block.x * block.y * block.z <= 1024
               ? cudaSuccess
               : cudaErrorInvalidConfiguration;
}

static struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    pushed.grid = grid;
    pushed.block = block;
    pushed.shared = shared;
    pushed.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *(void **)stream = pushed.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(void **kernel, const void *function);
cudaError_t __cudaGetKernel(void **kernel, const void *function) {
    *kernel = (void *)(uintptr_t)function;
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t s);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t s) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, s);
}

void **__cudaRegisterFatBinary(void *binary);
void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    handle = binary;
    return &handle;
}

#define IGNORE(name)                                                                               \
    void name(void);                                                                               \
    void name(void) {}
IGNORE(__cudaRegisterFatBinaryEnd)
IGNORE(__cudaUnregisterFatBinary)
IGNORE(__cudaRegisterFunction)
IGNORE(__cudaRegisterVar)
