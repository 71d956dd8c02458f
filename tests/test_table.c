/* test_table.c - the per-step table: known streams of events and the rows that they must give.
 *
 * The streams are written as the lines of a trace, without the sequence numbers. Each goes through
 * the table twice, as a stored trace (the table's own ledger) and as live events (a ledger that
 * took each event before): both must give the same rows. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "alloc/alloc.h"
#include "base/size.h"
#include "reports/table.h"
#include "traces/trace.h"
#include "tests/read_events.h"
#include "tests/temp_files.h"

/* ---- running a stream ------------------------------------------------------------------------ */

static void print_row(void *context, const mt_row *row) {
    mt_table_print(context, row, MT_DAT);
}

/* An allocator as far as a table sees it: the ledger first, then the listener. */
typedef struct live {
    mt_ledger ledger;
    mt_listener listener;
} live;

static void live_event(void *context, const mt_event *e) {
    live *l = context;
    mt_error err;
    assert_int_equal(mt_ledger_apply(&l->ledger, e, &err), MT_OK);
    l->listener.on_event(l->listener.context, e);
}

/* Writes the stream as a trace. */
static const char *store(const char *lines) {
    static char text[1 << 16];
    size_t at =
        (size_t)sprintf(text, "# memtrace trace 1\n# seq kind step stream id segment offset "
                              "requested rounded tag layer pool\n");
    for (int seq = 0; *lines != '\0'; seq++) {
        size_t n = strcspn(lines, "\n") + 1;
        at += (size_t)sprintf(text + at, "%d %.*s", seq, (int)n, lines);
        lines += n;
    }
    return temp_write("trace", text, at);
}

