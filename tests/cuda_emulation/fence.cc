/* fence.cc - memory between guard pages, filled with NaNs.
 *
 *     guard | slack, piece, rounding | guard
 *
 * The fill is a mapping of one file of 0xff bytes, repeated, so that a page costs memory only once
 * it is written. Under AddressSanitizer slack and rounding cannot be touched at all; without it,
 * writes to them are found when the piece ends. */
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "state.h"
#include "watchers.h"

namespace emulation {

namespace {

const uint64_t ALIGNMENT = 256; /* of a piece's start */
const uint64_t PATTERN = 4 << 20;
const size_t AFTERLIFE = 64; /* ended pieces whose addresses stay unreadable */

struct Mapping {
    char *base;
    uint64_t bytes; /* guards included */
};

std::deque<Mapping> ended;

uint64_t guard() {
    static const uint64_t bytes = uint64_t(sysconf(_SC_PAGESIZE));
    return bytes;
}

/* A file of PATTERN bytes 0xff, without a name. */
int pattern_file() {
    static int file = -1;
    if (file >= 0)
        return file;
    file = memfd_create("emulated device: NaNs", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(PATTERN))) {
        perror("emulated device: pattern of new memory");
        abort();
    }
    void *p = mmap(nullptr, PATTERN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED) {
        perror("emulated device: pattern of new memory");
        abort();
    }
    memset(p, 0xff, PATTERN);
    munmap(p, PATTERN);
    return file;
}

/* Maps the pattern over whole pages. */
bool map_pattern(char *at, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes; done += PATTERN) {
        uint64_t part = bytes - done < PATTERN ? bytes - done : PATTERN;
        if (mmap(at + done, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                 pattern_file(), 0) == MAP_FAILED)
            return false;
    }
    return true;
}

Mapping mapping_of(void *ptr, uint64_t bytes) {
    const uint64_t used = round_up(bytes, ALIGNMENT);
    const uint64_t pages = round_up(used, guard());
    char *end = static_cast<char *>(ptr) + used;
    return { end - pages - guard(), pages + 2 * guard() };
}

bool all_ones(const char *from, const char *to) {
    for (; from < to; from++)
        if (*from != char(0xff))
            return false;
    return true;
}

} // namespace

uint64_t round_up(uint64_t bytes, uint64_t to) {
    return (bytes + to - 1) / to * to;
}

void *fence_map(uint64_t bytes) {
    const uint64_t used = round_up(bytes, ALIGNMENT);
    const uint64_t pages = round_up(used, guard());
    char *base = static_cast<char *>(mmap(nullptr, pages + 2 * guard(), PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base == MAP_FAILED)
        return nullptr;
    char *inside = base + guard();
    if (!map_pattern(inside, pages)) {
        munmap(base, pages + 2 * guard());
        return nullptr;
    }
    char *ptr = inside + pages - used;
    forbid(inside, size_t(ptr - inside));
    forbid(ptr + bytes, used - bytes);
    return ptr;
}

bool fence_unmap(void *ptr, uint64_t bytes) {
    Mapping m = mapping_of(ptr, bytes);
    char *piece = static_cast<char *>(ptr);
    char *inside = m.base + guard();
    char *end = m.base + m.bytes - guard();
    permit(inside, size_t(end - inside));
    bool intact = all_ones(inside, piece) && all_ones(piece + bytes, end);
    mmap(m.base, m.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
    ended.push_back(m);
    if (ended.size() > AFTERLIFE) {
        munmap(ended.front().base, ended.front().bytes);
        ended.pop_front();
    }
    return intact;
}

void fill_with_nan(void *ptr, uint64_t bytes) {
    char *from = static_cast<char *>(ptr);
    char *to = from + bytes;
    char *first = from + (guard() - uint64_t(uintptr_t(from)) % guard()) % guard();
    char *last = to - uint64_t(uintptr_t(to)) % guard();
    if (bytes < 64 * guard() || !map_pattern(first, uint64_t(last - first))) {
        memset(from, 0xff, bytes);
        return;
    }
    memset(from, 0xff, size_t(first - from));
    memset(last, 0xff, size_t(to - last));
}

} // namespace emulation
