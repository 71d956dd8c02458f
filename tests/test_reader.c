/* test_reader.c - recordings read one item at a time: formats are told by content, whatever the
 * file is and however long; memory is for what is live; what is broken is refused with its line.
 *
 * Every format's sample is read whole, cut at every byte, and with bytes changed at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/output.h"
#include "traces/check.h"
#include "traces/replay.h"
#include "tests/foreign_samples.h"
#include "tests/read_items.h"

/* ---- samples --------------------------------------------------------------------------------- */

static const char trace[] =
    "# memtrace trace 1\n"
    "# policy direct\n"
    "# seq kind step stream id segment offset requested rounded tag layer pool ns\n"
    "0 segment_alloc -1 0 0 0 0 1000 4096 weights -1 direct 0\n"
    "1 alloc -1 0 0 0 0 1000 1024 weights 3 direct 5\n"
    "2 mark -1 0 - - 0 0 0 - -1 - 7\n"
    "3 free 0 0 0 0 0 1000 1024 weights 3 direct 9\n"
    "4 segment_free 0 0 - 0 0 0 4096 other -1 direct 9\n"
    "5 mark 0 0 - - 7 77 0 - -1 - 10\n"
    "# interrupted\n";

static const char schedule[] = "# torch 2.15.0+cu132  transformers 5.24.0\n"
                               "# device simulated, 51539607552 bytes, compute capability 8.6\n"
                               "# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True OTHER=1\n"
                               "# row: step tokens allocated ...\n"
                               "P 0+0 2097152\n"
                               "P 0+2097152 2097152\n"
                               "a 3000\n"
                               "a 500 0+3072\n"
                               "= load 0 3584 2097152 3500 3584 0 0 1 3584 2097152 3500 2 0 1 0\n"
                               "f 1\n"
                               "= 0 12 512 2097152 500 512 0 0 1 3584 2097152 3500 2 1 1 0\n";

static const char recording[] =
    "# torch 2.12.1+cu126  simulated device\n"
    "# trace example seed 25\n"
    "# options max_split_size_mb:20\n"
    "# device_bytes 85899345920\n"
    "# fraction 0.5\n"
    "# addresses down\n"
    "# op\tid\tbytes\tstream\tsegment\toffset\tblock\trequested\tallocated\tactive\treserved\t"
    "inactive_split\tsegments\tdriver\n"
    "a\t7\t1000\t3\t0\t0\t1024\t1000\t1024\t1024\t2097152\t2096128\t1\tM2097152\n"
    "a\t8\t99999999999\t0\tOOM\tOOM\tOOM\t1000\t1024\t1024\t2097152\t2096128\t1\tX99999999999 F9\n"
    "rs\t7\t-\t2\t-\t-\t-\t1000\t1024\t1024\t2097152\t2096128\t1\t-\n"
    "hold\t-\t-\t-\t-\t-\t-\t1000\t1024\t1024\t2097152\t2096128\t1\t-\n"
    "f\t7\t-\t-\t-\t-\t-\t1000\t0\t1024\t2097152\t2096128\t1\t-\n"
    "go\t-\t-\t-\t-\t-\t-\t1000\t0\t1024\t2097152\t2096128\t1\t-\n"
    "ec\t-\t-\t-\t-\t-\t-\t0\t0\t0\t0\t0\t0\tF0 U1+512:1024\n"
    "snap\t1\n"
    "@\t4\t512\t1024\t1000\tinactive\tlarge\t3\n"
    "! max_split_size -1\n"
    "~ free_completed 2 512 1000\n"
    "~ oom 4096 - 20971520\n";

/* Only what the program did. */
static const char requests[] = "# torch 2.15.0  public case\n"
                               "# op\tid\tbytes\tstream\n"
                               "a\t1073741823\t512\t0\n"
                               "\n"
                               "f\t3\t-\t0\n"
                               "f\t1073741823\t-\t0\n"
                               "a\t1073741823\t512\t0\n";

typedef struct sample {
    const mt_format *format;
    const char *text;
    size_t n;
} sample;

