/* test_mtb.c - the binary trace: what a trace in text tells of a run, it tells too, item by item
 * and in replays; operations, stacks and devices come back; what is cut or changed is refused with
 * its record; what is not known is passed over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/output.h"
#include "traces/mtb.h"
#include "traces/replay.h"
#include "traces/trace.h"
#include "tests/any_run.h"
#include "tests/events.h"
#include "tests/temp_files.h"

static bool quick(void) {
    return getenv("MEMTRACE_QUICK") != NULL;
}

/* ---- reading all of it ----------------------------------------------------------------------- */

/* Reads a file to its end, or to what is wrong with it; *n items. */
static mt_status read_all(const char *path, uint64_t *n, mt_error *err) {
    mt_reader *r;
    mt_item item;
    mt_status status;
    *n = 0;
    *err = (mt_error){ MT_OK, "" };
    MT_TRY(mt_reader_open(&r, path, err));
    while ((status = mt_reader_next(r, &item, err)) == MT_OK && item.kind != MT_ITEM_END)
        ++*n;
    mt_reader_close(r);
    return status;
}

static mt_status read_bytes(const void *data, size_t bytes, uint64_t *n, mt_error *err) {
    return read_all(temp_write("bytes.mtb", data, bytes), n, err);
}

static bool same_text(const char *x, const char *y) {
    return x == y || (x != NULL && y != NULL && strcmp(x, y) == 0);
}

/* All but where they stand. */
static bool same_item(const mt_item *x, const mt_item *y) {
    bool place = (x->has & MT_HAS_PLACE) != 0 && !x->refused;
    return x->kind == y->kind && x->has == y->has && x->id == y->id && x->live == y->live &&
           x->stream == y->stream && x->bytes == y->bytes && x->layer == y->layer &&
           x->tag == y->tag && x->ctx == y->ctx && x->kv_ideal == y->kv_ideal &&
           x->device == y->device && x->private_pool == y->private_pool && x->stack == y->stack &&
           x->thread == y->thread && x->process == y->process && x->host == y->host &&
           x->time_ns == y->time_ns && x->refused == y->refused &&
           (!place || (x->segment == y->segment && x->offset == y->offset)) &&
           ((x->has & MT_HAS_ROUNDED) == 0 || x->refused || x->rounded == y->rounded) &&
           ((x->has & MT_HAS_EVENT) == 0 ||
            (same_event(x->event, y->event) && x->event->rounded == y->event->rounded &&
             x->event->time_ns == y->event->time_ns)) &&
           (x->kind != MT_ITEM_NOTE || same_text(x->text, y->text));
}

/* Two files tell the same items. */
static void same_files(const char *a, const char *b, const char *what) {
    mt_reader *r[2];
    mt_item x, y;
    mt_error err;
    assert_int_equal(mt_reader_open(&r[0], a, &err), MT_OK);
    assert_int_equal(mt_reader_open(&r[1], b, &err), MT_OK);
    for (uint64_t i = 0;; i++) {
        if (mt_reader_next(r[0], &x, &err) != MT_OK || mt_reader_next(r[1], &y, &err) != MT_OK)
            fail_msg("%s, item %llu: %s", what, (unsigned long long)i, err.text);
        if (!same_item(&x, &y))
            fail_msg("%s, item %llu: kinds %d and %d", what, (unsigned long long)i, x.kind, y.kind);
        if (x.kind == MT_ITEM_END)
            break;
    }
    assert_int_equal(r[0]->settings.capacity, r[1]->settings.capacity);
    assert_int_equal(r[0]->settings.timed, r[1]->settings.timed);
    assert_true(same_text(r[0]->settings.policy, r[1]->settings.policy));
    mt_reader_close(r[0]);
    mt_reader_close(r[1]);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A random run, written as each of two files. */
static void write_run(const char *policy, bool times, const char *const path[2]) {
    mt_source *source;
    mt_alloc *a;
    mt_trace *t[2];
    mt_error err;
    assert_int_equal(mt_source_sim(&source, (50 + below(300)) << 20, 2 << 20, &err), MT_OK);
    assert_int_equal(mt_alloc_open(&a, source, policy, &err), MT_OK);
    mt_alloc_stamp(a, times);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mt_trace_create(&t[i], path[i], times, &err), MT_OK);
        mt_trace_header(t[i], policy);
        mt_trace_header(t[i], "");
        mt_alloc_listen(a, mt_trace_listener(t[i]));
    }
    any_run(a);
    mt_alloc_close(a);
    source->close(source);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mt_trace_commit(t[i], times ? "interrupted" : NULL, &err), MT_OK);
}

