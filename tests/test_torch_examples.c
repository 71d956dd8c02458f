/* test_torch_examples.c - worked examples of PyTorch's caching allocator, E01 to E36: requests, and
 * the layouts, counters and traces that must follow. The expected numbers were derived by hand from
 * the rules and confirmed on PyTorch itself.
 *
 * A script names memory by single letters: "a x 40MiB" allocates for x ("@1": on stream 1, "!":
 * must be refused), "f x" frees, "ec" empties the cache. A layout shows every block of every
 * segment in order: [offset size state], A allocated, i free, with (rq N) where the last request of
 * a record matters; segments, or runs of mapped pages, are parted by "|". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/torch/internal.h"
#include "base/size.h"

typedef struct bed {
    mt_source *source;
    mt_alloc *alloc;
    const torch *torch;
    mt_mem mem[128]; /* by letter */
    char text[4096]; /* a layout */
    char trace[8192];
    bool stale; /* layouts show requested sizes */
} bed;

static void add(char *text, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t room, const char *format, ...) {
    size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text + n, room - n, format, args);
    va_end(args);
    assert_in_range(length, 0, room - n - 1);
}

/* One word of the trace, as PyTorch's memory history has it. */
static void trace(bed *b, const char *action, uint64_t n) {
    add(b->trace, sizeof b->trace, "%s%s %llu", *b->trace ? ", " : "", action,
        (unsigned long long)n);
}

static void on_event(void *context, const mt_event *e) {
    bed *b = context;
    switch (e->kind) {
    case MT_EV_ALLOC:
        trace(b, "alloc", e->requested);
        break;
    case MT_EV_FREE:
        trace(b, "free_completed", e->requested);
        break;
    case MT_EV_OOM:
        trace(b, "oom", e->rounded);
        add(b->trace, sizeof b->trace, " of %llu", (unsigned long long)e->offset);
        break;
    case MT_EV_SEGMENT_MAP:
    case MT_EV_SEGMENT_UNMAP:
        trace(b, mt_event_kind_name(e->kind), e->offset);
        add(b->trace, sizeof b->trace, " %llu", (unsigned long long)e->rounded);
        break;
    default:
        trace(b, mt_event_kind_name(e->kind), e->rounded);
    }
}

static bed *open_bed(const char *policy, uint64_t capacity) {
    mt_error err;
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_int_equal(mt_source_sim(&b->source, capacity, 2 * MT_MIB, &err), MT_OK);
    if (mt_alloc_open(&b->alloc, b->source, policy, &err) != MT_OK)
        fail_msg("%s", err.text);
    b->torch = (const torch *)mt_alloc_policy_of(b->alloc);
    mt_alloc_listen(b->alloc, (mt_listener){ on_event, b });
    return b;
}

static void close_bed(bed *b) {
    mt_alloc_close(b->alloc);
    assert_int_equal(b->source->used, 0);
    b->source->close(b->source);
    free(b);
}

/* ---- scripts --------------------------------------------------------------------------------- */

/* A size such as 513, 10MiB or 10MiB-512. */
static uint64_t size_of(const char *text) {
    char base[32];
    uint64_t bytes, more = 0;
    size_t n = strcspn(text, "+-");
    assert_in_range(n, 1, sizeof base - 1);
    memcpy(base, text, n);
    base[n] = '\0';
    assert_true(mt_parse_size(base, &bytes));
    if (text[n] != '\0')
        assert_true(mt_parse_size(text + n + 1, &more));
    return text[n] == '-' ? bytes - more : bytes + more;
}

static mt_status get(bed *b, uint64_t bytes, uint32_t stream, mt_mem *mem) {
    mt_request r = { .bytes = bytes, .tag = MT_OTHER, .layer = -1, .stream = stream };
    mt_error err = { MT_OK, "" };
    mt_status status = mt_alloc_get(b->alloc, &r, mem, &err);
    assert_true(status == MT_OK || status == MT_NO_MEMORY);
    return status;
}

static void put(bed *b, mt_mem *mem) {
    mt_error err;
    mt_live_info info;
    assert_int_equal(mt_alloc_info(b->alloc, *mem, &info, &err), MT_OK);
    trace(b, "free_requested", info.requested);
    assert_int_equal(mt_alloc_put(b->alloc, mem, &err), MT_OK);
}

static void operate(bed *b, const char *op) {
    char what[8], name, size[32] = "", how[8] = "";
    mt_error err;
    int n = sscanf(op, "%7s %c %31s %7s", what, &name, size, how);
    if (strcmp(what, "ec") == 0) {
        mt_alloc_trim(b->alloc);
    } else if (strcmp(what, "f") == 0 && n == 2) {
        put(b, &b->mem[(int)name]);
    } else {
        assert_true(strcmp(what, "a") == 0 && n >= 3);
        uint32_t stream = *how == '@' ? (uint32_t)atoi(how + 1) : 0;
        mt_status expected = *how == '!' ? MT_NO_MEMORY : MT_OK;
        assert_int_equal(get(b, size_of(size), stream, &b->mem[(int)name]), expected);
    }
    if (mt_alloc_check(b->alloc, &err) != MT_OK)
        fail_msg("%s", err.text);
}

