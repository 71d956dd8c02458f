/* pool.cc - cudaMallocAsync and memory pools.
 *
 * A pool reserves chunks of whole multiples of 32 MiB and cuts blocks from them, 512 bytes at a
 * time, best fit. A wait for the device gives wholly free chunks back while more than the release
 * threshold is reserved; so does a trim. The steps of a real driver may differ. */
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "calls.h"
#include "state.h"
#include "watchers.h"

using namespace emulation;

namespace {

const uint64_t CHUNK = 32 << 20;
const uint64_t STEP = 512;

struct Counter {
    uint64_t now = 0, high = 0;

    void add(uint64_t n) {
        now += n;
        high = std::max(high, now);
    }
};

/* Memory in one piece: its free parts by offset, neighbours joined. */
struct Chunk {
    char *base;
    uint64_t bytes;
    std::map<uint64_t, uint64_t> free;

    bool unused() const {
        return free.size() == 1 && free.begin()->second == bytes;
    }
};

struct Block {
    CUmemPoolHandle_st *pool;
    Chunk *chunk;
    uint64_t bytes; /* rounded */
};

std::map<void *, Block> blocks; /* of all pools */

} // namespace

struct CUmemPoolHandle_st {
    std::vector<std::unique_ptr<Chunk>> chunks;
    Counter reserved, used;
    uint64_t threshold = 0;
    uint64_t limit = 0; /* of reserved bytes; 0: none */
};

