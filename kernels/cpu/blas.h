/* blas.h - OpenBLAS, loaded when the cpu back end is opened and not before: a dry run needs none of
 * it, and starts without paying for it.
 *
 * The types are those of <cblas.h>; the library is found by its name, libopenblas.so.0. */
#ifndef MT_KERNELS_CPU_BLAS_H
#define MT_KERNELS_CPU_BLAS_H

#include <cblas.h>

#include "base/status.h"

typedef struct mt_blas {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(openblas_set_num_threads) *set_num_threads;
    __typeof__(openblas_get_config) *get_config;
    void (*omp_set_num_threads)(int); /* of a build with OpenMP; NULL in the others */
} mt_blas;

/* To be called by a thread of ours before it calls BLAS: it starts no threads of its own then. With
 * OpenMP that is a setting of each thread, else the process's (set_num_threads). */
static inline void mt_blas_alone(const mt_blas *b) {
    if (b->omp_set_num_threads != NULL)
        b->omp_set_num_threads(1);
}

/* Loads it once for the whole process; it stays loaded. threads: how many of ours may be inside of
 * it at the same time. MT_FAILED with a line that says what is missing. To be called by one thread
 * at a time. */
mt_status mt_blas_load(const mt_blas **out, int threads, mt_error *err);

#endif
