/* test_memory.cc - segments: fences, fill, accounting, copies, misuse. */
#include "test.h"

#include "watchers.h"

namespace {

/* ---- fences and fill ------------------------------------------------------------------------- */

__global__ void copy_one(float *out, const float *in, size_t i) {
    *out = in[i];
}

void test_fences(void **) {
    float *out = floats(1);
    for (size_t n : { size_t(64), size_t(1024), size_t(3 * MIB) }) {
        float *p = floats(n);
        assert_int_equal(uintptr_t(p) % 256, 0);
        assert_false(dies([=] { MT_LAUNCH(copy_one, 1, 1, 0, nullptr, out, p, n - 1); }));
        assert_true(dies([=] { MT_LAUNCH(copy_one, 1, 1, 0, nullptr, out, p, n); }));
        assert_true(dies([=] { MT_LAUNCH(copy_one, 1, 1, 0, nullptr, out, p - 1024, 0u); }));
        OK(cudaFree(p));
        assert_true(dies([=] { MT_LAUNCH(copy_one, 1, 1, 0, nullptr, out, p, 0u); }));
    }
    OK(cudaFree(out));
}

#ifndef MT_EMULATION_ASAN /* which does not let a test write there */
__global__ void write_byte(char *at) {
    *at = 1;
}

void test_writes_outside(void **) {
    for (long offset : { 100L, 255L, -1L }) {
        char *p;
        OK(cudaMalloc(&p, 100));
        MT_LAUNCH(write_byte, 1, 1, 0, nullptr, p + offset);
        OK(cudaGetLastError());
        FAULTS(0);
        OK(cudaFree(p));
        FAULTS(1);
        LAST_FAULT_HAS("written just outside the segment of 100 bytes");
        mt_emulation_reset();
        mt_emulation_set_quiet(true);
    }
}
#else
void test_writes_outside(void **) {}
#endif

void test_nan_fill(void **) {
    /* Far more than this machine may want to fill: only what is touched costs memory. */
    const size_t big = size_t(20) << 30;
    unsigned char *p;
    OK(cudaMalloc(&p, big));
    for (size_t i = 0; i < big; i += 100 * MIB + 123)
        assert_int_equal(p[i], 0xff);
    assert_int_equal(p[big - 1], 0xff);
    assert_true(std::isnan(*reinterpret_cast<float *>(p)));
    p[5000] = 1;
    assert_int_equal(p[5000 + 4 * MIB], 0xff);
    OK(cudaFree(p));
    OK(cudaMalloc(&p, 100));
    assert_int_equal(p[99], 0xff);
    OK(cudaFree(p));
}

/* ---- accounting ------------------------------------------------------------------------------ */

void test_pages(void **) {
    const uint64_t before = used();
    void *small[3], *big;
    OK(cudaMalloc(&small[0], 1));
    assert_int_equal(used() - before, 2 * MIB);
    OK(cudaMalloc(&small[1], MIB));
    assert_int_equal(used() - before, 2 * MIB);
    OK(cudaMalloc(&small[2], MIB));
    assert_int_equal(used() - before, 4 * MIB);
    OK(cudaMalloc(&big, 2 * MIB + 1));
    assert_int_equal(used() - before, 8 * MIB);
    assert_int_equal(mt_emulation_get_usage().segments, 8 * MIB);
    OK(cudaFree(big));
    OK(cudaFree(small[0]));
    assert_int_equal(used() - before, 4 * MIB);
    OK(cudaFree(small[1]));
    assert_int_equal(used() - before, 2 * MIB);
    OK(cudaFree(small[2]));
    assert_int_equal(used() - before, 0);
}

void test_capacity(void **) {
    void *p, *q;
    mt_emulation_set_context_bytes(0);
    mt_emulation_set_capacity(10 * MIB);
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&p, 10 * MIB + 1));
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    OK(cudaGetLastError());
    OK(cudaMalloc(&p, 8 * MIB));
    OK(cudaMalloc(&q, 2 * MIB));
    void *r = &r;
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&r, 1));
    assert_null(r);
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&r, SIZE_MAX));
    OK(cudaFree(p));
    OK(cudaMalloc(&p, 8 * MIB));
    OK(cudaFree(p));
    OK(cudaFree(q));
    assert_int_equal(used(), 0);
}

__global__ void one_kernel() {}

__global__ void another_kernel() {}

void test_context_and_kernels(void **) {
    int count;
    mt_emulation_set_context_bytes(100 * MIB);
    mt_emulation_set_kernel_bytes(3 * MIB);
    OK(cudaGetDeviceCount(&count));
    assert_int_equal(mt_emulation_get_usage().used, 0);
    OK(cudaFree(nullptr));
    assert_int_equal(mt_emulation_get_usage().context, 100 * MIB);
    assert_int_equal(used(), 100 * MIB);
    MT_LAUNCH(one_kernel, 1, 1, 0, nullptr);
    MT_LAUNCH(one_kernel, 1, 1, 0, nullptr);
    assert_int_equal(used(), 104 * MIB);
    MT_LAUNCH(another_kernel, 1, 1, 0, nullptr);
    assert_int_equal(mt_emulation_get_usage().kernels, 6 * MIB);
    mt_emulation_set_other_process_bytes(50 * MIB);
    assert_int_equal(used(), 156 * MIB);
    mt_emulation_set_other_process_bytes(0);
    assert_int_equal(used(), 106 * MIB);
    mt_emulation_reset();
    mt_emulation_set_capacity(100 * MIB);
    GIVES(cudaErrorMemoryAllocation, cudaSetDevice(0));
}

