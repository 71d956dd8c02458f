/* physical.cc - addresses and physical memory apart: cuMem*.
 *
 * All physical memory lies in one nameless file, each handle at a place of its own, so that what is
 * written under one mapping is there under another. A handle's memory ends when it has been
 * released and nothing maps it. Addresses without a mapping, or without access, cannot be read. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <vector>

#include "calls.h"
#include "state.h"

namespace emulation {

namespace {

struct Handle {
    uint64_t bytes;
    uint64_t place; /* in the file */
    unsigned mappings;
    bool released;
};

struct Reservation {
    uint64_t bytes;
    char *base; /* what was mapped for it: room for alignment and guards */
    uint64_t all;
};

struct PageMap {
    uint64_t bytes;
    CUmemGenericAllocationHandle handle;
};

std::map<CUmemGenericAllocationHandle, Handle> handles;
std::map<CUdeviceptr, Reservation> reservations;
std::map<CUdeviceptr, PageMap> maps;
CUmemGenericAllocationHandle last_handle = 0x1000;
uint64_t file_end;

bool whole_pages(uint64_t n) {
    return n != 0 && n % PAGE == 0;
}

char *address(CUdeviceptr ptr) {
    return reinterpret_cast<char *>(uintptr_t(ptr));
}

/* Makes addresses unreadable again. */
bool map_nothing(CUdeviceptr ptr, uint64_t bytes) {
    return mmap(address(ptr), bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

int memory_file() {
    static int file = memfd_create("emulated device: physical memory", MFD_CLOEXEC);
    return file;
}

/* ---- addresses ------------------------------------------------------------------------------- */

CUresult reserve(CUdeviceptr *ptr, uint64_t bytes, uint64_t alignment) {
    if (!whole_pages(bytes) || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t step = std::max<uint64_t>(alignment, PAGE);
    Reservation r = { bytes, nullptr, bytes + 2 * step };
    r.base = static_cast<char *>(
        mmap(nullptr, r.all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (r.base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ptr = round_up(uintptr_t(r.base) + 1, step); /* at least a byte's page before and after it */
    reservations[*ptr] = r;
    return CUDA_SUCCESS;
}

/* The first mapping at or after ptr that begins before the end. */
std::map<CUdeviceptr, PageMap>::iterator first_map(CUdeviceptr ptr, uint64_t bytes) {
    auto it = maps.lower_bound(ptr);
    if (it != maps.begin()) {
        auto before = std::prev(it);
        if (before->first + before->second.bytes > ptr)
            return before;
    }
    return it != maps.end() && it->first < ptr + bytes ? it : maps.end();
}

CUresult free_addresses(CUdeviceptr ptr, uint64_t bytes) {
    auto it = reservations.find(ptr);
    if (it == reservations.end() || it->second.bytes != bytes ||
        first_map(ptr, bytes) != maps.end()) {
        fault("cuMemAddressFree of %llu bytes at %llx: not a reservation of that size without "
              "mappings",
              (unsigned long long)bytes, ptr);
        return CUDA_ERROR_INVALID_VALUE;
    }
    munmap(it->second.base, it->second.all);
    reservations.erase(it);
    return CUDA_SUCCESS;
}

/* ---- physical memory ------------------------------------------------------------------------- */

/* Extends the file by bytes of 0xff. */
bool extend_file(uint64_t bytes) {
    static const std::vector<char> ones(PAGE, char(0xff));
    for (uint64_t done = 0; done < bytes; done += PAGE)
        if (pwrite(memory_file(), ones.data(), PAGE, off_t(file_end + done)) != ssize_t(PAGE))
            return false;
    file_end += bytes;
    return true;
}

void drop_memory(const Handle &h) {
    fallocate(memory_file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(h.place),
              off_t(h.bytes));
    device_give(USE_PHYSICAL, h.bytes);
}

void drop_if_unused(CUmemGenericAllocationHandle handle) {
    auto it = handles.find(handle);
    if (!it->second.released || it->second.mappings)
        return;
    drop_memory(it->second);
    handles.erase(it);
}

bool device_memory(const CUmemAllocationProp *prop) {
    return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop->location.id == 0;
}

CUresult create(CUmemGenericAllocationHandle *handle, uint64_t bytes,
                const CUmemAllocationProp *prop) {
    if (!whole_pages(bytes) || !device_memory(prop))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > device.capacity || !device_take(USE_PHYSICAL, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    Handle h = { bytes, file_end, 0, false };
    if (!extend_file(bytes)) {
        drop_memory(h);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = ++last_handle;
    handles[*handle] = h;
    return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
    auto it = handles.find(handle);
    if (it == handles.end() || it->second.released) {
        fault("cuMemRelease of %llx, which is no live handle", handle);
        return CUDA_ERROR_INVALID_VALUE;
    }
    it->second.released = true;
    drop_if_unused(handle);
    return CUDA_SUCCESS;
}

/* ---- mappings -------------------------------------------------------------------------------- */

bool inside_reservation(CUdeviceptr ptr, uint64_t bytes) {
    auto it = reservations.upper_bound(ptr);
    if (it == reservations.begin())
        return false;
    --it;
    const uint64_t from = ptr - it->first;
    return from <= it->second.bytes && bytes <= it->second.bytes - from;
}

CUresult map(CUdeviceptr ptr, uint64_t bytes, uint64_t offset,
             CUmemGenericAllocationHandle handle) {
    auto it = handles.find(handle);
    const bool right = whole_pages(bytes) && ptr % PAGE == 0 && offset == 0 &&
                       it != handles.end() && !it->second.released && bytes <= it->second.bytes &&
                       inside_reservation(ptr, bytes) && first_map(ptr, bytes) == maps.end();
    if (!right) {
        fault("cuMemMap of %llu bytes at %llx: not whole pages of a live handle in free reserved "
              "addresses",
              (unsigned long long)bytes, ptr);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (mmap(address(ptr), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory_file(),
             off_t(it->second.place)) == MAP_FAILED)
        return CUDA_ERROR_MAP_FAILED;
    maps[ptr] = { bytes, handle };
    it->second.mappings++;
    range_add(address(ptr), bytes, RANGE_MAPPING);
    return CUDA_SUCCESS;
}

/* Whether whole mappings fill the range without a gap. */
bool filled(CUdeviceptr ptr, uint64_t bytes) {
    const CUdeviceptr end = ptr + bytes;
    while (ptr < end) {
        auto it = maps.find(ptr);
        if (it == maps.end() || it->second.bytes > end - ptr)
            return false;
        ptr += it->second.bytes;
    }
    return bytes != 0;
}

CUresult unmap(CUdeviceptr ptr, uint64_t bytes) {
    if (!filled(ptr, bytes)) {
        fault("cuMemUnmap of %llu bytes at %llx: not whole mappings", (unsigned long long)bytes,
              ptr);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUdeviceptr end = ptr + bytes;
    while (ptr < end) {
        auto it = maps.find(ptr);
        const PageMap m = it->second;
        uint64_t size;
        maps.erase(it);
        range_remove(address(ptr), RANGE_MAPPING, &size);
        map_nothing(ptr, m.bytes);
        handles[m.handle].mappings--;
        drop_if_unused(m.handle);
        ptr += m.bytes;
    }
    return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr ptr, uint64_t bytes, const CUmemAccessDesc *access, size_t count) {
    if (count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        access->location.id != 0 || !filled(ptr, bytes)) {
        fault("cuMemSetAccess of %llu bytes at %llx: not whole mappings, or not for this device",
              (unsigned long long)bytes, ptr);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const int rights = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                       : access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                           : PROT_NONE;
    return mprotect(address(ptr), bytes, rights) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

} // namespace

size_t reservation_count() {
    return reservations.size();
}

size_t handle_count() {
    size_t n = 0;
    for (const auto &[handle, h] : handles)
        n += !h.released;
    return n;
}

void reset_physical() {
    while (!maps.empty())
        unmap(maps.begin()->first, maps.begin()->second.bytes);
    while (!handles.empty())
        release(handles.begin()->first);
    while (!reservations.empty())
        free_addresses(reservations.begin()->first, reservations.begin()->second.bytes);
}

} // namespace emulation

using namespace emulation;

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long) {
    return driver_call(API_cuMemAddressReserve, [&] { return reserve(ptr, bytes, alignment); });
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes) {
    return driver_call(API_cuMemAddressFree, [&] { return free_addresses(ptr, bytes); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long) {
    return driver_call(API_cuMemCreate, [&] { return create(handle, bytes, prop); });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return driver_call(API_cuMemRelease, [&] { return release(handle); });
}

CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
    return driver_call(API_cuMemMap, [&] { return map(ptr, bytes, offset, handle); });
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes) {
    return driver_call(API_cuMemUnmap, [&] { return unmap(ptr, bytes); });
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *access,
                        size_t count) {
    return driver_call(API_cuMemSetAccess, [&] { return set_access(ptr, bytes, access, count); });
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags) {
    return driver_call(API_cuMemGetAllocationGranularity, [&] {
        *granularity = PAGE;
        return device_memory(prop) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
}
