/* test_optimum.c - the yardstick: the packing against brute force and against its bound, and the
 * whole against every online policy on random traces and on recorded schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/jemalloc.h"
#include "reports/optimum.h"
#include "reports/pack.h"
#include "base/size.h"
#include "traces/ops.h"

static uint64_t seed = 88172645463325252;

static uint64_t below(uint64_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

static uint32_t few(uint32_t n) {
    return getenv("MEMTRACE_QUICK") != NULL ? n / 20 : n;
}

/* ---- packings -----------------------------------------------------------------------------------
 */

static bool overlap(const mt_pack_item *a, const mt_pack_item *b) {
    return a->birth < b->death && b->birth < a->death;
}

/* Whether items i.. fit below height, each at a multiple of unit: tries every place. */
static bool fits(const mt_pack_item *item, uint32_t n, uint64_t *offset, uint32_t i, uint64_t unit,
                 uint64_t height) {
    if (i == n)
        return true;
    for (uint64_t at = 0; at + item[i].size <= height; at += unit) {
        bool free_there = true;
        for (uint32_t k = 0; k < i && free_there; k++)
            free_there = !overlap(&item[i], &item[k]) || offset[k] + item[k].size <= at ||
                         at + item[i].size <= offset[k];
        offset[i] = at;
        if (free_there && fits(item, n, offset, i + 1, unit, height))
            return true;
    }
    return false;
}

/* Sizes are multiples of unit, and with them the places of some optimum. */
static uint64_t brute_force(const mt_pack_item *item, uint32_t n, uint64_t unit, uint64_t low) {
    uint64_t offset[8];
    while (!fits(item, n, offset, 0, unit, low))
        low += unit;
    return low;
}

static void any_items(mt_pack_item *item, uint32_t n, uint64_t unit, uint64_t most, uint32_t life) {
    for (uint32_t i = 0; i < n; i++)
        item[i] = (mt_pack_item){ unit * (1 + below(most)), i, i + 1 + (uint32_t)below(life) };
}

/* Overlaps found the slow way. */
static void check_places(const mt_pack_item *item, uint32_t n, const uint64_t *offset,
                         const mt_pack_result *r) {
    for (uint32_t i = 0; i < n; i++) {
        assert_true(offset[i] + item[i].size <= r->height);
        for (uint32_t k = 0; k < i; k++)
            assert_true(!overlap(&item[i], &item[k]) || offset[k] + item[k].size <= offset[i] ||
                        offset[i] + item[i].size <= offset[k]);
    }
}

static void test_brute_force(void **state) {
    mt_pack_item item[8];
    mt_pack_result r;
    uint64_t offset[8];
    mt_error err;
    (void)state;
    for (uint32_t t = 0; t < few(3000) + 100; t++) {
        uint32_t n = 1 + (uint32_t)below(8);
        any_items(item, n, 256, 6, n);
        assert_int_equal(mt_pack(item, n, offset, &r, &err), MT_OK);
        check_places(item, n, offset, &r);
        assert_true(r.exact && r.height >= r.low);
        assert_int_equal(r.height, brute_force(item, n, 256, r.low));
    }
}

/* Five are live at most, and no packing ends below six. */
static void test_above_the_bound(void **state) {
    const mt_pack_item item[] = { { 3, 0, 2 }, { 1, 1, 5 }, { 2, 2, 6 },  { 2, 3, 4 },
                                  { 1, 4, 9 }, { 2, 5, 6 }, { 3, 6, 10 }, { 1, 7, 13 } };
    mt_pack_result r;
    uint64_t offset[8];
    mt_error err;
    (void)state;
    assert_int_equal(mt_pack(item, 8, offset, &r, &err), MT_OK);
    check_places(item, 8, offset, &r);
    assert_int_equal(r.low, 5);
    assert_int_equal(r.height, 6);
    assert_true(r.exact);
    assert_int_equal(brute_force(item, 8, 1, r.low), 6);
}

/* More than 8 items are called exact only when they reach the bound. */
static void test_exact_claims(void **state) {
    mt_pack_item item[60];
    mt_pack_result r;
    uint64_t offset[60];
    mt_error err;
    uint32_t claimed = 0;
    (void)state;
    for (uint32_t t = 0; t < few(400) + 20; t++) {
        uint32_t n = 9 + (uint32_t)below(52);
        any_items(item, n, 256, 1 + below(100), 1 + (uint32_t)below(n));
        assert_int_equal(mt_pack(item, n, offset, &r, &err), MT_OK);
        check_places(item, n, offset, &r);
        assert_true(r.height >= r.low);
        assert_int_equal(r.exact, r.height == r.low);
        claimed += r.exact;
    }
    assert_true(claimed > 0);
}

