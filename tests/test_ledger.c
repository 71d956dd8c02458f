/* test_ledger.c - the ledger: known answers, events that cannot be, peaks of steps, and a random
 * run against sums over a list of blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/ledger.h"

#define MIB UINT64_C(1048576)

/* ---- making events --------------------------------------------------------------------------- */

/* An event on the segment of a slot; a segment's number is 100 more than its slot unless said. */
static mt_event on(mt_event_kind kind, uint32_t slot, uint64_t requested, uint64_t rounded) {
    return (mt_event){ .kind = (uint8_t)kind,
                       .tag = MT_KV,
                       .layer = -1,
                       .slot = slot,
                       .segment = slot + 100,
                       .requested = requested,
                       .rounded = rounded };
}

static mt_event tagged(mt_event e, mt_tag tag) {
    e.tag = (uint8_t)tag;
    return e;
}

static mt_event numbered(mt_event e, uint32_t segment) {
    e.segment = segment;
    return e;
}

static void apply(mt_ledger *l, mt_event e) {
    mt_error err = { MT_OK, "" };
    if (mt_ledger_apply(l, &e, &err) != MT_OK)
        fail_msg("%s", err.text);
    if (mt_ledger_check(l, &err) != MT_OK)
        fail_msg("%s", err.text);
}

/* ---- known answers --------------------------------------------------------------------------- */

typedef struct known {
    mt_event event;
    uint64_t requested, rounding, split, cached, reserved, segments;
} known;

static void check_known(const known *k, size_t n) {
    mt_ledger l;
    mt_ledger_init(&l);
    for (size_t i = 0; i < n; i++) {
        apply(&l, k[i].event);
        assert_int_equal(l.requested.current, k[i].requested);
        assert_int_equal(l.rounding, k[i].rounding);
        assert_int_equal(l.split, k[i].split);
        assert_int_equal(l.cached, k[i].cached);
        assert_int_equal(l.reserved.current, k[i].reserved);
        assert_int_equal(l.segments, k[i].segments);
    }
    mt_ledger_free(&l);
}

#define CHECK_KNOWN(k) check_known(k, sizeof k / sizeof *k)

static void test_blocks(void **state) {
    (void)state;
    const known k[] = {
        { on(MT_EV_SEGMENT_ALLOC, 0, 1000, 2097152), 0, 0, 0, 2097152, 2097152, 1 },
        { on(MT_EV_ALLOC, 0, 1000, 1024), 1000, 24, 2096128, 0, 2097152, 1 },
        { tagged(on(MT_EV_ALLOC, 0, 600, 1024), MT_WEIGHTS), 1600, 448, 2095104, 0, 2097152, 1 },
        { on(MT_EV_SEGMENT_ALLOC, 1, 5, 20971520), 1600, 448, 2095104, 20971520, 23068672, 2 },
        { on(MT_EV_FREE, 0, 1000, 1024), 600, 424, 2096128, 20971520, 23068672, 2 },
        { on(MT_EV_ALLOC, 1, 20971520, 20971520), 20972120, 424, 2096128, 0, 23068672, 2 },
        { tagged(on(MT_EV_FREE, 0, 600, 1024), MT_WEIGHTS), 20971520, 0, 0, 2097152, 23068672, 2 },
        { on(MT_EV_SEGMENT_FREE, 0, 0, 2097152), 20971520, 0, 0, 0, 20971520, 1 },
        { numbered(on(MT_EV_SEGMENT_ALLOC, 0, 1, 4096), 7), 20971520, 0, 0, 4096, 20975616, 2 },
        { on(MT_EV_FREE, 1, 20971520, 20971520), 0, 0, 0, 20975616, 20975616, 2 },
        { on(MT_EV_SEGMENT_FREE, 1, 0, 20971520), 0, 0, 0, 4096, 4096, 1 },
        { numbered(on(MT_EV_SEGMENT_FREE, 0, 0, 4096), 7), 0, 0, 0, 0, 0, 0 },
    };
    CHECK_KNOWN(k);
}

