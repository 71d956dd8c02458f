/* test_size.c - sizes as people write them (base/size.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"

static void test_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } known[] = {
        { "0", 0 },
        { "4096", 4096 },
        { "7B", 7 },
        { "7b", 7 },
        { "64KiB", 65536 },
        { "64kib", 65536 },
        { "64K", 65536 },
        { "64k", 65536 },
        { "64KB", 65536 },
        { "64kb", 65536 },
        { "2MB", 2 * MT_MIB },
        { "48GB", 48 * MT_GIB },
        { "48g", 48 * MT_GIB },
        { "1.5GiB", 3 * MT_GIB / 2 },
        { "1.50GiB", 3 * MT_GIB / 2 },
        { "0.5KiB", 512 },
        { "0.0009765625KiB", 1 },
        { "1.0", 1 },
        { "3.00B", 3 },
        { "17179869183.5GiB", UINT64_MAX - MT_GIB / 2 + 1 },
        { "17179869183.999999999068677425384521484375GiB", 0 }, /* too many digits: none */
        { "18446744073709551615", UINT64_MAX },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint64_t bytes = 0;
        if (mt_parse_size(known[i].text, &bytes) != (known[i].bytes > 0 || i == 0) ||
            bytes != known[i].bytes)
            fail_msg("%s is %llu", known[i].text, (unsigned long long)bytes);
    }
}

static void test_no_sizes(void **state) {
    (void)state;
    static const char *const none[] = { "",
                                        "KiB",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1 GiB",
                                        "1.",
                                        ".5GiB",
                                        "0.1KiB",
                                        "1.5",
                                        "1.5B",
                                        "1e3",
                                        "0x10",
                                        "1TiB",
                                        "1..5GiB",
                                        "1.5.5",
                                        "1KiBB",
                                        "1BK",
                                        "1.0001K",
                                        "1.-5GiB",
                                        "17179869184GiB",
                                        "18446744073709551616" };
    uint64_t bytes = 77;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (mt_parse_size(none[i], &bytes))
            fail_msg("%s is no size", none[i]);
    assert_int_equal(bytes, 77);
}

static void test_decimal_units(void **state) {
    (void)state;
    static const char *const with[] = { "2MB", "block:64kb,fit:first", "1,2Gb", "4KB..8KB*2" };
    static const char *const without[] = { "", "2MiB", "2M", "MB", "block:64KiB", "2MBit", "kb" };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        assert_true(mt_names_decimal_unit(with[i]));
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        assert_false(mt_names_decimal_unit(without[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_no_sizes),
        cmocka_unit_test(test_decimal_units),
    };
    return cmocka_run_group_tests_name("size", tests, NULL, NULL);
}