static void test_repeats(void **state) {
    static mt_pack_item item[300];
    static uint64_t first[300], second[300];
    mt_pack_result a, b;
    mt_error err;
    (void)state;
    any_items(item, 300, 256, 500, 40);
    assert_int_equal(mt_pack(item, 300, first, &a, &err), MT_OK);
    assert_int_equal(mt_pack(item, 300, second, &b, &err), MT_OK);
    assert_int_equal(a.height, b.height);
    assert_memory_equal(first, second, sizeof first);
}

static void test_check(void **state) {
    const mt_pack_item item[] = { { 10, 0, 2 }, { 10, 1, 3 }, { 10, 2, 3 } };
    mt_error err;
    (void)state;
    assert_int_equal(mt_pack_check(item, 3, (uint64_t[]){ 0, 10, 0 }, 20, &err), MT_OK);
    assert_int_equal(mt_pack_check(item, 3, (uint64_t[]){ 0, 9, 0 }, 20, &err), MT_CHECK);
    assert_int_equal(mt_pack_check(item, 3, (uint64_t[]){ 5, 0, 10 }, 20, &err), MT_CHECK);
    assert_int_equal(mt_pack_check(item, 3, (uint64_t[]){ 0, 10, 15 }, 25, &err), MT_CHECK);
    assert_int_equal(mt_pack_check(item, 3, (uint64_t[]){ 0, 10, 0 }, 19, &err), MT_CHECK);
}

/* ---- against online policies --------------------------------------------------------------------
 */

static const char *const policies[] = {
    "torch",
    "torch,expandable_segments:True",
    "torch,roundup_power2_divisions:4",
    "block:4KiB",
    "block:4KiB,round:256,keep:none",
    "block:4KiB,round:256,fit:first",
    "block:64KiB,round:256,keep:none",
    "block:2MiB",
    "direct",
    "bfc",
    "bfc:64KiB",
    "jemalloc",
    "jemalloc,decay:0,grow:4KiB",
};

/* The last two need the library. */
static size_t policy_count(void) {
    return sizeof policies / sizeof *policies - (mt_jemalloc_built() ? 0 : 2);
}

