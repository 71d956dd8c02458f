/* test_read_pprof.c - heap profiles: samples as requests, executables apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/foreign_samples.h"
#include "tests/read_items.h"

static void test_samples(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes, line;
        uint32_t device;
    } expected[] = { { 337, 1, 1 }, { 336, 1, 1 }, { 336, 1, 1 }, { 100, 2, 0 } };
    bytes b = pprof_sample();
    items all;
    read_sample(b.at, b.n, &all);
    assert_int_equal(all.count, 4);
    assert_string_equal(all.lacks, "what was reserved, frees, streams");
    for (uint32_t i = 0; i < 4; i++)
        assert_true(all.at[i].kind == MT_ITEM_ALLOC && all.at[i].bytes == expected[i].bytes &&
                    all.at[i].line == expected[i].line && all.at[i].live == i &&
                    all.at[i].device == expected[i].device);
}

/* An executable of -1 bytes is none; the other is told in a note. */
static void test_executables(void **state) {
    (void)state;
    bytes b = pprof_sample();
    mt_reader *r;
    mt_item item;
    mt_error err;
    assert_int_equal(mt_reader_open(&r, temp_write("recording", b.at, b.n), &err), MT_OK);
    do
        assert_int_equal(mt_reader_next(r, &item, &err), MT_OK);
    while (item.kind == MT_ITEM_ALLOC);
    assert_int_equal(item.kind, MT_ITEM_NOTE);
    assert_string_equal(item.text, "executables: 1 of 70 bytes, not among the requests");
    assert_int_equal(mt_reader_next(r, &item, &err), MT_OK);
    assert_int_equal(item.kind, MT_ITEM_END);
    mt_reader_close(r);
}

/* A count beyond all measure is no million of requests. */
static void test_counts(void **state) {
    (void)state;
    static const int64_t counts[] = { INT64_MAX, -5, 0, 200 };
    bytes b = { .n = 0 };
    items all;
    put_pair(&b, 1, ALLOCATIONS, COUNT);
    put_pair(&b, 1, SPACE, BYTES);
    for (size_t i = 0; i < 4; i++)
        put_sample(&b, i % 2 == 0, counts[i], i == 3 ? 100 : INT64_MAX, BUFFER, TPU_0);
    put_strings(&b);
    read_sample(b.at, b.n, &all);
    assert_int_equal(all.count, 4);
    assert_true(all.at[0].bytes == INT64_MAX && all.at[3].bytes == 100);
}

static void test_broken(void **state) {
    (void)state;
    bytes b = { .n = 0 };
    put_pair(&b, 1, ALLOCATIONS, COUNT);
    put_strings(&b);
    refused(b.at, b.n, 0, "no sample type space or inuse_space in bytes");
    b = pprof_sample();
    refused(b.at, b.n - 1, 0, "not whole from byte");
    b = (bytes){ .n = 0 };
    put_pair(&b, 1, SPACE, BYTES);
    put_bytes(&b, 2, "\x12\x05\x01", 3); /* five bytes of values, one there */
    put_strings(&b);
    refused(b.at, b.n, 1, "a sample that is not whole");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_executables),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests_name("read_pprof", tests, temp_setup, temp_teardown);
}
