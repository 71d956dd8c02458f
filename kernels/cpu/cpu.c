/* cpu.c - opens the cpu back end: which instructions, how many threads, and the table of kernels.
 *
 * Every kernel is done when its call returns, so sync only reports. Threads are those of a pool
 * (base/threads.h). BLAS is called by them, each for a block of its own, and starts none itself. */
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu_isa.h"

/* Whether matrix products gain from prefetching weights; see simd.h. */
static bool intel(void) {
#ifdef __x86_64__
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

static mt_status choose_simd(const mt_simd **simd, const char *isa, mt_error *err) {
    const mt_simd *avx512 = mt_simd_avx512(), *avx2 = mt_simd_avx2();
    if (strcmp(isa, "auto") == 0)
        *simd = avx512 ? avx512 : avx2 ? avx2 : &mt_simd_portable;
    else if (strcmp(isa, "avx512") == 0)
        *simd = avx512;
    else if (strcmp(isa, "avx2") == 0)
        *simd = avx2;
    else if (strcmp(isa, "portable") == 0)
        *simd = &mt_simd_portable;
    else
        return mt_fail(
            err, MT_BAD,
            "cpu: unknown instruction set \"%s\", expected auto, avx512, avx2 or portable", isa);
    if (*simd == NULL)
        return mt_fail(err, MT_BAD, "cpu: this processor has no %s", isa);
    return MT_OK;
}

static mt_status cpu_sync(mt_device *d, mt_error *err) {
    mt_status status = d->failure.status;
    if (status != MT_OK)
        mt_fail(err, status, "%s", d->failure.text);
    d->failure = (mt_error){ .status = MT_OK };
    return status;
}

static void cpu_close(mt_device *d) {
    mt_threads_close(((mt_cpu *)d)->pool);
    free(d);
}

static const mt_device cpu_table = {
    .name = "cpu",
    .computes = true,
    .host_memory = true,
    .copy_in = mt_cpu_copy_in,
    .copy_out = mt_cpu_copy_out,
    .copy_rows = mt_cpu_copy_rows,
    .zero = mt_cpu_zero,
    .embed = mt_cpu_embed,
    .layernorm = mt_cpu_layernorm,
    .linear = mt_cpu_linear,
    .kv_write = mt_cpu_kv_write,
    .attention = mt_cpu_attention,
    .argmax = mt_cpu_argmax,
    .sync = cpu_sync,
    .close = cpu_close,
    .read = mt_cpu_read,
    .nothing = mt_cpu_nothing,
};

/* "cpu, 2 threads, avx512, OpenBLAS 0.3.21": of BLAS's own description, name and version. */
static void describe(mt_cpu *c) {
    char blas[40] = "OpenBLAS", version[24] = "";
    sscanf(c->blas->get_config(), "%39s %23s", blas, version);
    snprintf(c->device.description, sizeof c->device.description, "cpu, %d thread%s, %s, %s %s",
             c->threads, c->threads == 1 ? "" : "s", c->simd->name, blas, version);
}

mt_status mt_device_cpu_with(mt_device **out, int threads, const char *isa, mt_error *err) {
    const mt_simd *simd = NULL;
    if (threads < 0 || threads > MT_THREADS_MOST)
        return mt_fail(err, MT_BAD, "cpu: %d threads, expected 0 (all cores) to %d", threads,
                       MT_THREADS_MOST);
    MT_TRY(choose_simd(&simd, isa, err));
    mt_cpu *c = malloc(sizeof *c);
    if (c == NULL)
        return mt_no_memory(err, "a device");
    *c = (mt_cpu){ .device = cpu_table,
                   .threads = threads > 0 ? threads : mt_threads_cores(),
                   .simd = simd,
                   .ahead = intel() };
    mt_status status = mt_blas_load(&c->blas, c->threads, err);
    if (status == MT_OK)
        status = mt_threads_open(&c->pool, c->threads, err);
    if (status != MT_OK) {
        free(c);
        return status;
    }
    describe(c);
    *out = &c->device;
    return MT_OK;
}

mt_status mt_device_cpu(mt_device **out, int threads, mt_error *err) {
    return mt_device_cpu_with(out, threads, "auto", err);
}
