/* event.cc - events: the time at which the work before them was done, which is when they were
 * recorded. */
#include <chrono>
#include <map>
#include <memory>

#include "calls.h"
#include "state.h"

typedef std::chrono::steady_clock Clock;

struct CUevent_st {
    bool timed;
    bool recorded = false;
    bool captured = false; /* last recorded in a capture, so it never completes */
    Clock::time_point at;
};

namespace emulation {

static std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;

size_t event_count() {
    return events.size();
}

void reset_events() {
    events.clear();
}

} // namespace emulation

using namespace emulation;

static cudaError_t create_event(cudaEvent_t *event, unsigned flags) {
    auto e = std::make_unique<CUevent_st>();
    e->timed = !(flags & cudaEventDisableTiming);
    *event = e.get();
    events[*event] = std::move(e);
    return cudaSuccess;
}

static cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
    if (!events.count(event))
        return cudaErrorInvalidResourceHandle;
    event->captured = is_capturing(stream);
    if (event->captured) /* such an event orders work of a graph and is no node of it */
        return submit(stream, [] { return cudaSuccess; });
    return submit(stream, [event] {
        event->recorded = true;
        event->at = Clock::now();
        return cudaSuccess;
    });
}

/* All recorded events are complete; so is one that was never recorded. */
static cudaError_t check_complete(cudaEvent_t event) {
    if (!events.count(event))
        return cudaErrorInvalidResourceHandle;
    return event->captured ? cudaErrorCapturedEvent : cudaSuccess;
}

static cudaError_t elapsed(float *ms, cudaEvent_t start, cudaEvent_t end) {
    for (cudaEvent_t event : { start, end })
        if (!events.count(event) || !event->timed || !event->recorded)
            return cudaErrorInvalidResourceHandle;
    *ms = std::chrono::duration<float, std::milli>(end->at - start->at).count();
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return runtime_call(API_cudaEventCreate, [&] { return create_event(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return runtime_call(API_cudaEventCreateWithFlags, [&] { return create_event(event, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return runtime_call(API_cudaEventRecord, [&] { return record(event, stream); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return runtime_call(API_cudaEventSynchronize, [&] {
        if (cudaError_t e = check_complete(event))
            return e;
        sync_pools();
        return cudaSuccess;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return runtime_call(API_cudaEventQuery, [&] { return check_complete(event); });
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    return runtime_call(API_cudaEventElapsedTime, [&] { return elapsed(ms, start, end); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return runtime_call(API_cudaEventDestroy, [&] {
        return events.erase(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
    });
}
