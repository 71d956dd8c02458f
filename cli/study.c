/* study.c - `memtrace study`: why 1000 times less arithmetic is not 1000 times less time.
 *
 * For each context a step with a cache and one without are timed, split by what they do, and set
 * against what the machine can do: how fast it reads memory, computes and starts work, measured in
 * the same minute. */
#include "cli/study.h"

#include <stdlib.h>
#include <string.h>

#include "cli/list.h"
#include "base/size.h"
#include "traces/chrome.h"
#include "reports/table.h"
#include "traces/trace.h"

#define DEFAULT_CONTEXTS "16,64,128,256,512,768,1000"
#define DEFAULT_PROMPT   8
#define CONTEXTS_MOST    256

static const char doc[] =
    "Measures a decoding step with and without a KV cache at several contexts: latency, "
    "FLOPs, bytes, the roofline of this machine, and where the time goes.\vThe table on "
    "stdout has three blocks (gnuplot's index 0 to 2): latency and work by context, the "
    "split of a step's time, and the kernels. Comments at the end say what bounds a step, "
    "with the figures, and total a generation from --prompt-tokens (8) to --ctx with and "
    "without the cache. docs/study.md describes the columns.\n"
    "\n"
    "Each figure is the median of --repeat steps, after two warm-up steps; steps with every "
    "kernel timed alternate with plain ones. A cached step is repeated at the same "
    "position; with --kv concat, which cannot repeat a step, the last steps up to the "
    "context are measured. --kv is static unless given: concat copies the cache at every "
    "step.\n"
    "\n"
    "DRAM bandwidth and GEMM throughput are measured in a buffer of 1 GiB, less where the "
    "device has less: one more request of the allocator (tag other), in no figure.\n"
    "\n"
    "\f\n"
    "Examples:\n"
    "  memtrace study > study.dat\n"
    "  memtrace study --contexts 128..1024+128 --kv concat --profile step.json\n"
    "  memtrace study --backend cuda --logits all --repeat 21 > a40.dat\n"
    "\n"
    "step.json opens in Perfetto (ui.perfetto.dev) or chrome://tracing.\n"
    "\n"
    "Exit status: 0 done; 1 a sum did not hold; 2 bad input or usage; 3 out of device "
    "memory; 4 a device, library or write failed; 130 interrupted.";

typedef struct study_options {
    cli_options engine;
    const char *contexts, *profile;
    uint64_t repeat;
    bool csv;
} study_options;

#define FIELD(name) offsetof(study_options, name)

static const cli_option rows[] = {
    { CLI_GROUP, .help = "Study:" },
    { CLI_TEXT, FIELD(contexts), "contexts", "LIST", .help = "tokens in the cache",
      DEFAULT_CONTEXTS },
    { CLI_NUMBER, FIELD(repeat), "repeat", "N", .help = "each figure is the median of N steps", "5",
      1, 1000 },
    { CLI_TEXT, FIELD(profile), "profile", "FILE",
      .help = "write the cached step at the largest context as a Chrome trace" },
    { CLI_FLAG, FIELD(csv), "csv",
      .help = "comma-separated values: a header line, then latency, work and split by context" },
    { .name = NULL },
};

/* Options of run that mean nothing here. */
static void refuse(struct argp_state *state, const cli_options *o) {
    if (o->prompt || o->prompt_file || o->prompt_ids)
        cli_usage_error(state,
                        "study feeds seeded ids: --prompt-tokens is the prompt of its totals");
    if (o->graph)
        cli_usage_error(state,
                        "study measures a CUDA graph by itself where the device can record one");
    const mt_kv_traits *kv = o->kv != NULL ? mt_kv_find(o->kv) : NULL;
    if (kv != NULL && kv->uncached)
        cli_usage_error(state, "--kv %s has no cached step; study measures the uncached one anyway",
                        kv->name);
}

static void check(struct argp_state *state, void *input) {
    cli_check_engine(state, &((study_options *)input)->engine);
    refuse(state, &((study_options *)input)->engine);
}

static const cli_usage usage = {
    .doc = doc,
    .lists = cli_list_memory,
    .table = { { rows, 0 }, CLI_ENGINE_TABLES(0), { cli_no_output_rows, 0 }, { cli_size_note, 0 } },
    .check = check,
};

