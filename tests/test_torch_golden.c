/* test_torch_golden.c - the torch policy against recordings of PyTorch itself: scripted traces, row
 * by row, and whole decodes of GPT-2, counters at every token; and recordings that are broken.
 *
 * tests/recordings.h says where recordings lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "alloc/torch/torch.h"
#include "base/size.h"
#include "traces/check.h"
#include "traces/replay.h"
#include "tests/recordings.h"
#include "tests/temp_files.h"

static bool quick(void) {
    return getenv("MEMTRACE_QUICK") != NULL;
}

/* ---- scripted traces ------------------------------------------------------------------------- */

typedef struct totals {
    mt_check_counts counts;
    int files;
} totals;

static void check_recording(const char *path, void *context) {
    totals *t = context;
    mt_error err = { MT_OK, "" };
    if (mt_check(path, NULL, &t->counts, NULL, NULL, &err) != MT_OK)
        fail_msg("%s", err.text);
    t->files++;
}

static void test_traces(void **state) {
    (void)state;
    totals t = { 0 };
    assert_true(for_recordings("torch-*/*.tsv.gz", "{torch-alloc*,reserve-*}/*.tsv.gz", 9,
                               check_recording, &t) > 100);
    print_message("%d recordings agree: %llu operations, %llu blocks, %llu statistics, "
                  "%llu events of history\n",
                  t.files, (unsigned long long)t.counts.operations,
                  (unsigned long long)t.counts.blocks, (unsigned long long)t.counts.statistics,
                  (unsigned long long)t.counts.history);
    assert_true(t.counts.operations > 0 && t.counts.blocks > 0);
    assert_true(t.counts.statistics > 0 && t.counts.history > 0);
}

/* ---- whole decodes --------------------------------------------------------------------------- */

static void check_schedules(const char *begins, int step) {
    char ours[64], shared[64];
    totals t = { 0 };
    snprintf(ours, sizeof ours, "gpt2-*/%s*.txt.gz", begins);
    snprintf(shared, sizeof shared, "hf-gpt2/%s*.txt.gz", begins);
    assert_true(for_recordings(ours, shared, step, check_recording, &t) > 0);
    print_message("%d recordings %s agree: %llu operations, %llu driver calls, %llu places, "
                  "%llu counters\n",
                  t.files, begins, (unsigned long long)t.counts.operations,
                  (unsigned long long)t.counts.calls, (unsigned long long)t.counts.places,
                  (unsigned long long)t.counts.statistics);
    assert_true(t.counts.operations > 0 && t.counts.calls > 0 && t.counts.statistics > 0);
    assert_true((t.counts.places > 0) == (strcmp(begins, "placed-") == 0));
}

static void test_placed(void **state) {
    (void)state;
    check_schedules("placed-", 3);
}

static void test_schedules(void **state) {
    (void)state;
    check_schedules("schedule-", 5);
}

/* The ledger says the same as PyTorch's statistics, in its own words. */
static void compare_ledger(mt_alloc *a) {
    const mt_torch_stat *s = mt_alloc_torch_stats(a)->pool[0];
    const mt_ledger *l = mt_alloc_ledger(a);
    assert_int_equal(l->requested.current, s[MT_TORCH_requested_bytes].current);
    assert_int_equal(l->requested.current + l->rounding, s[MT_TORCH_allocated_bytes].current);
    assert_int_equal(l->reserved.current, s[MT_TORCH_reserved_bytes].current);
    if (strstr(mt_alloc_policy(a), "expandable_segments:True") == NULL)
        assert_int_equal(l->split, s[MT_TORCH_inactive_split_bytes].current);
}

