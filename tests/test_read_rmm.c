/* test_read_rmm.c - RMM's log, and logs by address in general (STAlloc's). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/foreign_samples.h"
#include "tests/read_items.h"

#define TEXT(t) t, sizeof t - 1

static void test_rows(void **state) {
    (void)state;
    items all;
    read_sample(TEXT(rmm), &all);
    assert_int_equal(all.count, 7);
    assert_string_equal(all.lacks, "what was reserved");
    const mt_item *x = all.at;
    assert_true(x[0].kind == MT_ITEM_ALLOC && x[0].bytes == 1000 && x[0].id == 0x7f10000000);
    assert_true(x[0].line == 2 && x[0].stream == 0 && x[0].thread == 41 && x[0].time_ns == 0);
    assert_true(x[1].stream == 3 && x[1].time_ns == 9000);
    assert_true(x[2].kind == MT_ITEM_ALLOC && x[2].refused && x[2].stream == 2 && x[2].thread == 7);
    assert_true(x[2].time_ns == 11000); /* over midnight */
    assert_true(x[3].kind == MT_ITEM_FREE && x[3].live == x[2].live && x[3].line == 4);
    assert_true(x[4].kind == MT_ITEM_FREE && x[4].live == x[0].live && x[4].line == 5);
    assert_true(x[5].kind == MT_ITEM_ALLOC && x[5].bytes == 500 && x[5].stream == 1);
    assert_true(x[6].kind == MT_ITEM_FREE && x[6].live == MT_NO_LIVE);
}

/* A default stream of a thread is another than a stream whose handle was seen first. */
static void test_streams(void **state) {
    (void)state;
    static const char text[] =
        "1,00:00:00.0,allocate,0x100,1,0x7f00\n1,00:00:00.0,allocate,0x200,1,0x8f00\n"
        "1,00:00:00.0,allocate,0x300,1,0x7f00\n1,00:00:00.0,allocate,0x400,1,0x2\n";
    items all;
    read_sample(TEXT(text), &all);
    assert_int_equal(all.count, 4);
    assert_true(all.at[0].stream == 3 && all.at[1].stream == 4 && all.at[2].stream == 3 &&
                all.at[3].stream == 2);
}

/* Without a header; columns in another order and of other names; line ends of Windows; seconds
 * since 1970; a colon before the microseconds; deallocate. */
static void test_forms(void **state) {
    (void)state;
    static const char *const texts[] = {
        "1,14:21:19.998533,allocate,0x30a000000,256,0x2\n1,14:21:19.998543,free,0x30a000000,256,"
        "0x2\n",
        "Size,Extra,Pointer,Action,Stream,Time,Thread\n"
        "256,x,0x30a000000,allocate,0x2,14:21:19.998533,1\n"
        "256,x,0x30a000000,free,0x2,14:21:19.998543,1\n",
        "Thread,Time,Action,Pointer,Size,Stream\r\n"
        "1,14:21:19:998533,allocate,0x30A000000,256,0x2\r\n"
        "1,14:21:19:998543,deallocate,0x30a000000,256,0x2\r\n",
        "Thread,Time,Action,Pointer,Size,Stream\n"
        "1,1583447190.998533,allocate,0x30a000000,256,0x2\n"
        "1,1583447190.998543,free,0x30a000000,256,0x2\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        items all;
        read_sample(texts[i], strlen(texts[i]), &all);
        assert_int_equal(all.count, 2);
        assert_true(all.at[0].bytes == 256 && all.at[0].stream == 2 && all.at[0].thread == 1);
        assert_true(all.at[0].id == 0x30a000000 && all.at[1].kind == MT_ITEM_FREE);
        assert_true(all.at[1].live == all.at[0].live && all.at[1].time_ns == 10000);
    }
}

static void test_broken(void **state) {
    (void)state;
    changed(rmm, "41,23", "x,23", 2, "expected the columns");
    changed(rmm, "41,23", "4x,23", 2, "Thread is '4x'");
    changed(rmm, "23:59:59.999990", "23:59", 2, "Time is '23:59', expected HH:MM:SS.ffffff");
    changed(rmm, "23:59:59.999990", "24:00:00", 2, "Time is '24:00:00'");
    changed(rmm, "23:59:59.999990", "23:59:59.9x", 2, "Time is");
    changed(rmm, ",allocate,", ",alloc,", 2, "Action is 'alloc', expected allocate, ");
    changed(rmm, "0x7f10000000", "7f10000000", 2, "Pointer is '7f10000000', expected an address");
    changed(rmm, "0x7f10000000", "0x", 2, "Pointer is '0x'");
    changed(rmm, "0x7f10000000", "0x11112222333344445", 2, "Pointer is");
    changed(rmm, "0x7f10000000", "(nil)", 2, "expected an address of what was allocated");
    changed(rmm, "(nil),85", "0x10,85", 4, "expected an address of what was allocated");
    changed(rmm, ",1000,0\n", ",-1,0\n", 2, "Size is '-1', expected a number of bytes");
    changed(rmm, ",1000,0\n", ",1000,cuda\n", 2, "Stream is 'cuda'");
    changed(rmm, ",1000,0\n", ",1000\n", 2, "5 columns, expected 6");
    changed(rmm, ",1000,0\n", ",1000,0,\n", 2, "7 columns, expected 6");
    changed(rmm, "0x7f10000400", "0x7f10000000", 3, "0x7f10000000 is allocated already");
    changed(rmm, "Thread,Time", "Thread,Tim", 1, "expected the columns Thread,Time,Action");
}

/* RMM's debug log is another file. */
static void test_debug_log(void **state) {
    (void)state;
    static const char text[] =
        "[1979932][14:21:19:998533][info   ] [A][Stream 0x1][Upstream 10737418240B][FAILURE]\n";
    refused(TEXT(text), 0, "RMM's debug log");
}

static void test_stalloc(void **state) {
    (void)state;
    items all;
    read_sample(TEXT(stalloc), &all);
    assert_int_equal(all.count, 4);
    assert_true(all.at[0].bytes == 1024 && all.at[0].stream == 0 && all.at[1].stream == 3);
    assert_true(all.at[2].kind == MT_ITEM_FREE && all.at[2].live == all.at[0].live);
    assert_true(all.at[3].kind == MT_ITEM_ALLOC && all.at[3].bytes == 512);
    changed(stalloc, "1 0x7f0000000400", "2 0x7f0000000400", 2, "expected 1 ADDRESS BYTES STREAM");
    changed(stalloc, "2048 0x5566", "2048", 2, "expected 1 ADDRESS BYTES STREAM");
    changed(stalloc, "2048 0x5566", "2048 5566", 2, "expected 1 ADDRESS BYTES STREAM");
    changed(stalloc, "0x7f0000000400", "0x7f0000000000", 2, "is allocated already");
}

/* A refused request that another device has room for holds nothing afterwards. */
static void test_replay(void **state) {
    (void)state;
    played p = play(TEXT(rmm), 0);
    assert_int_equal(p.status, MT_OK);
    assert_int_equal(p.peak, 8589934592 + 1024);
    assert_int_equal(p.current, 524);
    assert_true(p.requests == 4 && p.unknown == 1 && p.refused == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_streams),
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_broken),
        cmocka_unit_test(test_debug_log), cmocka_unit_test(test_stalloc),
        cmocka_unit_test(test_replay),
    };
    return cmocka_run_group_tests_name("read_rmm", tests, temp_setup, temp_teardown);
}
