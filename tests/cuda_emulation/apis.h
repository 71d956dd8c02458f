/* apis.h - the calls that can fail, one line each: kind, name, flags.
 *
 *   CONTEXT   opens the device's context when it is the first to do so
 *   UNSAFE    not allowed while a stream is captured; it spoils the capture
 *   RELEASES  gives something back: when made to fail, it does its work and then reports, as a call
 *             does that reports an earlier failure, so that tests can still count what is left */
#ifndef MT_EMULATION_APIS_H
#define MT_EMULATION_APIS_H

#define MT_EMULATION_APIS(X)                                                                       \
    X(RUNTIME, cudaGetDeviceCount, 0)                                                              \
    X(RUNTIME, cudaSetDevice, CONTEXT)                                                             \
    X(RUNTIME, cudaGetDevice, 0)                                                                   \
    X(RUNTIME, cudaGetDeviceProperties, 0)                                                         \
    X(RUNTIME, cudaDeviceGetAttribute, 0)                                                          \
    X(RUNTIME, cudaRuntimeGetVersion, 0)                                                           \
    X(RUNTIME, cudaDriverGetVersion, 0)                                                            \
    X(RUNTIME, cudaDeviceSynchronize, CONTEXT | UNSAFE)                                            \
    X(RUNTIME, cudaGetDriverEntryPoint, 0)                                                         \
    X(RUNTIME, cudaGetDriverEntryPointByVersion, 0)                                                \
    X(RUNTIME, cudaMalloc, CONTEXT | UNSAFE)                                                       \
    X(RUNTIME, cudaFree, CONTEXT | UNSAFE | RELEASES)                                              \
    X(RUNTIME, cudaMemGetInfo, CONTEXT)                                                            \
    X(RUNTIME, cudaHostAlloc, CONTEXT | UNSAFE)                                                    \
    X(RUNTIME, cudaMallocHost, CONTEXT | UNSAFE)                                                   \
    X(RUNTIME, cudaFreeHost, CONTEXT | UNSAFE | RELEASES)                                          \
    X(RUNTIME, cudaMemcpy, CONTEXT | UNSAFE)                                                       \
    X(RUNTIME, cudaMemcpyAsync, CONTEXT)                                                           \
    X(RUNTIME, cudaMemcpy2DAsync, CONTEXT)                                                         \
    X(RUNTIME, cudaMemset, CONTEXT | UNSAFE)                                                       \
    X(RUNTIME, cudaMemsetAsync, CONTEXT)                                                           \
    X(RUNTIME, cudaDeviceGetDefaultMemPool, CONTEXT)                                               \
    X(RUNTIME, cudaMemPoolCreate, CONTEXT)                                                         \
    X(RUNTIME, cudaMemPoolDestroy, CONTEXT | RELEASES)                                             \
    X(RUNTIME, cudaMemPoolSetAttribute, CONTEXT)                                                   \
    X(RUNTIME, cudaMemPoolGetAttribute, CONTEXT)                                                   \
    X(RUNTIME, cudaMemPoolTrimTo, CONTEXT)                                                         \
    X(RUNTIME, cudaMallocAsync, CONTEXT)                                                           \
    X(RUNTIME, cudaMallocFromPoolAsync, CONTEXT)                                                   \
    X(RUNTIME, cudaFreeAsync, CONTEXT | RELEASES)                                                  \
    X(RUNTIME, cudaStreamCreate, CONTEXT)                                                          \
    X(RUNTIME, cudaStreamCreateWithFlags, CONTEXT)                                                 \
    X(RUNTIME, cudaStreamDestroy, CONTEXT | RELEASES)                                              \
    X(RUNTIME, cudaStreamSynchronize, CONTEXT)                                                     \
    X(RUNTIME, cudaEventCreate, CONTEXT)                                                           \
    X(RUNTIME, cudaEventCreateWithFlags, CONTEXT)                                                  \
    X(RUNTIME, cudaEventRecord, CONTEXT)                                                           \
    X(RUNTIME, cudaEventSynchronize, CONTEXT)                                                      \
    X(RUNTIME, cudaEventQuery, CONTEXT)                                                            \
    X(RUNTIME, cudaEventElapsedTime, CONTEXT)                                                      \
    X(RUNTIME, cudaEventDestroy, CONTEXT | RELEASES)                                               \
    X(RUNTIME, cudaStreamBeginCapture, CONTEXT)                                                    \
    X(RUNTIME, cudaStreamEndCapture, CONTEXT)                                                      \
    X(RUNTIME, cudaStreamIsCapturing, CONTEXT)                                                     \
    X(RUNTIME, cudaGraphInstantiate, CONTEXT)                                                      \
    X(RUNTIME, cudaGraphLaunch, CONTEXT)                                                           \
    X(RUNTIME, cudaGraphExecDestroy, CONTEXT | RELEASES)                                           \
    X(RUNTIME, cudaGraphDestroy, CONTEXT | RELEASES)                                               \
    X(RUNTIME, cudaFuncSetAttribute, CONTEXT)                                                      \
    X(RUNTIME, cudaOccupancyMaxActiveBlocksPerMultiprocessor, CONTEXT)                             \
    X(RUNTIME, cudaLaunchKernel, CONTEXT) /* MT_LAUNCH; its failure is the last error */           \
    X(DRIVER, cuMemAddressReserve, CONTEXT)                                                        \
    X(DRIVER, cuMemAddressFree, CONTEXT | RELEASES)                                                \
    X(DRIVER, cuMemCreate, CONTEXT)                                                                \
    X(DRIVER, cuMemRelease, CONTEXT | RELEASES)                                                    \
    X(DRIVER, cuMemMap, CONTEXT)                                                                   \
    X(DRIVER, cuMemUnmap, CONTEXT | RELEASES)                                                      \
    X(DRIVER, cuMemSetAccess, CONTEXT)                                                             \
    X(DRIVER, cuMemGetAllocationGranularity, CONTEXT)                                              \
    X(CUBLAS, cublasCreate, CONTEXT | UNSAFE)                                                      \
    X(CUBLAS, cublasDestroy, CONTEXT | UNSAFE | RELEASES)                                          \
    X(CUBLAS, cublasGetVersion, 0)                                                                 \
    X(CUBLAS, cublasGetProperty, 0)                                                                \
    X(CUBLAS, cublasSetStream, 0)                                                                  \
    X(CUBLAS, cublasGetStream, 0)                                                                  \
    X(CUBLAS, cublasSetWorkspace, 0)                                                               \
    X(CUBLAS, cublasSetMathMode, 0)                                                                \
    X(CUBLAS, cublasSgemm, CONTEXT)                                                                \
    X(CUBLAS, cublasSgemmStridedBatched, CONTEXT)                                                  \
    X(CUBLAS, cublasGemmEx, CONTEXT)                                                               \
    X(CUBLAS, cublasSgemv, CONTEXT)

#endif
