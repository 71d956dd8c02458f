/* sweep.c - `memtrace sweep`: the grid of everything, in dry runs.
 *
 * Every option may be a list or a range. Each combination is one dry run of its own; rows of
 * several contexts come from one run, as its prefixes, where a shorter run would have made exactly
 * the same requests up to there. Runs share nothing, so they go in parallel and a row is the same
 * as the single run, whatever the number of threads. */
#include "cli/cli.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/list.h"
#include "cli/sweep.h"
#include "base/size.h"
#include "base/threads.h"
#include "reports/columns.h"

static const char doc[] =
    "Runs every combination of the given values as a dry run, in parallel, and prints one "
    "row each.\vA value may be a list (a,b,c) or a range (128..1024+128, "
    "block:64KiB..64MiB*2). In a list of policies, a word that is no policy's name is an "
    "option of the one before.\n"
    "\n"
    "Columns:\n"
    "  peak_requested, peak_reserved  the highest values\n"
    "  reserved                       at the end\n"
    "  rounding, split, cached        when reserved was highest\n"
    "  optimum_low, optimum_high      the least that any placement needs: at least\n"
    "                                 the peak of requested, at most the best\n"
    "                                 packing found with --optimum (0 without)\n"
    "  overhead                       peak_reserved less the optimum\n"
    "  calls                          to the driver: segments allocated and freed,\n"
    "                                 pages mapped and unmapped\n"
    "  bumps, bump_largest            steps with a bump, and the largest\n"
    "  change_mean, change_largest    of reserved from one token to the next\n"
    "  unused                         1 - requested / reserved, at the peak\n"
    "  internal                       rounding / rounded, at the peak\n"
    "  external                       1 - largest free block / free, at the end\n"
    "  ended                          done; or out-of-memory, with the figures up\n"
    "                                 to the refused request (status still 0)\n\n"
    "\f\n"
    "Examples:\n"
    "  memtrace sweep --policy block:64KiB..64MiB*2 --kv concat,static,paged:16\n"
    "  memtrace sweep --model gpt2,gpt2-xl --ctx 128..1024+128 --dtype f32,bf16\n"
    "  memtrace sweep --model gpt2-xl --batch 1,2,4,8,16 --capacity 24GiB --csv\n"
    "\n"
    "Exit status: 0 done; 1 a check did not hold; 2 bad input or usage; 4 a write failed or "
    "the host is out of memory; 130 interrupted.";

/* The axes of the grid, the last one varying fastest. */
enum axis {
    MODEL,
    DTYPE,
    BATCH,
    PROMPT,
    LOGITS,
    POLICY,
    KV,
    ACTIVATIONS,
    WORKSPACE,
    CAPACITY,
    CTX,
    AXES
};

typedef struct sweep_options {
    const char *axis[AXES];
    bool csv, json, quiet, optimum;
    uint64_t threads;
} sweep_options;

#define FIELD(name) offsetof(sweep_options, name)

/* The axes first, each in its place. */
static const cli_option rows[] = {
    { CLI_SPEC, FIELD(axis[MODEL]), "model", "LIST",
      .help = "presets, Hugging Face folders or llm.c files", "gpt2" },
    { CLI_SPEC, FIELD(axis[DTYPE]), "dtype", "LIST", .help = "f32, bf16, f16", "f32" },
    { CLI_SPEC, FIELD(axis[BATCH]), "batch", "LIST", .help = "sequences of equal length", "1" },
    { CLI_SPEC, FIELD(axis[PROMPT]), "prompt-tokens", "LIST", .help = "tokens of the prompt", "1" },
    { CLI_SPEC, FIELD(axis[LOGITS]), "logits", "LIST", .help = "last, all", "last" },
    { CLI_SPEC, FIELD(axis[POLICY]), "policy", "LIST",
      .help = "policies with their options, listed below", "torch" },
    { CLI_SPEC, FIELD(axis[KV]), "kv", "LIST", .help = "KV cache strategies, listed below",
      "concat" },
    { CLI_SPEC, FIELD(axis[ACTIVATIONS]), "activations", "LIST", .help = "eager, arena", "eager" },
    { CLI_SPEC, FIELD(axis[WORKSPACE]), "workspace", "LIST", .help = "sizes, or torch", "0" },
    { CLI_SPEC, FIELD(axis[CAPACITY]), "capacity", "LIST", .help = "sizes of the device's memory",
      CLI_CAPACITY_TEXT },
    { CLI_SPEC, FIELD(axis[CTX]), "ctx", "LIST", .help = "tokens in the cache at the end", "1024" },
    { CLI_GROUP, .help = "Output:" },
    { CLI_FLAG, FIELD(optimum), "optimum", .help = "find the best packing for each row (slower)" },
    { CLI_FLAG, FIELD(csv), "csv", .help = CLI_CSV_HELP },
    { CLI_FLAG, FIELD(json), "json", .help = "one JSON array of objects" },
    { CLI_FLAG, FIELD(quiet), "quiet", .help = "no progress", .letter = 'q' },
    { CLI_NUMBER, FIELD(threads), "threads", "N", .help = "runs in parallel", "all cores", 1,
      1024 },
    { .name = NULL },
};

