/* test_threads.cc - indices, shared memory, barriers, shuffles, and threads that diverge. */
#include "test.h"

#include "watchers.h"

namespace {

/* ---- where a thread is ----------------------------------------------------------------------- */

__global__ void write_index(unsigned *out, bool meet) {
    if (meet)
        __syncthreads();
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    out[block * threads + thread] = block * 1000 + thread;
}

void test_indices(void **) {
    const unsigned blocks = 2 * 3 * 4, threads = 5 * 7 * 3;
    unsigned *out;
    OK(cudaMalloc(&out, blocks * threads * sizeof *out));
    for (bool meet : { false, true }) {
        OK(cudaMemset(out, 0, blocks * threads * sizeof *out));
        MT_LAUNCH(write_index, dim3(2, 3, 4), dim3(5, 7, 3), 0, nullptr, out, meet);
        OK(cudaGetLastError());
        for (unsigned i = 0; i < blocks * threads; i++)
            assert_int_equal(out[i], i / threads * 1000 + i % threads);
    }
    OK(cudaFree(out));
}

__global__ void do_nothing() {}

template <int A, int B> __global__ void write_sum(int *out) {
    if (threadIdx.x == 0)
        atomicAdd(out, A + B);
}

void test_launch_forms(void **) {
    int *out;
    OK(cudaMalloc(&out, sizeof *out));
    OK(cudaMemset(out, 0, sizeof *out));
    MT_LAUNCH(do_nothing, 1, 1, 0, 0);
    MT_LAUNCH((write_sum<2, 3>), 4, 32, 0, 0, out);
    OK(cudaGetLastError());
    assert_int_equal(*out, 20);
    OK(cudaFree(out));
}

void check_configuration(cudaError_t expected, dim3 grid, dim3 block, size_t shared) {
    MT_LAUNCH(do_nothing, grid, block, shared, nullptr);
    GIVES(expected, cudaPeekAtLastError());
    GIVES(expected, cudaGetLastError());
    OK(cudaGetLastError());
}

void test_configuration(void **) {
    check_configuration(cudaErrorInvalidConfiguration, 0, 1, 0);
    check_configuration(cudaErrorInvalidConfiguration, 1, 0, 0);
    check_configuration(cudaErrorInvalidConfiguration, 1, 1025, 0);
    check_configuration(cudaErrorInvalidConfiguration, 1, dim3(32, 33), 0);
    check_configuration(cudaErrorInvalidConfiguration, dim3(1, 65536), 1, 0);
    check_configuration(cudaSuccess, dim3(70000), 1, 0);
    check_configuration(cudaSuccess, 1, 1024, 48 * KIB);
    check_configuration(cudaErrorInvalidValue, 1, 1, 48 * KIB + 1);
    const auto shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
    OK(cudaFuncSetAttribute(do_nothing, shared, 99 * KIB));
    check_configuration(cudaSuccess, 1, 1, 99 * KIB);
    GIVES(cudaErrorInvalidValue, cudaFuncSetAttribute(do_nothing, shared, 99 * KIB + 1));
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    mt_emulation_set_capability(9, 0);
    OK(cudaFuncSetAttribute(do_nothing, shared, 227 * KIB));
    check_configuration(cudaSuccess, 1, 1, 227 * KIB);
    MT_LAUNCH(do_nothing, 1, 1, 0, reinterpret_cast<cudaStream_t>(0x1234));
    GIVES(cudaErrorInvalidResourceHandle, cudaGetLastError());
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* out[block] = sum of in[block * n ... + n), by halving. */
__global__ void sum_by_halves(float *out, const float *in) {
    __shared__ float part[1024];
    const unsigned t = threadIdx.x, n = blockDim.x;
    part[t] = in[blockIdx.x * n + t];
    for (unsigned left = n; left > 1; left = (left + 1) / 2) {
        __syncthreads();
        const unsigned half = (left + 1) / 2;
        if (t < left / 2)
            part[t] += part[t + half];
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

void test_shared_memory(void **) {
    for (unsigned n : { 1u, 2u, 31u, 32u, 33u, 255u, 768u, 1024u }) {
        const unsigned blocks = 3;
        std::vector<float> values(blocks * n);
        for (size_t i = 0; i < values.size(); i++)
            values[i] = float(i % 17);
        float *in = floats_of(values), *out = floats(blocks);
        MT_LAUNCH(sum_by_halves, blocks, n, 0, nullptr, out, in);
        OK(cudaGetLastError());
        for (unsigned b = 0; b < blocks; b++) {
            float sum = 0;
            for (unsigned i = 0; i < n; i++)
                sum += values[b * n + i];
            assert_true(out[b] == sum);
        }
        OK(cudaFree(in));
        OK(cudaFree(out));
    }
}

__global__ void reverse(float *data, float *first) {
    MT_DYNAMIC_SHARED(float, copy);
    const unsigned t = threadIdx.x, n = blockDim.x;
    if (t == 0)
        *first = copy[0];
    copy[t] = data[t];
    __syncthreads();
    data[t] = copy[n - 1 - t];
}

void test_dynamic_shared(void **) {
    float *data = floats_of({ 1, 2, 3, 4, 5 }), *first = floats(1);
    MT_LAUNCH(reverse, 1, 5, 5 * sizeof(float), nullptr, data, first);
    OK(cudaGetLastError());
    for (int i = 0; i < 5; i++)
        assert_true(data[i] == float(5 - i));
    assert_true(std::isnan(*first));
    OK(cudaFree(data));
    OK(cudaFree(first));
}

__global__ void touch_shared(unsigned i) {
    MT_DYNAMIC_SHARED(char, bytes);
    bytes[i] = 1;
}

void test_shared_fence(void **) {
    assert_false(dies([] { MT_LAUNCH(touch_shared, 1, 1, 4096, nullptr, 4095u); }));
#ifndef MT_EMULATION_ASAN /* which dies in its own way */
    assert_true(dies([] { MT_LAUNCH(touch_shared, 1, 1, 4096, nullptr, 4096u); }));
#endif
}

/* ---- shuffles -------------------------------------------------------------------------------- */

struct Shuffled {
    float down, up, xored, indexed;
    int integer;
    unsigned long long wide;
};

__global__ void shuffle_all(Shuffled *out, unsigned distance, int width) {
    const unsigned all = 0xffffffff, t = threadIdx.x;
    const float mine = float(t);
    Shuffled s;
    s.down = __shfl_down_sync(all, mine, distance, width);
    s.up = __shfl_up_sync(all, mine, distance, width);
    s.xored = __shfl_xor_sync(all, mine, int(distance), width);
    s.indexed = __shfl_sync(all, mine, int(distance), width);
    s.integer = __shfl_down_sync(all, int(t) - 7, distance, width);
    s.wide = __shfl_xor_sync(all, 1ull << 40 | t, 1);
    out[t] = s;
}

void check_shuffle(const Shuffled &s, unsigned t, unsigned d, unsigned width) {
    const unsigned first = t / width * width, last = first + width - 1;
    const unsigned down = t + d <= last ? t + d : t;
    assert_true(s.down == float(down));
    assert_true(s.up == float(t >= first + d ? t - d : t));
    assert_true(s.xored == float((t ^ d) <= last ? t ^ d : t));
    assert_true(s.indexed == float(first + d % width));
    assert_int_equal(s.integer, int(down) - 7);
    assert_true(s.wide == (1ull << 40 | (t ^ 1)));
}

void test_shuffles(void **) {
    const unsigned threads = 96;
    Shuffled *out;
    OK(cudaMalloc(&out, threads * sizeof *out));
    for (unsigned width : { 32u, 16u, 8u, 1u })
        for (unsigned d : { 0u, 1u, 2u, 5u, 16u, 31u }) {
            MT_LAUNCH(shuffle_all, 1, threads, 0, nullptr, out, d, int(width));
            OK(cudaGetLastError());
            for (unsigned t = 0; t < threads; t++)
                check_shuffle(out[t], t, d, width);
        }
    OK(cudaFree(out));
}

/* A sum over a block that need not be whole warps: shuffles in warps, then across them. */
__global__ void sum_by_warps(float *out, const float *in) {
    __shared__ float of_warp[32];
    const unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
    const unsigned warps = (blockDim.x + 31) / 32;
    const unsigned lanes = min(32u, blockDim.x - warp * 32);
    const unsigned mask = lanes == 32 ? 0xffffffff : (1u << lanes) - 1;
    float sum = in[t];
    for (unsigned d = 16; d > 0; d /= 2) {
        float other = __shfl_down_sync(mask, sum, d);
        sum += lane + d < lanes ? other : 0;
    }
    if (lane == 0)
        of_warp[warp] = sum;
    __syncthreads();
    if (t == 0) {
        sum = 0;
        for (unsigned w = 0; w < warps; w++)
            sum += of_warp[w];
        *out = sum;
    }
}

void test_warp_sums(void **) {
    for (unsigned n : { 1u, 31u, 32u, 33u, 100u, 256u, 1000u, 1024u }) {
        float *in = floats_of(std::vector<float>(n, 1)), *out = floats(1);
        MT_LAUNCH(sum_by_warps, 1, n, 0, nullptr, out, in);
        OK(cudaGetLastError());
        assert_true(*out == float(n));
        OK(cudaFree(in));
        OK(cudaFree(out));
    }
}

__global__ void half_warps(int *out) {
    const unsigned t = threadIdx.x;
    const unsigned mask = t < 16 ? 0x0000ffff : 0xffff0000;
    int v = int(t);
    if (t < 16)
        v = __shfl_xor_sync(mask, v, 1);
    else
        v = __shfl_xor_sync(mask, v, 2);
    __syncwarp();
    out[t] = v;
}

/* Lanes outside the mask, or not there, give all ones. */
__global__ void missing_lanes(float *out) {
    const unsigned t = threadIdx.x;
    if (t < 3)
        out[t] = __shfl_sync(0x7, float(t), int(t) + 1);
}

void test_part_of_a_warp(void **) {
    int *halves;
    OK(cudaMalloc(&halves, 32 * sizeof *halves));
    MT_LAUNCH(half_warps, 1, 32, 0, nullptr, halves);
    OK(cudaGetLastError());
    for (int t = 0; t < 32; t++)
        assert_int_equal(halves[t], t ^ (t < 16 ? 1 : 2));
    OK(cudaFree(halves));
    float *out = floats(3);
    MT_LAUNCH(missing_lanes, 1, 40, 0, nullptr, out);
    OK(cudaGetLastError());
    assert_true(out[0] == 1 && out[1] == 2 && std::isnan(out[2]));
    OK(cudaFree(out));
}

/* ---- threads that leave or diverge ----------------------------------------------------------- */

__global__ void some_exit(int *out, unsigned stay) {
    __shared__ int count;
    if (threadIdx.x == 0)
        count = 0;
    __syncthreads();
    if (threadIdx.x >= stay)
        return;
    atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0)
        *out = count;
}

void test_early_exit(void **) {
    int *out;
    OK(cudaMalloc(&out, sizeof *out));
    for (unsigned stay : { 1u, 32u, 45u, 100u }) {
        MT_LAUNCH(some_exit, 1, 100, 0, nullptr, out, stay);
        OK(cudaGetLastError());
        assert_int_equal(*out, stay);
    }
    OK(cudaFree(out));
}

__global__ void barrier_and_shuffle() {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __shfl_sync(0xffffffff, 1.0f, 0);
}

__global__ void two_barriers() {
    if (threadIdx.x == 40)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void two_shuffles() {
    if (threadIdx.x & 1)
        __shfl_xor_sync(0xffffffff, 1, 1);
    else
        __shfl_down_sync(0xffffffff, 1, 1);
}

__global__ void other_masks() {
    __shfl_xor_sync(threadIdx.x & 1 ? 0xffffffff : 0x55555557, 1, 2);
}

__global__ void not_in_mask() {
    __syncwarp(threadIdx.x < 31 ? 0xffffffff : 0x7fffffff);
}

#define DIVERGES(kernel, words)                                                                    \
    do {                                                                                           \
        mt_emulation_reset();                                                                      \
        mt_emulation_set_quiet(true);                                                              \
        MT_LAUNCH(kernel, dim3(2, 2), 64, 0, nullptr);                                             \
        FAULTS(1);                                                                                 \
        GIVES(cudaErrorLaunchFailure, cudaGetLastError());                                         \
        LAST_FAULT_HAS("block (0, 0, 0): threads diverged");                                       \
        LAST_FAULT_HAS(words);                                                                     \
    } while (0)

void test_divergence(void **) {
    DIVERGES(barrier_and_shuffle, "16 (the first is 0) wait in __syncthreads");
    DIVERGES(barrier_and_shuffle, "16 (the first is 16) wait in __shfl_sync");
    DIVERGES(two_barriers, "1 (the first is 40) wait in __syncthreads");
    DIVERGES(two_shuffles, "__shfl_xor_sync");
    DIVERGES(other_masks, "(mask 55555557)");
    DIVERGES(not_in_mask, "(mask 7fffffff)");
    /* The device is broken from then on. */
    void *p;
    int count;
    GIVES(cudaErrorLaunchFailure, cudaMalloc(&p, 1));
    GIVES(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    GIVES(cudaErrorLaunchFailure, cudaGetLastError());
    GIVES(cudaErrorLaunchFailure, cudaGetLastError());
    GIVES(cudaErrorLaunchFailure, cudaGetDeviceCount(&count));
    mt_emulation_reset();
    int *out;
    OK(cudaMalloc(&out, sizeof *out));
    MT_LAUNCH(some_exit, 1, 100, 0, nullptr, out, 50u);
    OK(cudaGetLastError());
    assert_int_equal(*out, 50);
    OK(cudaFree(out));
}

/* ---- the rest of the language ---------------------------------------------------------------- */

__global__ void arithmetic(float *out, const float4 *in) {
    const float4 v = __ldg(in);
    const float2 w = make_float2(v.x, v.y);
    out[0] = rsqrtf(v.w) + w.x + fmaxf(v.y, v.z);
    out[1] = expf(0.0f) + tanhf(0.0f) + fmaf(2, 3, 4);
    out[2] = __int_as_float(__float_as_int(v.z));
    atomicAdd(out + 3, 1.5f);
    out[4] = float(min(3, 5) + max(3u, 5u)) + min(0.5f, 1.0f);
}

void test_arithmetic(void **) {
    float *in = floats_of({ 1, 2, 3, 4 }), *out = floats_of({ 0, 0, 0, 0, 0 });
    MT_LAUNCH(arithmetic, 1, 2, 0, nullptr, out, reinterpret_cast<const float4 *>(in));
    OK(cudaGetLastError());
    const float expected[] = { 4.5f, 11, 3, 3, 8.5f };
    for (int i = 0; i < 5; i++)
        assert_true(out[i] == expected[i]);
    OK(cudaFree(in));
    OK(cudaFree(out));
}

} // namespace

void add_threads_tests(std::vector<CMUnitTest> *all) {
    const std::vector<CMUnitTest> tests = {
        TEST(test_indices),       TEST(test_launch_forms),   TEST(test_configuration),
        TEST(test_shared_memory), TEST(test_dynamic_shared), TEST(test_shared_fence),
        TEST(test_shuffles),      TEST(test_warp_sums),      TEST(test_part_of_a_warp),
        TEST(test_early_exit),    TEST(test_divergence),     TEST(test_arithmetic),
    };
    all->insert(all->end(), tests.begin(), tests.end());
}