/* Carries out operations parted by commas. */
static void run(bed *b, const char *script) {
    char op[64];
    while (*script != '\0') {
        size_t n = strcspn(script, ",");
        assert_in_range(n, 1, sizeof op - 1);
        memcpy(op, script, n);
        op[n] = '\0';
        operate(b, op);
        script += script[n] == ',' ? n + 1 : n;
    }
}

/* ---- what must follow ------------------------------------------------------------------------ */

static void layout_of(bed *b, const mt_segment *s) {
    bool gap = true;
    for (const mt_block *k = s->first; k != NULL; k = k->next) {
        char *t = b->text;
        if (k->mapped) {
            add(t, sizeof b->text, "%s", *t == '\0' ? "" : gap ? " | " : " ");
            add(t, sizeof b->text, "[%llu %llu %s", (unsigned long long)k->offset,
                (unsigned long long)k->size,
                k->allocated ? "A"
                : k->used    ? "P"
                             : "i");
            if (b->stale)
                add(t, sizeof b->text, " (rq %llu)", (unsigned long long)k->requested);
            add(t, sizeof b->text, "]");
        }
        gap = !k->mapped;
    }
}

static void layout(bed *b, const char *expected) {
    *b->text = '\0';
    for (const mt_segment *s = b->torch->base.core.first; s != NULL; s = s->next)
        layout_of(b, s);
    assert_string_equal(b->text, expected);
}

/* The layout with the requested size of each record. */
static void stale_layout(bed *b, const char *expected) {
    b->stale = true;
    layout(b, expected);
    b->stale = false;
}

/* The trace since it was last looked at. */
static void traced(bed *b, const char *expected) {
    assert_string_equal(b->trace, expected);
    *b->trace = '\0';
}

static int64_t stat(const bed *b, const char *name) {
    static const char *const keys[][2] = {
        { "alloc", "allocated_bytes.all.current" },
        { "req", "requested_bytes.all.current" },
        { "res", "reserved_bytes.all.current" },
        { "active", "active_bytes.all.current" },
        { "isb", "inactive_split_bytes.all.current" },
        { "pieces", "inactive_split.all.current" },
        { "segments", "segment.all.current" },
        { "peak", "allocated_bytes.all.peak" },
        { "allocs", "allocation.all.allocated" },
        { "frees", "allocation.all.freed" },
        { "rounded", "allocated_bytes.all.allocated" },
        { "requested", "requested_bytes.all.allocated" },
        { "oversize", "oversize_allocations.current" },
        { "oversized", "oversize_allocations.allocated" },
        { "oversize_segments", "oversize_segments.current" },
        { "retries", "num_alloc_retries" },
        { "ooms", "num_ooms" },
        { "syncs", "num_sync_all_streams" },
        { "taken", "num_device_alloc" },
        { "given", "num_device_free" },
    };
    int64_t value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i][0], name) == 0) {
            assert_true(mt_torch_stats_get(&b->torch->stats, keys[i][1], &value));
            return value;
        }
    fail_msg("no statistic is called %s here", name);
    return 0;
}

/* "alloc 512 res 2097152": statistics by short names. */
static void stats(const bed *b, const char *expected) {
    char name[32];
    long long value;
    for (int n; sscanf(expected, " %31s %lld%n", name, &value, &n) == 2; expected += n)
        if (stat(b, name) != value)
            fail_msg("%s is %lld, expected %lld", name, (long long)stat(b, name), value);
    assert_string_equal(expected, "");
}

/* ---- E01 to E10: single requests ------------------------------------------------------------- */

static void test_single(void **state) {
    (void)state;
    static const struct {
        const char *name, *request;
        uint64_t rounded, alloc, reserved;
        const char *layout;
    } e[] = {
        { "E01", "1", 512, 512, 2097152, "[0 512 A] [512 2096640 i]" },
        { "E02", "512", 512, 512, 2097152, "[0 512 A] [512 2096640 i]" },
        { "E03", "513", 1024, 1024, 2097152, "[0 1024 A] [1024 2096128 i]" },
        { "E04", "1048576", 1048576, 1048576, 2097152, "[0 1048576 A] [1048576 1048576 i]" },
        { "E05", "1048577", 1049088, 1049088, 20971520, "[0 1049088 A] [1049088 19922432 i]" },
        { "E06", "10MiB-512", 10485248, 10485248, 20971520,
          "[0 10485248 A] [10485248 10486272 i]" },
        { "E06b", "10MiB-511", 10485760, 10485760, 10485760, "[0 10485760 A]" },
        { "E07", "10MiB", 10485760, 10485760, 10485760, "[0 10485760 A]" },
        { "E08", "10MiB+1", 10486272, 10486272, 12582912, "[0 10486272 A] [10486272 2096640 i]" },
        { "E09", "11534336", 11534336, 12582912, 12582912, "[0 12582912 A]" },
        { "E09b", "11MiB-512", 11533824, 11533824, 12582912,
          "[0 11533824 A] [11533824 1049088 i]" },
        { "E10", "20MiB", 20971520, 20971520, 20971520, "[0 20971520 A]" },
        { "E10b", "20MiB+1", 20972032, 20972032, 23068672, "[0 20972032 A] [20972032 2096640 i]" },
        { "E10c", "25MiB", 26214400, 27262976, 27262976, "[0 27262976 A]" },
    };
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        bed *b = open_bed("torch", 80 * MT_GIB);
        char op[64];
        snprintf(op, sizeof op, "a a %s", e[i].request);
        run(b, op);
        assert_int_equal(mt_alloc_roundup(b->alloc, size_of(e[i].request)), e[i].rounded);
        assert_int_equal(stat(b, "alloc"), e[i].alloc);
        assert_int_equal(stat(b, "req"), size_of(e[i].request));
        assert_int_equal(stat(b, "res"), e[i].reserved);
        layout(b, e[i].layout);
        assert_int_equal(mt_alloc_ledger(b->alloc)->rounding, e[i].alloc - size_of(e[i].request));
        close_bed(b);
    }
}

