/* test_trace.c - stored traces: what is written is read back, and what cannot be true is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc/alloc.h"
#include "base/input.h"
#include "base/output.h"
#include "traces/trace.h"
#include "tests/read_events.h"
#include "tests/any_run.h"
#include "tests/temp_files.h"

#define COLUMNS "# seq kind step stream id segment offset requested rounded tag layer pool"

static const char *const NAMES[] = { "trace.txt", "trace.gz", "trace.zst" };

/* A small run with every kind of event. Line 1 of the file is the first here. */
static const char *const LINES[] = {
    "# memtrace trace 1",
    "# policy torch,expandable_segments:True",
    COLUMNS,
    "0 segment_alloc -1 0 0 0 0 1000 2097152 weights -1 small",
    "1 alloc -1 0 0 0 0 1000 1024 weights -1 small",
    "2 mark -1 0 - - 0 0 0 - -1 -",
    "3 segment_map 0 0 1 7 0 3000000 20971520 kv 0 large",
    "4 alloc 0 0 1 7 0 3000000 3000320 kv 0 large",
    "5 alloc 0 0 2 0 1024 500 512 activations 11 small",
    "6 oom 0 3 3 - 4096 99000000 99000320 logits -1 -",
    "7 free 0 0 2 0 1024 500 512 activations 11 small",
    "8 mark 0 0 - - 1 73728 0 - -1 -",
    "9 free 1 0 1 7 0 3000000 3000320 kv 0 large",
    "10 segment_unmap 1 0 - 7 0 0 20971520 other -1 large",
    "11 free 1 0 0 0 0 1000 1024 weights -1 small",
    "12 segment_free 1 0 - 0 0 0 2097152 other -1 small",
    "13 segment_alloc 1 2 4 8 0 70 4096 workspace -1 direct",
    "14 mark 1 0 - - 2 147456 0 - -1 -",
};
#define COUNT ((int)(sizeof LINES / sizeof *LINES))