static void ledger_of(const char *path, void *context) {
    mt_reader *in;
    mt_item item;
    mt_source *source;
    mt_alloc *a = NULL;
    mt_replay replay;
    mt_error err;
    int *marks = context;
    assert_int_equal(mt_reader_open(&in, path, &err), MT_OK);
    assert_int_equal(mt_source_sim(&source, 48 * MT_GIB, 2 * MT_MIB, &err), MT_OK);
    do {
        assert_int_equal(mt_reader_next(in, &item, &err), MT_OK);
        if (a == NULL && item.kind != MT_ITEM_NOTE) {
            assert_int_equal(mt_alloc_open(&a, source, in->settings.policy, &err), MT_OK);
            assert_int_equal(mt_replay_open(&replay, &a, 1, &err), MT_OK);
        }
        if (a != NULL)
            assert_int_equal(mt_replay_item(&replay, &item, &err), MT_OK);
        if (item.kind == MT_ITEM_MARK) {
            compare_ledger(a);
            ++*marks;
        }
    } while (item.kind != MT_ITEM_END);
    mt_replay_close(&replay);
    mt_alloc_close(a);
    assert_int_equal(source->used, 0);
    source->close(source);
    mt_reader_close(in);
}

static void test_ledger(void **state) {
    (void)state;
    int marks = 0;
    for_recordings("gpt2-*/schedule-*.txt.gz", "hf-gpt2/schedule-*.txt.gz", 5, ledger_of, &marks);
    assert_true(marks > 0);
}

/* ---- broken recordings ----------------------------------------------------------------------- */

#define HEADER                                                                                     \
    "# torch 2.15.0+cu132  simulated device\n"                                                     \
    "# trace example seed 25\n"                                                                    \
    "# options -\n"                                                                                \
    "# device_bytes 85899345920\n"                                                                 \
    "# fraction -\n"                                                                               \
    "# addresses up\n"                                                                             \
    "# op\tid\tbytes\tstream\tsegment\toffset\tblock\trequested\tallocated\tactive\treserved\t"    \
    "inactive_split\tsegments\tdriver\n"

/* The first operation is line 8. */
static const char recording[] = HEADER
    "a\t0\t11534336\t0\t0\t0\t12582912\t11534336\t12582912\t12582912\t12582912\t0\t1\tM12582912\n"
    "f\t0\t-\t-\t-\t-\t-\t0\t0\t0\t12582912\t0\t1\t-\n"
    "a\t1\t10485760\t0\t0\t0\t10485760\t10485760\t10485760\t10485760\t12582912\t2097152\t1\t-\n"
    "snap\t2\n"
    "@\t0\t0\t10485760\t10485760\tactive_allocated\tlarge\t0\n"
    "@\t0\t10485760\t2097152\t11534336\tinactive\tlarge\t0\n"
    "rs\t1\t-\t2\t-\t-\t-\t10485760\t10485760\t10485760\t12582912\t2097152\t1\t-\n"
    "hold\t-\t-\t-\t-\t-\t-\t10485760\t10485760\t10485760\t12582912\t2097152\t1\t-\n"
    "f\t1\t-\t-\t-\t-\t-\t10485760\t0\t10485760\t12582912\t2097152\t1\t-\n"
    "go\t-\t-\t-\t-\t-\t-\t10485760\t0\t10485760\t12582912\t2097152\t1\t-\n"
    "ec\t-\t-\t-\t-\t-\t-\t0\t0\t0\t0\t0\t0\tF0\n"
    "! allocated_bytes.all.allocated 23068672\n"
    "! num_device_alloc 1\n"
    "! num_device_free 1\n"
    "! some_other.statistic 5\n"
    "~ segment_alloc 0 0 12582912\n"
    "~ alloc 0 0 11534336\n"
    "~ free_requested 0 0 11534336\n"
    "~ free_completed 0 0 11534336\n"
    "~ alloc 0 0 10485760\n"
    "~ free_requested 0 0 10485760\n"
    "~ free_completed 0 0 10485760\n"
    "~ segment_free 0 0 12582912\n";

static mt_status check_text(const char *text, size_t n, mt_error *err) {
    mt_check_counts counts = { 0 };
    *err = (mt_error){ MT_OK, "" };
    return mt_check(temp_write("recording.tsv", text, n), NULL, &counts, NULL, NULL, err);
}

static void test_recording(void **state) {
    (void)state;
    mt_error err;
    if (check_text(recording, strlen(recording), &err) != MT_OK)
        fail_msg("%s", err.text);
}

