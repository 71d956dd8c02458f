/* test_predict.c - what Hugging Face's GPT-2 takes from PyTorch, held against recordings of it.
 *
 * A recording is the table of counters after every token (.tsv) or the schedule of every
 * allocation, free and driver call (schedule-*.txt.gz). Its header says what was run; the run is
 * made again and written in the same words, and the two texts must be equal (tests/recordings.h
 * says where they lie). For other shapes and settings the last row and a checksum of the schedule
 * are kept here. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/input.h"
#include "base/size.h"
#include "predict/gpt2.h"
#include "tests/interrupts.h"
#include "tests/recordings.h"

#define CONTEXTS_MOST 2048

/* ---- a run, described by the header of a recording ------------------------------------------- */

typedef struct recorded_run {
    mt_predict_options o;
    uint64_t capacity;
    char policy[512];
    uint32_t contexts[CONTEXTS_MOST];
} recorded_run;

/* Copies what follows name in the text, up to one of the characters of end; false if it is
 * absent. */
static bool value_of(const char *text, const char *name, const char *end, char *out, size_t room) {
    const char *at = strstr(text, name);
    if (at == NULL)
        return false;
    at += strlen(name);
    snprintf(out, room, "%.*s", (int)strcspn(at, end), at);
    return true;
}

static uint64_t number_of(const char *text, const char *name, uint64_t standard) {
    char value[32];
    uint64_t n = standard;
    if (value_of(text, name, " ,;)\n", value, sizeof value))
        assert_true(mt_parse_u64(value, 0, UINT64_MAX, &n));
    return n;
}

static void read_model(mt_config *c, const char *header) {
    assert_true(mt_config_preset("gpt2", c));
    c->layers = (uint32_t)number_of(header, "n_layer=", c->layers);
    c->heads = (uint32_t)number_of(header, "n_head=", c->heads);
    c->width = (uint32_t)number_of(header, "n_embd=", c->width);
    c->inner = (uint32_t)number_of(header, "n_inner=", 4 * c->width);
    c->vocab = (uint32_t)number_of(header, "vocab_size=", c->vocab);
    c->positions = (uint32_t)number_of(header, "n_positions=", c->positions);
    c->tied = strstr(header, "tie_word_embeddings=False") == NULL;
    c->dtype = strstr(header, "bfloat16") != NULL  ? MT_BF16
               : strstr(header, "float16") != NULL ? MT_F16
                                                   : MT_F32;
}

static const char *variable(const char *header, const char *name, char *out, size_t room) {
    char key[64];
    snprintf(key, sizeof key, " %s=", name);
    return value_of(header, key, " \n", out, room) ? out : NULL;
}

static void read_environment(recorded_run *r, const char *header, const char *release) {
    char a[64], b[64], c[64], d[64], settings[400];
    mt_predict_environment e = {
        .blas_config = variable(header, "CUBLAS_WORKSPACE_CONFIG", a, sizeof a),
        .blas_cache = variable(header, "TORCH_CUBLAS_WORKSPACE_CACHE", b, sizeof b),
        .lt_size = variable(header, "CUBLASLT_WORKSPACE_SIZE", c, sizeof c),
        .lt_unified = variable(header, "TORCH_CUBLASLT_UNIFIED_WORKSPACE", d, sizeof d),
    };
    assert_int_equal(mt_predict_read_workspaces(&r->o.workspaces, &e, r->o.release, r->o.cc, NULL),
                     MT_OK);
    bool any = variable(header, "PYTORCH_CUDA_ALLOC_CONF", settings, sizeof settings) != NULL ||
               variable(header, "PYTORCH_ALLOC_CONF", settings, sizeof settings) != NULL;
    snprintf(r->policy, sizeof r->policy, "torch,version:%s%s%s", release, any ? "," : "",
             any ? settings : "");
}

/* The lengths of a run without a cache: lengths=1,2,3 where the header has them. */
static void read_lengths(recorded_run *r, const char *header) {
    char list[256], *at = list;
    if (!value_of(header, "lengths=", " \n", list, sizeof list))
        return;
    for (char *word; (word = strsep(&at, ",")) != NULL;)
        r->contexts[r->o.context_count++] = (uint32_t)atoi(word);
}

