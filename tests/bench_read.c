/* bench_read.c - how fast this machine reads memory, in GB/s: the bound of a decode step, which
 * reads all weights once.
 *
 * usage: bench_read [THREADS]     prints  GB/s  slowest  fastest  (of the passes; 10^9 bytes)
 *
 * 1 GiB on huge pages (far more than any cache holds). A pass is a sum over all of it, in a part
 * for each thread. A part is read in one stream from its beginning to its end, or in eight streams
 * side by side, as a product reads several rows: which is faster depends on the machine. Both are
 * measured in turn, PASSES times, and the better of the two medians counts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/threads.h"

#define BYTES       ((size_t)1 << 30)
#define HUGE        ((size_t)2 << 20)
#define PASSES      9
#define MAX_THREADS 64

/* Words a stream gives at a time: four cache lines. Sums of different places do not wait for each
 * other. */
enum { RUN = 32 };

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static uint64_t
sum(const uint64_t *p, size_t words, size_t streams) {
    uint64_t s[RUN] = { 0 }, total = 0;
    size_t each = words / streams;
    for (size_t i = 0; i < each; i += RUN)
        for (size_t k = 0; k < streams; k++) {
            const uint64_t *q = p + k * each + i;
            for (int j = 0; j < RUN; j++)
                s[j] += q[j];
        }
    for (int j = 0; j < RUN; j++)
        total += s[j];
    return total;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct reading {
    mt_threads *pool;
    int threads;
    char *memory;
    size_t part, streams;
    uint64_t sum[MAX_THREADS];
} reading;

static void fill_part(void *context, size_t i) {
    const reading *r = context;
    memset(r->memory + i * r->part, 1, r->part);
}

static void read_part(void *context, size_t i) {
    reading *r = context;
    r->sum[i] =
        sum((const uint64_t *)(const void *)(r->memory + i * r->part), r->part / 8, r->streams);
}

/* GB/s of one pass. */
static double pass(reading *r) {
    uint64_t total = 0;
    double start = seconds();
    mt_threads_run(r->pool, read_part, r, (size_t)r->threads);
    double took = seconds() - start;
    for (int i = 0; i < r->threads; i++)
        total += r->sum[i];
    if (total != 0x0101010101010101u * (r->part / 8 * (size_t)r->threads)) {
        fprintf(stderr, "bench_read: the sum is wrong\n");
        exit(1);
    }
    return (double)r->part * r->threads / took * 1e-9;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    if (argc > 2 || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: bench_read [THREADS]     1 to %d\n", MAX_THREADS);
        return 2;
    }
    /* Each part a whole number of huge pages. */
    size_t part = BYTES / (size_t)threads / HUGE * HUGE;
    char *memory =
        mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("bench_read");
        return 1;
    }
    memory += (HUGE - (uintptr_t)memory % HUGE) % HUGE;
    madvise(memory, BYTES, MADV_HUGEPAGE); /* without huge pages it reads what it can */
    reading r = { .threads = threads, .memory = memory, .part = part };
    mt_error err;
    if (mt_threads_open(&r.pool, threads, &err) != MT_OK) {
        fprintf(stderr, "bench_read: %s\n", err.text);
        return 1;
    }
    mt_threads_run(r.pool, fill_part, &r, (size_t)threads);

    double rate[2][PASSES];
    for (int i = -1; i < PASSES; i++) /* the first of each only warms up */
        for (int k = 0; k < 2; k++) {
            r.streams = k == 0 ? 1 : 8;
            double gb = pass(&r);
            if (i >= 0)
                rate[k][i] = gb;
        }
    for (int k = 0; k < 2; k++)
        qsort(rate[k], PASSES, sizeof rate[k][0], by_value);
    const double *best = rate[0][PASSES / 2] >= rate[1][PASSES / 2] ? rate[0] : rate[1];
    mt_threads_close(r.pool);
    printf("%.2f %.2f %.2f\n", best[PASSES / 2], best[0], best[PASSES - 1]);
    return 0;
}