/* The table of a stored trace as text, free() it. */
static char *table_of(const char *path, bool as_live) {
    char *text = NULL;
    size_t size;
    mt_error err = { MT_OK, "" };
    mt_table *t;
    live l = { .listener = { NULL, NULL } };
    FILE *out = open_memstream(&text, &size);
    mt_ledger_init(&l.ledger);
    assert_int_equal(mt_table_open(&t, as_live ? &l.ledger : NULL, print_row, out, &err), MT_OK);
    l.listener = mt_table_listener(t);
    mt_listener listener = as_live ? (mt_listener){ live_event, &l } : l.listener;
    if (read_events(path, listener, NULL, NULL, &err) != MT_OK || mt_table_status(t, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_true((mt_table_ledger(t) == &l.ledger) == as_live);
    mt_table_close(t);
    mt_ledger_free(&l.ledger);
    fclose(out);
    return text;
}

static void assert_rows(const char *lines, const char *expected) {
    const char *path = store(lines);
    for (int as_live = 0; as_live < 2; as_live++) {
        char *text = table_of(path, as_live);
        assert_string_equal(text, expected);
        free(text);
    }
}

/* The cause and bump of the last row only. */
static void assert_cause(const char *lines, const char *bump_and_cause) {
    char *text = table_of(store(lines), false), found[1200];
    char *row = strrchr(text, '\n');
    *row = '\0';
    row = strrchr(text, '\n') == NULL ? text : strrchr(text, '\n') + 1;
    int column = strncmp(row, "# load ", 7) == 0 ? -2 : 0;
    for (; column < 17; row++)
        column += *row == ' ';
    snprintf(found, sizeof found, "%.*s", (int)(strlen(row) - 2), row);
    assert_string_equal(found, bump_and_cause);
    free(text);
}

#define MARK(step) "mark " #step " 0 - - 1 100 0 - -1 -\n"

/* ---- whole rows ------------------------------------------------------------------------------ */

static void test_columns(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    mt_columns_names(out, mt_table_columns, MT_DAT);
    fclose(out);
    assert_string_equal(
        text, "# step ctx weights kv activations logits workspace other requested rounding "
              "split cached reserved peak_requested peak_reserved segments kv_ideal bump "
              "cause ms\n");
    free(text);
}

/* A cache that grows by a new tensor, as concat does: load, prefill, one step, a quiet step. */
static void test_concat(void **state) {
    (void)state;
    assert_rows("segment_alloc -1 0 0 0 0 1000 4096 weights -1 large\n"
                "alloc -1 0 0 0 0 1000 1024 weights -1 large\n"
                "mark -1 0 - - 0 0 0 - -1 -\n"
                "segment_alloc 0 0 1 1 0 100 2048 kv 0 small\n"
                "alloc 0 0 1 1 0 100 512 kv 0 small\n"
                "alloc 0 0 2 1 512 300 512 activations 0 small\n"
                "free 0 0 2 1 512 300 512 activations 0 small\n"
                "mark 0 0 - - 1 100 1500000 - -1 -\n"
                "segment_alloc 1 0 3 2 0 200 8192 kv 0 block\n"
                "alloc 1 0 3 2 0 200 1024 kv 0 block\n"
                "free 1 0 1 1 0 100 512 kv 0 small\n"
                "segment_free 1 0 - 1 0 0 2048 other -1 small\n"
                "mark 1 0 - - 2 200 1234567 - -1 -\n"
                "mark 2 0 - - 3 300 400 - -1 -\n",
                "# load -1 0 1000 0 0 0 0 0 1000 24 3072 0 4096 1000 4096 1 0 4096 "
                "weights:1000:large+4096 0\n"
                "0 1 1000 100 0 0 0 0 1100 436 4608 0 6144 1400 6144 2 100 1948 "
                "kv:layer0:100:small+2048 1.500\n"
                "1 2 1000 200 0 0 0 0 1200 848 10240 0 12288 1300 14336 2 200 6044 "
                "kv:layer0:200:block+8192,kv:layer0:100:small-2048 1.235\n"
                "2 3 1000 200 0 0 0 0 1200 848 10240 0 12288 1200 12288 2 300 0 - 0.000\n");
}

/* Every tag has its column; cached is what lies in segments without a block. */
static void test_tags(void **state) {
    (void)state;
    assert_rows("segment_alloc -1 0 0 0 0 1 4096 weights -1 arena\n"
                "alloc -1 0 0 0 0 1 8 weights -1 arena\n"
                "alloc -1 0 1 0 8 2 8 kv -1 arena\n"
                "alloc -1 0 2 0 16 3 8 activations -1 arena\n"
                "alloc -1 0 3 0 24 4 8 logits -1 arena\n"
                "alloc -1 0 4 0 32 5 8 workspace -1 arena\n"
                "alloc -1 0 5 0 40 6 8 other -1 arena\n"
                "segment_alloc -1 0 6 1 0 7 256 other 3 region\n"
                "mark -1 0 - - 0 0 0 - -1 -\n",
                "# load -1 0 1 2 3 4 5 6 21 27 4048 256 4352 21 4352 2 0 4350 "
                "weights:1:arena+4096,other:layer3:7:region+256 0\n");
}

/* Peaks count from the value at the row before. */
static void test_peaks(void **state) {
    (void)state;
    assert_rows("segment_alloc -1 0 0 0 0 50 1024 other -1 direct\n"
                "alloc -1 0 0 0 0 50 1024 other -1 direct\n"
                "mark -1 0 - - 0 0 0 - -1 -\n"
                "free 0 0 0 0 0 50 1024 other -1 direct\n"
                "segment_free 0 0 - 0 0 0 1024 other -1 direct\n"
                "mark 0 0 - - 1 0 0 - -1 -\n"
                "mark 1 0 - - 2 0 0 - -1 -\n",
                "# load -1 0 0 0 0 0 0 50 50 974 0 0 1024 50 1024 1 0 1024 "
                "other:50:direct+1024 0\n"
                "0 1 0 0 0 0 0 0 0 0 0 0 0 50 1024 0 0 -1024 other:50:direct-1024 0\n"
                "1 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 - 0\n");
}

/* ---- causes ---------------------------------------------------------------------------------- */

static void test_came_and_went(void **state) {
    (void)state;
    assert_cause("segment_alloc -1 0 0 0 0 9 1024 kv 1 direct\n"
                 "segment_free -1 0 0 0 0 9 1024 kv 1 direct\n"
                 "segment_alloc -1 0 0 1 0 9 512 logits -1 direct\n" MARK(-1),
                 "512 logits:9:direct+512");
    assert_cause("segment_alloc -1 0 0 0 0 9 1024 kv 1 direct\n"
                 "segment_free -1 0 0 0 0 9 1024 kv 1 direct\n" MARK(-1),
                 "0 -");
}

/* A segment goes under the name of the request that made it, whoever drives it out. */
static void test_goes_by_its_maker(void **state) {
    (void)state;
    assert_cause("segment_alloc -1 0 0 0 0 9 1024 kv 1 direct\n" MARK(
                     -1) "segment_free 0 0 7 0 0 777 1024 logits -1 direct\n"
                         "segment_alloc 0 0 7 1 0 777 1024 logits -1 direct\n" MARK(0),
                 "0 kv:layer1:9:direct-1024,logits:777:direct+1024");
}

/* kv grows without reserved: no bump; reserved falls while kv grows: below zero. */
static void test_bumps(void **state) {
    (void)state;
#define TWO                                                                                        \
    "segment_alloc -1 0 0 0 0 9 4096 kv 1 large\nsegment_alloc -1 0 0 1 0 10 512 other -1 large\n"
    assert_cause(TWO MARK(-1) "alloc 0 0 1 0 0 300 512 kv 1 large\n" MARK(0), "0 -");
    assert_cause(TWO MARK(-1) "alloc 0 0 1 0 0 300 512 kv 1 large\n"
                              "segment_free 0 0 - 1 0 0 512 other -1 large\n" MARK(0),
                 "-812 other:10:large-512");
    assert_cause(TWO "alloc -1 0 1 0 0 4000 4096 kv 1 large\n" MARK(
                     -1) "free 0 0 1 0 0 4000 4096 kv 1 large\n"
                         "segment_alloc 0 0 2 2 0 11 256 kv -1 large\n" MARK(0),
                 "4256 kv:11:large+256");
}

static void test_equal_ones(void **state) {
    (void)state;
    assert_cause("segment_alloc -1 0 0 0 0 9 1024 kv 1 direct\n"
                 "segment_alloc -1 0 1 1 0 9 1024 kv 2 direct\n"
                 "segment_alloc -1 0 2 2 0 9 1024 kv 1 direct\n"
                 "segment_alloc -1 0 3 3 0 9 2048 kv 1 direct\n"
                 "segment_alloc -1 0 4 4 0 8 1024 kv 1 direct\n"
                 "segment_alloc -1 0 5 5 0 9 1024 kv 1 block\n"
                 "segment_alloc -1 0 6 6 0 9 1024 logits 1 direct\n"
                 "segment_alloc -1 0 7 7 0 9 1024 kv 1 direct\n" MARK(-1),
                 "9216 kv:layer1:9:direct+1024x3,kv:layer2:9:direct+1024,kv:layer1:9:direct+2048,"
                 "kv:layer1:8:direct+1024,kv:layer1:9:block+1024,logits:layer1:9:direct+1024");
    assert_cause("segment_alloc -1 0 0 0 0 9 1024 kv 1 direct\n"
                 "segment_alloc -1 0 1 1 0 9 1024 kv 1 direct\n" MARK(
                     -1) "segment_free 0 0 - 0 0 0 1024 other -1 direct\n"
                         "segment_alloc 0 0 2 2 0 9 1024 kv 1 direct\n"
                         "segment_free 0 0 - 1 0 0 1024 other -1 direct\n" MARK(0),
                 "-1024 kv:layer1:9:direct-1024x2,kv:layer1:9:direct+1024");
}

/* n different segments, each twice. */
static void assert_cut(int n, const char *end) {
    char lines[4096], expected[1200];
    size_t at = 0, to = (size_t)sprintf(expected, "%d ", n * 2048);
    for (int i = 0; i < 2 * n; i++)
        at += (size_t)sprintf(lines + at, "segment_alloc -1 0 %d %d 0 %d 1024 other -1 large\n", i,
                              i, i % n);
    sprintf(lines + at, MARK(-1));
    for (int i = 0; i < n && i < MT_CAUSE_MAX; i++)
        to += (size_t)sprintf(expected + to, "%sother:%d:large+1024x2", i == 0 ? "" : ",", i);
    strcpy(expected + to, end);
    assert_cause(lines, expected);
}

static void test_cut(void **state) {
    (void)state;
    assert_cut(7, "");
    assert_cut(8, "");
    assert_cut(9, ",...+1");
    assert_cut(20, ",...+12");
}

/* The longest words there are still fit a row. */
static void test_longest(void **state) {
    (void)state;
    char lines[4096];
    size_t at = 0;
    for (int i = 0; i < 9; i++)
        at +=
            (size_t)sprintf(lines + at,
                            "segment_alloc -1 0 %d %d 0 1844674407370955161%d 1000000000000000000 "
                            "activations 2147483647 direct\n",
                            i, i, i % 6);
    sprintf(lines + at, MARK(-1));
    char *text = table_of(store(lines), false);
    assert_non_null(strstr(text, ":18446744073709551615:direct+1000000000000000000 0\n"));
    assert_non_null(strstr(text, "10:direct+1000000000000000000x2,"));
    free(text);
}

/* ---- growable segments ----------------------------------------------------------------------- */

#define GROW(step, id, bytes, layer)                                                               \
    "segment_map " #step " 0 " #id " 0 0 " #id "0 " #bytes " kv " #layer " large\n"
#define SHRINK(step, bytes) "segment_unmap " #step " 0 - 0 0 0 " #bytes " other -1 large\n"

static void test_mapped(void **state) {
    (void)state;
    assert_rows(GROW(-1, 1, 2048, 0) MARK(-1) GROW(0, 2, 1024, 3) MARK(0) SHRINK(1, 3072) MARK(1),
                "# load -1 1 0 0 0 0 0 0 0 0 0 2048 2048 0 2048 1 100 2048 "
                "kv:layer0:10:large+2048 0\n"
                "0 1 0 0 0 0 0 0 0 0 0 3072 3072 0 3072 1 100 1024 kv:layer3:20:large+1024 0\n"
                "1 1 0 0 0 0 0 0 0 0 0 0 0 0 3072 0 100 -3072 "
                "kv:layer3:20:large-1024,kv:layer0:10:large-2048 0\n");
}

/* Pages that came within the step go first, without a trace; the rest counts as gone. */
static void test_unmapped_within(void **state) {
    (void)state;
    assert_cause(GROW(-1, 1, 4096, 0) MARK(-1) GROW(0, 2, 1024, 3) SHRINK(0, 512) MARK(0),
                 "512 kv:layer3:20:large+512");
    assert_cause(GROW(-1, 1, 4096, 0) MARK(-1) GROW(0, 2, 1024, 3) SHRINK(0, 1024) MARK(0), "0 -");
    assert_cause(GROW(-1, 1, 4096, 0) MARK(-1) GROW(0, 2, 1024, 3) GROW(0, 3, 1024, 3)
                     SHRINK(0, 1536) MARK(0),
                 "512 kv:layer3:20:large+512");
    assert_cause(GROW(-1, 1, 4096, 0) MARK(-1) GROW(0, 2, 1024, 3) SHRINK(0, 3072) MARK(0),
                 "-2048 kv:layer0:10:large-2048");
    assert_cause(GROW(-1, 1, 4096, 0) MARK(-1) SHRINK(0, 1024) GROW(0, 2, 1024, 3) MARK(0),
                 "0 kv:layer0:10:large-1024,kv:layer3:20:large+1024");
    assert_cause(GROW(-1, 1, 4096, 0) MARK(-1) SHRINK(0, 1024) SHRINK(0, 1024) MARK(0),
                 "-2048 kv:layer0:10:large-1024x2");
}

/* All pages go and others come, under the same number and in a slot that was given away between. */
static void test_mapped_again(void **state) {
    (void)state;
    assert_cause(GROW(-1, 1, 4096, 0) MARK(-1) SHRINK(
                     0, 4096) "segment_alloc 0 0 5 1 0 55 1024 logits -1 large\n" GROW(0, 2, 512, 1)
                     MARK(0),
                 "-2560 kv:layer0:10:large-4096,logits:55:large+1024,kv:layer1:20:large+512");
}

/* ---- streams that are wrong ------------------------------------------------------------------ */

static mt_status feed(const mt_event *list, int n, const mt_ledger *ledger, mt_error *err) {
    mt_table *t;
    assert_int_equal(mt_table_open(&t, ledger, NULL, NULL, err), MT_OK);
    mt_listener listener = mt_table_listener(t);
    for (int i = 0; i < n; i++)
        listener.on_event(listener.context, &list[i]);
    mt_status status = mt_table_status(t, err);
    mt_table_close(t);
    return status;
}

static void test_wrong_streams(void **state) {
    (void)state;
    const mt_event mark = { .kind = MT_EV_MARK, .layer = -1 };
    const mt_event taken[] = { { .kind = MT_EV_SEGMENT_ALLOC, .rounded = 10 },
                               { .kind = MT_EV_SEGMENT_FREE, .rounded = 11, .segment = 3 },
                               mark };
    mt_error err = { MT_OK, "" };
    mt_ledger empty, broken;
    mt_ledger_init(&empty);
    mt_ledger_init(&broken);
    assert_int_equal(feed(taken, 1, NULL, &err), MT_OK);
    assert_int_equal(feed(taken, 2, NULL, &err), MT_CHECK);
    assert_int_equal(feed(taken, 2, &empty, &err), MT_CHECK);
    assert_non_null(strstr(err.text, "1 bytes more than it took"));
    assert_int_equal(feed(&mark, 1, &empty, &err), MT_OK);
    const mt_event sum[] = { taken[0], mark };
    assert_int_equal(feed(sum, 2, &empty, &err), MT_CHECK);
    assert_non_null(strstr(err.text, "reserved changed by 0 bytes"));
    broken.split = 1;
    assert_int_equal(feed(&mark, 1, &broken, &err), MT_CHECK);
    assert_non_null(strstr(err.text, "identity broken"));
    mt_table_close(NULL);
}

static void count_row(void *context, const mt_row *row) {
    (void)row;
    ++*(int *)context;
}

/* After the first failure no row is called, and the first failure stays. */
static void test_no_rows_after_failure(void **state) {
    (void)state;
    int rows = 0;
    mt_table *t;
    mt_error err;
    mt_ledger ledger;
    const mt_event mark = { .kind = MT_EV_MARK, .layer = -1 };
    mt_ledger_init(&ledger);
    assert_int_equal(mt_table_open(&t, &ledger, count_row, &rows, &err), MT_OK);
    mt_listener listener = mt_table_listener(t);
    listener.on_event(listener.context, &mark);
    ledger.rounding = 5;
    listener.on_event(listener.context, &mark);
    ledger.rounding = 0;
    listener.on_event(listener.context, &mark);
    assert_int_equal(rows, 1);
    assert_int_equal(mt_table_status(t, &err), MT_CHECK);
    assert_non_null(strstr(err.text, "rounding 5"));
    mt_table_close(t);
}

/* ---- many ------------------------------------------------------------------------------------ */

static void keep_row(void *context, const mt_row *row) {
    *(mt_row *)context = *row;
}

/* Steps of 200,000 segment events, different ones and equal ones: a quadratic join would not
 * end. */
static void test_many_segments(void **state) {
    (void)state;
    const uint32_t n = getenv("MEMTRACE_QUICK") != NULL ? 20000 : 200000;
    static mt_row row;
    mt_table *t;
    mt_error err;
    clock_t start = clock();
    assert_int_equal(mt_table_open(&t, NULL, keep_row, &row, &err), MT_OK);
    mt_listener listener = mt_table_listener(t);
    const mt_event mark = { .kind = MT_EV_MARK, .layer = -1 };
    for (int different = 0; different < 2; different++) {
        for (int kind = MT_EV_SEGMENT_ALLOC; kind <= MT_EV_SEGMENT_FREE; kind++) {
            for (uint32_t i = 0; i < n; i++) {
                mt_event e = { .kind = (uint8_t)kind,
                               .slot = i,
                               .segment = i,
                               .layer = -1,
                               .rounded = 512,
                               .requested = different ? i : 7 };
                listener.on_event(listener.context, &e);
            }
            listener.on_event(listener.context, &mark);
            int64_t sum = kind == MT_EV_SEGMENT_ALLOC ? 512 * (int64_t)n : -512 * (int64_t)n;
            assert_int_equal(row.bump, sum);
            char end[40];
            snprintf(end, sizeof end, different ? ",...+%" PRIu32 : "512x%" PRIu32,
                     different ? n - MT_CAUSE_MAX : n);
            assert_string_equal(row.cause + strlen(row.cause) - strlen(end), end);
        }
    }
    assert_int_equal(mt_table_status(t, &err), MT_OK);
    mt_table_close(t);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
}

/* ---- a real allocator ------------------------------------------------------------------------ */

/* Random requests and frees in twenty steps, with trims and a refusal. */
static void churn(mt_alloc *a, uint64_t seed) {
    static mt_mem live[100];
    mt_error err;
    memset(live, 0, sizeof live);
    for (int i = 0; i < 4000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        mt_mem *m = &live[(seed >> 33) % 100];
        mt_request q = { 1 + (seed >> 40) % (i % 7 == 0 ? 30000000 : 100000),
                         (mt_tag)((seed >> 20) % MT_TAGS), (int32_t)(seed >> 25 & 15) - 1,
                         (uint32_t)(seed >> 30) & 1 };
        if (m->handle != 0)
            assert_int_equal(mt_alloc_put(a, m, &err), MT_OK);
        else if (mt_alloc_get(a, &q, m, &err) != MT_OK)
            assert_int_equal(err.status, MT_NO_MEMORY);
        if (i % 500 == 333)
            mt_alloc_trim(a);
        if (i % 200 == 199)
            mt_alloc_mark(a, (uint64_t)i, 8 * (uint64_t)i, 0);
    }
}

static void live_equals_stored(const char *policy, const char *name) {
    char *live = NULL;
    size_t size;
    mt_error err;
    mt_source *source;
    mt_alloc *a;
    mt_trace *trace;
    mt_table *t;
    FILE *out = open_memstream(&live, &size);
    assert_int_equal(mt_source_sim(&source, 100 * MT_MIB, 4096, &err), MT_OK);
    assert_int_equal(mt_alloc_open(&a, source, policy, &err), MT_OK);
    assert_int_equal(mt_trace_create(&trace, temp_path(name), false, &err), MT_OK);
    assert_int_equal(mt_table_open(&t, mt_alloc_ledger(a), print_row, out, &err), MT_OK);
    mt_alloc_listen(a, mt_trace_listener(trace));
    mt_alloc_listen(a, mt_table_listener(t));
    churn(a, strlen(policy));
    if (mt_table_status(t, &err) != MT_OK)
        fail_msg("%s: %s", policy, err.text);
    assert_int_equal(mt_trace_commit(trace, NULL, &err), MT_OK);
    fclose(out);
    char *stored = table_of(temp_path(name), false);
    assert_string_equal(live, stored);
    assert_non_null(strchr(live, ','));
    free(live);
    free(stored);
    mt_table_close(t);
    mt_alloc_close(a);
    source->close(source);
}

static void test_live_equals_stored(void **state) {
    (void)state;
    static const char *const policies[] = { "torch", "torch,expandable_segments:True", "block:2MiB",
                                            "direct" };
    static const char *const names[] = { "live.trace", "live.gz", "live.zst" };
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            live_equals_stored(policies[i], names[j]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_came_and_went),
        cmocka_unit_test(test_goes_by_its_maker),
        cmocka_unit_test(test_bumps),
        cmocka_unit_test(test_equal_ones),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_unmapped_within),
        cmocka_unit_test(test_mapped_again),
        cmocka_unit_test(test_wrong_streams),
        cmocka_unit_test(test_no_rows_after_failure),
        cmocka_unit_test(test_many_segments),
        cmocka_unit_test(test_live_equals_stored),
    };
    return cmocka_run_group_tests_name("table", tests, temp_setup, temp_teardown);
}