/* ---- E11 to E19: sequences ------------------------------------------------------------------- */

static void test_e11(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a a 1000,a b 2000,a c 3000");
    layout(b, "[0 1024 A] [1024 2048 A] [3072 3072 A] [6144 2091008 i]");
    stats(b, "alloc 6144 req 6000 res 2097152 isb 2091008 pieces 1");
    run(b, "f b");
    stale_layout(b, "[0 1024 A (rq 1000)] [1024 2048 i (rq 2000)] [3072 3072 A (rq 3000)] "
                    "[6144 2091008 i (rq 0)]");
    stats(b, "alloc 4096 req 4000 isb 2093056 pieces 2");
    run(b, "f a");
    stale_layout(b, "[0 3072 i (rq 1000)] [3072 3072 A (rq 3000)] [6144 2091008 i (rq 0)]");
    stats(b, "isb 2094080");
    run(b, "f c");
    stale_layout(b, "[0 2097152 i (rq 3000)]");
    stats(b, "alloc 0 req 0 active 0 isb 0 pieces 0 res 2097152 segments 1");
    traced(b, "segment_alloc 2097152, alloc 1000, alloc 2000, alloc 3000, "
              "free_requested 2000, free_completed 2000, free_requested 1000, "
              "free_completed 1000, free_requested 3000, free_completed 3000");
    close_bed(b);
}

static void test_e12(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a W 40000,a b 40,a X 4000,a t 40,a y 40,f t");
    layout(b, "[0 40448 A] [40448 512 A] [40960 4096 A] [45056 512 i] [45568 512 A] "
              "[46080 2051072 i]");
    stats(b, "alloc 45568 res 2097152");
    close_bed(b);
}

static void test_e13(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a a 1MiB,a b 1MiB,a c 1MiB");
    layout(b, "[0 1048576 A] [1048576 1048576 A] | [0 1048576 A] [1048576 1048576 i]");
    run(b, "f a,f b,f c");
    layout(b, "[0 2097152 i] | [0 2097152 i]");
    stats(b, "res 4194304");
    run(b, "a d 1572864");
    layout(b, "[0 2097152 i] | [0 2097152 i] | [0 1572864 A] [1572864 19398656 i]");
    stats(b, "res 25165824");
    close_bed(b);
}

static void test_e14(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a a 11MiB");
    layout(b, "[0 12582912 A]");
    run(b, "f a,a b 10MiB");
    stale_layout(b, "[0 10485760 A (rq 10485760)] [10485760 2097152 i (rq 11534336)]");
    stats(b, "alloc 10485760 isb 2097152");
    run(b, "f b,a c 10MiB+512");
    stale_layout(b, "[0 10486272 A (rq 10486272)] [10486272 2096640 i (rq 10485760)]");
    run(b, "f c,a d 1572864");
    stale_layout(b, "[0 1572864 A (rq 1572864)] [1572864 11010048 i (rq 10486272)]");
    close_bed(b);
}

static void test_e15(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a a 9MiB,a b 9MiB,a c 9MiB");
    layout(b, "[0 9437184 A] [9437184 9437184 A] [18874368 2097152 i] | "
              "[0 9437184 A] [9437184 11534336 i]");
    stats(b, "res 41943040 isb 13631488");
    run(b, "f a,a d 2MiB");
    layout(b, "[0 9437184 i] [9437184 9437184 A] [18874368 2097152 A] | "
              "[0 9437184 A] [9437184 11534336 i]");
    stats(b, "isb 20971520 pieces 2");
    close_bed(b);
}

static void test_e16(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a a 3MiB,a b 4MiB,a c 5MiB");
    layout(b, "[0 3145728 A] [3145728 4194304 A] [7340032 5242880 A] [12582912 8388608 i]");
    run(b, "f a,f c");
    layout(b, "[0 3145728 i] [3145728 4194304 A] [7340032 13631488 i]");
    stats(b, "isb 16777216");
    run(b, "f b");
    stale_layout(b, "[0 20971520 i (rq 4194304)]");
    stats(b, "isb 0");
    *b->trace = '\0';
    run(b, "ec");
    traced(b, "segment_free 20971520");
    layout(b, "");
    stats(b, "res 0 segments 0");
    close_bed(b);
}