static const char *axis_name(int axis) {
    return rows[axis].name;
}

static void check(struct argp_state *state, void *input) {
    const sweep_options *o = input;
    if (o->csv && o->json)
        cli_usage_error(state, "--csv or --json, not both");
}

static const cli_option heading[] = {
    { CLI_GROUP, .help = "Grid (LIST is a,b,c or a range such as 128..1024+128):" },
    { .name = NULL },
};

static const cli_usage usage = { .doc = doc,
                                 .lists = cli_list_memory,
                                 .table = { { heading, 0 }, { rows, 0 }, { cli_size_note, 0 } },
                                 .check = check };

/* ---- the grid -------------------------------------------------------------------------------- */

typedef struct grid {
    cli_list axis[AXES];
    size_t combinations; /* without ctx */
    size_t ctxs;
    sweep_row *row; /* [combinations, ctxs] */
    bool *exact;    /* [combinations]: one run serves all contexts */
    bool *ready;    /* [combinations, ctxs]: the run of this row is over */
} grid;

static mt_status read_axes(grid *g, const sweep_options *o, mt_error *err) {
    uint64_t n = 1;
    for (int i = 0; i < AXES; i++) {
        const char *text = o->axis[i] != NULL ? o->axis[i] : rows[i].standard;
        MT_TRY(i == POLICY ? cli_policy_list(&g->axis[i], text, err)
                           : cli_list_read(&g->axis[i], axis_name(i), text, NULL, err));
        n *= g->axis[i].count;
        if (n > 1000000)
            return mt_fail(err, MT_BAD, "the grid has more than 1,000,000 combinations");
    }
    g->ctxs = g->axis[CTX].count;
    g->combinations = n / g->ctxs;
    g->row = calloc(n, sizeof *g->row);
    g->exact = calloc(g->combinations, sizeof *g->exact);
    g->ready = calloc(n, sizeof *g->ready);
    return g->row != NULL && g->exact != NULL && g->ready != NULL ? MT_OK
                                                                  : mt_no_memory(err, "the rows");
}

static void free_grid(grid *g) {
    for (int i = 0; i < AXES; i++)
        cli_list_free(&g->axis[i]);
    free(g->row);
    free(g->exact);
    free(g->ready);
}

/* The values of a combination, ctx excepted. */
static void values_of(const grid *g, size_t combination, const char *value[AXES]) {
    for (int i = CTX - 1; i >= 0; i--) {
        value[i] = g->axis[i].value[combination % g->axis[i].count];
        combination /= g->axis[i].count;
    }
    value[CTX] = NULL;
}

/* ---- from values to a run -------------------------------------------------------------------- */

static mt_status bad_value(enum axis a, const char *value, const char *expected, mt_error *err) {
    return mt_fail(err, MT_BAD, "--%s %.100s: expected %s", axis_name((int)a), value, expected);
}

static mt_status read_model(const char *name, mt_config *c, mt_error *err) {
    mt_checkpoint *ck;
    if (mt_config_preset(name, c))
        return MT_OK;
    MT_TRY(cli_model_there(name, err));
    MT_TRY(mt_checkpoint_open(&ck, name, err));
    *c = *mt_checkpoint_config(ck);
    mt_checkpoint_close(ck);
    return MT_OK;
}

