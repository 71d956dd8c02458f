/* mt_emulation_errors.h - the error codes of the emulated device: name, value, text. */
#ifndef MT_EMULATION_ERRORS_H
#define MT_EMULATION_ERRORS_H

/* In C++ an enumeration that may hold any int, as a test may make a call return any code. */
#ifdef __cplusplus
#define MT_ENUM_INT : int
#else
#define MT_ENUM_INT
#endif

#define MT_CUDA_ERRORS(X)                                                                          \
    X(cudaSuccess, 0, "no error")                                                                  \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                               \
    X(cudaErrorInitializationError, 3, "initialization error")                                     \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                          \
    X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                    \
    X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                 \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                    \
    X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient")                      \
    X(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")        \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                               \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                       \
    X(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for the device")         \
    X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                       \
    X(cudaErrorOperatingSystem, 304, "OS call failed or operation not supported")                  \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                              \
    X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")        \
    X(cudaErrorSymbolNotFound, 500, "named symbol not found")                                      \
    X(cudaErrorNotReady, 600, "device not ready")                                                  \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                    \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")               \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                      \
    X(cudaErrorMisalignedAddress, 716, "misaligned address")                                       \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                   \
    X(cudaErrorNotPermitted, 800, "operation not permitted")                                       \
    X(cudaErrorNotSupported, 801, "operation not supported")                                       \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")  \
    X(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to an earlier capture error")  \
    X(cudaErrorStreamCaptureUnmatched, 903, "capture was not begun in this stream")                \
    X(cudaErrorStreamCaptureImplicit, 906, "would make the default stream wait for a capture")     \
    X(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in capture") \
    X(cudaErrorUnknown, 999, "unknown error")

#define MT_CU_ERRORS(X)                                                                            \
    X(CUDA_SUCCESS, 0, "no error")                                                                 \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                             \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                       \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                             \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                    \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                   \
    X(CUDA_ERROR_MAP_FAILED, 205, "mapping of buffer object failed")                               \
    X(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed")                           \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                   \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")     \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                         \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                 \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                 \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                    \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                    \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

#define MT_CUBLAS_STATUSES(X)                                                                      \
    X(CUBLAS_STATUS_SUCCESS, 0, "success")                                                         \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1, "the library was not initialized")                         \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3, "the resource allocation failed")                             \
    X(CUBLAS_STATUS_INVALID_VALUE, 7, "an invalid value was used as an argument")                  \
    X(CUBLAS_STATUS_ARCH_MISMATCH, 8, "an absent device feature is required")                      \
    X(CUBLAS_STATUS_MAPPING_ERROR, 11, "an access to device memory failed")                        \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13, "the device program failed to execute")                  \
    X(CUBLAS_STATUS_INTERNAL_ERROR, 14, "an internal operation failed")                            \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15, "the parameter combination is not supported")               \
    X(CUBLAS_STATUS_LICENSE_ERROR, 16, "an error was found while checking the license")

#endif
