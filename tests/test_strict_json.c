/* test_strict_json.c - with arguments: is each of these files one JSON text, no key twice in an
 * object? For the scripts. Without: that it would notice if not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#define STRICT (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

static void test_notices(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } known[] = {
        { "{\"a\": 1, \"b\": [1, 2.5, null, true, \"\\u00e9\"]}", true },
        { "[{\"a\": 1}, {\"a\": 2}]", true },
        { "{\"a\": 1, \"b\": 2, \"a\": 3}", false },
        { "[{\"a\": {\"b\": 1, \"b\": 1}}]", false },
        { "{\"a\": 1}{\"a\": 2}", false },
        { "{\"a\": 1,}", false },
        { "{\"a\": +1}", false },
        { "{\"a\": 01}", false },
        { "{\"a\": nan}", false },
        { "{\"a\": \"\n\"}", false },
        { "{\"a\": \"\xff\"}", false },
        { "{\"a\": 1", false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        json_t *value = json_loads(known[i].text, STRICT, NULL);
        if ((value != NULL) != known[i].good)
            fail_msg("wrong about %s", known[i].text);
        json_decref(value);
    }
}

static int check(const char *path) {
    json_error_t error;
    json_t *value = json_load_file(path, STRICT, &error);
    if (value == NULL)
        printf("%s: line %d, column %d: %s\n", path, error.line, error.column, error.text);
    json_decref(value);
    return value == NULL;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_notices) };
    int bad = 0;
    if (argc == 1)
        return cmocka_run_group_tests_name("strict_json", tests, NULL, NULL);
    for (int i = 1; i < argc; i++)
        bad |= check(argv[i]);
    return bad;
}
