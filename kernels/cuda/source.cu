/* source.cu - the source `cuda`: segments by cudaMalloc, growable ones by mapping physical memory
 * into a range of addresses, and the driver's own pool for the policy async.
 *
 * The driver gives memory in pages of 2 MiB. A piece that is a multiple of them costs its size;
 * what any other piece costs (small ones share pages) is measured, so that the driver's own
 * rounding can be told from bytes that a library took. */
#include "kernels/cuda/state.h"

#include <stdlib.h>

#define DRIVER_PAGE (2 * MT_MIB)

/* The driver's calls for growable segments, fetched by name: the program never links libcuda. */
struct driver_calls {
    decltype(&::cuMemAddressReserve) cuMemAddressReserve;
    decltype(&::cuMemAddressFree) cuMemAddressFree;
    decltype(&::cuMemCreate) cuMemCreate;
    decltype(&::cuMemRelease) cuMemRelease;
    decltype(&::cuMemMap) cuMemMap;
    decltype(&::cuMemUnmap) cuMemUnmap;
    decltype(&::cuMemSetAccess) cuMemSetAccess;
};

struct cuda_source {
    mt_source base; /* first */
    mt_cuda *c;
    cudaMemPool_t pool; /* NULL unless options.pool */
    driver_calls driver;
    bool driver_known;
};

/* ---- segments -------------------------------------------------------------------------------- */

static mt_status no_memory(mt_source *s, uint64_t bytes, const char *call, mt_error *err) {
    return mt_fail(err, MT_NO_MEMORY,
                   "cuda: %s of %" PRIu64 " bytes refused by the driver, %" PRIu64 " bytes held",
                   call, bytes, s->used);
}

/* One cudaMalloc; refused is an answer, anything else a failure. */
static mt_status device_take(mt_source *s, uint64_t bytes, void **ptr, mt_error *err) {
    cudaError_t result = cudaMalloc(ptr, bytes);
    if (result != cudaErrorMemoryAllocation)
        return mt_cuda_result(err, mt_call{ "cudaMalloc", __FILE__, __LINE__, bytes }, result);
    cudaGetLastError();
    return no_memory(s, bytes, "cudaMalloc", err);
}

static bool whole_pages(uint64_t bytes) {
    return bytes % DRIVER_PAGE == 0;
}

static mt_status cuda_take(mt_source *s, uint64_t bytes, void **ptr, mt_error *err) {
    mt_cuda *c = ((cuda_source *)s)->c;
    uint64_t before = 0, after = bytes;
    bool measured = c->options.watch && !whole_pages(bytes);
    MT_TRY(mt_source_count(s, bytes, err));
    mt_status status = measured ? mt_cuda_used(c, &before, err) : MT_OK;
    if (status == MT_OK)
        status = device_take(s, bytes, ptr, err);
    if (status != MT_OK) {
        mt_source_uncount(s, bytes);
        return status;
    }
    if (measured && mt_cuda_used(c, &after, &c->device.failure) != MT_OK)
        after = before;
    s->driver_bytes += after - before;
    return MT_OK;
}

/* cudaFree waits for the work that uses the memory. A failure is told by the next sync. */
static void cuda_give(mt_source *s, void *ptr, uint64_t bytes) {
    mt_cuda *c = ((cuda_source *)s)->c;
    uint64_t before = bytes, after = 0;
    bool measured = c->options.watch && !whole_pages(bytes) && !mt_cuda_failed(c);
    if (measured && mt_cuda_used(c, &before, &c->device.failure) != MT_OK)
        measured = false;
    MT_CUDA_NOTE(c, bytes, cudaFree(ptr));
    if (measured && mt_cuda_used(c, &after, mt_cuda_slot(c)) != MT_OK)
        after = before;
    s->driver_bytes -= before - after;
    mt_source_uncount(s, bytes);
}

/* ---- growable segments ----------------------------------------------------------------------- */

template <class F> static mt_status find_call(F **call, const char *name, mt_error *err) {
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void *at = NULL;
    mt_call place = { "cudaGetDriverEntryPointByVersion", __FILE__, __LINE__, 0 };
    MT_TRY(mt_cuda_result(
        err, place, cudaGetDriverEntryPointByVersion(name, &at, 12050, cudaEnableDefault, &found)));
    if (at == NULL || found != cudaDriverEntryPointSuccess)
        return mt_fail(err, MT_FAILED, "cuda: this driver has no %s, which growable segments need",
                       name);
    *call = (F *)at;
    return MT_OK;
}

