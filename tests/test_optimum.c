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

#include "alloc/alloc.h"
#include "reports/optimum.h"
#include "reports/pack.h"
#include "base/size.h"
#include "traces/replay.h"
#include "tests/recordings.h"
#include "tests/interrupts.h"

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

/* ---- packings -------------------------------------------------------------------------------- */

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

/* The search looks for an interrupt again and again, and ends within a few looks of it. */
static void test_interrupted(void **state) {
    static mt_pack_item item[300];
    static uint64_t offset[300];
    mt_pack_result r;
    mt_error err;
    (void)state;
    any_items(item, 300, 256, 500, 40);
    watch_interrupts(0);
    assert_int_equal(mt_pack(item, 300, offset, &r, &err), MT_OK);
    uint64_t looks = interrupt.looks;
    assert_true(looks > 20);
    for (uint64_t from = 1; from <= looks; from += 1 + from / 2) {
        watch_interrupts(from);
        assert_int_equal(mt_pack(item, 300, offset, &r, &err), MT_INTERRUPTED);
        assert_true(interrupt.looks <= from + 6);
    }
    mt_interrupt_by(NULL);
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

/* ---- against online policies ----------------------------------------------------------------- */

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
    return sizeof policies / sizeof *policies -
           (mt_policy_find("jemalloc")->missing != NULL ? 2 : 0);
}

#define POLICIES (sizeof policies / sizeof *policies + 1)

/* All policies side by side, direct at the end with the optimum's listener. */
typedef struct race {
    mt_source *source[POLICIES];
    mt_alloc *alloc[POLICIES];
    size_t n;
    mt_optimum *optimum;
    mt_replay replay;
    mt_error err;
} race;

static void start(race *r) {
    *r = (race){ .n = policy_count() + 1 };
    for (size_t i = 0; i < r->n; i++) {
        const char *policy = i + 1 < r->n ? policies[i] : "direct";
        assert_int_equal(mt_source_sim(&r->source[i], 1024 * MT_GIB, 4 * MT_KIB, &r->err), MT_OK);
        if (mt_alloc_open(&r->alloc[i], r->source[i], policy, &r->err) != MT_OK)
            fail_msg("%s", r->err.text);
    }
    assert_int_equal(mt_optimum_open(&r->optimum, &r->err), MT_OK);
    mt_alloc_listen(r->alloc[r->n - 1], mt_optimum_listener(r->optimum));
    assert_int_equal(mt_replay_open(&r->replay, r->alloc, r->n, &r->err), MT_OK);
}

static void ask(race *r, mt_item_kind kind, uint32_t live, uint64_t bytes) {
    const mt_item item = { .kind = kind, .live = live, .bytes = bytes, .layer = -1 };
    if (mt_replay_item(&r->replay, &item, &r->err) != MT_OK)
        fail_msg("%s", r->err.text);
}

/* No policy holds less than the optimum. */
static void finish(race *r, const char *name) {
    mt_bounds b;
    mt_alloc *last = r->alloc[r->n - 1];
    if (mt_optimum_solve(r->optimum, &b, &r->err) != MT_OK)
        fail_msg("%s", r->err.text);
    assert_int_equal(b.low, mt_alloc_ledger(last)->requested.peak);
    assert_true(b.low <= b.high && b.high <= b.packed);
    for (size_t i = 0; i < r->n; i++) {
        uint64_t peak = mt_alloc_ledger(r->alloc[i])->reserved.peak;
        assert_int_equal(r->replay.refused[i].count, 0);
        if (peak < b.high)
            fail_msg("%s: %s holds %ju at most, the optimum %ju (%s)", name,
                     mt_alloc_policy(r->alloc[i]), (uintmax_t)peak, (uintmax_t)b.high, b.how);
        mt_alloc_unlisten(r->alloc[i]);
        mt_alloc_close(r->alloc[i]);
        r->source[i]->close(r->source[i]);
    }
    mt_optimum_close(r->optimum);
    mt_replay_close(&r->replay);
}

/* n requests and frees, at most `most` live at a time, of up to 2^bits bytes. */
static void any_requests(race *r, uint32_t n, uint32_t most, unsigned bits) {
    uint32_t live[200], lives = 0, next = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (lives == 0 || (lives < most && below(2) == 0)) {
            ask(r, MT_ITEM_ALLOC, next, 1 + below(UINT64_C(1) << below(bits)));
            live[lives++] = next++;
        } else {
            uint32_t k = (uint32_t)below(lives);
            ask(r, MT_ITEM_FREE, live[k], 0);
            live[k] = live[--lives];
        }
    }
}

static void test_random_traces(void **state) {
    (void)state;
    for (uint32_t t = 0; t < few(1000) + 10; t++) {
        race r;
        start(&r);
        any_requests(&r, 20 + (uint32_t)below(600), 1 + (uint32_t)below(100),
                     1 + (unsigned)below(25));
        finish(&r, "random trace");
    }
}

/* One or a few sizes, in which holes are refilled exactly; and growing ones, as in a cache. */
static void test_patterns(void **state) {
    (void)state;
    for (uint32_t width = 1; width <= 24; width += 23) {
        race r;
        uint32_t next = 0;
        start(&r);
        for (uint32_t step = 0; step < 60; step++)
            for (uint32_t k = 0; k < width; k++) {
                ask(&r, MT_ITEM_ALLOC, next++, 3072 * (step + 1));
                if (step > 0)
                    ask(&r, MT_ITEM_FREE, next - 1 - width, 0);
            }
        finish(&r, "growing cache");
    }
}

static void check_schedule(const char *path, void *context) {
    race r;
    mt_reader *in;
    mt_error err;
    (void)context;
    start(&r);
    if (mt_reader_open(&in, path, &err) != MT_OK ||
        mt_replay_all(&r.replay, in, NULL, &err) != MT_OK)
        fail_msg("%s", err.text);
    finish(&r, path);
    mt_reader_close(in);
}

static void test_schedules(void **state) {
    (void)state;
    assert_true(for_recordings("gpt2-2.{8,11}/schedule-*.txt.gz", "hf-gpt2/schedule-*.txt.gz", 5,
                               check_schedule, NULL) > 0);
}

/* ---- the listener ---------------------------------------------------------------------------- */

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
        cmocka_unit_test(test_listener),     cmocka_unit_test(test_interrupted),
    };
    return cmocka_run_group_tests_name("optimum", tests, NULL, NULL);
}
