/* test_pickle.c - the machine for pickles of plain data: what CPython wrote is read back, what runs
 * code is refused, and nothing damaged passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/pickle.h"
#include "tests/pickle_writer.h"

/* ---- a maker that writes down what it is given ----------------------------------------------- */

/* A container is made into the number of its text. */
typedef struct notes {
    MT_ARRAY(char *) text;
    char scalar[400];
    uint64_t fills; /* items that containers were filled with */
} notes;

static const char *const NAMES[] = { "action", "size", NULL };

static void free_notes(notes *n) {
    for (size_t i = 0; i < n->text.count; i++)
        free(n->text.at[i]);
    mt_array_free(&n->text);
}

/* A value as Python would show it, but for sets. */
static const char *show(const notes *n, const mt_pickle_value *v, char text[400]) {
    switch (v->kind) {
    case MT_PICKLE_NONE:
        return "None";
    case MT_PICKLE_BOOL:
        return v->u ? "True" : "False";
    case MT_PICKLE_INT:
        snprintf(text, 400, "%lld", (long long)v->i);
        return text;
    case MT_PICKLE_UINT:
        snprintf(text, 400, "%llu", (unsigned long long)v->u);
        return text;
    case MT_PICKLE_FLOAT:
        snprintf(text, 400, "%g", v->f);
        return text;
    case MT_PICKLE_TEXT:
    case MT_PICKLE_BYTES:
        snprintf(text, 400, "%s'%.*s'", v->kind == MT_PICKLE_BYTES ? "b" : "", (int)v->n, v->text);
        return text;
    case MT_PICKLE_GLOBAL:
        snprintf(text, 400, "global %llu", (unsigned long long)v->u);
        return text;
    default:
        if (v->shape == 0)
            return v->kind == MT_PICKLE_LIST ? "[]" : v->kind == MT_PICKLE_DICT ? "{}" : "<>";
        return n->text.at[v->u];
    }
}

static mt_status note(notes *n, mt_pickle_value *made, const char *open, const char *close,
                      const mt_pickle_value *item, size_t items) {
    char *text = malloc(100000), scalar[400];
    size_t k = (size_t)sprintf(text, "%s", open);
    bool first = true;
    if (made->shape != 0) { /* a later step */
        const char *before = n->text.at[made->u];
        k = (size_t)sprintf(text, "%.*s", (int)strlen(before) - 1, before);
        first = false;
    }
    for (size_t i = 0; i < items; i++) {
        const char *between = first ? "" : made->kind == MT_PICKLE_DICT && i % 2 ? ": " : ", ";
        k += (size_t)sprintf(text + k, "%s%s", between, show(n, &item[i], scalar));
        first = false;
    }
    sprintf(text + k, "%s", close);
    char **to = mt_array_push(&n->text);
    assert_non_null(to);
    *to = text;
    made->shape = 1;
    made->u = n->text.count - 1;
    n->fills += items;
    return MT_OK;
}

static mt_status fill(void *context, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                      mt_error *err) {
    (void)err;
    bool dict = made->kind == MT_PICKLE_DICT, list = made->kind == MT_PICKLE_LIST;
    return note(context, made,
                dict   ? "{"
                : list ? "["
                       : "<",
                dict   ? "}"
                : list ? "]"
                       : ">",
                item, n);
}

static mt_status tuple(void *context, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                       mt_error *err) {
    (void)err;
    return note(context, made, "(", ")", item, n);
}

static mt_status object(void *context, mt_pickle_value *made, const mt_pickle_value *part, size_t n,
                        mt_error *err) {
    (void)err;
    made->shape = 0;
    return note(context, made, "obj(", ")", part, n);
}

static const mt_pickle_global GLOBALS[] = { { "collections", "OrderedDict" }, { NULL, NULL } };

static const mt_pickle_maker DATA = { .names = NAMES, .fill = fill, .tuple = tuple };
static const mt_pickle_maker FIRST = { .names = NAMES, .fill = fill, .tuple = tuple, .large = 1 };
static const mt_pickle_maker OBJECTS = {
    .names = NAMES, .fill = fill, .tuple = tuple, .globals = GLOBALS, .object = object
};

/* Reads a pickle, and compares what it is with expected; NULL: must be refused, with words. */
static void check(const mt_pickle_maker *maker, const void *data, size_t size, const char *expected,
                  const char *words) {
    notes n = { 0 };
    mt_pickle_value made;
    mt_error err = { MT_OK, "" };
    char scalar[400], *copy = malloc(size + 1); /* at its own end, for the sanitizers */
    memcpy(copy, data, size);
    mt_status status = mt_pickle_read(maker, &n, "p", copy, size, &made, &err);
    if (expected != NULL) {
        if (status != MT_OK)
            fail_msg("%s: %s", expected, err.text);
        assert_string_equal(show(&n, &made, scalar), expected);
    } else {
        assert_int_equal(status, MT_BAD);
        if (strstr(err.text, words) == NULL)
            fail_msg("'%s' does not say '%s'", err.text, words);
    }
    free(copy);
    free_notes(&n);
}