static void read_header(recorded_run *r, const char *header) {
    char text[32], release[16];
    unsigned major = 0, minor = 0;
    memset(r, 0, sizeof *r);
    read_model(&r->o.model, header);
    assert_true(value_of(header, "torch ", ".", text, sizeof text));
    assert_true(value_of(header, "torch 2.", ".", text, sizeof text));
    r->o.release = strcmp(text, "11") == 0 ? MT_TORCH_2_11 : MT_TORCH_2_15;
    snprintf(release, sizeof release, "2.%.8s", text);
    assert_true(value_of(header, "capability ", "; ", text, sizeof text));
    assert_int_equal(sscanf(text, "%u.%u", &major, &minor), 2);
    r->o.cc = 10 * major + minor;
    r->capacity = number_of(header, "simulated, ", 48 * MT_GIB);
    r->o.batch = (uint32_t)number_of(header, "batch ", 1);
    r->o.prompt = (uint32_t)number_of(header, "prompt=", 1);
    r->o.ctx = (uint32_t)number_of(header, "total=", r->o.model.positions);
    r->o.multiprocessors = (uint32_t)number_of(header, "multiprocessors=", 0);
    r->o.attn = strstr(header, "attn_implementation=eager") != NULL ? MT_ATTN_EAGER : MT_ATTN_SDPA;
    r->o.cache = strstr(header, "cache=static") != NULL ? MT_CACHE_STATIC
                 : strstr(header, "cache=none") != NULL ? MT_CACHE_NONE
                                                        : MT_CACHE_DYNAMIC;
    r->o.contexts = r->contexts;
    read_lengths(r, header);
    read_environment(r, header, release);
}

/* ---- the same run, written as a recording ---------------------------------------------------- */

