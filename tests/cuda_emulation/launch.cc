/* launch.cc - a kernel's launch: checks what a device checks, and runs the blocks one after
 * another. */
#include <mt_emulation_launch.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "block.h"
#include "calls.h"
#include "state.h"
#include "watchers.h"

namespace emulation {

namespace {

const size_t SHARED_DEFAULT = 48 << 10;
const size_t SHARED_ROOM = 256 << 10;

std::map<const void *, size_t> shared_allowed; /* by cudaFuncSetAttribute */
char *shared_memory;                           /* of the launch that runs */

size_t allowed(const void *kernel) {
    auto it = shared_allowed.find(kernel);
    return it == shared_allowed.end() ? SHARED_DEFAULT : it->second;
}

cudaError_t check(const mt_launch &l) {
    const dim3 &g = l.grid, &b = l.block;
    const uint64_t threads = uint64_t(b.x) * b.y * b.z;
    if (threads == 0 || threads > 1024 || b.x > 1024 || b.y > 1024 || b.z > 64)
        return cudaErrorInvalidConfiguration;
    if (g.x == 0 || g.x > 0x7fffffff || g.y == 0 || g.y > 65535 || g.z == 0 || g.z > 65535)
        return cudaErrorInvalidConfiguration;
    return l.shared > allowed(l.kernel) ? cudaErrorInvalidValue : cudaSuccess;
}

/* The end of dynamic shared memory, where a guard page begins. */
char *shared_end() {
    static char *end;
    if (end)
        return end;
    void *p = mmap(nullptr, SHARED_ROOM + size_t(sysconf(_SC_PAGESIZE)), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED ||
        mprotect(static_cast<char *>(p) + SHARED_ROOM, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE)) {
        perror("emulated device: shared memory");
        abort();
    }
    return end = static_cast<char *>(p) + SHARED_ROOM;
}

/* Places the launch's shared memory before the guard page. */
void place_shared(size_t bytes) {
    char *end = shared_end();
    shared_memory = end - round_up(bytes, 16);
    forbid(end - SHARED_ROOM, SHARED_ROOM);
    permit(shared_memory, bytes);
}

cudaError_t run_grid(const mt_launch &l, const std::function<void()> &thread) {
    gridDim = l.grid;
    blockDim = l.block;
    place_shared(l.shared);
    for (unsigned z = 0; z < l.grid.z; z++)
        for (unsigned y = 0; y < l.grid.y; y++)
            for (unsigned x = 0; x < l.grid.x; x++) {
                blockIdx = { x, y, z };
                memset(shared_memory, 0xff, l.shared);
                const std::string what = run_block(thread);
                if (what.empty())
                    continue;
                const std::string where = "kernel " + std::string(l.name) + ", block (" +
                                          std::to_string(x) + ", " + std::to_string(y) + ", " +
                                          std::to_string(z) + "): ";
                break_device(cudaErrorLaunchFailure, (where + what).c_str());
                return cudaErrorLaunchFailure;
            }
    return cudaSuccess;
}

} // namespace

void reset_kernels() {
    shared_allowed.clear();
    free_fibers();
}

} // namespace emulation

using namespace emulation;

void *mt_emulation_dynamic_shared() {
    return shared_memory;
}

void mt_emulation_launch(const mt_launch &launch, std::function<void()> thread) {
    runtime_call(API_cudaLaunchKernel, [&] {
        if (cudaError_t e = check(launch))
            return e;
        if (!load_kernel(launch.kernel))
            return cudaErrorMemoryAllocation;
        return submit(launch.stream,
                      [launch, thread = std::move(thread)] { return run_grid(launch, thread); });
    });
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attr, int value) {
    return runtime_call(API_cudaFuncSetAttribute, [&] {
        if (attr == cudaFuncAttributePreferredSharedMemoryCarveout)
            return cudaSuccess;
        if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
            value > shared_limit())
            return cudaErrorInvalidValue;
        shared_allowed[kernel] = size_t(value);
        return cudaSuccess;
    });
}
