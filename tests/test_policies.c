/* test_policies.c - one battery of tests over every policy and every source, long random runs, and
 * the torch policy under random options.
 *
 * A bed is an allocator on a source with a listener that follows everything: a second ledger is fed
 * from the events and must equal the allocator's own after each; every free must repeat what its
 * alloc said; a segment must never change its stream. On real memory each block is filled with a
 * pattern of its own, which must still be there when the block is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/jemalloc.h"
#include "alloc/torch/internal.h"
#include "base/size.h"

#define PIECES 160
#define HUGE   (UINT64_C(1) << 60)

static const char *const policies[] = {
    "torch",
    "torch,expandable_segments:True",
    "torch,max_split_size_mb:32",
    "torch,roundup_power2_divisions:4",
    "torch,per_process_memory_fraction:0.8,garbage_collection_threshold:0.3",
    "torch,expandable_segments:True,max_split_size_mb:64,large_segment_size_mb:12",
    "torch,version:2.11,addresses:down",
    "torch,version:2.12,addresses:reuse",
    "block:64KiB",
    "block:2MiB",
    "block:2MiB,round:4KiB",
    "block:2MiB,round:768",
    "block:64KiB,round:256,fit:first",
    "block:64KiB,keep:none",
    "block:2MiB,fit:first,keep:none",
    "direct",
    "direct:64KiB",
    "bfc",
    "bfc:64KiB",
    "jemalloc",
    "jemalloc,decay:0,grow:4MiB",
};

/* The last two need the library. */
static size_t policy_count(void) {
    return sizeof policies / sizeof *policies -
           (mt_policy_find("jemalloc")->missing != NULL ? 2 : 0);
}

/* By granularity; the host source has a fixed one. */
typedef enum source_kind { SIM_4K, SIM_2M, HOST, SOURCES } source_kind;
static const char *const source_names[] = { "sim of 4 KiB", "sim of 2 MiB", "host" };

/* Memory that a test holds. */
typedef struct piece {
    mt_mem mem;
    uint64_t bytes, pattern;
} piece;

/* What the alloc of an id said; rounded is 0 once it is freed. */
typedef struct said {
    uint64_t offset, requested, rounded;
    uint32_t segment;
    uint8_t tag;
} said;

typedef struct bed {
    const char *policy;
    source_kind kind;
    mt_source *source;
    mt_alloc *alloc;
    mt_ledger second;
    mt_event last;
    uint64_t events[MT_EVENTS], seq, hash;
    int32_t step;
    said *said; /* by id */
    uint64_t ids;
    uint32_t *stream_of; /* by number of segment, one more than its stream; 0 unknown */
    uint32_t segments;
    piece piece[PIECES];
    uintptr_t from[PIECES], to[PIECES]; /* their addresses */
    uint32_t pieces;
    uint64_t live_bytes;   /* of the pieces */
    uint64_t tag[MT_TAGS]; /* requested, pending frees included */
    uint64_t patterns, seed;
    bool held;
} bed;

/* What is being tested, for the report of a failure. */
static const char *where_policy, *where_source;

static int say_where(void **state) {
    (void)state;
    if (where_policy != NULL)
        print_error("policy %s on %s\n", where_policy, where_source);
    where_policy = NULL;
    return 0;
}

/* Fewer operations under a slow watcher. */
static uint32_t few(uint32_t n) {
#ifdef MT_WALK
    n /= 10;
#endif
    return getenv("MEMTRACE_QUICK") != NULL ? n / 20 : n;
}

static uint64_t random_bits(bed *b) {
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return b->seed;
}

static uint64_t random_below(bed *b, uint64_t n) {
    return (random_bits(b) >> 11) % n;
}

#define CHECK_OK(expr, err)                                                                        \
    do {                                                                                           \
        if ((expr) != MT_OK)                                                                       \
            fail_msg("%s", (err).text);                                                            \
    } while (0)

/* ---- following the events -------------------------------------------------------------------- */

/* Room for one more at index i; what is new is zero. */
static void *grow(void *array, uint64_t *room, uint64_t i, size_t size) {
    if (i < *room)
        return array;
    uint64_t more = 2 * i + 256;
    array = realloc(array, more * size);
    assert_non_null(array);
    memset((char *)array + *room * size, 0, (more - *room) * size);
    *room = more;
    return array;
}

static void follow_alloc(bed *b, const mt_event *e) {
    b->said = grow(b->said, &b->ids, e->id, sizeof *b->said);
    said *s = &b->said[e->id];
    assert_int_equal(s->rounded, 0);
    *s = (said){ e->offset, e->requested, e->rounded, e->segment, e->tag };
}

static void follow_free(bed *b, const mt_event *e) {
    assert_true(e->id < b->ids);
    said *s = &b->said[e->id];
    assert_int_equal(s->offset, e->offset);
    assert_int_equal(s->requested, e->requested);
    assert_int_equal(s->rounded, e->rounded);
    assert_int_equal(s->segment, e->segment);
    assert_int_equal(s->tag, e->tag);
    s->rounded = 0;
    b->tag[e->tag] -= e->requested;
}

/* All of both ledgers but the table of segments, and the entry of the event's segment. */
static void compare_ledgers(const bed *b, const mt_event *e) {
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    assert_int_equal(memcmp(l, &b->second, offsetof(mt_ledger, segment)), 0);
    if (e->kind < MT_EV_OOM)
        assert_int_equal(
            memcmp(&l->segment.at[e->slot], &b->second.segment.at[e->slot], sizeof *l->segment.at),
            0);
}

static void mix(bed *b, uint64_t n) {
    b->hash = (b->hash ^ n) * UINT64_C(0x9e3779b97f4a7c15);
    b->hash ^= b->hash >> 29;
}

static void mix_event(bed *b, const mt_event *e) {
    mix(b, e->kind | (uint64_t)e->tag << 8 | (uint64_t)e->pool << 16 | (uint64_t)e->segment << 32);
    mix(b, e->id);
    mix(b, e->offset);
    mix(b, e->requested);
    mix(b, e->rounded);
    mix(b, (uint64_t)e->stream << 32 | (uint32_t)e->step);
    mix(b, (uint64_t)e->slot << 32 | (uint32_t)e->layer);
}

static void on_event(void *context, const mt_event *e) {
    bed *b = context;
    mt_error err;
    assert_true(e->kind < MT_EVENTS);
    assert_int_equal(e->seq, b->seq++);
    assert_int_equal(e->step, b->step);
    assert_int_equal(e->time_ns, 0);
    CHECK_OK(mt_ledger_apply(&b->second, e, &err), err);
    CHECK_OK(mt_ledger_check(&b->second, &err), err);
    compare_ledgers(b, e);
    if (e->kind == MT_EV_ALLOC)
        follow_alloc(b, e);
    if (e->kind == MT_EV_FREE)
        follow_free(b, e);
    b->step += e->kind == MT_EV_MARK;
    b->events[e->kind]++;
    b->last = *e;
    mix_event(b, e);
}

/* ---- beds ------------------------------------------------------------------------------------ */

