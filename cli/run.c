/* run.c - `memtrace run`, the main job: one generation, one row per step.
 *
 * The rows are made from the allocator's events as they come; they go to stdout as the .dat table
 * or as JSON, and to the summary. The trace is written beside. Whatever ends the run early, the
 * rows so far are kept and the last line says what happened. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/torch/torch.h"
#include "reports/json.h"
#include "reports/summary.h"
#include "reports/torch_summary.h"
#include "traces/trace.h"

static const char doc[] =
    "Runs one greedy GPT-2 generation, takes every byte of device memory through an "
    "instrumented allocator, and prints one row per step: what was requested (by tag), what "
    "the allocator added, what is reserved, and which allocation caused each "
    "bump.\vCommands (memtrace help COMMAND describes each):\n"
    "  memtrace [run]       one generation, one row of memory per step\n"
    "  memtrace generate    text in, text out\n"
    "  memtrace tokenize    text to token ids, or back\n"
    "  memtrace verify      the KV cache against a run without one\n"
    "  memtrace predict     what PyTorch would show after each token\n"
    "  memtrace replay      a recorded trace through other policies\n"
    "  memtrace convert     a recorded trace in another form\n"
    "  memtrace explain     where a PyTorch program's memory went\n"
    "  memtrace sweep       a grid of dry runs, one row each\n"
    "  memtrace study       what a step costs in time, and what bounds it\n"
    "  memtrace plot        a chart from an output file\n"
    "\n"
    "The table is made for gnuplot: comments with the settings, then whitespace-separated "
    "columns in bytes. At the end of each step, reserved = weights + kv + activations + "
    "logits + workspace + other (what was requested) + rounding + split + cached. bump is "
    "the change of reserved less the change of kv, cause the segments that came and went. "
    "With --csv the row of step -1 is the state after loading.\n"
    "\n"
    "\f\n"
    "Examples:\n"
    "  memtrace --ctx 1024 > mem.dat\n"
    "  memtrace --backend none --model gpt2-xl --batch 8 --capacity 80GiB > xl.dat\n"
    "  memtrace --policy block:2MiB --kv paged:16 --trace t.zst > paged.dat\n"
    "  memtrace --policy torch,expandable_segments:True > expandable.dat\n"
    "\n"
    "Exit status: 0 done; 1 a check did not hold; 2 bad input or usage; 3 out of device "
    "memory; 4 a device, library or write failed; 130 interrupted.";

typedef struct run_options {
    cli_options engine;
    bool csv;
    unsigned summary; /* PyTorch's view in place of ours: 0 no, 1 torch, 2 stats */
} run_options;

static const cli_option rows[] = {
    { CLI_WORD, offsetof(run_options, summary), "summary", "torch|stats",
      .help =
          "end with PyTorch's memory_summary, or with every counter of memory_stats (policy torch)",
      .least = 1 },
    { CLI_FLAG, offsetof(run_options, csv), "csv", .help = CLI_CSV_HELP },
    { .name = NULL },
};

static void check(struct argp_state *state, void *input) {
    const run_options *o = input;
    cli_check_engine(state, &o->engine);
    if (o->csv && o->engine.json)
        cli_usage_error(state, "--csv or --json, not both");
}

static const cli_usage usage = {
    .doc = doc,
    .lists = cli_list_memory,
    .table = { CLI_ENGINE_TABLES(0), { cli_output_rows, 0 }, { rows, 0 }, { cli_size_note, 0 } },
    .check = check,
};

/* Where rows go. */
typedef struct run_out {
    cli_session s;
    bool unwritten; /* the trace */
    unsigned view;
    mt_form form;
    mt_table *table;
    mt_trace *trace;
    mt_run_json *json;
    mt_summary *summary;
    cli_progress progress;
    bool columns_printed;
    uint32_t steps;    /* done */
    int64_t full_step; /* in which the capacity was reached first, or the next to come */
    uint64_t refusals; /* of the source, at the last row */
    cli_library library;
    mt_error library_error; /* of a look between two steps */
} run_out;

/* ---- headers and rows ------------------------------------------------------------------------ */

static void to_trace(void *context, const char *name, const char *value, mt_value_kind kind) {
    char line[2048];
    (void)kind;
    snprintf(line, sizeof line, "%s %s", name, value);
    mt_trace_header(context, line);
}

static void to_json(void *context, const char *name, const char *value, mt_value_kind kind) {
    mt_run_json_header(context, name, value, kind);
}

static void to_json_notes(void *context, const char *name, const char *value, mt_value_kind kind) {
    mt_run_json_note(context, name, value, kind);
}

