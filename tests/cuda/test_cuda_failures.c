/* test_cuda_failures.c - every CUDA and cuBLAS call that a run makes is made to fail.
 *
 * A clean run counts how often each call is made. Then the run is repeated with the first, the
 * second, the middle and the last one failing. Each time somebody must say so in one line that
 * names the call, its file and line, and the bytes where it was about memory; nothing may be left
 * on the device, and the ledger goes back to zero. */
#include "tests/cuda/rig.h"

#define COUNT(array)  (sizeof(array) / sizeof *(array))
#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY */

/* ---- runs that between them make every call -------------------------------------------------- */

static setup plain(void) {
    return (setup){ .kind = ON_CUDA,
                    .config = four_layers(),
                    .policy = "torch",
                    .options = options_of("concat", 2, 2, 6, false, 65536),
                    .cuda = { .watch = true } };
}

static setup growable(void) {
    setup s = plain();
    s.policy = "torch,expandable_segments:True";
    s.options.kv = "doubling:4";
    return s;
}

static setup small_segments(void) {
    setup s = plain();
    s.policy = "direct";
    s.options.kv = "paged:2";
    return s;
}

static setup pooled(void) {
    setup s = plain();
    s.policy = "async";
    s.cuda.pool = true;
    return s;
}

static setup recorded(void) {
    setup s = plain();
    s.options.kv = "doubling:2";
    s.options.arena = s.options.graph = true;
    return s;
}

static setup (*const runs[])(void) = { plain, growable, small_segments, pooled, recorded };

/* ---- one run with one failure ---------------------------------------------------------------- */

/* What was said, empty when nothing. */
static mt_status run_once(const setup *s, char text[500]) {
    rig r;
    mt_status status = rig_open(&r, s);
    if (status == MT_OK)
        status = rig_generate(&r);
    mt_error late = { .status = MT_OK };
    if (status == MT_OK)
        late.status = mt_alloc_check(r.alloc, &r.err);
    assert_int_equal(late.status, MT_OK);
    rig_close(&r);
    snprintf(text, 500, "%s",
             status != MT_OK          ? r.err.text
             : r.late.status != MT_OK ? r.late.text
                                      : "");
    return status != MT_OK ? status : r.late.status;
}

/* Names of kernels stand for the call that launches them. */
static const char *const kernels[] = { "embed_rows",  "layernorm_rows", "add_bias",
                                       "write_rows",  "attend_part",    "attend_prompt",
                                       "merge_parts", "argmax_rows",    "set_place" };

static bool names(const char *text, const char *api) {
    if (strstr(text, api) != NULL)
        return true;
    for (size_t i = 0; strcmp(api, "cudaLaunchKernel") == 0 && i < COUNT(kernels); i++)
        if (strstr(text, kernels[i]) != NULL)
            return true;
    return false;
}

static bool about_memory(const char *api) {
    static const char *const calls[] = {
        "cudaMalloc",          "cudaFree",         "cudaMallocFromPoolAsync",
        "cudaFreeAsync",       "cudaMemcpyAsync",  "cudaMemsetAsync",
        "cudaMemcpy2DAsync",   "cuMemCreate",      "cuMemMap",
        "cuMemUnmap",          "cuMemSetAccess",   "cuMemRelease",
        "cuMemAddressReserve", "cuMemAddressFree", "cublasSetWorkspace",
        "cublasGemmEx"
    };
    for (size_t i = 0; i < COUNT(calls); i++)
        if (strcmp(calls[i], api) == 0)
            return true;
    return false;
}

/* A failure of our own choice: the line must tell. */
static void fail_one(const setup *s, const char *api, uint64_t n) {
    char text[500];
    mt_emulation_reset();
    mt_emulation_set_quiet(true);
    assert_true(mt_emulation_fail(api, n, 0));
    mt_status status = run_once(s, text);
    if (status != MT_FAILED)
        fail_msg("%s number %lu failed: the run ends with %d: %s", api, (unsigned long)n, status,
                 text);
    if (!names(text, api) || strstr(text, ".cu:") == NULL)
        fail_msg("%s number %lu failed, but the line is: %s", api, (unsigned long)n, text);
    bool emptied = strcmp(api, "cublasSetWorkspace") == 0 && n > 1; /* the last hands on 0 bytes */
    if (about_memory(api) && !emptied && strstr(text, "bytes") == NULL)
        fail_msg("%s number %lu: no bytes in: %s", api, (unsigned long)n, text);
    if (mt_emulation_print_leaks(stderr) != 0 || mt_emulation_faults() != 0)
        fail_msg("%s number %lu: left behind after: %s (%s)", api, (unsigned long)n, text,
                 mt_emulation_last_fault());
}

