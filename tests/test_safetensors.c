/* test_safetensors.c - the reader of the format: good files, every kind of broken one, and files
 * with any single byte wrong or missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/checkpoint/safetensors.h"
#include "tests/temp_files.h"

static unsigned char file_bytes[1 << 20];

/* Writes length, n bytes of header and data_bytes of data (0, 1, 2, ...); returns the path. */
static const char *write_raw(uint64_t length, const char *header, size_t n, size_t data_bytes) {
    assert_true(8 + n + data_bytes <= sizeof file_bytes);
    memcpy(file_bytes, &length, 8);
    memcpy(file_bytes + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++)
        file_bytes[8 + n + i] = (unsigned char)i;
    return temp_write("t.safetensors", file_bytes, 8 + n + data_bytes);
}

static const char *write_file(const char *header, size_t data_bytes) {
    return write_raw(strlen(header), header, strlen(header), data_bytes);
}

static void assert_refused(const char *path, const char *part) {
    mt_safetensors f;
    mt_error err = { 0 };
    assert_int_equal(mt_safetensors_open(&f, path, &err), MT_BAD);
    assert_int_equal(err.status, MT_BAD);
    assert_null(f.tensor);
    assert_null(f.file.data);
    assert_null(strchr(err.text, '\n'));
    if (strncmp(err.text, path, strlen(path)) != 0 || strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not name the file and \"%s\"", err.text, part);
    assert_int_equal(mt_safetensors_open(&f, path, NULL), MT_BAD);
}

static void refused(const char *header, size_t data_bytes, const char *part) {
    assert_refused(write_file(header, data_bytes), part);
}

static void accepted(const char *header, size_t data_bytes, size_t count) {
    mt_safetensors f;
    mt_error err = { 0 };
    if (mt_safetensors_open(&f, write_file(header, data_bytes), &err) != MT_OK)
        fail_msg("%s: %s", header, err.text);
    assert_int_equal(f.count, count);
    mt_safetensors_close(&f);
    mt_safetensors_close(&f);
}

/* ---- good files ------------------------------------------------------------------------------ */

#define GOOD                                                                                       \
    "{\"__metadata__\": {\"format\": \"pt\"},"                                                     \
    " \"b\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]},"                  \
    " \"a\": {\"dtype\": \"BF16\", \"shape\": [], \"data_offsets\": [24, 26]},"                    \
    " \"c\": {\"dtype\": \"F16\", \"shape\": [0, 7], \"data_offsets\": [26, 26]},"                 \
    " \"d\": {\"dtype\": \"I64\", \"shape\": [1, 1, 1, 2], \"data_offsets\": [26, 42]}}   "
#define GOOD_BYTES 42

static void test_good(void **state) {
    (void)state;
    mt_safetensors f;
    mt_error err;
    char text[200];
    assert_int_equal(mt_safetensors_open(&f, write_file(GOOD, GOOD_BYTES), &err), MT_OK);
    assert_int_equal(f.count, 4);
    const mt_safetensor *b = mt_safetensors_find(&f, "b");
    assert_string_equal(b->name, "b");
    assert_string_equal(b->type, "F32");
    assert_int_equal(b->dims, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->data[0], 0);
    assert_int_equal(b->data[23], 23);
    assert_string_equal(mt_safetensor_shape(text, sizeof text, b->shape, b->dims), "[2, 3]");
    const mt_safetensor *a = mt_safetensors_find(&f, "a");
    assert_int_equal(a->dims, 0);
    assert_int_equal(a->data[1], 25);
    assert_string_equal(mt_safetensor_shape(text, sizeof text, a->shape, a->dims), "[]");
    assert_int_equal(mt_safetensors_find(&f, "c")->end - mt_safetensors_find(&f, "c")->begin, 0);
    assert_int_equal(mt_safetensors_find(&f, "d")->data[15], 41);
    assert_null(mt_safetensors_find(&f, "e"));
    assert_null(mt_safetensors_find(&f, ""));
    assert_null(mt_safetensors_find(&f, "__metadata__"));
    mt_safetensors_close(&f);
}

static void test_accepted(void **state) {
    (void)state;
    accepted("{}", 0, 0);
    accepted("{\"__metadata__\": {}}", 0, 0);
    accepted("{\"a\": {\"dtype\": \"U8\", \"shape\": [1,1,1,1,1,1,1,1], \"data_offsets\": [0, 1]}}",
             1, 1);
    accepted("{\"a\": {\"dtype\": \"F4\", \"shape\": [6], \"data_offsets\": [0, 3]}}", 3, 1);
    accepted("{\"a\": {\"dtype\": \"F6_E2M3\", \"shape\": [4], \"data_offsets\": [0, 3]}}", 3, 1);
    accepted("{\"a\": {\"dtype\": \"BOOL\", \"shape\": [5], \"data_offsets\": [0, 5], \"x\": 1}}",
             5, 1);
}

