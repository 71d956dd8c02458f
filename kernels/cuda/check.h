/* check.h - every call of CUDA and cuBLAS goes through here.
 *
 *     MT_CUDA_TRY(err, bytes, cudaMalloc(&p, bytes));     returns MT_FAILED from a function, or
 *     MT_CUDA_NOTE(c, bytes, cudaMemsetAsync(...));       leaves a note in the device; true: it
 * worked
 *
 * The line says what failed, how many bytes it was about, where it stands and what the library
 * said: "cuda: cudaMalloc of 4096 bytes: out of memory (cudaErrorMemoryAllocation),
 * kernels/cuda/x.cu:42". bytes is 0 where none are concerned. */
#ifndef MT_KERNELS_CUDA_CHECK_H
#define MT_KERNELS_CUDA_CHECK_H

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

extern "C" {
#include "base/status.h"
}

/* Where a call stands. text begins with the call's name. */
struct mt_call {
    const char *text;
    const char *file;
    int line;
    size_t bytes;
};

/* MT_OK, or MT_FAILED with the line. One for each library's results. */
mt_status mt_cuda_result(mt_error *err, mt_call call, cudaError_t result);
mt_status mt_cuda_result(mt_error *err, mt_call call, CUresult result);
mt_status mt_cuda_result(mt_error *err, mt_call call, cublasStatus_t result);

#define MT_CALL(err, bytes, call)                                                                  \
    mt_cuda_result((err), mt_call{ #call, __FILE__, __LINE__, (bytes) }, (call))

#define MT_CUDA_TRY(err, bytes, call) MT_TRY(MT_CALL(err, bytes, call))

/* For calls whose failure is told by the next sync. */
#define MT_CUDA_NOTE(c, bytes, call) mt_cuda_noted((c), MT_CALL(mt_cuda_slot(c), bytes, call))

#endif