static void open_source(mt_source **source, source_kind kind, uint64_t capacity) {
    mt_error err;
    if (kind == HOST)
        CHECK_OK(mt_source_host(source, capacity, &err), err);
    else
        CHECK_OK(mt_source_sim(source, capacity, kind == SIM_4K ? 4 * MT_KIB : 2 * MT_MIB, &err),
                 err);
}

static bed *open_bed(const char *policy, source_kind kind, uint64_t capacity) {
    mt_error err;
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    where_policy = b->policy = policy;
    where_source = source_names[kind];
    b->kind = kind;
    b->seed = 88172645463325252;
    b->step = -1;
    open_source(&b->source, kind, capacity);
    CHECK_OK(mt_alloc_open(&b->alloc, b->source, policy, &err), err);
    mt_ledger_init(&b->second);
    mt_alloc_listen(b->alloc, (mt_listener){ on_event, b });
    return b;
}

static void close_bed(bed *b) {
    mt_alloc_close(b->alloc);
    assert_int_equal(b->source->used, 0);
    b->source->close(b->source);
    mt_ledger_free(&b->second);
    free(b->said);
    free(b->stream_of);
    free(b);
    where_policy = NULL;
}

/* Runs a body on every policy and source. */
static void for_each(void (*body)(bed *b), uint64_t capacity) {
    for (size_t p = 0; p < policy_count(); p++)
        for (int k = 0; k < SOURCES; k++) {
            bed *b = open_bed(policies[p], (source_kind)k, capacity);
            body(b);
            close_bed(b);
        }
}

static bool is(const bed *b, const char *text) {
    return strstr(b->policy, text) != NULL;
}

/* Whether wholly free segments go back at once. */
static bool keeps_nothing(const bed *b) {
    return is(b, "direct") || is(b, "keep:none") || is(b, "decay:0");
}

/* The identity, the full walk, both ledgers, and what the source has out. */
static void check_all(const bed *b) {
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    mt_error err;
    CHECK_OK(mt_ledger_check(l, &err), err);
    CHECK_OK(mt_alloc_check(b->alloc, &err), err);
    for (int t = 0; t < MT_TAGS; t++)
        assert_int_equal(l->tag[t].current, b->tag[t]);
    assert_int_equal(l->segment.count, b->second.segment.count);
    if (l->segment.count > 0)
        assert_int_equal(
            memcmp(l->segment.at, b->second.segment.at, l->segment.count * sizeof *l->segment.at),
            0);
    assert_true(b->source->used >= l->reserved.current);
    assert_true(b->source->used <= b->source->capacity);
    if (b->kind != SIM_2M && !is(b, "bfc")) /* its regions may end inside a page */
        assert_int_equal(b->source->used, l->reserved.current);
}

/* ---- patterns on real memory ----------------------------------------------------------------- */

/* Every word of a small block, fewer of larger ones. The last word is always among them. */
static size_t stride(uint64_t bytes) {
    return bytes <= 64 * MT_KIB ? 8 : bytes <= MT_MIB ? 256 : 64 * MT_KIB;
}

static uint64_t word(const piece *p, uint64_t at) {
    return p->pattern * UINT64_C(0x9e3779b97f4a7c15) + at;
}

/* Of the word that ends with the block, or of the whole of a block that is smaller than one. */
static uint64_t last_word(const piece *p) {
    return p->bytes < 8 ? 0 : p->bytes - 8;
}

static size_t last_bytes(const piece *p) {
    return p->bytes < 8 ? p->bytes : 8;
}

static void write_pattern(const piece *p, size_t step) {
    char *m = p->mem.ptr;
    uint64_t last = last_word(p), w;
    for (uint64_t at = 0; at < last; at += step) {
        w = word(p, at);
        memcpy(m + at, &w, 8);
    }
    w = word(p, last);
    memcpy(m + last, &w, last_bytes(p));
}

static bool has_pattern(const piece *p, size_t step) {
    const char *m = p->mem.ptr;
    uint64_t last = last_word(p), w, difference = 0;
    for (uint64_t at = 0; at + 8 <= last; at += step) {
        memcpy(&w, m + at, 8);
        difference |= w ^ word(p, at);
    }
    w = word(p, last);
    return difference == 0 && memcmp(m + last, &w, last_bytes(p)) == 0;
}

/* ---- requests and frees ---------------------------------------------------------------------- */

static void check_no_overlap(const bed *b, const piece *p) {
    uintptr_t from = (uintptr_t)p->mem.ptr, to = from + p->bytes;
    uint32_t overlaps = 0;
    for (uint32_t i = 0; i < b->pieces; i++)
        overlaps += (b->from[i] < to) & (from < b->to[i]);
    assert_int_equal(overlaps, 0);
}

/* A segment serves the stream it was taken for and no other. */
static void check_stream(bed *b, uint32_t segment, uint32_t stream) {
    uint64_t room = b->segments;
    b->stream_of = grow(b->stream_of, &room, segment, sizeof *b->stream_of);
    b->segments = (uint32_t)room;
    if (b->stream_of[segment] == 0)
        b->stream_of[segment] = stream + 1;
    assert_int_equal(b->stream_of[segment], stream + 1);
}

/* What a request got is what the events and the information say. */
static void check_place(bed *b, const mt_request *r, const piece *p) {
    mt_live_info info;
    mt_error err;
    assert_non_null(p->mem.ptr);
    assert_true(p->mem.handle != 0);
    assert_int_equal((uintptr_t)p->mem.ptr % 256, 0);
    CHECK_OK(mt_alloc_info(b->alloc, p->mem, &info, &err), err);
    assert_int_equal(info.requested, r->bytes);
    assert_true(info.rounded >= r->bytes);
    assert_true(info.rounded >= mt_alloc_roundup(b->alloc, r->bytes));
    assert_int_equal(info.stream, r->stream);
    assert_int_equal(info.layer, r->layer);
    assert_int_equal(info.tag, r->tag);
    const mt_event *e = &b->last;
    assert_int_equal(e->kind, MT_EV_ALLOC);
    assert_int_equal(e->id, info.id);
    assert_int_equal(e->segment, info.segment);
    assert_int_equal(e->offset, info.offset);
    assert_int_equal(e->rounded, info.rounded);
    assert_int_equal(e->requested, r->bytes);
    assert_int_equal(e->pool, info.pool);
    check_no_overlap(b, p);
    check_stream(b, info.segment, r->stream);
}

