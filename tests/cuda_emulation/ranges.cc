/* ranges.cc - the device memory that is live, so that a copy or a product outside it is an error
 * and tests can ask what was not given back. */
#include <map>

#include "state.h"

namespace emulation {

namespace {

struct Range {
    uint64_t bytes;
    RangeKind kind;
};

std::map<uintptr_t, Range> ranges;
size_t counts[RANGE_KINDS];

typedef std::map<uintptr_t, Range>::const_iterator Place;

/* The range that holds the address, or end. */
Place range_at(uintptr_t address) {
    Place next = ranges.upper_bound(address);
    if (next == ranges.begin())
        return ranges.end();
    Place it = std::prev(next);
    return address - it->first < it->second.bytes ? it : ranges.end();
}

} // namespace

void range_add(const void *ptr, uint64_t bytes, RangeKind kind) {
    ranges[uintptr_t(ptr)] = { bytes, kind };
    counts[kind]++;
}

bool range_remove(const void *ptr, RangeKind kind, uint64_t *bytes) {
    auto it = ranges.find(uintptr_t(ptr));
    if (it == ranges.end() || it->second.kind != kind)
        return false;
    *bytes = it->second.bytes;
    ranges.erase(it);
    counts[kind]--;
    return true;
}

/* Only mapped pages may be crossed from one range to the next. */
bool range_covers(const void *ptr, uint64_t bytes) {
    uintptr_t at = uintptr_t(ptr);
    while (bytes) {
        Place it = range_at(at);
        if (it == ranges.end())
            return false;
        uint64_t left = it->first + it->second.bytes - at;
        if (bytes <= left)
            return true;
        if (it->second.kind != RANGE_MAPPING)
            return false;
        at += left;
        bytes -= left;
    }
    return true;
}

bool range_touches(const void *ptr, uint64_t bytes) {
    uintptr_t from = uintptr_t(ptr);
    if (bytes == 0)
        return false;
    if (range_at(from) != ranges.end())
        return true;
    Place next = ranges.lower_bound(from);
    return next != ranges.end() && next->first - from < bytes;
}

size_t range_count(RangeKind kind) {
    return counts[kind];
}

void reset_ranges() {
    ranges.clear();
    for (size_t &n : counts)
        n = 0;
}

} // namespace emulation

using namespace emulation;

size_t mt_emulation_allocations(mt_emulation_allocation *list, size_t n) {
    static const char *const calls[] = { "cudaMalloc", "cudaMallocAsync", "cuMemMap",
                                         "cublasCreate" };
    size_t i = 0;
    for (const auto &[address, range] : ranges) {
        if (i < n)
            list[i] = { reinterpret_cast<void *>(address), range.bytes, calls[range.kind] };
        i++;
    }
    return i;
}
