/* test_failures.cc - every call can be made to fail, counts are kept, nothing is lost by it. */
#include "test.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>

namespace {

/* What the calls need, made before and given back after. */
struct Things {
    void *segment = nullptr, *block = nullptr, *pinned = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    cudaMemPool_t pool = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cublasHandle_t cublas = nullptr;
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = {};
    CUmemAccessDesc access = {};
    cudaMemPoolProps pool_props = {};
    float *matrix = nullptr; /* at segment */
    float one = 1, zero = 0, host = 0;
};

const size_t PAGE = 2 * MIB;

void make(Things *t) {
    t->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    t->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    t->access = { t->prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    t->pool_props.allocType = cudaMemAllocationTypePinned;
    t->pool_props.location.type = cudaMemLocationTypeDevice;
    OK(cudaMalloc(&t->segment, 1024));
    OK(cudaMallocAsync(&t->block, 1024, nullptr));
    OK(cudaHostAlloc(&t->pinned, 1024, 0));
    OK(cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&t->event));
    OK(cudaEventRecord(t->event, t->stream));
    OK(cudaMemPoolCreate(&t->pool, &t->pool_props));
    OK(cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeGlobal));
    OK(cudaStreamEndCapture(t->stream, &t->graph));
    OK(cudaGraphInstantiate(&t->exec, t->graph));
    OK(cublasCreate(&t->cublas));
    OK(cuMemAddressReserve(&t->base, PAGE, 0, 0, 0));
    OK(cuMemCreate(&t->handle, PAGE, &t->prop, 0));
    OK(cuMemMap(t->base, PAGE, 0, t->handle, 0));
    t->matrix = static_cast<float *>(t->segment);
}

__global__ void count_up(float *at) {
    *at += 1;
}

int launch_kernel(Things *t) {
    MT_LAUNCH(count_up, 1, 1, 0, t->stream, t->matrix);
    return cudaGetLastError();
}

typedef std::function<int(Things *)> Call;