static void check_refusal(const bed *b, const mt_request *r) {
    const mt_refusal *f = mt_alloc_refusal(b->alloc);
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    assert_int_equal(f->request.bytes, r->bytes);
    assert_int_equal(f->request.tag, r->tag);
    assert_int_equal(f->request.layer, r->layer);
    assert_int_equal(f->request.stream, r->stream);
    assert_int_equal(f->rounded, mt_alloc_roundup(b->alloc, r->bytes));
    assert_true(f->rounded >= r->bytes);
    assert_true(f->segment >= f->rounded);
    assert_int_equal(f->capacity, b->source->capacity);
    assert_int_equal(f->source_free, b->source->capacity - b->source->used);
    assert_int_equal(f->reserved, l->reserved.current);
    assert_int_equal(f->free_total, l->split + l->cached);
    assert_true(f->largest_free <= f->free_total);
    assert_int_equal(f->step, b->step);
    assert_int_equal(b->last.kind, MT_EV_OOM);
    assert_int_equal(b->last.requested, r->bytes);
    assert_int_equal(b->last.rounded, f->rounded);
    assert_int_equal(b->last.offset, f->source_free);
    assert_int_equal(b->last.stream, r->stream);
    assert_int_equal(b->last.tag, r->tag);
}

/* Takes a piece; false when it was refused, which must be told rightly. */
static bool take(bed *b, uint64_t bytes, mt_tag tag, uint32_t stream) {
    mt_request r = { .bytes = bytes, .tag = tag, .layer = (int32_t)(bytes % 13), .stream = stream };
    piece *p = &b->piece[b->pieces];
    uint64_t ooms = b->events[MT_EV_OOM];
    mt_error err = { MT_OK, "" };
    assert_true(b->pieces < PIECES);
    mt_status status = mt_alloc_get(b->alloc, &r, &p->mem, &err);
    if (status == MT_NO_MEMORY) {
        assert_null(p->mem.ptr);
        assert_int_equal(p->mem.handle, 0);
        assert_int_equal(b->events[MT_EV_OOM], ooms + 1);
        assert_int_equal(err.status, MT_NO_MEMORY);
        check_refusal(b, &r);
        return false;
    }
    CHECK_OK(status, err);
    assert_int_equal(b->events[MT_EV_OOM], ooms);
    p->bytes = bytes;
    p->pattern = ++b->patterns;
    check_place(b, &r, p);
    if (b->kind == HOST)
        write_pattern(p, stride(bytes));
    b->from[b->pieces] = (uintptr_t)p->mem.ptr;
    b->to[b->pieces++] = (uintptr_t)p->mem.ptr + bytes;
    b->live_bytes += bytes;
    b->tag[tag] += bytes;
    return true;
}

static void must_take(bed *b, uint64_t bytes, mt_tag tag, uint32_t stream) {
    assert_true(take(b, bytes, tag, stream));
}

/* Frees piece i; the last one takes its place. */
static void give(bed *b, uint32_t i) {
    mt_error err;
    piece *p = &b->piece[i];
    assert_true(i < b->pieces);
    if (b->kind == HOST)
        assert_true(has_pattern(p, stride(p->bytes)));
    CHECK_OK(mt_alloc_put(b->alloc, &p->mem, &err), err);
    assert_null(p->mem.ptr);
    assert_int_equal(p->mem.handle, 0);
    b->live_bytes -= p->bytes;
    *p = b->piece[--b->pieces];
    b->from[i] = b->from[b->pieces];
    b->to[i] = b->to[b->pieces];
}

static void give_all(bed *b) {
    while (b->pieces > 0)
        give(b, b->pieces - 1);
}

static void give_any(bed *b) {
    give(b, (uint32_t)random_below(b, b->pieces));
}

/* A size, log-uniform below 512 KiB but for a few of up to 24 MiB. */
static uint64_t any_size(bed *b) {
    if (random_below(b, 100) == 0)
        return 1 + random_below(b, 24 * MT_MIB);
    return 1 + random_below(b, UINT64_C(1) << random_below(b, 20));
}

static void use_any(bed *b) {
    mt_error err;
    if (b->pieces == 0)
        return;
    piece *p = &b->piece[random_below(b, b->pieces)];
    CHECK_OK(mt_alloc_use(b->alloc, p->mem, (uint32_t)random_below(b, 4), &err), err);
}

/* One random operation of a program that keeps at most so many pieces and bytes. */
static void operate(bed *b, uint32_t most, uint64_t most_bytes) {
    uint64_t what = random_below(b, 1000);
    if (what < 8)
        mt_alloc_mark(b->alloc, what, what, what);
    else if (what < 12)
        mt_alloc_trim(b->alloc);
    else if (what < 40)
        use_any(b);
    else if (what < 50)
        mt_alloc_hold(b->alloc, b->held = !b->held && what % 2 == 0);
    else if (b->pieces == 0 || (what < 540 && b->pieces < most && b->live_bytes < most_bytes))
        take(b, any_size(b), (mt_tag)random_below(b, MT_TAGS), random_below(b, 10) == 0);
    else
        give_any(b);
}

/* ---- the battery: single requests ------------------------------------------------------------ */

static void zero_size(bed *b) {
    mt_request r = { .bytes = 0, .tag = MT_KV, .layer = 2 };
    mt_mem mem = { &r, 12345 };
    mt_error err;
    CHECK_OK(mt_alloc_get(b->alloc, &r, &mem, &err), err);
    assert_null(mem.ptr);
    assert_int_equal(mem.handle, 0);
    CHECK_OK(mt_alloc_use(b->alloc, mem, 1, &err), err);
    CHECK_OK(mt_alloc_put(b->alloc, &mem, &err), err);
    assert_int_equal(b->seq, 0);
    assert_int_equal(b->source->used, 0);
}

static void test_zero_size(void **state) {
    (void)state;
    for_each(zero_size, MT_GIB);
}

/* Every block may be written over its whole requested length, all being live at once. */
static void whole_length(bed *b) {
    static const uint64_t sizes[] = {
        1,       7,       8,        255,      256,      257,      511,
        512,     513,     1000,     4095,     4096,     4097,     65535,
        65536,   65537,   1048575,  1048576,  1048577,  2097151,  2097152,
        2097153, 3000001, 10485759, 10485760, 10485761, 11534336, 25165825,
    };
    const uint32_t n = sizeof sizes / sizeof *sizes;
    for (uint32_t i = 0; i < n; i++)
        must_take(b, sizes[i % n], (mt_tag)(i % MT_TAGS), 0);
    check_all(b);
    for (uint32_t i = 0; b->kind == HOST && i < n; i++)
        write_pattern(&b->piece[i], 8);
    for (uint32_t i = 0; b->kind == HOST && i < n; i++)
        assert_true(has_pattern(&b->piece[i], 8));
    give_all(b);
    check_all(b);
}

static void test_whole_length(void **state) {
    (void)state;
    for_each(whole_length, MT_GIB);
}

/* The same request again is served from what was freed, or from a new segment if nothing is
 * kept. */
static void reuse(bed *b) {
    static const uint64_t sizes[] = { 100, 5000, 70000, 1500000, 12 * MT_MIB };
    for (int i = 0; i < 5; i++) {
        must_take(b, sizes[i], MT_KV, 0);
        uint32_t segment = b->last.segment;
        uint64_t offset = b->last.offset;
        give(b, 0);
        uint64_t taken = b->events[MT_EV_SEGMENT_ALLOC] + b->events[MT_EV_SEGMENT_MAP];
        must_take(b, sizes[i], MT_KV, 0);
        if (keeps_nothing(b)) {
            assert_true(b->last.segment > segment);
        } else {
            assert_int_equal(b->last.segment, segment);
            if (!is(b, "jemalloc")) /* what is free grew by the block itself */
                assert_int_equal(b->last.offset, offset);
            assert_int_equal(b->events[MT_EV_SEGMENT_ALLOC] + b->events[MT_EV_SEGMENT_MAP], taken);
        }
        give(b, 0);
        if (keeps_nothing(b))
            assert_int_equal(b->source->used, 0);
    }
}

