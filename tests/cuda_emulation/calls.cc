/* calls.cc - see calls.h; and the part of control.h on failures. */
#include "calls.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "control.h"
#include "state.h"

namespace emulation {

namespace {

struct ApiInfo {
    Kind kind;
    const char *name;
    unsigned flags;
};

const ApiInfo APIS[] = {
#define MT_API(kind, name, flags) { kind, #name, flags },
    MT_EMULATION_APIS(MT_API)
#undef MT_API
};

struct Failure {
    int api; /* or -1: any */
    uint64_t left;
    int code;
};

std::vector<Failure> failures; /* to come */
uint64_t counts[API_COUNT];

cudaError_t last_error;
cudaError_t broken; /* what every call returns, or 0 */

uint64_t faults;
char last_fault[1000];
bool quiet;

/* The code of a kind's library for what a call meets before its work. */
struct Codes {
    int unknown, no_memory, no_device, unsafe;
};

const Codes CODES[] = {
    { cudaErrorUnknown, cudaErrorMemoryAllocation, cudaErrorNoDevice,
      cudaErrorStreamCaptureUnsupported },
    { CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NO_DEVICE,
      CUDA_ERROR_NOT_PERMITTED },
    { CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_NOT_INITIALIZED,
      CUBLAS_STATUS_ALLOC_FAILED },
};

int find_api(const char *name) {
    for (int i = 0; i < API_COUNT; i++)
        if (!strcmp(APIS[i].name, name))
            return i;
    return -1;
}

/* Counts the call down in all failures to come; the code of one that is due, or 0. */
int due_failure(Api api) {
    int code = 0;
    for (size_t i = 0; i < failures.size();) {
        Failure &f = failures[i];
        if ((f.api >= 0 && f.api != int(api)) || --f.left) {
            i++;
            continue;
        }
        code = f.code ? f.code : CODES[APIS[api].kind].unknown;
        failures.erase(failures.begin() + std::ptrdiff_t(i));
    }
    return code;
}

} // namespace

Verdict begin_call(Api api) {
    const ApiInfo &info = APIS[api];
    const Codes &codes = CODES[info.kind];
    read_environment();
    counts[api]++;
    const bool releases = info.flags & RELEASES;
    if (int code = due_failure(api))
        return { code, releases };
    if ((info.flags & CONTEXT) && device.count == 0)
        return { codes.no_device, false };
    if (broken)
        return { info.kind == CUBLAS ? int(CUBLAS_STATUS_EXECUTION_FAILED) : int(broken),
                 releases };
    if ((info.flags & UNSAFE) && capture_forbids()) {
        spoil_captures();
        return { codes.unsafe, false };
    }
    if ((info.flags & CONTEXT) && !open_context())
        return { codes.no_memory, false };
    return { 0, true };
}

cudaError_t keep_error(cudaError_t error) {
    if (error)
        last_error = error;
    return error;
}

void break_device(cudaError_t error, const char *what) {
    broken = error;
    fault("%s", what);
}

void fault(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_fault, sizeof last_fault, format, arguments);
    va_end(arguments);
    faults++;
    if (!quiet)
        fprintf(stderr, "emulated device: %s\n", last_fault);
}

void reset_calls() {
    failures.clear();
    memset(counts, 0, sizeof counts);
    last_error = broken = cudaSuccess;
    faults = 0;
    last_fault[0] = 0;
    quiet = false;
}

} // namespace emulation

using namespace emulation;

/* ---- errors ---------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError() {
    cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError() {
    return broken ? broken : last_error;
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define MT_ERROR(name, value, text)                                                                \
    case name:                                                                                     \
        return text;
        MT_CUDA_ERRORS(MT_ERROR)
#undef MT_ERROR
    }
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define MT_ERROR(name, value, text)                                                                \
    case name:                                                                                     \
        return #name;
        MT_CUDA_ERRORS(MT_ERROR)
#undef MT_ERROR
    }
    return "unrecognized error code";
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    switch (error) {
#define MT_ERROR(name, value, words)                                                               \
    case name:                                                                                     \
        *text = words;                                                                             \
        return CUDA_SUCCESS;
        MT_CU_ERRORS(MT_ERROR)
#undef MT_ERROR
    }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- control --------------------------------------------------------------------------------- */

bool mt_emulation_fail(const char *api, uint64_t n, int code) {
    read_environment();
    int i = api ? find_api(api) : -1;
    if ((api && i < 0) || n == 0)
        return false;
    failures.push_back({ i, n, code });
    return true;
}

uint64_t mt_emulation_calls(const char *api) {
    if (api) {
        int i = find_api(api);
        return i < 0 ? 0 : counts[i];
    }
    uint64_t sum = 0;
    for (uint64_t n : counts)
        sum += n;
    return sum;
}

const char *mt_emulation_api(size_t i) {
    return i < API_COUNT ? APIS[i].name : nullptr;
}

uint64_t mt_emulation_faults() {
    return faults;
}

const char *mt_emulation_last_fault() {
    return last_fault;
}

void mt_emulation_set_quiet(bool on) {
    quiet = on;
}
