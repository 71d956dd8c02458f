/* test_terminal.c - the progress bar's line (cli/terminal.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli.h"

#define BAR "##############################"

static void assert_line(uint64_t done, uint64_t total, double seconds, const char *expected) {
    const cli_progress p = { .what = "measuring", .unit = "steps", .total = total };
    char text[256];
    cli_progress_line(text, sizeof text, &p, done, seconds);
    assert_string_equal(text, expected);
}

static void test_part(void **state) {
    (void)state;
    assert_line(0, 10, 0,
                "measuring [..............................]   0 %  0.0 steps/s  0 s left");
    assert_line(5, 10, 2,
                "measuring [###############...............]  50 %  2.5 steps/s  2 s left");
    assert_line(10, 10, 4, "measuring [" BAR "] 100 %  2.5 steps/s  0 s left");
}

/* More steps than were counted on: a full bar and no time left, not 2^64 steps of it. */
static void test_more_than_all(void **state) {
    (void)state;
    assert_line(12, 10, 4, "measuring [" BAR "] 100 %  3.0 steps/s  0 s left");
    assert_line(1000, 10, 4, "measuring [" BAR "] 100 %  250.0 steps/s  0 s left");
    assert_line(3, 1, 1, "measuring [" BAR "] 100 %  3.0 steps/s  0 s left");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_part),
        cmocka_unit_test(test_more_than_all),
    };
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