/* The recording with the first occurrence of some text replaced. */
static void broken(const char *from, const char *to, mt_status expected, int line) {
    char text[4096], place[32];
    mt_error err;
    const char *at = strstr(recording, from);
    assert_non_null(at);
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - recording), recording, to,
                     at + strlen(from));
    mt_status status = check_text(text, (size_t)n, &err);
    if (status != expected)
        fail_msg("\"%s\" as \"%s\": status %d, %s", from, to, status, err.text);
    assert_int_equal(err.status, expected);
    snprintf(place, sizeof place, "recording.tsv:%d: ", line);
    if (line > 0 && strstr(err.text, place) == NULL)
        fail_msg("\"%s\" as \"%s\": expected line %d in \"%s\"", from, to, line, err.text);
}

/* One number wrong anywhere is seen, and where. */
static void test_changed(void **state) {
    (void)state;
    broken("11534336\t0\t0\t0\t", "11534336\t0\t1\t0\t", MT_CHECK, 8);
    broken("0\t12582912\t11534336", "512\t12582912\t11534336", MT_CHECK, 8);
    broken("12582912\t11534336\t", "12582400\t11534336\t", MT_CHECK, 8);
    broken("\t11534336\t12582912\t", "\t11534337\t12582912\t", MT_CHECK, 8);
    broken("M12582912", "M12582911", MT_CHECK, 8);
    broken("M12582912", "-", MT_CHECK, 8);
    broken("\t2097152\t1\t-\nsnap", "\t2097152\t2\t-\nsnap", MT_CHECK, 10);
    broken("a\t1\t10485760\t0\t", "a\t1\t10485760\t3\t", MT_CHECK, 10);
    broken("10485760\tactive_allocated", "10485761\tactive_allocated", MT_CHECK, 12);
    broken("active_allocated", "active_pending_free", MT_CHECK, 12);
    broken("inactive\tlarge", "inactive\tsmall", MT_CHECK, 13);
    broken("11534336\tinactive", "0\tinactive", MT_CHECK, 13);
    broken("snap\t2", "snap\t1", MT_CHECK, 12);
    broken("snap\t2", "snap\t3", MT_BAD, 14);
    broken("snap\t2", "snap\t99999999999", MT_BAD, 14);
    broken("\t0\tF0", "\t0\tF1", MT_CHECK, 18);
    broken("allocated 23068672", "allocated 23068671", MT_CHECK, 19);
    broken("num_device_free 1", "num_device_free 0", MT_CHECK, 21);
    broken("~ alloc 0 0 11534336", "~ alloc 0 0 11534335", MT_CHECK, 24);
    broken("~ segment_free 0 0 12582912\n", "~ segment_free 0 0 12582912\n~ alloc 0 0 1\n",
           MT_CHECK, 31);
}

/* Other options give another run. */
static void test_changed_header(void **state) {
    (void)state;
    broken("# options -", "# options expandable_segments:True", MT_CHECK, 8);
    broken("# fraction -", "# fraction 0.0001", MT_CHECK, 8);
    broken("85899345920", "2097152", MT_CHECK, 8);
    broken("# options -", "# options max_split_size_mb:1", MT_BAD, 0);
    broken("# fraction -", "# fraction 2", MT_BAD, 0);
    broken("# torch 2.15.0", "# torch two", MT_BAD, 0);
    broken("addresses up", "addresses sideways", MT_BAD, 0);
    broken("85899345920", "many", MT_BAD, 4);
    broken("85899345920", "99999999999999999999", MT_BAD, 4);
    broken("85899345920", "0", MT_BAD, 4);
    broken("# device_bytes", "# bytes", MT_BAD, 8);
}

