/* test_json_scan.c - JSON read one token at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/json_scan.h"
#include "tests/temp_files.h"

/* The tokens of a text as letters, their texts behind them; "!" and the message when it is none. */
static const char *scan(const char *text, size_t n) {
    static char out[2000];
    static const char letters[] = ".{[)ksnw";
    mt_scan s = { .in = NULL };
    mt_token t;
    mt_error err;
    mt_status status;
    size_t at = 0;
    assert_int_equal(mt_input_open(&s.in, temp_write("t.json", text, n), MT_INPUT_ANY, &err),
                     MT_OK);
    while ((status = mt_scan_next(&s, &t, &err)) == MT_OK && t != MT_TOKEN_END && at < 1500)
        at += (size_t)sprintf(out + at, "%c%s", letters[t], t >= MT_TOKEN_KEY ? s.text : "");
    if (status != MT_OK)
        snprintf(out + at, sizeof out - at, "!%s", strstr(err.text, "t.json"));
    mt_input_close(s.in);
    return out;
}

#define SCAN(text) scan(text, sizeof text - 1)

static void test_tokens(void **state) {
    (void)state;
    assert_string_equal(SCAN("{\"a\": [1, -2.5e+3, \"x\"], \"b\": {}, \"c\": null}"),
                        "{ka[n1n-2.5e+3sx)kb{)kcwnull)");
    assert_string_equal(SCAN(" [ ] \n"), "[)");
    assert_string_equal(SCAN("\"a\\\\\\\"\\n\\u00e4\\/\""), "sa\\\"\n\\u00e4/");
    assert_string_equal(SCAN("[NaN, -Infinity, true]"), "[nNaNn-Infinitywtrue)");
}

static void test_broken(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        { "", "!t.json:1: expected a value" },
        { "[1,]", "[n1!t.json:1: expected a value" },
        { "[1 2]", "[n1!t.json:1: expected a comma or a closing bracket" },
        { "[1}", "[n1!t.json:1: expected a comma or a closing bracket" },
        { "{1: 2}", "{!t.json:1: expected a key in double quotes" },
        { "{\"a\" 2}", "{!t.json:1: expected a colon behind a key" },
        { "{\"a\": 2,}", "{kan2!t.json:1: expected a key in double quotes" },
        { "{\"a\":}", "{ka!t.json:1: expected a value" },
        { "[\n01x]", "[!t.json:2: expected a value" },
        { "[1.]", "[!t.json:1: expected a value" },
        { "[tru]", "[!t.json:1: expected a value" },
        { "[\"a\n\"]", "[!t.json:1: expected the end of a string" },
        { "[\"a\\", "[!t.json:1: expected a character behind a backslash" },
        { "1 1", "n1!t.json:1: expected nothing behind the value" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(scan(texts[i][0], strlen(texts[i][0])), texts[i][1]);
}

/* Nothing grows with the depth or with a string. */
static void test_bounds(void **state) {
    (void)state;
    static char text[100000];
    memset(text, '[', sizeof text);
    assert_non_null(strstr(scan(text, MT_SCAN_DEPTH + 1), "!t.json:1: expected fewer arrays"));
    memset(text, 'a', sizeof text);
    text[0] = text[sizeof text - 1] = '"';
    assert_int_equal(strlen(scan(text, sizeof text)), MT_SCAN_TEXT);
}

static void test_skip(void **state) {
    (void)state;
    static const char text[] = "[{\"a\": [1, {}, \"]\"]}, 5]";
    mt_scan s = { .in = NULL };
    mt_token t;
    mt_error err;
    assert_int_equal(
        mt_input_open(&s.in, temp_write("t.json", text, sizeof text - 1), MT_INPUT_ANY, &err),
        MT_OK);
    assert_int_equal(mt_scan_next(&s, &t, &err), MT_OK);
    assert_int_equal(mt_scan_next(&s, &t, &err), MT_OK);
    assert_int_equal(t, MT_TOKEN_OBJECT);
    assert_int_equal(mt_scan_skip(&s, t, &err), MT_OK);
    assert_int_equal(mt_scan_next(&s, &t, &err), MT_OK);
    assert_string_equal(s.text, "5");
    mt_input_close(s.in);
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool whole, decimal;
        int64_t value, thousandths;
    } expected[] = {
        { "0", true, true, 0, 0 },
        { "-12", true, true, -12, -12000 },
        { "5236957656833.914", false, true, 0, 5236957656833914 },
        { "1.5", false, true, 0, 1500 },
        { "-0.0019", false, true, 0, -1 },
        { "9223372036854775807", true, false, INT64_MAX, 0 },
        { "9223372036854775808", false, false, 0, 0 },
        { "1e3", false, false, 0, 0 },
        { "NaN", false, false, 0, 0 },
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        mt_scan s = { .in = NULL };
        int64_t value = 0;
        strcpy(s.text, expected[i].text);
        assert_int_equal(mt_scan_integer(&s, &value), expected[i].whole);
        assert_int_equal(value, expected[i].value);
        value = 0;
        assert_int_equal(mt_scan_thousandths(&s, &value), expected[i].decimal);
        assert_int_equal(value, expected[i].thousandths);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),  cmocka_unit_test(test_broken),
        cmocka_unit_test(test_bounds),  cmocka_unit_test(test_skip),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests_name("json_scan", tests, temp_setup, temp_teardown);
}
