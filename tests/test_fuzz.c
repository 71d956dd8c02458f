/* test_fuzz.c - the inputs that the fuzzer kept, and those that once broke something: each is read
 * to its end, without a crash, a hang or a leak. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/fuzz/targets.h"

/* The bytes as they are, compressed or not, with nothing behind their end. */
static void run_file(const char *path, mt_fuzz_target *target) {
    FILE *f = fopen(path, "rb");
    struct stat info;
    assert_true(f != NULL && fstat(fileno(f), &info) == 0);
    size_t n = (size_t)info.st_size;
    uint8_t *data = malloc(n > 0 ? n : 1);
    assert_int_equal(fread(data, 1, n, f), n);
    fclose(f);
    target(data, n);
    free(data);
}

/* Runs a target on every file of its corpus. */
static void run_corpus(const char *name, mt_fuzz_target *target) {
    char folder[100], path[400];
    size_t files = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", name);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        run_file(path, target);
        files++;
    }
    closedir(d);
    assert_true(files > 0);
}

#define FORMAT(word)                                                                               \
    static void test_##word(void **state) {                                                        \
        (void)state;                                                                               \
        run_corpus(#word, mt_fuzz_##word);                                                         \
    }
FORMAT(pickle)
FORMAT(snapshot)
FORMAT(oom)
FORMAT(rmm)
FORMAT(stalloc)
FORMAT(minimalloc)
FORMAT(allocatorsim)
FORMAT(chrome)
FORMAT(pprof)
FORMAT(nsight)
FORMAT(trace)
FORMAT(mtb)
FORMAT(schedule)
FORMAT(recording)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickle),       cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_oom),          cmocka_unit_test(test_rmm),
        cmocka_unit_test(test_stalloc),      cmocka_unit_test(test_minimalloc),
        cmocka_unit_test(test_allocatorsim), cmocka_unit_test(test_chrome),
        cmocka_unit_test(test_pprof),        cmocka_unit_test(test_nsight),
        cmocka_unit_test(test_trace),        cmocka_unit_test(test_mtb),
        cmocka_unit_test(test_schedule),     cmocka_unit_test(test_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