/* What two policies need for the requests of a file. */
static void replay_file(const char *path, uint64_t peak[4]) {
    static const char *const by[2] = { "torch,expandable_segments:True", "bfc" };
    mt_source *source[2];
    mt_alloc *a[2];
    mt_replay replay;
    mt_reader *in;
    mt_error err;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mt_source_sim(&source[i], (uint64_t)1 << 36, 2 << 20, &err), MT_OK);
        assert_int_equal(mt_alloc_open(&a[i], source[i], by[i], &err), MT_OK);
    }
    assert_int_equal(mt_replay_open(&replay, a, 2, &err), MT_OK);
    assert_int_equal(mt_reader_open(&in, path, &err), MT_OK);
    assert_int_equal(mt_replay_all(&replay, in, NULL, &err), MT_OK);
    mt_reader_close(in);
    mt_replay_close(&replay);
    for (int i = 0; i < 2; i++) {
        peak[2 * i] = mt_alloc_ledger(a[i])->reserved.peak;
        peak[2 * i + 1] = mt_alloc_ledger(a[i])->segment_events;
        mt_alloc_close(a[i]);
        source[i]->close(source[i]);
    }
}

/* The text and the binary trace of a run: equal items, equal replays. Packed too. */
static void test_runs(void **state) {
    (void)state;
    static const char *const names[] = { "run.mtb", "run.mtb.gz", "run.mtb.zst" };
    const int rounds = quick() ? 6 : 60;
    seed = 815;
    for (int i = 0; i < rounds; i++)
        for (size_t p = 0; p < ANY_POLICIES; p++) {
            uint64_t text[4], binary[4];
            char paths[2][200];
            strcpy(paths[0], temp_path("run.trace"));
            strcpy(paths[1], temp_path(names[i % 3]));
            write_run(any_policies[p], i % 2 == 1, (const char *[]){ paths[0], paths[1] });
            same_files(paths[0], paths[1], any_policies[p]);
            replay_file(paths[0], text);
            replay_file(paths[1], binary);
            assert_memory_equal(text, binary, sizeof text);
        }
}

