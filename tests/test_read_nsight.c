/* test_read_nsight.c - exports of Nsight Systems: rows in order of time, addresses of several
 * contexts, databases that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/foreign_samples.h"
#include "tests/read_items.h"

static void test_rows(void **state) {
    (void)state;
    bytes b = nsight_sample();
    items all;
    read_sample(b.at, b.n, &all);
    assert_int_equal(all.count, 7);
    assert_string_equal(all.lacks,
                        "the bytes requested (those of blocks or segments stand for them)");
    const mt_item *x = all.at;
    assert_true(x[0].kind == MT_ITEM_ALLOC && x[0].bytes == 2097152 && x[0].device == 0);
    assert_true(x[0].process == 77 && x[0].time_ns == 0 && x[0].line == 1 && x[0].has == 0);
    assert_true(x[1].kind == MT_ITEM_ALLOC && x[1].host && x[1].device == 1);
    assert_true(x[2].bytes == 300 && x[2].stream == 7 && x[2].process == 78);
    assert_true(x[2].has == MT_HAS_COUNTERS && x[2].time_ns == 700);
    assert_true(x[3].kind == MT_ITEM_FREE && x[3].live == x[0].live && x[3].line == 4);
    assert_true(x[4].kind == MT_ITEM_FREE && x[4].live == MT_NO_LIVE);
    assert_true(x[5].kind == MT_ITEM_FREE && x[5].live == x[2].live && x[5].line == 6);
    assert_true(x[6].kind == MT_ITEM_ALLOC && x[6].bytes == 400 && x[6].line == 6);
}

static void no(const char *sql, int line, const char *words) {
    bytes b = database(sql);
    refused(b.at, b.n, line, words);
}

static void test_tables(void **state) {
    (void)state;
    no(NSIGHT_BEGIN "CREATE TABLE StringIds (id INTEGER)", 0,
       "expected a recording of nsys profile --cuda-memory-usage=true");
    no(NSIGHT_BEGIN "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER)", 0,
       "no column globalPid in CUDA_GPU_MEMORY_USAGE_EVENTS");
    /* A view would run what the file says. */
    no(NSIGHT_BEGIN "CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS SELECT 1 AS start", 0, "no table");
}

static void test_values(void **state) {
    (void)state;
#define ROW(values) NSIGHT_BEGIN NSIGHT_TABLE NSIGHT_INSERT "(" values ")"
    no(ROW("'x', 0, 0, 1, 5, 5, 2, 0, NULL, NULL, NULL"), 1, "start is no integer");
    no(ROW("1, 0, NULL, 1, 5, 5, 2, 0, NULL, NULL, NULL"), 1, "deviceId is no integer");
    no(ROW("1, 0, -1, 1, 5, 5, 2, 0, NULL, NULL, NULL"), 1, "numbers of a device, a context");
    no(ROW("1, 0, 0, 1, 5, -5, 2, 0, NULL, NULL, NULL"), 1, "bytes is negative");
    no(ROW("1, 0, 0, 1, 5, 5, 2, 3, NULL, NULL, NULL"), 1, "memoryOperationType is 3");
    no(ROW("1, 0, 0, 1, 5, 5, 2, 0, 1.5, NULL, NULL"), 1, "streamId is no integer");
}

/* Exports of older releases lack columns. */
static void test_old(void **state) {
    (void)state;
    bytes b = database(
        NSIGHT_BEGIN "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (bytes, memKind, start, globalPid, "
                     "deviceId, contextId, address, memoryOperationType); "
                     "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (64, 2, 9, 0, 0, 0, 8, 0)");
    items all;
    read_sample(b.at, b.n, &all);
    assert_true(all.count == 1 && all.at[0].bytes == 64 && all.at[0].stream == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_old),
    };
    return cmocka_run_group_tests_name("read_nsight", tests, temp_setup, temp_teardown);
}
