/* real_device.h - the tests of this folder on a real GPU: what only the emulated device can tell is
 * left out (MT_REAL_DEVICE is defined, see tests/gpu.sh). */
#ifndef MT_TESTS_CUDA_REAL_DEVICE_H
#define MT_TESTS_CUDA_REAL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static inline void mt_emulation_reset(void) {}

static inline void mt_emulation_set_quiet(bool quiet) {
    (void)quiet;
}

static inline uint64_t mt_emulation_faults(void) {
    return 0;
}

static inline const char *mt_emulation_last_fault(void) {
    return "";
}

static inline size_t mt_emulation_print_leaks(FILE *out) {
    (void)out;
    return 0;
}

#endif
