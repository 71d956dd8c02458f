/* test_summary.c - what a run says to a person, and to a program as JSON. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/alloc.h"
#include "reports/json.h"
#include "reports/summary.h"

/* ---- rows and ledgers ------------------------------------------------------------------------ */

static mt_row row_of(int64_t step, uint64_t ctx, uint64_t kv, int64_t bump, uint64_t nanoseconds,
                     const char *cause) {
    mt_row row = { .step = step, .ctx = ctx, .bump = bump, .nanoseconds = nanoseconds };
    row.tag[MT_KV] = kv;
    snprintf(row.cause, sizeof row.cause, "%s", cause);
    return row;
}

/* A ledger whose parts add up. */
static mt_ledger ledger_of(void) {
    mt_ledger l;
    mt_ledger_init(&l);
    l.tag[MT_WEIGHTS] = (mt_count){ 497759232, 497759232, 497759232 };
    l.tag[MT_KV] = (mt_count){ 75497472, 75500544, 38692454400 };
    l.requested = (mt_count){ 573256704, 580000000, 39190213632 };
    l.rounding = 12345;
    l.split = 1048576;
    l.cached = 2097152;
    l.reserved = (mt_count){ 576414777, 600000000, 700000000 };
    l.segments = 23;
    l.segment_events = 1234;
    l.allocs = 98765;
    l.frees = 98000;
    l.ooms = 0;
    return l;
}

/* The summary of some rows, free() it. */
static char *summary_of(const mt_row *rows, int n, const mt_ledger *l, uint64_t kv_per_token) {
    char *text = NULL;
    size_t size;
    mt_summary *s;
    mt_error err;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(mt_summary_open(&s, &err), MT_OK);
    for (int i = 0; i < n; i++)
        mt_summary_row(s, &rows[i]);
    mt_summary_print(out, s, l, kv_per_token);
    mt_summary_close(s);
    fclose(out);
    return text;
}

static void assert_has(const char *text, const char *words) {
    if (strstr(text, words) == NULL)
        fail_msg("'%s' is not in:\n%s", words, text);
}

static void assert_lacks(const char *text, const char *words) {
    if (strstr(text, words) != NULL)
        fail_msg("'%s' is in:\n%s", words, text);
}

static void assert_narrow(const char *text) {
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1)
        if (strcspn(at, "\n") > 80)
            fail_msg("a line is longer than 80 characters:\n%s", at);
}

/* ---- the summary ----------------------------------------------------------------------------- */

static const char WHOLE[] =
    "requested bytes                 now                             peak\n"
    "  weights               497,759,232   474.7 MiB          497,759,232   474.7 MiB\n"
    "  kv                     75,497,472    72.0 MiB           75,500,544    72.0 MiB\n"
    "  activations                     0     0.0 MiB                    0     0.0 MiB\n"
    "  logits                          0     0.0 MiB                    0     0.0 MiB\n"
    "  workspace                       0     0.0 MiB                    0     0.0 MiB\n"
    "  other                           0     0.0 MiB                    0     0.0 MiB\n"
    "  all                   573,256,704   546.7 MiB          580,000,000   553.1 MiB\n"
    "\n"
    "reserved bytes                  now                             peak\n"
    "    requested           573,256,704   546.7 MiB\n"
    "  + rounding                 12,345     0.0 MiB\n"
    "  + split                 1,048,576     1.0 MiB\n"
    "  + cached                2,097,152     2.0 MiB\n"
    "  = reserved            576,414,777   549.7 MiB          600,000,000   572.2 MiB\n"
    "  0 unexplained bytes\n"
    "\n"
    "segments: 23 held; 1,234 driver calls (allocate, free, map, unmap)\n"
    "requests: 98,765 served, 98,000 freed, 0 refused\n"
    "\n"
    "bumps: 2, +1,949,696 bytes in total\n"
    "    step            bytes  caused by\n"
    "       0       +2,023,424  kv:layer0:3072:small+2097152\n"
    "       2          -73,728  kv:layer0:3072:small-2097152\n"
    "\n"
    "kv per token: 73,728 bytes measured, 73,728 expected: equal\n"
    "  (147,456 bytes over the 2 tokens from ctx 1 to 3)\n"
    "\n"
    "prefill to ctx 1: 5.250 ms\n"
    "decode: 2 tokens in 25.000 ms, 80.0 tokens/s per sequence\n";