static void test_not_operations(void **state) {
    (void)state;
    broken("a\t0\t", "b\t0\t", MT_BAD, 8);
    broken("a\t0\t", "\t0\t", MT_BAD, 8);
    broken("a\t0\t", "a\tzero\t", MT_BAD, 8);
    broken("a\t0\t", "a\t-1\t", MT_BAD, 8);
    broken("a\t0\t", "a\t99999999999\t", MT_BAD, 9);
    broken("a\t0\t11534336", "a\t0\t0", MT_BAD, 8);
    broken("a\t0\t11534336", "a\t0\tlots", MT_BAD, 8);
    broken("a\t0\t11534336", "a\t0\t18446744073709551615", MT_CHECK, 8);
    broken("a\t0\t11534336", "a\t0\t18446744073709551616", MT_BAD, 8);
    broken("a\t0\t11534336\t0", "a\t0\t11534336\t4294967296", MT_BAD, 8);
    broken("f\t0\t", "f\t7\t", MT_BAD, 9);
    broken("f\t1\t", "f\t0\t", MT_BAD, 16);
    broken("rs\t1\t-\t2", "rs\t0\t-\t2", MT_BAD, 14);
    broken("rs\t1\t-\t2", "rs\t1\t-\t-", MT_BAD, 14);
    broken("snap\t2", "snap\ttwo", MT_BAD, 11);
    broken("snap\t2", "snap", MT_BAD, 11);
    broken("snap\t2\n", "", MT_BAD, 11);
    broken("! num_device_alloc 1", "! num_device_alloc", MT_BAD, 20);
    broken("! num_device_alloc 1", "!", MT_BAD, 20);
    broken("~ alloc 0 0 11534336", "~ ", MT_BAD, 24);
    broken("f\t0\t-\t-", "f\t0\t-", MT_BAD, 9);
    broken("f\t0\t-\t-", "f\t0\t-\t-\t-", MT_BAD, 9);
    broken("f\t0\t-\t-", "\n", MT_BAD, 10);
}

/* Files that are no recordings at all. */
static void test_garbage(void **state) {
    (void)state;
    static const char *const texts[] = { "",           "\n",      "\n\n\n",
                                         "#\n",        "# \n",    "garbage\n",
                                         "{\"a\": 1}", "a\t0\n",  "# options\n# device_bytes\n",
                                         HEADER,       "\x80\x04" };
    char bytes[5000];
    mt_error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(check_text(texts[i], strlen(texts[i]), &err), MT_BAD);
    uint64_t seed = 99;
    for (int k = 0; k < 50; k++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1;
            bytes[i] = (char)(seed >> 40);
        }
        assert_int_equal(check_text(bytes, sizeof bytes, &err), MT_BAD);
    }
    memset(bytes, 'a', sizeof bytes);
    assert_int_equal(check_text(bytes, sizeof bytes, &err), MT_BAD);
    mt_check_counts counts = { 0 };
    assert_int_equal(mt_check(temp_path("missing.tsv"), NULL, &counts, NULL, NULL, &err), MT_BAD);
}

/* Longer than any line may be. */
static void test_long_line(void **state) {
    (void)state;
    const size_t header = strlen(HEADER), n = header + 200000;
    char *text = malloc(n);
    mt_error err;
    assert_non_null(text);
    memcpy(text, HEADER, header);
    memset(text + header, '\t', n - header);
    assert_int_equal(check_text(text, n, &err), MT_BAD);
    assert_non_null(strstr(err.text, "recording.tsv:8: "));
    free(text);
}

/* A recording cut anywhere is refused if the cut is inside a line. Between two lines nothing tells
 * that there were more. */
static void test_truncated(void **state) {
    (void)state;
    mt_error err;
    const size_t first = strlen(HEADER);
    for (size_t n = 0; n < strlen(recording); n++) {
        mt_status status = check_text(recording, n, &err);
        assert_true(status == MT_OK || status == MT_CHECK || status == MT_BAD);
        bool between = n == 0 || recording[n - 1] == '\n' || recording[n] == '\n';
        if (n <= first)
            assert_int_equal(status, MT_BAD);
        else if (!between && recording[n - 1] != ' ' && strncmp(recording + n, "-\n", 2) != 0)
            assert_int_not_equal(status, MT_OK);
    }
}

/* History told while the run goes on, far apart: ours has moved in memory meanwhile, more than
 * once. */