/* A growable segment: one segment while any page is mapped, its reserved bytes the mapped ones. */
static void test_pages(void **state) {
    (void)state;
    const known k[] = {
        { on(MT_EV_SEGMENT_MAP, 3, 9, 4194304), 0, 0, 0, 4194304, 4194304, 1 },
        { on(MT_EV_ALLOC, 3, 3000000, 3000320), 3000000, 320, 1193984, 0, 4194304, 1 },
        { on(MT_EV_SEGMENT_MAP, 3, 9, 2097152), 3000000, 320, 3291136, 0, 6291456, 1 },
        { on(MT_EV_SEGMENT_UNMAP, 3, 0, 2097152), 3000000, 320, 1193984, 0, 4194304, 1 },
        { on(MT_EV_FREE, 3, 3000000, 3000320), 0, 0, 0, 4194304, 4194304, 1 },
        { on(MT_EV_SEGMENT_UNMAP, 3, 0, 2097152), 0, 0, 0, 2097152, 2097152, 1 },
        { on(MT_EV_SEGMENT_UNMAP, 3, 0, 2097152), 0, 0, 0, 0, 0, 0 },
        /* All its pages gone, the slot may hold another segment. */
        { numbered(on(MT_EV_SEGMENT_MAP, 3, 9, 2097152), 8), 0, 0, 0, 2097152, 2097152, 1 },
    };
    CHECK_KNOWN(k);
}

/* Each tag has its own sum, peak and total; counts of events. */
static void test_tags(void **state) {
    (void)state;
    mt_ledger l;
    mt_ledger_init(&l);
    apply(&l, on(MT_EV_SEGMENT_ALLOC, 0, 1, 4 * MIB));
    for (int t = 0; t < MT_TAGS; t++)
        apply(&l, tagged(on(MT_EV_ALLOC, 0, 100u + (unsigned)t, 512), (mt_tag)t));
    apply(&l, tagged(on(MT_EV_ALLOC, 0, 7, 512), MT_LOGITS));
    apply(&l, tagged(on(MT_EV_FREE, 0, 103, 512), MT_LOGITS));
    apply(&l, on(MT_EV_OOM, 0, 1, 1));
    for (int t = 0; t < MT_TAGS; t++) {
        assert_int_equal(l.tag[t].current, t == MT_LOGITS ? 7 : 100 + t);
        assert_int_equal(l.tag[t].peak, t == MT_LOGITS ? 110 : 100 + t);
        assert_int_equal(l.tag[t].total, t == MT_LOGITS ? 110 : 100 + t);
    }
    assert_int_equal(l.requested.current, 519);
    assert_int_equal(l.requested.peak, 622);
    assert_int_equal(l.requested.total, 622);
    assert_int_equal(l.reserved.peak, 4 * MIB);
    assert_int_equal(l.allocs, 7);
    assert_int_equal(l.frees, 1);
    assert_int_equal(l.ooms, 1);
    assert_int_equal(l.segment_events, 1);
    mt_ledger_free(&l);
}

/* What is kept of a segment: who caused it, or mapped its latest pages. */
static void test_causes(void **state) {
    (void)state;
    mt_ledger l;
    mt_ledger_init(&l);
    mt_event e = tagged(on(MT_EV_SEGMENT_MAP, 70, 12345, 2 * MIB), MT_ACTIVATIONS);
    e.layer = 3;
    e.pool = MT_POOL_LARGE;
    apply(&l, e);
    assert_true(l.segment.count > 70);
    assert_int_equal(l.segment.at[70].requested, 12345);
    assert_int_equal(l.segment.at[70].number, 170);
    assert_int_equal(l.segment.at[70].layer, 3);
    assert_int_equal(l.segment.at[70].tag, MT_ACTIVATIONS);
    assert_int_equal(l.segment.at[70].pool, MT_POOL_LARGE);
    e.requested = 777;
    e.layer = 4;
    apply(&l, e);
    apply(&l, on(MT_EV_ALLOC, 70, 500, 512));
    assert_int_equal(l.segment.at[70].requested, 777);
    assert_int_equal(l.segment.at[70].layer, 4);
    assert_int_equal(l.segment.at[70].reserved, 4 * MIB);
    assert_int_equal(l.segment.at[70].live, 512);
    assert_int_equal(l.segment.at[70].blocks, 1);
    mt_ledger_free(&l);
}

/* ---- peaks of steps -------------------------------------------------------------------------- */

static void check_peaks(const mt_ledger *l, uint64_t mark_requested, uint64_t mark_reserved,
                        uint64_t step_requested, uint64_t step_reserved) {
    assert_int_equal(l->mark_requested, mark_requested);
    assert_int_equal(l->mark_reserved, mark_reserved);
    assert_int_equal(l->step_requested, step_requested);
    assert_int_equal(l->step_reserved, step_reserved);
}

