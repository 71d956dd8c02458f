/* state.h - what the files of the emulated device ask of each other. Each file owns its state and
 * has a reset and a count of what is live. */
#ifndef MT_EMULATION_STATE_H
#define MT_EMULATION_STATE_H

#include <cstddef>
#include <cstdint>
#include <functional>

#include <cuda_runtime.h>

#include "control.h"

namespace emulation {

const uint64_t PAGE = 2 << 20; /* the driver's */

/* ---- device.cc: settings, and who uses how many of the device's bytes ------------------------ */

enum Use {
    USE_CONTEXT,
    USE_OTHER,
    USE_KERNELS,
    USE_SEGMENTS,
    USE_POOLS,
    USE_PHYSICAL,
    USE_LIBRARY,
    USE_COUNT
};

struct Device {
    uint64_t capacity = 48ull << 30;
    int major = 8, minor = 6;
    int count = 1;
    uint64_t context_bytes = 256 << 20;
    uint64_t kernel_bytes = 256 << 10;
    uint64_t used[USE_COUNT] = {};
};

extern Device device;

uint64_t device_used();
bool device_take(Use use, uint64_t bytes); /* false: the capacity does not hold them */
void device_give(Use use, uint64_t bytes);
bool open_context();
bool load_kernel(const void *kernel); /* its first time takes bytes; false: there are none */
int shared_limit();                   /* dynamic shared memory that a kernel may be allowed */
void reset_device();

/* ---- settings.cc: the first values, from the environment ------------------------------------- */

void read_environment(); /* once, before anything else is set */

/* ---- calls.cc -------------------------------------------------------------------------------- */

void reset_calls();

/* ---- fence.cc: memory between guard pages, filled with NaNs ---------------------------------- */

/* The end of the bytes, rounded up to 256, touches a page that cannot be read; the start is 256
 * aligned. NULL when the system has no memory. */
void *fence_map(uint64_t bytes);

/* Ends it. False when bytes around the piece were written. Its addresses stay unreadable a
 * while. */
bool fence_unmap(void *ptr, uint64_t bytes);

/* Fills a part of such memory with NaNs again, giving pages back where it can. */
void fill_with_nan(void *ptr, uint64_t bytes);

uint64_t round_up(uint64_t bytes, uint64_t to);

/* ---- ranges.cc: the device memory that is live ----------------------------------------------- */

enum RangeKind { RANGE_SEGMENT, RANGE_POOL, RANGE_MAPPING, RANGE_LIBRARY, RANGE_KINDS };

void range_add(const void *ptr, uint64_t bytes, RangeKind kind);
bool range_remove(const void *ptr, RangeKind kind, uint64_t *bytes); /* false: no such start */
bool range_covers(const void *ptr, uint64_t bytes);                  /* all of it is live */
bool range_touches(const void *ptr, uint64_t bytes);                 /* some of it is */
size_t range_count(RangeKind kind);
void reset_ranges();

/* ---- streams and graphs ---------------------------------------------------------------------- */

/* Work in stream order: done at once, or kept while the stream is captured. */
typedef std::function<cudaError_t()> Work;
cudaError_t submit(cudaStream_t stream, Work work);

bool capture_forbids(); /* a capture is on that UNSAFE calls spoil */
void spoil_captures();  /* after such a call */
bool is_capturing(cudaStream_t stream);
bool is_stream(cudaStream_t stream);
cudaError_t refuse_in_capture(cudaStream_t stream); /* 0 unless captured; spoils the capture */

size_t stream_count();
size_t event_count();
size_t graph_count();
size_t exec_count();
void reset_streams();
void reset_events();
void reset_graphs();

/* ---- the rest -------------------------------------------------------------------------------- */

void sync_pools(); /* at each wait for the device: pools release what is above their threshold */
size_t pool_count();
void reset_pools();

size_t segment_count();
size_t pinned_count();
void reset_memory();

size_t reservation_count();
size_t handle_count();
void reset_physical();

void reset_kernels();

size_t cublas_count();
void reset_cublas();

void reset_nvtx();

} // namespace emulation

#endif