typedef struct writer {
    char *text;
    size_t n, room;
    uint64_t allocs;
    bool events;    /* write the schedule, not the table */
    char last[400]; /* row */
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(writer *w, const char *format, ...) {
    va_list args;
    if (w->room - w->n < 512) {
        w->room = 2 * w->room + 65536;
        w->text = realloc(w->text, w->room);
        assert_non_null(w->text);
    }
    va_start(args, format);
    w->n += (size_t)vsnprintf(w->text + w->n, w->room - w->n, format, args);
    va_end(args);
}

static void on_event(void *context, const mt_event *e) {
    writer *w = context;
    switch ((mt_event_kind)e->kind) {
    case MT_EV_ALLOC:
        w->allocs++;
        put(w, "a %" PRIu64 "\n", e->requested);
        return;
    case MT_EV_FREE:
        put(w, "f %" PRIu64 "\n", w->allocs - 1 - e->id);
        return;
    case MT_EV_SEGMENT_ALLOC:
        put(w, "S %" PRIu64 "\n", e->rounded);
        return;
    case MT_EV_SEGMENT_FREE:
        put(w, "R %u\n", e->segment);
        return;
    case MT_EV_SEGMENT_MAP:
    case MT_EV_SEGMENT_UNMAP:
        put(w, "%c %u+%" PRIu64 " %" PRIu64 "\n", e->kind == MT_EV_SEGMENT_MAP ? 'P' : 'U',
            e->segment, e->offset, e->rounded);
        return;
    default:
        return;
    }
}

static mt_status on_row(void *context, const mt_predict_row *row) {
    writer *w = context;
    char step[24], *at = w->last, *end = w->last + sizeof w->last;
    snprintf(step, sizeof step, "%" PRId64, row->step);
    at +=
        snprintf(at, (size_t)(end - at), "%s %" PRIu64, row->step < 0 ? "load" : step, row->tokens);
#define X(name) at += snprintf(at, (size_t)(end - at), " %" PRIu64, row->name);
    MT_PREDICT_COLUMNS(X)
#undef X
    put(w, "%s%s\n", w->events ? "= " : "", w->last);
    return MT_OK;
}

static mt_status carry_out(const recorded_run *r, writer *w, mt_error *err) {
    mt_source *source;
    mt_alloc *a;
    assert_int_equal(mt_source_sim(&source, r->capacity, 2 * MT_MIB, err), MT_OK);
    if (mt_alloc_open(&a, source, r->policy, err) != MT_OK)
        fail_msg("%s", err->text);
    if (w->events)
        mt_alloc_listen(a, (mt_listener){ on_event, w });
    mt_status status = mt_predict_run(a, &r->o, on_row, w, err);
    mt_alloc_unlisten(a);
    if (status == MT_OK)
        assert_int_equal(mt_alloc_check(a, err), MT_OK);
    mt_alloc_close(a);
    source->close(source);
    return status;
}

/* ---- recordings ------------------------------------------------------------------------------ */

/* Cuts the header off a recording and writes blanks for tabs. A run may end before its first
 * row. */
static char *body_of(char *data, char *header, size_t room) {
    char *at = data;
    *header = '\0';
    while (*at == '#' && strncmp(at, "# out of memory", 15) != 0) {
        size_t n = strcspn(at, "\n"), used = strlen(header);
        snprintf(header + used, room - used, "%.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
    for (char *c = at; *c != '\0'; c++)
        *c = *c == '\t' ? ' ' : *c;
    return at;
}

/* Takes the lengths of a run without a cache from its rows. */
static void lengths_of_rows(recorded_run *r, const char *body, bool events) {
    r->o.context_count = 0;
    for (const char *line = body; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n') {
        const char *row = events ? line + 2 : line;
        if ((events && *line != '=') || strncmp(row, "load", 4) == 0)
            continue;
        assert_in_range(r->o.context_count, 0, CONTEXTS_MOST - 1);
        r->contexts[r->o.context_count++] = (uint32_t)atoi(strchr(row, ' ') + 1);
    }
}

/* Fails at the first line that differs. */
static void assert_same(const char *path, const char *ours, const char *theirs) {
    size_t number = 1;
    if (strcmp(ours, theirs) == 0)
        return;
    for (;; number++) {
        size_t n = strcspn(ours, "\n"), m = strcspn(theirs, "\n");
        if (n != m || strncmp(ours, theirs, n) != 0 || ours[n] == '\0' || theirs[m] == '\0')
            fail_msg("%s, line %zu after the header: ours \"%.*s\", recorded \"%.*s\"", path,
                     number, (int)n, ours, (int)m, theirs);
        ours += n + 1;
        theirs += m + 1;
    }
}

static void check_recording(const char *path, void *context) {
    (void)context;
    static recorded_run r;
    static char header[4096];
    char *data;
    size_t n;
    mt_error err;
    writer w = { .events = strstr(path, "/schedule-") != NULL };
    if (mt_input_read(path, (size_t)1 << 28, &data, &n, &err) != MT_OK)
        fail_msg("%s", err.text);
    char *body = body_of(data, header, sizeof header);
    read_header(&r, header);
    if (r.o.cache == MT_CACHE_NONE && r.o.context_count == 0)
        lengths_of_rows(&r, body, w.events);
    mt_status status = carry_out(&r, &w, &err);
    if (status == MT_NO_MEMORY)
        put(&w, "# out of memory\n");
    else if (status != MT_OK)
        fail_msg("%s: %s", path, err.text);
    assert_same(path, w.text, body);
    free(w.text);
    free(data);
}

static void test_tables(void **state) {
    (void)state;
    assert_true(for_recordings("gpt2-*/*.tsv.gz", "hf-gpt2/*.tsv", 3, check_recording, NULL) > 0);
}

static void test_schedules(void **state) {
    (void)state;
    assert_true(for_recordings("gpt2-2.1*/schedule-*.txt.gz", "hf-gpt2/schedule-*.txt.gz", 3,
                               check_recording, NULL) > 0);
}

/* ---- other shapes and settings --------------------------------------------------------------- */

/* Runs recorded in the same way: the header's words, the last row, and the CRC-32 of the schedule
 * with all its rows. */
static const struct {
    const char *header, *last;
    uint32_t crc;
} kept[] = {
    { "torch 2.15.0 capability 8.6; n_layer=24, n_head=16, n_embd=1024, vocab_size=50257, "
      "n_positions=1024 float32, batch 1 attn_implementation=sdpa cache=dynamic prompt=7 total=40",
      "33 40 1427358720 1453326336 1427358028 1427358720 4996096 17 80 1436083712 1453326336 "
      "1436082832 24331 23989 80 0",
      0x98c0f9f0 },
    { "torch 2.15.0 capability 8.6; n_layer=36, n_head=20, n_embd=1280, vocab_size=50257, "
      "n_positions=1024 bfloat16, batch 1 attn_implementation=sdpa cache=dynamic prompt=100 "
      "total=110",
      "10 110 1568436736 1742733312 1568435882 1568436736 151227904 111 107 1577059840 1742733312 "
      "1577058636 12438 11928 107 0",
      0x68d45e06 },
    { "torch 2.15.0 capability 9.0; simulated, 85899345920 bytes n_layer=48, n_head=25, "
      "n_embd=1600, vocab_size=50257, n_positions=1024 float16, batch 1 attn_implementation=eager "
      "cache=static prompt=20 total=26",
      "6 26 3508062208 3577741312 3429896106 3508062208 34027520 7 160 3541721088 3577741312 "
      "3463554252 12008 11282 160 0",
      0x79ca09d4 },
    { "torch 2.15.0 capability 8.6; simulated, 85899345920 bytes n_layer=48, n_head=25, "
      "n_embd=1600, vocab_size=50257, n_positions=1024 float32, batch 1 attn_implementation=sdpa "
      "cache=none lengths=5,33",
      "1 33 6378232320 6417285120 6237078732 6378232320 9692672 6 177 6387969024 6417285120 "
      "6246815008 3214 2632 177 0",
      0x55126a4b },
    { "torch 2.15.0 capability 8.6; n_layer=3, n_head=16, n_embd=720, vocab_size=5003, "
      "n_positions=100 float32, batch 2 attn_implementation=sdpa cache=dynamic prompt=33 total=60",
      "27 60 92326400 127926272 91577960 92326400 10434048 8 10 101244928 127926272 100494128 3394 "
      "3346 10 0",
      0xe59880da },
    { "torch 2.15.0 capability 8.6; n_layer=3, n_head=6, n_embd=1020, vocab_size=5003, "
      "n_positions=600 bfloat16, batch 1 attn_implementation=sdpa cache=dynamic prompt=300 "
      "total=330",
      "30 330 90802688 115343360 90471774 90802688 20346368 7 10 99334656 115343360 99003500 3730 "
      "3682 10 0",
      0xb125290d },
    { "torch 2.15.0 capability 8.6; n_layer=4, n_head=5, n_embd=60, vocab_size=777, n_positions=64 "
      "float32, batch 3 attn_implementation=eager cache=dynamic prompt=7 total=64",
      "57 64 1298944 25165824 1283988 1298944 798208 4 3 9831424 25165824 9813712 9163 9101 3 0",
      0x4783bfca },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=10, n_embd=200, vocab_size=777, "
      "n_positions=50 float16, batch 2 attn_implementation=sdpa cache=static prompt=5 total=40",
      "35 40 2434048 25165824 2425140 2434048 1760256 3 3 11210752 25165824 11197478 3824 3788 3 0",
      0x5d32c79e },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=2, n_embd=528, vocab_size=777, "
      "n_positions=65 bfloat16, batch 1 attn_implementation=sdpa cache=dynamic prompt=7 total=30",
      "23 30 14438912 25165824 14428634 14438912 10726912 6 3 23147520 25165824 22950924 1733 1699 "
      "3 0",
      0x03fe4a5c },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=3, n_embd=774, vocab_size=777, "
      "n_positions=65 float16, batch 3 attn_implementation=sdpa cache=dynamic prompt=7 total=30",
      "23 30 31275008 46137344 30664374 31275008 12765184 4 4 40685056 46137344 40069050 2275 2241 "
      "4 0",
      0xd49fc155 },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=3, n_embd=774, vocab_size=777, "
      "n_positions=65 float16, batch 3 attn_implementation=sdpa cache=none lengths=1,7,65",
      "2 65 31013888 50331648 30405462 31013888 15123456 4 6 45577728 50331648 44963622 358 328 6 "
      "0",
      0xedc76910 },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=20, n_embd=120, vocab_size=777, "
      "n_positions=65 float32, batch 3 attn_implementation=sdpa cache=none lengths=1,7,65,2",
      "3 2 1821696 27262976 1818672 1821696 275456 2 4 10961920 27262976 10956540 436 406 4 0",
      0x1d0921e4 },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=2, n_embd=128, vocab_size=777, "
      "n_positions=16000 bfloat16, batch 1 attn_implementation=sdpa cache=none lengths=7,14337,3",
      "2 3 5098496 148897792 5093182 5098496 17970176 3 10 36687872 148897792 35893344 259 229 10 "
      "0",
      0x6a409583 },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=3, n_embd=96, vocab_size=777, n_positions=65 "
      "bfloat16, batch 7 attn_implementation=eager cache=none lengths=9,1,40",
      "2 40 1051648 25165824 1044584 1051648 1045504 2 3 9677824 25165824 9669886 326 296 3 0",
      0x5da4f2db },
    { "torch 2.15.0 capability 8.6; n_layer=1, n_head=2, n_embd=128, vocab_size=200000, "
      "n_positions=64 float32, batch 3 attn_implementation=sdpa cache=dynamic prompt=5 total=9",
      "4 9 106015744 138412032 105654552 106015744 11424768 4 4 116937216 138412032 116575768 227 "
      "207 4 0",
      0x39bb9e47 },
    { "torch 2.15.0 capability 8.6; n_layer=1, n_head=4, n_embd=256, vocab_size=300, "
      "n_positions=2048 bfloat16, batch 1 attn_implementation=sdpa cache=dynamic prompt=1 "
      "total=600",
      "599 600 3398656 27262976 3397728 3398656 795648 3 4 11919872 27262976 11918520 25305 25285 "
      "4 0",
      0xde3f73c6 },
    { "torch 2.15.0 capability 8.6; n_layer=1, n_head=1, n_embd=190, vocab_size=300, "
      "n_positions=1025 bfloat16, batch 1 attn_implementation=sdpa cache=dynamic prompt=64 "
      "total=104",
      "40 104 1460736 25165824 1455248 1460736 636416 3 3 9981952 25165824 9975908 1902 1882 3 0",
      0x6d789e52 },
    { "torch 2.15.0 capability 12.0; n_layer=2, n_head=4, n_embd=320, vocab_size=300, "
      "n_positions=900 float16, batch 2 attn_implementation=sdpa cache=dynamic prompt=513 "
      "total=530",
      "17 530 8422400 71303168 8415936 8422400 4160512 9 10 41979904 71303168 41972848 1379 1345 "
      "10 0",
      0xcd8905a9 },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=4, n_embd=256, vocab_size=1000, "
      "n_positions=64, n_inner=1000 float32, batch 1 attn_implementation=sdpa cache=dynamic "
      "prompt=3 total=64 CUBLAS_WORKSPACE_CONFIG=:16:8 TORCH_CUBLAS_WORKSPACE_CACHE=1 "
      "CUBLASLT_WORKSPACE_SIZE=512 TORCH_CUBLASLT_UNIFIED_WORKSPACE=0",
      "61 64 8233472 10485760 8232680 8233472 2252288 7 5 8305664 10485760 8304368 3751 3715 5 0",
      0x7c1903e5 },
    { "torch 2.15.0 capability 8.6; n_layer=2, n_head=4, n_embd=256, vocab_size=1000, "
      "n_positions=64, tie_word_embeddings=False float32, batch 1 attn_implementation=sdpa "
      "cache=dynamic prompt=3 total=64 CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8 "
      "CUBLASLT_WORKSPACE_SIZE=4096",
      "61 64 8700416 31457280 8699816 8700416 1785344 5 6 17225216 31457280 17224520 4308 4273 6 0",
      0xecd2ee37 },
    { "torch 2.15.0 capability 8.6; n_layer=4, n_head=12, n_embd=768, vocab_size=5003, "
      "n_positions=1024 float32, batch 3 attn_implementation=sdpa cache=dynamic prompt=12 "
      "total=200 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,roundup_power2_divisions:8",
      "188 200 149125632 182452224 146732700 149125632 0 0 0 158633472 182452224 155321632 24056 "
      "23994 15 0",
      0xd5afdb43 },
    { "torch 2.15.0 capability 8.6; n_layer=4, n_head=12, n_embd=768, vocab_size=5003, "
      "n_positions=1024 float32, batch 3 attn_implementation=sdpa cache=static prompt=12 total=200 "
      "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2,1024:4,>:"
      "8]",
      "188 200 207487488 251658240 207484604 207487488 42073600 17 14 216732160 251658240 "
      "216073536 27640 27574 14 0",
      0xdf651460 },
    { "torch 2.15.0 capability 9.0; simulated, 1073741824 bytes n_layer=6, n_head=12, n_embd=768, "
      "vocab_size=50257, n_positions=1024 float32, batch 2 attn_implementation=sdpa cache=dynamic "
      "prompt=40 total=140 "
      "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.5,per_process_memory_fraction:0.9",
      "100 140 339174912 434110464 338374296 339174912 42506752 21 22 373137920 434110464 "
      "372336928 18762 18672 22 0",
      0x45995654 },
    { "torch 2.11.0 capability 8.6; n_layer=4, n_head=12, n_embd=768, vocab_size=5003, "
      "n_positions=1024 float32, batch 3 attn_implementation=sdpa cache=dynamic prompt=12 "
      "total=100",
      "88 100 149584384 178257920 148928156 149584384 26576384 15 15 150555648 178257920 149898916 "
      "9133 9069 15 0",
      0xcb0c6391 },
    { "torch 2.11.0 capability 9.0; n_layer=4, n_head=12, n_embd=768, vocab_size=5003, "
      "n_positions=1024 bfloat16, batch 1 attn_implementation=eager cache=static prompt=12 "
      "total=60",
      "48 60 114079744 119537664 113159486 114079744 5457920 8 6 114142208 119537664 113221446 "
      "6343 6275 6 0",
      0xdc1e0842 },
    { "torch 2.11.0 capability 8.6; n_layer=2, n_head=6, n_embd=192, vocab_size=5003, "
      "n_positions=1024 float16, batch 2 attn_implementation=sdpa cache=none lengths=4,90,7 "
      "CUBLASLT_WORKSPACE_SIZE=40000",
      "2 7 21277696 25165824 21274052 21277696 3888128 4 3 23293952 25165824 23080604 231 199 3 0",
      0xedaf0689 },
    { "torch 2.11.0 capability 8.6; n_layer=3, n_head=6, n_embd=132, vocab_size=5003, "
      "n_positions=99 float32, batch 1 attn_implementation=sdpa cache=static prompt=30 total=60 "
      "TORCH_CUBLASLT_UNIFIED_WORKSPACE=1",
      "30 60 14100480 25165824 14077916 14100480 11065344 9 3 14164480 25165824 14137291 3649 3597 "
      "3 0",
      0x4fd4aa8e },
};

