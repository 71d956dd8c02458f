/* test_physical.cc - cuMem*: the life of a mapping, and what is refused. */
#include "test.h"

namespace {

/* The driver's functions, as a program finds them. */
struct Driver {
    decltype(&cuMemAddressReserve) reserve;
    decltype(&cuMemAddressFree) free_addresses;
    decltype(&cuMemCreate) create;
    decltype(&cuMemRelease) release;
    decltype(&cuMemMap) map;
    decltype(&cuMemUnmap) unmap;
    decltype(&cuMemSetAccess) set_access;
    decltype(&cuMemGetAllocationGranularity) granularity;
    decltype(&cuGetErrorString) error_string;
};

template <class F> void find(F *function, const char *name) {
    cudaDriverEntryPointQueryResult result;
    void *p = nullptr;
    OK(cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &result));
    assert_int_equal(result, cudaDriverEntryPointSuccess);
    *function = reinterpret_cast<F>(p);
    void *same;
    OK(cudaGetDriverEntryPoint(name, &same, cudaEnableDefault));
    assert_ptr_equal(p, same);
}

Driver driver() {
    Driver d;
    find(&d.reserve, "cuMemAddressReserve");
    find(&d.free_addresses, "cuMemAddressFree");
    find(&d.create, "cuMemCreate");
    find(&d.release, "cuMemRelease");
    find(&d.map, "cuMemMap");
    find(&d.unmap, "cuMemUnmap");
    find(&d.set_access, "cuMemSetAccess");
    find(&d.granularity, "cuMemGetAllocationGranularity");
    find(&d.error_string, "cuGetErrorString");
    return d;
}

