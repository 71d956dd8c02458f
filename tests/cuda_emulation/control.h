/* control.h - how a test sets the emulated device up, makes its calls fail, and asks what happened.
 *
 * The device is ready without any of this. Its first values can also come from the environment, for
 * whole programs:
 *
 *     MT_EMULATION="capacity=1GiB,capability=9.0,context=256MiB,kernel=256KiB,other=0,devices=1,
 *                   fail=cudaMalloc:3:2,leaks"
 *
 * fail: the 3rd cudaMalloc returns 2 (name, n, code; code may be left out; the name any counts all
 * calls). leaks: what is still live when the program ends goes to stderr, and it ends with 99.
 * One thread at a time may use the device. */
#ifndef MT_EMULATION_CONTROL_H
#define MT_EMULATION_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device as after power-on: everything is given back, counts are 0, settings are the defaults,
 * the environment's not among them. What a program still holds is no longer valid. */
void mt_emulation_reset(void);

/* ---- the device ------------------------------------------------------------------------------ */

void mt_emulation_set_capacity(uint64_t bytes);         /* 48 GiB */
void mt_emulation_set_capability(int major, int minor); /* 8.6; 8.0, 8.9, 9.0 */
void mt_emulation_set_devices(int count);               /* 1, or 0: none is there */
void mt_emulation_set_context_bytes(uint64_t bytes);    /* 256 MiB, taken by the first use */
void mt_emulation_set_kernel_bytes(uint64_t bytes);     /* 256 KiB, by each kernel's first launch */
void mt_emulation_set_other_process_bytes(uint64_t bytes); /* 0, taken now */

/* ---- failures -------------------------------------------------------------------------------- */

/* The n-th call of api from now on (1 is the next) returns code, once. api NULL counts calls of
 * any. Code 0 stands for the unknown or internal error of its library. False: no such api, or n 0.
 * A failing call does nothing; one that gives something back does it all the same (see apis.h). */
bool mt_emulation_fail(const char *api, uint64_t n, int code);

/* Calls of api (NULL: of any) since the start or the last reset. */
uint64_t mt_emulation_calls(const char *api);

/* The names that mt_emulation_fail knows: i from 0, NULL past the last. */
const char *mt_emulation_api(size_t i);

/* Faults that the device found by itself, such as threads that diverged, a write outside an
 * allocation, a workspace that was freed: how many, and the last one's text. Each also goes to
 * stderr, unless quiet. */
uint64_t mt_emulation_faults(void);
const char *mt_emulation_last_fault(void);
void mt_emulation_set_quiet(bool quiet);

/* ---- memory ---------------------------------------------------------------------------------- */

/* What the device's used bytes (cudaMemGetInfo: total - free) are made of. */
typedef struct mt_emulation_usage {
    uint64_t capacity;
    uint64_t used;     /* the sum of the following */
    uint64_t context;  /* of this process */
    uint64_t other;    /* another process */
    uint64_t kernels;  /* loaded, in 2 MiB pages */
    uint64_t segments; /* cudaMalloc, in 2 MiB pages; small ones share pages */
    uint64_t pools;    /* reserved by memory pools */
    uint64_t physical; /* cuMemCreate */
    uint64_t library;  /* cuBLAS's own pools, and what its products add to graphs */
} mt_emulation_usage;

mt_emulation_usage mt_emulation_get_usage(void);

/* What a program has asked for and not given back. */
typedef struct mt_emulation_allocation {
    void *ptr;
    uint64_t bytes;   /* as requested */
    const char *call; /* cudaMalloc, cudaMallocAsync, cuMemMap, cublasCreate */
} mt_emulation_allocation;

/* Fills at most n entries by rising address and returns how many there are. */
size_t mt_emulation_allocations(mt_emulation_allocation *list, size_t n);

/* Counts of everything that can be left behind. */
typedef struct mt_emulation_live {
    size_t segments, pool_blocks, pools, reservations, handles, mappings, pinned;
    size_t streams, events, graphs, execs, cublas;
} mt_emulation_live;

mt_emulation_live mt_emulation_get_live(void);

/* The sum of those counts; prints each that is not 0, and each allocation. */
size_t mt_emulation_print_leaks(FILE *out);

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

/* The workspace that the last product used. */
typedef struct mt_emulation_workspace {
    void *ptr;
    uint64_t bytes;
    bool own;      /* cuBLAS's default pool, not the user's */
    bool captured; /* memory that a graph holds, because a product was captured without a user's */
} mt_emulation_workspace;

mt_emulation_workspace mt_emulation_last_workspace(void);

/* Each product writes a pattern (a NaN) over the ends of its workspace and over a part of this many
 * bytes that moves on (64 KiB; 0: all of it). */
#define MT_EMULATION_SCRATCH 0xffc5c5c5u
void mt_emulation_set_scratch(size_t bytes);

/* Products fail with CUBLAS_STATUS_ALLOC_FAILED when their workspace is smaller (0). */
void mt_emulation_set_workspace_needed(size_t bytes);

/* ---- NVTX ------------------------------------------------------------------------------------ */

/* The i-th range pushed since the start: its name, and its depth (0 the outermost); NULL past the
 * last. */
const char *mt_emulation_range(size_t i, int *depth);

/* Ranges that are still open. A pop without a push is a fault. */
int mt_emulation_open_ranges(void);

#ifdef __cplusplus
}
#endif

#endif