/* A pipe can be read once, and its bytes come when they come. */
static void test_pipe(void **state) {
    (void)state;
    static char data[4096];
    char path[32];
    int end[2];
    uint64_t n;
    mt_error err;
    const char *paths[2] = { temp_path("short.trace"), temp_path("short.mtb") };
    mt_trace *t;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mt_trace_create(&t, paths[i], false, &err), MT_OK);
        mt_trace_header(t, "only a note");
        assert_int_equal(mt_trace_commit(t, "out of memory", &err), MT_OK);
    }
    same_files(paths[0], paths[1], "no event");
    FILE *f = fopen(paths[1], "rb");
    size_t bytes = fread(data, 1, sizeof data, f);
    fclose(f);
    assert_int_equal(pipe(end), 0);
    assert_int_equal(write(end[1], data, bytes), bytes);
    close(end[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", end[0]);
    assert_int_equal(read_all(path, &n, &err), MT_OK);
    assert_int_equal(n, 2);
    close(end[0]);
}

/* ---- what only other programs' traces tell --------------------------------------------------- */

#define ITEMS 13

/* Operations, on two devices, with stacks, threads, places; one of a request from before. */
static void other_items(mt_item item[ITEMS]) {
    static const uint64_t live[ITEMS] = { [4] = 1, [6] = 1, [9] = 1 };
    for (int i = 0; i < ITEMS; i++)
        mt_item_clear(&item[i]);
    for (int i = 0; i < 3; i++) {
        item[i].kind = MT_ITEM_STACK;
        item[i].stack = (uint32_t)i + 1;
        item[i].id = i > 0;
        item[i].text = i == 1 ? "forward (model.py:12)" : "main (train.py:7)";
    }
    for (int i = 3; i < ITEMS; i++) {
        item[i].time_ns = (uint64_t)(i - 3) * 1000;
        item[i].live = (uint32_t)live[i];
        item[i].thread = 77;
        item[i].process = 4711;
    }
    item[3].kind = item[4].kind = item[7].kind = MT_ITEM_ALLOC;
    item[3].id = 10, item[3].bytes = 4096, item[3].stack = 2;
    item[4].id = 12, item[4].bytes = 5, item[4].device = 3, item[4].private_pool = 9;
    item[4].has = MT_HAS_PLACE | MT_HAS_ROUNDED, item[4].segment = 17, item[4].offset = 1 << 20;
    item[4].rounded = 512, item[4].stream = 4, item[4].layer = 11, item[4].tag = MT_KV;
    item[5].kind = MT_ITEM_TRIM, item[5].live = MT_NO_LIVE, item[5].device = 3;
    item[6].kind = MT_ITEM_USE, item[6].id = 12, item[6].stream = 5;
    item[7].id = 20, item[7].bytes = UINT64_MAX, item[7].refused = true, item[7].live = 2;
    item[7].has = MT_HAS_PLACE, item[7].host = true;
    item[8].kind = MT_ITEM_MARK, item[8].live = MT_NO_LIVE, item[8].ctx = 3, item[8].kv_ideal = 99;
    item[8].thread = item[8].process = 0;
    item[9].kind = MT_ITEM_FREE, item[9].id = 12, item[9].stack = 3;
    item[10].kind = MT_ITEM_FREE, item[10].id = 123456, item[10].live = MT_NO_LIVE;
    item[11].kind = MT_ITEM_HOLD, item[12].kind = MT_ITEM_GO;
    item[11].live = item[12].live = MT_NO_LIVE;
}

static const char *write_other(void) {
    static char path[200];
    mt_item item[ITEMS];
    mt_trace *t;
    mt_error err;
    other_items(item);
    strcpy(path, temp_path("other.mtb"));
    assert_int_equal(mt_trace_create(&t, path, true, &err), MT_OK);
    mt_trace_settings(t, &(mt_settings){ "torch,max_split_size_mb:20", 7, true });
    for (int i = 0; i < ITEMS; i++)
        mt_trace_item(t, &item[i]);
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
    return path;
}

static void test_other_items(void **state) {
    (void)state;
    mt_item item[ITEMS], read;
    mt_reader *r;
    mt_error err;
    other_items(item);
    assert_int_equal(mt_reader_open(&r, write_other(), &err), MT_OK);
    for (int i = 0; i < ITEMS; i++) {
        if (mt_reader_next(r, &read, &err) != MT_OK)
            fail_msg("%s", err.text);
        if (!same_item(&item[i], &read))
            fail_msg("item %d is not as it was written", i);
        if (read.kind == MT_ITEM_STACK)
            assert_string_equal(read.text, item[i].text);
    }
    assert_string_equal(r->settings.policy, "torch,max_split_size_mb:20");
    assert_int_equal(r->settings.capacity, 7);
    assert_true(r->settings.timed);
    assert_int_equal(mt_reader_next(r, &read, &err), MT_OK);
    assert_int_equal(read.kind, MT_ITEM_END);
    mt_reader_close(r);
}

static void expect_form(const char *name, const char *expected) {
    static char text[8192];
    mt_item item[ITEMS];
    mt_trace *t;
    mt_error err;
    other_items(item);
    assert_int_equal(mt_trace_create(&t, temp_path(name), false, &err), MT_OK);
    mt_trace_settings(t, &(mt_settings){ .timed = true });
    for (int i = 0; i < ITEMS; i++)
        mt_trace_item(t, &item[i]);
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
    FILE *f = fopen(temp_path(name), "r");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
}

#define CONTEXT "\"thread\": 77, \"process\": 4711"

/* What forms that need no events make of the same operations. */
static void test_other_forms(void **state) {
    (void)state;
    expect_form("o.folded", "main (train.py:7);forward (model.py:12) 4096\nkv;layer 11 5\n");
    expect_form("o.rmm.csv", "Thread,Time,Action,Pointer,Size,Stream\n"
                             "77,00:00:00.000000,allocate,0x200,4096,0\n"
                             "77,00:00:00.000001,allocate,0x400,5,0x4\n"
                             "77,00:00:00.000004,allocate failure,(nil),18446744073709551615,0\n"
                             "77,00:00:00.000006,free,0x400,5,0\n");
    expect_form(
        "o.jsonl",
        "{\"kind\": \"stack\", \"stack\": 1, \"frame\": \"main (train.py:7)\"}\n"
        "{\"kind\": \"stack\", \"stack\": 2, \"caller\": 1, \"frame\": \"forward (model.py:12)\"}\n"
        "{\"kind\": \"stack\", \"stack\": 3, \"caller\": 1, \"frame\": \"main (train.py:7)\"}\n"
        "{\"kind\": \"alloc\", \"id\": 10, \"requested\": 4096, \"tag\": \"other\", \"stack\": "
        "2, " CONTEXT ", \"ns\": 0}\n"
        "{\"kind\": \"alloc\", \"id\": 12, \"requested\": 5, \"tag\": \"kv\", \"layer\": 11, "
        "\"segment\": 17, \"offset\": 1048576, \"rounded\": 512, \"stream\": 4, \"device\": 3, "
        "\"private_pool\": 9, " CONTEXT ", \"ns\": 1000}\n"
        "{\"kind\": \"trim\", \"device\": 3, " CONTEXT ", \"ns\": 2000}\n"
        "{\"kind\": \"use\", \"id\": 12, \"stream\": 5, " CONTEXT ", \"ns\": 3000}\n"
        "{\"kind\": \"refused\", \"id\": 20, \"requested\": 18446744073709551615, \"tag\": "
        "\"other\", " CONTEXT ", \"host\": true, \"ns\": 4000}\n"
        "{\"kind\": \"mark\", \"ctx\": 3, \"kv_ideal\": 99, \"ns\": 5000}\n"
        "{\"kind\": \"free\", \"id\": 12, \"stack\": 3, " CONTEXT ", \"ns\": 6000}\n"
        "{\"kind\": \"free\", \"id\": 123456, " CONTEXT ", \"ns\": 7000}\n"
        "{\"kind\": \"hold\", " CONTEXT ", \"ns\": 8000}\n"
        "{\"kind\": \"go\", " CONTEXT ", \"ns\": 9000}\n");
}

/* An id that comes a second time gets a number of its own. */
static void test_ids_rise(void **state) {
    (void)state;
    mt_item item, read;
    mt_trace *t;
    mt_reader *r;
    mt_error err;
    assert_int_equal(mt_trace_create(&t, temp_path("ids.mtb"), false, &err), MT_OK);
    for (int i = 0; i < 4; i++) {
        mt_item_clear(&item);
        item.kind = i % 2 == 0 ? MT_ITEM_ALLOC : MT_ITEM_FREE;
        item.id = 0x7000;
        item.bytes = i % 2 == 0 ? 8 : 0;
        mt_trace_item(t, &item);
    }
    assert_int_equal(mt_trace_commit(t, NULL, &err), MT_OK);
    assert_int_equal(mt_reader_open(&r, temp_path("ids.mtb"), &err), MT_OK);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(mt_reader_next(r, &read, &err), MT_OK);
        assert_int_equal(read.id, 0x7000 + i / 2);
        assert_int_equal(read.live, 0);
    }
    mt_reader_close(r);
}