static void test_e17_e18(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a w 8519680");
    layout(b, "[0 8519680 A] [8519680 12451840 i]");
    stats(b, "alloc 8519680 req 8519680 res 20971520");
    run(b, "a x 9MiB");
    layout(b, "[0 8519680 A] [8519680 9437184 A] [17956864 3014656 i]");
    run(b, "f x,ec");
    layout(b, "[0 8519680 A] [8519680 12451840 i]");
    stats(b, "res 20971520 alloc 8519680");
    run(b, "a v 8519680,a u 8519680");
    layout(b, "[0 8519680 A] [8519680 8519680 A] [17039360 3932160 i] | "
              "[0 8519680 A] [8519680 12451840 i]");
    stats(b, "alloc 25559040 res 41943040");
    close_bed(b);
}

static void test_e19(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a w 8519680,a l 1048576");
    stats(b, "alloc 9568256 res 23068672");
    close_bed(b);
    b = open_bed("torch", 80 * MT_GIB);
    run(b, "a w 33554432,a l 1048576");
    stats(b, "alloc 34603008 res 35651584");
    close_bed(b);
}

/* ---- E20: rounding to divisions of powers of two --------------------------------------------- */

static void rounds(const char *policy, const char *request, uint64_t rounded) {
    bed *b = open_bed(policy, 80 * MT_GIB);
    assert_int_equal(mt_alloc_roundup(b->alloc, size_of(request)), rounded);
    close_bed(b);
}

static void test_e20(void **state) {
    (void)state;
    const char *four = "torch,roundup_power2_divisions:4";
    rounds(four, "1200", 1536);
    rounds(four, "2049", 2560);
    rounds(four, "3000", 3072);
    rounds(four, "1MiB", 1048576);
    rounds(four, "5MiB+1", 6291456);
    rounds(four, "100MiB+1", 117440512);
    rounds("torch,roundup_power2_divisions:2", "514MiB", 805306368);
    rounds("torch,roundup_power2_divisions:1", "514MiB", 538968064);
    rounds("torch,roundup_power2_divisions:[>:2]", "1572865", 1573376);
    rounds("torch,roundup_power2_divisions:[>:2]", "3MiB+1", 4194304);
    bed *b = open_bed("torch,roundup_power2_divisions:2", 80 * MT_GIB);
    run(b, "a a 514MiB");
    layout(b, "[0 805306368 A]");
    stats(b, "alloc 805306368 req 538968064 res 805306368");
    close_bed(b);
}

/* ---- E21 to E24: streams, retries, refusals -------------------------------------------------- */

static void test_e21(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a a 4MiB,f a,a b 4MiB @1");
    layout(b, "[0 20971520 i] | [0 4194304 A] [4194304 16777216 i]");
    stats(b, "alloc 4194304 res 41943040");
    close_bed(b);
}

static void test_e22(void **state) {
    (void)state;
    bed *b = open_bed("torch", 64 * MT_MIB);
    run(b, "a a 30MiB,a b 20MiB,f a");
    *b->trace = '\0';
    run(b, "a c 40MiB");
    traced(b, "segment_free 31457280, segment_alloc 41943040, alloc 41943040");
    stats(b, "retries 1 ooms 0 syncs 1 taken 3 given 1 res 62914560");
    close_bed(b);
}

static void test_e23(void **state) {
    (void)state;
    bed *b = open_bed("torch", 64 * MT_MIB);
    run(b, "a a 30MiB,a b 20MiB");
    *b->trace = '\0';
    run(b, "a c 40MiB !");
    traced(b, "oom 41943040 of 14680064");
    stats(b, "retries 1 ooms 1 res 52428800");
    close_bed(b);
}

/* The limit counts whole segments: 20 MiB of them are asked for to serve 5 MiB. */
static void test_e23_limit(void **state) {
    (void)state;
    bed *b = open_bed("torch,per_process_memory_fraction:0.5", 64 * MT_MIB);
    run(b, "a a 20MiB");
    *b->trace = '\0';
    run(b, "a b 5MiB !");
    traced(b, "oom 5242880 of 46137344");
    assert_int_equal(mt_alloc_refusal(b->alloc)->segment, 20971520);
    stats(b, "ooms 1 res 20971520");
    close_bed(b);
}

static void test_e24(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    run(b, "a a 1GiB,f a,a b 1200KiB");
    layout(b, "[0 1228800 A] [1228800 1072513024 i]");
    run(b, "a c 1GiB");
    layout(b, "[0 1228800 A] [1228800 1072513024 i] | [0 1073741824 A]");
    stats(b, "alloc 1074970624 res 2147483648");
    close_bed(b);
}

/* ---- E25 to E27: limits on splitting, garbage collection ------------------------------------- */