#define TEXT(f, text)                                                                              \
    { &mt_format_##f, text, sizeof text - 1 }
static bytes pprof, nsight;
static sample samples[] = {
    TEXT(trace, trace),
    TEXT(schedule, schedule),
    TEXT(recording, recording),
    TEXT(recording, requests),
    TEXT(rmm, rmm),
    TEXT(stalloc, stalloc),
    TEXT(minimalloc, minimalloc),
    TEXT(allocatorsim, allocatorsim),
    TEXT(chrome, chrome),
    { &mt_format_pprof, pprof.at, 0 },
    { &mt_format_nsight, nsight.at, 0 },
};
#define SAMPLES (sizeof samples / sizeof *samples)

static int setup(void **state) {
    int status = temp_setup(state);
    pprof = pprof_sample();
    nsight = nsight_sample();
    samples[SAMPLES - 2].n = pprof.n;
    samples[SAMPLES - 1].n = nsight.n;
    return status;
}

/* ---- reading all of it ----------------------------------------------------------------------- */

/* A schedule begins as a recording does: it comes first in the list. */
static bool recordings_both(const sample *s, const mt_format *f) {
    return s->format == &mt_format_schedule && f == &mt_format_recording;
}

static void test_formats(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        mt_reader *r;
        mt_error err;
        const sample *s = &samples[i];
        const char *path = temp_write("recording", s->text, s->n);
        assert_int_equal(mt_reader_open(&r, path, &err), MT_OK);
        assert_ptr_equal(r->format, s->format);
        assert_ptr_equal(mt_format_find(r->format->word), r->format);
        mt_reader_close(r);
        for (size_t j = 0; mt_formats[j] != NULL; j++)
            assert_int_equal(mt_formats[j]->detect(s->text, s->n),
                             mt_formats[j] == s->format || recordings_both(s, mt_formats[j]));
    }
}

static void test_trace(void **state) {
    (void)state;
    items all;
    read_sample(trace, sizeof trace - 1, &all);
    assert_int_equal(all.count, 6);
    assert_int_equal(all.notes, 2); /* policy, interrupted */
    const mt_item *x = all.at;
    assert_true(x[0].kind == MT_ITEM_EVENT && x[0].has == MT_HAS_EVENT && x[0].line == 4);
    assert_true(x[1].kind == MT_ITEM_ALLOC && x[1].id == 0 && x[1].live == 0);
    assert_true(x[1].bytes == 1000 && x[1].tag == MT_WEIGHTS && x[1].layer == 3);
    assert_true((x[1].has & MT_HAS_PLACE) != 0 && x[1].rounded == 1024 && x[1].time_ns == 5);
    assert_true(x[2].kind == MT_ITEM_MARK && x[3].kind == MT_ITEM_FREE && x[3].live == 0);
    assert_true(x[5].kind == MT_ITEM_MARK && x[5].ctx == 7 && x[5].kv_ideal == 77);
}

static void test_schedule(void **state) {
    (void)state;
    items all;
    read_sample(schedule, sizeof schedule - 1, &all);
    assert_int_equal(all.count, 5);
    const mt_item *x = all.at;
    assert_true(x[0].kind == MT_ITEM_ALLOC && x[0].bytes == 3000 && x[0].has == MT_HAS_CALLS);
    assert_true(x[1].has == (MT_HAS_CALLS | MT_HAS_PLACE) && x[1].segment == 0 &&
                x[1].offset == 3072);
    assert_true(x[2].kind == MT_ITEM_MARK && x[2].ctx == 0 && x[2].counters == 14);
    assert_true(x[3].kind == MT_ITEM_FREE && x[3].id == 0 && x[3].live == x[0].live);
    assert_true(x[4].ctx == 12 && x[4].line == 11);
}