/* The line that names the columns is the last of the header: right before the first row. */
static void print_columns(run_out *out) {
    if (!out->columns_printed)
        mt_columns_names(stdout, mt_table_columns, out->form);
    out->columns_printed = true;
}

static void on_row(void *context, const mt_row *row) {
    run_out *out = context;
    uint64_t refusals = out->s.source->refusals;
    mt_summary_row(out->summary, row);
    if (out->refusals == 0)
        out->full_step = row->step + (refusals == 0);
    out->refusals = refusals;
    if (out->form == MT_JSON) {
        mt_run_json_row(out->json, row);
        return;
    }
    if (row->step >= 0 || out->form == MT_CSV)
        print_columns(out);
    mt_table_print(stdout, row, out->form);
}

static mt_status on_step(void *context, uint32_t step, uint32_t ctx, const int32_t *next) {
    run_out *out = context;
    (void)next;
    cli_progress_show(&out->progress, step + 1);
    if (cli_output_failed())
        return MT_FAILED;
    if (mt_table_status(out->table, NULL) != MT_OK)
        return MT_CHECK;
    bool last = ctx == out->s.ctx;
    if (step == CLI_WARM || last)
        MT_TRY(cli_library_look(&out->library, &out->s, &out->library_error));
    return cli_interrupted() ? MT_INTERRUPTED : MT_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static mt_status open_outputs(run_out *out, mt_error *err) {
    cli_session *s = &out->s;
    MT_TRY(cli_apart_from_stdout(s->o.trace, err));
    MT_TRY(mt_summary_open(&out->summary, err));
    MT_TRY(mt_table_open(&out->table, mt_alloc_ledger(s->alloc), on_row, out, err));
    mt_alloc_listen(s->alloc, mt_table_listener(out->table));
    if (s->o.trace != NULL) {
        MT_TRY(mt_trace_create(&out->trace, s->o.trace, s->o.trace_time, err));
        cli_say_session((cli_sink){ to_trace, out->trace }, s, "run");
        mt_alloc_listen(s->alloc, mt_trace_listener(out->trace));
        mt_alloc_stamp(s->alloc, s->o.trace_time);
    }
    if (out->form == MT_JSON)
        return mt_run_json_open(&out->json, stdout, MT_VERSION, err);
    return MT_OK;
}

static void print_header(const run_out *out) {
    if (out->form == MT_JSON)
        cli_say_session((cli_sink){ to_json, out->json }, &out->s, "run");
    else if (out->form == MT_DAT)
        cli_say_session(cli_comments, &out->s, "run");
}

static mt_status generate(run_out *out, mt_error *err) {
    cli_session *s = &out->s;
    mt_generation g = { .on_step = on_step, .context = out, .stop = -1 };
    print_header(out);
    MT_TRY(cli_load(s, err));
    MT_TRY(cli_open_engine(s, err));
    cli_progress_start(&out->progress, s->o.quiet || isatty(STDOUT_FILENO), "decoding", "steps",
                       mt_generate_steps(s->engine));
    mt_status status = mt_generate(s->engine, s->prompt, &g, NULL, &out->steps, err);
    cli_progress_end(&out->progress);
    MT_TRY(mt_table_status(out->table, err)); /* first: it says what did not hold */
    if (out->library_error.status != MT_OK)
        *err = out->library_error;
    MT_TRY(status);
    return mt_alloc_check(s->alloc, err);
}

/* What is known at the end only. */
static void say_end(const run_out *out, cli_sink to) {
    cli_library_lines(&out->library, &out->s, to);
    if (out->refusals > 0)
        cli_say(to, MT_VALUE_NUMBER, "capacity reached",
                "%" PRIu64 " time%s, first in step %" PRId64, out->refusals,
                out->refusals == 1 ? "" : "s", out->full_step);
}

/* Ends stdout; what could not be written there, cli_flush will tell. */
static mt_status close_stdout(run_out *out, mt_status status, mt_error *err) {
    const cli_session *s = &out->s;
    mt_error late;
    const mt_refusal *refusal = status == MT_NO_MEMORY ? mt_alloc_refusal(s->alloc) : NULL;
    const char *end = cli_ending(status);
    out->refusals = s->source->refusals;
    if (out->form == MT_JSON) {
        say_end(out, (cli_sink){ to_json_notes, out->json });
        mt_status closed = mt_run_json_close(out->json, mt_alloc_ledger(s->alloc),
                                             end ? end : "done", refusal, &late);
        if (closed == MT_CHECK && status == MT_OK) {
            *err = late;
            return closed;
        }
    } else {
        print_columns(out);
        if (out->form == MT_DAT)
            say_end(out, cli_comments);
        if (out->form == MT_DAT && end != NULL)
            printf("# %s\n", end);
        fflush(stdout);
    }
    return cli_output_failed() && status == MT_OK ? MT_FAILED : status;
}

/* Ends the trace as the run ended; bad input and a failure leave none. */
static mt_status close_trace(run_out *out, mt_status status, mt_error *err) {
    mt_trace *trace = out->trace;
    mt_error late;
    if (trace == NULL || status == MT_BAD || status == MT_FAILED)
        return status;
    out->trace = NULL;
    if (mt_trace_commit(trace, cli_ending(status), &late) == MT_OK)
        return status;
    if (status == MT_OK || status == MT_INTERRUPTED) {
        *err = late;
        out->unwritten = true;
        return MT_FAILED;
    }
    cli_fail(MT_FAILED, &late);
    return status;
}

/* What could not be written is the last word of a run: no figures follow. */
static bool output_failed(const run_out *out, mt_status status) {
    return status == MT_FAILED && (out->unwritten || cli_output_failed());
}

/* Why a run ended early, before any figure of it. Returns the status, now that stdout is
 * flushed. */
static mt_status tell_cut(const run_out *out, mt_status status, const mt_error *err) {
    bool stopped = status == MT_NO_MEMORY || status == MT_INTERRUPTED;
    mt_status flushed = cli_flush(status);
    if (flushed == status && !stopped)
        cli_fail(status, err);
    bool whole = out->s.engine != NULL && out->steps == mt_generate_steps(out->s.engine);
    if (flushed == MT_OK || out->s.o.quiet || output_failed(out, flushed) || (whole && !stopped))
        return flushed;
    fprintf(stderr, "cut short%s%s ", stopped ? ": " : "", stopped ? cli_ending(status) : "");
    if (out->s.engine != NULL)
        fprintf(stderr, "after %u of %u steps; the figures below cover these steps only\n",
                out->steps, mt_generate_steps(out->s.engine));
    else
        fputs("while loading; the figures below are of that moment\n", stderr);
    return flushed;
}

static void tell(const run_out *out, mt_status status) {
    const cli_session *s = &out->s;
    if (output_failed(out, status))
        return;
    if (out->view != 0)
        (out->view == 1 ? mt_torch_summary : mt_torch_statistics)(stderr,
                                                                  mt_alloc_torch_stats(s->alloc));
    else if (!s->o.quiet)
        mt_summary_print(stderr, out->summary, mt_alloc_ledger(s->alloc),
                         mt_config_kv_bytes_per_token(&s->config) * s->batch);
    if (!s->o.quiet) {
        if (out->refusals > 0 && fputc('\n', stderr) != EOF)
            cli_tell_capacity(s->source, s->o.capacity == 0, out->full_step);
        cli_library_lines(&out->library, s, cli_stderr);
    }
    if (status == MT_NO_MEMORY)
        mt_oom_print(stderr, mt_alloc_refusal(s->alloc));
}

/* What a run without options is about to do, to somebody who looks on. */
static void introduce(const cli_session *s) {
    fprintf(
        stderr,
        "generating %u tokens with GPT-2 small (seeded random weights) on the %s back end, one "
        "row\nof memory per token; this takes %s. A dry run gives the same figures in a second,\n"
        "without computing: memtrace --backend none. All options: memtrace --help\n",
        s->ctx, s->device->name, s->cuda.device != NULL ? "seconds" : "10 to 60 seconds");
}

int cli_run(int argc, char **argv) {
    run_options o = { 0 };
    run_out out = { .full_step = -1 };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    mt_status status = cli_prepare(&out.s, &o.engine, false, &err);
    if (status == MT_OK && o.summary != 0 && mt_alloc_torch_stats(out.s.alloc) == NULL)
        status = mt_fail(&err, MT_BAD, "--summary needs the torch policy");
    if (status == MT_OK && argc < 2 && isatty(STDERR_FILENO))
        introduce(&out.s);
    out.view = o.summary;
    out.form = o.csv ? MT_CSV : o.engine.json ? MT_JSON : MT_DAT;
    if (status == MT_OK)
        status = open_outputs(&out, &err);
    if (status == MT_OK) {
        status = generate(&out, &err);
        status = close_stdout(&out, status, &err);
        status = close_trace(&out, status, &err);
        status = tell_cut(&out, status, &err);
        tell(&out, status);
    } else {
        cli_fail(status, &err);
    }
    if (out.s.alloc != NULL)
        mt_alloc_unlisten(out.s.alloc);
    mt_trace_abandon(out.trace);
    mt_table_close(out.table);
    mt_summary_close(out.summary);
    cli_close(&out.s);
    return status;
}