static void test_reuse(void **state) {
    (void)state;
    for_each(reuse, MT_GIB);
}

/* ---- the battery: rounding ------------------------------------------------------------------- */

static void roundup(bed *b) {
    uint64_t before = 0, result = 0;
    for (uint64_t n = 1; n < 200000; n += 37 + n / 100) {
        uint64_t r = mt_alloc_roundup(b->alloc, n);
        assert_true(r >= n && r >= result);
        result = r;
    }
    for (int e = 9; e < 64; e++)
        for (int d = -513; d <= 513; d += 171) {
            uint64_t n = (UINT64_C(1) << e) + (uint64_t)d, r = mt_alloc_roundup(b->alloc, n);
            if (n == 0 || n < before || (e == 9 && d < 0))
                continue;
            assert_true(r >= n);
            assert_true(mt_alloc_roundup(b->alloc, before) <= r);
            before = n;
        }
    for (uint64_t n = UINT64_MAX; n > UINT64_MAX - 3000; n -= 250) {
        assert_true(mt_alloc_roundup(b->alloc, n) >= n);
        assert_true(mt_alloc_roundup(b->alloc, n) >= mt_alloc_roundup(b->alloc, before));
    }
    assert_int_equal(b->seq, 0);
}

static void test_roundup(void **state) {
    (void)state;
    for_each(roundup, MT_GIB);
}

/* More than any device holds is refused like any other request that does not fit. */
static void huge(bed *b) {
    static const uint64_t sizes[] = {
        MT_GIB + 1,        UINT64_C(1) << 40,  HUGE - 1,         HUGE,           HUGE + 1,
        UINT64_C(1) << 63, UINT64_MAX - 10000, UINT64_MAX - 511, UINT64_MAX - 1, UINT64_MAX,
    };
    must_take(b, 1000, MT_KV, 0);
    uint64_t used = b->source->used;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_false(take(b, sizes[i], MT_WEIGHTS, (uint32_t)i % 2));
        assert_int_equal(b->source->used, used);
        check_all(b);
    }
    assert_int_equal(b->events[MT_EV_OOM], sizeof sizes / sizeof *sizes);
    must_take(b, 1000, MT_KV, 0);
    give_all(b);
}

static void test_huge(void **state) {
    (void)state;
    for_each(huge, MT_GIB);
}

/* ---- the battery: exhaustion ----------------------------------------------------------------- */

/* A refusal is right only if the segment did not fit into what was left, or into the limit. */
static void check_full(const bed *b) {
    const mt_refusal *f = mt_alloc_refusal(b->alloc);
    if (is(b, "fraction"))
        assert_true((double)(f->reserved + f->segment) > 0.8 * (double)f->capacity);
    else
        assert_true(mt_round_up(f->segment, b->source->granularity) > f->source_free);
    assert_int_equal(f->step, -1);
}

static void exhaust(bed *b) {
    const uint64_t size = 3 * MT_MIB - 100;
    while (take(b, size, MT_WEIGHTS, 0))
        check_all(b);
    check_full(b);
    check_all(b);
    uint32_t most = b->pieces;
    assert_true(most >= 14);
    assert_int_equal(b->events[MT_EV_OOM], 1);
    /* What was live still is, and a free makes room for the same again. */
    for (uint32_t round = 0; round < 3; round++) {
        give(b, round * 5);
        must_take(b, size, MT_WEIGHTS, 0);
        assert_false(take(b, size, MT_WEIGHTS, 0));
        check_all(b);
    }
    assert_false(take(b, 96 * MT_MIB + 1, MT_KV, 0));
    assert_int_equal(b->pieces, most);
    /* Small requests fill what is left, until they do not fit either. */
    while (b->pieces < PIECES && take(b, 200000, MT_KV, 0))
        check_all(b);
    give_all(b);
    check_all(b);
    must_take(b, 40 * MT_MIB, MT_KV, 0);
    if (!is(b, "bfc")) /* its region took all that was left */
        must_take(b, size, MT_KV, 1);
    give_all(b);
}

static void test_exhaustion(void **state) {
    (void)state;
    for_each(exhaust, 96 * MT_MIB);
}

/* A request that fits only after free segments went back, of both pools and another stream. */
static void make_room(bed *b) {
    for (int i = 0; i < 20; i++)
        must_take(b, 100000, MT_KV, (uint32_t)i % 2);
    for (int i = 0; i < 3; i++)
        must_take(b, 14 * MT_MIB, MT_KV, (uint32_t)i % 2);
    give_all(b);
    must_take(b, 64 * MT_MIB, MT_KV, 0);
    check_all(b);
    assert_int_equal(b->events[MT_EV_OOM], 0);
    give_all(b);
}

static void test_room_is_made(void **state) {
    (void)state;
    for_each(make_room, 96 * MT_MIB);
}

/* ---- the battery: giving back ---------------------------------------------------------------- */

static void trim(bed *b) {
    for (int i = 0; i < 60; i++)
        must_take(b, any_size(b), MT_KV, (uint32_t)i % 3);
    for (int i = 0; i < 40; i++)
        give_any(b);
    mt_alloc_trim(b->alloc);
    check_all(b);
    assert_int_equal(mt_alloc_ledger(b->alloc)->cached, 0);
    give_all(b);
    mt_alloc_trim(b->alloc);
    check_all(b);
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    assert_int_equal(b->source->used, 0);
    assert_int_equal(l->segments, 0);
    assert_int_equal(l->reserved.current, 0);
    assert_int_equal(l->requested.current, 0);
    assert_int_equal(l->cached, 0);
    /* And all works as before; an empty trim changes nothing. */
    uint64_t seq = b->seq;
    mt_alloc_trim(b->alloc);
    assert_int_equal(b->seq, seq);
    must_take(b, 5000, MT_KV, 0);
    give_all(b);
}

/* After the trim nothing is cached; pages that hold a live block's neighbours may stay. */
static void test_trim(void **state) {
    (void)state;
    for_each(trim, MT_GIB);
}

/* Closing with live memory, with frees that wait, and with all sorts of holes. */
static void close_live(bed *b) {
    mt_error err;
    for (int i = 0; i < 100; i++)
        must_take(b, any_size(b), MT_KV, (uint32_t)i % 3);
    for (int i = 0; i < 50; i++)
        give_any(b);
    mt_alloc_trim(b->alloc);
    mt_alloc_hold(b->alloc, true);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(mt_alloc_use(b->alloc, b->piece[0].mem, 7, &err), err);
        give(b, 0);
    }
    check_all(b);
    assert_true(b->source->used > 0);
}