/* A step's peak counts from the value at the mark before it, that value included. */
static void test_step_peaks(void **state) {
    (void)state;
    mt_ledger l;
    mt_ledger_init(&l);
    check_peaks(&l, 0, 0, 0, 0);
    apply(&l, on(MT_EV_SEGMENT_ALLOC, 0, 1, 8192));
    apply(&l, on(MT_EV_ALLOC, 0, 4000, 4096));
    apply(&l, on(MT_EV_ALLOC, 0, 3000, 3072));
    apply(&l, on(MT_EV_FREE, 0, 4000, 4096));
    check_peaks(&l, 0, 0, 7000, 8192);
    apply(&l, on(MT_EV_MARK, 0, 0, 0));
    check_peaks(&l, 7000, 8192, 3000, 8192);
    /* A step in which nothing rises: its peak is what it began with. */
    apply(&l, on(MT_EV_FREE, 0, 3000, 3072));
    apply(&l, on(MT_EV_SEGMENT_FREE, 0, 0, 8192));
    apply(&l, on(MT_EV_MARK, 0, 0, 0));
    check_peaks(&l, 3000, 8192, 0, 0);
    apply(&l, on(MT_EV_SEGMENT_MAP, 1, 1, 4096));
    apply(&l, on(MT_EV_ALLOC, 1, 10, 512));
    apply(&l, on(MT_EV_MARK, 0, 0, 0));
    check_peaks(&l, 10, 4096, 10, 4096);
    apply(&l, on(MT_EV_MARK, 0, 0, 0));
    check_peaks(&l, 10, 4096, 10, 4096);
    /* The peaks of the whole run are not touched by marks. */
    assert_int_equal(l.requested.peak, 7000);
    assert_int_equal(l.reserved.peak, 8192);
    mt_ledger_free(&l);
}

/* ---- impossible events ----------------------------------------------------------------------- */

/* Slot 0: 2 MiB with kv 1000 in 1024 and weights 600 in 1024. Slot 1: 1 MiB, free. Slot 2: 4 MiB of
 * mapped pages with one kv block of 512 bytes that fills its request. */
static void fill(mt_ledger *l) {
    mt_ledger_init(l);
    apply(l, on(MT_EV_SEGMENT_ALLOC, 0, 1, 2 * MIB));
    apply(l, on(MT_EV_SEGMENT_ALLOC, 1, 1, MIB));
    apply(l, on(MT_EV_SEGMENT_MAP, 2, 1, 4 * MIB));
    apply(l, on(MT_EV_ALLOC, 0, 1000, 1024));
    apply(l, tagged(on(MT_EV_ALLOC, 0, 600, 1024), MT_WEIGHTS));
    apply(l, on(MT_EV_ALLOC, 2, 512, 512));
}

static void refuse(mt_event e) {
    mt_ledger l;
    mt_error err = { MT_OK, "" };
    fill(&l);
    mt_ledger before = l;
    mt_ledger_segment segment[3];
    memcpy(segment, l.segment.at, sizeof segment);
    e.seq = 77;
    assert_int_equal(mt_ledger_apply(&l, &e, &err), MT_CHECK);
    assert_int_equal(err.status, MT_CHECK);
    assert_non_null(strstr(err.text, "event 77 ("));
    assert_memory_equal(&l, &before, offsetof(mt_ledger, segment));
    assert_memory_equal(l.segment.at, segment, sizeof segment);
    assert_int_equal(mt_ledger_check(&l, &err), MT_OK);
    mt_ledger_free(&l);
}

static void test_impossible_allocs(void **state) {
    (void)state;
    refuse(on(MT_EV_ALLOC, 0, 1, 2 * MIB - 2048 + 1));
    refuse(on(MT_EV_ALLOC, 0, 1, UINT64_MAX));
    refuse(on(MT_EV_ALLOC, 1, 1025, 1024));
    refuse(on(MT_EV_ALLOC, 1, 0, 0));
    refuse(on(MT_EV_ALLOC, 5, 1, 512));
    refuse(on(MT_EV_ALLOC, 500, 1, 512));
    refuse(on(MT_EV_ALLOC, UINT32_MAX, 1, 512));
    refuse(numbered(on(MT_EV_ALLOC, 1, 1, 512), 102));
    refuse(tagged(on(MT_EV_ALLOC, 1, 1, 512), MT_TAGS));
}

