/* replay.c - `memtrace replay`: a recorded run through other policies, or compared with PyTorch. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/list.h"
#include "cli/reading.h"
#include "cli/sweep.h"
#include "reports/optimum.h"
#include "alloc/torch/torch.h"
#include "base/size.h"
#include "base/text.h"
#include "reports/columns.h"
#include "reports/meter.h"
#include "traces/check.h"
#include "traces/replay.h"
#include "reports/torch_pools.h"
#include "reports/torch_summary.h"

static const char doc[] =
    "Replays the requests and frees of a recorded run through one or more policies, all of them in "
    "one pass, and prints one row per policy. FILE is of one of the formats below; - is standard "
    "input, gzip and zstd are decompressed.\v"
    "--check compares recordings and schedules of PyTorch with the torch policy: every address, "
    "counter, driver call, block and event. The first difference in each file is printed with the "
    "state of the pools around it, and the exit status is 1.\n\n"
    "Columns: rounding, split and cached are taken at the peak, the moment reserved was highest "
    "(and among those requested was highest); reserved at the end. overhead is peak_reserved minus "
    "peak_requested. calls counts driver calls (segments allocated and freed, pages mapped and "
    "unmapped). refused counts requests that did not fit into --capacity, of which the first is "
    "named with the largest free block and what the device had left; the exit status is then 3.\n\n"
    "\f\n"
    "Examples:\n"
    "  memtrace --backend none --trace run.trace > /dev/null\n"
    "  memtrace replay run.trace --policy torch,block:2MiB,direct\n"
    "  memtrace replay run.trace --summary torch\n"
    "  memtrace replay --check kv--default.tsv.gz";

typedef struct replay_options {
    const char *policy;
    unsigned summary; /* 0 no, 1 torch, 2 stats */
    cli_files files;
    uint64_t capacity, granularity, device;
    cli_reading reading;
    bool check, quiet, optimum;
} replay_options;

#define FIELD(name) offsetof(replay_options, name)
#define SIZE_MOST   ((uint64_t)1 << 50)

static const cli_option rows[] = {
    { CLI_FILES, FIELD(files), "FILE", "FILE...", .least = 1, .most = UINT32_MAX },
    { CLI_GROUP, .help = "Replay:" },
    { CLI_SPEC, FIELD(policy), "policy", "LIST",
      .help = "policies with their options, listed below", "torch" },
    { CLI_SIZE, FIELD(capacity), "capacity", "SIZE", .help = "memory of the device",
      "1024GiB: what one device served, this one serves", 1, SIZE_MOST },
    { CLI_SIZE, FIELD(granularity), "granularity", "SIZE",
      .help = "the driver rounds each segment up to a multiple of this power of two", "2MiB", 512,
      SIZE_MOST },
    { CLI_NUMBER, FIELD(device), "device", "N", .help = "which of the recording's devices", "0",
      .most = UINT32_MAX },
    { CLI_FLAG, FIELD(optimum), "optimum", .help = "one more row: the best packing found" },
    { CLI_GROUP, .help = "Output:" },
    { CLI_FLAG, FIELD(check), "check", .help = "compare with what PyTorch's allocator did" },
    { CLI_WORD, FIELD(summary), "summary", "torch|stats",
      .help = "print PyTorch's memory_summary, or every counter of memory_stats, at the end",
      .least = 1 },
    { CLI_FLAG, FIELD(quiet), "quiet", .help = "nothing but results and failures", .letter = 'q' },
    { .name = NULL },
};

static void check(struct argp_state *state, void *input) {
    replay_options *o = input;
    char size[32];
    cli_check_reading(state, &o->reading);
    if ((o->granularity & (o->granularity - 1)) != 0)
        cli_usage_error(state, "--granularity %s: expected a power of two",
                        cli_size_text(size, sizeof size, o->granularity));
    if (o->check && (o->policy || o->summary || o->optimum))
        cli_usage_error(state,
                        "--check takes its policy from each file: no --policy, no --summary, "
                        "no --optimum");
    if (!o->check && o->files.count > 1)
        cli_usage_error(state, "expected one FILE");
}

static void lists(FILE *out) {
    cli_list_policies(out);
    fputc('\n', out);
    cli_list_formats(out);
}

static const cli_usage usage = {
    .doc = doc,
    .lists = lists,
    .table = { { rows, 0 }, { cli_reading_rows, FIELD(reading) }, { cli_size_note, 0 } },
    .check = check
};

/* ---- checking -------------------------------------------------------------------------------- */

/* The pools around a difference, to be printed after it. */
static void around(void *out, mt_alloc *a, uint32_t stream, uint64_t rounded) {
    mt_torch_pools_print(out, a, stream, rounded);
}