/* How often a clean run makes each call. */
static void count_calls(const setup *s, uint64_t *calls) {
    char text[500];
    mt_emulation_reset();
    mt_emulation_set_quiet(true);
    assert_int_equal(run_once(s, text), MT_OK);
    for (size_t i = 0; mt_emulation_api(i) != NULL; i++)
        calls[i] = mt_emulation_calls(mt_emulation_api(i));
}

static void fail_every_call(const setup *s) {
    uint64_t calls[128] = { 0 };
    count_calls(s, calls);
    for (size_t i = 0; mt_emulation_api(i) != NULL; i++) {
        uint64_t last = calls[i], seen = 0;
        const uint64_t which[] = { 1, 2, last / 2, last - 1, last };
        for (size_t w = 0; w < COUNT(which); w++)
            if (which[w] > seen && which[w] <= last)
                fail_one(s, mt_emulation_api(i), seen = which[w]);
    }
}

#define EVERY_CALL(name)                                                                           \
    static void every_call_of_a_##name##_run(void **state) {                                       \
        (void)state;                                                                               \
        setup s = name();                                                                          \
        fail_every_call(&s);                                                                       \
    }
EVERY_CALL(plain)
EVERY_CALL(growable)
EVERY_CALL(small_segments)
EVERY_CALL(pooled)
EVERY_CALL(recorded)

/* The runs above leave none of the back end's calls out. */
static void the_runs_make_every_call(void **state) {
    (void)state;
    static const char *const used[] = { "cudaGetDeviceCount",
                                        "cudaSetDevice",
                                        "cudaMemGetInfo",
                                        "cudaStreamCreateWithFlags",
                                        "cudaHostAlloc",
                                        "cublasCreate",
                                        "cublasSetStream",
                                        "cublasSetWorkspace",
                                        "cudaGetDeviceProperties",
                                        "cudaDriverGetVersion",
                                        "cublasGetVersion",
                                        "cudaMalloc",
                                        "cudaFree",
                                        "cudaMemcpyAsync",
                                        "cudaMemcpy2DAsync",
                                        "cudaLaunchKernel",
                                        "cublasGemmEx",
                                        "cudaStreamSynchronize",
                                        "cublasDestroy",
                                        "cudaStreamDestroy",
                                        "cudaFreeHost",
                                        "cudaGetDriverEntryPointByVersion",
                                        "cuMemAddressReserve",
                                        "cuMemAddressFree",
                                        "cuMemCreate",
                                        "cuMemRelease",
                                        "cuMemMap",
                                        "cuMemUnmap",
                                        "cuMemSetAccess",
                                        "cudaMemPoolCreate",
                                        "cudaMemPoolDestroy",
                                        "cudaMemPoolGetAttribute",
                                        "cudaMemPoolTrimTo",
                                        "cudaMallocFromPoolAsync",
                                        "cudaFreeAsync",
                                        "cudaStreamBeginCapture",
                                        "cudaStreamEndCapture",
                                        "cudaGraphInstantiate",
                                        "cudaGraphLaunch",
                                        "cudaGraphExecDestroy",
                                        "cudaGraphDestroy" };
    uint64_t all[128] = { 0 };
    for (size_t r = 0; r < COUNT(runs); r++) {
        uint64_t calls[128] = { 0 };
        setup s = runs[r]();
        count_calls(&s, calls);
        for (size_t i = 0; i < COUNT(all); i++)
            all[i] += calls[i];
    }
    for (size_t u = 0; u < COUNT(used); u++)
        for (size_t i = 0; mt_emulation_api(i) != NULL; i++)
            if (strcmp(mt_emulation_api(i), used[u]) == 0 && all[i] == 0)
                fail_msg("no run calls %s", used[u]);
}

