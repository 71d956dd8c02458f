/* backend.h - the door of the CUDA back end: a device and the source of its memory, opened at once.
 *
 * kernels/cuda is built as a shared object of its own (memtrace-cuda.so), because cudart and cuBLAS
 * cost every program that links them tenths of a second and hundreds of megabytes. The program
 * finds mt_cuda_open in it by name. The same files compile as C++ against an emulated device. */
#ifndef MT_KERNELS_CUDA_BACKEND_H
#define MT_KERNELS_CUDA_BACKEND_H

#include "alloc/source.h"
#include "kernels/device.h"

typedef struct mt_cuda_options {
    uint64_t capacity;     /* 0: all that the device holds */
    bool tf32;             /* matrix products may round their inputs to TF32 */
    bool pool;             /* the source can serve the policy async */
    bool watch;            /* measure the device's memory around library calls; see mt_cuda_note */
    uint32_t block;        /* threads of a block, a multiple of 32 up to 1024; 0: 256 */
    bool forget_workspace; /* a fault for tests: the workspace is not set again after the stream */
    mt_error *late;        /* where failures of closing are noted, if not NULL; must outlive both */
} mt_cuda_options;

/* What one call of a library did to the device's used bytes: the context's creation, cublasCreate,
 * the first matrix product of a shape (and the second, which tells loaded code from memory that
 * every call takes), the recording of a graph. */
typedef struct mt_cuda_note {
    char what[60];
    int64_t bytes;  /* change of the device's used bytes over the call; of the context: all used */
    int64_t again;  /* over the second call of the same kind */
    uint32_t calls; /* measured: 1 or 2 */
} mt_cuda_note;

#define MT_CUDA_NOTES 24

typedef struct mt_cuda_backend {
    mt_device *device;
    mt_source *source;         /* close it before the device */
    uint64_t total;            /* bytes of the device */
    int major, minor;          /* compute capability: 8, 6 for sm_86 */
    const mt_cuda_note *notes; /* the first is the context; live as long as the device */
    const uint32_t *noted;     /* how many */
} mt_cuda_backend;

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the first device. MT_FAILED with a line that names the call when there is none. */
mt_status mt_cuda_open(mt_cuda_backend *out, const mt_cuda_options *o, mt_error *err);
typedef mt_status mt_cuda_open_fn(mt_cuda_backend *out, const mt_cuda_options *o, mt_error *err);

/* Devices that the driver reports; 0 when it cannot be asked. */
int mt_cuda_devices(void);

#ifdef __cplusplus
}
#endif

/* A workspace as large as cuBLAS's own default, which is what NVIDIA recommends. */
static inline uint64_t mt_cuda_workspace(int major) {
    return major >= 9 ? (uint64_t)32 << 20 : (uint64_t)4 << 20;
}

#endif