static void test_e25(void **state) {
    (void)state;
    bed *b = open_bed("torch,max_split_size_mb:128", 80 * MT_GIB);
    run(b, "a a 200MiB,f a,a b 100MiB");
    layout(b, "[0 209715200 i] | [0 104857600 A]");
    run(b, "a c 190MiB");
    layout(b, "[0 209715200 A] | [0 104857600 A]");
    stats(b, "alloc 314572800 req 304087040 res 314572800 oversize 1 oversized 2");
    run(b, "f c,a d 180MiB-512");
    layout(b, "[0 209715200 i] | [0 104857600 A] | [0 188743680 A]");
    stats(b, "res 503316480 alloc 293601280 oversize 1 oversized 3 oversize_segments 2");
    close_bed(b);
}

/* The two gates at their limits: a block of the split limit serves nothing smaller than it, and an
 * oversize block nothing that is smaller by the rounding limit. */
static void test_gates(void **state) {
    (void)state;
    bed *b = open_bed("torch,max_split_size_mb:128", 80 * MT_GIB);
    run(b, "a a 200MiB,f a,a b 180MiB");
    layout(b, "[0 209715200 i] | [0 188743680 A]");
    run(b, "f b,ec,a a 200MiB,f a,a b 180MiB+1");
    layout(b, "[0 209715200 A]");
    run(b, "f b,ec,a a 128MiB,f a,a b 128MiB-512");
    layout(b, "[0 134217728 i] | [0 134217728 A]");
    run(b, "f b,a c 128MiB");
    layout(b, "[0 134217728 A] | [0 134217728 i]");
    close_bed(b);
}

static void test_e26(void **state) {
    (void)state;
    bed *b = open_bed("torch,max_split_size_mb:20", 80 * MT_GIB);
    run(b, "a a 2MiB,f a,a a 2MiB,f a,a a 2MiB");
    layout(b, "[0 20971520 i] | [0 20971520 i] | [0 2097152 A] [2097152 18874368 i]");
    stats(b, "res 62914560 segments 3");
    close_bed(b);
}

static void test_e27(void **state) {
    (void)state;
    bed *b = open_bed("torch,garbage_collection_threshold:0.5,per_process_memory_fraction:0.9375",
                      MT_GIB);
    run(b, "a a 100MiB,a b 200MiB,a c 150MiB,a d 60MiB");
    stats(b, "res 534773760");
    run(b, "f a,f b,f c,a e 60MiB");
    layout(b, "[0 62914560 A] [62914560 41943040 i] | [0 209715200 i] | [0 157286400 i] | "
              "[0 62914560 A]");
    *b->trace = '\0';
    run(b, "a g 300MiB");
    traced(b, "segment_free 157286400, segment_free 209715200, segment_alloc 314572800, "
              "alloc 314572800");
    stats(b, "res 482344960 retries 0 given 2");
    close_bed(b);
}

/* ---- E28 to E31: expandable segments --------------------------------------------------------- */

#define EXPANDABLE "torch,expandable_segments:True"

static void test_e28(void **state) {
    (void)state;
    bed *b = open_bed(EXPANDABLE, 80 * MT_GIB);
    run(b, "a a 25MiB");
    traced(b, "segment_map 0 41943040, alloc 26214400");
    layout(b, "[0 26214400 A] [26214400 15728640 i]");
    run(b, "a b 25MiB");
    traced(b, "segment_map 41943040 20971520, alloc 26214400");
    layout(b, "[0 26214400 A] [26214400 26214400 A] [52428800 10485760 i]");
    stats(b, "res 62914560 segments 0 isb 0");
    run(b, "f a");
    *b->trace = '\0';
    run(b, "ec");
    traced(b, "segment_unmap 0 20971520");
    layout(b, "[20971520 5242880 i] [26214400 26214400 A] [52428800 10485760 i]");
    stats(b, "res 41943040");
    close_bed(b);
}

static void test_e29(void **state) {
    (void)state;
    bed *b = open_bed(EXPANDABLE, 80 * MT_GIB);
    run(b, "a a 1,a b 1MiB");
    traced(b, "segment_map 0 2097152, alloc 1, alloc 1048576");
    layout(b, "[0 512 A] [512 1048576 A] [1049088 1048064 i]");
    run(b, "a c 1MiB");
    traced(b, "segment_map 2097152 2097152, alloc 1048576");
    layout(b, "[0 512 A] [512 1048576 A] [1049088 1048576 A] [2097664 2096640 i]");
    stats(b, "res 4194304");
    run(b, "f b,f c");
    *b->trace = '\0';
    run(b, "ec");
    traced(b, "segment_unmap 2097152 2097152");
    layout(b, "[0 512 A] [512 2096640 i]");
    close_bed(b);
}