/* One file; a difference is a result, a file that is no recording a failure. */
static mt_status check_file(const replay_options *o, const char *path, mt_check_counts *counts,
                            cli_progress *p) {
    mt_error err;
    char *text = NULL;
    size_t n = 0;
    FILE *pools = open_memstream(&text, &n);
    mt_status status = pools != NULL ? mt_check(path, &o->reading.how, counts, around, pools, &err)
                                     : mt_no_memory(&err, "a report");
    if (pools != NULL)
        fclose(pools);
    if (status != MT_OK)
        cli_progress_end(p);
    if (status == MT_CHECK)
        printf("%s\n%s", err.text, text);
    else
        cli_fail(status, &err);
    free(text);
    return status;
}

static mt_status check_files(const replay_options *o) {
    mt_check_counts n = { 0 };
    mt_status worst = MT_OK;
    int different = 0, broken = 0;
    cli_progress p;
    cli_progress_start(&p, o->quiet, "checking", "files", (uint64_t)o->files.count);
    for (int i = 0; i < o->files.count && !cli_interrupted(); i++) {
        mt_status status = check_file(o, o->files.path[i], &n, &p);
        cli_progress_show(&p, (uint64_t)i + 1);
        different += status == MT_CHECK;
        broken += status != MT_OK && status != MT_CHECK;
        worst = worst == MT_OK || status > worst ? status : worst;
    }
    cli_progress_end(&p);
    printf("%d files, %" PRIu64 " operations, %" PRIu64 " driver calls and places, %" PRIu64
           " blocks, %" PRIu64 " statistics, %" PRIu64
           " events: %d files differ, %d cannot be read\n",
           o->files.count, n.operations, n.calls + n.places, n.blocks, n.statistics, n.history,
           different, broken);
    return cli_interrupted() ? MT_INTERRUPTED : worst;
}

/* ---- replaying ------------------------------------------------------------------------------- */

/* The policies side by side, and behind them, if the optimum is asked for, `direct` on a device
 * without limit, which serves every request that the optimum is then found for. */
typedef struct session {
    const replay_options *o;
    cli_list policies;
    size_t n; /* of the arrays, [policies.count + 1] */
    mt_source **source;
    mt_alloc **alloc;
    mt_meter *meter;
    mt_optimum *optimum;
    mt_replay replay;
    mt_reader *in;
} session;

static mt_status open_alloc(session *s, const char *policy, uint64_t capacity, uint64_t granularity,
                            mt_error *err) {
    size_t i = s->n;
    MT_TRY(mt_source_sim(&s->source[i], capacity, granularity, err));
    s->n++;
    return mt_alloc_open(&s->alloc[i], s->source[i], policy, err);
}

static mt_status open_policies(session *s, mt_error *err) {
    const replay_options *o = s->o;
    for (size_t i = 0; i < s->policies.count; i++) {
        MT_TRY(open_alloc(s, s->policies.value[i], o->capacity > 0 ? o->capacity : 1024 * MT_GIB,
                          o->granularity > 0 ? o->granularity : 2 * MT_MIB, err));
        if (o->summary != 0 && mt_alloc_torch_stats(s->alloc[i]) == NULL)
            return mt_fail(err, MT_BAD, "--summary needs the torch policy, not %.100s",
                           s->policies.value[i]);
        cli_policy_notes(s->alloc[i], o->quiet);
        mt_meter_start(&s->meter[i], s->alloc[i]);
    }
    return MT_OK;
}

static mt_status open_session(session *s, mt_error *err) {
    const char *policy = s->o->policy != NULL ? s->o->policy : "torch";
    MT_TRY(cli_policy_list(&s->policies, policy, err));
    size_t most = s->policies.count + 1;
    s->source = calloc(most, sizeof(mt_source *));
    s->alloc = calloc(most, sizeof(mt_alloc *));
    s->meter = calloc(most, sizeof *s->meter);
    if (s->source == NULL || s->alloc == NULL || s->meter == NULL)
        return mt_no_memory(err, "policies");
    MT_TRY(open_policies(s, err));
    if (s->o->optimum) {
        MT_TRY(mt_optimum_open(&s->optimum, err));
        MT_TRY(open_alloc(s, "direct", UINT64_MAX / 2, 4 * MT_KIB, err));
        mt_alloc_listen(s->alloc[s->n - 1], mt_optimum_listener(s->optimum));
    }
    MT_TRY(mt_replay_open(&s->replay, s->alloc, s->n, err));
    s->replay.device = (uint32_t)s->o->device;
    return mt_reader_open_as(&s->in, s->o->files.path[0], &s->o->reading.how, err);
}

static void close_session(session *s) {
    mt_reader_close(s->in);
    mt_replay_close(&s->replay);
    for (size_t i = 0; i < s->n; i++) {
        if (s->alloc[i] != NULL)
            mt_alloc_unlisten(s->alloc[i]);
        mt_alloc_close(s->alloc[i]);
        s->source[i]->close(s->source[i]);
    }
    mt_optimum_close(s->optimum);
    free(s->source);
    free(s->alloc);
    free(s->meter);
    cli_list_free(&s->policies);
}

/* A row as it is printed. */
typedef struct line {
    const char *policy;
    mt_meter_row m;
    uint64_t overhead, refused;
} line;