/* The calls that take something; what they would give is not given when they fail. */
std::map<std::string, Call> taking_calls() {
    static int i;
    static size_t a, b;
    static void *p;
    static float ms;
    static cudaDeviceProp prop;
    static cudaMemPool_t pool;
    static cudaStream_t stream;
    static cudaEvent_t event;
    static cudaStreamCaptureStatus status;
    static cudaGraph_t graph;
    static cudaGraphExec_t exec;
    static cublasHandle_t cublas;
    static CUdeviceptr base;
    static CUmemGenericAllocationHandle handle;
    static uint64_t value;
    const auto n = CUBLAS_OP_N;
    const auto in = cudaMemcpyHostToDevice;
    const auto f32 = CUDA_R_32F;
    const auto relaxed = cudaStreamCaptureModeRelaxed;
    return {
        { "cudaGetDeviceCount", [](Things *) { return cudaGetDeviceCount(&i); } },
        { "cudaSetDevice", [](Things *) { return cudaSetDevice(0); } },
        { "cudaGetDevice", [](Things *) { return cudaGetDevice(&i); } },
        { "cudaGetDeviceProperties", [](Things *) { return cudaGetDeviceProperties(&prop, 0); } },
        { "cudaDeviceGetAttribute",
          [](Things *) { return cudaDeviceGetAttribute(&i, cudaDevAttrWarpSize, 0); } },
        { "cudaRuntimeGetVersion", [](Things *) { return cudaRuntimeGetVersion(&i); } },
        { "cudaDriverGetVersion", [](Things *) { return cudaDriverGetVersion(&i); } },
        { "cudaDeviceSynchronize", [](Things *) { return cudaDeviceSynchronize(); } },
        { "cudaGetDriverEntryPoint",
          [](Things *) { return cudaGetDriverEntryPoint("cuMemMap", &p, 0); } },
        { "cudaGetDriverEntryPointByVersion",
          [](Things *) { return cudaGetDriverEntryPointByVersion("cuMemMap", &p, 12000, 0); } },
        { "cudaMalloc", [](Things *) { return cudaMalloc(&p, 1); } },
        { "cudaMemGetInfo", [](Things *) { return cudaMemGetInfo(&a, &b); } },
        { "cudaHostAlloc", [](Things *) { return cudaHostAlloc(&p, 1, 0); } },
        { "cudaMallocHost", [](Things *) { return cudaMallocHost(&p, 1); } },
        { "cudaMemcpy", [=](Things *t) { return cudaMemcpy(t->segment, &t->host, 4, in); } },
        { "cudaMemcpyAsync",
          [=](Things *t) { return cudaMemcpyAsync(t->segment, &t->host, 4, in, t->stream); } },
        { "cudaMemcpy2DAsync",
          [=](Things *t) {
              return cudaMemcpy2DAsync(t->segment, 4, &t->host, 4, 4, 1, in, t->stream);
          } },
        { "cudaMemset", [](Things *t) { return cudaMemset(t->segment, 0, 4); } },
        { "cudaMemsetAsync", [](Things *t) { return cudaMemsetAsync(t->segment, 0, 4); } },
        { "cudaDeviceGetDefaultMemPool",
          [](Things *) { return cudaDeviceGetDefaultMemPool(&pool, 0); } },
        { "cudaMemPoolCreate", [](Things *t) { return cudaMemPoolCreate(&pool, &t->pool_props); } },
        { "cudaMemPoolSetAttribute",
          [](Things *t) {
              return cudaMemPoolSetAttribute(t->pool, cudaMemPoolAttrReleaseThreshold, &value);
          } },
        { "cudaMemPoolGetAttribute",
          [](Things *t) {
              return cudaMemPoolGetAttribute(t->pool, cudaMemPoolAttrUsedMemCurrent, &value);
          } },
        { "cudaMemPoolTrimTo", [](Things *t) { return cudaMemPoolTrimTo(t->pool, 0); } },
        { "cudaMallocAsync", [](Things *t) { return cudaMallocAsync(&p, 1, t->stream); } },
        { "cudaMallocFromPoolAsync",
          [](Things *t) { return cudaMallocFromPoolAsync(&p, 1, t->pool, t->stream); } },
        { "cudaStreamCreate", [](Things *) { return cudaStreamCreate(&stream); } },
        { "cudaStreamCreateWithFlags",
          [](Things *) { return cudaStreamCreateWithFlags(&stream, 0); } },
        { "cudaStreamSynchronize", [](Things *t) { return cudaStreamSynchronize(t->stream); } },
        { "cudaEventCreate", [](Things *) { return cudaEventCreate(&event); } },
        { "cudaEventCreateWithFlags",
          [](Things *) { return cudaEventCreateWithFlags(&event, 0); } },
        { "cudaEventRecord", [](Things *t) { return cudaEventRecord(t->event, t->stream); } },
        { "cudaEventSynchronize", [](Things *t) { return cudaEventSynchronize(t->event); } },
        { "cudaEventQuery", [](Things *t) { return cudaEventQuery(t->event); } },
        { "cudaEventElapsedTime",
          [](Things *t) { return cudaEventElapsedTime(&ms, t->event, t->event); } },
        { "cudaStreamBeginCapture",
          [=](Things *t) { return cudaStreamBeginCapture(t->stream, relaxed); } },
        { "cudaStreamEndCapture",
          [=](Things *t) {
              OK(cudaStreamBeginCapture(t->stream, relaxed));
              return cudaStreamEndCapture(t->stream, &graph);
          } },
        { "cudaStreamIsCapturing",
          [](Things *t) { return cudaStreamIsCapturing(t->stream, &status); } },
        { "cudaGraphInstantiate", [](Things *t) { return cudaGraphInstantiate(&exec, t->graph); } },
        { "cudaGraphLaunch", [](Things *t) { return cudaGraphLaunch(t->exec, t->stream); } },
        { "cudaFuncSetAttribute",
          [](Things *) {
              return cudaFuncSetAttribute(count_up, cudaFuncAttributeMaxDynamicSharedMemorySize, 4);
          } },
        { "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
          [](Things *) {
              return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&i, count_up, 32, 0);
          } },
        { "cudaLaunchKernel", launch_kernel },
        { "cuMemAddressReserve",
          [](Things *) { return cuMemAddressReserve(&base, PAGE, 0, 0, 0); } },
        { "cuMemCreate", [](Things *t) { return cuMemCreate(&handle, PAGE, &t->prop, 0); } },
        { "cuMemMap",
          [](Things *t) {
              OK(cuMemUnmap(t->base, PAGE));
              int code = cuMemMap(t->base, PAGE, 0, t->handle, 0);
              OK(cuMemMap(t->base, PAGE, 0, t->handle, 0));
              return code;
          } },
        { "cuMemSetAccess",
          [](Things *t) { return cuMemSetAccess(t->base, PAGE, &t->access, 1); } },
        { "cuMemGetAllocationGranularity",
          [](Things *t) {
              return cuMemGetAllocationGranularity(&a, &t->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
          } },
        { "cublasCreate", [](Things *) { return cublasCreate(&cublas); } },
        { "cublasGetVersion", [](Things *t) { return cublasGetVersion(t->cublas, &i); } },
        { "cublasGetProperty", [](Things *) { return cublasGetProperty(MAJOR_VERSION, &i); } },
        { "cublasSetStream", [](Things *t) { return cublasSetStream(t->cublas, t->stream); } },
        { "cublasGetStream", [](Things *t) { return cublasGetStream(t->cublas, &stream); } },
        { "cublasSetWorkspace",
          [](Things *t) { return cublasSetWorkspace(t->cublas, t->segment, 256); } },
        { "cublasSetMathMode",
          [](Things *t) { return cublasSetMathMode(t->cublas, CUBLAS_DEFAULT_MATH); } },
        { "cublasSgemm",
          [=](Things *t) {
              float *m = t->matrix;
              return cublasSgemm(t->cublas, n, n, 1, 1, 1, &t->one, m, 1, m + 1, 1, &t->zero, m + 2,
                                 1);
          } },
        { "cublasSgemmStridedBatched",
          [=](Things *t) {
              float *m = t->matrix;
              return cublasSgemmStridedBatched(t->cublas, n, n, 1, 1, 1, &t->one, m, 1, 1, m + 1, 1,
                                               1, &t->zero, m + 2, 1, 1, 1);
          } },
        { "cublasGemmEx",
          [=](Things *t) {
              float *m = t->matrix;
              return cublasGemmEx(t->cublas, n, n, 1, 1, 1, &t->one, m, f32, 1, m + 1, f32, 1,
                                  &t->zero, m + 2, f32, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
          } },
        { "cublasSgemv",
          [=](Things *t) {
              float *m = t->matrix;
              return cublasSgemv(t->cublas, n, 1, 1, &t->one, m, 1, m + 1, 1, &t->zero, m + 2, 1);
          } },
    };
}

/* The calls that give something back, in an order that leaves nothing. */
const std::vector<std::pair<std::string, Call>> &giving_calls() {
    static const std::vector<std::pair<std::string, Call>> calls = {
        { "cublasDestroy", [](Things *t) { return cublasDestroy(t->cublas); } },
        { "cudaFree", [](Things *t) { return cudaFree(t->segment); } },
        { "cudaFreeAsync", [](Things *t) { return cudaFreeAsync(t->block, t->stream); } },
        { "cudaFreeHost", [](Things *t) { return cudaFreeHost(t->pinned); } },
        { "cudaGraphExecDestroy", [](Things *t) { return cudaGraphExecDestroy(t->exec); } },
        { "cudaGraphDestroy", [](Things *t) { return cudaGraphDestroy(t->graph); } },
        { "cudaEventDestroy", [](Things *t) { return cudaEventDestroy(t->event); } },
        { "cudaStreamDestroy", [](Things *t) { return cudaStreamDestroy(t->stream); } },
        { "cudaMemPoolDestroy", [](Things *t) { return cudaMemPoolDestroy(t->pool); } },
        { "cuMemUnmap", [](Things *t) { return cuMemUnmap(t->base, PAGE); } },
        { "cuMemRelease", [](Things *t) { return cuMemRelease(t->handle); } },
        { "cuMemAddressFree", [](Things *t) { return cuMemAddressFree(t->base, PAGE); } },
    };
    return calls;
}

void give_back(Things *t) {
    for (const auto &[name, call] : giving_calls())
        OK(call(t));
}

size_t live() {
    FILE *nowhere = fopen("/dev/null", "w");
    assert_non_null(nowhere);
    size_t n = mt_emulation_print_leaks(nowhere);
    fclose(nowhere);
    return n;
}

const int CODE = 400; /* no call here returns it by itself; cuBLAS's codes are only numbers too */

/* ---- each call ------------------------------------------------------------------------------- */

void test_each_taking_call(void **) {
    for (const auto &[name, call] : taking_calls()) {
        Things t;
        mt_emulation_reset();
        mt_emulation_set_quiet(true);
        make(&t);
        const size_t before = live();
        const uint64_t calls = mt_emulation_calls(name.c_str());
        assert_true(mt_emulation_fail(name.c_str(), 1, CODE));
        if (call(&t) != CODE)
            fail_msg("%s did not fail", name.c_str());
        assert_true(mt_emulation_calls(name.c_str()) > calls);
        if (live() != before)
            fail_msg("%s left something when it failed", name.c_str());
        const bool runtime = name.substr(0, 4) == "cuda" && name != "cudaLaunchKernel";
        GIVES(runtime ? CODE : 0, cudaGetLastError());
        give_back(&t);
        assert_int_equal(live(), 0);
    }
}

void test_each_giving_call(void **) {
    for (size_t failing = 0; failing < giving_calls().size(); failing++) {
        Things t;
        mt_emulation_reset();
        mt_emulation_set_quiet(true);
        make(&t);
        assert_true(mt_emulation_fail(giving_calls()[failing].first.c_str(), 1, CODE));
        for (size_t i = 0; i < giving_calls().size(); i++)
            GIVES(i == failing ? CODE : 0, giving_calls()[i].second(&t));
        assert_int_equal(live(), 0);
        FAULTS(0);
    }
}

void test_every_call_is_tested(void **) {
    std::set<std::string> tested;
    for (const auto &[name, call] : taking_calls())
        tested.insert(name);
    for (const auto &[name, call] : giving_calls())
        tested.insert(name);
    size_t n = 0;
    for (const char *name; (name = mt_emulation_api(n)); n++)
        if (!tested.count(name))
            fail_msg("%s has no test", name);
    assert_int_equal(n, tested.size());
}

/* ---- which call ------------------------------------------------------------------------------ */

void test_nth_call(void **) {
    void *p;
    assert_false(mt_emulation_fail("cudaNoSuchCall", 1, 2));
    assert_false(mt_emulation_fail("cudaMalloc", 0, 2));
    assert_true(mt_emulation_fail("cudaMalloc", 3, cudaErrorMemoryAllocation));
    for (int i = 1; i <= 4; i++) {
        GIVES(i == 3 ? cudaErrorMemoryAllocation : cudaSuccess, cudaMalloc(&p, 1));
        if (i != 3)
            OK(cudaFree(p));
    }
    assert_int_equal(mt_emulation_calls("cudaMalloc"), 4);
    assert_int_equal(mt_emulation_calls("cudaFree"), 3);
    assert_int_equal(mt_emulation_calls(nullptr), 7);
}

void test_nth_of_any(void **) {
    const int unknown[] = { cudaErrorUnknown, CUDA_ERROR_UNKNOWN, CUBLAS_STATUS_INTERNAL_ERROR };
    for (uint64_t n = 1; n <= 3; n++) {
        int device;
        size_t page;
        Things t;
        t.prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        t.prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        assert_true(mt_emulation_fail(nullptr, n, 0));
        GIVES(n == 1 ? unknown[0] : 0, cudaGetDevice(&device));
        GIVES(n == 2 ? unknown[1] : 0,
              cuMemGetAllocationGranularity(&page, &t.prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        GIVES(n == 3 ? unknown[2] : 0, cublasGetProperty(MAJOR_VERSION, &device));
    }
}

/* ---- the environment ------------------------------------------------------------------------- */

/* Runs this in a child that reads the environment afresh; how it ends. */
int run_with(const char *settings, const char *what) {
    char command[500];
    snprintf(command, sizeof command, "MT_EMULATION='%s' MT_EMULATION_CHILD=%s %s 2>/dev/null",
             settings, what, getenv("MT_EMULATION_SELF"));
    const int status = system(command);
    return status < 0 ? -1 : status >> 8;
}

void test_environment(void **) {
    assert_int_equal(run_with("", "free"), 0);
    assert_int_equal(run_with("leaks", "free"), 0);
    assert_int_equal(run_with("leaks", "leak"), 99);
    assert_int_equal(run_with("capacity=300MiB,context=1MiB,capability=9.0", "free"), 0);
    assert_int_equal(run_with("capacity=1MiB,context=1MiB", "free"), cudaErrorMemoryAllocation);
    assert_int_equal(run_with("fail=cudaMalloc:1:3", "free"), 3);
    assert_int_equal(run_with("fail=cudaMalloc:2:3", "free"), 0);
    assert_int_equal(run_with("fail=any:1:5", "free"), 5);
    assert_int_equal(run_with("devices=0", "free"), cudaErrorNoDevice);
    assert_int_equal(run_with("capacity=many", "free"), 2);
    assert_int_equal(run_with("color=red", "free"), 2);
    assert_int_equal(run_with("fail=cudaNothing:1", "free"), 2);
}

} // namespace

/* What the child of test_environment does. */
int test_child(const char *what) {
    void *p;
    if (cudaError_t e = cudaMalloc(&p, 100))
        return e;
    return !strcmp(what, "leak") ? 0 : int(cudaFree(p));
}

void add_failures_tests(std::vector<CMUnitTest> *all) {
    const std::vector<CMUnitTest> tests = {
        TEST(test_each_taking_call), TEST(test_each_giving_call), TEST(test_every_call_is_tested),
        TEST(test_nth_call),         TEST(test_nth_of_any),       TEST(test_environment),
    };
    all->insert(all->end(), tests.begin(), tests.end());
}
