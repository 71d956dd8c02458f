/* sweep.c - `memtrace sweep`: the grid of everything, in dry runs.
 *
 * Every option may be a list or a range. Each combination is one dry run of its own; rows of
 * several contexts come from one run, as its prefixes, where a shorter run would have made exactly
 * the same requests up to there. Runs share nothing, so they go in parallel and a row is the same
 * as the single run, whatever the number of threads. */
#include "cli/cli.h"
#include "cli/list.h"
#include "cli/sweep.h"

#include "base/size.h"
#include "base/text.h"
#include "reports/json.h"

#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Runs every combination of the given values as a dry run, in parallel, and prints one row "
    "each.\v"
    "A value may be a list (a,b,c) or a range (128..1024+128, block:64KiB..64MiB*2). In a list of "
    "policies a word that is not a policy's name is an option of the one before.\n\n"
    "Columns: the peak is the moment reserved was highest, and requested highest then; rounding, "
    "split and cached are taken there. overhead is peak_reserved less the least that any placement "
    "needs (the peak of requested, or with --optimum the best packing found). calls counts what "
    "the "
    "source was asked: segments taken and given back, pages mapped and unmapped. change is "
    "reserved "
    "from one token to the next. unused = 1 - requested / reserved and internal = rounding / "
    "rounded, "
    "both at the peak; external = 1 - largest free block / all free bytes, at the end. ended is "
    "done, or out-of-memory where --capacity did not hold the run: the numbers are then those up "
    "to "
    "the refused request. That is a result as any other, and the exit status stays 0.\n\n"
    "Examples:\n"
    "  memtrace sweep --policy block:64KiB..64MiB*2 --kv concat,static,paged:16\n"
    "  memtrace sweep --model gpt2,gpt2-xl --ctx 128..1024+128 --dtype f32,bf16\n"
    "  memtrace sweep --model gpt2-xl --batch 1,2,4,8,16 --capacity 24GiB --csv";

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
      .help = "policies with their options, see memtrace --help", "torch" },
    { CLI_SPEC, FIELD(axis[KV]), "kv", "LIST",
      .help = "KV cache strategies: concat, concat-tuple, static, doubling[:N], paged:N, none",
      "concat" },
    { CLI_SPEC, FIELD(axis[ACTIVATIONS]), "activations", "LIST", .help = "eager, arena", "eager" },
    { CLI_SPEC, FIELD(axis[WORKSPACE]), "workspace", "LIST", .help = "sizes, or torch", "0" },
    { CLI_SPEC, FIELD(axis[CAPACITY]), "capacity", "LIST", .help = "sizes of the device's memory",
      "1024GiB" },
    { CLI_SPEC, FIELD(axis[CTX]), "ctx", "LIST", .help = "tokens in the cache at the end", "1024" },
    { CLI_GROUP, .help = "Output:" },
    { CLI_FLAG, FIELD(optimum), "optimum", .help = "find the best packing for each row (slower)" },
    { CLI_FLAG, FIELD(csv), "csv", .help = "comma-separated values, a header line first" },
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
        argp_error(state, "--csv or --json, not both");
}

static const cli_option heading[] = {
    { CLI_GROUP, .help = "Grid (LIST is a,b,c or a range such as 128..1024+128):" },
    { .name = NULL },
};

static const cli_usage usage = { .doc = doc,
                                 .table = { { heading, 0 }, { rows, 0 }, { cli_size_note, 0 } },
                                 .check = check };

/* ---- the grid -------------------------------------------------------------------------------- */

typedef struct grid {
    cli_list axis[AXES];
    size_t combinations; /* without ctx */
    size_t ctxs;
    sweep_row *row; /* [combinations, ctxs] */
    bool *exact;    /* [combinations]: one run serves all contexts */
} grid;

static int is_policy(const char *word) {
    return mt_policy_known(word);
}

static mt_status read_axes(grid *g, const sweep_options *o, mt_error *err) {
    uint64_t n = 1;
    for (int i = 0; i < AXES; i++) {
        const char *text = o->axis[i] != NULL ? o->axis[i] : rows[i].standard;
        MT_TRY(cli_list_read(&g->axis[i], axis_name(i), text, i == POLICY ? is_policy : NULL, err));
        n *= g->axis[i].count;
        if (n > 1000000)
            return mt_fail(err, MT_BAD, "the grid has more than 1,000,000 combinations");
    }
    g->ctxs = g->axis[CTX].count;
    g->combinations = n / g->ctxs;
    g->row = calloc(n, sizeof *g->row);
    g->exact = calloc(g->combinations, sizeof *g->exact);
    return g->row != NULL && g->exact != NULL ? MT_OK
                                              : mt_fail(err, MT_FAILED, "no memory for the rows");
}

