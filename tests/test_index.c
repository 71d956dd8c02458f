/* test_index.c - the index of free blocks against a sorted array, and the rules of its tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/core.h"

#define BLOCKS   1200
#define SEGMENTS 40

/* What is under test beside what it must agree with. */
typedef struct bed {
    mt_index index;
    mt_segment segment[SEGMENTS];
    mt_block block[BLOCKS];
    mt_block *sorted[BLOCKS];
    uint32_t count;
    uint64_t seed;
} bed;

static uint64_t random_below(bed *b, uint64_t n) {
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return (b->seed >> 11) % n;
}

static uint32_t operations(uint32_t n) {
    return getenv("MEMTRACE_QUICK") != NULL ? n / 20 : n;
}

/* Segments whose virtual addresses do not rise with their numbers; blocks of few sizes and streams,
 * so that ties are common. No two blocks lie at one place. */
static void fill(bed *b, bool by_address, mt_order order, uint64_t seed) {
    memset(b, 0, sizeof *b);
    b->index.by_address = by_address;
    b->index.order = order;
    b->seed = seed;
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        b->segment[i].number = i;
        b->segment[i].vaddr = (uint64_t)(i * 17 % SEGMENTS + 1) << 32;
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        mt_block *k = &b->block[i];
        k->segment = &b->segment[i % SEGMENTS];
        k->offset = (uint64_t)(i / SEGMENTS) * 4096;
        k->size = (random_below(b, 12) + 1) * 512;
        k->stream = (uint32_t)random_below(b, 4);
        k->birth = i * UINT64_C(7919) % BLOCKS;
    }
}

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static uint64_t address(const mt_block *b) {
    return b->segment->vaddr + b->offset;
}

/* The order that core.h promises, written down once more. */
static int compare(const bed *t, const mt_block *a, const mt_block *b) {
    int c = compare_numbers(a->stream, b->stream);
    if (c != 0)
        return c;
    if (t->index.by_address)
        return compare_numbers(address(a), address(b));
    c = compare_numbers(a->size, b->size);
    if (c != 0)
        return c;
    if (t->index.order == MT_ORDER_ADDRESS)
        return compare_numbers(address(a), address(b));
    if (t->index.order == MT_ORDER_BIRTH)
        return compare_numbers(a->birth, b->birth);
    c = compare_numbers(a->segment->number, b->segment->number);
    return c != 0 ? c : compare_numbers(a->offset, b->offset);
}

/* ---- the rules of the tree ------------------------------------------------------------------- */

/* Checks the subtree of n and returns its black height. */
static int black_height(const mt_block *n, uint32_t *count) {
    if (n == NULL)
        return 1;
    ++*count;
    assert_true(n->left == NULL || n->left->parent == n);
    assert_true(n->right == NULL || n->right->parent == n);
    if (n->red) {
        assert_true(n->left == NULL || !n->left->red);
        assert_true(n->right == NULL || !n->right->red);
    }
    int left = black_height(n->left, count), right = black_height(n->right, count);
    assert_int_equal(left, right);
    return left + !n->red;
}

static void check_tree(const bed *b) {
    uint32_t count = 0;
    const mt_block *root = b->index.root;
    assert_true(root == NULL || (root->parent == NULL && !root->red));
    black_height(root, &count);
    assert_int_equal(count, b->count);
    assert_int_equal(b->index.count, b->count);
}