static void test_whole(void **state) {
    (void)state;
    mt_ledger l = ledger_of();
    const mt_row rows[] = {
        row_of(-1, 0, 0, 500000000, 0, "weights:154389504:large+155189248"),
        row_of(0, 1, 73728, 2023424, 5250000, "kv:layer0:3072:small+2097152"),
        row_of(1, 2, 147456, 0, 10000000, "-"),
        row_of(2, 3, 221184, -73728, 15000000, "kv:layer0:3072:small-2097152"),
    };
    char *text = summary_of(rows, 4, &l, 73728);
    assert_string_equal(text, WHOLE);
    assert_narrow(text);
    free(text);
}

/* Unexplained bytes are computed, with their sign. */
static void test_unexplained(void **state) {
    (void)state;
    mt_ledger l = ledger_of();
    l.reserved.current += 1234567;
    char *text = summary_of(NULL, 0, &l, 1);
    assert_has(text, "\n  1,234,567 unexplained bytes\n");
    free(text);
    l.reserved.current -= 2 * 1234567;
    text = summary_of(NULL, 0, &l, 1);
    assert_has(text, "\n  -1,234,567 unexplained bytes\n");
    free(text);
}

static void test_no_rows(void **state) {
    (void)state;
    mt_ledger l;
    mt_ledger_init(&l);
    char *text = summary_of(NULL, 0, &l, 0);
    assert_has(text, "bumps: 0, +0 bytes in total\n");
    assert_lacks(text, "caused by");
    assert_has(text, "kv per token: not measured");
    assert_lacks(text, "decode");
    assert_lacks(text, "prefill");
    free(text);
}

