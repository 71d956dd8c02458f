/* pairs.c - the request patterns of tests/bench_alloc.c for another allocator: nanoseconds for each
 * request and free. Built and called by bench_torch.py. */
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int32_t (*get_function)(uint64_t bytes, void **at);
typedef int32_t (*put_function)(void *at);

double oracle_pairs(int pattern, get_function get, put_function put);

static get_function get_block;
static put_function put_block;
static uint64_t seed;

static uint32_t random32(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static uint64_t random_size(void) {
    uint32_t shift = random32() % 14;
    return (512u << shift) + random32() % (512u << shift);
}

static void *get(uint64_t bytes) {
    void *at = NULL;
    return get_block(bytes, &at) == 0 ? at : NULL;
}

static void put(void **at) {
    if (*at != NULL)
        put_block(*at);
    *at = NULL;
}

static uint64_t grow_kv(void) {
    static void *kv[24];
    for (uint64_t t = 1; t <= 1024; t++)
        for (int i = 0; i < 24; i++) {
            void *longer = get(3072 * t);
            put(&kv[i]);
            kv[i] = longer;
        }
    for (int i = 0; i < 24; i++)
        put(&kv[i]);
    return 24 * 1024;
}

static uint64_t random_blocks(void) {
    static void *live[2000];
    uint64_t pairs = 200000;
    seed = 1;
    for (uint64_t i = 0; i < pairs; i++) {
        void **at = &live[random32() % 2000];
        put(at);
        *at = get(random_size());
    }
    for (int i = 0; i < 2000; i++)
        put(&live[i]);
    return pairs;
}

static uint64_t one_block(void) {
    uint64_t pairs = 1000000;
    for (uint64_t i = 0; i < pairs; i++) {
        void *at = get(4096);
        put(&at);
    }
    return pairs;
}

double oracle_pairs(int pattern, get_function getter, put_function putter) {
    static uint64_t (*const patterns[])(void) = { grow_kv, random_blocks, one_block };
    struct timespec a, b;
    get_block = getter;
    put_block = putter;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t n = patterns[pattern]();
    clock_gettime(CLOCK_MONOTONIC, &b);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)n;
}
