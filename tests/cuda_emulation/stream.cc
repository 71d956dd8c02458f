/* stream.cc - streams: work is done when it is submitted, unless the stream is captured. */
#include "stream.h"

#include <map>

#include "calls.h"

namespace emulation {

namespace {

std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams;

bool is_default(cudaStream_t stream) {
    return !stream || stream == cudaStreamLegacy;
}

/* Spoils captures whose stream waits for the default stream; whether there is one. */
bool default_stream_spoils() {
    bool any = false;
    for (auto &[handle, stream] : streams)
        if (stream->capture && stream->blocking)
            any = stream->capture->spoilt = true;
    return any;
}

} // namespace

bool is_stream(cudaStream_t stream) {
    return is_default(stream) || streams.count(stream);
}

bool is_capturing(cudaStream_t stream) {
    return !is_default(stream) && streams.count(stream) && stream->capture;
}

bool capture_forbids() {
    for (auto &[handle, stream] : streams)
        if (stream->capture && stream->capture->mode != cudaStreamCaptureModeRelaxed)
            return true;
    return false;
}

void spoil_captures() {
    for (auto &[handle, stream] : streams)
        if (stream->capture && stream->capture->mode != cudaStreamCaptureModeRelaxed)
            stream->capture->spoilt = true;
}

cudaError_t refuse_in_capture(cudaStream_t stream) {
    if (!is_capturing(stream))
        return cudaSuccess;
    stream->capture->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t submit(cudaStream_t stream, Work work) {
    if (!is_stream(stream))
        return cudaErrorInvalidResourceHandle;
    if (is_default(stream))
        return default_stream_spoils() ? cudaErrorStreamCaptureImplicit : work();
    if (!stream->capture)
        return work();
    if (stream->capture->spoilt)
        return cudaErrorStreamCaptureInvalidated;
    stream->capture->nodes.push_back(std::move(work));
    return cudaSuccess;
}

size_t stream_count() {
    return streams.size();
}

void reset_streams() {
    streams.clear();
}

} // namespace emulation

using namespace emulation;

static cudaError_t create_stream(cudaStream_t *stream, unsigned flags) {
    auto s = std::make_unique<CUstream_st>();
    s->blocking = !(flags & cudaStreamNonBlocking);
    *stream = s.get();
    streams[*stream] = std::move(s);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return runtime_call(API_cudaStreamCreate,
                        [&] { return create_stream(stream, cudaStreamDefault); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return runtime_call(API_cudaStreamCreateWithFlags,
                        [&] { return create_stream(stream, flags); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return runtime_call(API_cudaStreamDestroy, [&] {
        return streams.erase(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return runtime_call(API_cudaStreamSynchronize, [&] {
        if (!is_stream(stream))
            return cudaErrorInvalidResourceHandle;
        if (cudaError_t e = refuse_in_capture(stream))
            return e;
        if (is_default(stream) && default_stream_spoils())
            return cudaErrorStreamCaptureImplicit;
        sync_pools();
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceSynchronize() {
    return runtime_call(API_cudaDeviceSynchronize, [&] {
        sync_pools();
        return cudaSuccess;
    });
}
