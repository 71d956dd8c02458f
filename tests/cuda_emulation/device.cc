/* device.cc - what the device is, and who uses how many of its bytes. */
#include <cstdio>
#include <cstring>
#include <set>

#include "calls.h"
#include "state.h"

namespace emulation {

Device device;

namespace {

bool context_is_open;
std::set<const void *> kernels; /* loaded */

/* What differs between the chips that the capabilities stand for. */
struct Chip {
    int major, minor, multiprocessors, l2_mib, threads, blocks, shared_kib, optin_kib;
};

const Chip CHIPS[] = {
    { 8, 0, 108, 40, 2048, 32, 164, 163 },
    { 8, 6, 84, 6, 1536, 16, 100, 99 },
    { 8, 9, 142, 96, 1536, 24, 100, 99 },
    { 9, 0, 132, 50, 2048, 32, 228, 227 },
};

const Chip &chip() {
    for (const Chip &c : CHIPS)
        if (c.major == device.major && c.minor == device.minor)
            return c;
    return CHIPS[1];
}

bool is_device(int ordinal) {
    return ordinal == 0 && device.count > 0;
}

} // namespace

uint64_t device_used() {
    uint64_t sum = 0;
    for (uint64_t bytes : device.used)
        sum += bytes;
    return sum;
}

bool device_take(Use use, uint64_t bytes) {
    const uint64_t used = device_used();
    if (used > device.capacity || bytes > device.capacity - used)
        return false;
    device.used[use] += bytes;
    return true;
}

void device_give(Use use, uint64_t bytes) {
    device.used[use] -= bytes;
}

bool open_context() {
    if (!context_is_open)
        context_is_open = device_take(USE_CONTEXT, device.context_bytes);
    return context_is_open;
}

bool load_kernel(const void *kernel) {
    if (kernels.count(kernel))
        return true;
    uint64_t all = round_up((kernels.size() + 1) * device.kernel_bytes, PAGE);
    uint64_t held = device.used[USE_KERNELS];
    if (all > held && !device_take(USE_KERNELS, all - held))
        return false;
    kernels.insert(kernel);
    return true;
}

int shared_limit() {
    return chip().optin_kib << 10;
}

void reset_device() {
    device = Device();
    context_is_open = false;
    kernels.clear();
}

} // namespace emulation

using namespace emulation;