static mt_status two_words(enum axis a, const char *value, const char *no, const char *yes,
                           bool *out, mt_error *err) {
    *out = strcmp(value, yes) == 0;
    if (*out || strcmp(value, no) == 0)
        return MT_OK;
    char expected[64];
    snprintf(expected, sizeof expected, "%s or %s", no, yes);
    return bad_value(a, value, expected, err);
}

static mt_status number(enum axis a, const char *value, uint64_t most, uint32_t *out,
                        mt_error *err) {
    uint64_t n = 0;
    *out = 0;
    if (!mt_parse_u64(value, 1, most, &n))
        return bad_value(a, value, "an integer, at least 1", err);
    *out = (uint32_t)n;
    return MT_OK;
}

static mt_status read_values(const char *const v[AXES], sweep_run *r, mt_error *err) {
    *r = (sweep_run){ .policy = v[POLICY] };
    MT_TRY(read_model(v[MODEL], &r->config, err));
    MT_TRY(cli_read_dtype(v[DTYPE], &r->config.dtype, err));
    r->engine.kv = v[KV];
    MT_TRY(mt_kv_check(v[KV], err));
    MT_TRY(number(BATCH, v[BATCH], 1 << 20, &r->engine.batch, err));
    MT_TRY(number(PROMPT, v[PROMPT], 1 << 24, &r->engine.prompt, err));
    MT_TRY(two_words(LOGITS, v[LOGITS], "last", "all", &r->engine.logits_all, err));
    MT_TRY(two_words(ACTIVATIONS, v[ACTIVATIONS], "eager", "arena", &r->engine.arena, err));
    if (strcmp(v[WORKSPACE], "torch") == 0)
        r->engine.workspace = CLI_TORCH_WORKSPACE;
    else if (!mt_parse_size(v[WORKSPACE], &r->engine.workspace))
        return bad_value(WORKSPACE, v[WORKSPACE], "a size or torch", err);
    if (!mt_parse_size(v[CAPACITY], &r->capacity) || r->capacity == 0 ||
        r->capacity > (uint64_t)1 << 50)
        return bad_value(CAPACITY, v[CAPACITY], "a size", err);
    return MT_OK;
}

static mt_status read_ctx(const char *value, const sweep_run *r, uint32_t *ctx, mt_error *err) {
    MT_TRY(number(CTX, value, 1 << 24, ctx, err));
    if (*ctx > r->config.positions || *ctx < r->engine.prompt)
        return mt_fail(err, MT_BAD, "--ctx %u does not fit a prompt of %u tokens and %u positions",
                       *ctx, r->engine.prompt, r->config.positions);
    return MT_OK;
}

