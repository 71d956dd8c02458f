/* cpu_isa.h - opens the cpu back end with a chosen instruction set, so that tests and measurements
 * can compare them. Everyone else calls mt_device_cpu, which takes the best one. */
#ifndef MT_KERNELS_CPU_ISA_H
#define MT_KERNELS_CPU_ISA_H

#include "kernels/device.h"

/* isa: "auto" (the widest this processor has), "avx512", "avx2" (with FMA) or "portable". One that
 * is unknown or that the processor lacks is MT_BAD. threads as in mt_device_cpu. Two devices with
 * different instruction sets may differ in the last bits. */
mt_status mt_device_cpu_with(mt_device **out, int threads, const char *isa, mt_error *err);

#endif
