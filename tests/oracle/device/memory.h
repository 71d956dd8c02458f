/* memory.h - the memory of a simulated CUDA device: address space, capacity, driver calls.
 *
 * A segment is a cudaMalloc or a reserved address range; segments count from 0 in order of
 * creation. Addresses lie in a range of this process that nothing can read or write, so that a
 * program that touches device memory from the host stops at once.
 *
 * Environment, read at the first use:
 *   ORACLE_MEMORY      bytes of the device (48 GiB)
 *   ORACLE_CC          compute capability (8.6)
 *   ORACLE_SMS         multiprocessors (those of the usual device of that capability)
 *   ORACLE_ADDRESSES   up: each segment lies above all earlier ones (default); down: below them;
 *                      reuse: at the lowest free place */
#ifndef ORACLE_MEMORY_H
#define ORACLE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE ((size_t)2 << 20) /* the driver's granularity */

typedef struct device {
    size_t total, used;
    int major, minor, multiprocessors;
} device;

/* The device, set up at the first call. */
const device *device_get(void);

/* cudaMalloc and cudaFree. NULL: no room. false: no such segment. */
void *device_malloc(size_t bytes);
bool device_free(void *at);

/* Address ranges and pages. A page is a handle; it is given back when released and unmapped. */
void *device_reserve(size_t bytes);
bool device_unreserve(void *at, size_t bytes);
void *device_create(size_t bytes);
void device_release(void *handle);
void device_map(void *at, size_t bytes, void *handle);
bool device_unmap(void *at, size_t bytes);

/* Whether an address is one of the device's. */
bool device_holds(const void *at);

/* Whether events stay unfinished. */
bool device_held(void);

/* ---- for the recorder ------------------------------------------------------------------------ */

/* The driver calls since the last time, separated by blanks, as the recordings write them:
 * M bytes, F segment, R bytes, A segment, P and U segment+offset:bytes, X and x bytes (refused).
 * Returns the length; -1 when they did not fit and some are lost. */
long oracle_calls(char *text, size_t room);

/* The segment an address lies in, or -1, and the offset there. */
long oracle_locate(uintptr_t at, uint64_t *offset);

/* From here on no event finishes (1), or all do (0). */
void oracle_hold(int on);

#endif