/* ---- broken headers -------------------------------------------------------------------------- */

static void test_length(void **state) {
    (void)state;
    assert_refused(temp_write("empty.safetensors", "", 0), "0 bytes, expected the 8");
    assert_refused(temp_write("short.safetensors", "\2\0\0\0\0\0\0", 7), "7 bytes, expected the 8");
    assert_refused(temp_write("zero.safetensors", "\0\0\0\0\0\0\0\0", 8), "byte 8: empty");
    assert_refused(write_raw(3, "{}", 2, 0), "header of 3 bytes, expected at most 2");
    assert_refused(write_raw(100000000, "{}", 2, 0), "header of 100000000 bytes, expected at most");
    assert_refused(write_raw(100000001, "{}", 2, 0), "header of 100000001 bytes, expected");
    assert_refused(write_raw(UINT64_MAX, "{}", 2, 0), "header of 18446744073709551615 bytes");
    assert_refused(write_raw(UINT64_MAX - 7, "{}", 2, 0), "header of");
    assert_refused(write_raw(1, "{}", 2, 0), "not the JSON expected");
    assert_refused(temp_path("absent.safetensors"), "cannot be opened: No such file");
    assert_refused(temp_folder, "not a file");
}

static void test_syntax(void **state) {
    (void)state;
    refused("[]", 0, "byte 8: 0x5b, expected {");
    refused(" {}", 0, "byte 8: 0x20, expected {");
    refused("\xef\xbb\xbf{}", 0, "byte 8: 0xef, expected {");
    refused("{", 0, "byte 9: not the JSON expected");
    refused("{} {}", 0, "byte 12: not the JSON expected");
    refused("{}\n\x01", 0, "not the JSON expected");
    refused("{\"a\" 1}", 0, "not the JSON expected");
    refused("{\"a\": 99999999999999999999}", 0, "too big integer");
    refused("{\"a\": {}, \"a\": {}}", 0, "duplicate object key near '\"a\"'");
    refused("{\"__metadata__\": {\"a\": \"1\", \"a\": \"2\"}}", 0, "duplicate");
    refused("{\"a\xff\": {}}", 0, "not the JSON expected");
    refused("{\"a\\u0000b\": {}}", 0, "u0000");
    refused("{\"__metadata__\": {\"a\": \"b\\u0000c\"}}", 0, "u0000");
    refused("{\"\\ud800\": {}}", 0, "not the JSON expected");
    assert_refused(write_raw(3, "{}\0", 3, 0), "not the JSON expected");
    assert_refused(write_raw(4, "{\"\0\"", 4, 0), "not the JSON expected");
}

