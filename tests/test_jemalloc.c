/* test_jemalloc.c - the jemalloc policy's books against jemalloc's own, at every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc/alloc.h"
#include "alloc/jemalloc.h"
#include "base/size.h"
#include "base/threads.h"

#define PIECES 100

typedef struct bed {
    mt_source *source;
    mt_alloc *alloc;
    mt_mem mem[PIECES];
    uint32_t pieces;
    uint64_t seed, hash;
} bed;

static uint64_t below(bed *b, uint64_t n) {
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return (b->seed >> 11) % n;
}

static void on_event(void *context, const mt_event *e) {
    bed *b = context;
    const uint64_t part[] = { e->kind, e->id, e->offset, e->rounded, e->segment };
    for (int i = 0; i < 5; i++)
        b->hash = (b->hash ^ part[i]) * UINT64_C(0x9e3779b97f4a7c15) + (b->hash >> 31);
}

static void open_bed(bed *b, const char *policy, uint64_t capacity) {
    mt_error err;
    *b = (bed){ .seed = 88172645463325252 };
    assert_int_equal(mt_source_sim(&b->source, capacity, 4 * MT_KIB, &err), MT_OK);
    if (mt_alloc_open(&b->alloc, b->source, policy, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_alloc_listen(b->alloc, (mt_listener){ on_event, b });
}

static void close_bed(bed *b) {
    mt_alloc_close(b->alloc);
    assert_int_equal(b->source->used, 0);
    b->source->close(b->source);
}

static bool built(void) {
    const char *missing = mt_policy_find("jemalloc")->missing;
    if (missing != NULL)
        printf("skipped: %s\n", missing);
    return missing == NULL;
}

/* Without the library the policy says so in one line. */
static void test_absent(void **state) {
    mt_source *s;
    mt_alloc *a = NULL;
    mt_error err;
    (void)state;
    if (mt_policy_find("jemalloc")->missing == NULL)
        return;
    assert_int_equal(mt_source_sim(&s, MT_GIB, 4 * MT_KIB, &err), MT_OK);
    assert_int_equal(mt_alloc_open(&a, s, "jemalloc", &err), MT_BAD);
    assert_null(a);
    s->close(s);
}

static void check_books(const bed *b) {
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    mt_jemalloc_stats s;
    mt_error err;
    assert_true(mt_jemalloc_read(mt_alloc_policy_of(b->alloc), &s));
    assert_int_equal(s.allocated, l->requested.current + l->rounding);
    assert_int_equal(s.active + s.dirty + s.muzzy, s.committed);
    assert_int_equal(s.committed + s.retained, s.addresses);
    assert_int_equal(s.held, l->reserved.current);
    assert_true(s.committed <= s.held);
    if (mt_alloc_check(b->alloc, &err) != MT_OK)
        fail_msg("%s", err.text);
}

static void operate(bed *b) {
    mt_error err;
    uint64_t what = below(b, 1000);
    if (what < 5) {
        mt_alloc_trim(b->alloc);
    } else if (b->pieces == 0 || (b->pieces < PIECES && what < 520)) {
        uint64_t bytes = 1 + below(b, UINT64_C(1) << below(b, 24));
        mt_request r = { .bytes = bytes, .layer = -1, .stream = below(b, 8) == 0 };
        if (mt_alloc_get(b->alloc, &r, &b->mem[b->pieces], &err) == MT_OK)
            b->pieces++;
    } else {
        uint32_t k = (uint32_t)below(b, b->pieces);
        assert_int_equal(mt_alloc_put(b->alloc, &b->mem[k], &err), MT_OK);
        b->mem[k] = b->mem[--b->pieces];
    }
}

static uint64_t run(const char *policy, uint64_t capacity, uint32_t steps, bool check) {
    bed b;
    open_bed(&b, policy, capacity);
    for (uint32_t i = 0; i < steps; i++) {
        operate(&b);
        if (check)
            check_books(&b);
    }
    close_bed(&b);
    return b.hash;
}

/* On a device with room, and on one that is often full. */
static void test_books(void **state) {
    const uint32_t steps = getenv("MEMTRACE_QUICK") != NULL ? 300 : 5000;
    (void)state;
    if (!built())
        skip();
    run("jemalloc", 64 * MT_GIB, steps, true);
    run("jemalloc", 48 * MT_MIB, steps, true);
    run("jemalloc,decay:0", 64 * MT_GIB, steps, true);
    run("jemalloc,grow:4KiB", 64 * MT_GIB, steps, true);
    run("jemalloc,decay:5", 64 * MT_GIB, steps, true);
}

static void run_into(void *hash, size_t i) {
    ((uint64_t *)hash)[i] = run("jemalloc", 64 * MT_GIB, 3000, false);
}

/* The same events every time, also with other arenas at work in other threads. */
static void test_repeats(void **state) {
    uint64_t hash[8];
    mt_threads *pool;
    (void)state;
    if (!built())
        skip();
    const uint64_t first = run("jemalloc", 64 * MT_GIB, 3000, false);
    assert_int_equal(mt_threads_open(&pool, 4, NULL), MT_OK);
    mt_threads_run(pool, run_into, hash, 8);
    mt_threads_close(pool);
    for (int i = 0; i < 8; i++)
        assert_int_equal(hash[i], first);
}

/* Size classes: four to a doubling; from 14,337 bytes on a page of padding, which is split. */
static void test_classes(void **state) {
    static const uint64_t classes[][2] = { { 1, 256 },         { 257, 512 },
                                           { 1281, 1536 },     { 1537, 1792 },
                                           { 10241, 12288 },   { 14336, 14336 },
                                           { 14337, 16384 },   { 16385, 20480 },
                                           { 100000, 114688 }, { 1048577, 1310720 } };
    bed b;
    mt_error err;
    (void)state;
    if (!built())
        skip();
    open_bed(&b, "jemalloc", MT_GIB);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        assert_int_equal(mt_alloc_roundup(b.alloc, classes[i][0]), classes[i][1]);
    mt_request r = { .bytes = 2 * MT_MIB - 4096, .layer = -1 };
    assert_int_equal(mt_alloc_get(b.alloc, &r, &b.mem[0], &err), MT_OK);
    const mt_ledger *l = mt_alloc_ledger(b.alloc);
    assert_int_equal(l->rounding, 4096);
    assert_true(l->split >= 4096);
    mt_alloc_put(b.alloc, &b.mem[0], &err);
    assert_int_equal(l->cached, l->reserved.current);
    mt_alloc_trim(b.alloc);
    assert_int_equal(l->reserved.current, 0);
    close_bed(&b);
}

static void test_bad_options(void **state) {
    static const char *const bad[] = { "jemalloc,decay",      "jemalloc,decay:-2",
                                       "jemalloc,grow:1",     "jemalloc,grow:0",
                                       "jemalloc:4KiB",       "jemalloc,x:1",
                                       "jemalloc,grow:4KiB,", "jemalloc,decay:1e9" };
    mt_source *s;
    mt_alloc *a = NULL;
    mt_error err;
    (void)state;
    assert_int_equal(mt_source_sim(&s, MT_GIB, 4 * MT_KIB, &err), MT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mt_alloc_open(&a, s, bad[i], &err), MT_BAD);
    assert_null(a);
    s->close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent),      cmocka_unit_test(test_books),
        cmocka_unit_test(test_repeats),     cmocka_unit_test(test_classes),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests_name("jemalloc", tests, NULL, NULL);
}
