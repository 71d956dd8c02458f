/* standin.h - a CUDA device that only accounts for memory.
 *
 * Three small libraries with the sonames of libcudart, libcublas and libcuda, put in front of the
 * real ones by LD_PRELOAD, let the program that nvcc built run without a GPU and without a driver:
 * every take and give of memory is counted as on a device, kernels and products do nothing, and
 * what is read from the device is zero. Addresses lie in a range without access, so that a host
 * access to device memory ends the program.
 *
 * STANDIN_CAPACITY (bytes, 48 GiB) and STANDIN_MAJOR (8) describe the device. STANDIN_OTHER is
 * another program on it: "moves" takes and gives 2 MiB all the time, "leaves" gives back 1 GiB once
 * this program has its weights. */
#ifndef MT_STANDIN_H
#define MT_STANDIN_H

#include <stdint.h>

/* Bytes that a library takes or gives back; between libcublas and libcudart. */
void standin_library(int64_t change);
int standin_major(void);

#endif
