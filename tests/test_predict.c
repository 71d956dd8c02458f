/* test_predict.c - what Hugging Face's GPT-2 takes from PyTorch, held against recordings of it.
 *
 * A recording is the table of counters after every token (.tsv) or the schedule of every allocation,
 * free and driver call (schedule-*.txt.gz). Its header says what was run; the run is made again and
 * written in the same words, and the two texts must be equal. The recordings lie in
 * MEMTRACE_SHARED/golden/hf-gpt2 (../shared if unset); without them their tests are skipped. For
 * other shapes and settings the last row and a checksum of the schedule are kept here. */
#include <dirent.h>
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

#include "base/output.h"
#include "base/size.h"
#include "engine/hf_gpt2.h"

#define CONTEXTS_MOST 2048

/* ---- a run, described by the header of a recording ------------------------------------------ */

typedef struct recorded_run {
    mt_hf_options o;
    uint64_t capacity;
    char policy[512];
    uint32_t contexts[CONTEXTS_MOST];
} recorded_run;

/* Copies what follows name in the text, up to one of the characters of end; false if it is absent.
 */
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
    mt_hf_environment e = {
        .blas_config = variable(header, "CUBLAS_WORKSPACE_CONFIG", a, sizeof a),
        .blas_cache = variable(header, "TORCH_CUBLAS_WORKSPACE_CACHE", b, sizeof b),
        .lt_size = variable(header, "CUBLASLT_WORKSPACE_SIZE", c, sizeof c),
        .lt_unified = variable(header, "TORCH_CUBLASLT_UNIFIED_WORKSPACE", d, sizeof d),
    };
    assert_int_equal(
        mt_hf_read_workspaces(&r->o.workspaces, &e, r->o.release, r->o.cc, NULL), MT_OK);
    bool any = variable(header, "PYTORCH_CUDA_ALLOC_CONF", settings, sizeof settings) != NULL;
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
    r->o.release = strcmp(text, "11") == 0 ? MT_HF_TORCH_2_11 : MT_HF_TORCH_2_15;
    snprintf(release, sizeof release, "2.%.8s", text);
    assert_true(value_of(header, "capability ", "; ", text, sizeof text));
    assert_int_equal(sscanf(text, "%u.%u", &major, &minor), 2);
    r->o.cc = 10 * major + minor;
    r->capacity = number_of(header, "simulated, ", 48 * MT_GIB);
    r->o.batch = (uint32_t)number_of(header, "batch ", 1);
    r->o.prompt = (uint32_t)number_of(header, "prompt=", 1);
    r->o.ctx = (uint32_t)number_of(header, "total=", r->o.model.positions);
    r->o.multiprocessors = (uint32_t)number_of(header, "multiprocessors=", 0);
    r->o.attn = strstr(header, "attn_implementation=eager") != NULL ? MT_HF_EAGER : MT_HF_SDPA;
    r->o.cache = strstr(header, "cache=static") != NULL ? MT_HF_STATIC
                 : strstr(header, "cache=none") != NULL ? MT_HF_NONE
                                                        : MT_HF_DYNAMIC;
    r->o.contexts = r->contexts;
    read_lengths(r, header);
    read_environment(r, header, release);
}

/* ---- the same run, written as a recording --------------------------------------------------- */

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

static mt_status on_row(void *context, const mt_hf_row *row) {
    writer *w = context;
    char step[24], *at = w->last, *end = w->last + sizeof w->last;
    snprintf(step, sizeof step, "%" PRId64, row->step);
    at += snprintf(at, (size_t)(end - at), "%s %" PRIu64, row->step < 0 ? "load" : step,
                   row->tokens);
#define X(name) at += snprintf(at, (size_t)(end - at), " %" PRIu64, row->name);
    MT_HF_COLUMNS(X)
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
    mt_status status = mt_hf_run(a, &r->o, on_row, w, err);
    mt_alloc_unlisten(a);
    if (status == MT_OK)
        assert_int_equal(mt_alloc_check(a, err), MT_OK);
    mt_alloc_close(a);
    source->close(source);
    return status;
}

/* ---- recordings ----------------------------------------------------------------------------- */

/* Cuts the header off a recording and writes blanks for tabs. */
static char *body_of(char *data, char *header, size_t room) {
    char *at = data;
    *header = '\0';
    while (*at == '#') {
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
    for (const char *line = body; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
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

static void check_recording(const char *path) {
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
    if (r.o.cache == MT_HF_NONE)
        lengths_of_rows(&r, body, w.events);
    if (carry_out(&r, &w, &err) != MT_OK)
        fail_msg("%s: %s", path, err.text);
    assert_same(path, w.text, body);
    free(w.text);
    free(data);
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Checks all files of a kind; in a hurry (MEMTRACE_QUICK) each third one. */
static void check_recordings(const char *begin, const char *end) {
    const char *shared = getenv("MEMTRACE_SHARED");
    bool quick = getenv("MEMTRACE_QUICK") != NULL;
    struct dirent **names;
    char folder[512], path[1024];
    int met = 0;
    snprintf(folder, sizeof folder, "%s/golden/hf-gpt2",
             shared != NULL && *shared != '\0' ? shared : "../shared");
    int n = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (strncmp(name, begin, strlen(begin)) == 0 && ends_with(name, end) &&
            met++ % (quick ? 3 : 1) == 0)
            check_recording(path);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (met == 0) {
        print_message("skipped: no recordings in %s\n", folder);
        skip();
    }
}

static void test_tables(void **state) {
    (void)state;
    check_recordings("", ".tsv");
}

static void test_schedules(void **state) {
    (void)state;
    check_recordings("schedule-", ".txt.gz");
}

/*KEPT*/
