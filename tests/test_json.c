/* test_json.c - JSON as it is written; another program's reader finds in it what was meant. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/json.h"
#include "tests/temp_files.h"

static char *text;
static size_t size;
static FILE *file;

static void begin(mt_json *j) {
    file = open_memstream(&text, &size);
    mt_json_to_file(j, file);
}

/* What was written since begin; the next call frees it. */
static const char *end(mt_json *j, mt_status expected) {
    static char *last;
    mt_error err;
    assert_int_equal(mt_json_finish(j, &err), expected);
    fclose(file);
    free(last);
    return last = text;
}

static void test_layout(void **state) {
    (void)state;
    mt_json j;
    begin(&j);
    mt_json_begin_object(&j, NULL);
    mt_json_text(&j, "a", "b");
    mt_json_line(&j);
    mt_json_begin_array(&j, "rows");
    for (uint64_t i = 0; i < 2; i++) {
        mt_json_line(&j);
        mt_json_begin_object(&j, NULL);
        mt_json_unsigned(&j, "x", i);
        mt_json_unsigned(&j, "y", i);
        mt_json_end(&j);
    }
    mt_json_end(&j);
    mt_json_begin_object(&j, "none");
    mt_json_end(&j);
    mt_json_line(&j);
    mt_json_end(&j);
    assert_string_equal(end(&j, MT_OK), "{\"a\": \"b\",\n\"rows\": [\n  {\"x\": 0, \"y\": 0},\n"
                                        "  {\"x\": 1, \"y\": 1}], \"none\": {}\n}\n");
    begin(&j);
    mt_json_null(&j, NULL);
    assert_string_equal(end(&j, MT_OK), "null\n");
}

static void test_values(void **state) {
    (void)state;
    mt_json j;
    begin(&j);
    mt_json_begin_array(&j, NULL);
    mt_json_unsigned(&j, NULL, UINT64_MAX);
    mt_json_signed(&j, NULL, INT64_MIN);
    mt_json_fixed(&j, NULL, 1.0 / 3, 3);
    mt_json_fixed(&j, NULL, -2.5, 0);
    mt_json_fixed(&j, NULL, NAN, 3);
    mt_json_fixed(&j, NULL, INFINITY, 3);
    mt_json_bool(&j, NULL, true);
    mt_json_bool(&j, NULL, false);
    mt_json_text(&j, NULL, NULL);
    mt_json_text(&j, NULL, "");
    mt_json_end(&j);
    assert_string_equal(end(&j, MT_OK), "[18446744073709551615, -9223372036854775808, 0.333, -2, "
                                        "null, null, true, false, null, \"\"]\n");
    begin(&j);
    mt_json_fixed(&j, NULL, -1.7976931348623157e308, 20);
    assert_int_equal(strlen(end(&j, MT_OK)), 1 + 309 + 1 + 20 + 1);
}

/* Long strings of every kind of character, at every place of a piece, come back. */
static void test_strings(void **state) {
    (void)state;
    static const char *const kinds[] = { "a", "ü", "€", "😀", "\n", "\"" };
    char wanted[2000];
    mt_json j;
    for (size_t shift = 0; shift < 70; shift++) {
        char *at = wanted;
        for (size_t i = 0; i < shift; i++)
            *at++ = 'x';
        for (size_t i = 0; i < 300; i++)
            at = stpcpy(at, kinds[(i * i + shift) % 6]);
        begin(&j);
        mt_json_begin_object(&j, NULL);
        mt_json_text(&j, wanted, wanted);
        mt_json_end(&j);
        json_t *object = json_loads(end(&j, MT_OK), JSON_REJECT_DUPLICATES, NULL);
        assert_string_equal(json_string_value(json_object_get(object, wanted)), wanted);
        json_decref(object);
    }
    begin(&j);
    mt_json_text(&j, NULL, "\xff\xe2\x82");
    assert_string_equal(end(&j, MT_OK), "\"\\ufffd\\ufffd\\ufffd\"\n");
}

static void test_mistakes(void **state) {
    (void)state;
    mt_json j;
    begin(&j);
    mt_json_begin_object(&j, NULL);
    mt_json_null(&j, "a");
    mt_json_null(&j, "b");
    mt_json_null(&j, "a");
    mt_json_end(&j);
    end(&j, MT_CHECK);
    begin(&j);
    mt_json_begin_object(&j, NULL);
    end(&j, MT_CHECK);
    begin(&j);
    mt_json_end(&j);
    end(&j, MT_CHECK);
    begin(&j);
    mt_json_begin_object(&j, NULL);
    mt_json_null(&j, NULL);
    mt_json_end(&j);
    end(&j, MT_CHECK);
    begin(&j);
    mt_json_begin_array(&j, NULL);
    mt_json_null(&j, "key");
    mt_json_end(&j);
    end(&j, MT_CHECK);
    begin(&j);
    for (int i = 0; i <= MT_JSON_DEPTH; i++)
        mt_json_begin_array(&j, NULL);
    end(&j, MT_CHECK);
}

/* The same keys in objects beside and inside each other are no mistake; nor are many. */
static void test_keys(void **state) {
    (void)state;
    mt_json j;
    char key[16];
    begin(&j);
    mt_json_begin_object(&j, NULL);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        mt_json_begin_object(&j, key);
        mt_json_null(&j, "k0");
        mt_json_null(&j, "k1");
        mt_json_end(&j);
    }
    mt_json_end(&j);
    json_t *object = json_loads(end(&j, MT_OK), JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_object_size(object), 1000);
    json_decref(object);
}

static void test_output(void **state) {
    (void)state;
    mt_json j;
    mt_output *out;
    assert_int_equal(mt_output_open(&out, temp_path("x.json"), NULL), MT_OK);
    mt_json_to_output(&j, out);
    mt_json_begin_array(&j, NULL);
    mt_json_unsigned(&j, NULL, 1);
    mt_json_end(&j);
    assert_int_equal(mt_json_finish(&j, NULL), MT_OK);
    assert_int_equal(mt_output_commit(out, NULL), MT_OK);
    json_t *array = json_load_file(temp_path("x.json"), 0, NULL);
    assert_int_equal(json_integer_value(json_array_get(array, 0)), 1);
    json_decref(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),  cmocka_unit_test(test_values),
        cmocka_unit_test(test_strings), cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_keys),    cmocka_unit_test(test_output),
    };
    return cmocka_run_group_tests_name("json", tests, temp_setup, temp_teardown);
}