static void test_history_far_apart(void **state) {
    (void)state;
    enum { PAIRS = 2000 };
    char *text = malloc(PAIRS * 256), *at = text;
    mt_error err;
    assert_non_null(text);
    at += sprintf(at, "%s", HEADER);
    for (int i = 0; i < PAIRS; i++) {
        at += sprintf(at,
                      "a\t0\t512\t0\t0\t0\t512\t512\t512\t512\t2097152\t2096640\t1\t%s\n"
                      "f\t0\t-\t-\t-\t-\t-\t0\t0\t0\t2097152\t0\t1\t-\n",
                      i == 0 ? "M2097152" : "-");
        if (i == 0)
            at += sprintf(at, "~ segment_alloc 0 0 2097152\n~ alloc 0 0 512\n");
    }
    at += sprintf(at, "~ free_requested 0 0 512\n~ free_completed 0 0 512\n~ alloc 0 0 512\n");
    if (check_text(text, (size_t)(at - text), &err) != MT_OK)
        fail_msg("%s", err.text);
    at += sprintf(at, "~ free_requested 0 0 1\n");
    assert_int_equal(check_text(text, (size_t)(at - text), &err), MT_CHECK);
    free(text);
}

/* Memory is for what is live, whatever its name. */
static void test_huge_id(void **state) {
    (void)state;
    static const char text[] =
        HEADER "a\t18446744073709551614\t512\t0\t0\t0\t512\t512\t512\t512\t2097152\t2096640\t"
               "1\tM2097152\n"
               "f\t18446744073709551614\t-\t-\t-\t-\t-\t0\t0\t0\t2097152\t0\t1\t-\n";
    mt_error err;
    if (check_text(text, strlen(text), &err) != MT_OK)
        fail_msg("%s", err.text);
}

static void write_gzip(const char *path, const char *text, size_t n) {
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

/* A compressed recording, and what is left of it when its end is missing. */
static void test_truncated_gzip(void **state) {
    (void)state;
    const char *path = temp_path("recording.tsv.gz");
    mt_check_counts counts = { 0 };
    mt_error err = { MT_OK, "" };
    char *data;
    write_gzip(path, recording, strlen(recording));
    assert_int_equal(mt_check(path, NULL, &counts, NULL, NULL, &err), MT_OK);
    assert_int_equal(counts.operations, 8);
    assert_int_equal(counts.blocks, 2);
    assert_int_equal(counts.statistics, 3);
    assert_int_equal(counts.history, 8);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    data = malloc(4096);
    size_t n = fread(data, 1, 4096, f);
    fclose(f);
    assert_true(n > 100 && n < 4096);
    for (size_t k = 2; k < n; k += 7) {
        counts = (mt_check_counts){ 0 };
        assert_int_equal(
            mt_check(temp_write("cut.tsv.gz", data, k), NULL, &counts, NULL, NULL, &err), MT_BAD);
    }
    free(data);
}

/* Any single byte may be wrong: never a crash, and what is not refused is a difference that does
 * not matter, such as one in a comment. */
static void test_any_byte(void **state) {
    (void)state;
    static const char others[] = "\n\t -0a#!~@";
    char text[sizeof recording];
    mt_error err;
    const size_t n = strlen(recording);
    memcpy(text, recording, sizeof text);
    for (size_t i = 0; i < n; i += quick() ? 11 : 1) {
        const char was = text[i];
        for (size_t k = 0; k < sizeof others - 1 + 2; k++) {
            text[i] = k < sizeof others - 1 ? others[k] : (char)(was ^ (k % 2 ? 0x80 : 1));
            mt_status status = check_text(text, n, &err);
            assert_true(status == MT_OK || status == MT_CHECK || status == MT_BAD);
            assert_true((status == MT_OK) == (err.status == MT_OK));
        }
        text[i] = was;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traces),         cmocka_unit_test(test_placed),
        cmocka_unit_test(test_schedules),      cmocka_unit_test(test_ledger),
        cmocka_unit_test(test_recording),      cmocka_unit_test(test_changed),
        cmocka_unit_test(test_changed_header), cmocka_unit_test(test_not_operations),
        cmocka_unit_test(test_garbage),        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_truncated),      cmocka_unit_test(test_truncated_gzip),
        cmocka_unit_test(test_any_byte),       cmocka_unit_test(test_history_far_apart),
        cmocka_unit_test(test_huge_id),
    };
    return cmocka_run_group_tests_name("torch golden", tests, temp_setup, temp_teardown);
}
