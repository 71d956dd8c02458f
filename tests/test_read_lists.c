/* test_read_lists.c - lists of lifetimes: minimalloc's and allocatorSim's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/foreign_samples.h"
#include "tests/read_items.h"

#define TEXT(t) t, sizeof t - 1

/* Frees of a time come before its requests; numbers of what is live are used again. */
static void test_minimalloc(void **state) {
    (void)state;
    static const struct {
        mt_item_kind kind;
        uint64_t id, line;
        uint32_t live;
    } expected[] = {
        { MT_ITEM_ALLOC, 0, 2, 0 }, { MT_ITEM_ALLOC, 2, 4, 1 }, { MT_ITEM_FREE, 0, 2, 0 },
        { MT_ITEM_ALLOC, 1, 3, 0 }, { MT_ITEM_FREE, 1, 3, 0 },  { MT_ITEM_FREE, 2, 4, 1 },
    };
    items all;
    read_sample(TEXT(minimalloc), &all);
    assert_int_equal(all.count, 6);
    assert_string_equal(all.lacks, "what was reserved, streams");
    for (size_t i = 0; i < 6; i++)
        assert_true(all.at[i].kind == expected[i].kind && all.at[i].id == expected[i].id &&
                    all.at[i].line == expected[i].line && all.at[i].live == expected[i].live);
    assert_true(all.at[1].bytes == 6 && all.at[3].bytes == 5);
}

/* Columns in another order, under their other names, with some more. */
static void test_columns(void **state) {
    (void)state;
    static const char text[] = "size,alignment,end,buffer,start\r\n7,64,9,b,2\r\n\r\n5,1,3,c,0\r\n";
    items all;
    read_sample(TEXT(text), &all);
    assert_int_equal(all.count, 4);
    assert_true(all.at[0].bytes == 5 && all.at[1].bytes == 7 && all.at[2].id == 1);
}

static void test_broken(void **state) {
    (void)state;
    changed(minimalloc, "b1,0,3,4", "b1,0,3", 2, "3 columns, expected 4");
    changed(minimalloc, "b1,0,3,4", "b1,0,x,4", 2, "upper is 'x', expected a number");
    changed(minimalloc, "b1,0,3,4", "b1,3,3,4", 2, "expected an end after the beginning");
    changed(minimalloc, "b1,0,3,4", "b1,0,3,0", 2, "and bytes");
    changed(allocatorsim, "1 2 256", "1 2", 2, "expected BEGIN END BYTES");
    changed(allocatorsim, "1 2 256", "1 2 256 7", 2, "expected BEGIN END BYTES");
    changed(allocatorsim, "1 2 256", "2 1 256", 2, "expected an end after the beginning");
}

static void test_allocatorsim(void **state) {
    (void)state;
    items all;
    read_sample(TEXT(allocatorsim), &all);
    assert_int_equal(all.count, 6);
    const mt_item *x = all.at;
    assert_true(x[0].bytes == 92928 && x[1].bytes == 256 && x[2].kind == MT_ITEM_FREE);
    assert_true(x[3].bytes == 1228800 && x[3].live == x[1].live && x[5].id == 0);
}

/* All live at once, the last first, and freed in the order of the file: numbers stay apart. */
static void test_many(void **state) {
    (void)state;
    enum { MANY = 20000 };
    static uint8_t live[MANY];
    const char *path = temp_path("many");
    FILE *f = fopen(path, "w");
    mt_reader *r;
    mt_item item;
    mt_error err;
    size_t requests = 0;
    assert_non_null(f);
    for (int i = 0; i < MANY; i++)
        fprintf(f, "%d %d 512\n", MANY - i, MANY + 1 + i);
    fclose(f);
    assert_int_equal(mt_reader_open(&r, path, &err), MT_OK);
    do {
        assert_int_equal(mt_reader_next(r, &item, &err), MT_OK);
        if (item.kind == MT_ITEM_END)
            break;
        assert_true(item.live < MANY && live[item.live] == (item.kind == MT_ITEM_FREE));
        live[item.live] = item.kind == MT_ITEM_ALLOC;
        requests += item.kind == MT_ITEM_ALLOC;
    } while (true);
    assert_int_equal(requests, MANY);
    mt_reader_close(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minimalloc), cmocka_unit_test(test_columns),
        cmocka_unit_test(test_broken),     cmocka_unit_test(test_allocatorsim),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests_name("read_lists", tests, temp_setup, temp_teardown);
}