static void test_e30(void **state) {
    (void)state;
    bed *b = open_bed(EXPANDABLE, 80 * MT_GIB);
    run(b, "a a 20MiB,a b 20MiB,a c 20MiB,f b");
    *b->trace = '\0';
    run(b, "ec");
    traced(b, "segment_unmap 20971520 20971520");
    layout(b, "[0 20971520 A] | [41943040 20971520 A]");
    run(b, "a d 30MiB");
    traced(b, "segment_map 62914560 41943040, alloc 31457280");
    layout(b, "[0 20971520 A] | [41943040 20971520 A] [62914560 31457280 A] [94371840 10485760 i]");
    stats(b, "res 83886080");
    run(b, "a e 10MiB");
    traced(b, "alloc 10485760");
    layout(b, "[0 20971520 A] | [41943040 20971520 A] [62914560 31457280 A] [94371840 10485760 A]");
    close_bed(b);
}

static void test_e31(void **state) {
    (void)state;
    bed *b = open_bed(EXPANDABLE, 80 * MT_GIB);
    run(b, "a a 20MiB,f a");
    *b->trace = '\0';
    run(b, "ec");
    traced(b, "segment_unmap 0 20971520");
    layout(b, "");
    stats(b, "res 0");
    assert_null(b->torch->base.core.first); /* the range is given up */
    close_bed(b);
}

/* Two holes, the larger one first by address, each leave a tail of 5 MiB. The smaller hole is
 * unmapped first, so its tail is the older record, which 2.12 prefers; later releases go by the
 * offset. */
static void test_tails(void **state) {
    (void)state;
    static const struct {
        const char *version;
        uint64_t offset;
    } e[] = { { "2.11", 40 }, { "2.12", 120 }, { "2.13", 40 } };
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        char policy[100];
        mt_live_info info;
        snprintf(policy, sizeof policy, EXPANDABLE ",version:%s", e[i].version);
        bed *b = open_bed(policy, 80 * MT_GIB);
        run(b, "a a 13MiB,a b 32MiB,a c 50MiB,a d 30MiB,a e 15MiB,f b,f d,ec,a g 5MiB");
        assert_int_equal(mt_alloc_info(b->alloc, b->mem['g'], &info, NULL), MT_OK);
        assert_int_equal(info.offset, e[i].offset * MT_MIB);
        close_bed(b);
    }
}

/* ---- E32 to E36: keys and values that grow by concatenation ---------------------------------- */

#define LAYERS 12
#define LAST   1024

/* Where a tensor lies; segments are numbered from 1 here. */
static void placed(const bed *b, mt_mem mem, uint32_t segment, uint64_t offset) {
    mt_live_info info;
    mt_error err;
    assert_int_equal(mt_alloc_info(b->alloc, mem, &info, &err), MT_OK);
    assert_int_equal(info.segment + 1, segment);
    assert_int_equal(info.offset, offset);
}

/* A new tensor of t rows of 768 floats. */
static mt_mem tensor(bed *b, uint64_t t) {
    mt_mem mem;
    assert_int_equal(get(b, 3072 * t, 0, &mem), MT_OK);
    return mem;
}

static void drop(bed *b, mt_mem *mem) {
    if (mem->handle != 0)
        assert_int_equal(mt_alloc_put(b->alloc, mem, NULL), MT_OK);
    *b->trace = '\0';
}

static void replace(bed *b, mt_mem *mem, uint64_t t) {
    mt_mem grown = tensor(b, t);
    drop(b, mem);
    *mem = grown;
}

typedef struct e32_row {
    uint64_t t;
    uint32_t segment;
    uint64_t offset, alloc, mib, peak;
} e32_row;

static const e32_row e32[] = {
    { 1, 1, 0, 3072, 2, 3072 },
    { 2, 1, 3072, 6144, 2, 9216 },
    { 3, 1, 9216, 9216, 2, 15360 },
    { 4, 1, 18432, 12288, 2, 21504 },
    { 5, 1, 0, 15360, 2, 27648 },
    { 6, 1, 15360, 18432, 2, 33792 },
    { 228, 1, 697344, 700416, 2, 1397760 },
    { 229, 2, 0, 703488, 4, 1403904 },
    { 341, 2, 0, 1047552, 4, 2092032 },
    { 342, 3, 0, 1050624, 24, 2098176 },
    { 343, 3, 1050624, 1053696, 24, 2104320 },
    { 344, 3, 2104320, 1056768, 24, 2110464 },
    { 345, 3, 0, 2104320, 24, 3161088 },
    { 346, 3, 2104320, 1062912, 24, 3167232 },
    { 347, 3, 0, 2104320, 24, 3167232 },
    { 683, 3, 0, 2104320, 24, 4199424 },
    { 684, 3, 2104320, 2101248, 24, 4205568 },
    { 685, 3, 0, 2104320, 24, 4205568 },
    { 1024, 3, 0, 3145728, 24, 6288384 },
};