static void test_kept(void **state) {
    (void)state;
    static recorded_run r;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        mt_error err;
        writer w = { .events = true };
        read_header(&r, kept[i].header);
        if (carry_out(&r, &w, &err) != MT_OK)
            fail_msg("%s: %s", kept[i].header, err.text);
        if (strcmp(w.last, kept[i].last) != 0)
            fail_msg("%s: last row \"%s\", recorded \"%s\"", kept[i].header, w.last, kept[i].last);
        if (crc32(0, (const Bytef *)w.text, (uInt)w.n) != kept[i].crc)
            fail_msg("%s: the last row is the same, the schedule is not", kept[i].header);
        free(w.text);
    }
}

/* ---- workspaces ------------------------------------------------------------------------------ */

static mt_predict_workspaces workspaces(mt_predict_release release, uint32_t cc, const char *config,
                                        const char *cache, const char *lt, const char *unified) {
    mt_predict_workspaces w;
    mt_predict_environment e = { config, cache, lt, unified };
    assert_int_equal(mt_predict_read_workspaces(&w, &e, release, cc, NULL), MT_OK);
    return w;
}

static void test_workspace_sizes(void **state) {
    (void)state;
    static const struct {
        const char *config;
        uint64_t bytes;
    } sizes[] = {
        { NULL, 8519680 },
        { ":4096:2:16:8", 8519680 },
        { ":16:8", 131072 },
        { ":4096:8", 33554432 },
        { ":0:0", 0 },
        { "nonsense", 8519680 },
        { "x:32:1:y:1:2", 34816 },
        { ":16", 8519680 },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(workspaces(MT_TORCH_2_15, 86, sizes[i].config, NULL, NULL, NULL).blas,
                         sizes[i].bytes);
    assert_int_equal(workspaces(MT_TORCH_2_15, 90, NULL, NULL, NULL, NULL).blas, 33554432);
    assert_int_equal(workspaces(MT_TORCH_2_15, 120, NULL, NULL, NULL, NULL).blas, 33554432);
    assert_int_equal(workspaces(MT_TORCH_2_11, 120, NULL, NULL, NULL, NULL).blas, 8519680);
    assert_int_equal(workspaces(MT_TORCH_2_15, 86, NULL, NULL, "4096", NULL).lt, 4194304);
    assert_int_equal(workspaces(MT_TORCH_2_15, 86, NULL, NULL, "1.5", NULL).lt, 1024);
    assert_int_equal(workspaces(MT_TORCH_2_15, 86, NULL, NULL, "none", NULL).lt, 1048576);
    assert_int_equal(workspaces(MT_TORCH_2_11, 86, ":16:8", NULL, NULL, NULL).lt, 131072);
    assert_int_equal(workspaces(MT_TORCH_2_11, 86, ":16:8", NULL, NULL, "0").lt, 1048576);
}

static void test_workspace_lifetimes(void **state) {
    (void)state;
    mt_predict_workspaces w = workspaces(MT_TORCH_2_15, 86, NULL, NULL, NULL, NULL);
    assert_false(w.kept || w.shared || w.blas_first);
    assert_false(workspaces(MT_TORCH_2_15, 86, NULL, "yes", NULL, NULL).kept);
    w = workspaces(MT_TORCH_2_15, 86, NULL, "1", NULL, NULL);
    assert_true(w.kept && w.shared);
    w = workspaces(MT_TORCH_2_15, 86, NULL, "1", NULL, "0");
    assert_true(w.kept && !w.shared && !w.blas_first);
    w = workspaces(MT_TORCH_2_11, 86, NULL, "0", NULL, NULL);
    assert_true(w.kept && !w.shared && w.blas_first);
    assert_true(workspaces(MT_TORCH_2_11, 86, NULL, NULL, NULL, "1").shared);
    mt_error err;
    mt_predict_environment e = { .lt_size = "-5" };
    assert_int_equal(mt_predict_read_workspaces(&w, &e, MT_TORCH_2_15, 86, &err), MT_BAD);
}

/* ---- what cannot be run ---------------------------------------------------------------------- */

static void test_refusals(void **state) {
    (void)state;
    static const char *const headers[] = {
        "n_head=5 n_embd=64",      "prompt=0 total=5",          "prompt=6 total=5",
        "prompt=1 total=1025",     "cache=none lengths=1,2000", "cache=none lengths=0",
        "cache=dynamic lengths=3", "n_head=4, n_embd=4)",       "float16",
    };
    static recorded_run r;
    char header[256];
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        mt_error err = { 0 };
        snprintf(header, sizeof header, "torch 2.15.0 capability 9.0; %s", headers[i]);
        read_header(&r, header);
        assert_int_equal(mt_predict_check(&r.o, &err), MT_BAD);
        assert_true(err.text[0] != '\0');
    }
}