static mt_status find_driver(cuda_source *s, mt_error *err) {
    if (s->driver_known)
        return MT_OK;
#define FIND(name) MT_TRY(find_call(&s->driver.name, #name, err))
    FIND(cuMemAddressReserve);
    FIND(cuMemAddressFree);
    FIND(cuMemCreate);
    FIND(cuMemRelease);
    FIND(cuMemMap);
    FIND(cuMemUnmap);
    FIND(cuMemSetAccess);
#undef FIND
    s->driver_known = true;
    return MT_OK;
}

static CUdeviceptr address(void *base, uint64_t offset) {
    return (CUdeviceptr)(uintptr_t)base + offset;
}

static mt_status cuda_reserve(mt_source *base, uint64_t bytes, void **range, mt_error *err) {
    cuda_source *s = (cuda_source *)base;
    CUdeviceptr at = 0;
    MT_TRY(find_driver(s, err));
    mt_call call = { "cuMemAddressReserve", __FILE__, __LINE__, bytes };
    MT_TRY(mt_cuda_result(
        err, call, s->driver.cuMemAddressReserve(&at, mt_round_up(bytes, DRIVER_PAGE), 0, 0, 0)));
    *range = (void *)(uintptr_t)at;
    return MT_OK;
}

static CUmemAllocationProp on_device(void) {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = 0;
    return p;
}

/* Maps a handle and opens it to the device. The caller releases the handle. */
static mt_status map_handle(cuda_source *s, CUdeviceptr at, uint64_t bytes,
                            CUmemGenericAllocationHandle handle, mt_error *err) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MT_TRY(mt_cuda_result(err, mt_call{ "cuMemMap", __FILE__, __LINE__, bytes },
                          s->driver.cuMemMap(at, bytes, 0, handle, 0)));
    mt_status status = mt_cuda_result(err, mt_call{ "cuMemSetAccess", __FILE__, __LINE__, bytes },
                                      s->driver.cuMemSetAccess(at, bytes, &access, 1));
    if (status != MT_OK)
        s->driver.cuMemUnmap(at, bytes);
    return status;
}

