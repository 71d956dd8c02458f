/* test_graphs.cc - streams, events, captures and what spoils them, graphs and their replay. */
#include "test.h"

namespace {

__global__ void add_to(float *out, const float *in, const int *position, float more) {
    out[*position] = *in + more;
}

__global__ void next_position(int *position) {
    ++*position;
}

cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

cudaStreamCaptureStatus status(cudaStream_t stream) {
    cudaStreamCaptureStatus s;
    OK(cudaStreamIsCapturing(stream, &s));
    return s;
}

/* ---- replay ---------------------------------------------------------------------------------- */

void test_replay(void **) {
    cudaStream_t stream = new_stream();
    float *out = floats_of({ 0, 0, 0, 0 }), *in = floats_of({ 10 }), *copy = floats(4);
    int *position, start = 0;
    OK(cudaMalloc(&position, sizeof *position));
    OK(cudaMemcpy(position, &start, sizeof start, cudaMemcpyHostToDevice));

    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(status(stream), cudaStreamCaptureStatusActive);
    float more = 0.5f;
    MT_LAUNCH(add_to, 1, 1, 0, stream, out, in, position, more);
    MT_LAUNCH(next_position, 1, 1, 0, stream, position);
    OK(cudaMemcpyAsync(copy, out, 16, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemsetAsync(copy + 3, 0, 4, stream));
    more = 99; /* the graph has its own copy */
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(stream, &graph));
    assert_int_equal(status(stream), cudaStreamCaptureStatusNone);
    assert_int_equal(*position, 0); /* nothing has run */
    assert_true(out[0] == 0);

    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        *in = float(10 * i);
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaStreamSynchronize(stream));
        assert_int_equal(*position, i + 1);
        assert_true(out[i] == float(10 * i) + 0.5f);
        assert_true(copy[i] == out[i] && copy[3] == 0);
    }
    OK(cudaGraphExecDestroy(exec));
    for (void *p : { static_cast<void *>(out), static_cast<void *>(in), static_cast<void *>(copy),
                     static_cast<void *>(position) })
        OK(cudaFree(p));
    OK(cudaStreamDestroy(stream));
}

void test_copy_from_freed_memory(void **) {
    cudaStream_t stream = new_stream();
    float *a = floats(4), *b = floats(4);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpyAsync(a, b, 16, cudaMemcpyDeviceToDevice, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph));
    OK(cudaFree(b));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(a));
    OK(cudaStreamDestroy(stream));
}

/* ---- what spoils a capture ------------------------------------------------------------------- */

/* Calls it during a capture and expects a spoilt one. */
void spoils(cudaError_t code, const std::function<cudaError_t(cudaStream_t)> &call,
            unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = new_stream(flags);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(code, call(stream));
    GIVES(code, cudaGetLastError());
    assert_int_equal(status(stream), cudaStreamCaptureStatusInvalidated);
    MT_LAUNCH(next_position, 1, 1, 0, stream, nullptr);
    GIVES(cudaErrorStreamCaptureInvalidated, cudaGetLastError());
    cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    assert_null(graph);
    assert_int_equal(status(stream), cudaStreamCaptureStatusNone);
    OK(cudaStreamDestroy(stream));
    cudaGetLastError();
}

void test_spoilt(void **) {
    const cudaError_t refused = cudaErrorStreamCaptureUnsupported;
    static void *p;
    static float *device_floats;
    static float host;
    static cudaGraphExec_t exec;
    device_floats = floats(1);
    cudaStream_t stream = new_stream();
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph));

    spoils(refused, [](cudaStream_t) { return cudaMalloc(&p, 1); });
    spoils(refused, [](cudaStream_t) { return cudaFree(device_floats); });
    spoils(refused, [](cudaStream_t) { return cudaHostAlloc(&p, 1, 0); });
    spoils(refused, [](cudaStream_t) { return cudaDeviceSynchronize(); });
    spoils(refused, [](cudaStream_t s) { return cudaStreamSynchronize(s); });
    spoils(refused, [](cudaStream_t s) { return cudaMallocAsync(&p, 1, s); });
    spoils(refused, [](cudaStream_t s) { return cudaFreeAsync(nullptr, s); });
    spoils(refused, [](cudaStream_t s) { return cudaGraphLaunch(exec, s); });
    spoils(refused, [](cudaStream_t) {
        return cudaMemcpy(&host, device_floats, 4, cudaMemcpyDeviceToHost);
    });
    spoils(refused, [](cudaStream_t) { return cudaMemset(device_floats, 0, 4); });
    /* The default stream waits for streams that do not say otherwise. */
    spoils(
        cudaErrorStreamCaptureImplicit,
        [](cudaStream_t) { return cudaMemsetAsync(device_floats, 0, 4, nullptr); },
        cudaStreamDefault);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(device_floats)); /* the refused call did not free it */
}

void test_allowed_in_capture(void **) {
    cudaStream_t stream = new_stream();
    void *p;
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaMalloc(&p, 1));
    OK(cudaFree(p));
    used();
    OK(cudaStreamSynchronize(nullptr));
    assert_int_equal(status(stream), cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
}

void test_capture_misuse(void **) {
    cudaStream_t stream = new_stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    GIVES(cudaErrorStreamCaptureUnsupported,
          cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorIllegalState, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    GIVES(cudaErrorInvalidValue, cudaGraphDestroy(graph));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, graph));
    OK(cudaStreamDestroy(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
}

/* ---- events ---------------------------------------------------------------------------------- */

void test_events(void **) {
    cudaStream_t stream = new_stream();
    cudaEvent_t start, end, untimed;
    float ms = -1;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    OK(cudaEventQuery(start));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, end));
    OK(cudaEventRecord(start, stream));
    MT_LAUNCH(next_position, 0, 1, 0, stream, nullptr);
    cudaGetLastError();
    OK(cudaEventRecord(end, stream));
    OK(cudaEventRecord(untimed, stream));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= 0 && ms < 1000);
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, untimed));

    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(start, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    GIVES(cudaErrorCapturedEvent, cudaEventQuery(start));
    GIVES(cudaErrorCapturedEvent, cudaEventSynchronize(start));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaEventDestroy(untimed));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventDestroy(end));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventRecord(end, stream));
    OK(cudaStreamDestroy(stream));
}

/* ---- named ranges ---------------------------------------------------------------------------- */

void test_named_ranges(void **) {
    int depth;
    assert_int_equal(nvtxRangePushA("decode"), 0);
    assert_int_equal(nvtxRangePushA("layer 0"), 1);
    assert_int_equal(nvtxRangePop(), 1);
    assert_int_equal(mt_emulation_open_ranges(), 1);
    assert_int_equal(nvtxRangePop(), 0);
    assert_string_equal(mt_emulation_range(0, &depth), "decode");
    assert_int_equal(depth, 0);
    assert_string_equal(mt_emulation_range(1, &depth), "layer 0");
    assert_int_equal(depth, 1);
    assert_null(mt_emulation_range(2, &depth));
    FAULTS(0);
    assert_true(nvtxRangePop() < 0);
    FAULTS(1);
}

} // namespace

void add_graphs_tests(std::vector<CMUnitTest> *all) {
    const std::vector<CMUnitTest> tests = {
        TEST(test_replay),         TEST(test_copy_from_freed_memory),
        TEST(test_spoilt),         TEST(test_allowed_in_capture),
        TEST(test_capture_misuse), TEST(test_events),
        TEST(test_named_ranges),
    };
    all->insert(all->end(), tests.begin(), tests.end());
}