static void test_deep(void **state) {
    (void)state;
    static char deep[300000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    assert_refused(write_raw(sizeof deep, deep, sizeof deep, 0), "depth");
    for (size_t i = 0; i + 5 <= sizeof deep; i += 5)
        memcpy(deep + i, "{\"a\":", 5);
    assert_refused(write_raw(sizeof deep, deep, sizeof deep, 0), "depth");
    /* A name of 299,000 letters is cut in the message. */
    memset(deep, 'n', sizeof deep);
    memcpy(deep, "{\"", 2);
    memcpy(deep + sizeof deep - 4, "\":1}", 4);
    assert_refused(write_raw(sizeof deep, deep, sizeof deep, 0), "nnn...: an integer, expected an");
}

static void test_metadata(void **state) {
    (void)state;
    refused("{\"__metadata__\": 1}", 0,
            "__metadata__ is an integer, expected an object of strings");
    refused("{\"__metadata__\": null}", 0, "__metadata__ is null");
    refused("{\"__metadata__\": [\"a\"]}", 0, "__metadata__ is an array");
    refused("{\"__metadata__\": {\"a\": 1}}", 0,
            "__metadata__: a is an integer, expected a string");
    refused("{\"__metadata__\": {\"a\": {}}}", 0, "__metadata__: a is an object");
    refused("{\"__metadata__\": {\"a\\nb\": null}}", 0, "__metadata__: a\\x0ab is null");
}

/* One tensor "t" whose entry is the given text. */
static void bad_entry(const char *text, size_t data_bytes, const char *part) {
    char header[600];
    snprintf(header, sizeof header, "{\"t\": %s}", text);
    refused(header, data_bytes, part);
}

static void test_entry(void **state) {
    (void)state;
    bad_entry("1", 0, "tensor t: an integer, expected an object");
    bad_entry("null", 0, "tensor t: null, expected an object");
    bad_entry("[]", 0, "tensor t: an array, expected an object");
    bad_entry("{}", 0, "tensor t: dtype is missing, expected a string");
    bad_entry("{\"dtype\": 32}", 0, "tensor t: dtype is an integer");
    bad_entry("{\"dtype\": \"F31\"}", 0,
              "tensor t: dtype is \"F31\", expected one of the format's");
    bad_entry("{\"dtype\": \"f32\"}", 0, "dtype is \"f32\"");
    bad_entry("{\"dtype\": \"\"}", 0, "dtype is \"\"");
    bad_entry("{\"dtype\": \"F32\\n\"}", 0, "dtype is \"F32\\x0a\"");
}

#define ENTRY(shape, offsets)                                                                      \
    "{\"dtype\": \"F32\", \"shape\": " shape ", \"data_offsets\": " offsets "}"

static void test_shape(void **state) {
    (void)state;
    bad_entry("{\"dtype\": \"F32\", \"data_offsets\": [0, 4]}", 4, "shape is missing, expected an");
    bad_entry(ENTRY("1", "[0, 4]"), 4, "shape is an integer, expected an array");
    bad_entry(ENTRY("{\"0\": 1}", "[0, 4]"), 4, "shape is an object");
    bad_entry(ENTRY("[1, -1]", "[0, 4]"), 4, "dimension 1 of the shape is negative, expected");
    bad_entry(ENTRY("[1.0]", "[0, 4]"), 4, "dimension 0 of the shape is a real number");
    bad_entry(ENTRY("[\"1\"]", "[0, 4]"), 4, "dimension 0 of the shape is a string");
    bad_entry(ENTRY("[[1]]", "[0, 4]"), 4, "dimension 0 of the shape is an array");
    bad_entry(ENTRY("[null]", "[0, 4]"), 4, "dimension 0 of the shape is null");
    bad_entry(ENTRY("[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4, "9 dimensions, expected at most 8");
    bad_entry(ENTRY("[9223372036854775807]", "[0, 4]"), 4, "no whole number of bytes below");
    bad_entry(ENTRY("[4294967296, 4294967296]", "[0, 0]"), 0, "F32 of shape [4294967296, 42949");
    bad_entry(ENTRY("[9223372036854775807,9223372036854775807,9223372036854775807,"
                    "9223372036854775807,9223372036854775807,9223372036854775807,"
                    "9223372036854775807,9223372036854775807]",
                    "[0, 0]"),
              0, "9223372036854775807] is no");
    /* 2^61 elements of 32 bits are 2^66 bits; modulo 2^64 that would be 0. */
    bad_entry(ENTRY("[2305843009213693952]", "[0, 0]"), 0, "no whole number of bytes");
    bad_entry("{\"dtype\": \"F4\", \"shape\": [3], \"data_offsets\": [0, 1]}", 1,
              "no whole number");
    bad_entry("{\"dtype\": \"F4\", \"shape\": [3], \"data_offsets\": [0, 2]}", 2,
              "no whole number");
}

static void test_offsets(void **state) {
    (void)state;
    static const char *const wrong[] = { "4",         "null",       "[]",       "[0]",
                                         "[0, 4, 8]", "[\"0\", 4]", "[0, 4.0]", "[-4, 4]",
                                         "[0, null]", "{\"0\": 0}" };
    char entry[200];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(entry, sizeof entry, ENTRY("[1]", "%s"), wrong[i]);
        bad_entry(entry, 4, "tensor t: data_offsets is not as expected, two integers");
    }
    bad_entry("{\"dtype\": \"F32\", \"shape\": [1]}", 4, "data_offsets is not as expected");
    bad_entry(ENTRY("[1]", "[8, 4]"), 8, "data_offsets are [8, 4], expected begin <= end <= 8");
    bad_entry(ENTRY("[1]", "[0, 5]"), 4, "data_offsets are [0, 5], expected begin <= end <= 4");
    bad_entry(ENTRY("[1]", "[9223372036854775803, 9223372036854775807]"), 4, "expected begin <=");
    bad_entry(ENTRY("[2]", "[0, 4]"), 4, "hold 4 bytes, expected 8 for F32 of shape [2]");
    bad_entry(ENTRY("[]", "[0, 8]"), 8, "hold 8 bytes, expected 4 for F32 of shape []");
    bad_entry(ENTRY("[0]", "[0, 4]"), 4, "hold 4 bytes, expected 0 for F32 of shape [0]");
}

#define TWO(begin0, end0, begin1, end1)                                                            \
    "{\"x\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [" #begin0 ", " #end0           \
    "]}, \"y\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [" #begin1 ", " #end1 "]}}"

static void test_tiling(void **state) {
    (void)state;
    accepted(TWO(0, 4, 4, 8), 8, 2);
    accepted(TWO(4, 8, 0, 4), 8, 2);
    refused(TWO(0, 4, 2, 6), 6, "tensor y: begins at byte 2 of the data, inside another tensor");
    refused(TWO(0, 4, 0, 4), 4, "begins at byte 0 of the data, inside another tensor, expected 4");
    refused(TWO(0, 4, 5, 9), 9, "tensor y: begins at byte 5 of the data, after a hole, expected 4");
    refused(TWO(1, 5, 5, 9), 9, "tensor x: begins at byte 1 of the data, after a hole, expected 0");
    refused(TWO(0, 4, 4, 8), 9, "9 bytes of data, expected 8, the tensors' end");
    refused(TWO(0, 4, 4, 8), 7, "expected begin <= end <= 7");
    refused("{}", 1, "1 bytes of data, expected 0");
    refused("{\"z\": {\"dtype\": \"U8\", \"shape\": [0], \"data_offsets\": [2, 2]},"
            " \"x\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}}",
            4, "tensor z: begins at byte 2 of the data, inside");
}

static void test_many(void **state) {
    (void)state;
    static char header[600000];
    mt_safetensors f;
    size_t used = 0;
    enum { MANY = 5000 };
    for (unsigned i = 0; i < MANY; i++)
        used += (size_t)sprintf(
            header + used, "%c\"n%u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
            i == 0 ? '{' : ',', i * 7919 % MANY, i, i + 1);
    strcpy(header + used, "}");
    assert_int_equal(mt_safetensors_open(&f, write_file(header, MANY), NULL), MT_OK);
    for (unsigned i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i * 7919 % MANY);
        assert_int_equal(mt_safetensors_find(&f, name)->data[0], i % 256);
    }
    mt_safetensors_close(&f);
}

/* ---- any byte -------------------------------------------------------------------------------- */

/* Opens what was written; all of a file that is accepted must be readable. */
static void open_any(size_t n) {
    mt_safetensors f;
    mt_error err = { 0 };
    unsigned sum = 0;
    mt_status status = mt_safetensors_open(&f, temp_write("f.safetensors", file_bytes, n), &err);
    assert_true(status == MT_OK || (status == MT_BAD && err.text[0] != '\0'));
    assert_null(strchr(err.text, '\n'));
    if (status != MT_OK)
        return;
    for (size_t i = 0; i < f.count; i++)
        for (uint64_t k = 0; k < f.tensor[i].end - f.tensor[i].begin; k++)
            sum += f.tensor[i].data[k];
    assert_true(sum <= 255 * GOOD_BYTES);
    mt_safetensors_close(&f);
}

static void test_flipped(void **state) {
    (void)state;
    static const char others[] = "\0\n\"\\{}[]:,09-e\x7f\xc3";
    const size_t n = 8 + strlen(GOOD) + GOOD_BYTES, header_end = 8 + strlen(GOOD);
    write_file(GOOD, GOOD_BYTES);
    for (size_t i = 0; i < header_end; i++)
        for (size_t k = 0; k < 8 + sizeof others - 1; k++) {
            const unsigned char was = file_bytes[i];
            file_bytes[i] = (unsigned char)(k < 8 ? was ^ 1 << k : others[k - 8]);
            open_any(n);
            file_bytes[i] = was;
        }
}

static void test_truncated(void **state) {
    (void)state;
    const size_t n = 8 + strlen(GOOD) + GOOD_BYTES;
    write_file(GOOD, GOOD_BYTES);
    for (size_t i = 0; i < n; i++) {
        const uint64_t rest = i < 8 ? 0 : i - 8;
        assert_refused(temp_write("f.safetensors", file_bytes, i), "expected");
        /* The same with a length that fits what is left. */
        unsigned char was[8];
        memcpy(was, file_bytes, 8);
        memcpy(file_bytes, &rest, 8);
        open_any(i);
        memcpy(file_bytes, was, 8);
    }
    open_any(n);
}

/* Each byte removed, and each doubled, the length kept right. */
static void test_shifted(void **state) {
    (void)state;
    char header[600];
    const size_t n = strlen(GOOD);
    for (size_t i = 0; i < n; i++) {
        memcpy(header, GOOD, i);
        memcpy(header + i, GOOD + i + 1, n - i - 1);
        write_raw(n - 1, header, n - 1, GOOD_BYTES);
        open_any(8 + n - 1 + GOOD_BYTES);
        memcpy(header, GOOD, i + 1);
        memcpy(header + i + 1, GOOD + i, n - i);
        write_raw(n + 1, header, n + 1, GOOD_BYTES);
        open_any(8 + n + 1 + GOOD_BYTES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),      cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_length),    cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_deep),      cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_entry),     cmocka_unit_test(test_shape),
        cmocka_unit_test(test_offsets),   cmocka_unit_test(test_tiling),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_shifted),
    };
    return cmocka_run_group_tests_name("safetensors", tests, temp_setup, temp_teardown);
}
