/* test_text.c - UTF-8, printable text, JSON strings, and messages, which are always one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/status.h"
#include "base/text.h"

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Writes a code point as the standard says, valid or not. */
static size_t encode(uint32_t c, size_t length, char *out) {
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    if (length == 1) {
        out[0] = (char)c;
        return 1;
    }
    for (size_t i = length; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[length] | c);
    return length;
}

/* Every code point has one form, and no other. */
static void test_utf8_all(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 0x200000; c++) {
        size_t shortest = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        bool valid = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
        for (size_t length = shortest; length <= 4; length++) {
            char text[4];
            uint32_t code = 0;
            encode(c, length, text);
            size_t expected = valid && length == shortest ? length : 0;
            if (mt_utf8(text, length, &code) != expected || (expected > 0 && code != c))
                fail_msg("U+%04X in %zu bytes", (unsigned)c, length);
        }
    }
}

static void test_utf8_cut(void **state) {
    (void)state;
    const char *text = "\xf0\x9f\x98\x80";
    for (size_t n = 1; n < 4; n++)
        assert_int_equal(mt_utf8(text, n, NULL), 0);
    assert_int_equal(mt_utf8(text, 4, NULL), 4);
    for (int first = 0x80; first < 0x100; first++) { /* followed by what continues nothing */
        char pair[] = { (char)first, 'a', 'a', 'a' };
        assert_int_equal(mt_utf8(pair, 4, NULL), 0);
    }
    for (int first = 0xf5; first < 0x100; first++) { /* followed by what would continue it */
        char long_form[] = { (char)first, (char)0xbf, (char)0x80, (char)0xbf };
        assert_int_equal(mt_utf8(long_form, 4, NULL), 0);
    }
}

/* ---- printable text -------------------------------------------------------------------------- */

static void test_printable(void **state) {
    (void)state;
    char b[16];
    assert_string_equal(mt_printable(b, 16, "short", 5), "short");
    assert_string_equal(mt_printable(b, 16, "", 0), "");
    assert_string_equal(mt_printable(b, 16, "a\nb\0c\x7f", 6), "a\\x0ab\\x00c\\x7f");
    assert_string_equal(mt_printable(b, 15, "a\nb\0c\x7f", 6), "a\\x0ab\\x00c...");
    assert_string_equal(mt_printable(b, 16, "fifteen letters", 15), "fifteen letters");
    assert_string_equal(mt_printable(b, 16, "sixteen letters!", 16), "sixteen lett...");
    assert_string_equal(mt_printable(b, 16, "eleven bytü and more", 21), "eleven bytü...");
    assert_string_equal(mt_printable(b, 16, "twelve byteü and more", 22), "twelve byte...");
    assert_string_equal(mt_printable_path(b, 16, "/models/gpt2"), "/models/gpt2");
    assert_string_equal(mt_printable_path(b, 16, "/home/me/models/gpt2"), ".../models/gpt2");
    assert_string_equal(mt_printable_path(b, 16, "/home/me/m\n/gpt2"), "...e/m\\x0a/gpt2");
    assert_string_equal(mt_printable_path(b, 16, "/a/long/way/ü/models/222"), ".../models/222");
    assert_string_equal(mt_printable_line(b, 16, "a line that is long"), "a line t...long");
}

/* Escape sequences of a terminal in either form, line ends of every kind, and invalid bytes. */
static void test_printable_hostile(void **state) {
    (void)state;
    char b[64];
    static const char *const pair[][2] = {
        { "\x1b[2J", "\\x1b[2J" },
        { "\xc2\x9b"
          "2J",
          "\\xc2\\x9b"
          "2J" },
        { "\x9b", "\\x9b" },
        { "a\xff\xc3", "a\\xff\\xc3" },
        { "\xe2\x80\xa8", "\\xe2\\x80\\xa8" },
        { "\xe2\x80\xae", "\\xe2\\x80\\xae" },
        { "a\r\n\tb", "a\\x0d\\x0a\\x09b" },
        { "ü\xc2\xa0é", "ü\xc2\xa0é" },
        { "\\x0a", "\\x0a" },
    };
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        assert_string_equal(mt_printable(b, sizeof b, pair[i][0], strlen(pair[i][0])), pair[i][1]);
}