/* Looks at every value once, so that nothing is run when one is wrong. */
static mt_status check_values(grid *g, bool quiet, mt_error *err) {
    for (size_t i = 0; i < g->axis[POLICY].count; i++)
        MT_TRY(sweep_check_policy(g->axis[POLICY].value[i], quiet, err));
    for (size_t i = 0; i < g->combinations; i++) {
        const char *v[AXES];
        sweep_run r;
        uint32_t ctx = 0;
        values_of(g, i, v);
        MT_TRY(read_values(v, &r, err));
        for (size_t c = 0; c < g->ctxs; c++)
            MT_TRY(read_ctx(g->axis[CTX].value[c], &r, &ctx, err));
        g->exact[i] = sweep_prefixes_exact(&r.engine);
    }
    return MT_OK;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* A row as it is printed. */
typedef struct line {
    const char *axis[AXES];
    uint64_t number[AXES]; /* of the axes that are numbers, in bytes where they are sizes */
    sweep_row r;
    const char *ended;
} line;

#define NUMBER(name, cell, decimals)                                                               \
    { #name, cell, offsetof(line, r.name), decimals }
#define METER(name, cell, decimals)                                                                \
    { #name, cell, offsetof(line, r.m.name), decimals }

static const mt_column figures[] = {
    METER(peak_requested, MT_CELL_U64, 0),
    METER(peak_reserved, MT_CELL_U64, 0),
    METER(reserved, MT_CELL_U64, 0),
    METER(rounding, MT_CELL_U64, 0),
    METER(split, MT_CELL_U64, 0),
    METER(cached, MT_CELL_U64, 0),
    NUMBER(optimum_low, MT_CELL_U64, 0),
    NUMBER(optimum_high, MT_CELL_U64, 0),
    NUMBER(overhead, MT_CELL_U64, 0),
    METER(calls, MT_CELL_U64, 0),
    METER(bumps, MT_CELL_U64, 0),
    METER(bump_largest, MT_CELL_I64, 0),
    METER(change_mean, MT_CELL_REAL, 1),
    METER(change_largest, MT_CELL_I64, 0),
    METER(unused, MT_CELL_REAL, 6),
    METER(internal, MT_CELL_REAL, 6),
    METER(external, MT_CELL_REAL, 6),
    { "ended", MT_CELL_TEXT, offsetof(line, ended), 0 },
    { .name = NULL },
};

#define COLUMNS (AXES + sizeof figures / sizeof *figures)

/* The axes, in JSON as numbers where they are such, and the figures. */
static void make_columns(mt_column columns[COLUMNS], mt_form form) {
    const unsigned numbers =
        1u << BATCH | 1u << PROMPT | 1u << WORKSPACE | 1u << CAPACITY | 1u << CTX;
    for (size_t i = 0; i < AXES; i++) {
        bool number = form == MT_JSON && (numbers >> i & 1);
        columns[i] = (mt_column){ .name = axis_name((int)i),
                                  .cell = number ? MT_CELL_U64 : MT_CELL_TEXT,
                                  .at = number ? offsetof(line, number) + i * sizeof(uint64_t)
                                               : offsetof(line, axis) + i * sizeof(char *) };
    }
    memcpy(columns + AXES, figures, sizeof figures);
}

/* The grid as it is run. */
typedef struct sweep {
    grid g;
    sweep_options o;
    mt_form form;
    mt_json json;
    mt_column columns[COLUMNS];
    pthread_mutex_t lock; /* of all below, and of stdout */
    cli_progress progress;
    size_t done, next; /* rows that are run; the first that was not looked at for printing */
    mt_status status;  /* the first failure met */
    mt_error err;
} sweep;

static void print_row(sweep *s, size_t t) {
    const grid *g = &s->g;
    line l = { .r = g->row[t], .ended = "done" };
    sweep_run run;
    mt_error err;
    values_of(g, t / g->ctxs, l.axis);
    l.axis[CTX] = g->axis[CTX].value[t % g->ctxs];
    if (l.r.refused)
        l.ended = s->form == MT_JSON ? "out of memory" : "out-of-memory";
    if (s->form == MT_JSON && read_values(l.axis, &run, &err) == MT_OK) {
        l.number[BATCH] = run.engine.batch;
        l.number[PROMPT] = run.engine.prompt;
        l.number[WORKSPACE] = run.engine.workspace;
        l.number[CAPACITY] = run.capacity;
        l.number[CTX] = strtoull(l.axis[CTX], NULL, 10);
    }
    if (s->form == MT_JSON) {
        mt_json_line(&s->json);
        mt_columns_object(&s->json, NULL, s->columns, &l);
    } else {
        mt_columns_row(stdout, s->columns, &l, s->form);
    }
}

/* Prints the rows that come next and are there; at the end all that are there. */
static void print_rows(sweep *s, bool end) {
    size_t total = s->g.combinations * s->g.ctxs;
    for (; s->next < total && (end || s->g.ready[s->next]); s->next++)
        if (s->g.row[s->next].done)
            print_row(s, s->next);
    fflush(stdout);
}

static void print_begin(sweep *s) {
    make_columns(s->columns, s->form);
    if (s->form == MT_DAT) {
        cli_say_command(cli_comments, "sweep");
        cli_say(cli_comments, MT_VALUE_TEXT, "units", "bytes");
    }
    if (s->form == MT_JSON) {
        mt_json_to_file(&s->json, stdout);
        mt_json_begin_array(&s->json, NULL);
    } else {
        mt_columns_names(stdout, s->columns, s->form);
    }
}

static void print_end(sweep *s) {
    print_rows(s, true);
    if (s->form == MT_JSON) {
        mt_json_line(&s->json);
        mt_json_end(&s->json);
        bool failed = s->status != MT_OK;
        mt_status status = mt_json_finish(&s->json, failed ? NULL : &s->err);
        s->status = failed ? s->status : status;
    }
    if (s->form == MT_DAT && cli_ending(s->status) != NULL)
        printf("# %s\n", cli_ending(s->status));
}

/* ---- running --------------------------------------------------------------------------------- */

/* One combination, at one context or, where its run serves all, at each of them. */
static mt_status run_rows(sweep *s, size_t t, size_t count, mt_error *err) {
    const grid *g = &s->g;
    const char *v[AXES];
    sweep_run r;
    uint32_t *ctx = malloc(count * sizeof *ctx);
    if (ctx == NULL)
        return mt_no_memory(err, "a run");
    values_of(g, t / g->ctxs, v);
    mt_status status = read_values(v, &r, err);
    for (size_t c = 0; status == MT_OK && c < count; c++)
        status = read_ctx(g->axis[CTX].value[t % g->ctxs + c], &r, &ctx[c], err);
    r.optimum = s->o.optimum;
    if (status == MT_OK)
        status = sweep_dry_run(&r, ctx, count, g->row + t, err);
    free(ctx);
    return status;
}

/* Rows that are run go out at once, so that a reader who left is noticed. */
static void note(sweep *s, size_t t, size_t count, mt_status status, const mt_error *err) {
    pthread_mutex_lock(&s->lock);
    s->done += count;
    cli_progress_show(&s->progress, s->done);
    memset(s->g.ready + t, true, count);
    if (status == MT_OK)
        print_rows(s, false);
    if (s->status == MT_OK && cli_output_failed())
        s->status = MT_FAILED;
    if (s->status == MT_OK && status != MT_OK) {
        s->status = status;
        s->err = *err;
    }
    pthread_mutex_unlock(&s->lock);
}

static void run_chunk(void *context, size_t t) {
    sweep *s = context;
    bool exact = s->g.exact[t / s->g.ctxs];
    size_t count = exact ? s->g.ctxs : 1;
    mt_error err;
    pthread_mutex_lock(&s->lock);
    bool over = s->status != MT_OK;
    pthread_mutex_unlock(&s->lock);
    if (over || (exact && t % s->g.ctxs > 0))
        return;
    mt_status status = cli_interrupted() ? mt_fail(&err, MT_INTERRUPTED, "interrupted")
                                         : run_rows(s, t, count, &err);
    note(s, t, count, status, &err);
}

static void run_grid(sweep *s) {
    size_t total = s->g.combinations * s->g.ctxs;
    size_t threads = (size_t)cli_threads(s->o.threads, s->o.quiet);
    mt_threads *pool;
    s->status = mt_threads_open(&pool, (int)(threads < total ? threads : total), &s->err);
    if (s->status != MT_OK)
        return;
    cli_progress_start(&s->progress, s->o.quiet || isatty(STDOUT_FILENO), "sweep", "rows", total);
    mt_threads_run(pool, run_chunk, s, total);
    cli_progress_end(&s->progress);
    mt_threads_close(pool);
}

/* What a capacity that was reached did to the rows. */
static void tell_capacity(const sweep *s) {
    size_t rows = 0;
    for (size_t t = 0; s->g.row != NULL && t < s->g.combinations * s->g.ctxs; t++)
        rows += s->g.row[t].done && s->g.row[t].refusals > 0;
    if (rows > 0 && !s->o.quiet)
        fprintf(stderr,
                "%zu row%s reached --capacity%s: the allocator freed its cached segments and tried "
                "again\n",
                rows, rows == 1 ? "" : "s",
                s->o.axis[CAPACITY] == NULL ? " " CLI_CAPACITY_TEXT " (the default)" : "");
}

int cli_sweep(int argc, char **argv) {
    sweep s = { .lock = PTHREAD_MUTEX_INITIALIZER };
    cli_parse(&usage, argc, argv, &s.o);
    s.form = s.o.csv ? MT_CSV : s.o.json ? MT_JSON : MT_DAT;
    s.status = read_axes(&s.g, &s.o, &s.err);
    if (s.status == MT_OK)
        s.status = check_values(&s.g, s.o.quiet, &s.err);
    if (s.status == MT_OK) {
        print_begin(&s);
        run_grid(&s);
        print_end(&s);
    }
    s.status = cli_flush(s.status);
    cli_fail(s.status, &s.err);
    tell_capacity(&s);
    free_grid(&s.g);
    return s.status;
}
