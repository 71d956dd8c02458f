/* blas.c - see blas.h.
 *
 * OpenBLAS maps a buffer for each thread that is inside of it, and asks again without end when the
 * system refuses one: under `ulimit -v` its constructor never returns. So the system is asked
 * first, for all of it in one piece, and each buffer is then taken once, which leaves it mapped. */
#include "kernels/cpu/blas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/size.h"

#define LIBRARY     "libopenblas.so.0"
#define LIBRARY_MAP (64 * MT_MIB)  /* its code and data, and those of libgfortran */
#define BUFFER      (128 * MT_MIB) /* the largest that a build for a 64-bit processor takes */
#define OWN         2              /* buffers that its constructor takes and keeps */
#define MOST        40             /* buffers that are taken beforehand: a small build has 50 */

static mt_blas blas;

/* Whether the system would give so much, now. */
static mt_status look_for_room(int threads, mt_error *err) {
    size_t bytes = LIBRARY_MAP + ((size_t)threads + OWN) * BUFFER;
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return mt_fail(err, MT_FAILED,
                       "cpu: OpenBLAS needs %zu MiB of address space for %d thread%s, more than "
                       "this process may map (ulimit -v); fewer threads need less, a dry run none",
                       bytes / MT_MIB, threads, threads == 1 ? "" : "s");
    munmap(room, bytes);
    return MT_OK;
}

/* Its own threads would only lie in wait: ours call it. The setting is read while it is loaded. */
static void *open_library(void) {
    static const char setting[] = "OPENBLAS_NUM_THREADS";
    const char *now = getenv(setting);
    char *before = now != NULL ? strdup(now) : NULL;
    setenv(setting, "1", 1);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (before != NULL)
        setenv(setting, before, 1);
    else
        unsetenv(setting);
    free(before);
    return library;
}

/* These two are no part of its interface: without them buffers come as they are needed. */
static void take_buffers(void *library, int count) {
    void *(*get)(int) = (void *(*)(int))dlsym(library, "blas_memory_alloc");
    void (*put)(void *) = (void (*)(void *))dlsym(library, "blas_memory_free");
    void *buffer[MOST];
    int n = 0;
    for (; get != NULL && put != NULL && n < count; n++)
        buffer[n] = get(0);
    while (n > 0)
        put(buffer[--n]);
}

static mt_status load(int threads, mt_error *err) {
    int buffers = threads < MOST ? threads : MOST;
    MT_TRY(look_for_room(buffers, err));
    void *library = open_library();
    if (library == NULL)
        return mt_fail(err, MT_FAILED, "cpu: OpenBLAS cannot be loaded: %.300s", dlerror());
    mt_blas b = {
        .sgemm = (__typeof__(b.sgemm))dlsym(library, "cblas_sgemm"),
        .set_num_threads =
            (__typeof__(b.set_num_threads))dlsym(library, "openblas_set_num_threads"),
        .get_config = (__typeof__(b.get_config))dlsym(library, "openblas_get_config"),
        .omp_set_num_threads =
            (__typeof__(b.omp_set_num_threads))dlsym(library, "omp_set_num_threads"),
    };
    if (b.sgemm == NULL || b.set_num_threads == NULL || b.get_config == NULL)
        return mt_fail(err, MT_FAILED, "cpu: " LIBRARY " is not OpenBLAS: %.300s", dlerror());
    take_buffers(library, buffers);
    blas = b;
    return MT_OK;
}

mt_status mt_blas_load(const mt_blas **out, int threads, mt_error *err) {
    static int taken; /* for so many threads */
    if (threads > taken) {
        MT_TRY(load(threads, err));
        taken = threads;
    }
    *out = &blas;
    return MT_OK;
}
