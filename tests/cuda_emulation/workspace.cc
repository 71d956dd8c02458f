/* workspace.cc - see workspace.h. */
#include "workspace.h"

#include <algorithm>
#include <cstdlib>

#include "calls.h"

namespace emulation {

namespace {

const uint64_t ENDS = 4096; /* written by each product at both ends */

mt_emulation_workspace last;
size_t needed;
size_t scratch_bytes = 64 << 10; /* written by each product besides; 0: all */
uint64_t products;

/* The sum of its pairs :KiB:count, or false when the text is not of that form. */
bool parse_config(const char *text, uint64_t *bytes) {
    *bytes = 0;
    while (*text) {
        char *end;
        if (*text != ':')
            return false;
        const uint64_t kib = strtoull(text + 1, &end, 10);
        if (end == text + 1 || *end != ':')
            return false;
        text = end;
        const uint64_t count = strtoull(text + 1, &end, 10);
        if (end == text + 1)
            return false;
        text = end;
        *bytes += kib * count << 10;
    }
    return true;
}

void write_pattern(char *from, char *to) {
    uint32_t *word = reinterpret_cast<uint32_t *>(from);
    std::fill(word, word + (to - from) / 4, MT_EMULATION_SCRATCH);
}

} // namespace

std::shared_ptr<LibraryMemory> LibraryMemory::take(uint64_t bytes) {
    std::shared_ptr<LibraryMemory> memory(new LibraryMemory(bytes));
    if (bytes == 0)
        return memory;
    memory->counted_ = bytes <= device.capacity && device_take(USE_LIBRARY, round_up(bytes, PAGE));
    if (memory->counted_)
        memory->ptr = fence_map(bytes);
    if (!memory->ptr)
        return nullptr;
    range_add(memory->ptr, bytes, RANGE_LIBRARY);
    return memory;
}

LibraryMemory::~LibraryMemory() {
    uint64_t size;
    if (counted_)
        device_give(USE_LIBRARY, round_up(bytes, PAGE));
    if (!ptr)
        return;
    range_remove(ptr, RANGE_LIBRARY, &size);
    fence_unmap(ptr, bytes);
}

uint64_t default_pool_bytes() {
    const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");
    uint64_t bytes;
    if (config && *config && parse_config(config, &bytes))
        return bytes;
    return device.major >= 9 ? 32 << 20 : 4 << 20;
}

bool use_workspace(const mt_emulation_workspace &w) {
    last = w;
    if (w.bytes == 0)
        return true;
    if (!range_covers(w.ptr, w.bytes)) {
        fault("a product uses a workspace of %llu bytes at %p that is not all live device memory",
              (unsigned long long)w.bytes, w.ptr);
        return false;
    }
    char *from = static_cast<char *>(w.ptr);
    char *to = from + w.bytes / 4 * 4;
    const uint64_t step = scratch_bytes ? scratch_bytes : w.bytes;
    char *part = from + products++ % (w.bytes / step + 1) * step;
    write_pattern(from, std::min(from + ENDS, to));
    write_pattern(part, std::min(part + step, to));
    write_pattern(std::max(to - ENDS, from), to);
    return true;
}

bool workspace_suffices(uint64_t bytes) {
    return bytes >= needed;
}

void reset_workspace() {
    last = {};
    needed = 0;
    scratch_bytes = 64 << 10;
    products = 0;
}

} // namespace emulation

using namespace emulation;

mt_emulation_workspace mt_emulation_last_workspace() {
    return last;
}

void mt_emulation_set_scratch(size_t bytes) {
    scratch_bytes = bytes / 4 * 4;
}

void mt_emulation_set_workspace_needed(size_t bytes) {
    needed = bytes;
}
