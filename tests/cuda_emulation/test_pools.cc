/* test_pools.cc - memory pools: reserved and used, release, trim, limits. */
#include "test.h"

namespace {

uint64_t get(cudaMemPool_t pool, cudaMemPoolAttr attr) {
    uint64_t value = 12345;
    OK(cudaMemPoolGetAttribute(pool, attr, &value));
    return value;
}

uint64_t reserved(cudaMemPool_t pool) {
    return get(pool, cudaMemPoolAttrReservedMemCurrent);
}

uint64_t in_use(cudaMemPool_t pool) {
    return get(pool, cudaMemPoolAttrUsedMemCurrent);
}

void set(cudaMemPool_t pool, cudaMemPoolAttr attr, uint64_t value) {
    OK(cudaMemPoolSetAttribute(pool, attr, &value));
}

cudaMemPool_t default_pool() {
    cudaMemPool_t pool;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

const uint64_t CHUNK = 32 * MIB;

void test_blocks(void **) {
    cudaMemPool_t pool = default_pool();
    const uint64_t before = used();
    unsigned char *a, *b;
    OK(cudaMallocAsync(&a, 1000, nullptr));
    OK(cudaMallocAsync(&b, MIB, nullptr));
    assert_int_equal(uintptr_t(a) % 256, 0);
    assert_int_equal(a[999], 0xff);
    assert_int_equal(reserved(pool), CHUNK);
    assert_int_equal(in_use(pool), 1024 + MIB);
    assert_int_equal(used() - before, CHUNK);
    assert_int_equal(mt_emulation_get_usage().pools, CHUNK);
    assert_int_equal(mt_emulation_get_live().pool_blocks, 2);
    a[0] = b[0] = 1;
    OK(cudaFreeAsync(a, nullptr));
    assert_int_equal(in_use(pool), MIB);
    unsigned char *again;
    OK(cudaMallocAsync(&again, 512, nullptr)); /* best fit: where a was */
    assert_ptr_equal(again, a);
    assert_int_equal(again[0], 0xff);
    OK(cudaFreeAsync(again, nullptr));
    OK(cudaFreeAsync(b, nullptr));
    assert_int_equal(reserved(pool), CHUNK);
    OK(cudaStreamSynchronize(nullptr));
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(used(), before);
    assert_int_equal(get(pool, cudaMemPoolAttrReservedMemHigh), CHUNK);
    assert_int_equal(get(pool, cudaMemPoolAttrUsedMemHigh), 1024 + MIB);
    set(pool, cudaMemPoolAttrReservedMemHigh, 0);
    set(pool, cudaMemPoolAttrUsedMemHigh, 0);
    assert_int_equal(get(pool, cudaMemPoolAttrReservedMemHigh), 0);
    assert_int_equal(get(pool, cudaMemPoolAttrUsedMemHigh), 0);
}

void test_large_reuse_is_filled(void **) {
    unsigned char *p;
    const size_t n = 3 * MIB + 700;
    set(default_pool(), cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
    for (int i = 0; i < 2; i++) {
        void *before;
        OK(cudaMallocAsync(&before, 512, nullptr));
        OK(cudaMallocAsync(&p, n, nullptr));
        for (size_t at = 0; at < n; at++)
            if (p[at] != 0xff)
                fail_msg("byte %zu is not filled", at);
        memset(p, 0, n);
        OK(cudaFreeAsync(p, nullptr));
        OK(cudaFreeAsync(before, nullptr));
    }
}

void test_threshold(void **) {
    cudaMemPool_t pool = default_pool();
    void *p[3];
    for (void *&q : p)
        OK(cudaMallocAsync(&q, 20 * MIB, nullptr));
    assert_int_equal(reserved(pool), 3 * CHUNK);
    set(pool, cudaMemPoolAttrReleaseThreshold, 2 * CHUNK);
    assert_int_equal(get(pool, cudaMemPoolAttrReleaseThreshold), 2 * CHUNK);
    for (void *q : p)
        OK(cudaFreeAsync(q, nullptr));
    OK(cudaDeviceSynchronize());
    assert_int_equal(reserved(pool), 2 * CHUNK);
    OK(cudaMallocAsync(&p[0], 33 * MIB, nullptr));
    assert_int_equal(reserved(pool), 4 * CHUNK);
    OK(cudaMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 2 * CHUNK);
    OK(cudaFreeAsync(p[0], nullptr));
    OK(cudaMemPoolTrimTo(pool, CHUNK));
    assert_int_equal(reserved(pool), 0);
}

void test_join(void **) {
    cudaMemPool_t pool = default_pool();
    char *p[4];
    for (char *&q : p)
        OK(cudaMallocAsync(&q, 8 * MIB, nullptr));
    for (int i : { 0, 2, 1 })
        OK(cudaFreeAsync(p[i], nullptr));
    char *large;
    OK(cudaMallocAsync(&large, 24 * MIB, nullptr));
    assert_ptr_equal(large, p[0]);
    assert_int_equal(reserved(pool), CHUNK);
    OK(cudaFreeAsync(large, nullptr));
    OK(cudaFreeAsync(p[3], nullptr));
}

void test_own_pool(void **) {
    cudaMemPoolProps props = {};
    cudaMemPool_t pool;
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &props));
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.maxSize = 2 * CHUNK;
    OK(cudaMemPoolCreate(&pool, &props));
    float *p, *q;
    OK(cudaMallocFromPoolAsync(&p, 40 * MIB, pool, nullptr));
    GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&q, 40 * MIB, pool, nullptr));
    GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
    OK(cudaMallocAsync(&q, 40 * MIB, nullptr));
    OK(cudaFreeAsync(q, nullptr));
    OK(cudaFreeAsync(p, nullptr));
    assert_int_equal(mt_emulation_get_live().pools, 1);
    OK(cudaMemPoolDestroy(pool));
    GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(default_pool()));
}

void test_out_of_memory(void **) {
    mt_emulation_set_context_bytes(0);
    mt_emulation_set_capacity(100 * MIB);
    void *p, *q;
    OK(cudaMallocAsync(&p, 90 * MIB, nullptr));
    GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&q, 7 * MIB, nullptr));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&q, 5 * MIB));
    OK(cudaFreeAsync(p, nullptr));
    OK(cudaStreamSynchronize(nullptr));
    OK(cudaMalloc(&q, 100 * MIB));
    OK(cudaFree(q));
}

void test_misuse(void **) {
    char *p;
    uint64_t value = 5;
    cudaMemPool_t pool = default_pool();
    OK(cudaMallocAsync(&p, 1000, nullptr));
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(p + 256, nullptr));
    OK(cudaFreeAsync(p, nullptr));
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(p, nullptr));
    FAULTS(2);
    GIVES(cudaErrorInvalidValue,
          cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &value));
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
    OK(cudaFreeAsync(nullptr, nullptr));
}

} // namespace

void add_pools_tests(std::vector<CMUnitTest> *all) {
    const std::vector<CMUnitTest> tests = {
        TEST(test_blocks),    TEST(test_large_reuse_is_filled),
        TEST(test_threshold), TEST(test_join),
        TEST(test_own_pool),  TEST(test_out_of_memory),
        TEST(test_misuse),
    };
    all->insert(all->end(), tests.begin(), tests.end());
}
