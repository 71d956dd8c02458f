/* test_bfc.c - the bfc policy against examples worked out by hand from its rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc/alloc.h"
#include "base/size.h"

typedef struct bed {
    mt_source *source;
    mt_alloc *alloc;
    mt_event last;
    uint64_t region[32]; /* bytes of each region taken, in order */
    uint32_t regions;
} bed;

static void on_event(void *context, const mt_event *e) {
    bed *b = context;
    b->last = *e;
    if (e->kind == MT_EV_SEGMENT_ALLOC && b->regions < 32)
        b->region[b->regions++] = e->rounded;
}

static void open_bed(bed *b, const char *policy, uint64_t capacity) {
    mt_error err;
    *b = (bed){ 0 };
    assert_int_equal(mt_source_sim(&b->source, capacity, 4 * MT_KIB, &err), MT_OK);
    if (mt_alloc_open(&b->alloc, b->source, policy, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_alloc_listen(b->alloc, (mt_listener){ on_event, b });
}

static void close_bed(bed *b) {
    mt_alloc_close(b->alloc);
    b->source->close(b->source);
}

static mt_status get(bed *b, uint64_t bytes, mt_mem *mem) {
    mt_request r = { .bytes = bytes, .tag = MT_OTHER, .layer = -1 };
    mt_error err;
    mt_status status = mt_alloc_get(b->alloc, &r, mem, &err);
    assert_int_equal(mt_alloc_check(b->alloc, &err), MT_OK);
    return status;
}

/* A request that must be served there, by a chunk of that size. */
static mt_mem at(bed *b, uint64_t bytes, uint32_t segment, uint64_t offset, uint64_t rounded) {
    mt_mem mem;
    assert_int_equal(get(b, bytes, &mem), MT_OK);
    assert_int_equal(b->last.segment, segment);
    assert_int_equal(b->last.offset, offset);
    assert_int_equal(b->last.rounded, rounded);
    assert_int_equal(b->last.pool, MT_POOL_REGION);
    return mem;
}

static void put(bed *b, mt_mem mem) {
    mt_error err;
    assert_int_equal(mt_alloc_put(b->alloc, &mem, &err), MT_OK);
    assert_int_equal(mt_alloc_check(b->alloc, &err), MT_OK);
}

static void regions(const bed *b, uint32_t n, const uint64_t *bytes) {
    assert_int_equal(b->regions, n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(b->region[i], bytes[i]);
}

/* 1,000 bytes round to 1,024. The rest of the first region, 1,047,552, is less than twice 600,064:
 * it is served whole. 5 MiB do not fit the 4 MiB that are next: doubled to 8, which then stays next
 * for the following region and only after it becomes 16. */
static void test_regions_double(void **state) {
    bed b;
    (void)state;
    open_bed(&b, "bfc", MT_GIB);
    at(&b, 1000, 0, 0, 1024);
    at(&b, 600000, 0, 1024, 1047552);
    at(&b, 256, 1, 0, 256);
    at(&b, 5 * MT_MIB, 2, 0, 8 * MT_MIB);
    at(&b, 5 * MT_MIB, 3, 0, 8 * MT_MIB);
    at(&b, 3 * MT_MIB, 4, 0, 3 * MT_MIB);
    regions(&b, 5, (uint64_t[]){ MT_MIB, 2 * MT_MIB, 8 * MT_MIB, 8 * MT_MIB, 16 * MT_MIB });
    at(&b, 1, 1, 256, 256); /* the smallest that fits: 2 MiB - 256, not 13 MiB */
    close_bed(&b);
}

/* Holes of 1, 1 and 2 MiB between chunks of 256 bytes. */
static void test_best_fit(void **state) {
    bed b;
    mt_mem hole[3];
    const uint64_t second = MT_MIB + 256, third = 2 * MT_MIB + 512;
    (void)state;
    open_bed(&b, "bfc:16MiB", MT_GIB);
    hole[0] = at(&b, MT_MIB, 0, 0, MT_MIB);
    at(&b, 256, 0, MT_MIB, 256);
    hole[1] = at(&b, MT_MIB, 0, second, MT_MIB);
    at(&b, 256, 0, second + MT_MIB, 256);
    hole[2] = at(&b, 2 * MT_MIB, 0, third, 2 * MT_MIB);
    at(&b, 256, 0, third + 2 * MT_MIB, 256);
    for (int i = 2; i >= 0; i--)
        put(&b, hole[i]);
    at(&b, 600 * MT_KIB, 0, 0, MT_MIB);            /* ties by address; no split below twice */
    at(&b, 512 * MT_KIB, 0, second, 512 * MT_KIB); /* exactly twice: split */
    at(&b, 512 * MT_KIB, 0, second + 512 * MT_KIB, 512 * MT_KIB);
    at(&b, 1536 * MT_KIB, 0, third, 2 * MT_MIB);
    close_bed(&b);
}

/* What would be left over is split off from 128 MiB on, however little that is of the chunk. */
static void test_leftover(void **state) {
    bed b;
    mt_mem mem;
    (void)state;
    open_bed(&b, "bfc:1GiB", 8 * MT_GIB);
    at(&b, 600 * MT_MIB, 0, 0, 600 * MT_MIB);
    mem = at(&b, 300 * MT_MIB, 0, 600 * MT_MIB, 424 * MT_MIB); /* 124 MiB over */
    put(&b, mem);
    mem = at(&b, 296 * MT_MIB + 1, 0, 600 * MT_MIB, 424 * MT_MIB); /* 256 bytes short of 128 MiB */
    put(&b, mem);
    at(&b, 296 * MT_MIB, 0, 600 * MT_MIB, 296 * MT_MIB);
    at(&b, 128 * MT_MIB, 0, 896 * MT_MIB, 128 * MT_MIB);
    regions(&b, 1, (uint64_t[]){ MT_GIB });
    close_bed(&b);
}

/* A free merges with what is free on both sides, and only with that. */
static void test_coalescing(void **state) {
    bed b;
    mt_mem m[4];
    (void)state;
    open_bed(&b, "bfc", MT_GIB);
    for (uint32_t i = 0; i < 4; i++)
        m[i] = at(&b, 256, 0, 256 * i, 256);
    put(&b, m[0]);
    put(&b, m[2]);
    assert_int_equal(mt_alloc_largest_free(b.alloc), MT_MIB - 1024);
    put(&b, m[1]);
    m[0] = at(&b, 768, 0, 0, 768);
    put(&b, m[0]);
    put(&b, m[3]);
    assert_int_equal(mt_alloc_largest_free(b.alloc), MT_MIB);
    assert_int_equal(mt_alloc_ledger(b.alloc)->cached, MT_MIB);
    close_bed(&b);
}

/* 10 MiB hold regions of 4, 4 and the 2 that are left, though 8 are next. 2 MiB more are refused;
 * of 5 MiB, once the first two regions are free: they go back, and the region is what is left
 * then. */
static void test_capacity(void **state) {
    bed b;
    mt_mem m[2], none;
    (void)state;
    open_bed(&b, "bfc", 10 * MT_MIB);
    m[0] = at(&b, 3 * MT_MIB, 0, 0, 4 * MT_MIB);
    m[1] = at(&b, 3 * MT_MIB, 1, 0, 4 * MT_MIB);
    at(&b, MT_MIB, 2, 0, MT_MIB);
    assert_int_equal(get(&b, 2 * MT_MIB, &none), MT_NO_MEMORY);
    assert_int_equal(mt_alloc_refusal(b.alloc)->segment, 2 * MT_MIB);
    assert_int_equal(mt_alloc_refusal(b.alloc)->largest_free, MT_MIB);
    put(&b, m[0]);
    put(&b, m[1]);
    assert_int_equal(get(&b, 8 * MT_MIB + 1, &none), MT_NO_MEMORY); /* giving back would not do */
    assert_int_equal(mt_alloc_ledger(b.alloc)->reserved.current, 10 * MT_MIB);
    at(&b, 5 * MT_MIB, 3, 0, 8 * MT_MIB);
    regions(&b, 4, (uint64_t[]){ 4 * MT_MIB, 4 * MT_MIB, 2 * MT_MIB, 8 * MT_MIB });
    close_bed(&b);
}

/* 868 KiB are left on the device. 1 MiB is refused, so is 0.9 of it, 943,718 rounded up to 943,872;
 * 0.9 of that is 849,484, rounded up to 849,664, which fits. */
static void test_shrinking(void **state) {
    bed b;
    mt_error err;
    void *others;
    (void)state;
    open_bed(&b, "bfc", 10 * MT_MIB);
    const uint64_t taken = 10 * MT_MIB - 868 * MT_KIB;
    assert_int_equal(b.source->take(b.source, taken, &others, &err), MT_OK);
    at(&b, 1000, 0, 0, 1024);
    regions(&b, 1, (uint64_t[]){ 849664 });
    b.source->give(b.source, others, taken);
    close_bed(&b);
}

/* With nothing left the shrinking ends at 2,304 bytes, of which 0.9 round to the same. A request
 * that is larger ends it before: 0.9 of 1 MiB are less than 950,000. */
static void test_shrinking_ends(void **state) {
    bed b;
    mt_error err;
    mt_mem none;
    void *others;
    (void)state;
    open_bed(&b, "bfc", 10 * MT_MIB);
    assert_int_equal(b.source->take(b.source, 10 * MT_MIB, &others, &err), MT_OK);
    assert_int_equal(get(&b, 256, &none), MT_NO_MEMORY);
    assert_int_equal(mt_alloc_refusal(b.alloc)->segment, 4096); /* 2,304 in whole pages */
    assert_int_equal(get(&b, 950000, &none), MT_NO_MEMORY);
    assert_int_equal(mt_alloc_refusal(b.alloc)->segment, MT_MIB);
    b.source->give(b.source, others, 10 * MT_MIB);
    close_bed(&b);
}

/* After a trim the next region is as large as if the held ones were all there ever were. */
static void test_trim(void **state) {
    bed b;
    mt_mem m[3];
    (void)state;
    open_bed(&b, "bfc", MT_GIB);
    m[0] = at(&b, MT_MIB, 0, 0, MT_MIB);
    m[1] = at(&b, 2 * MT_MIB, 1, 0, 2 * MT_MIB);
    m[2] = at(&b, 4 * MT_MIB, 2, 0, 4 * MT_MIB);
    mt_alloc_trim(b.alloc);
    put(&b, m[2]);
    mt_alloc_trim(b.alloc);
    m[2] = at(&b, MT_MIB, 3, 0, MT_MIB);
    for (int i = 0; i < 3; i++)
        put(&b, m[i]);
    mt_alloc_trim(b.alloc);
    at(&b, 256, 4, 0, 256);
    const uint64_t expected[] = { MT_MIB, 2 * MT_MIB, 4 * MT_MIB, 4 * MT_MIB, MT_MIB };
    regions(&b, 5, expected);
    close_bed(&b);
}

static void test_bad_options(void **state) {
    static const char *const bad[] = { "bfc:0", "bfc:100", "bfc:x", "bfc:1MiB,x", "bfc:4096PiB" };
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
        cmocka_unit_test(test_regions_double), cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_leftover),       cmocka_unit_test(test_coalescing),
        cmocka_unit_test(test_capacity),       cmocka_unit_test(test_shrinking),
        cmocka_unit_test(test_shrinking_ends), cmocka_unit_test(test_trim),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests_name("bfc", tests, NULL, NULL);
}