#define BYTES(name)                                                                                \
    { #name, MT_CELL_U64, offsetof(line, m.name), 0 }

static const mt_column columns[] = {
    { "policy", MT_CELL_TEXT, offsetof(line, policy), 0 },
    BYTES(peak_requested),
    BYTES(peak_reserved),
    BYTES(reserved),
    BYTES(rounding),
    BYTES(split),
    BYTES(cached),
    { "overhead", MT_CELL_U64, offsetof(line, overhead), 0 },
    BYTES(calls),
    BYTES(bumps),
    { "refused", MT_CELL_U64, offsetof(line, refused), 0 },
    { .name = NULL },
};

static void print_row(const char *policy, const mt_meter_row *r, uint64_t refused) {
    const line l = { policy, *r, r->peak_reserved - r->peak_requested, refused };
    mt_columns_row(stdout, columns, &l, MT_DAT);
}

static void print_refused(const session *s, const mt_refused *r) {
    const mt_refusal *f = &r->first;
    char path[1000];
    if (r->count == 0)
        return;
    printf("# first refused: %" PRIu64 " bytes at %s:%" PRIu64 ": largest free block %" PRIu64
           ", free in segments %" PRIu64 ", free on the device %" PRIu64 "\n",
           f->request.bytes, mt_printable_path(path, sizeof path, mt_input_name(s->in->in)),
           r->line, f->largest_free, f->free_total, f->source_free);
}

static mt_status print_summary(const session *s, size_t i) {
    const mt_torch_stats *stats = mt_alloc_torch_stats(s->alloc[i]);
    if (s->o->summary != 0)
        (s->o->summary == 1 ? mt_torch_summary : mt_torch_statistics)(stdout, stats);
    return MT_OK;
}

/* The row of a policy. *least: the lowest peak of those that served everything. */
static mt_status print_policy(session *s, size_t i, uint64_t *least, mt_error *err) {
    const mt_refused *refused = &s->replay.refused[i];
    mt_meter_row row;
    MT_TRY(mt_alloc_check(s->alloc[i], err));
    mt_meter_read(&s->meter[i], &row);
    print_row(s->policies.value[i], &row, refused->count);
    print_refused(s, refused);
    if (refused->count == 0 && row.peak_reserved < *least)
        *least = row.peak_reserved;
    return print_summary(s, i);
}

/* The row of the best packing; never above what a policy of this run needed. */
static mt_status print_optimum(const session *s, uint64_t least, mt_error *err) {
    mt_bounds b;
    MT_TRY(mt_optimum_solve(s->optimum, &b, err));
    const mt_meter_row row = { .peak_requested = b.low,
                               .peak_reserved = b.high < least ? b.high : least };
    printf("# optimum: one contiguous range needs %s%" PRIu64
           "; the least reserved was found by %s\n",
           b.exact ? "" : "at most ", b.packed, b.high <= least ? b.how : "a policy above");
    print_row("optimum", &row, 0);
    return MT_OK;
}

/* What the rows are not of, when the file tells less than others do. */
static void print_lacks(const session *s) {
    char lacks[MT_LACKS];
    if (*mt_reader_lacks(s->in, lacks) != '\0')
        printf("# not told by the file: %s\n", lacks);
    if (s->replay.unknown > 0)
        printf("# frees of what was requested before the file begins: %" PRIu64 "\n",
               s->replay.unknown);
    if (s->replay.elsewhere > 0)
        printf("# requests of host memory or other devices, left out: %" PRIu64 "\n",
               s->replay.elsewhere);
}

static mt_status print_rows(session *s, mt_error *err) {
    uint64_t least = UINT64_MAX, refused = 0;
    cli_say_command(cli_comments, "replay");
    cli_say_path(cli_comments, "file", s->o->files.path[0]);
    cli_say_number(cli_comments, "requests", s->replay.requests);
    cli_say(cli_comments, MT_VALUE_TEXT, "units", "bytes");
    print_lacks(s);
    mt_columns_names(stdout, columns, MT_DAT);
    for (size_t i = 0; i < s->policies.count; i++) {
        MT_TRY(print_policy(s, i, &least, err));
        refused += s->replay.refused[i].count;
    }
    if (s->optimum != NULL)
        MT_TRY(print_optimum(s, least, err));
    if (refused > 0)
        return mt_fail(err, MT_NO_MEMORY,
                       "out of device memory (--capacity): %" PRIu64 " requests refused", refused);
    return MT_OK;
}

static mt_status replay(const replay_options *o, mt_error *err) {
    session s = { .o = o };
    mt_status status = open_session(&s, err);
    if (status == MT_OK)
        status = mt_replay_all(&s.replay, s.in, cli_interrupted, err);
    if (status == MT_OK)
        status = print_rows(&s, err);
    close_session(&s);
    return status;
}

int cli_replay(int argc, char **argv) {
    replay_options o = { 0 };
    mt_error err;
    mt_status status;
    cli_parse(&usage, argc, argv, &o);
    if (o.check) {
        status = check_files(&o);
    } else {
        status = replay(&o, &err);
        cli_fail(status, &err);
    }
    return cli_flush(status);
}
