/* calls.h - what every call of the emulated device does before its own work: it is counted, may be
 * made to fail, opens the context, and is refused during a capture when it must be. */
#ifndef MT_EMULATION_CALLS_H
#define MT_EMULATION_CALLS_H

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include "apis.h"

namespace emulation {

enum Kind : unsigned char { RUNTIME, DRIVER, CUBLAS };
enum : unsigned { CONTEXT = 1, UNSAFE = 2, RELEASES = 4 };

enum Api {
#define MT_API(kind, name, flags) API_##name,
    MT_EMULATION_APIS(MT_API)
#undef MT_API
        API_COUNT
};

/* code is what the call returns unless 0; then it does its work only if run is set. */
struct Verdict {
    int code;
    bool run;
};

Verdict begin_call(Api api);

/* Keeps a failure for cudaGetLastError and returns it. */
cudaError_t keep_error(cudaError_t error);

/* A failure that every later call returns, as after a kernel that crashed; notes the fault. */
void break_device(cudaError_t error, const char *fault);

/* Notes a fault that the device found, for mt_emulation_faults. */
void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

template <class Status, class F> Status run_call(Api api, F work) {
    Verdict v = begin_call(api);
    if (!v.run)
        return Status(v.code);
    Status status = work();
    return v.code ? Status(v.code) : status;
}

template <class F> cudaError_t runtime_call(Api api, F work) {
    return keep_error(run_call<cudaError_t>(api, work));
}

template <class F> CUresult driver_call(Api api, F work) {
    return run_call<CUresult>(api, work);
}

template <class F> cublasStatus_t cublas_call(Api api, F work) {
    return run_call<cublasStatus_t>(api, work);
}

} // namespace emulation

#endif