/* ---- what CPython wrote ---------------------------------------------------------------------- */

/* pickle.dumps in protocols 2 to 5, and what was dumped. */
static const struct {
    size_t size;
    const char *bytes, *shown;
} DUMPED[] = {
    { 4, "\x80\x02\x4e\x2e", "None" },
    { 4, "\x80\x03\x4e\x2e", "None" },
    { 4, "\x80\x04\x4e\x2e", "None" },
    { 4, "\x80\x05\x4e\x2e", "None" },
    { 4, "\x80\x02\x88\x2e", "True" },
    { 4, "\x80\x03\x88\x2e", "True" },
    { 4, "\x80\x04\x88\x2e", "True" },
    { 4, "\x80\x05\x88\x2e", "True" },
    { 4, "\x80\x02\x89\x2e", "False" },
    { 4, "\x80\x03\x89\x2e", "False" },
    { 4, "\x80\x04\x89\x2e", "False" },
    { 4, "\x80\x05\x89\x2e", "False" },
    { 5, "\x80\x02\x4b\x00\x2e", "0" },
    { 5, "\x80\x03\x4b\x00\x2e", "0" },
    { 5, "\x80\x04\x4b\x00\x2e", "0" },
    { 5, "\x80\x05\x4b\x00\x2e", "0" },
    { 5, "\x80\x02\x4b\xff\x2e", "255" },
    { 5, "\x80\x03\x4b\xff\x2e", "255" },
    { 5, "\x80\x04\x4b\xff\x2e", "255" },
    { 5, "\x80\x05\x4b\xff\x2e", "255" },
    { 6, "\x80\x02\x4d\x00\x01\x2e", "256" },
    { 6, "\x80\x03\x4d\x00\x01\x2e", "256" },
    { 15, "\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00\x00\x4d\x00\x01\x2e", "256" },
    { 15, "\x80\x05\x95\x04\x00\x00\x00\x00\x00\x00\x00\x4d\x00\x01\x2e", "256" },
    { 6, "\x80\x02\x4d\xff\xff\x2e", "65535" },
    { 6, "\x80\x03\x4d\xff\xff\x2e", "65535" },
    { 15, "\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00\x00\x4d\xff\xff\x2e", "65535" },
    { 15, "\x80\x05\x95\x04\x00\x00\x00\x00\x00\x00\x00\x4d\xff\xff\x2e", "65535" },
    { 8, "\x80\x02\x4a\x00\x00\x01\x00\x2e", "65536" },
    { 8, "\x80\x03\x4a\x00\x00\x01\x00\x2e", "65536" },
    { 17, "\x80\x04\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\x00\x00\x01\x00\x2e", "65536" },
    { 17, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\x00\x00\x01\x00\x2e", "65536" },
    { 8, "\x80\x02\x4a\xff\xff\xff\xff\x2e", "-1" },
    { 8, "\x80\x03\x4a\xff\xff\xff\xff\x2e", "-1" },
    { 17, "\x80\x04\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\xff\xff\xff\xff\x2e", "-1" },
    { 17, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\xff\xff\xff\xff\x2e", "-1" },
    { 8, "\x80\x02\x4a\x00\x00\x00\x80\x2e", "-2147483648" },
    { 8, "\x80\x03\x4a\x00\x00\x00\x80\x2e", "-2147483648" },
    { 17, "\x80\x04\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\x00\x00\x00\x80\x2e", "-2147483648" },
    { 17, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\x00\x00\x00\x80\x2e", "-2147483648" },
    { 8, "\x80\x02\x4a\xff\xff\xff\x7f\x2e", "2147483647" },
    { 8, "\x80\x03\x4a\xff\xff\xff\x7f\x2e", "2147483647" },
    { 17, "\x80\x04\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\xff\xff\xff\x7f\x2e", "2147483647" },
    { 17, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x4a\xff\xff\xff\x7f\x2e", "2147483647" },
    { 10, "\x80\x02\x8a\x05\x00\x00\x00\x80\x00\x2e", "2147483648" },
    { 10, "\x80\x03\x8a\x05\x00\x00\x00\x80\x00\x2e", "2147483648" },
    { 19, "\x80\x04\x95\x08\x00\x00\x00\x00\x00\x00\x00\x8a\x05\x00\x00\x00\x80\x00\x2e",
      "2147483648" },
    { 19, "\x80\x05\x95\x08\x00\x00\x00\x00\x00\x00\x00\x8a\x05\x00\x00\x00\x80\x00\x2e",
      "2147483648" },
    { 11, "\x80\x02\x8a\x06\x00\x00\x00\x00\x00\x01\x2e", "1099511627776" },
    { 11, "\x80\x03\x8a\x06\x00\x00\x00\x00\x00\x01\x2e", "1099511627776" },
    { 20, "\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x2e",
      "1099511627776" },
    { 20, "\x80\x05\x95\x09\x00\x00\x00\x00\x00\x00\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x2e",
      "1099511627776" },
    { 11, "\x80\x02\x8a\x06\x00\x00\x00\x00\x00\xff\x2e", "-1099511627776" },
    { 11, "\x80\x03\x8a\x06\x00\x00\x00\x00\x00\xff\x2e", "-1099511627776" },
    { 20, "\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00\x8a\x06\x00\x00\x00\x00\x00\xff\x2e",
      "-1099511627776" },
    { 20, "\x80\x05\x95\x09\x00\x00\x00\x00\x00\x00\x00\x8a\x06\x00\x00\x00\x00\x00\xff\x2e",
      "-1099511627776" },
    { 13, "\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x01\x2e", "72057594037927936" },
    { 13, "\x80\x03\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x01\x2e", "72057594037927936" },
    { 22,
      "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00"
      "\x01\x2e",
      "72057594037927936" },
    { 22,
      "\x80\x05\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00"
      "\x01\x2e",
      "72057594037927936" },
    { 13, "\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\xff\x2e", "-72057594037927936" },
    { 13, "\x80\x03\x8a\x08\x00\x00\x00\x00\x00\x00\x00\xff\x2e", "-72057594037927936" },
    { 22,
      "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00"
      "\xff\x2e",
      "-72057594037927936" },
    { 22,
      "\x80\x05\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00"
      "\xff\x2e",
      "-72057594037927936" },
    { 13, "\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x2e", "9223372036854775807" },
    { 13, "\x80\x03\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x2e", "9223372036854775807" },
    { 22,
      "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff"
      "\x7f\x2e",
      "9223372036854775807" },
    { 22,
      "\x80\x05\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff"
      "\x7f\x2e",
      "9223372036854775807" },
    { 13, "\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x2e", "-9223372036854775808" },
    { 13, "\x80\x03\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x2e", "-9223372036854775808" },
    { 22,
      "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00"
      "\x80\x2e",
      "-9223372036854775808" },
    { 22,
      "\x80\x05\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00"
      "\x80\x2e",
      "-9223372036854775808" },
    { 14, "\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\x2e", "9223372036854775808" },
    { 14, "\x80\x03\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\x2e", "9223372036854775808" },
    { 23,
      "\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8a\x09\x00\x00\x00\x00\x00\x00\x00"
      "\x80\x00\x2e",
      "9223372036854775808" },
    { 23,
      "\x80\x05\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8a\x09\x00\x00\x00\x00\x00\x00\x00"
      "\x80\x00\x2e",
      "9223372036854775808" },
    { 14, "\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00\x2e", "18446744073709551615" },
    { 14, "\x80\x03\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00\x2e", "18446744073709551615" },
    { 23,
      "\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8a\x09\xff\xff\xff\xff\xff\xff\xff"
      "\xff\x00\x2e",
      "18446744073709551615" },
    { 23,
      "\x80\x05\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8a\x09\xff\xff\xff\xff\xff\xff\xff"
      "\xff\x00\x2e",
      "18446744073709551615" },
    { 12, "\x80\x02\x47\x3f\xf8\x00\x00\x00\x00\x00\x00\x2e", "1.5" },
    { 12, "\x80\x03\x47\x3f\xf8\x00\x00\x00\x00\x00\x00\x2e", "1.5" },
    { 21,
      "\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x47\x3f\xf8\x00\x00\x00\x00\x00\x00"
      "\x2e",
      "1.5" },
    { 21,
      "\x80\x05\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x47\x3f\xf8\x00\x00\x00\x00\x00\x00"
      "\x2e",
      "1.5" },
    { 12, "\x80\x02\x47\xbf\xd0\x00\x00\x00\x00\x00\x00\x2e", "-0.25" },
    { 12, "\x80\x03\x47\xbf\xd0\x00\x00\x00\x00\x00\x00\x2e", "-0.25" },
    { 21,
      "\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x47\xbf\xd0\x00\x00\x00\x00\x00\x00"
      "\x2e",
      "-0.25" },
    { 21,
      "\x80\x05\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x47\xbf\xd0\x00\x00\x00\x00\x00\x00"
      "\x2e",
      "-0.25" },
    { 10, "\x80\x02\x58\x00\x00\x00\x00\x71\x00\x2e", "''" },
    { 10, "\x80\x03\x58\x00\x00\x00\x00\x71\x00\x2e", "''" },
    { 15, "\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00\x00\x8c\x00\x94\x2e", "''" },
    { 15, "\x80\x05\x95\x04\x00\x00\x00\x00\x00\x00\x00\x8c\x00\x94\x2e", "''" },
    { 11, "\x80\x02\x58\x01\x00\x00\x00\x61\x71\x00\x2e", "'a'" },
    { 11, "\x80\x03\x58\x01\x00\x00\x00\x61\x71\x00\x2e", "'a'" },
    { 16, "\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01\x61\x94\x2e", "'a'" },
    { 16, "\x80\x05\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01\x61\x94\x2e", "'a'" },
    { 9, "\x80\x03\x43\x02\x78\x79\x71\x00\x2e", "b'xy'" },
    { 17, "\x80\x04\x95\x06\x00\x00\x00\x00\x00\x00\x00\x43\x02\x78\x79\x94\x2e", "b'xy'" },
    { 17, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x43\x02\x78\x79\x94\x2e", "b'xy'" },
    { 4, "\x80\x02\x29\x2e", "()" },
    { 4, "\x80\x03\x29\x2e", "()" },
    { 4, "\x80\x04\x29\x2e", "()" },
    { 4, "\x80\x05\x29\x2e", "()" },
    { 8, "\x80\x02\x4b\x01\x85\x71\x00\x2e", "(1)" },
    { 8, "\x80\x03\x4b\x01\x85\x71\x00\x2e", "(1)" },
    { 16, "\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x4b\x01\x85\x94\x2e", "(1)" },
    { 16, "\x80\x05\x95\x05\x00\x00\x00\x00\x00\x00\x00\x4b\x01\x85\x94\x2e", "(1)" },
    { 10, "\x80\x02\x4b\x01\x4b\x02\x86\x71\x00\x2e", "(1, 2)" },
    { 10, "\x80\x03\x4b\x01\x4b\x02\x86\x71\x00\x2e", "(1, 2)" },
    { 18, "\x80\x04\x95\x07\x00\x00\x00\x00\x00\x00\x00\x4b\x01\x4b\x02\x86\x94\x2e", "(1, 2)" },
    { 18, "\x80\x05\x95\x07\x00\x00\x00\x00\x00\x00\x00\x4b\x01\x4b\x02\x86\x94\x2e", "(1, 2)" },
    { 12, "\x80\x02\x4b\x01\x4b\x02\x4b\x03\x87\x71\x00\x2e", "(1, 2, 3)" },
    { 12, "\x80\x03\x4b\x01\x4b\x02\x4b\x03\x87\x71\x00\x2e", "(1, 2, 3)" },
    { 20, "\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00\x4b\x01\x4b\x02\x4b\x03\x87\x94\x2e",
      "(1, 2, 3)" },
    { 20, "\x80\x05\x95\x09\x00\x00\x00\x00\x00\x00\x00\x4b\x01\x4b\x02\x4b\x03\x87\x94\x2e",
      "(1, 2, 3)" },
    { 15, "\x80\x02\x28\x4b\x01\x4b\x02\x4b\x03\x4b\x04\x74\x71\x00\x2e", "(1, 2, 3, 4)" },
    { 15, "\x80\x03\x28\x4b\x01\x4b\x02\x4b\x03\x4b\x04\x74\x71\x00\x2e", "(1, 2, 3, 4)" },
    { 23,
      "\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x28\x4b\x01\x4b\x02\x4b\x03\x4b\x04"
      "\x74\x94\x2e",
      "(1, 2, 3, 4)" },
    { 23,
      "\x80\x05\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x28\x4b\x01\x4b\x02\x4b\x03\x4b\x04"
      "\x74\x94\x2e",
      "(1, 2, 3, 4)" },
    { 6, "\x80\x02\x5d\x71\x00\x2e", "[]" },
    { 6, "\x80\x03\x5d\x71\x00\x2e", "[]" },
    { 5, "\x80\x04\x5d\x94\x2e", "[]" },
    { 5, "\x80\x05\x5d\x94\x2e", "[]" },
    { 9, "\x80\x02\x5d\x71\x00\x4b\x01\x61\x2e", "[1]" },
    { 9, "\x80\x03\x5d\x71\x00\x4b\x01\x61\x2e", "[1]" },
    { 17, "\x80\x04\x95\x06\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x4b\x01\x61\x2e", "[1]" },
    { 17, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x4b\x01\x61\x2e", "[1]" },
    { 26,
      "\x80\x02\x5d\x71\x00\x28\x4b\x01\x58\x01\x00\x00\x00\x61\x71\x01\x5d\x71\x02\x28"
      "\x4b\x02\x4e\x65\x65\x2e",
      "[1, 'a', [2, None]]" },
    { 26,
      "\x80\x03\x5d\x71\x00\x28\x4b\x01\x58\x01\x00\x00\x00\x61\x71\x01\x5d\x71\x02\x28"
      "\x4b\x02\x4e\x65\x65\x2e",
      "[1, 'a', [2, None]]" },
    { 29,
      "\x80\x04\x95\x12\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x28\x4b\x01\x8c\x01\x61\x94"
      "\x5d\x94\x28\x4b\x02\x4e\x65\x65\x2e",
      "[1, 'a', [2, None]]" },
    { 29,
      "\x80\x05\x95\x12\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x28\x4b\x01\x8c\x01\x61\x94"
      "\x5d\x94\x28\x4b\x02\x4e\x65\x65\x2e",
      "[1, 'a', [2, None]]" },
    { 6, "\x80\x02\x7d\x71\x00\x2e", "{}" },
    { 6, "\x80\x03\x7d\x71\x00\x2e", "{}" },
    { 5, "\x80\x04\x7d\x94\x2e", "{}" },
    { 5, "\x80\x05\x7d\x94\x2e", "{}" },
    { 17, "\x80\x02\x7d\x71\x00\x58\x01\x00\x00\x00\x61\x71\x01\x4b\x01\x73\x2e", "{'a': 1}" },
    { 17, "\x80\x03\x7d\x71\x00\x58\x01\x00\x00\x00\x61\x71\x01\x4b\x01\x73\x2e", "{'a': 1}" },
    { 21,
      "\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x8c\x01\x61\x94\x4b\x01\x73"
      "\x2e",
      "{'a': 1}" },
    { 21,
      "\x80\x05\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x8c\x01\x61\x94\x4b\x01\x73"
      "\x2e",
      "{'a': 1}" },
    { 41,
      "\x80\x02\x7d\x71\x00\x28\x58\x01\x00\x00\x00\x61\x71\x01\x4b\x01\x58\x01\x00\x00"
      "\x00\x62\x71\x02\x5d\x71\x03\x28\x88\x47\x40\x04\x00\x00\x00\x00\x00\x00\x65\x75"
      "\x2e",
      "{'a': 1, 'b': [True, 2.5]}" },
    { 41,
      "\x80\x03\x7d\x71\x00\x28\x58\x01\x00\x00\x00\x61\x71\x01\x4b\x01\x58\x01\x00\x00"
      "\x00\x62\x71\x02\x5d\x71\x03\x28\x88\x47\x40\x04\x00\x00\x00\x00\x00\x00\x65\x75"
      "\x2e",
      "{'a': 1, 'b': [True, 2.5]}" },
    { 40,
      "\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x28\x8c\x01\x61\x94\x4b\x01"
      "\x8c\x01\x62\x94\x5d\x94\x28\x88\x47\x40\x04\x00\x00\x00\x00\x00\x00\x65\x75\x2e",
      "{'a': 1, 'b': [True, 2.5]}" },
    { 40,
      "\x80\x05\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x28\x8c\x01\x61\x94\x4b\x01"
      "\x8c\x01\x62\x94\x5d\x94\x28\x88\x47\x40\x04\x00\x00\x00\x00\x00\x00\x65\x75\x2e",
      "{'a': 1, 'b': [True, 2.5]}" },
    { 19, "\x80\x02\x5d\x71\x00\x28\x5d\x71\x01\x28\x4b\x01\x4b\x02\x65\x68\x01\x65\x2e",
      "[[1, 2], [1, 2]]" },
    { 19, "\x80\x03\x5d\x71\x00\x28\x5d\x71\x01\x28\x4b\x01\x4b\x02\x65\x68\x01\x65\x2e",
      "[[1, 2], [1, 2]]" },
    { 26,
      "\x80\x04\x95\x0f\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x28\x5d\x94\x28\x4b\x01\x4b"
      "\x02\x65\x68\x01\x65\x2e",
      "[[1, 2], [1, 2]]" },
    { 26,
      "\x80\x05\x95\x0f\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x28\x5d\x94\x28\x4b\x01\x4b"
      "\x02\x65\x68\x01\x65\x2e",
      "[[1, 2], [1, 2]]" },
    { 31,
      "\x80\x02\x5d\x71\x00\x28\x58\x06\x00\x00\x00\x73\x68\x61\x72\x65\x64\x71\x01\x68"
      "\x01\x7d\x71\x02\x68\x01\x68\x01\x73\x65\x2e",
      "['shared', 'shared', {'shared': 'shared'}]" },
    { 31,
      "\x80\x03\x5d\x71\x00\x28\x58\x06\x00\x00\x00\x73\x68\x61\x72\x65\x64\x71\x01\x68"
      "\x01\x7d\x71\x02\x68\x01\x68\x01\x73\x65\x2e",
      "['shared', 'shared', {'shared': 'shared'}]" },
    { 34,
      "\x80\x04\x95\x17\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x28\x8c\x06\x73\x68\x61\x72"
      "\x65\x64\x94\x68\x01\x7d\x94\x68\x01\x68\x01\x73\x65\x2e",
      "['shared', 'shared', {'shared': 'shared'}]" },
    { 34,
      "\x80\x05\x95\x17\x00\x00\x00\x00\x00\x00\x00\x5d\x94\x28\x8c\x06\x73\x68\x61\x72"
      "\x65\x64\x94\x68\x01\x7d\x94\x68\x01\x68\x01\x73\x65\x2e",
      "['shared', 'shared', {'shared': 'shared'}]" },
    { 18, "\x80\x04\x95\x07\x00\x00\x00\x00\x00\x00\x00\x8f\x94\x28\x4b\x01\x90\x2e", "<1>" },
    { 18, "\x80\x05\x95\x07\x00\x00\x00\x00\x00\x00\x00\x8f\x94\x28\x4b\x01\x90\x2e", "<1>" },
    { 17, "\x80\x04\x95\x06\x00\x00\x00\x00\x00\x00\x00\x28\x4b\x07\x91\x94\x2e", "<7>" },
    { 17, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x28\x4b\x07\x91\x94\x2e", "<7>" },
    { 45,
      "\x80\x02\x7d\x71\x00\x58\x01\x00\x00\x00\x64\x71\x01\x7d\x71\x02\x58\x01\x00\x00"
      "\x00\x65\x71\x03\x7d\x71\x04\x58\x01\x00\x00\x00\x66\x71\x05\x5d\x71\x06\x73\x85"
      "\x71\x07\x73\x73\x2e",
      "{'d': {'e': ({'f': []})}}" },
    { 45,
      "\x80\x03\x7d\x71\x00\x58\x01\x00\x00\x00\x64\x71\x01\x7d\x71\x02\x58\x01\x00\x00"
      "\x00\x65\x71\x03\x7d\x71\x04\x58\x01\x00\x00\x00\x66\x71\x05\x5d\x71\x06\x73\x85"
      "\x71\x07\x73\x73\x2e",
      "{'d': {'e': ({'f': []})}}" },
    { 37,
      "\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x8c\x01\x64\x94\x7d\x94\x8c"
      "\x01\x65\x94\x7d\x94\x8c\x01\x66\x94\x5d\x94\x73\x85\x94\x73\x73\x2e",
      "{'d': {'e': ({'f': []})}}" },
    { 37,
      "\x80\x05\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x8c\x01\x64\x94\x7d\x94\x8c"
      "\x01\x65\x94\x7d\x94\x8c\x01\x66\x94\x5d\x94\x73\x85\x94\x73\x73\x2e",
      "{'d': {'e': ({'f': []})}}" },
};

static void test_dumped(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof DUMPED / sizeof *DUMPED; i++) {
        check(&DATA, DUMPED[i].bytes, DUMPED[i].size, DUMPED[i].shown, NULL);
        check(&FIRST, DUMPED[i].bytes, DUMPED[i].size, DUMPED[i].shown, NULL);
    }
}

/* Cut anywhere, none of them passes. */
static void test_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof DUMPED / sizeof *DUMPED; i++)
        for (size_t size = 0; size < DUMPED[i].size; size++) {
            check(&DATA, DUMPED[i].bytes, size, NULL, "p: ");
            check(&FIRST, DUMPED[i].bytes, size, NULL, "p: ");
        }
}

/* Any byte changed: it is read or refused, and nothing else happens. */
static void test_damaged(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof DUMPED / sizeof *DUMPED; i++)
        for (size_t at = 0; at < DUMPED[i].size; at++)
            for (int value = 0; value < 256; value += 5) {
                notes n = { 0 };
                mt_error err;
                char *copy = malloc(DUMPED[i].size);
                memcpy(copy, DUMPED[i].bytes, DUMPED[i].size);
                copy[at] = (char)value;
                mt_status status = mt_pickle_read(&DATA, &n, "p", copy, DUMPED[i].size, NULL, &err);
                assert_true(status == MT_OK || status == MT_BAD);
                free(copy);
                free_notes(&n);
            }
}

/* ---- long ones ------------------------------------------------------------------------------- */

/* A list of lists that share a text and one list; a list of 2,500 items comes in three steps. */
static void write_long(pickle_writer *w, int protocol, bool late, int items) {
    pickle_begin(w, protocol, late);
    pickle_list(w);
    for (int i = 0; i < items; i++)
        if (i % 3 == 0)
            pickle_int(w, (uint64_t)i);
        else
            pickle_text(w, i % 3 == 1 ? "one" : "two");
    pickle_end(w);
    pickle_stop(w);
}

static void test_long(void **state) {
    (void)state;
    for (int form = 0; form < 8; form++) {
        pickle_writer w;
        notes n = { 0 };
        mt_pickle_value made;
        mt_error err = { MT_OK, "" };
        write_long(&w, 2 + form / 2, form % 2, 2500);
        for (int first = 0; first < 2; first++) {
            n.fills = 0;
            if (mt_pickle_read(first ? &FIRST : &DATA, &n, "p", w.at, w.count, &made, &err) !=
                MT_OK)
                fail_msg("%s", err.text);
            assert_int_equal(n.fills, 2500);
            const char *text = n.text.at[made.u];
            assert_non_null(strstr(text, "[0, 'one', 'two', 3, "));
            assert_non_null(strstr(text, "2496, 'one', 'two', 2499]"));
        }
        free_notes(&n);
        pickle_free(&w);
    }
}

/* The stack may not take more than the pickle is worth. */
static void test_memory(void **state) {
    (void)state;
    size_t size = (size_t)24 << 20;
    char *data = malloc(size);
    memset(data, 'N', size);
    memcpy(data, "\x80\x02", 2);
    check(&DATA, data, size, NULL, "more values wait to be used");
    memset(data + 2, '(', size - 2);
    check(&DATA, data, size, NULL, "more values wait to be used");
    free(data);
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define PICKLE(bytes) "\x80\x04" bytes, sizeof("\x80\x04" bytes) - 1

static void test_code(void **state) {
    (void)state;
    check(&DATA, PICKLE("cos\nsystem\n."), NULL, "byte 2: opcode GLOBAL names or runs code");
    check(&DATA, PICKLE("K\001K\002\x93."), NULL, "byte 6: opcode STACK_GLOBAL");
    check(&DATA, PICKLE("N)R."), NULL, "byte 4: opcode REDUCE");
    check(&DATA, PICKLE("NNb."), NULL, "byte 4: opcode BUILD");
    check(&DATA, PICKLE("NQ."), NULL, "byte 3: opcode BINPERSID");
    check(&DATA, PICKLE("P1\n."), NULL, "opcode PERSID");
    check(&DATA, PICKLE("(ios\nsystem\n."), NULL, "opcode INST");
    check(&DATA, PICKLE("(No."), NULL, "opcode OBJ");
    check(&DATA, PICKLE("N)\x81."), NULL, "opcode NEWOBJ");
    check(&DATA, PICKLE("N)}\x92."), NULL, "opcode NEWOBJ_EX");
    check(&DATA, PICKLE("\x82\001."), NULL, "opcode EXT1");
    check(&DATA, PICKLE("\x83\001\001."), NULL, "opcode EXT2");
    check(&DATA, PICKLE("\x84\001\001\001\001."), NULL, "opcode EXT4");
    check(&DATA, PICKLE("I5\n."), NULL, "opcode INT is not one of plain data");
    check(&DATA, PICKLE("N2."), NULL, "opcode DUP");
    check(&DATA, PICKLE("\x97."), NULL, "opcode NEXT_BUFFER");
    check(&DATA, PICKLE("\xff."), NULL, "0xff is no opcode");
}

static void test_globals(void **state) {
    (void)state;
    check(&OBJECTS, PICKLE("ccollections\nOrderedDict\n."), "global 0", NULL);
    check(&OBJECTS, PICKLE("ccollections\nOrderedDict\n)R."), "obj(global 0, ())", NULL);
    check(&OBJECTS, PICKLE("\x8c\013collections\x8c\013OrderedDict\x93)R."), "obj(global 0, ())",
          NULL);
    check(&OBJECTS, PICKLE("K\007Q."), "obj(7)", NULL);
    check(&OBJECTS, PICKLE("ccollections\nOrderedDict\n)R}b."), "obj(obj(global 0, ()), {})", NULL);
    check(&OBJECTS, PICKLE("ccollections\000x\nOrderedDict\n."), NULL, "not among the names");
    check(&OBJECTS, PICKLE("cos\nsystem\n."), NULL, "os.system, which is not among the names");
    check(&OBJECTS, PICKLE("K\001)R."), NULL, "a call of what is no function");
    check(&OBJECTS, PICKLE("ccollections\nOrderedDict"), NULL, "beyond the end");
    check(&OBJECTS, PICKLE("N)\x81."), NULL, "opcode NEWOBJ");
}

static void test_wrong(void **state) {
    (void)state;
    check(&DATA, "", 0, NULL, "not a pickle");
    check(&DATA, "\x80\x01.", 3, NULL, "not a pickle");
    check(&DATA, PICKLE("."), NULL, "more than one value, or none");
    check(&DATA, PICKLE("NN."), NULL, "more than one value, or none");
    check(&DATA, PICKLE("N(."), NULL, "more than one value, or none");
    check(&DATA, PICKLE("e."), NULL, "too few values");
    check(&DATA, PICKLE("(e."), NULL, "too few values");
    check(&DATA, PICKLE("]N(a."), NULL, "too few values");
    check(&DATA, PICKLE("}(Nu."), NULL, "items are added to what cannot hold them");
    check(&DATA, PICKLE("](NNu."), NULL, "items are added to what cannot hold them");
    check(&DATA, PICKLE("N\x94."), NULL, "the memo is not used as a pickler does");
    check(&DATA, PICKLE("]\x94\x94."), NULL, "the memo is not used as a pickler does");
    check(&DATA, PICKLE("]q\377."), NULL, "the memo is not used as a pickler does");
    check(&DATA, PICKLE("]q\000}q\000."), NULL, "the memo is not used as a pickler does");
    check(&DATA, PICKLE("h\000."), NULL, "fetched that was never stored");
    check(&FIRST, PICKLE("h\000."), NULL, "fetched that was never stored");
    check(&DATA, PICKLE("j\377\377\377\377."), NULL, "fetched that was never stored");
    check(&DATA, PICKLE("]\x94(h\000e."), NULL, "a list or dictionary that holds itself");
    check(&DATA, PICKLE("]\x94(]\x94(h\001h\000ee."), NULL,
          "a list or dictionary that holds itself");
    check(&DATA, PICKLE("]\x94h\000Na."), NULL, "a list or dictionary that holds itself");
    check(&DATA, PICKLE("\x8a\011\000\000\000\000\000\000\000\000\002."), NULL,
          "more than 64 bits");
    check(&DATA, PICKLE("\x8a\011\000\000\000\000\000\000\000\000\200."), NULL,
          "more than 64 bits");
    check(&DATA, PICKLE("\x8d\377\377\377\377\377\377\377\377x."), NULL, "beyond the end");
    check(&DATA, PICKLE("\x95\377\000\000\000\000\000\000\000N."), NULL, "beyond the end");
}

/* Numbers as no CPython writes them, but others may. */
static void test_numbers(void **state) {
    (void)state;
    check(&DATA, PICKLE("\x8a\000."), "0", NULL);
    check(&DATA, PICKLE("\x8a\012\005\000\000\000\000\000\000\000\000\000."), "5", NULL);
    check(&DATA, PICKLE("\x8a\012\376\377\377\377\377\377\377\377\377\377."), "-2", NULL);
    check(&DATA, PICKLE("\x8b\002\000\000\000\377\377."), "-1", NULL);
    check(&DATA, PICKLE("\x8a\001\200."), "-128", NULL);
}

/* Texts the maker knows have their numbers, from a literal and from the memo. */
static mt_status fill_names(void *context, mt_pickle_value *made, const mt_pickle_value *item,
                            size_t n, mt_error *err) {
    uint64_t *sum = context;
    for (size_t i = 0; i < n; i++)
        *sum = *sum * 10 + item[i].shape;
    (void)err;
    made->shape = 1;
    return MT_OK;
}

static void test_names(void **state) {
    static const mt_pickle_maker maker = { .names = NAMES, .fill = fill_names, .tuple = tuple };
    uint64_t sum = 0;
    pickle_writer w;
    (void)state;
    pickle_begin(&w, 4, false);
    pickle_list(&w);
    for (int i = 0; i < 2; i++) {
        pickle_text(&w, "size");
        pickle_text(&w, "other");
        pickle_text(&w, "action");
    }
    pickle_end(&w);
    pickle_stop(&w);
    assert_int_equal(mt_pickle_read(&maker, &sum, "p", w.at, w.count, NULL, NULL), MT_OK);
    assert_int_equal(sum, 201201);
    pickle_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dumped),  cmocka_unit_test(test_cut),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_long),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_code),
        cmocka_unit_test(test_globals), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