static void test_close_live(void **state) {
    (void)state;
    for_each(close_live, MT_GIB);
}

/* ---- the battery: streams -------------------------------------------------------------------- */

static void streams(bed *b) {
    static const uint64_t sizes[] = { 512, 70000, 4 * MT_MIB };
    for (int i = 0; i < 3; i++) {
        must_take(b, sizes[i], MT_KV, 0);
        uint32_t segment = b->last.segment;
        give(b, 0);
        must_take(b, sizes[i], MT_KV, 5);
        assert_int_not_equal(b->last.segment, segment);
        segment = b->last.segment;
        give(b, 0);
        /* Nor is memory of a higher stream given to a lower one. */
        must_take(b, sizes[i], MT_KV, 3);
        assert_int_not_equal(b->last.segment, segment);
        give(b, 0);
    }
    check_all(b);
}

static void test_streams(void **state) {
    (void)state;
    for_each(streams, MT_GIB);
}

static void use(bed *b, uint32_t stream) {
    mt_error err;
    CHECK_OK(mt_alloc_use(b->alloc, b->piece[0].mem, stream, &err), err);
}

/* A free of memory that another stream uses waits for it: it stays live in the ledger, and its
 * block is nobody else's. Only the torch policy knows of other streams. */
static void hold_back(bed *b) {
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    must_take(b, 3000, MT_KV, 0);
    mt_event first = b->last;
    use(b, 4);
    use(b, 4);
    use(b, 2);
    mt_alloc_hold(b->alloc, true);
    give(b, 0);
    assert_int_equal(b->events[MT_EV_FREE], 0);
    assert_int_equal(l->requested.current, 3000);
    must_take(b, 3000, MT_WEIGHTS, 0);
    assert_true(b->last.segment != first.segment || b->last.offset != first.offset);
    assert_int_equal(b->events[MT_EV_FREE], 0);
    check_all(b);
    mt_alloc_hold(b->alloc, false);
    assert_int_equal(b->events[MT_EV_FREE], 0);
    must_take(b, 900, MT_WEIGHTS, 0);
    assert_int_equal(b->events[MT_EV_FREE], 1);
    assert_int_equal(l->requested.current, 3900);
    check_all(b);
    give_all(b);
}

/* The use by its own stream is none; a trim does not wait for what is held; nor does a retry. */
static void hold_ends(bed *b) {
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    mt_alloc_hold(b->alloc, true);
    must_take(b, 3000, MT_KV, 6);
    use(b, 6);
    give(b, 0);
    assert_int_equal(b->events[MT_EV_FREE], 1);
    must_take(b, 3000, MT_KV, 6);
    use(b, 0);
    give(b, 0);
    assert_int_equal(l->requested.current, 3000);
    mt_alloc_trim(b->alloc);
    assert_int_equal(b->events[MT_EV_FREE], 2);
    assert_int_equal(b->source->used, 0);
    must_take(b, 40 * MT_MIB, MT_KV, 0);
    use(b, 1);
    give(b, 0);
    assert_int_equal(b->events[MT_EV_FREE], 2);
    must_take(b, 70 * MT_MIB, MT_KV, 0);
    assert_int_equal(b->events[MT_EV_FREE], 3);
    mt_alloc_hold(b->alloc, false);
    give_all(b);
    check_all(b);
}

/* Policies without streams free at once. */
static void never_waits(bed *b) {
    mt_alloc_hold(b->alloc, true);
    must_take(b, 3000, MT_KV, 0);
    use(b, 4);
    give(b, 0);
    assert_int_equal(b->events[MT_EV_FREE], 1);
    assert_int_equal(mt_alloc_ledger(b->alloc)->requested.current, 0);
}

static void waiting(bed *b) {
    (is(b, "torch") ? hold_back : never_waits)(b);
}

static void waiting_ends(bed *b) {
    if (is(b, "torch"))
        hold_ends(b);
}

static void test_uses(void **state) {
    (void)state;
    for_each(waiting, MT_GIB);
    for_each(waiting_ends, 100 * MT_MIB);
}

/* ---- the battery: handles -------------------------------------------------------------------- */

/* Everything that takes a handle refuses this one; nothing changes. */
static void refused(bed *b, mt_mem mem, const char *why) {
    const mt_mem before = mem;
    mt_live_info info;
    uint64_t seq = b->seq;
    for (int i = 0; i < 3; i++) {
        mt_error err = { MT_OK, "" };
        mt_status status = i == 0   ? mt_alloc_put(b->alloc, &mem, &err)
                           : i == 1 ? mt_alloc_use(b->alloc, mem, 3, &err)
                                    : mt_alloc_info(b->alloc, mem, &info, &err);
        assert_int_equal(status, MT_BAD);
        assert_int_equal(err.status, MT_BAD);
        if (strstr(err.text, why) == NULL)
            fail_msg("expected \"%s\" in \"%s\"", why, err.text);
        assert_memory_equal(&mem, &before, sizeof mem);
    }
    assert_int_equal(b->seq, seq);
    check_all(b);
}

static mt_mem with_handle(mt_mem mem, uint64_t handle) {
    mem.handle = handle;
    return mem;
}

static void handles(bed *b) {
    static const uint64_t forged[] = {
        1, 2, 255, 256, 257, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(9) << 32 | 1, UINT64_MAX
    };
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++)
        refused(b, (mt_mem){ b, forged[i] }, "was never allocated");
    must_take(b, 1000, MT_KV, 0);
    must_take(b, 2000, MT_KV, 0);
    mt_mem first = b->piece[0].mem, second = b->piece[1].mem;
    for (size_t i = 2; i < sizeof forged / sizeof *forged; i++)
        refused(b, with_handle(first, forged[i]), "was never allocated");
    refused(b, with_handle(first, first.handle + (UINT64_C(1) << 32)), "was never allocated");
    give(b, 0);
    refused(b, first, "is already freed");
    refused(b, with_handle(first, first.handle + (UINT64_C(1) << 32)), "was never allocated");
    /* The entry is used again; the old handle stays dead. */
    must_take(b, 1000, MT_KV, 0);
    refused(b, first, "is already freed");
    give_all(b);
    refused(b, first, "is already freed");
    refused(b, second, "is already freed");
    /* A refused request gives out no handle. */
    assert_false(take(b, 2 * MT_GIB, MT_KV, 0));
    refused(b, first, "is already freed");
}

/* A free that waits is a free: a second one is refused. */
static void waiting_handle(bed *b) {
    mt_alloc_hold(b->alloc, true);
    must_take(b, 1000, MT_KV, 0);
    mt_mem mem = b->piece[0].mem;
    use(b, 9);
    give(b, 0);
    refused(b, mem, "is already freed");
    mt_alloc_trim(b->alloc);
    refused(b, mem, "is already freed");
}

