/* bench_alloc.c - nanoseconds per request and free, for each policy and pattern.
 *
 * Three patterns: the keys and values of GPT-2 small growing by concatenation to 1024 tokens, 2,000
 * live blocks of log-uniform sizes (512 B to 8 MiB), and one 4 KiB block again and again. Three
 * ways to listen: no listener (the ledger alone), a listener that counts, one that keeps every
 * event in memory. Then the ledger by itself, fed with recorded events, and the growth from 1e3 to
 * 1e6 live blocks. Medians of five runs; the source is simulated, so the driver costs nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alloc/alloc.h"
#include "base/size.h"

#define RUNS 5

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t seed;

static uint32_t random32(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

/* Log-uniform between 512 B and 8 MiB. */
static uint64_t random_size(void) {
    uint32_t shift = random32() % 14;
    return (512u << shift) + random32() % (512u << shift);
}

/* ---- listeners ------------------------------------------------------------------------------- */

typedef struct recorder {
    mt_event *event;
    uint64_t n, room;
} recorder;

static void count_event(void *context, const mt_event *e) {
    (void)e;
    ++*(uint64_t *)context;
}

static void keep_event(void *context, const mt_event *e) {
    recorder *r = context;
    r->event[r->n++ % r->room] = *e;
}

/* ---- patterns: each returns the number of request and free pairs ----------------------------- */

static mt_mem get(mt_alloc *a, uint64_t bytes, mt_tag tag) {
    mt_mem m;
    mt_error err;
    mt_request r = { .bytes = bytes, .tag = tag, .layer = 0 };
    if (mt_alloc_get(a, &r, &m, &err) != MT_OK) {
        fprintf(stderr, "bench: %s\n", err.text);
        exit(1);
    }
    return m;
}

static uint64_t grow_kv(mt_alloc *a) {
    static mt_mem kv[24];
    memset(kv, 0, sizeof kv);
    for (uint64_t t = 1; t <= 1024; t++)
        for (int i = 0; i < 24; i++) {
            mt_mem longer = get(a, 3072 * t, MT_KV);
            mt_alloc_put(a, &kv[i], NULL);
            kv[i] = longer;
        }
    for (int i = 0; i < 24; i++)
        mt_alloc_put(a, &kv[i], NULL);
    return 24 * 1024;
}

static uint64_t random_blocks(mt_alloc *a) {
    static mt_mem live[2000];
    uint64_t pairs = 200000;
    memset(live, 0, sizeof live);
    seed = 1;
    for (uint64_t i = 0; i < pairs; i++) {
        mt_mem *m = &live[random32() % 2000];
        mt_alloc_put(a, m, NULL);
        *m = get(a, random_size(), MT_OTHER);
    }
    for (int i = 0; i < 2000; i++)
        mt_alloc_put(a, &live[i], NULL);
    return pairs;
}

static uint64_t one_block(mt_alloc *a) {
    uint64_t pairs = 1000000;
    for (uint64_t i = 0; i < pairs; i++) {
        mt_mem m = get(a, 4096, MT_OTHER);
        mt_alloc_put(a, &m, NULL);
    }
    return pairs;
}

/* ---- measuring ------------------------------------------------------------------------------- */

typedef uint64_t (*pattern)(mt_alloc *a);

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static mt_alloc *open_alloc(const char *policy, mt_source **source) {
    mt_alloc *a = NULL;
    mt_error err;
    if (mt_source_sim(source, (uint64_t)1 << 45, 2 * MT_MIB, &err) != MT_OK ||
        mt_alloc_open(&a, *source, policy, &err) != MT_OK) {
        fprintf(stderr, "bench: %s\n", err.text);
        exit(1);
    }
    return a;
}

