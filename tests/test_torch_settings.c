/* test_torch_settings.c - strings of allocator settings, read as PyTorch's own reader was recorded
 * to read them (tests/oracle/settings.py): refused, or what they set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/alloc.h"
#include "base/size.h"
#include "tests/recordings.h"

static char release[16];
static int strings, wrong;

/* The policy that a string of settings makes, in its own words; NULL if it is refused. */
static char *policy_of(const char *settings, mt_error *err) {
    char spec[8192], *text = NULL;
    mt_source *source;
    mt_alloc *a;
    assert_int_equal(mt_source_sim(&source, MT_GIB, 2 * MT_MIB, err), MT_OK);
    snprintf(spec, sizeof spec, "torch,version:%s%s%s", release, *settings != '\0' ? "," : "",
             settings);
    mt_status status = mt_alloc_open(&a, source, spec, err);
    if (status == MT_OK) {
        text = strdup(mt_alloc_policy(a));
        mt_alloc_close(a);
    } else {
        assert_int_equal(status, MT_BAD);
    }
    source->close(source);
    return text;
}

/* Replaces \t, \n and the like; in place. */
static void unescape(char *text) {
    static const char letters[] = "tnvfr", values[] = "\t\n\v\f\r";
    char *out = text;
    for (const char *at = text; *at != '\0';) {
        const char *letter = *at == '\\' ? strchr(letters, at[1]) : NULL;
        unsigned code;
        if (letter != NULL && *letter != '\0') {
            *out++ = values[letter - letters];
            at += 2;
        } else if (sscanf(at, "\\x%2x", &code) == 1) {
            *out++ = (char)code;
            at += 4;
        } else {
            *out++ = *at++;
        }
    }
    *out = '\0';
}

/* What memtrace refuses on purpose where PyTorch takes the first digits, wraps a negative number
 * around, or cuts a large one down. */
static bool sloppy_number(const char *settings) {
    static const char *const texts[] = {
        "max_split_size_mb:-1",
        "max_split_size_mb:20.5",
        "max_split_size_mb:21MB",
        "max_split_size_mb:+32",
        "max_split_size_mb:40\xa0",
        "max_split_size_mb:99999999999999",
        "max_split_size_mb:17592186044415",
        "max_split_size_mb:17592186044416",
        "garbage_collection_threshold:0.5x",
        "large_segment_size_mb:17592186044416",
        "large_segment_size_mb:17592186044427",
        "max_non_split_rounding_mb:17592186044436",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(settings, texts[i]) == 0)
            return true;
    return false;
}

/* Up to 2.9 only blanks were skipped; memtrace skips all white space for every release. */
static bool white_space_of_old(const char *settings) {
    return strcmp(release, "2.8.0") == 0 && strpbrk(settings, "\t\n\v\f\r") != NULL;
}

static bool as_recorded(const char *ours, const char *recorded, const char *settings) {
    mt_error err = { MT_OK, "" };
    if (strcmp(recorded, "refused") == 0 || sloppy_number(settings))
        return ours == NULL || white_space_of_old(settings);
    if (strcmp(recorded, "-") == 0)
        return ours != NULL;
    char *theirs = policy_of(strcmp(recorded, "none") == 0 ? "" : recorded, &err);
    bool same = ours != NULL && theirs != NULL && strcmp(ours, theirs) == 0;
    free(theirs);
    return same;
}

static void check_string(const char *path, char *settings, const char *recorded) {
    mt_error err = { MT_OK, "" };
    unescape(settings);
    char *ours = policy_of(settings, &err);
    if (!as_recorded(ours, recorded, settings)) {
        print_error("%s: \"%s\": %s, recorded %s\n", path, settings, ours ? ours : err.text,
                    recorded);
        wrong++;
    }
    strings++;
    free(ours);
}

static void check_file(const char *path, void *context) {
    char line[4096];
    (void)context;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        char *tab = strchr(line, '\t');
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "# torch %15[0-9.]", release) == 1)
            continue;
        assert_non_null(tab);
        *tab = '\0';
        check_string(path, line, tab + 1);
    }
    fclose(f);
}

static void test_recorded(void **state) {
    (void)state;
    assert_int_equal(for_recordings("torch-*/settings.tsv", "none", 1, check_file, NULL), 6);
    print_message("%d strings\n", strings);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_recorded) };
    return cmocka_run_group_tests_name("torch settings", tests, NULL, NULL);
}
