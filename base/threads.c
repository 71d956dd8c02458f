/* threads.c - see threads.h.
 *
 * The chunk to be taken next and the number of the job it belongs to are one 64-bit word. A thread
 * takes a chunk by exchanging the word it read for its successor: that succeeds only while the job
 * is the one whose description the thread has read. The caller works too, and then waits until all
 * chunks are done; a thread that did not wake up in time is not waited for. Threads look out for
 * the next job for a while and then sleep (futex) on a word that every job changes. */
#include "base/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How often a waiting thread looks before it sleeps: some 50 microseconds. */
#define LOOKS 2000

#define CPUS_MOST 8192

typedef void (*chunk_fn)(void *context, size_t i);

struct mt_threads {
    int threads, started;
    pthread_t *thread; /* [threads - 1] */
    /* The job. Written only while no chunk of it can be taken. */
    _Atomic(chunk_fn) chunk;
    _Atomic(void *) context;
    atomic_uint chunks;
    _Alignas(64) atomic_ullong next; /* job << 32 | chunk to be taken next */
    _Alignas(64) atomic_uint done;   /* chunks of the job that are done */
    _Alignas(64) atomic_uint call;   /* changes with every job: what threads sleep on */
    atomic_uint sleepers;
    atomic_bool closing;
};

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Waits while *word is value. */
static void wait_while(mt_threads *p, atomic_uint *word, unsigned value) {
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return;
        pause_cpu();
    }
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(word) == value)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    atomic_fetch_sub(&p->sleepers, 1);
}

/* After *word changed. A thread that goes to sleep just now sees the change: it says that it sleeps
 * before it looks for the last time. */
static void wake(mt_threads *p, atomic_uint *word) {
    if (atomic_load(&p->sleepers) > 0)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

/* Does one chunk of the current job; false when there is none left. */
static bool work(mt_threads *p) {
    unsigned long long n = atomic_load(&p->next);
    for (;;) {
        unsigned chunks = atomic_load(&p->chunks); /* read first: it is published last */
        chunk_fn chunk = atomic_load(&p->chunk);
        void *context = atomic_load(&p->context);
        if ((uint32_t)n >= chunks)
            return false;
        if (!atomic_compare_exchange_weak(&p->next, &n, n + 1))
            continue;
        chunk(context, (uint32_t)n);
        if (atomic_fetch_add(&p->done, 1) + 1 == chunks)
            wake(p, &p->done);
        return true;
    }
}

static void *thread_main(void *argument) {
    mt_threads *p = argument;
    for (unsigned seen = 0;;) {
        wait_while(p, &p->call, seen);
        seen = atomic_load(&p->call); /* before anything else: a later call must not be missed */
        if (atomic_load(&p->closing))
            return NULL;
        while (work(p))
            ;
    }
}

/* Publishes a job. The old one is done, so nothing of it can be taken while this one is written. */
static void publish(mt_threads *p, chunk_fn chunk, void *context, unsigned chunks) {
    unsigned long long job = (atomic_load(&p->next) >> 32) + 1;
    atomic_store(&p->chunks, 0);
    atomic_store(&p->next, job << 32);
    atomic_store(&p->done, 0);
    atomic_store(&p->chunk, chunk);
    atomic_store(&p->context, context);
    atomic_store(&p->chunks, chunks);
    atomic_fetch_add(&p->call, 1);
    wake(p, &p->call);
}

void mt_threads_run(mt_threads *p, void (*chunk)(void *context, size_t i), void *context,
                    size_t chunks) {
    if (p == NULL || p->threads == 1 || chunks <= 1) {
        for (size_t i = 0; i < chunks; i++)
            chunk(context, i);
        return;
    }
    publish(p, chunk, context, (unsigned)chunks);
    while (work(p))
        ;
    for (unsigned n; (n = atomic_load(&p->done)) != (unsigned)chunks;)
        wait_while(p, &p->done, n);
}

/* The lowest numbered logical CPU of this one's physical core, or the CPU itself when unknown. */
static int core_of(int cpu) {
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return cpu;
    if (fscanf(f, "%d", &first) != 1 || first < 0 || first >= CPUS_MOST)
        first = cpu;
    fclose(f);
    return first;
}

int mt_threads_cores(void) {
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MOST);
    cpu_set_t *may = CPU_ALLOC(CPUS_MOST), *cores = CPU_ALLOC(CPUS_MOST);
    int count = 0;
    if (may != NULL && cores != NULL && sched_getaffinity(0, bytes, may) == 0) {
        CPU_ZERO_S(bytes, cores);
        for (int cpu = 0; cpu < CPUS_MOST; cpu++)
            if (CPU_ISSET_S(cpu, bytes, may))
                CPU_SET_S(core_of(cpu), bytes, cores);
        count = CPU_COUNT_S(bytes, cores);
    }
    if (may != NULL)
        CPU_FREE(may);
    if (cores != NULL)
        CPU_FREE(cores);
    if (count == 0)
        count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count < MT_THREADS_MOST ? count : MT_THREADS_MOST;
}

mt_status mt_threads_open(mt_threads **out, int threads, mt_error *err) {
    mt_threads *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
    if (p == NULL)
        return mt_no_memory(err, "a pool of threads");
    *p = (mt_threads){ .threads = threads };
    p->thread = calloc((size_t)threads, sizeof *p->thread);
    if (p->thread == NULL) {
        mt_threads_close(p);
        return mt_no_memory(err, "a pool of threads");
    }
    for (; p->started < threads - 1; p->started++) {
        int reason = pthread_create(&p->thread[p->started], NULL, thread_main, p);
        if (reason != 0) {
            mt_fail(err, MT_FAILED, "cannot start thread %d of %d: %s (--threads takes fewer)",
                    p->started + 2, threads, strerror(reason));
            mt_threads_close(p);
            return MT_FAILED;
        }
    }
    *out = p;
    return MT_OK;
}

void mt_threads_close(mt_threads *p) {
    if (p == NULL)
        return;
    atomic_store(&p->closing, true);
    atomic_fetch_add(&p->call, 1);
    wake(p, &p->call);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->thread[i], NULL);
    free(p->thread);
    free(p);
}