/* Whatever the bytes and the room: valid UTF-8 without control characters, and nothing beyond. */
static void test_printable_random(void **state) {
    (void)state;
    uint32_t x = 1;
    for (int round = 0; round < 20000; round++) {
        char text[40], b[41];
        for (size_t i = 0; i < sizeof text; i++) {
            x = x * 1664525 + 1013904223;
            text[i] = (char)(x >> 24 | (x >> 16 & 1 ? 0x80 : 0));
        }
        size_t n = x >> 8 & 31, capacity = 8 + (x >> 13 & 31);
        text[n] = '\0';
        memset(b, '#', sizeof b);
        if (round % 3 == 0)
            mt_printable(b, capacity, text, n);
        else
            (round % 3 == 1 ? mt_printable_path : mt_printable_line)(b, capacity, text);
        assert_true(strlen(b) < capacity);
        for (size_t i = capacity; i < sizeof b; i++)
            assert_int_equal(b[i], '#');
        for (size_t i = 0, length; b[i] != '\0'; i += length) {
            length = mt_utf8(b + i, strlen(b + i), NULL);
            assert_true(length > 0 && (unsigned char)b[i] >= ' ');
        }
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void test_json_quote(void **state) {
    (void)state;
    char b[MT_JSON_QUOTED(16)];
    size_t n = mt_json_quote(b, "a\"\\\n\x7f\xffü", 8);
    assert_int_equal(n, strlen("\"a\\\"\\\\\\u000a\\u007f\\ufffdü\""));
    assert_memory_equal(b, "\"a\\\"\\\\\\u000a\\u007f\\ufffdü\"", n);
    assert_int_equal(mt_json_quote(b, "", 0), 2);
    assert_int_equal(mt_json_quote(b, "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", 16), sizeof b);
}

/* Another reader finds the same characters. */
static void test_json_quote_read(void **state) {
    (void)state;
    for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 0x1f) {
        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        char text[4], b[MT_JSON_QUOTED(4)];
        size_t length = encode(c, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, text);
        json_t *value = json_loadb(b, mt_json_quote(b, text, length), JSON_DECODE_ANY, NULL);
        assert_int_equal(json_string_length(value), length);
        assert_memory_equal(json_string_value(value), text, length);
        json_decref(value);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void test_fail(void **state) {
    (void)state;
    mt_error err;
    assert_int_equal(mt_fail(NULL, MT_BAD, "%s", "nobody listens"), MT_BAD);
    assert_int_equal(mt_fail(&err, MT_BAD, "%s: %d\n", "a\nb\x1b[0m", 7), MT_BAD);
    assert_int_equal(err.status, MT_BAD);
    assert_string_equal(err.text, "a\\x0ab\\x1b[0m: 7\\x0a");
    mt_fail(&err, MT_FAILED, "again: %s", err.text);
    assert_string_equal(err.text, "again: a\\x0ab\\x1b[0m: 7\\x0a");
    assert_int_equal(mt_no_memory(&err, "a test"), MT_FAILED);
    assert_string_equal(err.text, "no host memory for a test");
}

/* A name as long as the system allows takes neither the message's beginning nor its end. */
static void test_fail_long(void **state) {
    (void)state;
    mt_error err;
    char path[4096];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    mt_fail(&err, MT_BAD, "the model %s: cannot be opened: %s", path, "No such file or directory");
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_memory_equal(err.text, "the model ppp", 13);
    assert_non_null(strstr(err.text, "ppp...ppp"));
    assert_non_null(strstr(err.text, "ppp: cannot be opened: No such file or directory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_all),         cmocka_unit_test(test_utf8_cut),
        cmocka_unit_test(test_printable),        cmocka_unit_test(test_printable_hostile),
        cmocka_unit_test(test_printable_random), cmocka_unit_test(test_json_quote),
        cmocka_unit_test(test_json_quote_read),  cmocka_unit_test(test_fail),
        cmocka_unit_test(test_fail_long),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