static void test_recording(void **state) {
    (void)state;
    items all;
    read_sample(recording, sizeof recording - 1, &all);
    assert_int_equal(all.count, 12);
    const mt_item *x = all.at;
    assert_true(x[0].id == 7 && x[0].stream == 3 && x[0].live == 0 && x[0].rounded == 1024);
    assert_true(x[1].id == 8 && x[1].refused && x[1].live == 1);
    assert_true(x[2].kind == MT_ITEM_USE && x[2].live == 0 && x[2].stream == 2);
    assert_true(x[3].kind == MT_ITEM_HOLD && x[5].kind == MT_ITEM_GO && x[6].kind == MT_ITEM_TRIM);
    assert_true(x[4].kind == MT_ITEM_FREE && x[4].live == 0);
    assert_true(x[7].kind == MT_ITEM_SNAPSHOT && x[7].bytes == 1);
    assert_true(x[8].kind == MT_ITEM_BLOCK && x[8].segment == 4 && x[8].offset == 512 &&
                x[8].rounded == 1024 && x[8].bytes == 1000 && x[8].stream == 3);
    assert_true(x[9].kind == MT_ITEM_STATISTIC && x[9].value == -1);
    assert_true(x[10].history.action == MT_ACTION_FREE_COMPLETED && x[10].history.segment == 2);
    assert_true(x[11].history.action == MT_ACTION_OOM && x[11].history.offset == 4096 &&
                x[11].history.bytes == 20971520);
}

/* Rows of four columns; a free of what was requested before; an id used again. */
static void test_requests(void **state) {
    (void)state;
    items all;
    read_sample(requests, sizeof requests - 1, &all);
    assert_int_equal(all.count, 4);
    assert_true(all.at[0].has == 0 && all.at[0].id == 1073741823 && all.at[0].live == 0);
    assert_true(all.at[1].kind == MT_ITEM_FREE && all.at[1].live == MT_NO_LIVE);
    assert_true(all.at[2].live == 0 && all.at[3].live == 0 && all.at[3].line == 7);
}

static void test_settings(void **state) {
    (void)state;
    static const struct {
        const char *sample, *policy;
        uint64_t capacity;
    } expected[] = {
        { recording,
          "torch,version:2.12.1,max_split_size_mb:20,set_per_process_memory_fraction:0.5,"
          "addresses:down",
          85899345920 },
        { schedule, "torch,version:2.15.0,expandable_segments:True", 51539607552 },
    };
    for (size_t i = 0; i < 2; i++) {
        mt_reader *r;
        mt_item item;
        mt_error err;
        const char *text = expected[i].sample;
        assert_int_equal(mt_reader_open(&r, temp_write("recording", text, strlen(text)), &err),
                         MT_OK);
        do
            assert_int_equal(mt_reader_next(r, &item, &err), MT_OK);
        while (item.kind == MT_ITEM_NOTE);
        assert_string_equal(r->settings.policy, expected[i].policy);
        assert_int_equal(r->settings.capacity, expected[i].capacity);
        mt_reader_close(r);
    }
}

/* ---- pipes, packed files, long files --------------------------------------------------------- */

/* A pipe can be read once. */
static void test_pipe(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        items all, piped;
        char path[32];
        int end[2];
        mt_error err;
        read_sample(samples[i].text, samples[i].n, &all);
        assert_int_equal(pipe(end), 0);
        assert_int_equal(write(end[1], samples[i].text, samples[i].n), samples[i].n);
        close(end[1]);
        snprintf(path, sizeof path, "/dev/fd/%d", end[0]);
        if (read_file(path, &piped, &err) != MT_OK)
            fail_msg("%s", err.text);
        assert_true(piped.count == all.count && piped.notes == all.notes);
        close(end[0]);
    }
}

static void write_packed(const char *path, const char *text, size_t n, int times) {
    mt_output *o;
    mt_error err;
    assert_int_equal(mt_output_open(&o, path, &err), MT_OK);
    for (int i = 0; i < times; i++)
        mt_output_write(o, text, n);
    assert_int_equal(mt_output_commit(o, &err), MT_OK);
}

static void test_packed(void **state) {
    (void)state;
    static const char *const names[] = { "packed.gz", "packed.zst" };
    for (size_t i = 0; i < 2 * SAMPLES; i++) {
        items all, packed;
        mt_error err;
        read_sample(samples[i / 2].text, samples[i / 2].n, &all);
        write_packed(temp_path(names[i % 2]), samples[i / 2].text, samples[i / 2].n, 1);
        assert_int_equal(read_file(temp_path(names[i % 2]), &packed, &err), MT_OK);
        assert_true(packed.count == all.count && packed.notes == all.notes);
    }
}

