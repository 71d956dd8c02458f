/* launch.h - how the CUDA code starts a kernel and declares shared memory of a size chosen at the
 * launch, written so that nvcc compiles it for a device and a C++ compiler for the emulated one.
 *
 *     MT_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...);
 *     MT_DYNAMIC_SHARED(float, scores);     inside a kernel: shared_bytes bytes, 16-byte aligned
 *
 * A kernel with commas in its template arguments goes in parentheses. Check cudaGetLastError. A
 * name of MT_DYNAMIC_SHARED keeps one type in a file. */
#ifndef MT_KERNELS_CUDA_LAUNCH_H
#define MT_KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#ifdef __CUDACC__

#define MT_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                  \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
#define MT_DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]

#else

#include <mt_emulation_launch.h>

#define MT_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                  \
    mt_emulation_kernel(#kernel, kernel, grid, block, shared_bytes, stream)(__VA_ARGS__)
#define MT_DYNAMIC_SHARED(type, name)                                                              \
    type *name = static_cast<type *>(mt_emulation_dynamic_shared())

#endif

#endif