/* Forwards, backwards and both ends. */
static void check_walks(const bed *b) {
    mt_block *n = mt_index_first(&b->index);
    for (uint32_t i = 0; i < b->count; i++, n = mt_index_next(n))
        assert_ptr_equal(n, b->sorted[i]);
    assert_null(n);
    n = mt_index_last(&b->index);
    for (uint32_t i = b->count; i-- > 0; n = mt_index_prev(n))
        assert_ptr_equal(n, b->sorted[i]);
    assert_null(n);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* How many of the sorted blocks come before this one. */
static uint32_t place_of(const bed *b, const mt_block *k) {
    uint32_t low = 0, high = b->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (compare(b, b->sorted[middle], k) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(bed *b, mt_block *k) {
    uint32_t at = place_of(b, k);
    memmove(b->sorted + at + 1, b->sorted + at, (b->count - at) * sizeof *b->sorted);
    b->sorted[at] = k;
    b->count++;
    mt_index_insert(&b->index, k);
}

static void take_out(bed *b, mt_block *k) {
    uint32_t at = place_of(b, k);
    assert_ptr_equal(b->sorted[at], k);
    b->count--;
    memmove(b->sorted + at, b->sorted + at + 1, (b->count - at) * sizeof *b->sorted);
    mt_index_remove(&b->index, k);
}

static bool is_in(const bed *b, const mt_block *k) {
    uint32_t at = place_of(b, k);
    return at < b->count && b->sorted[at] == k;
}

static void check_neighbours(const bed *b, const mt_block *k) {
    uint32_t at = place_of(b, k);
    assert_ptr_equal(mt_index_prev(k), at > 0 ? b->sorted[at - 1] : NULL);
    assert_ptr_equal(mt_index_next(k), at + 1 < b->count ? b->sorted[at + 1] : NULL);
}

/* The first of (stream, size or more), by looking at all. In an index by address only size 0 is
 * ever asked for. */
static void check_at_least(const bed *b, uint32_t stream, uint64_t size) {
    mt_block *expected = NULL;
    if (b->index.by_address)
        size = 0;
    for (uint32_t i = 0; i < b->count && expected == NULL; i++) {
        mt_block *k = b->sorted[i];
        if (k->stream > stream || (k->stream == stream && k->size >= size))
            expected = k;
    }
    assert_ptr_equal(mt_index_at_least(&b->index, stream, size), expected);
}

/* One operation; the target size of the index wanders, so that it is also often almost empty. */
static void operate(bed *b, uint32_t step) {
    mt_block *k = &b->block[random_below(b, BLOCKS)];
    uint32_t wanted = step / 2000 % 4 * 350;
    if (!is_in(b, k) && (b->count <= wanted || random_below(b, 4) == 0))
        insert(b, k);
    else if (b->count > 0 && b->count >= wanted)
        take_out(b, b->sorted[random_below(b, b->count)]);
    if (b->count > 0)
        check_neighbours(b, b->sorted[random_below(b, b->count)]);
    if (step % 8 == 0)
        check_at_least(b, (uint32_t)random_below(b, 6), random_below(b, 14) * 512);
    if (step % 64 == 0 || b->count < 8)
        check_tree(b);
    if (step % 256 == 0)
        check_walks(b);
}

static void run(bool by_address, mt_order order, uint64_t seed) {
    bed *b = malloc(sizeof *b);
    assert_non_null(b);
    fill(b, by_address, order, seed);
    for (uint32_t i = 0; i < operations(100000); i++)
        operate(b, i);
    while (b->count > 0) {
        take_out(b, b->sorted[random_below(b, b->count)]);
        check_tree(b);
    }
    free(b);
}

static void test_by_segment(void **state) {
    (void)state;
    run(false, MT_ORDER_SEGMENT, 1);
}

static void test_by_address_tie(void **state) {
    (void)state;
    run(false, MT_ORDER_ADDRESS, 2);
}

static void test_by_birth(void **state) {
    (void)state;
    run(false, MT_ORDER_BIRTH, 3);
}

static void test_unmapped_order(void **state) {
    (void)state;
    run(true, MT_ORDER_SEGMENT, 4);
}

/* ---- ends and rising orders ------------------------------------------------------------------ */

static void test_ends(void **state) {
    (void)state;
    static bed b;
    fill(&b, false, MT_ORDER_SEGMENT, 5);
    assert_null(mt_index_first(&b.index));
    assert_null(mt_index_last(&b.index));
    assert_null(mt_index_at_least(&b.index, 0, 0));
    b.block[0].stream = 1;
    b.block[0].size = 1024;
    insert(&b, &b.block[0]);
    assert_ptr_equal(mt_index_first(&b.index), &b.block[0]);
    assert_ptr_equal(mt_index_last(&b.index), &b.block[0]);
    assert_null(mt_index_next(&b.block[0]));
    assert_null(mt_index_prev(&b.block[0]));
    assert_ptr_equal(mt_index_at_least(&b.index, 0, UINT64_MAX), &b.block[0]);
    assert_ptr_equal(mt_index_at_least(&b.index, 1, 1024), &b.block[0]);
    assert_null(mt_index_at_least(&b.index, 1, 1025));
    assert_null(mt_index_at_least(&b.index, 2, 0));
    take_out(&b, &b.block[0]);
    check_tree(&b);
}

/* Rising, falling, and from both ends inwards, each taken out in three orders. */
static void test_sorted_input(void **state) {
    (void)state;
    static bed b;
    enum { N = 300 };
    for (int in = 0; in < 3; in++)
        for (int out = 0; out < 3; out++) {
            fill(&b, false, MT_ORDER_BIRTH, 6);
            for (uint32_t i = 0; i < N; i++) {
                uint32_t at = in == 0 ? i : in == 1 ? N - 1 - i : i % 2 ? N - 1 - i / 2 : i / 2;
                b.block[at].stream = 0;
                b.block[at].size = (uint64_t)(at + 1) * 512;
                insert(&b, &b.block[at]);
                check_tree(&b);
            }
            check_walks(&b);
            for (; b.count > 0; check_tree(&b))
                take_out(&b, b.sorted[out == 0 ? 0 : out == 1 ? b.count - 1 : b.count / 2]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_segment), cmocka_unit_test(test_by_address_tie),
        cmocka_unit_test(test_by_birth),   cmocka_unit_test(test_unmapped_order),
        cmocka_unit_test(test_ends),       cmocka_unit_test(test_sorted_input),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