static long peak_kib(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

/* More than 1 GiB of text, most of it notes, so that it takes a second. */
static void test_long(void **state) {
    (void)state;
    const int times = getenv("MEMTRACE_QUICK") != NULL ? 64 : 1100;
    const size_t note = 60000, n = 1 << 20;
    char *text = malloc(n);
    items all;
    mt_error err;
    assert_non_null(text);
    memset(text, '#', n);
    size_t at = (size_t)sprintf(text, "# torch 2.15.0\n");
    text[at] = '#';
    for (size_t i = note; i < n - 100; i += note)
        text[i] = '\n';
    memcpy(text + n - 32, "\na\t5\t1\t0\nf\t5\t-\t0\n", 17);
    memset(text + n - 15, '#', 14);
    text[n - 1] = '\n';
    write_packed(temp_path("long.gz"), text, n, times);
    free(text);
    long before = peak_kib();
    if (read_file(temp_path("long.gz"), &all, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(all.count, MOST);
    assert_true(peak_kib() - before < 4096);
}

/* Many requests, a few at a time, under ids from all of their range: few numbers. */
static void test_live_numbers(void **state) {
    (void)state;
    enum { LIVE = 3 };
    const uint64_t count = getenv("MEMTRACE_QUICK") != NULL ? 20000 : 300000;
    mt_reader *r;
    mt_item item;
    mt_error err;
    const char *path = temp_path("live.tsv");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "# torch 2.15.0\n");
    for (uint64_t i = 0; i < count; i++) {
        fprintf(f, "a\t%llu\t512\t0\n", (unsigned long long)(i * UINT64_C(0x9e3779b97f4a7c15)));
        if (i >= LIVE)
            fprintf(f, "f\t%llu\t-\t0\n",
                    (unsigned long long)((i - LIVE) * UINT64_C(0x9e3779b97f4a7c15)));
    }
    fclose(f);
    long before = peak_kib();
    assert_int_equal(mt_reader_open(&r, path, &err), MT_OK);
    do {
        assert_int_equal(mt_reader_next(r, &item, &err), MT_OK);
        if (item.kind != MT_ITEM_NOTE && item.kind != MT_ITEM_END)
            assert_true(item.live <= LIVE);
    } while (item.kind != MT_ITEM_END);
    mt_reader_close(r);
    assert_true(peak_kib() - before < 4096);
}

/* ---- broken recordings ----------------------------------------------------------------------- */

static void test_broken_schedule(void **state) {
    (void)state;
    changed(schedule, "simulated, 5", "simulated, x", 2, "the device's bytes, from 1 to");
    changed(schedule, "simulated, 5", "simulated, 99999995", 2, "the device's bytes, from 1 to");
    changed(schedule, "P 0+0 ", "P 0 ", 5, "SEGMENT+OFFSET SIZE");
    changed(schedule, "P 0+0 ", "P 4294967296+0 ", 5, "SEGMENT+OFFSET SIZE");
    changed(schedule, "P 0+0 ", "Q 0+0 ", 5, "a, f, S, R, P, U, = or #");
    changed(schedule, "P 0+0 ", "S 0+0 ", 5, "S SIZE");
    changed(schedule, "a 3000", "a", 7, "a line that begins with");
    changed(schedule, "a 3000", "", 7, "a line that begins with");
    changed(schedule, "a 3000", "a 0", 7, "a SIZE");
    changed(schedule, "a 3000", "a 18446744073709551616", 7, "a SIZE");
    changed(schedule, "a 3000", "a 3000 ", 7, "SEGMENT+OFFSET");
    changed(schedule, "0+3072", "0+3072 ", 8, "SEGMENT+OFFSET");
    changed(schedule, "load 0 ", "load x ", 9, "14 counters");
    changed(schedule, " 2 0 1 0\n", " 2 0 1\n", 9, "14 counters");
    changed(schedule, " 2 0 1 0\n", " 2 0 1 0 5\n", 9, "14 counters");
    changed(schedule, "f 1", "f 2", 10, "below the number of requests");
    changed(schedule, "f 1", "f -1", 10, "below the number of requests");
    changed(schedule, "f 1", "f 1\nf 1", 11, "already freed");
}

static void test_broken_recording(void **state) {
    (void)state;
    changed(recording, "85899345920", "1125899906842625", 4, "the device's bytes, from 1 to");
    changed(recording, "a\t7", "b\t7", 8, "op is 'b', expected a, f, rs");
    changed(recording, "a\t7", "a\t-", 8, "id is '-'");
    changed(recording, "a\t7\t1000", "a\t7\t0", 8, "bytes is '0'");
    changed(recording, "a\t7\t1000\t3", "a\t7\t1000\t-", 8, "stream is '-'");
    changed(recording, "a\t7\t1000\t3\t0", "a\t7\t1000\t3\t-", 8, "segment, offset, block");
    changed(recording, "1000\t3\t0", "1000\t3\t4294967296", 8, "segment, offset, block");
    changed(recording, "\t2097152\t2096128", "\t2MiB\t2096128", 8, "reserved is '2MiB'");
    changed(recording, "M2097152", "N2097152", 8, "driver is 'N2097152'");
    changed(recording, "M2097152", "", 8, "driver is ''");
    changed(recording, "M2097152", "M2097152 ", 8, "driver is");
    changed(recording, "X99999999999 F9", "X99999999999  F9", 9, "driver is");
    changed(recording, "a\t8", "a\t7", 9, "id 7 is already live");
    changed(recording, "hold\t-", "hold", 11, "13 columns, expected 14");
    changed(recording, "snap\t1", "snap\t-1", 15, "snap is '-1'");
    changed(recording, "snap\t1", "snap", 15, "snap is ''");
    changed(recording, "snap\t1", "snap\t0", 16, "more rows of blocks");
    changed(recording, "! max", "ec\n! max", 17, "1 columns");
    changed(recording, "inactive\tlarge", "inactive", 16, "expected @ SEGMENT");
    changed(recording, " -1\n", " none\n", 17, "! KEY VALUE");
    changed(recording, "free_completed", "freed", 18, "~ ACTION SEGMENT OFFSET SIZE");
    changed(recording, "4096 - ", "4096 0 ", 19, "~ oom FREE - SIZE");
    changed(requests, "a\t1073741823\t512\t0\n\n", "a\t1073741823\t512\t0\t0\n", 3, "5 columns");
    changed(requests, "f\t3\t-\t0", "f\t3\t-", 5, "3 columns, expected 4");
}

/* Rows of blocks must follow their snap, as many as it says. */
static void test_missing_blocks(void **state) {
    (void)state;
    changed(recording, "snap\t1", "snap\t2", 17, "1 rows of blocks (@) are missing");
    changed(recording, "snap\t1", "snap\t18446744073709551615", 17, "are missing");
    char text[4096];
    int n = snprintf(text, sizeof text, "%ssnap\t3\n", recording);
    refused(text, (size_t)n, 21, "3 rows of blocks (@) are missing");
}

/* Cut anywhere it is refused, or read up to a line's end; and never anything worse. */
static void test_cut_everywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t n = 0; n < samples[i].n; n++) {
            items all;
            mt_error err;
            mt_status status = read_text(samples[i].text, n, &all, &err);
            assert_true(status == MT_OK || status == MT_BAD);
            assert_true(status == MT_OK || strstr(err.text, "/recording:") != NULL);
        }
}

