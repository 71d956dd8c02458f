/* test_fuzz.c - the inputs that the fuzzer kept, and those that once broke something: each is read
 * to its end, without a crash, a hang or a leak. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/input.h"
#include "tests/fuzz/targets.h"

/* Runs a target on every file of its corpus. */
static void run_corpus(const char *name, mt_fuzz_target *target) {
    char folder[100], path[400];
    size_t files = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", name);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char *data;
        size_t n;
        mt_error err;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        assert_int_equal(mt_input_read(path, SIZE_MAX, &data, &n, &err), MT_OK);
        uint8_t *exact = malloc(n > 0 ? n : 1); /* nothing behind its end */
        memcpy(exact, data, n);
        target(exact, n);
        free(exact);
        free(data);
        files++;
    }
    closedir(d);
    assert_true(files > 0);
}

static void test_pickle(void **state) {
    (void)state;
    run_corpus("pickle", mt_fuzz_pickle);
}

static void test_snapshot(void **state) {
    (void)state;
    run_corpus("snapshot", mt_fuzz_snapshot);
}

static void test_oom(void **state) {
    (void)state;
    run_corpus("oom", mt_fuzz_oom);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickle),
        cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