/* ---- files that are cut, changed, or of another version -------------------------------------- */

typedef struct bytes {
    uint8_t at[1 << 16];
    size_t n;
} bytes;

static void load(const char *path, bytes *b) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    b->n = fread(b->at, 1, sizeof b->at, f);
    assert_true(b->n < sizeof b->at);
    fclose(f);
}

/* Files with every kind of record, of a run and of operations. */
static void load_sample(int which, bytes *b) {
    char paths[2][200];
    if (which == 0) {
        load(write_other(), b);
        return;
    }
    seed = 99 + (uint64_t)which;
    strcpy(paths[0], temp_path("sample.trace"));
    strcpy(paths[1], temp_path("sample.mtb"));
    write_run(any_policies[2 * which - 2], which == 2, (const char *[]){ paths[0], paths[1] });
    load(paths[1], b);
}
#define SAMPLES 3

static void test_cut_everywhere(void **state) {
    (void)state;
    static bytes b;
    uint64_t n, whole;
    mt_error err;
    for (int i = 0; i < SAMPLES; i++) {
        load_sample(i, &b);
        assert_int_equal(read_bytes(b.at, b.n, &whole, &err), MT_OK);
        for (size_t k = 0; k < b.n; k += quick() && i > 0 ? 13 : 1) {
            assert_int_equal(read_bytes(b.at, k, &n, &err), MT_BAD);
            assert_non_null(strstr(err.text, "/bytes.mtb:"));
            assert_true(n <= whole);
        }
    }
}