/* ---- questions ------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
    return runtime_call(API_cudaGetDeviceCount, [&] {
        *count = device.count;
        return device.count ? cudaSuccess : cudaErrorNoDevice;
    });
}

cudaError_t cudaSetDevice(int ordinal) {
    return runtime_call(API_cudaSetDevice,
                        [&] { return is_device(ordinal) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaGetDevice(int *ordinal) {
    return runtime_call(API_cudaGetDevice, [&] {
        *ordinal = 0;
        return device.count ? cudaSuccess : cudaErrorNoDevice;
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int ordinal) {
    return runtime_call(API_cudaGetDeviceProperties, [&] {
        if (!is_device(ordinal))
            return cudaErrorInvalidDevice;
        const Chip &c = chip();
        memset(prop, 0, sizeof *prop);
        snprintf(prop->name, sizeof prop->name, "emulated sm_%d%d", device.major, device.minor);
        prop->totalGlobalMem = device.capacity;
        prop->sharedMemPerBlock = 48 << 10;
        prop->warpSize = warpSize;
        prop->maxThreadsPerBlock = 1024;
        prop->major = device.major;
        prop->minor = device.minor;
        prop->multiProcessorCount = c.multiprocessors;
        prop->l2CacheSize = c.l2_mib << 20;
        prop->maxThreadsPerMultiProcessor = c.threads;
        prop->sharedMemPerMultiprocessor = size_t(c.shared_kib) << 10;
        prop->sharedMemPerBlockOptin = size_t(c.optin_kib) << 10;
        return cudaSuccess;
    });
}

static int attribute(cudaDeviceAttr attr, bool *known) {
    const Chip &c = chip();
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
        return 1024;
    case cudaDevAttrMaxGridDimX:
        return 0x7fffffff;
    case cudaDevAttrMaxGridDimY:
        return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return 48 << 10;
    case cudaDevAttrWarpSize:
        return warpSize;
    case cudaDevAttrMultiProcessorCount:
        return c.multiprocessors;
    case cudaDevAttrIntegrated:
        return 0;
    case cudaDevAttrL2CacheSize:
        return c.l2_mib << 20;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return c.threads;
    case cudaDevAttrComputeCapabilityMajor:
        return device.major;
    case cudaDevAttrComputeCapabilityMinor:
        return device.minor;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return c.shared_kib << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return c.optin_kib << 10;
    case cudaDevAttrVirtualMemoryManagementSupported:
    case cudaDevAttrMemoryPoolsSupported:
        return 1;
    }
    *known = false;
    return 0;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int ordinal) {
    return runtime_call(API_cudaDeviceGetAttribute, [&] {
        if (!is_device(ordinal))
            return cudaErrorInvalidDevice;
        bool known = true;
        *value = attribute(attr, &known);
        return known ? cudaSuccess : cudaErrorInvalidValue;
    });
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    return runtime_call(API_cudaRuntimeGetVersion, [&] {
        *version = CUDART_VERSION;
        return cudaSuccess;
    });
}

cudaError_t cudaDriverGetVersion(int *version) {
    return runtime_call(API_cudaDriverGetVersion, [&] {
        *version = CUDA_VERSION;
        return cudaSuccess;
    });
}

/* Blocks of a kernel that one multiprocessor holds; registers are not counted. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int block_size,
                                                          size_t shared_bytes) {
    return runtime_call(API_cudaOccupancyMaxActiveBlocksPerMultiprocessor, [&] {
        if (block_size < 1 || block_size > 1024)
            return cudaErrorInvalidValue;
        const Chip &c = chip();
        const int by_threads = c.threads / int(round_up(unsigned(block_size), 32));
        const int by_shared = int((size_t(c.shared_kib) << 10) / (shared_bytes + 1024));
        *blocks = min(min(by_threads, by_shared), c.blocks);
        return cudaSuccess;
    });
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    return runtime_call(API_cudaMemGetInfo, [&] {
        const uint64_t used = device_used();
        *free_bytes = used < device.capacity ? device.capacity - used : 0;
        *total_bytes = device.capacity;
        return cudaSuccess;
    });
}

/* ---- control --------------------------------------------------------------------------------- */

void mt_emulation_set_capacity(uint64_t bytes) {
    read_environment();
    device.capacity = bytes;
}

void mt_emulation_set_capability(int major, int minor) {
    read_environment();
    device.major = major;
    device.minor = minor;
}

void mt_emulation_set_devices(int count) {
    read_environment();
    device.count = count;
}

void mt_emulation_set_context_bytes(uint64_t bytes) {
    read_environment();
    device.context_bytes = bytes;
}

void mt_emulation_set_kernel_bytes(uint64_t bytes) {
    read_environment();
    device.kernel_bytes = bytes;
}

void mt_emulation_set_other_process_bytes(uint64_t bytes) {
    read_environment();
    device.used[USE_OTHER] = bytes;
}

mt_emulation_usage mt_emulation_get_usage() {
    const uint64_t *used = device.used;
    mt_emulation_usage usage = {};
    usage.capacity = device.capacity;
    usage.used = device_used();
    usage.context = used[USE_CONTEXT];
    usage.other = used[USE_OTHER];
    usage.kernels = used[USE_KERNELS];
    usage.segments = used[USE_SEGMENTS];
    usage.pools = used[USE_POOLS];
    usage.physical = used[USE_PHYSICAL];
    usage.library = used[USE_LIBRARY];
    return usage;
}