namespace {

std::map<cudaMemPool_t, std::unique_ptr<CUmemPoolHandle_st>> pools; /* the default one included */
cudaMemPool_t default_pool;

cudaMemPool_t new_pool() {
    auto pool = std::make_unique<CUmemPoolHandle_st>();
    cudaMemPool_t handle = pool.get();
    pools[handle] = std::move(pool);
    return handle;
}

cudaMemPool_t the_default() {
    if (!default_pool)
        default_pool = new_pool();
    return default_pool;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

Chunk *add_chunk(cudaMemPool_t pool, uint64_t bytes) {
    if (pool->limit && pool->reserved.now + bytes > pool->limit)
        return nullptr;
    if (bytes > device.capacity || !device_take(USE_POOLS, bytes))
        return nullptr;
    char *base = static_cast<char *>(fence_map(bytes));
    if (!base) {
        device_give(USE_POOLS, bytes);
        return nullptr;
    }
    forbid(base, bytes);
    pool->chunks.push_back(std::make_unique<Chunk>(Chunk{ base, bytes, { { 0, bytes } } }));
    pool->reserved.add(bytes);
    return pool->chunks.back().get();
}

/* Gives unused chunks back, the newest first, until at most keep bytes are reserved. */
void trim(cudaMemPool_t pool, uint64_t keep) {
    auto &chunks = pool->chunks;
    for (size_t i = chunks.size(); i-- > 0 && pool->reserved.now > keep;) {
        if (!chunks[i]->unused())
            continue;
        const uint64_t bytes = chunks[i]->bytes;
        fence_unmap(chunks[i]->base, bytes);
        device_give(USE_POOLS, bytes);
        pool->reserved.now -= bytes;
        chunks.erase(chunks.begin() + std::ptrdiff_t(i));
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

struct Place {
    Chunk *chunk = nullptr;
    uint64_t offset = 0, room = 0;
};

Place best_fit(cudaMemPool_t pool, uint64_t bytes) {
    Place best;
    for (auto &chunk : pool->chunks)
        for (const auto &[offset, room] : chunk->free)
            if (room >= bytes && (!best.chunk || room < best.room))
                best = { chunk.get(), offset, room };
    return best;
}

void *cut(cudaMemPool_t pool, const Place &place, uint64_t rounded) {
    Chunk &chunk = *place.chunk;
    chunk.free.erase(place.offset);
    if (place.room > rounded)
        chunk.free[place.offset + rounded] = place.room - rounded;
    char *ptr = chunk.base + place.offset;
    blocks[ptr] = { pool, &chunk, rounded };
    pool->used.add(rounded);
    return ptr;
}

void join(Chunk &chunk, uint64_t offset, uint64_t bytes) {
    auto next = chunk.free.lower_bound(offset);
    if (next != chunk.free.end() && next->first == offset + bytes) {
        bytes += next->second;
        next = chunk.free.erase(next);
    }
    if (next != chunk.free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == offset) {
            before->second += bytes;
            return;
        }
    }
    chunk.free[offset] = bytes;
}

cudaError_t take_block(void **ptr, uint64_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    *ptr = nullptr;
    if (!is_stream(stream) || !pools.count(pool))
        return cudaErrorInvalidResourceHandle;
    if (cudaError_t e = refuse_in_capture(stream))
        return e;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > device.capacity)
        return cudaErrorMemoryAllocation;
    const uint64_t rounded = round_up(bytes, STEP);
    Place place = best_fit(pool, rounded);
    if (!place.chunk)
        if (Chunk *chunk = add_chunk(pool, round_up(bytes, CHUNK)))
            place = { chunk, 0, chunk->bytes };
    if (!place.chunk)
        return cudaErrorMemoryAllocation;
    *ptr = cut(pool, place, rounded);
    permit(*ptr, bytes);
    fill_with_nan(*ptr, bytes);
    range_add(*ptr, bytes, RANGE_POOL);
    return cudaSuccess;
}

cudaError_t give_block(void *ptr, cudaStream_t stream) {
    if (!is_stream(stream))
        return cudaErrorInvalidResourceHandle;
    if (cudaError_t e = refuse_in_capture(stream))
        return e;
    if (!ptr)
        return cudaSuccess;
    auto it = blocks.find(ptr);
    if (it == blocks.end()) {
        fault("cudaFreeAsync of %p, which is no live block of a pool", ptr);
        return cudaErrorInvalidValue;
    }
    const Block b = it->second;
    uint64_t bytes;
    blocks.erase(it);
    range_remove(ptr, RANGE_POOL, &bytes);
    forbid(ptr, b.bytes);
    join(*b.chunk, uint64_t(static_cast<char *>(ptr) - b.chunk->base), b.bytes);
    b.pool->used.now -= b.bytes;
    return cudaSuccess;
}

cudaError_t destroy(cudaMemPool_t pool) {
    if (!pools.count(pool) || pool == default_pool)
        return cudaErrorInvalidValue;
    if (pool->used.now) {
        fault("a memory pool with %llu bytes in use is destroyed",
              (unsigned long long)pool->used.now);
        return cudaErrorInvalidValue;
    }
    trim(pool, 0);
    pools.erase(pool);
    return cudaSuccess;
}

/* ---- attributes ------------------------------------------------------------------------------ */

cudaError_t get_attribute(cudaMemPool_t pool, cudaMemPoolAttr attr, uint64_t *value) {
    switch (attr) {
    case cudaMemPoolAttrReleaseThreshold:
        *value = pool->threshold;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
        *value = pool->reserved.now;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
        *value = pool->reserved.high;
        return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
        *value = pool->used.now;
        return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
        *value = pool->used.high;
        return cudaSuccess;
    default:
        return cudaErrorNotSupported;
    }
}

/* A high-water mark can only be set to 0, which lowers it to the present value. */
cudaError_t set_attribute(cudaMemPool_t pool, cudaMemPoolAttr attr, uint64_t value) {
    switch (attr) {
    case cudaMemPoolAttrReleaseThreshold:
        pool->threshold = value;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
        pool->reserved.high = pool->reserved.now;
        return value ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
        pool->used.high = pool->used.now;
        return value ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
        return cudaSuccess; /* there is one line of execution */
    default:
        return cudaErrorInvalidValue;
    }
}

} // namespace

namespace emulation {

void sync_pools() {
    for (auto &[handle, pool] : pools)
        trim(handle, pool->threshold);
}

size_t pool_count() {
    return pools.size() - (default_pool ? 1 : 0);
}

void reset_pools() {
    while (!blocks.empty())
        give_block(blocks.begin()->first, nullptr);
    for (auto &[handle, pool] : pools)
        trim(handle, 0);
    pools.clear();
    default_pool = nullptr;
}

} // namespace emulation

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int ordinal) {
    return runtime_call(API_cudaDeviceGetDefaultMemPool, [&] {
        *pool = the_default();
        return ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice;
    });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props) {
    return runtime_call(API_cudaMemPoolCreate, [&] {
        if (props->allocType != cudaMemAllocationTypePinned ||
            props->location.type != cudaMemLocationTypeDevice || props->location.id != 0)
            return cudaErrorInvalidValue;
        *pool = new_pool();
        (*pool)->limit = props->maxSize;
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    return runtime_call(API_cudaMemPoolDestroy, [&] { return destroy(pool); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void *value) {
    return runtime_call(API_cudaMemPoolSetAttribute, [&] {
        if (!pools.count(pool))
            return cudaErrorInvalidValue;
        const bool is_int = attr <= cudaMemPoolReuseAllowInternalDependencies;
        return set_attribute(pool, attr,
                             is_int ? uint64_t(*static_cast<int *>(value))
                                    : *static_cast<uint64_t *>(value));
    });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void *value) {
    return runtime_call(API_cudaMemPoolGetAttribute, [&] {
        if (!pools.count(pool))
            return cudaErrorInvalidValue;
        return get_attribute(pool, attr, static_cast<uint64_t *>(value));
    });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    return runtime_call(API_cudaMemPoolTrimTo, [&] {
        if (!pools.count(pool))
            return cudaErrorInvalidValue;
        trim(pool, keep);
        return cudaSuccess;
    });
}

cudaError_t cudaMallocAsync(void **ptr, size_t bytes, cudaStream_t stream) {
    return runtime_call(API_cudaMallocAsync,
                        [&] { return take_block(ptr, bytes, the_default(), stream); });
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
    return runtime_call(API_cudaMallocFromPoolAsync,
                        [&] { return take_block(ptr, bytes, pool, stream); });
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream) {
    return runtime_call(API_cudaFreeAsync, [&] { return give_block(ptr, stream); });
}