/* One that is appended as it comes is good up to its last whole record. */
static void test_growing(void **state) {
    (void)state;
    static bytes b;
    uint64_t n, last = 0, whole;
    mt_error err;
    load_sample(1, &b);
    b.at[10] |= MT_MTB_GROWS;
    assert_int_equal(read_bytes(b.at, b.n, &whole, &err), MT_OK);
    for (size_t k = MT_MTB_HEADER; k < b.n; k++) {
        if (read_bytes(b.at, k, &n, &err) != MT_OK)
            fail_msg("%zu bytes: %s", k, err.text);
        assert_true(n + 1 >= last && n <= whole + 1);
        last = n;
    }
    assert_int_equal(last, whole + 1); /* and a note that it is cut */
}

static void test_random_changes(void **state) {
    (void)state;
    static bytes b;
    const int rounds = quick() ? 2000 : 40000;
    uint64_t n, refused = 0;
    mt_error err;
    for (int i = 0; i < SAMPLES; i++) {
        load_sample(i, &b);
        seed = 4711;
        for (int k = 0; k < rounds; k++) {
            bytes *changed = malloc(sizeof *changed);
            assert_non_null(changed);
            *changed = b;
            for (uint64_t j = 0; j < 1 + below(3); j++)
                changed->at[below(b.n)] = (uint8_t)below(256);
            mt_status status = read_bytes(changed->at, b.n, &n, &err);
            free(changed);
            assert_true(status == MT_OK || status == MT_BAD);
            assert_true(status == MT_OK || strstr(err.text, "/bytes.mtb") != NULL);
            refused += status == MT_BAD;
        }
    }
    assert_true(refused > (uint64_t)rounds);
}

/* A record of a kind from the future, of any length, between any two. */
static void test_unknown_records(void **state) {
    (void)state;
    static bytes b;
    static uint8_t with[400000];
    static const uint8_t unknown[] = { 0x60, 5, 1, 2, 3, 4, 5 };
    static const size_t long_body = 300000;
    uint64_t n, whole;
    mt_error err;
    load_sample(0, &b);
    assert_int_equal(read_bytes(b.at, b.n, &whole, &err), MT_OK);
    b.at[b.n - 8]++; /* one record more */
    memcpy(with, b.at, MT_MTB_HEADER);
    memcpy(with + MT_MTB_HEADER, unknown, sizeof unknown);
    memcpy(with + MT_MTB_HEADER + sizeof unknown, b.at + MT_MTB_HEADER, b.n - MT_MTB_HEADER);
    assert_int_equal(read_bytes(with, b.n + sizeof unknown, &n, &err), MT_OK);
    assert_int_equal(n, whole);
    size_t at = MT_MTB_HEADER;
    memset(with, 0xff, sizeof with);
    memcpy(with, b.at, MT_MTB_HEADER);
    with[at++] = 0x7f;
    for (size_t k = long_body; k > 0; k >>= 7)
        with[at++] = (uint8_t)((k & 0x7f) | (k >= 0x80 ? 0x80 : 0));
    memcpy(with + at + long_body, b.at + MT_MTB_HEADER, b.n - MT_MTB_HEADER);
    assert_int_equal(read_bytes(with, at + long_body + b.n - MT_MTB_HEADER, &n, &err), MT_OK);
    assert_int_equal(n, whole);
}

typedef struct broken {
    const char *words, *bytes;
    size_t n;
} broken;
#define BYTES(text) text, sizeof text - 1