/* The text of the small run, with line number `line` replaced (0: none); static. */
static const char *text_with(int line, const char *replacement) {
    static char text[8192];
    size_t at = 0;
    for (int i = 0; i < COUNT; i++) {
        const char *it = i + 1 == line ? replacement : LINES[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", it);
    }
    return text;
}

/* ---- listeners ------------------------------------------------------------------------------- */

typedef struct events {
    mt_event event[64];
    int count;
    char headers[512]; /* each with a newline */
    mt_trace *copy;    /* written again as read */
} events;

static void on_event(void *context, const mt_event *e) {
    events *all = context;
    if (all->count < 64)
        all->event[all->count] = *e;
    all->count++;
    if (all->copy != NULL) {
        mt_listener writer = mt_trace_listener(all->copy);
        writer.on_event(writer.context, e);
    }
}

static void on_header(void *context, const char *line) {
    events *all = context;
    size_t at = strlen(all->headers);
    snprintf(all->headers + at, sizeof all->headers - at, "%s\n", line);
    if (all->copy != NULL)
        mt_trace_header(all->copy, line);
}

static mt_status read_file(const char *path, events *all, mt_error *err) {
    mt_listener listener = { on_event, all };
    err->text[0] = '\0';
    return read_events(path, listener, on_header, all, err);
}

static mt_status read_text(const char *text, size_t n, mt_error *err) {
    events all = { .count = 0 };
    return read_file(temp_write("trace", text, n), &all, err);
}

/* The text is refused, at that line (0: as a whole), with these words. */
static void assert_refused(const char *text, size_t n, int line, const char *words) {
    mt_error err;
    char place[32];
    snprintf(place, sizeof place, line > 0 ? "/trace:%d: " : "/trace: ", line);
    if (read_text(text, n, &err) != MT_BAD || err.status != MT_BAD)
        fail_msg("not refused, expected: %s", words);
    if (strstr(err.text, place) == NULL || strstr(err.text, words) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", err.text, place, words);
}

/* ---- writing --------------------------------------------------------------------------------- */

static char *file_text(const char *path, size_t *n) {
    char *text;
    mt_error err;
    assert_int_equal(mt_input_read(path, 1 << 24, &text, n, &err), MT_OK);
    return text;
}

static void assert_text(const char *path, const char *expected) {
    size_t n;
    char *text = file_text(path, &n);
    assert_string_equal(text, expected);
    free(text);
}

static void test_known_text(void **state) {
    (void)state;
    events all = { .count = 0 };
    mt_error err;
    mt_trace *t;
    const char *text = text_with(0, NULL), *path = temp_path("written");
    assert_int_equal(read_file(temp_write("trace", text, strlen(text)), &all, &err), MT_OK);
    assert_int_equal(all.count, 15);
    assert_string_equal(all.headers, "policy torch,expandable_segments:True\n");
    assert_int_equal(mt_trace_create(&t, path, false, &err), MT_OK);
    mt_trace_header(t, "policy torch,expandable_segments:True");
    mt_listener writer = mt_trace_listener(t);
    for (int i = 0; i < all.count; i++)
        writer.on_event(writer.context, &all.event[i]);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
    assert_text(path, text);
    unlink(path);
}

static void test_fields(void **state) {
    (void)state;
    events all = { .count = 0 };
    mt_error err;
    const char *text = text_with(0, NULL);
    assert_int_equal(read_file(temp_write("trace", text, strlen(text)), &all, &err), MT_OK);
    const mt_event *e = &all.event[6 - 1];
    assert_int_equal(e->seq, 5);
    assert_int_equal(e->kind, MT_EV_ALLOC);
    assert_int_equal(e->step, 0);
    assert_int_equal(e->id, 2);
    assert_int_equal(e->segment, 0);
    assert_int_equal(e->offset, 1024);
    assert_int_equal(e->requested, 500);
    assert_int_equal(e->rounded, 512);
    assert_int_equal(e->tag, MT_ACTIVATIONS);
    assert_int_equal(e->layer, 11);
    assert_int_equal(e->pool, MT_POOL_SMALL);
    e = &all.event[8];
    assert_int_equal(e->kind, MT_EV_MARK);
    assert_true(e->id == MT_NO_ID && e->layer == -1 && e->tag == MT_OTHER && e->pool == 0);
    assert_int_equal(e->ctx, 1);
    assert_int_equal(e->kv_ideal, 73728);
    e = &all.event[6];
    assert_true(e->kind == MT_EV_OOM && e->stream == 3 && e->id == 3 && e->offset == 4096);
    assert_true(all.event[10].id == MT_NO_ID && all.event[10].kind == MT_EV_SEGMENT_UNMAP);
}

/* Slots: 0 and 1 are free again before segment 8, the one freed last (0) is used. */
static void test_slots(void **state) {
    (void)state;
    events all = { .count = 0 };
    mt_error err;
    const char *text = text_with(0, NULL);
    assert_int_equal(read_file(temp_write("trace", text, strlen(text)), &all, &err), MT_OK);
    static const uint32_t slot[] = { 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0 };
    for (int i = 0; i < all.count; i++)
        assert_int_equal(all.event[i].slot, slot[i]);
}

/* Extreme values survive. */
static void test_wide_numbers(void **state) {
    (void)state;
    const char *text = "# memtrace trace 1\n" COLUMNS "\n"
                       "0 segment_map -1 4294967294 18446744073709551614 4294967294 "
                       "18446744073709551615 18446744073709551615 9223372036854775807 other "
                       "2147483647 driver\n"
                       "1 oom -1 0 - - 0 18446744073709551615 10 kv -1 -\n"
                       "2 mark -1 0 - - 18446744073709551615 99 0 - -1 -\n";
    events all = { .count = 0 };
    mt_error err;
    const char *path = temp_path("copy");
    assert_int_equal(mt_trace_create(&all.copy, path, false, &err), MT_OK);
    if (read_file(temp_write("trace", text, strlen(text)), &all, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(mt_trace_commit(all.copy, NULL, &err), MT_OK);
    assert_text(path, text);
    unlink(path);
}

/* Every way to write a number of 1 to 20 digits. */
static void test_digits(void **state) {
    (void)state;
    mt_error err;
    mt_trace *t;
    char expected[12000];
    const char *path = temp_path("digits");
    uint64_t n = 0;
    size_t at = (size_t)sprintf(expected, "# memtrace trace 1\n%s\n", COLUMNS);
    assert_int_equal(mt_trace_create(&t, path, false, &err), MT_OK);
    mt_listener writer = mt_trace_listener(t);
    for (unsigned i = 0; i < 60; i++, n = n * 10 / 3 + i) {
        mt_event e = {
            .seq = n, .kind = MT_EV_OOM, .step = -1, .id = n, .requested = ~n, .layer = -1
        };
        writer.on_event(writer.context, &e);
        at += (size_t)sprintf(expected + at, "%llu oom -1 0 %llu - 0 %llu 0 weights -1 -\n",
                              (unsigned long long)n, (unsigned long long)n, (unsigned long long)~n);
    }
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
    assert_text(path, expected);
    unlink(path);
}

/* Reads from, writes to, and compares: plain, .gz and .zst, the ending and headers included. */
static void copy_equal(const char *from, const char *to, bool times) {
    events all = { .count = 0 };
    mt_error err;
    size_t n, m;
    assert_int_equal(mt_trace_create(&all.copy, to, times, &err), MT_OK);
    if (read_file(from, &all, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(mt_trace_commit(all.copy, NULL, &err), MT_OK);
    char *a = file_text(from, &n), *b = file_text(to, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void test_round_trip(void **state) {
    (void)state;
    char text[9000], from[200], to[200];
    size_t n = (size_t)sprintf(text, "%s# interrupted\n", text_with(0, NULL));
    snprintf(from, sizeof from, "%s", temp_write("first", text, n));
    for (int i = 0; i < 3; i++) {
        snprintf(to, sizeof to, "%s", temp_path(NAMES[i]));
        copy_equal(from, to, false);
        snprintf(from, sizeof from, "%s", to);
    }
    /* The compressed files, too, are equal byte for byte when written again. */
    for (int i = 1; i < 3; i++) {
        char again[200], a[2][8192];
        size_t length[2];
        snprintf(again, sizeof again, "%s", temp_path(i == 1 ? "again.gz" : "again.zst"));
        copy_equal(temp_path(NAMES[i]), again, false);
        for (int j = 0; j < 2; j++) {
            FILE *f = fopen(j == 0 ? temp_path(NAMES[i]) : again, "rb");
            length[j] = fread(a[j], 1, sizeof a[j], f);
            fclose(f);
        }
        assert_int_equal(length[0], length[1]);
        assert_memory_equal(a[0], a[1], length[0]);
    }
}

/* With times: ns since the first event, and the nanoseconds of marks; without, neither. */
static void test_times(void **state) {
    (void)state;
    mt_event list[] = {
        { .seq = 0, .kind = MT_EV_OOM, .id = MT_NO_ID, .step = -1, .layer = -1, .time_ns = 5000 },
        { .seq = 1,
          .kind = MT_EV_MARK,
          .step = -1,
          .layer = -1,
          .nanoseconds = 77,
          .time_ns = 5123 },
    };
    static const char *const expected[] = {
        "# memtrace trace 1\n" COLUMNS "\n0 oom -1 0 - - 0 0 0 weights -1 -\n"
        "1 mark -1 0 - - 0 0 0 - -1 -\n# out of memory\n",
        "# memtrace trace 1\n" COLUMNS " ns\n0 oom -1 0 - - 0 0 0 weights -1 - 0\n"
        "1 mark -1 0 - - 0 0 77 - -1 - 123\n# out of memory\n",
    };
    for (int times = 0; times < 2; times++) {
        mt_error err;
        mt_trace *t;
        assert_int_equal(mt_trace_create(&t, temp_path("timed"), times, &err), MT_OK);
        mt_listener writer = mt_trace_listener(t);
        writer.on_event(writer.context, &list[0]);
        writer.on_event(writer.context, &list[1]);
        assert_int_equal(mt_trace_commit(t, "out of memory", &err), MT_OK);
        assert_text(temp_path("timed"), expected[times]);
        copy_equal(temp_path("timed"), temp_path("timed2"), times);
    }
}

/* No header can make a file that the reader does not take. */
static void test_wild_headers(void **state) {
    (void)state;
    events all = { .count = 0 };
    mt_error err;
    mt_trace *t;
    char *longest = malloc(200000);
    memset(longest, 'x', 199999);
    longest[199999] = '\0';
    const char *path = temp_path("wild");
    assert_int_equal(mt_trace_create(&t, path, false, &err), MT_OK);
    mt_trace_header(t, "prompt two\nlines\r\nhere");
    mt_trace_header(t, longest);
    mt_trace_header(t, "");
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
    if (read_file(path, &all, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_memory_equal(all.headers, "prompt two lines  here\nxxxx", 26);
    assert_int_equal(all.count, 0);
    free(longest);
    unlink(path);
}

static void test_abandoned(void **state) {
    (void)state;
    mt_error err;
    mt_trace *t;
    assert_int_equal(mt_trace_create(&t, temp_path("gone"), false, &err), MT_OK);
    mt_trace_header(t, "x");
    mt_trace_abandon(t);
    mt_trace_abandon(NULL);
    assert_int_equal(access(temp_path("gone"), F_OK), -1);
    assert_int_equal(mt_trace_create(&t, temp_path("no/folder"), false, &err), MT_FAILED);
    assert_int_equal(mt_trace_create(&t, "/dev/full", false, &err), MT_OK);
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_FAILED);
    assert_non_null(strstr(err.text, "/dev/full"));
}

/* ---- broken traces --------------------------------------------------------------------------- */

typedef struct broken {
    int line;
    const char *replacement, *words;
} broken;

static const broken SHAPE[] = {
    { 1, "# memtrace trace 2", "another version" },
    { 1, "# memtrace trace 1 ", "expected '# memtrace trace 1'" },
    { 3, "# seq kind step", "other columns" },
    { 3, COLUMNS " ns x", "other columns" },
    { 3, "# nothing", "before the line '# seq" },
    { 6, COLUMNS, "twice" },
    { 6, "", "1 columns, expected 12" },
    { 6, "2 mark -1 0 - - 0 0 0 - -1", "11 columns" },
    { 6, "2 mark -1 0 - - 0 0 0 - -1 - 5", "13 columns" },
    { 6, "2 mark -1 0 - - 0 0 0 - -1 - ", "13 columns" },
    { 6, " 2 mark -1 0 - - 0 0 0 - -1 -", "13 columns" },
    { 6, "2  mark -1 0 - - 0 0 0 - -1 -", "13 columns" },
    { 6, "2\tmark -1 0 - - 0 0 0 - -1 -", "11 columns" },
    { 6, "2 mark -1 0 - - 0 0 0 - -1 -\r", "pool is '-\\x0d'" },
    { 6, "a b c d e f g h i j k l m n o p q", "17 columns" },
};

/* No format's first line. */
static const broken NO_FORMAT[] = {
    { 1, "# memtrace 1.0", "another output of memtrace" },
    { 1, "{\"events\": []}", "JSON" },
    { 1, "\x80\x04\x95", "Python pickle" },
    { 1, "PK\x03\x04", "zip archive" },
    { 1,
      "\x7f"
      "ELF",
      "a program" },
    { 1, "[19799][14:21:19:998533][info  ] [A][Stream 0x1]", "RMM's debug log" },
    { 1, "", "expected a file of the format trace, " },
};

static const broken WORD[] = {
    { 5, "x alloc -1 0 0 0 0 1000 1024 weights -1 small", "seq is 'x', expected a whole number" },
    { 5, "01 alloc -1 0 0 0 0 1000 1024 weights -1 small", "seq is '01'" },
    { 5, "1 aloc -1 0 0 0 0 1000 1024 weights -1 small", "kind is 'aloc', expected one of alloc " },
    { 5, "1 alloc -2 0 0 0 0 1000 1024 weights -1 small", "step is '-2'" },
    { 5, "1 alloc 2147483648 0 0 0 0 1000 1024 weights -1 small", "step is '2147483648'" },
    { 5, "1 alloc -1 -1 0 0 0 1000 1024 weights -1 small", "stream is '-1'" },
    { 5, "1 alloc -1 4294967296 0 0 0 1000 1024 weights -1 small", "stream is '4294967296'" },
    { 5, "1 alloc -1 0 - 0 0 1000 1024 weights -1 small", "id is '-'" },
    { 5, "1 alloc -1 0 18446744073709551615 0 0 1000 1024 weights -1 small", "id is '1844" },
    { 5, "1 alloc -1 0 18446744073709551616 0 0 1000 1024 weights -1 small", "id is '1844" },
    { 5, "1 alloc -1 0 0 - 0 1000 1024 weights -1 small", "segment is '-'" },
    { 5, "1 alloc -1 0 0 0 0x0 1000 1024 weights -1 small", "offset is '0x0'" },
    { 5, "1 alloc -1 0 0 0 0 +1000 1024 weights -1 small", "requested is '+1000'" },
    { 5, "1 alloc -1 0 0 0 0 1000 1e3 weights -1 small", "rounded is '1e3'" },
    { 5, "1 alloc -1 0 0 0 0 1000 99999999999999999999 weights -1 small", "rounded is '9999" },
    { 5, "1 alloc -1 0 0 0 0 1000 1024 Weights -1 small",
      "tag is 'Weights', expected one of weights kv" },
    { 5, "1 alloc -1 0 0 0 0 1000 1024 - -1 small", "tag is '-'" },
    { 5, "1 alloc -1 0 0 0 0 1000 1024 weights - small", "layer is '-'" },
    { 5, "1 alloc -1 0 0 0 0 1000 1024 weights -1 tiny", "pool is 'tiny', expected one of small" },
    { 6, "2 mark -1 0 7 - 0 0 0 - -1 -", "id is '7', expected - for this kind" },
    { 6, "2 mark -1 0 - 0 0 0 0 - -1 -", "segment is '0'" },
    { 6, "2 mark -1 0 - - - 0 0 - -1 -", "offset is '-'" },
    { 6, "2 mark -1 0 - - 0 0 0 kv -1 -", "tag is 'kv'" },
    { 6, "2 mark -1 0 - - 0 0 0 - 3 -", "layer is 3" },
    { 6, "2 mark -1 0 - - 0 0 0 - -1 small", "pool is 'small'" },
    { 10, "6 oom 0 3 3 0 4096 99000000 99000320 logits -1 -", "segment is '0'" },
    { 10, "6 oom 0 3 3 - 4096 99000000 99000320 logits -1 large", "pool is 'large'" },
    { 5, "1 alloc -1 0 0 0 0 1000 1024 \x01\x02zzzzzzzzzzzzzzzzzzzzzzzzzzz -1 small",
      "tag is '\\x01\\x02zzzzzzzzzzzzzzzzzzzzzzzzzzz'" },
};

static const broken SENSE[] = {
    { 5, "2 alloc -1 0 0 0 0 1000 1024 weights -1 small", "seq is 2, expected 1" },
    { 5, "0 alloc -1 0 0 0 0 1000 1024 weights -1 small", "seq is 0, expected 1" },
    { 5, "1 alloc 0 0 0 0 0 1000 1024 weights -1 small", "step is 0, expected -1" },
    { 8, "4 alloc 1 0 1 7 0 3000000 3000320 kv 0 large", "step is 1, expected 0" },
    { 5, "1 alloc -1 0 0 1 0 1000 1024 weights -1 small", "segment 1 is not allocated" },
    { 5, "1 alloc -1 0 0 0 2097151 1000 1024 weights -1 small", "the block ends at" },
    { 5, "1 alloc -1 0 0 0 18446744073709551615 1000 1024 weights -1 small", "the block ends" },
    { 5, "1 alloc -1 0 0 0 0 1000 2097153 weights -1 small", "the block ends at" },
    { 5, "1 alloc -1 0 0 0 0 1025 1024 weights -1 small", "smaller than the request" },
    { 5, "1 alloc -1 0 0 0 0 0 0 weights -1 small", "rounded is 0" },
    { 5, "1 segment_alloc -1 0 0 0 0 1000 1024 weights -1 small",
      "segment 0 is already allocated" },
    { 5, "1 segment_unmap -1 0 0 1 0 1000 1024 weights -1 small", "segment 1 is not allocated" },
    { 5, "1 segment_map -1 0 0 1 0 1 9223372036854775000 kv -1 large", "more than 2^63 bytes" },
    { 7, "3 alloc 0 0 0 0 2048 1000 1024 weights -1 small", "id is 0, expected 1 or more" },
    { 8, "4 alloc 0 0 1 7 0 3000000 20971521 kv 0 large", "larger than its segment's free bytes" },
    { 8, "4 free 0 0 1 7 0 3000000 3000320 kv 0 large", "id 1 was never allocated" },
    { 8, "4 segment_unmap 0 0 - 7 0 0 20971521 kv 0 large", "more bytes are unmapped" },
    { 11, "7 free 0 0 2 7 1024 500 512 activations 11 small", "segment is 7, the alloc of id 2" },
    { 11, "7 free 0 0 2 0 1025 500 512 activations 11 small", "offset is 1025" },
    { 11, "7 free 0 0 2 0 1024 501 512 activations 11 small", "requested is 501" },
    { 11, "7 free 0 0 2 0 1024 500 1024 activations 11 small", "rounded is 1024" },
    { 11, "7 free 0 0 2 0 1024 500 512 kv 11 small", "tag is kv, the alloc of id 2 said" },
    { 11, "7 segment_free 0 0 - 0 0 0 2097152 other -1 small", "the segment has live blocks" },
    { 13, "9 free 1 0 2 0 1024 500 512 activations 11 small", "id 2 is already freed" },
    { 13, "9 alloc 1 0 2 0 1024 500 512 activations 11 small", "id is 2, expected 3 or more" },
    { 16, "12 segment_free 1 0 - 0 0 0 2097151 other -1 small", "or another size" },
    { 16, "12 segment_free 1 0 - 7 0 0 2097151 other -1 small", "segment 7 is not allocated" },
    { 16, "12 segment_unmap 1 0 - 0 0 0 0 other -1 small", "rounded is 0" },
};

static void refuse_all(const broken *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *text = text_with(list[i].line, list[i].replacement);
        int line = strcmp(list[i].words, "before the line '# seq") == 0 ? 4 : list[i].line;
        assert_refused(text, strlen(text), line, list[i].words);
    }
}

static void test_broken_shape(void **state) {
    (void)state;
    refuse_all(SHAPE, sizeof SHAPE / sizeof *SHAPE);
}

static void test_no_format(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof NO_FORMAT / sizeof *NO_FORMAT; i++) {
        const char *text = text_with(1, NO_FORMAT[i].replacement);
        assert_refused(text, strlen(text), 0, NO_FORMAT[i].words);
    }
}

static void test_broken_words(void **state) {
    (void)state;
    refuse_all(WORD, sizeof WORD / sizeof *WORD);
}

static void test_broken_sense(void **state) {
    (void)state;
    refuse_all(SENSE, sizeof SENSE / sizeof *SENSE);
}

static void test_broken_times(void **state) {
    (void)state;
#define TIMED "# memtrace trace 1\n" COLUMNS " ns\n"
    static const broken list[] = {
        { 3, TIMED "0 mark -1 0 - - 0 0 0 - -1 -\n", "12 columns, expected 13" },
        { 3, TIMED "0 mark -1 0 - - 0 0 0 - -1 - -\n", "ns is '-'" },
        { 3, TIMED "0 mark -1 0 - - 0 0 0 - -1 - 1\n", "ns is 1, expected 0" },
        { 5,
          TIMED "0 mark -1 0 - - 0 0 0 - -1 - 0\n1 mark 0 0 - - 0 0 0 - -1 - 9\n"
                "2 mark 1 0 - - 0 0 0 - -1 - 8\n",
          "ns is 8, expected no less" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        assert_refused(list[i].replacement, strlen(list[i].replacement), list[i].line,
                       list[i].words);
}

/* Zero bytes, lines without end, files without lines. */
static void test_broken_lines(void **state) {
    (void)state;
    static char text[300000];
    size_t head = (size_t)sprintf(text, "# memtrace trace 1\n%s\n", COLUMNS);
    assert_refused("", 0, 0, "the file is empty");
    assert_refused("\0\0\0", 3, 0, "something else");
    assert_refused("# memtrace trace 1", 18, 1, "ends inside a line");
    assert_refused("# memtrace trace 1\n", 19, 2, "before the line");
    memcpy(text + head, "# a\0b\n", 6);
    assert_refused(text, head + 6, 3, "a zero byte");
    memcpy(text + head, "# abc", 5);
    assert_refused(text, head + 5, 3, "ends inside a line");
    memset(text + head, '#', sizeof text - head);
    assert_refused(text, sizeof text, 3, "longer than 65535 bytes");
    text[head + MT_TRACE_LINE] = '\n';
    assert_refused(text, head + MT_TRACE_LINE + 1, 3, "longer than 65535 bytes");
    text[head + MT_TRACE_LINE - 1] = '\n';
    mt_error err;
    assert_int_equal(read_text(text, head + MT_TRACE_LINE, &err), MT_OK);
}

static void test_missing(void **state) {
    (void)state;
    events all = { .count = 0 };
    mt_error err;
    assert_int_equal(read_file(temp_path("nowhere"), &all, &err), MT_BAD);
    assert_non_null(strstr(err.text, "nowhere"));
    assert_int_equal(read_file(temp_folder, &all, &err), MT_BAD);
}

/* Cut anywhere: good at the end of a line, else refused. Compressed: always refused. */
static void test_cut_everywhere(void **state) {
    (void)state;
    mt_error err;
    const char *text = text_with(0, NULL);
    size_t n = strlen(text), named = (size_t)(strstr(text, COLUMNS) - text) + strlen(COLUMNS);
    for (size_t i = 0; i < n; i++) {
        bool whole = i > named && text[i - 1] == '\n';
        assert_int_equal(read_text(text, i, &err), whole ? MT_OK : MT_BAD);
        assert_true(whole || strstr(err.text, "/trace:") != NULL);
    }
    for (int j = 1; j < 3; j++) {
        mt_output *o;
        char raw[8192];
        assert_int_equal(mt_output_open(&o, temp_path(NAMES[j]), &err), MT_OK);
        mt_output_write(o, text, n);
        assert_int_equal(mt_output_commit(o, &err), MT_OK);
        FILE *f = fopen(temp_path(NAMES[j]), "rb");
        size_t length = fread(raw, 1, sizeof raw, f);
        fclose(f);
        for (size_t i = 0; i < length; i++)
            assert_int_equal(read_text(raw, i, &err), MT_BAD);
        assert_int_equal(read_text(raw, length, &err), MT_OK);
    }
}

/* Random changes of the text: whatever comes, no crash, and a refusal names its line. */
static void test_random_changes(void **state) {
    (void)state;
    static const char letters[] = "0123456789 -\n#abcdefklmoprst_\0\xff";
    int rounds = getenv("MEMTRACE_QUICK") != NULL ? 500 : 5000;
    uint64_t x = 42;
    for (int i = 0; i < rounds; i++) {
        char text[8192];
        mt_error err;
        size_t n = strlen(strcpy(text, text_with(0, NULL)));
        for (int j = 0; j < 1 + i % 3; j++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            text[(x >> 33) % n] = letters[(x >> 20) % (sizeof letters - 1)];
        }
        mt_status status = read_text(text, n, &err);
        assert_true(status == MT_OK || status == MT_BAD);
        assert_true(status == MT_OK || strstr(err.text, "/trace:") != NULL);
    }
}

/* ---- many events ----------------------------------------------------------------------------- */

/* Segments and blocks that come and go, many at once. */
static void write_many(mt_trace *t, uint32_t segments) {
    mt_listener writer = mt_trace_listener(t);
    uint64_t seq = 0;
    for (uint32_t i = 0; i < 3 * segments; i++) {
        uint32_t number = i % segments * 7919, round = i / segments;
        uint8_t kinds[3][2] = { { MT_EV_SEGMENT_ALLOC, MT_EV_ALLOC },
                                { MT_EV_FREE, MT_EV_ALLOC },
                                { MT_EV_FREE, MT_EV_SEGMENT_FREE } };
        for (int j = 0; j < 2; j++) {
            uint8_t kind = kinds[round][j];
            bool first = round == 0 || (round == 1 && j == 0);
            mt_event e = { .seq = seq++,
                           .id = (first ? 0 : segments) + i % segments,
                           .segment = number,
                           .requested = 100,
                           .rounded = 512,
                           .step = -1,
                           .layer = -1,
                           .kind = kind };
            writer.on_event(writer.context, &e);
        }
    }
}

static void test_many_segments(void **state) {
    (void)state;
    static events all;
    mt_error err;
    mt_trace *t;
    for (int i = 0; i < 3; i++) {
        const char *path = temp_path(NAMES[i]);
        assert_int_equal(mt_trace_create(&t, path, false, &err), MT_OK);
        write_many(t, 5000);
        assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
        all.count = 0;
        if (read_file(path, &all, &err) != MT_OK)
            fail_msg("%s", err.text);
        assert_int_equal(all.count, 30000);
    }
}

/* ---- runs of every policy -------------------------------------------------------------------- */

typedef struct log {
    mt_event event[4096];
    int count;
} log;

static void keep_event(void *context, const mt_event *e) {
    log *l = context;
    assert_true(l->count < 4096);
    l->event[l->count++] = *e;
}

/* What the run told its listeners is what the reader tells of its trace, slots included. */
static void equal_run(const char *policy) {
    static log told, read;
    mt_source *source;
    mt_alloc *a;
    mt_trace *t;
    mt_error err;
    const char *path = temp_path("run.trace");
    told.count = read.count = 0;
    assert_int_equal(mt_source_sim(&source, (50 + below(300)) << 20, 2 << 20, &err), MT_OK);
    assert_int_equal(mt_alloc_open(&a, source, policy, &err), MT_OK);
    assert_int_equal(mt_trace_create(&t, path, false, &err), MT_OK);
    mt_alloc_listen(a, (mt_listener){ keep_event, &told });
    mt_alloc_listen(a, mt_trace_listener(t));
    any_run(a);
    mt_alloc_close(a);
    source->close(source);
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
    if (read_events(path, (mt_listener){ keep_event, &read }, NULL, NULL, &err) != MT_OK)
        fail_msg("%s: %s", policy, err.text);
    assert_int_equal(told.count, read.count);
    for (int i = 0; i < told.count; i++) {
        const mt_event *x = &told.event[i], *y = &read.event[i];
        if (x->kind != y->kind || x->id != y->id || x->step != y->step || x->stream != y->stream ||
            x->segment != y->segment || x->slot != y->slot || x->offset != y->offset ||
            x->requested != y->requested || x->rounded != y->rounded || x->layer != y->layer ||
            x->tag != y->tag || x->pool != y->pool)
            fail_msg("%s, event %d: slot %u of segment %u, read as %u of %u", policy, i, x->slot,
                     x->segment, y->slot, y->segment);
    }
}

static void test_runs_come_back(void **state) {
    (void)state;
    int rounds = getenv("MEMTRACE_QUICK") != NULL ? 10 : 60;
    seed = 4711;
    for (int i = 0; i < rounds; i++)
        for (size_t p = 0; p < ANY_POLICIES; p++)
            equal_run(any_policies[p]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_text),     cmocka_unit_test(test_fields),
        cmocka_unit_test(test_slots),          cmocka_unit_test(test_wide_numbers),
        cmocka_unit_test(test_digits),         cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_times),          cmocka_unit_test(test_wild_headers),
        cmocka_unit_test(test_abandoned),      cmocka_unit_test(test_broken_shape),
        cmocka_unit_test(test_no_format),      cmocka_unit_test(test_broken_words),
        cmocka_unit_test(test_broken_sense),   cmocka_unit_test(test_broken_times),
        cmocka_unit_test(test_broken_lines),   cmocka_unit_test(test_missing),
        cmocka_unit_test(test_cut_everywhere), cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_many_segments),  cmocka_unit_test(test_runs_come_back),
    };
    return cmocka_run_group_tests_name("trace", tests, temp_setup, temp_teardown);
}