/* Slots of segments and numbers of requests are used again, after a refusal too. */
static void small_numbers(bed *b) {
    for (int i = 0; i < 300; i++) {
        must_take(b, 3000000, MT_KV, 0);
        assert_true((uint32_t)b->piece[0].mem.handle <= 2);
        assert_false(take(b, MT_GIB + 64 * MT_MIB, MT_KV, 0));
        give(b, 0);
        mt_alloc_trim(b->alloc);
    }
    assert_int_equal(mt_alloc_ledger(b->alloc)->segment.count, 1);
    assert_int_equal(b->last.kind == MT_EV_OOM ? 0 : b->last.slot, 0);
}

static void test_handles(void **state) {
    (void)state;
    for_each(handles, MT_GIB);
    for_each(waiting_handle, MT_GIB);
    for_each(small_numbers, MT_GIB);
}

/* ---- the battery: every way to fail ---------------------------------------------------------- */

/* A script that takes segments of both pools and two streams, gives some back and ends empty. It is
 * shorter on real memory, which costs time to touch. */
static void script(bed *b) {
    static const uint64_t sizes[] = { 1000,     300000, 5000000, 700, 1048576, 2000000, 26000000,
                                      11534336, 900000, 1100000, 1,   3000000, 40000,   20971520 };
    const uint32_t n = sizeof sizes / sizeof *sizes, rounds = b->kind == HOST ? 1 : 3;
    for (uint32_t i = 0; i < rounds * n; i++) {
        uint64_t bytes = sizes[i % n];
        if (b->kind == HOST && bytes > 4000000)
            bytes /= 4;
        take(b, bytes, (mt_tag)(i % MT_TAGS), i % 7 == 6);
        check_all(b);
        if (i % 3 == 2 && b->pieces > 0)
            give(b, i % b->pieces);
        if (i % 5 == 4 && b->pieces > 1)
            give(b, i % b->pieces);
        if (i % 11 == 10)
            mt_alloc_trim(b->alloc);
        check_all(b);
    }
    give_all(b);
    mt_alloc_trim(b->alloc);
    check_all(b);
    assert_int_equal(b->source->used, 0);
}

/* Runs the script with the n-th call to the source refused; false when there is no n-th. */
static bool fail_at(const char *policy, source_kind kind, uint64_t n) {
    bed *b = open_bed(policy, kind, 2 * MT_GIB);
    b->source->fail_at = n;
    script(b);
    bool failed = b->source->fail_at == 0;
    assert_true(b->events[MT_EV_OOM] <= 1);
    close_bed(b);
    return failed;
}

static void test_fail_at(void **state) {
    (void)state;
    for (size_t p = 0; p < policy_count(); p++)
        for (int k = 0; k < SOURCES; k++) {
            uint64_t n = 1;
            while (fail_at(policies[p], (source_kind)k, n))
                n++;
            assert_true(n > 4);
        }
}

/* Two refusals in a row, so that the second attempt fails as well. */
static void test_fail_twice(void **state) {
    (void)state;
    for (size_t p = 0; p < policy_count(); p++)
        for (uint64_t n = 1; n <= few(60) + 1; n++) {
            bed *b = open_bed(policies[p], SIM_2M, 2 * MT_GIB);
            b->source->fail_at = n;
            for (int i = 0; i < 40; i++) {
                take(b, 400000 + (uint64_t)i * 77777 * (uint64_t)(i % 5), MT_KV, 0);
                if (b->source->fail_at == 0)
                    b->source->fail_at = 1;
                if (i % 4 == 3 && b->pieces > 0)
                    give(b, 0);
                check_all(b);
            }
            b->source->fail_at = 0;
            must_take(b, 12345, MT_KV, 0);
            script(b);
            close_bed(b);
        }
}

/* ---- the battery: random runs ---------------------------------------------------------------- */

/* Checks everything after each operation. Returns what identifies the run's events. */
static uint64_t random_run(const char *policy, source_kind kind, uint32_t operations) {
    /* bfc's regions must not reach the device's end, where its granularity shows */
    bed *b = open_bed(policy, kind, strncmp(policy, "bfc", 3) == 0 ? 64 * MT_GIB : MT_GIB);
    for (uint32_t i = 0; i < operations; i++) {
        operate(b, 120, 64 * MT_MIB);
        check_all(b);
    }
    assert_int_equal(b->events[MT_EV_OOM], 0);
    assert_true(b->seq > operations / 2);
    mt_alloc_hold(b->alloc, false);
    give_all(b);
    mt_alloc_trim(b->alloc);
    check_all(b);
    assert_int_equal(b->source->used, 0);
    uint64_t hash = b->hash;
    close_bed(b);
    return hash;
}

/* Real addresses decide nothing: the events are the same on every source. */
static void test_random(void **state) {
    (void)state;
    for (size_t p = 0; p < policy_count(); p++) {
        uint64_t first = random_run(policies[p], SIM_4K, few(20000));
        assert_int_equal(first, random_run(policies[p], SIM_2M, few(20000)));
        assert_int_equal(first, random_run(policies[p], HOST, few(20000)));
    }
}

/* On a device that is often full. The identity is checked after each event by the listener. */
static void test_long(void **state) {
    (void)state;
    const uint32_t events = few(1000000);
    for (size_t p = 0; p < policy_count(); p++) {
        bed *b = open_bed(policies[p], SIM_4K, 192 * MT_MIB);
        for (uint32_t i = 0; b->seq < events; i++) {
            operate(b, PIECES - 20, 160 * MT_MIB);
            if (i % 1000 == 0)
                check_all(b);
        }
        give_all(b);
        mt_alloc_trim(b->alloc);
        check_all(b);
        assert_int_equal(b->source->used, 0);
        close_bed(b);
    }
}

/* ---- the front ------------------------------------------------------------------------------- */

static void count_event(void *context, const mt_event *e) {
    uint64_t *times = context;
    times[0]++;
    times[1] |= e->time_ns;
}

/* Four listeners hear everything from when they were added; there is no room for a fifth. */
static void test_listeners(void **state) {
    (void)state;
    uint64_t heard[5][2] = { { 0 } };
    bed *b = open_bed("torch", SIM_4K, MT_GIB);
    must_take(b, 1, MT_KV, 0);
    for (int i = 0; i < 5; i++)
        mt_alloc_listen(b->alloc, (mt_listener){ count_event, heard[i] });
    must_take(b, 1, MT_KV, 0);
    mt_alloc_mark(b->alloc, 1, 2, 3);
    assert_int_equal(b->last.ctx, 1);
    assert_int_equal(b->last.kv_ideal, 2);
    assert_int_equal(b->last.nanoseconds, 3);
    for (int i = 0; i < 5; i++)
        assert_int_equal(heard[i][0], i < 3 ? 2 : 0);
    assert_int_equal(heard[0][1], 0);
    close_bed(b);
}

