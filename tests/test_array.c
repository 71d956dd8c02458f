/* test_array.c - arrays that grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

typedef struct wide {
    uint64_t value[5];
} wide;

static void test_push(void **state) {
    (void)state;
    MT_ARRAY(wide) a = { 0 };
    size_t growths = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        size_t room = a.room;
        wide *w = mt_array_push(&a);
        assert_non_null(w);
        *w = (wide){ { i, ~i } };
        growths += room != a.room;
    }
    assert_int_equal(a.count, 100000);
    assert_true(a.room >= a.count && a.room < 3 * a.count);
    assert_true(growths < 16);
    for (uint64_t i = 0; i < a.count; i++)
        assert_true(a.at[i].value[0] == i && a.at[i].value[1] == ~i);
    mt_array_free(&a);
    assert_true(a.at == NULL && a.count == 0 && a.room == 0);
    mt_array_free(&a);
}

static void test_reserve(void **state) {
    (void)state;
    MT_ARRAY(char) a = { 0 };
    assert_true(mt_array_reserve(&a, 1000));
    assert_int_equal(a.room, 1000);
    char *at = a.at;
    assert_true(mt_array_reserve(&a, 1000));
    assert_ptr_equal(a.at, at);
    assert_int_equal(a.count, 0);
    mt_array_free(&a);
}

/* New elements are zero, also in memory that was used before. */
static void test_extend(void **state) {
    (void)state;
    MT_ARRAY(uint32_t) a = { 0 };
    for (int i = 0; i < 20; i++)
        *(uint32_t *)mt_array_push(&a) = 7;
    a.count = 3;
    assert_true(mt_array_extend(&a, 2));
    assert_int_equal(a.count, 3);
    assert_true(mt_array_extend(&a, 5000));
    assert_int_equal(a.count, 5000);
    for (size_t i = 0; i < a.count; i++)
        assert_int_equal(a.at[i], i < 3 ? 7 : 0);
    mt_array_free(&a);
}

/* A product that does not fit, and more than there is: refused, and nothing has changed. */
static void test_too_much(void **state) {
    (void)state;
    MT_ARRAY(wide) a = { 0 };
    assert_non_null(mt_array_push(&a));
    a.at[0].value[0] = 9;
    wide *at = a.at;
    size_t room = a.room;
    volatile size_t most = SIZE_MAX;
    assert_false(mt_array_reserve(&a, most));
    assert_false(mt_array_reserve(&a, most / sizeof(wide)));
    assert_false(mt_array_reserve(&a, most / sizeof(wide) / 2));
    assert_false(mt_array_extend(&a, most / sizeof(wide) + 1));
    assert_true(a.at == at && a.room == room && a.count == 1 && a.at[0].value[0] == 9);
    mt_array_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_extend),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