/* The run ends at the first refused request, with the rows before it. */
static void test_out_of_memory(void **state) {
    (void)state;
    static recorded_run r;
    mt_error err;
    writer w = { .events = false };
    read_header(&r, "torch 2.15.0 capability 8.6; simulated, 734003200 bytes, batch 4 total=1000");
    assert_int_equal(carry_out(&r, &w, &err), MT_NO_MEMORY);
    assert_int_equal(strncmp(w.last, "506 507 ", 8), 0);
    free(w.text);
}

/* Someone looks at least once a layer of every pass; the run ends at the look that is answered. */
static void test_interrupted(void **state) {
    (void)state;
    static const char *const headers[] = { "batch 2 total=9", "cache=static batch 2 total=9",
                                           "cache=none lengths=3,5,9" };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        static recorded_run r;
        char header[256];
        mt_error err;
        uint64_t looks = 1;
        snprintf(header, sizeof header,
                 "torch 2.15.0 capability 8.6; n_layer=3, n_head=2, n_embd=16, %s", headers[i]);
        read_header(&r, header);
        for (uint64_t from = 0; from <= looks; from += 1 + from / 3) {
            writer w = { .events = false };
            watch_interrupts(from);
            mt_status status = carry_out(&r, &w, &err);
            mt_interrupt_by(NULL);
            assert_int_equal(status, from > 0 ? MT_INTERRUPTED : MT_OK);
            if (from == 0)
                looks = interrupt.looks;
            assert_int_equal(interrupt.looks, from > 0 ? from : looks);
            assert_true(looks >= r.o.model.layers * (i < 2 ? 9 : 3));
            free(w.text);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_workspace_sizes),
        cmocka_unit_test(test_workspace_lifetimes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_interrupted),
    };
    return cmocka_run_group_tests_name("predict", tests, NULL, NULL);
}
