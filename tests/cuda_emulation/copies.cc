/* copies.cc - copies and fills. Each side must lie wholly in live device memory or wholly outside
 * it, as the direction says. */
#include <cstring>

#include "calls.h"
#include "state.h"

namespace emulation {

namespace {

/* Checks one side; device: 1 it must be device memory, 0 it must not be, -1 either. */
bool side_is_right(const void *p, uint64_t bytes, int on_device) {
    if (on_device < 0)
        on_device = range_touches(p, bytes);
    return on_device ? range_covers(p, bytes) : !range_touches(p, bytes);
}

cudaError_t check_sides(const void *dst, uint64_t dst_bytes, const void *src, uint64_t src_bytes,
                        cudaMemcpyKind kind) {
    static const int dst_on_device[] = { 0, 1, 0, 1, -1 };
    static const int src_on_device[] = { 0, 0, 1, 1, -1 };
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (side_is_right(dst, dst_bytes, dst_on_device[kind]) &&
        side_is_right(src, src_bytes, src_on_device[kind]))
        return cudaSuccess;
    fault("a copy of kind %d to %p (%llu bytes) from %p (%llu bytes): a side is not in live memory "
          "of that kind",
          int(kind), dst, (unsigned long long)dst_bytes, src, (unsigned long long)src_bytes);
    return cudaErrorInvalidValue;
}

bool overlap(const void *a, const void *b, uint64_t bytes) {
    const uintptr_t x = uintptr_t(a), y = uintptr_t(b);
    return x < y ? y - x < bytes : x - y < bytes;
}

cudaError_t copy(void *dst, const void *src, uint64_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
    if (bytes == 0)
        return cudaSuccess;
    if (cudaError_t e = check_sides(dst, bytes, src, bytes, kind))
        return e;
    if (overlap(dst, src, bytes)) {
        fault("a copy of %llu bytes between overlapping places", (unsigned long long)bytes);
        return cudaErrorInvalidValue;
    }
    return submit(stream, [=] {
        if (cudaError_t e = check_sides(dst, bytes, src, bytes, kind))
            return e;
        memcpy(dst, src, bytes);
        return cudaSuccess;
    });
}

cudaError_t copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    if (width > dst_pitch || width > src_pitch)
        return cudaErrorInvalidPitchValue;
    if (width == 0 || height == 0)
        return cudaSuccess;
    const uint64_t dst_bytes = dst_pitch * (height - 1) + width;
    const uint64_t src_bytes = src_pitch * (height - 1) + width;
    if (cudaError_t e = check_sides(dst, dst_bytes, src, src_bytes, kind))
        return e;
    return submit(stream, [=] {
        if (cudaError_t e = check_sides(dst, dst_bytes, src, src_bytes, kind))
            return e;
        for (size_t row = 0; row < height; row++)
            memcpy(static_cast<char *>(dst) + row * dst_pitch,
                   static_cast<const char *>(src) + row * src_pitch, width);
        return cudaSuccess;
    });
}

cudaError_t fill(void *ptr, int value, uint64_t bytes, cudaStream_t stream) {
    if (bytes == 0)
        return cudaSuccess;
    if (!range_covers(ptr, bytes)) {
        fault("a fill of %llu bytes at %p, which is not all live device memory",
              (unsigned long long)bytes, ptr);
        return cudaErrorInvalidValue;
    }
    return submit(stream, [=] {
        if (!range_covers(ptr, bytes))
            return cudaErrorIllegalAddress;
        memset(ptr, value, bytes);
        return cudaSuccess;
    });
}

} // namespace

} // namespace emulation

using namespace emulation;

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
    return runtime_call(API_cudaMemcpy, [&] { return copy(dst, src, bytes, kind, nullptr); });
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return runtime_call(API_cudaMemcpyAsync, [&] { return copy(dst, src, bytes, kind, stream); });
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
    return runtime_call(API_cudaMemcpy2DAsync, [&] {
        return copy_rows(dst, dst_pitch, src, src_pitch, width, height, kind, stream);
    });
}

cudaError_t cudaMemset(void *ptr, int value, size_t bytes) {
    return runtime_call(API_cudaMemset, [&] { return fill(ptr, value, bytes, nullptr); });
}

cudaError_t cudaMemsetAsync(void *ptr, int value, size_t bytes, cudaStream_t stream) {
    return runtime_call(API_cudaMemsetAsync, [&] { return fill(ptr, value, bytes, stream); });
}
