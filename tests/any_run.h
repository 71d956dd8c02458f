/* any_run.h - random runs of an allocator, for tests of what is made from its events. Needs
 * cmocka.h. */
#ifndef MT_TESTS_ANY_RUN_H
#define MT_TESTS_ANY_RUN_H

#include "alloc/alloc.h"

static const char *const any_policies[] = {
    "torch",
    "torch,garbage_collection_threshold:0.5,per_process_memory_fraction:0.9",
    "torch,expandable_segments:True",
    "torch,expandable_segments:True,garbage_collection_threshold:0.5,"
    "per_process_memory_fraction:0.9",
    "torch,expandable_segments:True,max_split_size_mb:64,large_segment_size_mb:64",
    "block:2MiB",
    "block:2MiB,keep:none,fit:first",
    "direct",
    "bfc",
};
#define ANY_POLICIES (sizeof any_policies / sizeof *any_policies)

static uint64_t seed;

static inline uint64_t below(uint64_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

/* Requests of every size and stream, frees, uses by other streams, trims, on a small device. */
static inline void any_run(mt_alloc *a) {
    mt_mem mem[100] = { 0 };
    mt_error err;
    for (int i = 0; i < 1000; i++) {
        mt_mem *m = &mem[below(100)];
        uint64_t what = below(100);
        mt_request r = { .bytes = 1 + below(UINT64_C(1) << (1 + below(27))),
                         .tag = (mt_tag)below(MT_TAGS),
                         .layer = (int32_t)below(3) - 1,
                         .stream = (uint32_t)below(3) };
        if (what < 2)
            mt_alloc_trim(a);
        else if (what < 4)
            mt_alloc_hold(a, what == 2);
        else if (what < 6)
            mt_alloc_mark(a, what, what, 0);
        else if (what < 10)
            mt_alloc_use(a, *m, r.stream, &err);
        else if (m->handle != 0)
            assert_int_equal(mt_alloc_put(a, m, &err), MT_OK);
        else
            mt_alloc_get(a, &r, m, &err);
    }
    mt_alloc_unlisten(a);
}

#endif