static void test_random_changes(void **state) {
    (void)state;
    static const char letters[] = "0123456789 -+:\t\n#@!~=afrsFPX\0\xff";
    const int rounds = getenv("MEMTRACE_QUICK") != NULL ? 500 : 5000;
    uint64_t x = 42;
    for (int i = 0; i < rounds; i++) {
        char text[4096];
        items all;
        mt_error err;
        const sample *s = &samples[(size_t)i % SAMPLES];
        size_t n = s->n;
        memcpy(text, s->text, n);
        for (int j = 0; j < 1 + i % 3; j++) {
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            text[(x >> 33) % n] = letters[(x >> 20) % (sizeof letters - 1)];
        }
        mt_status status = read_text(text, n, &all, &err);
        assert_true(status == MT_OK || status == MT_BAD);
        assert_true(status == MT_OK || strstr(err.text, "/recording") != NULL);
    }
}

/* ---- replaying ------------------------------------------------------------------------------- */

#define PLAYERS 5

/* A recording through up to PLAYERS policies side by side. */
typedef struct players {
    mt_source *source[PLAYERS];
    mt_alloc *alloc[PLAYERS];
    mt_replay replay;
} players;

static void play_all(players *p, const char *path, const char *const *policies, size_t n,
                     uint64_t capacity) {
    mt_reader *in;
    mt_error err;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(mt_source_sim(&p->source[i], capacity, 2 << 20, &err), MT_OK);
        assert_int_equal(mt_alloc_open(&p->alloc[i], p->source[i], policies[i], &err), MT_OK);
    }
    assert_int_equal(mt_replay_open(&p->replay, p->alloc, n, &err), MT_OK);
    if (mt_reader_open(&in, path, &err) != MT_OK ||
        mt_replay_all(&p->replay, in, NULL, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_reader_close(in);
}

static void end_play(players *p) {
    for (size_t i = 0; i < p->replay.n; i++) {
        mt_alloc_close(p->alloc[i]);
        p->source[i]->close(p->source[i]);
    }
    mt_replay_close(&p->replay);
}

static const char *const policies[PLAYERS] = { "torch", "torch,expandable_segments:True",
                                               "block:2MiB", "direct", "bfc" };

/* Traces that release 0.1.0 wrote, and what it said of them. */
static void test_old_traces(void **state) {
    (void)state;
    static const char *const paths[] = { "tests/recordings/memtrace-0.1.0-plain.trace",
                                         "tests/recordings/memtrace-0.1.0-expandable.trace" };
    for (int i = 0; i < 2; i++) {
        players p;
        play_all(&p, paths[i], policies, 1, (uint64_t)48 << 30);
        assert_int_equal(p.replay.requests, 94);
        assert_int_equal(mt_alloc_ledger(p.alloc[0])->requested.peak, 597968);
        assert_int_equal(mt_alloc_ledger(p.alloc[0])->reserved.peak, 2097152);
        end_play(&p);
    }
}

/* Policies side by side reserve what each reserves alone. */
static void test_side_by_side(void **state) {
    (void)state;
    const char *path = "tests/recordings/memtrace-0.1.0-plain.trace";
    players all, one;
    play_all(&all, path, policies, PLAYERS, 1 << 30);
    for (size_t i = 0; i < PLAYERS; i++) {
        play_all(&one, path, &policies[i], 1, 1 << 30);
        assert_int_equal(mt_alloc_ledger(one.alloc[0])->reserved.peak,
                         mt_alloc_ledger(all.alloc[i])->reserved.peak);
        assert_int_equal(mt_alloc_ledger(one.alloc[0])->segment_events,
                         mt_alloc_ledger(all.alloc[i])->segment_events);
        end_play(&one);
    }
    end_play(&all);
}

/* A refused request is counted, its free left out, and the first one told with its line. */
static void test_refused(void **state) {
    (void)state;
    static const char text[] = "# torch 2.15.0\n"
                               "a\t0\t12000000\t0\n"
                               "a\t1\t20000000\t0\n"
                               "f\t1\t-\t0\n"
                               "a\t2\t30000000\t0\n"
                               "f\t0\t-\t0\n";
    players p;
    play_all(&p, temp_write("refused", text, strlen(text)), policies, 1, 16 << 20);
    assert_int_equal(p.replay.requests, 3);
    assert_int_equal(p.replay.refused[0].count, 2);
    assert_int_equal(p.replay.refused[0].line, 3);
    assert_int_equal(p.replay.refused[0].first.request.bytes, 20000000);
    assert_int_equal(p.replay.refused[0].first.source_free, 4 << 20);
    assert_int_equal(mt_alloc_ledger(p.alloc[0])->requested.current, 0);
    end_play(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_live_numbers),
        cmocka_unit_test(test_old_traces),
        cmocka_unit_test(test_broken_schedule),
        cmocka_unit_test(test_broken_recording),
        cmocka_unit_test(test_missing_blocks),
        cmocka_unit_test(test_cut_everywhere),
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("reader", tests, setup, temp_teardown);
}