static void free_grid(grid *g) {
    for (int i = 0; i < AXES; i++)
        cli_list_free(&g->axis[i]);
    for (size_t i = 0; g->row != NULL && i < g->combinations * g->ctxs; i++)
        free(g->row[i].note);
    free(g->row);
    free(g->exact);
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
static mt_status check_values(grid *g, mt_error *err) {
    for (size_t i = 0; i < g->combinations; i++) {
        const char *v[AXES];
        sweep_run r;
        uint32_t ctx = 0;
        values_of(g, i, v);
        MT_TRY(read_values(v, &r, err));
        MT_TRY(sweep_check_policy(v[POLICY], err));
        for (size_t c = 0; c < g->ctxs; c++)
            MT_TRY(read_ctx(g->axis[CTX].value[c], &r, &ctx, err));
        g->exact[i] = sweep_prefixes_exact(&r.engine);
    }
    return MT_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* One combination, all contexts from one run. */
static mt_status run_prefixes(grid *g, size_t i, const sweep_options *o, mt_error *err) {
    const char *v[AXES];
    sweep_run r;
    uint32_t *ctx = malloc(g->ctxs * sizeof *ctx);
    if (ctx == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a run");
    values_of(g, i, v);
    mt_status status = read_values(v, &r, err);
    for (size_t c = 0; status == MT_OK && c < g->ctxs; c++)
        status = read_ctx(g->axis[CTX].value[c], &r, &ctx[c], err);
    r.optimum = o->optimum;
    if (status == MT_OK)
        status = sweep_dry_run(&r, ctx, g->ctxs, g->row + i * g->ctxs, cli_interrupted, err);
    free(ctx);
    return status;
}

static mt_status run_single(grid *g, size_t i, size_t c, const sweep_options *o, mt_error *err) {
    const char *v[AXES];
    sweep_run r;
    uint32_t ctx = 0;
    values_of(g, i, v);
    MT_TRY(read_values(v, &r, err));
    MT_TRY(read_ctx(g->axis[CTX].value[c], &r, &ctx, err));
    r.optimum = o->optimum;
    return sweep_dry_run(&r, &ctx, 1, g->row + i * g->ctxs + c, cli_interrupted, err);
}

/* All runs, in parallel; the first failure of the lowest row is told. */
static mt_status run_grid(grid *g, const sweep_options *o, mt_error *err) {
    size_t total = g->combinations * g->ctxs, done = 0;
    mt_status worst = MT_OK;
    cli_progress p;
    int threads = o->threads > 0 ? (int)o->threads : omp_get_num_procs();
    cli_progress_start(&p, o->quiet, "sweep", "rows", total);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t t = 0; t < total; t++) {
        size_t i = t / g->ctxs, c = t % g->ctxs, rows = g->exact[i] ? g->ctxs : 1;
        mt_error e;
        if (cli_interrupted() || (g->exact[i] && c > 0))
            continue;
        mt_status status = g->exact[i] ? run_prefixes(g, i, o, &e) : run_single(g, i, c, o, &e);
#pragma omp critical
        {
            done += rows;
            cli_progress_show(&p, done);
            if (status != MT_OK && status != MT_INTERRUPTED && worst == MT_OK) {
                worst = status;
                *err = e;
            }
        }
    }
    cli_progress_end(&p);
    return worst;
}

/* ---- output
 * -----------------------------------------------------------------------------------------------
 */

static const char number_columns[] =
    "peak_requested peak_reserved reserved rounding split cached optimum_low optimum_high overhead "
    "calls bumps bump_largest change_mean change_largest unused internal external";

static void print_names(const sweep_options *o) {
    const char *separator = o->csv ? "," : " ";
    printf("%s", o->csv ? "" : "# ");
    for (int i = 0; i < AXES; i++)
        printf("%s%s", axis_name(i), separator);
    for (const char *c = number_columns; *c != '\0'; c++)
        putchar(*c == ' ' ? *separator : *c);
    printf("%sended\n", separator);
}

static void print_numbers(const sweep_row *r, const char *s) {
    printf("%" PRIu64 "%s%" PRIu64 "%s%" PRIu64 "%s%" PRIu64 "%s%" PRIu64 "%s%" PRIu64 "%s",
           r->m.peak_requested, s, r->m.peak_reserved, s, r->m.reserved, s, r->m.rounding, s,
           r->m.split, s, r->m.cached, s);
    printf("%" PRIu64 "%s%" PRIu64 "%s%" PRIu64 "%s%" PRIu64 "%s%" PRIu64 "%s%" PRId64 "%s",
           r->optimum_low, s, r->optimum_high, s, r->overhead, s, r->m.calls, s, r->m.bumps, s,
           r->m.bump_largest, s);
    printf("%.1f%s%" PRId64 "%s%.6f%s%.6f%s%.6f", r->m.change_mean, s, r->m.change_largest, s,
           r->m.unused, s, r->m.internal, s, r->m.external);
}

/* Commas and quotes in quotes, a quote twice. */
static void print_csv_value(const char *value) {
    if (strpbrk(value, ",\"\r\n") == NULL) {
        fputs(value, stdout);
        return;
    }
    putchar('"');
    for (; *value != '\0'; value++)
        printf(*value == '"' ? "\"\"" : "%c", *value);
    putchar('"');
}

/* A folder's name may have blanks and worse: a column has none. */
static void print_column(const char *value) {
    char shown[4096];
    for (const char *c = mt_printable(shown, sizeof shown, value, strlen(value)); *c != '\0'; c++)
        printf(*c == ' ' ? "\\x20" : "%c", *c);
}

static void print_text_row(const char *const v[AXES], const sweep_row *r, const sweep_options *o) {
    const char *s = o->csv ? "," : " ";
    for (int i = 0; i < AXES; i++) {
        (o->csv ? print_csv_value : print_column)(v[i]);
        fputs(s, stdout);
    }
    print_numbers(r, s);
    printf("%s%s\n", s, r->note == NULL ? "done" : "out-of-memory");
}

static void print_json_row(const char *const v[AXES], const sweep_row *r, bool first) {
    printf("%s\n{", first ? "[" : ",");
    for (int i = 0; i < AXES; i++) {
        printf("\"%s\":", axis_name(i));
        mt_json_string(stdout, v[i]);
        putchar(',');
    }
    printf("\"peak_requested\":%" PRIu64 ",\"peak_reserved\":%" PRIu64 ",\"reserved\":%" PRIu64
           ",\"rounding\":%" PRIu64 ",\"split\":%" PRIu64 ",\"cached\":%" PRIu64 ",",
           r->m.peak_requested, r->m.peak_reserved, r->m.reserved, r->m.rounding, r->m.split,
           r->m.cached);
    printf("\"optimum_low\":%" PRIu64 ",\"optimum_high\":%" PRIu64 ",\"overhead\":%" PRIu64
           ",\"calls\":%" PRIu64 ",\"bumps\":%" PRIu64 ",\"bump_largest\":%" PRId64 ",",
           r->optimum_low, r->optimum_high, r->overhead, r->m.calls, r->m.bumps, r->m.bump_largest);
    printf("\"change_mean\":%.1f,\"change_largest\":%" PRId64
           ",\"unused\":%.6f,\"internal\":%.6f,\"external\":%.6f,\"ended\":\"%s\"}",
           r->m.change_mean, r->m.change_largest, r->m.unused, r->m.internal, r->m.external,
           r->note == NULL ? "done" : "out of memory");
}

static void print_grid(const grid *g, const sweep_options *o) {
    bool first = true;
    if (!o->json)
        printf(o->csv ? "" : "# memtrace %s\n# command sweep\n# units bytes\n", MT_VERSION);
    if (!o->json)
        print_names(o);
    for (size_t t = 0; t < g->combinations * g->ctxs; t++) {
        const char *v[AXES];
        if (!g->row[t].done)
            continue;
        values_of(g, t / g->ctxs, v);
        v[CTX] = g->axis[CTX].value[t % g->ctxs];
        if (o->json)
            print_json_row(v, &g->row[t], first);
        else
            print_text_row(v, &g->row[t], o);
        first = false;
    }
    if (o->json)
        printf("%s\n]\n", first ? "[" : "");
    else if (cli_interrupted() && !o->csv)
        printf("# interrupted\n");
}

int cli_sweep(int argc, char **argv) {
    sweep_options o = { 0 };
    grid g = { 0 };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    mt_status status = read_axes(&g, &o, &err);
    if (status == MT_OK)
        status = check_values(&g, &err);
    if (status == MT_OK) {
        status = run_grid(&g, &o, &err);
        print_grid(&g, &o);
        if (status == MT_OK && cli_interrupted())
            status = MT_INTERRUPTED;
    }
    cli_fail(status, &err);
    free_grid(&g);
    return cli_flush(status);
}
