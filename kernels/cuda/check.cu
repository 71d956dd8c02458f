/* check.cu - see check.h: what a failed call is told as. */
#include "kernels/cuda/state.h"

#include <string.h>

/* The name of a call from its text: what stands before the bracket. */
static int name_length(const mt_call &call) {
    return (int)strcspn(call.text, "(");
}

static mt_status tell(mt_error *err, const mt_call &call, const char *library, const char *text,
                      const char *code) {
    char about[40] = "";
    if (call.bytes > 0)
        snprintf(about, sizeof about, " of %zu bytes", call.bytes);
    return mt_fail(err, MT_FAILED, "%s: %.*s%s: %s (%s), %s:%d", library, name_length(call),
                   call.text, about, text, code, call.file, call.line);
}

mt_status mt_cuda_result(mt_error *err, mt_call call, cudaError_t result) {
    if (result == cudaSuccess)
        return MT_OK;
    cudaGetLastError(); /* the runtime remembers it otherwise, for a later call's check */
    return tell(err, call, "cuda", cudaGetErrorString(result), cudaGetErrorName(result));
}

mt_status mt_cuda_result(mt_error *err, mt_call call, CUresult result) {
    char code[24];
    if (result == CUDA_SUCCESS)
        return MT_OK;
    snprintf(code, sizeof code, "CUresult %d", (int)result);
    return tell(err, call, "cuda driver",
                result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "the call failed", code);
}

mt_status mt_cuda_result(mt_error *err, mt_call call, cublasStatus_t result) {
    if (result == CUBLAS_STATUS_SUCCESS)
        return MT_OK;
    return tell(err, call, "cublas", cublasGetStatusString(result), cublasGetStatusName(result));
}

void mt_cuda_launched(mt_cuda *c, const char *kernel, const char *file, int line) {
    mt_cuda_result(mt_cuda_slot(c), mt_call{ kernel, file, line, 0 }, cudaGetLastError());
}