/* Numbers of every length, at the places of the commas. */
static void test_commas(void **state) {
    (void)state;
    static const struct {
        uint64_t n;
        const char *text;
    } known[] = { { 0, " 0 served" },
                  { 9, " 9 served" },
                  { 999, " 999 served" },
                  { 1000, " 1,000 served" },
                  { 999999, " 999,999 served" },
                  { 1000000, " 1,000,000 served" },
                  { UINT64_MAX, " 18,446,744,073,709,551,615 served" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        mt_ledger l = { .allocs = known[i].n };
        char *text = summary_of(NULL, 0, &l, 0);
        assert_has(text, known[i].text);
        free(text);
    }
}

/* ---- bumps ----------------------------------------------------------------------------------- */

/* The largest twenty, in order of step; of equal ones the earlier. */
static void test_largest_twenty(void **state) {
    (void)state;
    mt_ledger l = ledger_of();
    static mt_row rows[50];
    for (int i = 0; i < 50; i++) {
        int64_t bytes = i % 2 == 0 ? 1000 : i == 49 ? -9000 : i < 9 ? 2000 + i : 0;
        rows[i] = row_of(i, (uint64_t)i + 1, 0, bytes, 0, "other:7:large+8");
    }
    char *text = summary_of(rows, 50, &l, 0);
    assert_has(text, "bumps: 30, +24,016 bytes in total\n");
    assert_has(text,
               "\n       0           +1,000  other:7:large+8\n       1           +2,001  other");
    assert_has(text,
               "\n       7           +2,007  other:7:large+8\n       8           +1,000  other");
    assert_has(text,
               "\n      28           +1,000  other:7:large+8\n      49           -9,000  other");
    assert_has(text, "\n  and 10 more, none larger\n");
    free(text);
}

static void test_long_causes(void **state) {
    (void)state;
    mt_ledger l = ledger_of();
    char cause[1024] = "activations:layer11:123456789:large+123456789x12";
    for (int i = 0; i < 7; i++)
        strcat(cause, ",activations:layer11:123456789:large+123456789x12");
    strcat(cause, ",...+12345");
    mt_row row = row_of(3, 4, 0, 5, 0, cause);
    char *text = summary_of(&row, 1, &l, 0);
    assert_narrow(text);
    assert_has(text, "\n                           ...+12345\n");
    assert_has(text, "large+123456789x12,\n                           activations");
    free(text);
}

/* ---- kv and times ---------------------------------------------------------------------------- */

static char *kv_of(const mt_row *rows, int n, uint64_t expected) {
    mt_ledger l = ledger_of();
    return summary_of(rows, n, &l, expected);
}

static void test_kv(void **state) {
    (void)state;
    const mt_row whole[] = { row_of(0, 1, 16000, 0, 0, "-"),
                             row_of(1, 1024, 16000 + 1023 * 500, 0, 0, "-") };
    char *text = kv_of(whole, 2, 1000);
    assert_has(text, "kv per token: 500 bytes measured, 1,000 expected: they differ:\n"
                     "  this strategy does not allocate exactly one row per token\n"
                     "  (511,500 bytes over the 1,023 tokens from ctx 1 to 1,024)\n");
    free(text);
    const mt_row broken[] = { row_of(0, 1, 16000, 0, 0, "-"),
                              row_of(1, 1024, 16000 + 1023 * 500 + 7, 0, 0, "-") };
    text = kv_of(broken, 2, 500);
    assert_has(text, "kv per token: 500 and 7/1,023 bytes measured, 500 expected: they differ:\n");
    free(text);
    text = kv_of(broken, 1, 500);
    assert_has(text, "kv per token: not measured");
    free(text);
    const mt_row one[] = { row_of(-1, 0, 0, 0, 0, "-"), row_of(0, 1024, 1024 * 500, 0, 0, "-") };
    text = kv_of(one, 2, 500);
    assert_has(text, "kv per token: 500 bytes measured, 500 expected: equal\n");
    free(text);
    const mt_row falls[] = { row_of(0, 1, 16000, 0, 0, "-"), row_of(1, 2, 15999, 0, 0, "-") };
    text = kv_of(falls, 2, 500);
    assert_has(text, "kv per token: not measured");
    free(text);
}

static void test_untimed(void **state) {
    (void)state;
    const mt_row rows[] = { row_of(0, 1, 0, 0, 0, "-"), row_of(1, 2, 0, 0, 0, "-") };
    char *text = kv_of(rows, 2, 0);
    assert_lacks(text, "tokens/s");
    assert_lacks(text, "prefill");
    free(text);
}

/* ---- out of memory --------------------------------------------------------------------------- */

static char *refusal_text(const mt_refusal *r) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    mt_oom_print(out, r);
    fclose(out);
    return text;
}

static mt_refusal refusal_of(void) {
    return (mt_refusal){ .request = { 150994945, MT_KV, 3, 0 },
                         .rounded = 150995456,
                         .segment = 153092096,
                         .capacity = 1000000000,
                         .source_free = 100000000,
                         .reserved = 900000000,
                         .free_total = 50000000,
                         .largest_free = 1048576,
                         .step = 12 };
}

static void test_oom(void **state) {
    (void)state;
    mt_refusal r = refusal_of();
    char *text = refusal_text(&r);
    assert_string_equal(text,
                        "out of device memory in step 12\n"
                        "  request for kv, layer 3\n"
                        "  requested             150,994,945 bytes, the size of the request\n"
                        "  rounded               150,995,456 bytes, the block that serves it\n"
                        "  segment               153,092,096 bytes, asked of the device\n"
                        "  capacity            1,000,000,000 bytes, of the device\n"
                        "  unreserved            100,000,000 bytes, free on the device\n"
                        "  reserved              900,000,000 bytes, held in segments\n"
                        "  free                   50,000,000 bytes, in these segments\n"
                        "  largest free            1,048,576 bytes, usable by the request\n"
                        "it would fit with\n"
                        "  a capacity of at least 1,053,092,096 bytes (53,092,096 more)\n");
    free(text);
}

