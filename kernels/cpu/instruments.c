/* instruments.c - what the cpu back end is measured against: a plain read of memory by all threads,
 * and a job of the pool that does nothing. */
#include "kernels/cpu/cpu.h"

/* Floats that a thread reads at a time: 1 MiB. */
#define MT_READ ((size_t)256 << 10)

typedef struct read_call {
    const mt_simd *simd;
    const float *x;
    size_t n;
} read_call;

static void read_piece(void *context, size_t i) {
    const read_call *a = context;
    size_t at = i * MT_READ;
    /* Written to memory that nobody reads, so that the sum is made at all. */
    volatile float sum = a->simd->sum(a->x + at, a->n - at < MT_READ ? a->n - at : MT_READ);
    (void)sum;
}

void mt_cpu_read(mt_device *d, const float *x, size_t n) {
    const mt_cpu *c = (const mt_cpu *)d;
    if (mt_cpu_failed(d))
        return;
    read_call a = { c->simd, x, n };
    mt_cpu_run(c, n, read_piece, &a, (n + MT_READ - 1) / MT_READ);
}

static void nothing(void *context, size_t i) {
    (void)context, (void)i;
}

void mt_cpu_nothing(mt_device *d) {
    const mt_cpu *c = (const mt_cpu *)d;
    mt_threads_run(c->pool, nothing, NULL, (size_t)c->threads);
}