static void test_broken(void **state) {
    (void)state;
    static const broken list[] = {
        { "ends before its last record", BYTES("") },
        { "a length beyond", BYTES("\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02") },
        { "a body of 65537 bytes", BYTES("\x01\x81\x80\x04") },
        { "slot 0 has no segment", BYTES("\x05\x01\x00") },
        { "the record ends 1 bytes early", BYTES("\x05\x00") },
        { "out of its range", BYTES("\x05\x0b\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02") },
        { "out of its range", BYTES("\x05\x03\x80\x80\x01") },
        { "out of its range", BYTES("\x05\x03\x80\x08\x01") },
        { "request 0 is not live", BYTES("\x06\x02\x00\x00") },
        { "a segment without its number", BYTES("\x07\x03\x00\x00\x00") },
        { "rounded is 0", BYTES("\x07\x03\x01\x00\x00") },
        { "segment 0 is already allocated",
          BYTES("\x07\x04\x01\x00\x04\x09\x07\x04\x01\x00\x04\x09") },
        { "the block ends at", BYTES("\x07\x04\x01\x00\x04\x09\x05\x02\x04\x0a") },
        { "request 0 is not live", BYTES("\x0f\x02\x01\x00") },
        { "a request of 0 bytes", BYTES("\x0d\x02\x00\x00") },
        { "did not come before it", BYTES("\x04\x02\x00\x01") },
        { "says that it is number 5", BYTES("\x16\x10\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0") },
        { "more bytes behind", BYTES("\x16\x10\0\0\0\0\0\0\0\0\x00\0\0\0\0\0\0\0\x01") },
    };
    uint64_t n;
    mt_error err;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        uint8_t data[128] = MT_MTB_MAGIC "\x01";
        memcpy(data + MT_MTB_HEADER, list[i].bytes, list[i].n);
        mt_status status = read_bytes(data, MT_MTB_HEADER + list[i].n, &n, &err);
        if (status != MT_BAD || strstr(err.text, list[i].words) == NULL)
            fail_msg("%zu: '%s', expected '%s'", i, err.text, list[i].words);
    }
    uint8_t header[MT_MTB_HEADER] = MT_MTB_MAGIC "\x02";
    assert_int_equal(read_bytes(header, sizeof header, &n, &err), MT_BAD);
    assert_non_null(strstr(err.text, "version 2, flags 0, expected version 1"));
}

/* ---- the index ------------------------------------------------------------------------------- */

static uint64_t number_at(const bytes *b, size_t *at) {
    uint64_t n = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = b->at[(*at)++];
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return n;
    }
}

/* The last 16 bytes lead to the index, each entry to a mark, with what was reserved there. */
static void test_index(void **state) {
    (void)state;
    static bytes b;
    mt_reader *r;
    mt_item item;
    mt_error err;
    uint64_t reserved = 0, requested = 0, marks = 0;
    load_sample(2, &b);
    size_t at = 0;
    for (int i = 7; i >= 0; i--)
        at = at << 8 | b.at[b.n - 16 + (size_t)i];
    assert_int_equal(mt_reader_open(&r, temp_write("index.mtb", b.at, b.n), &err), MT_OK);
    do {
        assert_int_equal(mt_reader_next(r, &item, &err), MT_OK);
        const mt_event *e = (item.has & MT_HAS_EVENT) != 0 ? item.event : NULL;
        if (e == NULL || e->kind == MT_EV_OOM)
            continue;
        if (e->kind == MT_EV_MARK) {
            assert_int_equal(b.at[at], MT_MTB_INDEX);
            at += 2;
            size_t mark = number_at(&b, &at);
            assert_int_equal(b.at[mark] & ~MT_MTB_TIMED, MT_MTB_MARK);
            assert_int_equal(number_at(&b, &at), e->seq);
            assert_int_equal(number_at(&b, &at), requested);
            assert_int_equal(number_at(&b, &at), reserved);
            marks++;
            continue;
        }
        bool adds = e->kind == MT_EV_ALLOC || e->kind == MT_EV_SEGMENT_ALLOC ||
                    e->kind == MT_EV_SEGMENT_MAP;
        bool block = e->kind == MT_EV_ALLOC || e->kind == MT_EV_FREE;
        uint64_t *sum = block ? &requested : &reserved, n = block ? e->requested : e->rounded;
        *sum += adds ? n : -n;
    } while (item.kind != MT_ITEM_END);
    mt_reader_close(r);
    assert_true(marks > 5 && b.at[at] == MT_MTB_END);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_other_items),
        cmocka_unit_test(test_ids_rise),
        cmocka_unit_test(test_other_forms),
        cmocka_unit_test(test_cut_everywhere),
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_unknown_records),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_index),
    };
    return cmocka_run_group_tests_name("mtb", tests, temp_setup, temp_teardown);
}