static void test_oom_kinds(void **state) {
    (void)state;
    mt_refusal r = refusal_of();
    r.step = -1;
    r.request.layer = -1;
    r.free_total = 200000000;
    char *text = refusal_text(&r);
    assert_has(text, "out of device memory while loading\n  request for kv\n");
    assert_has(text, "  less fragmentation: 200,000,000 bytes are free in segments, but the\n"
                     "  largest free block is 149,946,880 bytes too small\n");
    assert_narrow(text);
    free(text);
    r.source_free = r.segment;
    text = refusal_text(&r);
    assert_has(text, "  a device that allocates what it has free");
    assert_lacks(text, "a capacity of");
    free(text);
    r.segment = UINT64_MAX;
    text = refusal_text(&r);
    assert_has(text, "  nothing: it is larger than any device\n");
    free(text);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static char *json_of(const mt_row *rows, int n, const mt_ledger *l, const char *ended,
                     const mt_refusal *r, bool options) {
    char *text = NULL;
    size_t size;
    mt_run_json *j;
    mt_error err;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(mt_run_json_open(&j, out, "1.0", &err), MT_OK);
    if (options) {
        mt_run_json_header(j, "policy", "torch", MT_VALUE_TEXT);
        mt_run_json_header(j, "prompt",
                           "\"a\\b\"\n\t\x01 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xff \xc3",
                           MT_VALUE_TEXT);
        mt_run_json_header(j, "seed", "18446744073709551615", MT_VALUE_NUMBER);
        mt_run_json_header(j, "library cuBLAS-handle", "+5 (once)", MT_VALUE_NUMBER);
        mt_run_json_header(j, "graph", "off", MT_VALUE_SWITCH);
    }
    for (int i = 0; i < n; i++)
        mt_run_json_row(j, &rows[i]);
    assert_int_equal(mt_run_json_close(j, l, ended, r, &err), MT_OK);
    fclose(out);
    return text;
}

#define COLUMNS_JSON                                                                               \
    "\"columns\": [\"step\", \"ctx\", \"weights\", \"kv\", \"activations\", \"logits\", "          \
    "\"workspace\", \"other\", \"requested\", \"rounding\", \"split\", \"cached\", "               \
    "\"reserved\", \"peak_requested\", \"peak_reserved\", \"segments\", \"kv_ideal\", "            \
    "\"bump\", \"cause\", \"ms\"],\n"

#define ZEROS_JSON                                                                                 \
    "\"activations\": 0, \"logits\": 0, \"workspace\": 0, \"other\": 0, \"requested\": 0, "        \
    "\"rounding\": 0, \"split\": 0, \"cached\": 0, \"reserved\": 0, \"peak_requested\": 0, "       \
    "\"peak_reserved\": 0, \"segments\": 0, \"kv_ideal\": 0, "

static void test_json_empty(void **state) {
    (void)state;
    char *text = json_of(NULL, 0, NULL, "interrupted", NULL, false);
    assert_string_equal(
        text, "{\"program\": \"memtrace\", \"version\": \"1.0\",\n"
              "\"options\": {},\n" COLUMNS_JSON
              "\"load\": null,\n\"rows\": [],\n\"notes\": {},\n\"ended\": \"interrupted\",\n"
              "\"refusal\": null,\n\"summary\": null}\n");
    free(text);
}

static void test_json_rows(void **state) {
    (void)state;
    const mt_row rows[] = { row_of(-1, 0, 0, 5, 0, "other:5:large+5"),
                            row_of(0, 1, 18446744073709551615u, -3, 1234567, "-"),
                            row_of(1, 2, 0, 0, 0, "-") };
    char *text = json_of(rows, 3, NULL, "done", NULL, true);
    assert_has(text, "\"options\": {\n  \"policy\": \"torch\",\n"
                     "  \"prompt\": \"\\\"a\\\\b\\\"\\u000a\\u0009\\u0001 \xc3\xa9 \xe2\x82\xac "
                     "\xf0\x9f\x98\x80 \\ufffd \\ufffd\",\n"
                     "  \"seed\": 18446744073709551615,\n  \"library_cuBLAS_handle\": 5,\n"
                     "  \"graph\": false},\n");
    assert_has(text, "\"load\": {\"step\": -1, \"ctx\": 0, \"weights\": 0, \"kv\": 0, " ZEROS_JSON
                     "\"bump\": 5, \"cause\": \"other:5:large+5\", \"ms\": 0},\n\"rows\": [\n  {");
    assert_has(
        text,
        "  {\"step\": 0, \"ctx\": 1, \"weights\": 0, \"kv\": 18446744073709551615, " ZEROS_JSON
        "\"bump\": -3, \"cause\": \"-\", \"ms\": 1.235},\n  {\"step\": 1");
    assert_has(text, "\"ms\": 0}],\n\"notes\": {},\n\"ended\": \"done\"");
    free(text);
    text = json_of(rows + 1, 1, NULL, "done", NULL, false);
    assert_has(text, "\"load\": null,\n\"rows\": [\n  {\"step\": 0, ");
    free(text);
}

static void test_json_end(void **state) {
    (void)state;
    mt_ledger l = ledger_of();
    mt_refusal r = refusal_of();
    char *text = json_of(NULL, 0, &l, "out of memory", &r, false);
    assert_has(text, "\"ended\": \"out of memory\",\n\"refusal\": {\"step\": 12, \"tag\": \"kv\", "
                     "\"layer\": 3, \"requested\": 150994945, \"rounded\": 150995456, "
                     "\"segment\": 153092096, \"capacity\": 1000000000, "
                     "\"source_free\": 100000000, \"reserved\": 900000000, "
                     "\"free_total\": 50000000, \"largest_free\": 1048576},\n");
    assert_has(text, "\"summary\": {\"tags\": {\n  \"weights\": {\"current\": 497759232, "
                     "\"peak\": 497759232, \"total\": 497759232},\n  \"kv\": {");
    assert_has(text, "\"rounding\": 12345, \"split\": 1048576, \"cached\": 2097152, "
                     "\"unexplained\": 0,\n  \"segments\": 23, \"segment_events\": 1234, "
                     "\"allocs\": 98765, \"frees\": 98000, \"ooms\": 0}}\n");
    free(text);
}

static void test_json_full(void **state) {
    (void)state;
    mt_run_json *j;
    mt_error err;
    FILE *full = fopen("/dev/full", "w");
    assert_int_equal(mt_run_json_open(&j, full, "1.0", &err), MT_OK);
    assert_int_equal(mt_run_json_close(j, NULL, "done", NULL, &err), MT_FAILED);
    assert_has(err.text, "cannot be written");
    fclose(full);
}

/* Every string of two bytes, and some longer ones, comes out as UTF-8. */
static void test_json_utf8(void **state) {
    (void)state;
    static const struct {
        const char *text, *json;
    } known[] = {
        { "\xc0\x80", "\"\\ufffd\\ufffd\"" },            /* overlong */
        { "\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"" }, /* overlong */
        { "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" }, /* surrogate */
        { "\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
        { "\xf0\x8f\xbf\xbf", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
        { "\xf5\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
        { "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"" },
        { "\xe2\x82", "\"\\ufffd\\ufffd\"" }, /* cut */
        { "\xe2(", "\"\\ufffd(\"" },
        { "\x7f", "\"\\u007f\"" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        mt_row row = row_of(0, 0, 0, 0, 0, known[i].text);
        char *text = json_of(&row, 1, NULL, "done", NULL, false);
        assert_has(text, known[i].json);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_unexplained),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_commas),
        cmocka_unit_test(test_largest_twenty),
        cmocka_unit_test(test_long_causes),
        cmocka_unit_test(test_kv),
        cmocka_unit_test(test_untimed),
        cmocka_unit_test(test_oom),
        cmocka_unit_test(test_oom_kinds),
        cmocka_unit_test(test_json_empty),
        cmocka_unit_test(test_json_rows),
        cmocka_unit_test(test_json_end),
        cmocka_unit_test(test_json_full),
        cmocka_unit_test(test_json_utf8),
    };
    return cmocka_run_group_tests_name("summary", tests, NULL, NULL);
}