CUmemAllocationProp on_device() {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

CUmemAccessDesc read_write() {
    return { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
}

const size_t PAGE = 2 * MIB;

unsigned char *bytes_at(CUdeviceptr ptr) {
    return reinterpret_cast<unsigned char *>(uintptr_t(ptr));
}

void test_life(void **) {
    const Driver d = driver();
    const CUmemAllocationProp prop = on_device();
    const CUmemAccessDesc access = read_write();
    const uint64_t before = used();
    size_t page;
    CUdeviceptr base;
    CUmemGenericAllocationHandle first, second;
    OK(d.granularity(&page, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(page, PAGE);
    OK(d.reserve(&base, 8 * PAGE, 0, 0, 0));
    assert_int_equal(base % PAGE, 0);
    assert_int_equal(used(), before);
    assert_true(dies([=] { bytes_at(base)[0] = 1; }));

    OK(d.create(&first, PAGE, &prop, 0));
    OK(d.create(&second, 2 * PAGE, &prop, 0));
    assert_int_equal(used() - before, 3 * PAGE);
    assert_int_equal(mt_emulation_get_usage().physical, 3 * PAGE);
    OK(d.map(base + PAGE, PAGE, 0, first, 0));
    assert_true(dies([=] { bytes_at(base + PAGE)[0] = 1; }));
    OK(d.map(base + 2 * PAGE, 2 * PAGE, 0, second, 0));
    OK(d.set_access(base + PAGE, 3 * PAGE, &access, 1));
    assert_int_equal(bytes_at(base + PAGE)[0], 0xff);
    assert_int_equal(bytes_at(base + 4 * PAGE)[-1], 0xff);
    assert_true(dies([=] { bytes_at(base + 4 * PAGE)[0] = 1; }));
    OK(cudaMemset(bytes_at(base + PAGE), 7, 3 * PAGE));
    GIVES(cudaErrorInvalidValue, cudaMemset(bytes_at(base + PAGE), 7, 3 * PAGE + 1));

    /* The memory stays until it is both released and unmapped, and is the same elsewhere. */
    OK(d.map(base + 6 * PAGE, PAGE, 0, first, 0));
    OK(d.set_access(base + 6 * PAGE, PAGE, &access, 1));
    assert_int_equal(bytes_at(base + 6 * PAGE)[5], 7);
    OK(d.release(first));
    OK(d.unmap(base + PAGE, 3 * PAGE));
    assert_int_equal(used() - before, 3 * PAGE);
    assert_true(dies([=] { bytes_at(base + PAGE)[0] = 1; }));
    OK(d.unmap(base + 6 * PAGE, PAGE));
    assert_int_equal(used() - before, 2 * PAGE);
    OK(d.release(second));
    assert_int_equal(used(), before);
    OK(d.free_addresses(base, 8 * PAGE));
    FAULTS(1); /* the fill of too many bytes */
}

void test_refused(void **) {
    const Driver d = driver();
    const CUmemAllocationProp prop = on_device(), nowhere = {};
    const CUmemAccessDesc access = read_write();
    const CUresult invalid = CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr base;
    CUmemGenericAllocationHandle h, other;
    GIVES(invalid, d.reserve(&base, PAGE + 1, 0, 0, 0));
    OK(d.reserve(&base, 4 * PAGE, 32 * PAGE, 0, 0));
    assert_int_equal(base % (32 * PAGE), 0);
    GIVES(invalid, d.create(&h, PAGE / 2, &prop, 0));
    GIVES(invalid, d.create(&h, PAGE, &nowhere, 0));
    OK(d.create(&h, 2 * PAGE, &prop, 0));
    OK(d.create(&other, 2 * PAGE, &prop, 0));
    GIVES(invalid, d.map(base + 256, 2 * PAGE, 0, h, 0));      /* unaligned */
    GIVES(invalid, d.map(base, PAGE + 256, 0, h, 0));          /* not whole pages */
    GIVES(invalid, d.map(base, 2 * PAGE, PAGE, h, 0));         /* an offset */
    GIVES(invalid, d.map(base, 3 * PAGE, 0, h, 0));            /* more than the handle has */
    GIVES(invalid, d.map(base + 3 * PAGE, 2 * PAGE, 0, h, 0)); /* past the reservation */
    GIVES(invalid, d.map(base, 2 * PAGE, 0, 999, 0));          /* no handle */
    OK(d.map(base + PAGE, 2 * PAGE, 0, h, 0));
    GIVES(invalid, d.map(base, 2 * PAGE, 0, other, 0)); /* overlaps, from below */
    GIVES(invalid, d.map(base + 2 * PAGE, 2 * PAGE, 0, other, 0));
    GIVES(invalid, d.set_access(base, 2 * PAGE, &access, 1)); /* not all mapped */
    GIVES(invalid, d.unmap(base + PAGE, PAGE));               /* a part */
    GIVES(invalid, d.unmap(base, PAGE));                      /* nothing there */
    GIVES(invalid, d.free_addresses(base, 4 * PAGE));         /* still mapped */
    OK(d.release(h));
    GIVES(invalid, d.release(h));
    GIVES(invalid, d.map(base, PAGE, 0, h, 0)); /* released */
    OK(d.unmap(base + PAGE, 2 * PAGE));
    GIVES(invalid, d.free_addresses(base, 2 * PAGE)); /* another size */
    OK(d.free_addresses(base, 4 * PAGE));
    GIVES(invalid, d.free_addresses(base, 4 * PAGE));
    OK(d.release(other));
}

void test_capacity(void **) {
    const Driver d = driver();
    const CUmemAllocationProp prop = on_device();
    CUmemGenericAllocationHandle h, more;
    mt_emulation_set_context_bytes(0);
    mt_emulation_set_capacity(4 * PAGE);
    OK(d.create(&h, 3 * PAGE, &prop, 0));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, d.create(&more, 2 * PAGE, &prop, 0));
    OK(d.release(h));
    OK(d.create(&h, 4 * PAGE, &prop, 0));
    OK(d.release(h));
}

void test_unknown_symbol(void **) {
    cudaDriverEntryPointQueryResult result;
    void *p = &p;
    const char *text;
    OK(cudaGetDriverEntryPoint("cuNoSuchThing", &p, cudaEnableDefault, &result));
    assert_null(p);
    assert_int_equal(result, cudaDriverEntryPointSymbolNotFound);
    GIVES(cudaErrorSymbolNotFound, cudaGetDriverEntryPoint("cuNoSuchThing", &p, cudaEnableDefault));
    OK(driver().error_string(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    GIVES(CUDA_ERROR_INVALID_VALUE, driver().error_string(CUresult(12345), &text));
}

} // namespace

void add_physical_tests(std::vector<CMUnitTest> *all) {
    const std::vector<CMUnitTest> tests = {
        TEST(test_life),
        TEST(test_refused),
        TEST(test_capacity),
        TEST(test_unknown_symbol),
    };
    all->insert(all->end(), tests.begin(), tests.end());
}