static double ns_per_pair(const char *policy, pattern run, int listener, recorder *r) {
    double ns[RUNS];
    for (int i = 0; i < RUNS; i++) {
        mt_source *source;
        uint64_t counted = 0;
        mt_alloc *a = open_alloc(policy, &source);
        if (listener == 1)
            mt_alloc_listen(a, (mt_listener){ count_event, &counted });
        if (listener == 2)
            mt_alloc_listen(a, (mt_listener){ keep_event, r });
        double start = now_ns();
        uint64_t pairs = run(a);
        ns[i] = (now_ns() - start) / (double)pairs;
        mt_alloc_close(a);
        source->close(source);
    }
    return median(ns, RUNS);
}

static void bench_patterns(recorder *r) {
    static const char *const policies[] = { "torch", "torch,expandable_segments:True", "block:2MiB",
                                            "block:2MiB,fit:first", "direct" };
    static const struct {
        const char *name;
        pattern run;
    } patterns[] = { { "kv-growth", grow_kv },
                     { "2000-random", random_blocks },
                     { "one-4KiB", one_block } };
    printf("# ns per request and free\n# policy pattern ledger counted recorded\n");
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
            printf("%-32s %-12s", policies[p], patterns[i].name);
            for (int l = 0; l < 3; l++)
                printf(" %8.1f", ns_per_pair(policies[p], patterns[i].run, l, r));
            printf("\n");
            fflush(stdout);
        }
}

/* One free and one request among n live blocks of random sizes. */
static double ns_among(const char *policy, uint32_t n) {
    mt_source *source;
    mt_alloc *a = open_alloc(policy, &source);
    mt_mem *live = calloc(n, sizeof *live);
    uint64_t pairs = 200000;
    if (live == NULL)
        exit(1);
    seed = 1;
    for (uint32_t i = 0; i < n; i++)
        live[i] = get(a, random_size(), MT_OTHER);
    double start = now_ns();
    for (uint64_t i = 0; i < pairs; i++) {
        mt_mem *m = &live[random32() % n];
        mt_alloc_put(a, m, NULL);
        *m = get(a, random_size(), MT_OTHER);
    }
    double ns = (now_ns() - start) / (double)pairs;
    free(live);
    mt_alloc_close(a);
    source->close(source);
    return ns;
}

static void bench_growth(void) {
    printf("# ns per request and free among N live blocks\n# policy 1e3 1e4 1e5 1e6\n");
    static const char *const policies[] = { "torch", "block:2MiB" };
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        printf("%-32s", policies[p]);
        for (uint32_t n = 1000; n <= 1000000; n *= 10)
            printf(" %8.1f", ns_among(policies[p], n));
        printf("\n");
        fflush(stdout);
    }
}

/* A pattern's events, taken by ledgers alone. */
static double ns_per_event(pattern run, recorder *r) {
    double ns[RUNS];
    mt_source *source;
    mt_error err;
    mt_alloc *a = open_alloc("torch", &source);
    r->n = 0;
    mt_alloc_listen(a, (mt_listener){ keep_event, r });
    run(a);
    mt_alloc_unlisten(a);
    for (int i = 0; i < RUNS; i++) {
        mt_ledger l;
        mt_ledger_init(&l);
        double start = now_ns();
        for (uint64_t e = 0; e < r->n; e++)
            if (mt_ledger_apply(&l, &r->event[e], &err) != MT_OK)
                exit(1);
        ns[i] = (now_ns() - start) / (double)r->n;
        mt_ledger_free(&l);
    }
    mt_alloc_close(a);
    source->close(source);
    return median(ns, RUNS);
}

static void bench_ledger(void) {
    recorder r = { .room = 1 << 19 }; /* more than either pattern has */
    r.event = malloc(r.room * sizeof *r.event);
    if (r.event == NULL)
        exit(1);
    printf("# ns an event of the ledger alone\n# policy kv-growth 2000-random\n%-32s", "torch");
    printf(" %8.1f", ns_per_event(grow_kv, &r));
    printf(" %8.1f\n", ns_per_event(random_blocks, &r));
    free(r.event);
}

int main(void) {
    recorder r = { .room = 1 << 16 };
    r.event = calloc(r.room, sizeof *r.event);
    if (r.event == NULL)
        return 1;
    bench_patterns(&r);
    bench_ledger();
    bench_growth();
    free(r.event);
    return 0;
}