static void test_impossible_frees(void **state) {
    (void)state;
    refuse(on(MT_EV_FREE, 1, 1, 512));                       /* no block is there */
    refuse(on(MT_EV_FREE, 5, 1, 512));                       /* no segment is there */
    refuse(on(MT_EV_FREE, 0, 1000, 2049));                   /* more than is live */
    refuse(on(MT_EV_FREE, 0, 1025, 1024));                   /* more requested than rounded */
    refuse(tagged(on(MT_EV_FREE, 0, 1000, 1024), MT_OTHER)); /* more than the tag has */
    refuse(on(MT_EV_FREE, 2, 511, 511));   /* would leave 1 byte without a block */
    refuse(on(MT_EV_FREE, 0, 1000, 2048)); /* would leave a block without a byte */
    refuse(on(MT_EV_FREE, 2, 0, 512));     /* more rounding than there is in all */
    refuse(on(MT_EV_FREE, 0, 0, 0));
    refuse(numbered(on(MT_EV_FREE, 0, 1000, 1024), 101));
    refuse(tagged(on(MT_EV_FREE, 0, 1000, 1024), 200));
}

static void test_impossible_segments(void **state) {
    (void)state;
    refuse(on(MT_EV_SEGMENT_ALLOC, 0, 1, MIB));
    refuse(on(MT_EV_SEGMENT_ALLOC, 2, 1, MIB));
    refuse(on(MT_EV_SEGMENT_ALLOC, 3, 1, 0));
    refuse(on(MT_EV_SEGMENT_ALLOC, 3, 1, UINT64_MAX));
    refuse(on(MT_EV_SEGMENT_FREE, 0, 0, 2 * MIB)); /* in use */
    refuse(on(MT_EV_SEGMENT_FREE, 1, 0, MIB - 1));
    refuse(on(MT_EV_SEGMENT_FREE, 1, 0, MIB + 1));
    refuse(on(MT_EV_SEGMENT_FREE, 4, 0, 0));
    refuse(on(MT_EV_SEGMENT_FREE, 4, 0, MIB));
    refuse(numbered(on(MT_EV_SEGMENT_FREE, 1, 0, MIB), 5));
    refuse(numbered(on(MT_EV_SEGMENT_MAP, 2, 1, MIB), 5));
    refuse(on(MT_EV_SEGMENT_MAP, 2, 1, 0));
    refuse(on(MT_EV_SEGMENT_MAP, 2, 1, UINT64_MAX));
    refuse(on(MT_EV_SEGMENT_MAP, UINT32_MAX, 1, MIB));
    refuse(on(MT_EV_SEGMENT_UNMAP, 2, 0, 4 * MIB)); /* 512 bytes of it are live */
    refuse(on(MT_EV_SEGMENT_UNMAP, 2, 0, 0));
    refuse(on(MT_EV_SEGMENT_UNMAP, 4, 0, 0));
    refuse(on(MT_EV_SEGMENT_UNMAP, 4, 0, MIB));
    refuse(numbered(on(MT_EV_SEGMENT_UNMAP, 2, 0, MIB), 5));
}

static void test_impossible_kinds(void **state) {
    (void)state;
    mt_ledger l;
    mt_error err;
    mt_event e = on(MT_EVENTS, 1, 1, 512);
    fill(&l);
    assert_int_equal(mt_ledger_apply(&l, &e, &err), MT_CHECK);
    e.kind = 255;
    assert_int_equal(mt_ledger_apply(&l, &e, NULL), MT_CHECK);
    mt_ledger_free(&l);
}

/* The check sees each part that is wrong. */
static void test_broken_identity(void **state) {
    (void)state;
    mt_ledger l;
    mt_error err;
    fill(&l);
    uint64_t *const parts[] = { &l.rounding,         &l.split,          &l.cached,
                                &l.reserved.current, &l.tag[0].current, &l.tag[MT_OTHER].current,
                                &l.requested.current };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] += 1;
        assert_int_equal(mt_ledger_check(&l, &err), MT_CHECK);
        assert_non_null(strstr(err.text, "identity broken: reserved "));
        *parts[i] -= 1;
        assert_int_equal(mt_ledger_check(&l, &err), MT_OK);
    }
    mt_ledger_free(&l);
}

/* ---- a random run ---------------------------------------------------------------------------- */

#define SLOTS  24
#define BLOCKS 40

typedef struct piece {
    uint64_t requested, rounded;
    int tag;
} piece;

/* Segments as lists of blocks, and all sums made anew each time. */
typedef struct model {
    uint64_t bytes[SLOTS];
    piece piece[SLOTS][BLOCKS];
    int pieces[SLOTS];
    uint64_t seed;
} model;