void test_list(void **) {
    char *p;
    OK(cudaMalloc(&p, 1000));
    mt_emulation_allocation list[2];
    assert_int_equal(mt_emulation_allocations(list, 2), 1);
    assert_ptr_equal(list[0].ptr, p);
    assert_int_equal(list[0].bytes, 1000);
    assert_string_equal(list[0].call, "cudaMalloc");
    assert_int_equal(mt_emulation_get_live().segments, 1);
    OK(cudaFree(p));
    assert_int_equal(mt_emulation_allocations(list, 2), 0);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

void test_bad_frees(void **) {
    char *p;
    OK(cudaFree(nullptr));
    OK(cudaMalloc(&p, 0));
    assert_null(p);
    OK(cudaMalloc(&p, 1000));
    GIVES(cudaErrorInvalidValue, cudaFree(p + 256));
    OK(cudaFree(p));
    GIVES(cudaErrorInvalidValue, cudaFree(p));
    GIVES(cudaErrorInvalidValue, cudaFreeHost(p));
    FAULTS(3);
}

void test_pinned(void **) {
    float *host, *device_floats = floats_of({ 1, 2, 3 });
    OK(cudaHostAlloc(&host, 3 * sizeof *host, cudaHostAllocDefault));
    assert_true(std::isnan(host[0]));
    OK(cudaMemcpy(host, device_floats, 12, cudaMemcpyDeviceToHost));
    assert_true(host[2] == 3);
    assert_int_equal(mt_emulation_get_live().pinned, 1);
    OK(cudaFreeHost(host));
    OK(cudaMallocHost(&host, 12));
    OK(cudaFreeHost(host));
    OK(cudaFree(device_floats));
}

/* ---- copies ---------------------------------------------------------------------------------- */

void test_copies(void **) {
    float host[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, back[8] = {};
    float *a = floats(8), *b = floats(8);
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMemcpyAsync(a, host, sizeof host, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(b, a, sizeof host, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemcpyAsync(back, b, sizeof host, cudaMemcpyDefault, stream));
    OK(cudaStreamSynchronize(stream));
    assert_memory_equal(host, back, sizeof host);
    OK(cudaMemsetAsync(b, 0, sizeof host, stream));
    /* Two rows of two from rows of four, to rows of three. */
    OK(cudaMemcpy2DAsync(b, 12, a + 1, 16, 8, 2, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemcpy(back, b, sizeof host, cudaMemcpyDeviceToHost));
    const float expected[8] = { 1, 2, 0, 5, 6, 0, 0, 0 };
    assert_memory_equal(back, expected, sizeof back);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(a));
    OK(cudaFree(b));
}

void test_bad_copies(void **) {
    float host[8] = {};
    float *a = floats(8), *b = floats(8);
    const cudaMemcpyKind in = cudaMemcpyHostToDevice, out = cudaMemcpyDeviceToHost,
                         across = cudaMemcpyDeviceToDevice;
    GIVES(cudaErrorInvalidValue, cudaMemcpy(a, host, 33, in));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(host, a + 7, 8, out));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(a, host, 4, out));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(a, b, 4, in));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(host, b, 4, across));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(a, a + 1, 8, across));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(a, b, 4, cudaMemcpyKind(9)));
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2DAsync(a, 4, b, 8, 8, 1, across));
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DAsync(a, 16, b, 20, 16, 2, across));
    GIVES(cudaErrorInvalidValue, cudaMemset(a, 0, 33));
    GIVES(cudaErrorInvalidValue, cudaMemset(host, 0, 4));
    OK(cudaMemcpy(a, nullptr, 0, in));
    OK(cudaFree(a));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(a, host, 4, in));
    OK(cudaFree(b));
}

/* ---- questions ------------------------------------------------------------------------------- */

void test_questions(void **) {
    cudaDeviceProp prop;
    int value;
    const struct {
        int major, minor, multiprocessors;
    } chips[] = { { 8, 0, 108 }, { 8, 6, 84 }, { 8, 9, 142 }, { 9, 0, 132 } };
    for (const auto &chip : chips) {
        mt_emulation_set_capability(chip.major, chip.minor);
        OK(cudaGetDeviceProperties(&prop, 0));
        assert_int_equal(prop.major, chip.major);
        assert_int_equal(prop.minor, chip.minor);
        assert_int_equal(prop.multiProcessorCount, chip.multiprocessors);
        assert_int_equal(prop.totalGlobalMem, uint64_t(48) << 30);
        OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 0));
        assert_int_equal(value, chip.minor);
    }
    GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, 1));
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(1));
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, cudaDeviceAttr(9999), 0));
    mt_emulation_set_capability(8, 6);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, one_kernel, 256, 0));
    assert_int_equal(value, 6);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, one_kernel, 32, 40 * KIB));
    assert_int_equal(value, 2);
    OK(cudaRuntimeGetVersion(&value));
    assert_int_equal(value, CUDART_VERSION);
    OK(cudaDriverGetVersion(&value));
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

void test_no_device(void **) {
    int count = 7;
    void *p;
    mt_emulation_set_devices(0);
    GIVES(cudaErrorNoDevice, cudaGetDeviceCount(&count));
    assert_int_equal(count, 0);
    GIVES(cudaErrorNoDevice, cudaSetDevice(0));
    GIVES(cudaErrorNoDevice, cudaMalloc(&p, 1));
}

} // namespace

void add_memory_tests(std::vector<CMUnitTest> *all) {
    const std::vector<CMUnitTest> tests = {
        TEST(test_fences),    TEST(test_writes_outside), TEST(test_nan_fill),
        TEST(test_pages),     TEST(test_capacity),       TEST(test_context_and_kernels),
        TEST(test_list),      TEST(test_bad_frees),      TEST(test_pinned),
        TEST(test_copies),    TEST(test_bad_copies),     TEST(test_questions),
        TEST(test_no_device),
    };
    all->insert(all->end(), tests.begin(), tests.end());
}
