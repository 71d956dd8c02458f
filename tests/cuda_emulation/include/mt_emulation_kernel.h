/* mt_emulation_kernel.h - the kernel language as C++: a kernel is a plain function that reads
 * threadIdx and its like, which the launcher sets before it runs a thread.
 *
 * Warp and block functions carry the place of their call, so that threads that wait at different
 * places are reported. A shuffle that reads from a lane that does not take part gives all ones (a
 * NaN), where a device gives an undefined value. */
#ifndef MT_EMULATION_KERNEL_H
#define MT_EMULATION_KERNEL_H

#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__        inline __attribute__((always_inline))
#define __launch_bounds__(...) /* registers are not counted */
#define __grid_constant__

/* One copy for all blocks: blocks run one after another, so none sees another's while it runs. Its
 * first values are those the block before left. For a dynamic size see MT_DYNAMIC_SHARED. */
#define __shared__ static

/* ---- types ----------------------------------------------------------------------------------- */

struct uint3 {
    unsigned int x, y, z;
};

struct dim3 {
    unsigned int x, y, z;

    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
        : x(x_), y(y_), z(z_) {}
};

struct alignas(8) float2 {
    float x, y;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(8) int2 {
    int x, y;
};

struct alignas(16) int4 {
    int x, y, z, w;
};

inline float2 make_float2(float x, float y) {
    return { x, y };
}

inline float4 make_float4(float x, float y, float z, float w) {
    return { x, y, z, w };
}

inline int2 make_int2(int x, int y) {
    return { x, y };
}

inline int4 make_int4(int x, int y, int z, int w) {
    return { x, y, z, w };
}

/* ---- where a thread is ----------------------------------------------------------------------- */

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

/* ---- meeting the other threads --------------------------------------------------------------- */

enum mt_shuffle { MT_SHUFFLE_INDEX, MT_SHUFFLE_UP, MT_SHUFFLE_DOWN, MT_SHUFFLE_XOR };

struct mt_place {
    const char *file;
    int line;
};

void mt_emulation_barrier(mt_place place);
void mt_emulation_warp_barrier(unsigned int mask, mt_place place);
uint64_t mt_emulation_shuffle(mt_shuffle how, unsigned int mask, uint64_t value, unsigned int lane,
                              int width, mt_place place);
void *mt_emulation_dynamic_shared();

inline void __syncthreads(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    mt_emulation_barrier({ file, line });
}

inline void __syncwarp(unsigned int mask = 0xffffffff, const char *file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
    mt_emulation_warp_barrier(mask, { file, line });
}

template <class T>
T mt_shuffle_value(mt_shuffle how, unsigned int mask, T value, unsigned int lane, int width,
                   mt_place place) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most eight bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = mt_emulation_shuffle(how, mask, bits, lane, width, place);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T>
T __shfl_sync(unsigned int mask, T value, int lane, int width = 32,
              const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return mt_shuffle_value(MT_SHUFFLE_INDEX, mask, value, (unsigned int)lane, width,
                            { file, line });
}

template <class T>
T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32,
                 const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return mt_shuffle_value(MT_SHUFFLE_UP, mask, value, delta, width, { file, line });
}

template <class T>
T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32,
                   const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return mt_shuffle_value(MT_SHUFFLE_DOWN, mask, value, delta, width, { file, line });
}

template <class T>
T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32,
                  const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return mt_shuffle_value(MT_SHUFFLE_XOR, mask, value, (unsigned int)lanes, width,
                            { file, line });
}

inline void __threadfence() {}

inline void __threadfence_block() {}

/* ---- atomics: threads never run at the same time, so plain ones do --------------------------- */

template <class T> T mt_emulation_exchange(T *at, T value) {
    T old = *at;
    *at = value;
    return old;
}

inline float atomicAdd(float *at, float value) {
    return mt_emulation_exchange(at, *at + value);
}

inline int atomicAdd(int *at, int value) {
    return mt_emulation_exchange(at, *at + value);
}

inline unsigned int atomicAdd(unsigned int *at, unsigned int value) {
    return mt_emulation_exchange(at, *at + value);
}

inline int atomicMax(int *at, int value) {
    return mt_emulation_exchange(at, value > *at ? value : *at);
}

inline int atomicExch(int *at, int value) {
    return mt_emulation_exchange(at, value);
}

inline int atomicCAS(int *at, int expected, int value) {
    return mt_emulation_exchange(at, *at == expected ? value : *at);
}

inline unsigned int atomicCAS(unsigned int *at, unsigned int expected, unsigned int value) {
    return mt_emulation_exchange(at, *at == expected ? value : *at);
}

inline unsigned long long atomicMax(unsigned long long *at, unsigned long long value) {
    return mt_emulation_exchange(at, value > *at ? value : *at);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

template <class T> T __ldg(const T *at) {
    return *at;
}

inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}

inline float __expf(float x) {
    return std::exp(x);
}

inline float __fdividef(float a, float b) {
    return a / b;
}

template <class To, class From> To mt_emulation_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are kept");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline int __float_as_int(float x) {
    return mt_emulation_bits<int>(x);
}

inline unsigned int __float_as_uint(float x) {
    return mt_emulation_bits<unsigned int>(x);
}

inline float __int_as_float(int x) {
    return mt_emulation_bits<float>(x);
}

inline float __uint_as_float(unsigned int x) {
    return mt_emulation_bits<float>(x);
}

#define MT_MIN_MAX(type)                                                                           \
    inline type min(type a, type b) {                                                              \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    inline type max(type a, type b) {                                                              \
        return a < b ? b : a;                                                                      \
    }
MT_MIN_MAX(int)
MT_MIN_MAX(unsigned int)
MT_MIN_MAX(long)
MT_MIN_MAX(unsigned long)
MT_MIN_MAX(long long)
MT_MIN_MAX(unsigned long long)
#undef MT_MIN_MAX

inline float min(float a, float b) {
    return std::fmin(a, b);
}

inline float max(float a, float b) {
    return std::fmax(a, b);
}

#endif
