/* test_map.c - the hash map, compared with an array that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/map.h"

static void test_few(void **state) {
    (void)state;
    static const uint64_t keys[] = { 0, 1, UINT64_MAX, UINT64_C(1) << 63, 42 };
    mt_map m = { 0 };
    assert_null(mt_map_find(&m, 0));
    assert_false(mt_map_remove(&m, 0));
    for (size_t i = 0; i < 5; i++)
        assert_true(mt_map_set(&m, keys[i], ~keys[i]));
    assert_true(mt_map_set(&m, 42, 43));
    assert_int_equal(m.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(*mt_map_find(&m, keys[i]) == (keys[i] == 42 ? 43 : ~keys[i]));
    assert_null(mt_map_find(&m, 2));
    for (size_t i = 0; i < 5; i++) {
        assert_true(mt_map_remove(&m, keys[i]));
        assert_false(mt_map_remove(&m, keys[i]));
    }
    assert_int_equal(m.count, 0);
    mt_map_free(&m);
    assert_null(mt_map_find(&m, 0));
    mt_map_free(&m);
}

/* Random operations on keys that are few, so that each is set and removed many times. */
static void test_against_array(void **state) {
    (void)state;
    enum { KEYS = 3000, ROUNDS = 400000 };
    static uint64_t value[KEYS];
    static bool there[KEYS];
    size_t count = 0;
    uint64_t x = 1;
    mt_map m = { 0 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t k = (x >> 33) % KEYS, key = k << (k % 3 * 20);
        bool fills = round / 50000 % 2 == 0; /* grows and shrinks in turn */
        if ((x >> 20) % 4 < (fills ? 3 : 1)) {
            assert_true(mt_map_set(&m, key, round));
            count += !there[k];
            there[k] = true;
            value[k] = round;
        } else {
            assert_int_equal(mt_map_remove(&m, key), there[k]);
            count -= there[k];
            there[k] = false;
        }
        assert_int_equal(m.count, count);
        if (round % 1000 == 0)
            for (k = 0; k < KEYS; k++) {
                const uint64_t *v = mt_map_find(&m, k << (k % 3 * 20));
                assert_true(there[k] ? v != NULL && *v == value[k] : v == NULL);
            }
    }
    mt_map_free(&m);
}

/* Rising keys of which few live at a time, as ids of requests: the places stay few. */
static void test_memory_follows_what_lives(void **state) {
    (void)state;
    mt_map m = { 0 };
    for (uint64_t i = 0; i < 100000; i++)
        assert_true(mt_map_set(&m, i, i));
    assert_true(m.places >= 131072);
    for (uint64_t i = 0; i < 99990; i++)
        assert_true(mt_map_remove(&m, i));
    assert_true(m.places <= 128);
    for (uint64_t i = 100000; i < 1000000; i++) {
        assert_true(mt_map_set(&m, i, i));
        assert_true(mt_map_remove(&m, i - 10));
        assert_true(m.places <= 128);
    }
    assert_int_equal(m.count, 10);
    mt_map_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_memory_follows_what_lives),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
