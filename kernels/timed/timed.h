/* timed.h - a device that times another: every call is passed on and noted with its shape's work.
 *
 *     mt_device_timed(&timed, device, &err);        the engine is given timed
 *     mt_timed_start(timed); ...a step...; mt_timed_stop(timed, &err);
 *     mt_timed_calls(timed, &count);                one mt_timing a call, in order
 *
 * Work is counted from shapes alone. A multiply and an add are two FLOPs; only matrix products and
 * attention count, as is usual. Bytes are what a call must move at least: each operand once.
 *
 * Where a kernel is done when its call returns (cpu) its time is the call's. Where it is not (cuda)
 * the device's own clock gives its time, and the call's is what starting it cost. */
#ifndef MT_KERNELS_TIMED_H
#define MT_KERNELS_TIMED_H

#include "kernels/device.h"

typedef enum mt_kernel {
    MT_KERNEL_EMBED,
    MT_KERNEL_LAYERNORM,
    MT_KERNEL_LINEAR,
    MT_KERNEL_KV_WRITE,
    MT_KERNEL_ATTENTION,
    MT_KERNEL_ARGMAX,
    MT_KERNEL_COPY, /* inside the device */
    MT_KERNEL_HOST, /* to and from this program's memory */
    MT_KERNEL_ZERO,
    MT_KERNEL_REPLAY, /* of a recorded step: one call, whose work is not known */
    MT_KERNELS
} mt_kernel;

const char *mt_kernel_name(mt_kernel kernel);

/* One call. range: the innermost range it stood in ("layer 3", "head"), "" outside all. */
typedef struct mt_timing {
    mt_kernel kernel;
    char range[16];
    uint32_t rows, cols, depth; /* linear: R, N, K; attention: R, places seen at most, C */
    uint64_t flops, bytes;
    uint64_t begin_ns, end_ns;   /* of the call, monotonic */
    double device_ms, device_at; /* of the kernel, and its begin since the first; cpu: the call's */
} mt_timing;

/* Opens a timed device over `inner`, which must outlive it and is not closed with it. Notes are
 * taken between start and stop only; otherwise a call costs one test more. */
mt_status mt_device_timed(mt_device **out, mt_device *inner, mt_error *err);

void mt_timed_start(mt_device *timed);
/* Syncs, and reads the device's clock. MT_FAILED also when a note found no memory. */
mt_status mt_timed_stop(mt_device *timed, mt_error *err);
/* The calls between the last start and its stop; valid until the next start. */
const mt_timing *mt_timed_calls(const mt_device *timed, uint32_t *count);

#endif