/* Times are in the events only when they are asked for. */
static void test_stamp(void **state) {
    (void)state;
    mt_source *s;
    mt_alloc *a;
    mt_error err;
    uint64_t heard[2] = { 0 };
    open_source(&s, SIM_4K, MT_GIB);
    CHECK_OK(mt_alloc_open(&a, s, "direct", &err), err);
    mt_alloc_listen(a, (mt_listener){ count_event, heard });
    mt_alloc_mark(a, 0, 0, 0);
    assert_int_equal(heard[1], 0);
    mt_alloc_stamp(a, true);
    mt_alloc_mark(a, 0, 0, 0);
    assert_int_not_equal(heard[1], 0);
    mt_alloc_close(a);
    mt_alloc_close(NULL);
    s->close(s);
}

static void test_bad_policies(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "tor",
        "torch2",
        "bfc2",
        "block",
        "block:",
        "block:0",
        "block:4095",
        "block:4097",
        "block:-4096",
        "block:x",
        "block:99999999999999999999GiB",
        "block:4096PiB",
        "block:2MiB,round:0",
        "block:2MiB,round:255",
        "block:2MiB,round:384",
        "block:2MiB,fit:worst",
        "block:2MiB,keep:some",
        "block:2MiB,what:1",
        "block:2MiB,fit",
        "block:2MiB,,fit:best",
        "block:2MiB,fit:best,",
        "direct:0",
        "direct:100",
        "direct:4KiB,x:1",
        "direct:9999999TiB",
    };
    mt_source *s;
    open_source(&s, SIM_4K, MT_GIB);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mt_alloc *a = NULL;
        mt_error err = { MT_OK, "" };
        if (mt_alloc_open(&a, s, bad[i], &err) != MT_BAD)
            fail_msg("\"%s\" is no policy", bad[i]);
        assert_int_equal(err.status, MT_BAD);
        assert_non_null(strstr(err.text, "policy"));
        assert_null(a);
    }
    s->close(s);
}

/* ---- the torch policy under random options --------------------------------------------------- */

/* A recount of the statistics of one pool, from its blocks alone. */
typedef struct recount {
    uint64_t now[3][MT_TORCH_STAT_COUNT];
    uint64_t oversize_allocations, oversize_segments, free_blocks[3], unmapped[3];
} recount;

static void count(recount *r, int pool, mt_torch_stat_name name, uint64_t n) {
    r->now[0][name] += n;
    r->now[pool][name] += n;
}

static void recount_block(recount *r, const mt_block *b, int pool, uint64_t oversize) {
    if (!b->mapped) {
        r->unmapped[pool]++;
        return;
    }
    if (b->allocated && b->used) {
        count(r, pool, MT_TORCH_allocation, 1);
        count(r, pool, MT_TORCH_allocated_bytes, b->size);
        r->oversize_allocations += b->size >= oversize;
    }
    if (b->used) {
        count(r, pool, MT_TORCH_active, 1);
        count(r, pool, MT_TORCH_active_bytes, b->size);
        count(r, pool, MT_TORCH_requested_bytes, b->requested);
        return;
    }
    r->free_blocks[pool]++;
    if (b->segment->page == 0 && (b->prev != NULL || b->next != NULL)) {
        count(r, pool, MT_TORCH_inactive_split, 1);
        count(r, pool, MT_TORCH_inactive_split_bytes, b->size);
    }
}

static void recount_all(recount *r, const torch *t) {
    memset(r, 0, sizeof *r);
    for (const mt_segment *s = t->base.core.first; s != NULL; s = s->next) {
        int pool = s->pool == MT_POOL_SMALL ? 1 : 2;
        count(r, pool, MT_TORCH_reserved_bytes, s->mapped);
        if (s->page == 0) {
            count(r, pool, MT_TORCH_segment, 1);
            r->oversize_segments += s->bytes >= t->options.max_split_size;
        }
        for (const mt_block *b = s->first; b != NULL; b = b->next) {
            assert_int_equal(b->pool, s->pool);
            assert_int_equal(b->stream, s->stream);
            assert_int_equal(b->size % 512, 0);
            recount_block(r, b, pool, t->options.max_split_size);
        }
    }
}

static void check_stat(const mt_torch_stat *s, uint64_t now) {
    assert_int_equal(s->current, now);
    assert_true(s->peak >= s->current);
    assert_true(s->peak <= s->allocated);
    assert_int_equal(s->allocated - s->freed, now);
}

static void check_stats(const bed *b) {
    const torch *t = (const torch *)mt_alloc_policy_of(b->alloc);
    recount r;
    recount_all(&r, t);
    for (int pool = 0; pool < 3; pool++)
        for (int name = 0; name < MT_TORCH_STAT_COUNT; name++)
            check_stat(&t->stats.pool[pool][name], r.now[pool][name]);
    check_stat(&t->stats.oversize_allocations, r.oversize_allocations);
    check_stat(&t->stats.oversize_segments, r.oversize_segments);
    assert_int_equal(t->small.free.count, r.free_blocks[1]);
    assert_int_equal(t->large.free.count, r.free_blocks[2]);
    assert_int_equal(t->small.unmapped.count, r.unmapped[1]);
    assert_int_equal(t->large.unmapped.count, r.unmapped[2]);
    assert_int_equal(t->base.core.reserved, r.now[0][MT_TORCH_reserved_bytes]);
    const mt_ledger *l = mt_alloc_ledger(b->alloc);
    assert_int_equal(l->reserved.current, r.now[0][MT_TORCH_reserved_bytes]);
    assert_int_equal(l->requested.current, r.now[0][MT_TORCH_requested_bytes]);
    assert_int_equal(l->requested.current + l->rounding, r.now[0][MT_TORCH_active_bytes]);
    assert_true(t->limit == UINT64_MAX || t->base.core.reserved <= t->limit ||
                t->options.expandable_segments);
}

/* How much larger than asked for the block of the last request may be. */
static void check_slack(const bed *b) {
    const torch *t = (const torch *)mt_alloc_policy_of(b->alloc);
    const torch_options *o = &t->options;
    if (b->seq == 0 || b->last.kind != MT_EV_ALLOC)
        return;
    uint64_t size = mt_alloc_roundup(b->alloc, b->last.requested), slack = b->last.rounded - size;
    assert_int_equal(b->last.pool, size <= MT_MIB ? MT_POOL_SMALL : MT_POOL_LARGE);
    if (b->last.pool == MT_POOL_SMALL || o->expandable_segments)
        assert_int_equal(slack, 0);
    else if (size < o->max_split_size)
        assert_true(slack <= MT_MIB);
    else
        assert_true(slack < o->max_non_split_rounding);
}

static void append(char *spec, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *spec, size_t room, const char *format, ...) {
    va_list args;
    size_t n = strlen(spec);
    va_start(args, format);
    vsnprintf(spec + n, room - n, format, args);
    va_end(args);
}