static void without_a_device(void **state) {
    (void)state;
    rig r;
    setup s = plain();
    mt_emulation_set_devices(0);
    assert_int_equal(mt_cuda_devices(), 0);
    assert_int_equal(rig_open(&r, &s), MT_FAILED);
    assert_non_null(strstr(r.err.text, "cudaGetDeviceCount"));
    rig_close(&r);
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* Three notes and their times, after the n-th call of api was made to fail; what was said. */
static void take_notes(const char *api, uint64_t n, mt_error *said) {
    mt_cuda_backend b;
    mt_error late = { .status = MT_OK };
    mt_cuda_options o = { .late = &late };
    double ms[3];
    *said = (mt_error){ .status = MT_OK };
    mt_emulation_reset();
    mt_emulation_set_quiet(true);
    assert_int_equal(mt_cuda_open(&b, &o, said), MT_OK);
    if (api != NULL)
        assert_true(mt_emulation_fail(api, n, 0));
    for (uint32_t i = 0; i < 3; i++) {
        b.device->nothing(b.device);
        b.device->stamp(b.device, i);
    }
    mt_status status = b.device->sync(b.device, said);
    if (status == MT_OK)
        status = b.device->stamps(b.device, ms, 3, said);
    for (int i = 1; status == MT_OK && i < 3; i++)
        assert_true(ms[0] == 0 && ms[i] >= ms[i - 1]);
    b.source->close(b.source);
    b.device->close(b.device);
    if (status == MT_OK && late.status != MT_OK)
        *said = late;
    assert_int_equal(mt_emulation_print_leaks(stderr), 0);
}

static void every_call_of_the_clock(void **state) {
    (void)state;
    static const char *const calls[] = { "cudaEventCreate", "cudaEventRecord",
                                         "cudaEventElapsedTime", "cudaEventDestroy" };
    mt_error said;
    take_notes(NULL, 0, &said);
    assert_int_equal(said.status, MT_OK);
    for (size_t i = 0; i < COUNT(calls); i++)
        for (uint64_t n = 1; n <= 3; n++) {
            take_notes(calls[i], n, &said);
            assert_int_equal(said.status, MT_FAILED);
            if (strstr(said.text, calls[i]) == NULL || strstr(said.text, ".cu:") == NULL)
                fail_msg("%s number %lu failed, but the line is: %s", calls[i], (unsigned long)n,
                         said.text);
        }
}

static void a_note_never_taken(void **state) {
    (void)state;
    mt_cuda_backend b;
    mt_cuda_options o = { 0 };
    mt_error err;
    double ms[2];
    must(mt_cuda_open(&b, &o, &err), &err);
    b.device->stamp(b.device, 0);
    must(b.device->sync(b.device, &err), &err);
    assert_int_equal(b.device->stamps(b.device, ms, 2, &err), MT_FAILED);
    b.source->close(b.source);
    b.device->close(b.device);
}

/* ---- out of memory --------------------------------------------------------------------------- */

/* A device that holds less than the source was told: the driver refuses. */
static void run_out(setup s, uint64_t device, uint64_t told) {
    rig r;
    mt_emulation_reset();
    mt_emulation_set_quiet(true);
    mt_emulation_set_context_bytes(8 << 20);
    mt_emulation_set_capacity(device);
    s.capacity = told;
    mt_status status = rig_open(&r, &s);
    if (status == MT_OK)
        status = rig_generate(&r);
    assert_int_equal(status, MT_NO_MEMORY);
    assert_int_equal(mt_alloc_ledger(r.alloc)->ooms, 1);
    const mt_refusal *f = mt_alloc_refusal(r.alloc);
    assert_true(f->request.bytes > 0 && f->segment >= f->request.bytes);
    assert_true(f->reserved > 0 && f->reserved <= (device < told ? device : told));
    must(mt_alloc_check(r.alloc, &r.err), &r.err);
    rig_close(&r);
    assert_int_equal(mt_emulation_print_leaks(stderr), 0);
}

static void out_of_memory_is_an_answer(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(runs); i++) {
        setup s = runs[i]();
        s.config.width = 510;
        s.config.inner = 2040;
        s.config.positions = 400;
        s.options.ctx = 400;
        s.options.prompt = 1;
        s.options.graph = false;
        s.options.kv = "doubling:2048"; /* at once more than is left after the weights */
        run_out(s, (uint64_t)84 << 20, (uint64_t)4 << 30); /* the driver refuses */
        run_out(s, (uint64_t)4 << 30, (uint64_t)64 << 20); /* the source does */
    }
}

/* The driver refuses once: the policy gives back what is free and tries again. */
static void a_refusal_is_tried_again(void **state) {
    (void)state;
    static const char *const calls[] = { "cudaMalloc", "cuMemCreate", "cudaMallocFromPoolAsync" };
    static setup (*const run[])(void) = { plain, growable, pooled };
    for (size_t i = 0; i < COUNT(calls); i++) {
        char text[500];
        setup s = run[i]();
        mt_emulation_reset();
        mt_emulation_set_quiet(true);
        assert_true(mt_emulation_fail(calls[i], 2, OUT_OF_MEMORY));
        if (run_once(&s, text) != MT_OK)
            fail_msg("%s: %s", calls[i], text);
        assert_int_equal(mt_emulation_print_leaks(stderr), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_call_of_a_plain_run),
        TEST(every_call_of_a_growable_run),
        TEST(every_call_of_a_small_segments_run),
        TEST(every_call_of_a_pooled_run),
        TEST(every_call_of_a_recorded_run),
        TEST(the_runs_make_every_call),
        TEST(without_a_device),
        TEST(every_call_of_the_clock),
        TEST(a_note_never_taken),
        TEST(out_of_memory_is_an_answer),
        TEST(a_refusal_is_tried_again),
    };
    return cmocka_run_group_tests_name("cuda failures", tests, NULL, NULL);
}
