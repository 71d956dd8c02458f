/* graph.cu - a decode step recorded once and launched many times.
 *
 * Everything in a step is the same from one token to the next but the place it stands at, and that
 * lies in device memory: 4 bytes that belong to the code, written by a kernel before each
 * launch. */
#include "kernels/cuda/state.h"

static __device__ uint32_t place_now;

static __global__ void set_place(uint32_t place) {
    place_now = place;
}

/* Where place_now lies on the device. The emulated device reads it where it is. */
static cudaError_t find_place(uint32_t **at) {
#ifdef __CUDACC__
    return cudaGetSymbolAddress((void **)at, place_now);
#else
    *at = &place_now;
    return cudaSuccess;
#endif
}

void mt_cuda_drop_graph(mt_cuda *c) {
    if (c->graph != NULL)
        MT_CUDA_NOTE(c, 0, cudaGraphExecDestroy(c->graph));
    c->graph = NULL;
}

mt_status mt_cuda_record(mt_device *d, mt_error *err) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c))
        return mt_fail(err, c->device.failure.status, "%s", c->device.failure.text);
    mt_cuda_drop_graph(c);
    MT_CUDA_TRY(err, 0, find_place(&c->place));
    MT_TRY(mt_cuda_bind(c, err));
    MT_CUDA_TRY(err, 0, cudaStreamSynchronize(c->stream));
    MT_TRY(mt_cuda_used(c, &c->before_graph, err));
    MT_CUDA_TRY(err, 0, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
    c->recording = true;
    return MT_OK;
}

static mt_status instantiate(mt_cuda *c, cudaGraph_t graph, mt_error *err) {
    uint64_t after = 0;
    MT_CUDA_TRY(err, 0, cudaGraphInstantiate(&c->graph, graph, 0));
    MT_TRY(mt_cuda_used(c, &after, err));
    mt_cuda_add_note(c, "graph", c->before_graph, after);
    return MT_OK;
}

/* A failure while recording is told here, after the capture has ended. */
mt_status mt_cuda_record_end(mt_device *d, mt_error *err) {
    mt_cuda *c = (mt_cuda *)d;
    cudaGraph_t graph = NULL;
    c->recording = false;
    mt_error ended = {};
    mt_status end = MT_CALL(&ended, 0, cudaStreamEndCapture(c->stream, &graph));
    if (end != MT_OK && graph == NULL) /* once more, so that the stream is of use again */
        MT_CALL(NULL, 0, cudaStreamEndCapture(c->stream, &graph));
    mt_status status = c->device.failure.status;
    if (status != MT_OK)
        mt_fail(err, status, "%s", c->device.failure.text);
    else if (end != MT_OK)
        status = mt_fail(err, end, "%s", ended.text);
    else
        status = instantiate(c, graph, err);
    c->device.failure = {};
    if (graph != NULL) {
        mt_status gone = MT_CALL(status == MT_OK ? err : NULL, 0, cudaGraphDestroy(graph));
        status = status == MT_OK ? gone : status;
    }
    return status;
}

void mt_cuda_replay(mt_device *d, uint32_t first) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c))
        return;
    MT_LAUNCH(set_place, 1, 1, 0, c->stream, first);
    MT_LAUNCHED(c, "set_place");
    if (!mt_cuda_failed(c))
        MT_CUDA_NOTE(c, 0, cudaGraphLaunch(c->graph, c->stream));
}