/* A random legal string of options. */
static void any_options(bed *b, char *spec, size_t room) {
    static const char *const divisions[] = {
        "1", "2", "4", "8", "16", "[>:2]", "[1:4,2:2,8:16]", "[4:8,>:2]", "[32:256,64:0,>:4]"
    };
    static const char *const versions[] = { "2.11", "2.12", "2.13", "2.15.0" };
    static const char *const addresses[] = { "up", "down", "reuse" };
    static const char *const reserves[] = { "0.1G", "0.5", "60G", "1e-3", "none" };
    uint64_t segment = 20, version = random_below(b, 5);
    bool expandable = random_below(b, 3) == 0;
    snprintf(spec, room, "torch");
    if (expandable)
        append(spec, room, ",expandable_segments:True");
    if (random_below(b, 4) == 0) {
        segment = expandable ? 2 * (6 + random_below(b, 15)) : 11 + random_below(b, 30);
        append(spec, room, ",large_segment_size_mb:%d", (int)segment);
    }
    if (random_below(b, 3) == 0)
        append(spec, room, ",max_split_size_mb:%d", (int)(segment + random_below(b, 20)));
    if (random_below(b, 4) == 0)
        append(spec, room, ",max_non_split_rounding_mb:%d", (int)(segment + random_below(b, 20)));
    if (random_below(b, 3) == 0)
        append(spec, room, ",roundup_power2_divisions:%s", divisions[random_below(b, 9)]);
    if (random_below(b, 3) == 0)
        append(spec, room, ",per_process_memory_fraction:0.%d", (int)(50 + random_below(b, 50)));
    if (random_below(b, 5) == 0)
        append(spec, room, ",set_per_process_memory_fraction:0.%d",
               (int)(50 + random_below(b, 50)));
    if (random_below(b, 3) == 0)
        append(spec, room, ",garbage_collection_threshold:0.%d", (int)(20 + random_below(b, 70)));
    if (version < 4)
        append(spec, room, ",version:%s", versions[version]);
    if (version > 0 && random_below(b, 5) == 0)
        append(spec, room, ",throw_on_cudamalloc_oom:True");
    if (version > 2 && random_below(b, 2) == 0)
        append(spec, room, ",expandable_segments_reserve:%s", reserves[random_below(b, 5)]);
    if (random_below(b, 2) == 0)
        append(spec, room, ",addresses:%s", addresses[random_below(b, 3)]);
}

static void check_torch(const bed *b) {
    check_all(b);
    check_stats(b);
    check_slack(b);
}

static void test_torch_options(void **state) {
    (void)state;
    static bed chooser; /* of options; no allocator */
    static char spec[400];
    chooser.seed = 4711;
    for (uint32_t i = 0; i < few(240) + 8; i++) {
        any_options(&chooser, spec, sizeof spec);
        bed *b =
            open_bed(spec, i % 2 ? SIM_4K : SIM_2M, (200 + random_below(&chooser, 200)) * MT_MIB);
        b->seed = random_bits(&chooser);
        for (uint32_t k = 0; k < few(3000); k++) {
            operate(b, PIECES - 20, 250 * MT_MIB);
            check_torch(b);
        }
        mt_alloc_hold(b->alloc, false);
        give_all(b);
        mt_alloc_trim(b->alloc);
        check_torch(b);
        assert_int_equal(b->source->used, 0);
        close_bed(b);
    }
}

/* Holes between live blocks, on a device that they fill; then a request for which all pages inside
 * the holes must be unmapped. */
static void fill_holes(uint32_t holes, uint32_t extra) {
    uint64_t capacity = mt_round_up((holes * 45 + extra * 2) * MT_MIB, 20 * MT_MIB);
    bed *b = open_bed("torch,expandable_segments:True", SIM_4K, capacity);
    for (uint32_t i = 0; i < holes; i++) {
        must_take(b, 2 * MT_MIB, MT_WEIGHTS, 0);
        must_take(b, 43 * MT_MIB - 512, MT_KV, 0);
    }
    for (uint32_t i = 0; i < extra; i++)
        must_take(b, 2 * MT_MIB, MT_WEIGHTS, 0);
    for (uint32_t i = 2 * holes; i-- > 0;)
        if (b->piece[i].bytes > 2 * MT_MIB)
            give(b, i);
    check_all(b);
    must_take(b, 50 * MT_MIB, MT_KV, 0);
    assert_true(b->events[MT_EV_SEGMENT_UNMAP] >= holes);
    check_all(b);
    give_all(b);
    close_bed(b);
}

/* Unmapping cuts a free block into a head, pages and a tail, which takes two records; the retry
 * after it takes some again. Every number of records in use, around the end of a supply of them. */
static void test_many_holes(void **state) {
    (void)state;
    for (uint32_t holes = 10; holes <= 75; holes++)
        for (uint32_t extra = 1; extra <= 4; extra++)
            fill_holes(holes, extra);
}

/* ---- many streams ---------------------------------------------------------------------------- */

/* A block that so many other streams use is free when the last of them is done, and not before. */
static void many_streams(uint32_t streams) {
    bed *b = open_bed("torch", SIM_4K, MT_GIB);
    mt_error err;
    mt_mem mem;
    mt_request r = { .bytes = MT_MIB, .tag = MT_OTHER, .layer = -1 };
    assert_int_equal(mt_alloc_get(b->alloc, &r, &mem, &err), MT_OK);
    for (uint32_t i = 1; i <= streams; i++)
        assert_int_equal(mt_alloc_use(b->alloc, mem, i, &err), MT_OK);
    mt_alloc_hold(b->alloc, true);
    assert_int_equal(mt_alloc_put(b->alloc, &mem, &err), MT_OK);
    const mt_torch_stats *s = mt_alloc_torch_stats(b->alloc);
    assert_int_equal(s->pool[0][MT_TORCH_active_bytes].current, MT_MIB);
    assert_int_equal(s->pool[0][MT_TORCH_allocated_bytes].current, 0);
    mt_alloc_trim(b->alloc);
    assert_int_equal(s->pool[0][MT_TORCH_active_bytes].current, 0);
    assert_int_equal(s->pool[0][MT_TORCH_reserved_bytes].current, 0);
    assert_int_equal(mt_alloc_check(b->alloc, &err), MT_OK);
    close_bed(b);
}

static void test_many_streams(void **state) {
    (void)state;
    many_streams(1);
    many_streams(255);
    many_streams(256);
    many_streams(65535);
    many_streams(65536);
    many_streams(65537);
    many_streams(200000);
}

/* ---- all ------------------------------------------------------------------------------------- */

#define BATTERY(f) cmocka_unit_test_teardown(f, say_where)

int main(void) {
    const struct CMUnitTest tests[] = {
        BATTERY(test_zero_size),    BATTERY(test_whole_length),  BATTERY(test_reuse),
        BATTERY(test_roundup),      BATTERY(test_huge),          BATTERY(test_exhaustion),
        BATTERY(test_room_is_made), BATTERY(test_trim),          BATTERY(test_close_live),
        BATTERY(test_streams),      BATTERY(test_uses),          BATTERY(test_handles),
        BATTERY(test_fail_at),      BATTERY(test_fail_twice),    BATTERY(test_random),
        BATTERY(test_long),         BATTERY(test_listeners),     BATTERY(test_stamp),
        BATTERY(test_bad_policies), BATTERY(test_torch_options), BATTERY(test_many_holes),
        BATTERY(test_many_streams),
    };
    return cmocka_run_group_tests_name("policies", tests, NULL, NULL);
}
