/* memory.cc - cudaMalloc, and pinned memory of this machine.
 *
 * A segment of 2 MiB or more takes whole pages of the driver's 2 MiB; smaller ones share pages, 512
 * bytes at a time, and a page is given back with its last piece. */
#include <cstdlib>
#include <map>

#include "calls.h"
#include "state.h"

namespace emulation {

namespace {

const uint64_t SMALL_STEP = 512;

struct Segment {
    uint64_t bytes;
    uint64_t charged; /* its own pages, or its part of a shared one */
    size_t page;      /* of the shared ones, or NONE */
};

const size_t NONE = size_t(-1);

std::map<void *, Segment> segments;
std::map<size_t, uint64_t> pages; /* shared: number, bytes in use */
std::map<void *, uint64_t> pinned;

/* The first shared page with room, or a new one; NONE when the device has none. */
size_t page_with(uint64_t bytes) {
    size_t number = 0;
    for (const auto &[n, used] : pages) {
        if (used + bytes <= PAGE)
            return n;
        number = n + 1;
    }
    if (!device_take(USE_SEGMENTS, PAGE))
        return NONE;
    pages[number] = 0;
    return number;
}

bool charge(Segment *s) {
    s->page = NONE;
    if (s->bytes >= PAGE) {
        s->charged = round_up(s->bytes, PAGE);
        return device_take(USE_SEGMENTS, s->charged);
    }
    s->charged = round_up(s->bytes, SMALL_STEP);
    s->page = page_with(s->charged);
    if (s->page != NONE)
        pages[s->page] += s->charged;
    return s->page != NONE;
}

void discharge(const Segment &s) {
    if (s.page == NONE) {
        device_give(USE_SEGMENTS, s.charged);
        return;
    }
    pages[s.page] -= s.charged;
    if (pages[s.page] == 0) {
        pages.erase(s.page);
        device_give(USE_SEGMENTS, PAGE);
    }
}

cudaError_t take_segment(void **ptr, uint64_t bytes) {
    *ptr = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > device.capacity)
        return cudaErrorMemoryAllocation;
    Segment s = { bytes, 0, NONE };
    if (!charge(&s))
        return cudaErrorMemoryAllocation;
    *ptr = fence_map(bytes);
    if (!*ptr) {
        discharge(s);
        return cudaErrorMemoryAllocation;
    }
    segments[*ptr] = s;
    range_add(*ptr, bytes, RANGE_SEGMENT);
    return cudaSuccess;
}

cudaError_t give_segment(void *ptr) {
    if (!ptr)
        return cudaSuccess;
    auto it = segments.find(ptr);
    if (it == segments.end()) {
        fault("cudaFree of %p, which is no live segment", ptr);
        return cudaErrorInvalidValue;
    }
    const Segment s = it->second;
    uint64_t bytes;
    segments.erase(it);
    range_remove(ptr, RANGE_SEGMENT, &bytes);
    discharge(s);
    if (!fence_unmap(ptr, s.bytes))
        fault("bytes were written just outside the segment of %llu bytes at %p",
              (unsigned long long)s.bytes, ptr);
    return cudaSuccess;
}

cudaError_t take_pinned(void **ptr, uint64_t bytes) {
    *ptr = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    void *p = fence_map(bytes);
    if (!p)
        return cudaErrorMemoryAllocation;
    pinned[p] = bytes;
    *ptr = p;
    return cudaSuccess;
}

cudaError_t give_pinned(void *ptr) {
    if (!ptr)
        return cudaSuccess;
    auto it = pinned.find(ptr);
    if (it == pinned.end()) {
        fault("cudaFreeHost of %p, which is not pinned memory", ptr);
        return cudaErrorInvalidValue;
    }
    const uint64_t bytes = it->second;
    pinned.erase(it);
    if (!fence_unmap(ptr, bytes))
        fault("bytes were written just outside the pinned memory at %p", ptr);
    return cudaSuccess;
}

} // namespace

size_t segment_count() {
    return segments.size();
}

size_t pinned_count() {
    return pinned.size();
}

void reset_memory() {
    while (!segments.empty())
        give_segment(segments.begin()->first);
    while (!pinned.empty())
        give_pinned(pinned.begin()->first);
}

} // namespace emulation

using namespace emulation;

cudaError_t cudaMalloc(void **ptr, size_t bytes) {
    return runtime_call(API_cudaMalloc, [&] { return take_segment(ptr, bytes); });
}

cudaError_t cudaFree(void *ptr) {
    return runtime_call(API_cudaFree, [&] { return give_segment(ptr); });
}

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned) {
    return runtime_call(API_cudaHostAlloc, [&] { return take_pinned(ptr, bytes); });
}

cudaError_t cudaMallocHost(void **ptr, size_t bytes) {
    return runtime_call(API_cudaMallocHost, [&] { return take_pinned(ptr, bytes); });
}

cudaError_t cudaFreeHost(void *ptr) {
    return runtime_call(API_cudaFreeHost, [&] { return give_pinned(ptr); });
}