/* A handle lives as long as its mapping once it is released. */
static mt_status map_memory(cuda_source *s, CUdeviceptr at, uint64_t bytes, mt_error *err) {
    CUmemAllocationProp where = on_device();
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = s->driver.cuMemCreate(&handle, bytes, &where, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return no_memory(&s->base, bytes, "cuMemCreate", err);
    MT_TRY(mt_cuda_result(err, mt_call{ "cuMemCreate", __FILE__, __LINE__, bytes }, result));
    mt_status status = map_handle(s, at, bytes, handle, err);
    mt_status released = mt_cuda_result(status == MT_OK ? err : NULL,
                                        mt_call{ "cuMemRelease", __FILE__, __LINE__, bytes },
                                        s->driver.cuMemRelease(handle));
    if (status == MT_OK && released != MT_OK)
        s->driver.cuMemUnmap(at, bytes);
    return status != MT_OK ? status : released;
}

static mt_status cuda_map(mt_source *base, void *range, uint64_t offset, uint64_t bytes,
                          mt_error *err) {
    cuda_source *s = (cuda_source *)base;
    if (!whole_pages(bytes))
        return mt_fail(err, MT_BAD,
                       "cuda: a mapping of %" PRIu64 " bytes: expected whole pages of "
                       "2 MiB",
                       bytes);
    MT_TRY(mt_source_count(base, bytes, err));
    mt_status status = map_memory(s, address(range, offset), bytes, err);
    if (status != MT_OK)
        mt_source_uncount(base, bytes);
    else
        base->driver_bytes += bytes;
    return status;
}

/* Unlike cudaFree, unmapping does not wait for the work that uses the memory. */
static void cuda_unmap(mt_source *base, void *range, uint64_t offset, uint64_t bytes) {
    cuda_source *s = (cuda_source *)base;
    mt_cuda *c = s->c;
    MT_CUDA_NOTE(c, 0, cudaStreamSynchronize(c->stream));
    mt_cuda_result(mt_cuda_slot(c), mt_call{ "cuMemUnmap", __FILE__, __LINE__, bytes },
                   s->driver.cuMemUnmap(address(range, offset), bytes));
    base->driver_bytes -= bytes;
    mt_source_uncount(base, bytes);
}

static void cuda_release(mt_source *base, void *range, uint64_t bytes) {
    cuda_source *s = (cuda_source *)base;
    mt_cuda_result(mt_cuda_slot(s->c), mt_call{ "cuMemAddressFree", __FILE__, __LINE__, bytes },
                   s->driver.cuMemAddressFree(address(range, 0), mt_round_up(bytes, DRIVER_PAGE)));
}

/* ---- the driver's pool ----------------------------------------------------------------------- */

static mt_status pool_state(mt_source *base, uint64_t *reserved, uint64_t *used, mt_error *err) {
    cuda_source *s = (cuda_source *)base;
    err = err != NULL ? err : mt_cuda_slot(s->c);
    MT_CUDA_TRY(err, 0,
                cudaMemPoolGetAttribute(s->pool, cudaMemPoolAttrReservedMemCurrent, reserved));
    MT_CUDA_TRY(err, 0, cudaMemPoolGetAttribute(s->pool, cudaMemPoolAttrUsedMemCurrent, used));
    base->driver_bytes += *reserved - base->used;
    base->used = *reserved;
    return MT_OK;
}

static mt_status pool_take(mt_source *base, uint64_t bytes, void **ptr, mt_error *err) {
    cuda_source *s = (cuda_source *)base;
    uint64_t reserved = 0, used = 0;
    MT_TRY(pool_state(base, &reserved, &used, err));
    bool asked = base->fail_at != 0 && --base->fail_at == 0;
    if (asked || used > base->capacity || bytes > base->capacity - used)
        return no_memory(base, bytes, "cudaMallocFromPoolAsync", err);
    cudaError_t result = cudaMallocFromPoolAsync(ptr, bytes, s->pool, s->c->stream);
    mt_call call = { "cudaMallocFromPoolAsync", __FILE__, __LINE__, bytes };
    if (result != cudaErrorMemoryAllocation)
        return mt_cuda_result(err, call, result);
    cudaGetLastError();
    return no_memory(base, bytes, call.text, err);
}

static void pool_give(mt_source *base, void *ptr, uint64_t bytes) {
    mt_cuda *c = ((cuda_source *)base)->c;
    MT_CUDA_NOTE(c, bytes, cudaFreeAsync(ptr, c->stream));
}

static void pool_trim(mt_source *base) {
    cuda_source *s = (cuda_source *)base;
    MT_CUDA_NOTE(s->c, 0, cudaStreamSynchronize(s->c->stream));
    MT_CUDA_NOTE(s->c, 0, cudaMemPoolTrimTo(s->pool, 0));
}

/* A pool of our own: what cuBLAS takes of the driver's default pool does not mix with it. */
static mt_status open_pool(cuda_source *s, mt_error *err) {
    cudaMemPoolProps p = {};
    p.allocType = cudaMemAllocationTypePinned;
    p.location.type = cudaMemLocationTypeDevice;
    if (s->base.capacity < s->c->total)
        p.maxSize = s->base.capacity;
    MT_CUDA_TRY(err, 0, cudaMemPoolCreate(&s->pool, &p));
    s->base.pool_take = pool_take;
    s->base.pool_give = pool_give;
    s->base.pool_state = pool_state;
    s->base.pool_trim = pool_trim;
    return MT_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static mt_status device_used(mt_source *base, uint64_t *used, mt_error *err) {
    return mt_cuda_used(((cuda_source *)base)->c, used, err);
}

static void cuda_close(mt_source *base) {
    cuda_source *s = (cuda_source *)base;
    mt_cuda *c = s->c;
    mt_error failed = {};
    mt_error *late = c->options.late;
    if (s->pool != NULL) {
        MT_CALL(&failed, 0, cudaStreamSynchronize(c->stream));
        MT_CALL(failed.status == MT_OK ? &failed : NULL, 0, cudaMemPoolDestroy(s->pool));
    }
    if (mt_cuda_failed(c)) /* of giving segments back, after the last sync */
        failed = c->device.failure;
    if (late != NULL && late->status == MT_OK && failed.status != MT_OK)
        *late = failed;
    free(s);
}

mt_status mt_cuda_source(mt_source **out, mt_cuda *c, mt_error *err) {
    cuda_source *s = (cuda_source *)calloc(1, sizeof *s);
    if (s == NULL)
        return mt_no_memory(err, "a source");
    mt_source *b = &s->base;
    s->c = c;
    b->name = "cuda";
    b->capacity = c->options.capacity > 0 ? c->options.capacity : c->total;
    b->granularity = 4 * MT_KIB; /* as the other sources count, so that runs are the same */
    b->take = cuda_take;
    b->give = cuda_give;
    b->reserve = cuda_reserve;
    b->map = cuda_map;
    b->unmap = cuda_unmap;
    b->release = cuda_release;
    b->close = cuda_close;
    b->device_used = device_used;
    b->device_total = c->total;
    mt_status status = c->options.pool ? open_pool(s, err) : MT_OK;
    if (status != MT_OK) {
        free(s);
        return status;
    }
    *out = b;
    return MT_OK;
}
