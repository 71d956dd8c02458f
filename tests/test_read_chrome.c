/* test_read_chrome.c - PyTorch's profiler: memory events in order of time, and what old and other
 * files say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/foreign_samples.h"
#include "tests/read_items.h"

#define TEXT(t) t, sizeof t - 1

static void test_events(void **state) {
    (void)state;
    items all;
    read_sample(TEXT(chrome), &all);
    assert_int_equal(all.count, 6);
    assert_string_equal(
        all.lacks, "the bytes requested (those of blocks or segments stand for them), streams");
    const mt_item *x = all.at;
    assert_true(x[0].kind == MT_ITEM_ALLOC && x[0].bytes == 1024 && x[0].time_ns == 0);
    assert_true(x[0].line == 6 && x[0].counters == 2 && (x[0].has & MT_HAS_COUNTERS) != 0);
    assert_true(x[1].kind == MT_ITEM_ALLOC && x[1].bytes == 512 && x[1].time_ns == 9750);
    assert_true(x[2].kind == MT_ITEM_ALLOC && x[2].host && x[2].bytes == 64);
    assert_true(x[3].kind == MT_ITEM_FREE && !x[3].host && x[3].live == x[0].live);
    assert_true(x[4].kind == MT_ITEM_ALLOC && x[4].refused && x[4].bytes == 99999999);
    assert_true(x[5].kind == MT_ITEM_FREE && x[5].live == x[4].live && x[5].time_ns == 29500);
}

/* The totals stand beside their event. */
static void test_totals(void **state) {
    (void)state;
    static const uint64_t allocated[] = { 1024, 1536, 64, 512, 512, 512 };
    mt_reader *r;
    mt_item item;
    mt_error err;
    assert_int_equal(mt_reader_open(&r, temp_write("recording", TEXT(chrome)), &err), MT_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(mt_reader_next(r, &item, &err), MT_OK);
        assert_string_equal(item.counter[0].name, "allocated");
        assert_int_equal(item.count[0], allocated[i]);
        assert_int_equal(item.count[1], item.host ? 0 : 2097152);
    }
    mt_reader_close(r);
}

#define EVENT(ts, bytes, addr)                                                                     \
    "{\"name\":\"[memory]\",\"ts\":" ts                                                            \
    ",\"args\":{\"Device Type\":1,\"Device Id\":0,\"Bytes\":" bytes addr "}}"

/* An array alone; a request of what is live, whose free is missing. */
static void test_again(void **state) {
    (void)state;
    static const char text[] = "[{\"ph\":\"M\"}," EVENT("1", "512", ",\"Addr\":64") "," EVENT(
        "2", "1024", ",\"Addr\":64") "," EVENT("2", "-1024", ",\"Addr\":64") "]";
    items all;
    read_sample(TEXT(text), &all);
    assert_int_equal(all.count, 4);
    assert_true(all.at[0].bytes == 512 && all.at[1].kind == MT_ITEM_FREE);
    assert_true(all.at[1].live == all.at[0].live && all.at[2].kind == MT_ITEM_ALLOC);
    assert_true(all.at[2].bytes == 1024 && all.at[3].live == all.at[2].live);
    assert_non_null(strstr(all.lacks, "what was reserved"));
}

/* Profiles without addresses tell totals. */
static void test_old(void **state) {
    (void)state;
    static const char text[] = "{\"traceEvents\":[" EVENT("1", "512", "") "," EVENT(
        "2", "1024", "") "," EVENT("3", "-512", "") "]}";
    static const int64_t total[] = { 512, 1536, 1024 };
    items all;
    read_sample(TEXT(text), &all);
    assert_int_equal(all.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(all.at[i].kind == MT_ITEM_STATISTIC && all.at[i].value == total[i]);
    assert_non_null(strstr(all.lacks, "what was reserved, frees"));
}

static void test_broken(void **state) {
    (void)state;
    static const char none[] = "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"x\"}]}";
    refused(TEXT(none), 1, "no [memory] event, expected a profile with profile_memory=True");
    changed(chrome, "\"ts\": 30", "\"ts\": 1e99", 9, "expected a time in microseconds");
    changed(chrome, "}},\n", "}}\n", 6, "a comma or a closing bracket");
    changed(chrome, "\"Device Id\": 0, \"Addr\": 4096, \"Bytes\": 1024",
            "\"Device Id\": -7, \"Addr\": 4096, \"Bytes\": 1024", 6, "the number of a device");
    changed(chrome, "\"traceName\": \"x\"\n}", "\"traceName\": \"x\"\n}}", 15, "nothing behind");
}

/* Host memory is not the device's, and another device is another replay's. */
static void test_replay(void **state) {
    (void)state;
    played p = play(TEXT(chrome), 0);
    assert_int_equal(p.status, MT_OK);
    assert_true(p.requests == 3 && p.elsewhere == 1 && p.current == 512);
    p = play(TEXT(chrome), 1);
    assert_int_equal(p.status, MT_BAD);
    assert_true(p.requests == 0 && p.elsewhere == 4);
    assert_non_null(strstr(p.err.text, "no request of device 1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events), cmocka_unit_test(test_totals), cmocka_unit_test(test_again),
        cmocka_unit_test(test_old),    cmocka_unit_test(test_broken), cmocka_unit_test(test_replay),
    };
    return cmocka_run_group_tests_name("read_chrome", tests, temp_setup, temp_teardown);
}
