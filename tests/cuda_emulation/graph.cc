/* graph.cc - capture and graphs: work kept with copies of its arguments, and done again by each
 * launch. */
#include <map>

#include "calls.h"
#include "stream.h"

using namespace emulation;

struct CUgraph_st {
    std::vector<Work> nodes;
};

struct CUgraphExec_st {
    std::vector<Work> nodes;
};

namespace emulation {

static std::map<cudaGraph_t, std::unique_ptr<CUgraph_st>> graphs;
static std::map<cudaGraphExec_t, std::unique_ptr<CUgraphExec_st>> execs;

size_t graph_count() {
    return graphs.size();
}

size_t exec_count() {
    return execs.size();
}

void reset_graphs() {
    execs.clear();
    graphs.clear();
}

} // namespace emulation

static cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
    if (!is_stream(stream))
        return cudaErrorInvalidResourceHandle;
    if (!stream || stream == cudaStreamLegacy)
        return cudaErrorStreamCaptureUnsupported;
    if (stream->capture)
        return cudaErrorIllegalState;
    stream->capture = std::make_unique<Capture>();
    stream->capture->mode = mode;
    return cudaSuccess;
}

static cudaError_t end(cudaStream_t stream, cudaGraph_t *graph) {
    *graph = nullptr;
    if (!is_stream(stream))
        return cudaErrorInvalidResourceHandle;
    if (!is_capturing(stream))
        return cudaErrorIllegalState;
    std::unique_ptr<Capture> capture = std::move(stream->capture);
    if (capture->spoilt)
        return cudaErrorStreamCaptureInvalidated;
    auto g = std::make_unique<CUgraph_st>();
    g->nodes = std::move(capture->nodes);
    *graph = g.get();
    graphs[*graph] = std::move(g);
    return cudaSuccess;
}

static cudaStreamCaptureStatus capture_status(cudaStream_t stream) {
    if (!is_capturing(stream))
        return cudaStreamCaptureStatusNone;
    return stream->capture->spoilt ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
}

static cudaError_t instantiate(cudaGraphExec_t *exec, cudaGraph_t graph) {
    if (!graphs.count(graph))
        return cudaErrorInvalidValue;
    auto e = std::make_unique<CUgraphExec_st>();
    e->nodes = graph->nodes;
    *exec = e.get();
    execs[*exec] = std::move(e);
    return cudaSuccess;
}

static cudaError_t run(cudaGraphExec_t exec) {
    for (const Work &node : exec->nodes)
        if (cudaError_t e = node())
            return e;
    return cudaSuccess;
}

static cudaError_t launch(cudaGraphExec_t exec, cudaStream_t stream) {
    if (!execs.count(exec))
        return cudaErrorInvalidValue;
    if (cudaError_t e = refuse_in_capture(stream)) /* a graph in a graph */
        return e;
    return submit(stream, [exec] { return run(exec); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return runtime_call(API_cudaStreamBeginCapture, [&] { return begin(stream, mode); });
}

/* When made to fail, it ends the capture all the same, as a spoilt one ends. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    Verdict v = begin_call(API_cudaStreamEndCapture);
    if (!v.run) {
        *graph = nullptr;
        if (is_capturing(stream))
            stream->capture.reset();
        return keep_error(cudaError_t(v.code));
    }
    return keep_error(end(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    return runtime_call(API_cudaStreamIsCapturing, [&] {
        *status = capture_status(stream);
        return is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    return runtime_call(API_cudaGraphInstantiate, [&] { return instantiate(exec, graph); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    return runtime_call(API_cudaGraphLaunch, [&] { return launch(exec, stream); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    return runtime_call(API_cudaGraphExecDestroy,
                        [&] { return execs.erase(exec) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return runtime_call(API_cudaGraphDestroy,
                        [&] { return graphs.erase(graph) ? cudaSuccess : cudaErrorInvalidValue; });
}