static void test_e32(void **state) {
    (void)state;
    bed *b = open_bed("torch", 80 * MT_GIB);
    mt_mem k = { 0 };
    int slack_steps = 0;
    int64_t largest = 0;
    for (uint64_t t = 1, row = 0; t <= LAST; t++) {
        replace(b, &k, t);
        int64_t slack = stat(b, "alloc") - stat(b, "req");
        slack_steps += slack > 0;
        largest = slack > largest ? slack : largest;
        if (t >= 345 && t < 684 && t % 2 == 1)
            assert_int_equal(stat(b, "alloc"), 2104320);
        if (t != e32[row].t)
            continue;
        placed(b, k, e32[row].segment, e32[row].offset);
        assert_int_equal(stat(b, "alloc"), e32[row].alloc);
        assert_int_equal(stat(b, "res"), e32[row].mib * MT_MIB);
        assert_int_equal(stat(b, "peak"), e32[row].peak);
        row++;
    }
    assert_int_equal(slack_steps, 170);
    assert_int_equal(largest, 1044480);
    layout(b, "[0 2097152 i] | [0 2097152 i] | [0 3145728 A] [3145728 17825792 i]");
    stats(b, "allocs 1024 frees 1023 taken 3 given 0 rounded 1701488640 requested 1612185600");
    close_bed(b);
}

/* From which t on so much is reserved. */
typedef struct curve {
    uint64_t t, mib;
} curve;

static void on_curve(const bed *b, const curve *c, int n, uint64_t t) {
    uint64_t mib = 0;
    for (int i = 0; i < n && c[i].t <= t; i++)
        mib = c[i].mib;
    assert_int_equal(stat(b, "res"), mib * MT_MIB);
}

typedef struct kv_row {
    uint64_t t;
    uint32_t k_segment;
    uint64_t k;
    uint32_t v_segment;
    uint64_t v;
} kv_row;

/* Order A: new K, new V, free old K, free old V (or the old ones the other way round). */
static void order_a(bed *b, mt_mem *k, mt_mem *v, uint64_t t, bool v_first) {
    mt_mem new_k = tensor(b, t), new_v = tensor(b, t);
    drop(b, v_first ? v : k);
    drop(b, v_first ? k : v);
    *k = new_k;
    *v = new_v;
}

/* Runs order A along a curve; the rows are checked where there are any. Returns the steps that end
 * with slack. */
static int run_a(bed *b, const curve *c, int n, const kv_row *rows, bool v_first) {
    mt_mem k = { 0 }, v = { 0 };
    int slack_steps = 0;
    for (uint64_t t = 1; t <= LAST; t++) {
        order_a(b, &k, &v, t, v_first);
        on_curve(b, c, n, t);
        slack_steps += stat(b, "alloc") != stat(b, "req");
        if (rows == NULL || rows->t != t)
            continue;
        placed(b, k, rows->k_segment, rows->k);
        placed(b, v, rows->v_segment, rows->v);
        if (t == 344)
            stats(b, "alloc 3158016 req 2113536");
        rows++;
    }
    return slack_steps;
}

static const curve e33_curve[] = { { 1, 2 }, { 139, 4 }, { 229, 6 }, { 342, 26 } };

static void test_e33(void **state) {
    (void)state;
    static const kv_row rows[] = {
        { 1, 1, 0, 1, 3072 },      { 2, 1, 6144, 1, 12288 },
        { 3, 1, 18432, 1, 27648 }, { 4, 1, 0, 1, 36864 },
        { 5, 1, 12288, 1, 49152 }, { 139, 1, 1268736, 2, 0 },
        { 342, 4, 0, 4, 1050624 }, { 343, 4, 2101248, 4, 3154944 },
        { 344, 4, 0, 4, 4208640 }, { 1024, 4, 0, 4, 12561408 },
        { 0, 0, 0, 0, 0 },
    };
    bed *b = open_bed("torch", 80 * MT_GIB);
    assert_int_equal(run_a(b, e33_curve, 4, rows, false), 17);
    layout(b, "[0 2097152 i] | [0 2097152 i] | [0 2097152 i] | [0 3145728 A] [3145728 9415680 i] "
              "[12561408 3145728 A] [15707136 5264384 i]");
    stats(b, "alloc 6291456 req 6291456 res 27262976 isb 14680064 peak 12576768 segments 4 "
             "allocs 2048 frees 2046");
    close_bed(b);
}

/* Falling addresses, in the release that ranks blocks by address, and the other order of frees. */
static void test_e33_variants(void **state) {
    (void)state;
    static const char *const policies[] = { "torch", "torch,version:2.11,addresses:down" };
    for (int i = 0; i < 4; i++) {
        bed *b = open_bed(policies[i % 2], 80 * MT_GIB);
        run_a(b, e33_curve, 4, NULL, i / 2);
        stats(b, "res 27262976 peak 12576768 segments 4");
        close_bed(b);
    }
}