static uint64_t random_below(model *m, uint64_t n) {
    m->seed = m->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (m->seed >> 33) % n;
}

static uint64_t live_bytes(const model *m, uint32_t s) {
    uint64_t sum = 0;
    for (int i = 0; i < m->pieces[s]; i++)
        sum += m->piece[s][i].rounded;
    return sum;
}

static void compare(const model *m, const mt_ledger *l) {
    uint64_t tag[MT_TAGS] = { 0 }, rounding = 0, split = 0, cached = 0, reserved = 0, segments = 0;
    for (uint32_t s = 0; s < SLOTS; s++) {
        *(m->pieces[s] > 0 ? &split : &cached) += m->bytes[s] - live_bytes(m, s);
        reserved += m->bytes[s];
        segments += m->bytes[s] > 0;
        for (int i = 0; i < m->pieces[s]; i++) {
            tag[m->piece[s][i].tag] += m->piece[s][i].requested;
            rounding += m->piece[s][i].rounded - m->piece[s][i].requested;
        }
    }
    for (int t = 0; t < MT_TAGS; t++)
        assert_int_equal(l->tag[t].current, tag[t]);
    assert_int_equal(l->rounding, rounding);
    assert_int_equal(l->split, split);
    assert_int_equal(l->cached, cached);
    assert_int_equal(l->reserved.current, reserved);
    assert_int_equal(l->segments, segments);
}

static void random_alloc(model *m, mt_ledger *l, uint32_t s) {
    uint64_t room = m->bytes[s] - live_bytes(m, s);
    if (room == 0 || m->pieces[s] == BLOCKS)
        return;
    piece p = { 0, 1 + random_below(m, room < 9999 ? room : 9999), (int)random_below(m, MT_TAGS) };
    p.requested = 1 + random_below(m, p.rounded);
    m->piece[s][m->pieces[s]++] = p;
    apply(l, tagged(on(MT_EV_ALLOC, s, p.requested, p.rounded), (mt_tag)p.tag));
}

static void random_free(model *m, mt_ledger *l, uint32_t s) {
    if (m->pieces[s] == 0)
        return;
    uint64_t i = random_below(m, (uint64_t)m->pieces[s]);
    piece p = m->piece[s][i];
    m->piece[s][i] = m->piece[s][--m->pieces[s]];
    apply(l, tagged(on(MT_EV_FREE, s, p.requested, p.rounded), (mt_tag)p.tag));
}

/* Even slots hold segments taken whole, odd ones growable ones. */
static void random_segment(model *m, mt_ledger *l, uint32_t s) {
    uint64_t free_bytes = m->bytes[s] - live_bytes(m, s);
    if (s % 2 == 1 && free_bytes > 0 && random_below(m, 2)) {
        uint64_t n = 1 + random_below(m, free_bytes);
        m->bytes[s] -= n;
        apply(l, on(MT_EV_SEGMENT_UNMAP, s, 0, n));
    } else if (s % 2 == 1 || m->bytes[s] == 0) {
        uint64_t n = 1 + random_below(m, 100000);
        m->bytes[s] += n;
        apply(l, on(s % 2 ? MT_EV_SEGMENT_MAP : MT_EV_SEGMENT_ALLOC, s, 1, n));
    } else if (m->pieces[s] == 0) {
        uint64_t n = m->bytes[s];
        m->bytes[s] = 0;
        apply(l, on(MT_EV_SEGMENT_FREE, s, 0, n));
    }
}

static void test_random(void **state) {
    (void)state;
    static model m;
    mt_ledger l;
    mt_ledger_init(&l);
    m.seed = 11;
    const int n = getenv("MEMTRACE_QUICK") != NULL ? 5000 : 100000;
    for (int i = 0; i < n; i++) {
        uint32_t s = (uint32_t)random_below(&m, SLOTS);
        uint64_t what = random_below(&m, 10);
        if (what < 5)
            random_alloc(&m, &l, s);
        else if (what < 9)
            random_free(&m, &l, s);
        else
            random_segment(&m, &l, s);
        compare(&m, &l);
    }
    assert_true(l.allocs > (uint64_t)n / 10);
    mt_ledger_free(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_step_peaks),
        cmocka_unit_test(test_impossible_allocs),
        cmocka_unit_test(test_impossible_frees),
        cmocka_unit_test(test_impossible_segments),
        cmocka_unit_test(test_impossible_kinds),
        cmocka_unit_test(test_broken_identity),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