/* Runs ops through a policy; *bounds of what it was asked, if wanted. Returns its peak. */
static uint64_t run(const mt_ops *ops, const char *policy, mt_bounds *bounds) {
    mt_source *s;
    mt_alloc *a;
    mt_optimum *o;
    uint64_t refused;
    mt_error err = { MT_OK, "" };
    assert_int_equal(mt_source_sim(&s, 1024 * MT_GIB, 4 * MT_KIB, &err), MT_OK);
    if (mt_alloc_open(&a, s, policy, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(mt_optimum_open(&o, &err), MT_OK);
    if (bounds != NULL)
        mt_alloc_listen(a, mt_optimum_listener(o));
    if (mt_ops_run(ops, a, &refused, NULL, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(refused, 0);
    uint64_t peak = mt_alloc_ledger(a)->reserved.peak;
    if (bounds != NULL) {
        if (mt_optimum_solve(o, bounds, &err) != MT_OK)
            fail_msg("%s", err.text);
        assert_int_equal(bounds->low, mt_alloc_ledger(a)->requested.peak);
    }
    mt_optimum_close(o);
    mt_alloc_close(a);
    s->close(s);
    return peak;
}

static void compare(const mt_ops *ops, const char *name) {
    mt_bounds b;
    run(ops, "direct", &b);
    assert_true(b.low <= b.high && b.high <= b.packed);
    for (size_t p = 0; p < policy_count(); p++) {
        uint64_t peak = run(ops, policies[p], NULL);
        if (peak < b.high)
            fail_msg("%s: %s holds %ju at most, the optimum %ju (%s)", name, policies[p],
                     (uintmax_t)peak, (uintmax_t)b.high, b.how);
    }
}

static void any_ops(mt_ops *ops, uint32_t n, uint32_t most, unsigned bits) {
    uint32_t live[200], lives = 0;
    *ops = (mt_ops){ .op = calloc(n, sizeof *ops->op), .n = n };
    assert_non_null(ops->op);
    for (uint32_t i = 0; i < n; i++) {
        if (lives == 0 || (lives < most && below(2) == 0)) {
            ops->op[i] = (mt_op){ .id = ops->requests, .kind = MT_OP_GET, .layer = -1 };
            ops->op[i].bytes = 1 + below(UINT64_C(1) << below(bits));
            live[lives++] = (uint32_t)ops->requests++;
        } else {
            uint32_t k = (uint32_t)below(lives);
            ops->op[i] = (mt_op){ .id = live[k], .kind = MT_OP_PUT };
            live[k] = live[--lives];
        }
    }
}

static void test_random_traces(void **state) {
    (void)state;
    for (uint32_t t = 0; t < few(1000) + 10; t++) {
        mt_ops ops;
        any_ops(&ops, 20 + (uint32_t)below(600), 1 + (uint32_t)below(100), 1 + (unsigned)below(25));
        compare(&ops, "random trace");
        mt_ops_free(&ops);
    }
}

/* One or a few sizes, in which holes are refilled exactly; and growing ones, as in a cache. */
static void test_patterns(void **state) {
    (void)state;
    for (uint32_t width = 1; width <= 24; width += 23) {
        mt_ops ops = { .op = calloc(4000, sizeof *ops.op) };
        for (uint32_t step = 0; step < 60; step++)
            for (uint32_t k = 0; k < width; k++) {
                ops.op[ops.n++] =
                    (mt_op){ .id = ops.requests++, .kind = MT_OP_GET, .bytes = 3072 * (step + 1) };
                if (step > 0)
                    ops.op[ops.n++] = (mt_op){ .id = ops.requests - 1 - width, .kind = MT_OP_PUT };
            }
        compare(&ops, "growing cache");
        mt_ops_free(&ops);
    }
}

static void test_schedules(void **state) {
    static const char *const names[] = {
        "dynamic-eager-p1",
        "dynamic-eager-p1000",
        "dynamic-sdpa-p1-expandable",
        "dynamic-sdpa-p1-round4",
        "dynamic-sdpa-p1-split20",
        "dynamic-sdpa-p1-torch211",
        "dynamic-sdpa-p1-wscache",
        "dynamic-sdpa-p1",
        "dynamic-sdpa-p1000",
        "nocache-eager",
        "nocache-sdpa",
    };
    const char *shared = getenv("MEMTRACE_SHARED");
    const bool quick = getenv("MEMTRACE_QUICK") != NULL;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        mt_ops ops;
        mt_error err;
        if (quick && strstr(names[i], "1000") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/golden/hf-gpt2/schedule-%s.txt.gz",
                 shared != NULL ? shared : "../shared", names[i]);
        if (mt_ops_read(&ops, path, &err) != MT_OK) {
            printf("skipped: %s\n", err.text);
            skip();
        }
        compare(&ops, names[i]);
        mt_ops_free(&ops);
    }
}

/* ---- the listener -------------------------------------------------------------------------------
 */

static void send(mt_optimum *o, mt_event_kind kind, uint64_t id, uint64_t bytes) {
    mt_listener l = mt_optimum_listener(o);
    mt_event e = { .kind = (uint8_t)kind, .id = id, .requested = bytes };
    l.on_event(l.context, &e);
}

static void test_listener(void **state) {
    mt_optimum *o;
    mt_bounds b;
    mt_error err;
    (void)state;
    assert_int_equal(mt_optimum_open(&o, &err), MT_OK);
    assert_int_equal(mt_optimum_solve(o, &b, &err), MT_OK);
    assert_int_equal(b.high, 0);
    send(o, MT_EV_FREE, 3, 100); /* of a request from before */
    send(o, MT_EV_ALLOC, 7, 1000);
    send(o, MT_EV_FREE, 5, 100);
    send(o, MT_EV_ALLOC, 8, 300);
    assert_int_equal(mt_optimum_solve(o, &b, &err), MT_OK);
    assert_int_equal(b.low, 1300);
    assert_int_equal(b.packed, 1024 + 512);
    assert_true(b.exact);
    send(o, MT_EV_FREE, 7, 1000);
    send(o, MT_EV_ALLOC, 9, 900);
    assert_int_equal(mt_optimum_solve(o, &b, &err), MT_OK);
    assert_int_equal(b.low, 1300);
    assert_int_equal(b.high, 1024 + 512);
    send(o, MT_EV_ALLOC, 11, 900); /* one was missed */
    assert_int_equal(mt_optimum_solve(o, &b, &err), MT_FAILED);
    mt_optimum_close(o);
    mt_optimum_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force),  cmocka_unit_test(test_above_the_bound),
        cmocka_unit_test(test_exact_claims), cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_check),        cmocka_unit_test(test_random_traces),
        cmocka_unit_test(test_patterns),     cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_listener),
    };
    return cmocka_run_group_tests_name("optimum", tests, NULL, NULL);
}