static void test_e34(void **state) {
    (void)state;
    static const curve c[] = { { 1, 2 }, { 173, 4 }, { 342, 24 } };
    bed *b = open_bed("torch", 80 * MT_GIB);
    mt_mem k = { 0 }, v = { 0 };
    int slack_steps = 0;
    int64_t largest = 0;
    for (uint64_t t = 1; t <= LAST; t++) {
        replace(b, &k, t);
        replace(b, &v, t);
        on_curve(b, c, 3, t);
        int64_t slack = stat(b, "alloc") - stat(b, "req");
        slack_steps += slack > 0;
        largest = slack > largest ? slack : largest;
        if (t == 3) {
            placed(b, k, 1, 18432);
            placed(b, v, 1, 0);
        }
        if (t == 345) {
            placed(b, k, 3, 2101248);
            placed(b, v, 3, 0);
            layout(b, "[0 2097152 i] | [0 2097152 i] | [0 2101248 A] [2101248 2107392 A] "
                      "[4208640 16762880 i]");
            stats(b, "alloc 4208640 req 2119680");
        }
    }
    assert_int_equal(slack_steps, 342);
    assert_int_equal(largest, 2088960);
    placed(b, k, 3, 6285312);
    placed(b, v, 3, 9431040);
    stats(b, "alloc 6291456 req 6291456 res 25165824 peak 9434112 segments 3");
    close_bed(b);
}

/* What is reserved is the same when addresses fall and blocks are ranked by them. */
static void test_e32_e34_falling(void **state) {
    (void)state;
    static const curve one[] = { { 1, 2 }, { 229, 4 }, { 342, 24 } };
    static const curve two[] = { { 1, 2 }, { 173, 4 }, { 342, 24 } };
    bed *b = open_bed("torch,version:2.11,addresses:down", 80 * MT_GIB);
    bed *c = open_bed("torch,version:2.11,addresses:down", 80 * MT_GIB);
    mt_mem single = { 0 }, k = { 0 }, v = { 0 };
    for (uint64_t t = 1; t <= LAST; t++) {
        replace(b, &single, t);
        on_curve(b, one, 3, t);
        replace(c, &k, t);
        replace(c, &v, t);
        on_curve(c, two, 3, t);
    }
    stats(b, "peak 6288384");
    stats(c, "peak 9434112");
    close_bed(b);
    close_bed(c);
}

static void test_e35(void **state) {
    (void)state;
    static const curve c[] = { { 1, 2 }, { 139, 4 }, { 274, 6 }, { 342, 26 } };
    bed *b = open_bed(EXPANDABLE, 80 * MT_GIB);
    assert_int_equal(run_a(b, c, 4, NULL, false), 0);
    layout(b, "[0 6291456 i] | [0 3145728 A] [3145728 9418752 i] [12564480 3145728 A] "
              "[15710208 5261312 i]");
    stats(b, "segments 0 alloc 6291456 req 6291456 res 27262976");
    close_bed(b);
}

/* All layers; the old tensors go layer by layer, or all together at the end of the step. */
static void run_layers(const char *policy, bool together, const char *expected) {
    bed *b = open_bed(policy, 80 * MT_GIB);
    mt_mem k[LAYERS] = { { 0 } }, v[LAYERS] = { { 0 } }, old[2 * LAYERS];
    for (uint64_t t = 1; t <= LAST; t++) {
        for (int l = 0; l < LAYERS; l++) {
            if (!together) {
                order_a(b, &k[l], &v[l], t, false);
                continue;
            }
            old[2 * l] = k[l];
            old[2 * l + 1] = v[l];
            k[l] = tensor(b, t);
            v[l] = tensor(b, t);
        }
        for (int i = 0; together && i < 2 * LAYERS; i++)
            drop(b, &old[i]);
    }
    stats(b, expected);
    close_bed(b);
}

static void test_e36(void **state) {
    (void)state;
    static const char *const policies[] = { "torch", "torch,version:2.11",
                                            "torch,version:2.11,addresses:down" };
    for (int i = 0; i < 3; i++) {
        run_layers(policies[i], false,
                   "alloc 75497472 req 75497472 res 134217728 segments 19 peak 81782784");
        run_layers(policies[i], true,
                   "alloc 75497472 req 75497472 res 241172480 segments 34 peak 150921216");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_e11),
        cmocka_unit_test(test_e12),
        cmocka_unit_test(test_e13),
        cmocka_unit_test(test_e14),
        cmocka_unit_test(test_e15),
        cmocka_unit_test(test_e16),
        cmocka_unit_test(test_e17_e18),
        cmocka_unit_test(test_e19),
        cmocka_unit_test(test_e20),
        cmocka_unit_test(test_e21),
        cmocka_unit_test(test_e22),
        cmocka_unit_test(test_e23),
        cmocka_unit_test(test_e23_limit),
        cmocka_unit_test(test_e24),
        cmocka_unit_test(test_e25),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_e26),
        cmocka_unit_test(test_e27),
        cmocka_unit_test(test_e28),
        cmocka_unit_test(test_e29),
        cmocka_unit_test(test_e30),
        cmocka_unit_test(test_e31),
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_e32),
        cmocka_unit_test(test_e33),
        cmocka_unit_test(test_e33_variants),
        cmocka_unit_test(test_e34),
        cmocka_unit_test(test_e32_e34_falling),
        cmocka_unit_test(test_e35),
        cmocka_unit_test(test_e36),
    };
    return cmocka_run_group_tests_name("torch examples", tests, NULL, NULL);
}