/* ---- contexts -------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts, drops equal ones, and, of the default list, those that the model is too small for. */
static void tidy(study *st, uint32_t most) {
    uint32_t n = 0;
    qsort(st->contexts, st->count, sizeof *st->contexts, by_number);
    for (uint32_t i = 0; i < st->count; i++)
        if (st->contexts[i] <= most && (n == 0 || st->contexts[i] != st->contexts[n - 1]))
            st->contexts[n++] = st->contexts[i];
    if (n == 0)
        st->contexts[n++] = most;
    st->count = n;
}

static mt_status read_contexts(study *st, const char *text, mt_error *err) {
    cli_list l = { 0 };
    uint32_t positions = st->s.config.positions;
    mt_status status =
        cli_list_read(&l, "contexts", text != NULL ? text : DEFAULT_CONTEXTS, NULL, err);
    if (status == MT_OK && l.count > CONTEXTS_MOST)
        status = mt_fail(err, MT_BAD, "--contexts: at most %d", CONTEXTS_MOST);
    if (status == MT_OK && (st->contexts = calloc(l.count, sizeof *st->contexts)) == NULL)
        status = mt_no_memory(err, "a list of contexts");
    for (size_t i = 0; status == MT_OK && i < l.count; i++) {
        uint64_t context = 0;
        if (!mt_parse_u64(l.value[i], 1, text != NULL ? positions : UINT32_MAX, &context))
            status = mt_fail(err, MT_BAD, "--contexts %s: expected numbers from 1 to %u",
                             l.value[i], positions);
        st->contexts[st->count++] = (uint32_t)context;
    }
    cli_list_free(&l);
    if (status == MT_OK)
        tidy(st, positions);
    return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* What a run's listeners do is done here too, so that it shows in the split. */
typedef struct listeners {
    mt_table *table;
    mt_trace *trace;
} listeners;

static void ignore_row(void *context, const mt_row *row) {
    (void)context, (void)row;
}

static void on_event(void *context, const mt_event *event) {
    (void)event;
    study_note_memory(context);
}

static mt_status listen(study *st, listeners *l, mt_error *err) {
    mt_alloc *a = st->s.alloc;
    MT_TRY(mt_table_open(&l->table, mt_alloc_ledger(a), ignore_row, NULL, err));
    mt_alloc_listen(a, mt_table_listener(l->table));
    MT_TRY(mt_trace_create(&l->trace, "/dev/null", false, err));
    mt_alloc_listen(a, mt_trace_listener(l->trace));
    if (st->profiling)
        mt_alloc_listen(a, (mt_listener){ on_event, st });
    return MT_OK;
}

/* The engine works on a device that can time; without notes that is the device itself. */
static mt_status time_the_device(study *st, mt_error *err) {
    st->inner = st->s.device;
    MT_TRY(mt_device_timed(&st->timed, st->inner, err));
    st->s.model->device = st->timed;
    st->own_clock = st->inner->stamp != NULL;
    return MT_OK;
}

/* The generation that the totals add up begins with 8 tokens, as people's measurements do. */
static mt_status default_prompt(study *st, const study_options *o, mt_error *err) {
    cli_session *s = &st->s;
    if (o->engine.prompt_tokens > 0 || s->ctx <= DEFAULT_PROMPT)
        return MT_OK;
    int32_t *prompt = realloc(s->prompt, (size_t)s->batch * DEFAULT_PROMPT * sizeof *prompt);
    if (prompt == NULL)
        return mt_no_memory(err, "the prompt");
    s->prompt = prompt;
    s->P = DEFAULT_PROMPT;
    mt_seeded_prompt(prompt, s->batch, s->P, s->o.seed, s->config.vocab);
    return MT_OK;
}

static mt_status prepare(study *st, const study_options *o, mt_error *err) {
    cli_options e = o->engine;
    e.kv = e.kv != NULL ? e.kv : "static";
    MT_TRY(cli_prepare(&st->s, &e, true, err));
    MT_TRY(default_prompt(st, o, err));
    MT_TRY(read_contexts(st, o->contexts, err));
    st->repeat = o->repeat > 0 ? (uint32_t)o->repeat : 5;
    st->profiling = o->profile != NULL;
    st->csv = o->csv;
    st->cached = calloc(st->count, sizeof *st->cached);
    st->uncached = calloc(st->count, sizeof *st->uncached);
    return st->cached != NULL && st->uncached != NULL ? MT_OK
                                                      : mt_no_memory(err, "a study's figures");
}

static mt_status measure(study *st, mt_error *err) {
    uint32_t each = 2 * st->repeat + 3 + (st->repeat < 3 ? 2 * st->repeat : st->repeat + 3) + 2;
    cli_progress_start(&st->progress, st->s.o.quiet, "measuring", "steps", st->count * each);
    mt_status status = MT_OK;
    for (; status == MT_OK && st->done < st->count; st->done += status == MT_OK) {
        uint32_t context = st->contexts[st->done];
        status = study_cached(st, context, false, &st->cached[st->done], err);
        if (status == MT_OK)
            status = study_uncached(st, context, &st->uncached[st->done], err);
    }
    if (status == MT_OK && st->inner->record != NULL && mt_kv_find(st->s.o.kv)->stays)
        status = study_cached(st, st->contexts[st->count - 1], true, &st->graph, err);
    cli_progress_end(&st->progress);
    return status;
}

/* The header comes first, so that whatever ends the study leaves a table that says so. */
static mt_status take_figures(study *st, const listeners *l, mt_error *err) {
    study_print_header(st);
    MT_TRY(cli_load(&st->s, err));
    MT_TRY(time_the_device(st, err));
    MT_TRY(study_peaks(st, err));
    study_print_peaks(st);
    fflush(stdout); /* what follows takes a while */
    mt_status status = measure(st, err);
    study_print_tables(st);
    return status == MT_OK ? mt_table_status(l->table, err) : status;
}

/* A profile is opened before anything is measured, and kept when a step was. */
static mt_status end_profile(study *st, mt_chrome *profile, mt_status status, mt_error *err) {
    mt_error late;
    if (profile == NULL)
        return status;
    if (st->done == 0 || (status != MT_OK && status != MT_INTERRUPTED)) {
        mt_chrome_abandon(profile);
        return status;
    }
    study_profile(st, profile);
    mt_status wrote = mt_chrome_commit(profile, &late);
    return wrote != MT_OK && status == MT_OK ? mt_fail(err, wrote, "%s", late.text) : status;
}

static mt_status study_run(study *st, const study_options *o, mt_error *err) {
    listeners l = { 0 };
    mt_chrome *profile = NULL;
    MT_TRY(cli_apart_from_stdout(o->profile, err));
    mt_status status =
        o->profile != NULL ? mt_chrome_open(&profile, o->profile, "memtrace", err) : MT_OK;
    if (status == MT_OK)
        status = listen(st, &l, err);
    if (status == MT_OK) {
        status = take_figures(st, &l, err);
        status = end_profile(st, profile, status, err);
        study_print_end(st, cli_ending(status));
        if (!st->s.o.quiet && st->done > 0)
            study_print_summary(st);
    } else {
        mt_chrome_abandon(profile);
    }
    mt_alloc_unlisten(st->s.alloc);
    mt_trace_abandon(l.trace);
    mt_table_close(l.table);
    return status;
}

static void close_study(study *st) {
    for (uint32_t i = 0; i < st->count && st->cached != NULL && st->uncached != NULL; i++) {
        study_drop(&st->cached[i]);
        study_drop(&st->uncached[i]);
    }
    study_drop(&st->graph);
    mt_alloc_put(st->s.alloc, &st->room, NULL);
    if (st->s.model != NULL && st->inner != NULL)
        st->s.model->device = st->inner;
    if (st->timed != NULL)
        st->timed->close(st->timed);
    mt_array_free(&st->memory);
    free(st->contexts);
    free(st->cached);
    free(st->uncached);
    cli_close(&st->s);
}

int cli_study(int argc, char **argv) {
    study_options o = { 0 };
    study st = { 0 };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    mt_status status = prepare(&st, &o, &err);
    if (status == MT_OK)
        status = study_run(&st, &o, &err);
    if (status == MT_NO_MEMORY)
        cli_tell_refusal(&st.s);
    else
        cli_fail(status, &err);
    close_study(&st);
    return cli_flush(status);
}
