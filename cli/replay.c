/* replay.c - `memtrace replay`: a stored run through other policies, or held against PyTorch's own.
 */
#include "cli/cli.h"
#include "cli/list.h"
#include "cli/sweep.h"

#include "reports/optimum.h"
#include "alloc/torch/internal.h"
#include "base/output.h"
#include "base/size.h"
#include "base/text.h"
#include "reports/meter.h"
#include "traces/ops.h"
#include "traces/schedule_check.h"
#include "traces/torch_check.h"
#include "reports/torch_summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Replays the requests and frees of a stored run through one or more policies and prints one "
    "row each. FILE is a memtrace trace (--trace), a recorded trace of PyTorch's allocator or a "
    "schedule of "
    "a whole decode (.gz and .zst are read).\v"
    "--check holds recorded traces and schedules of PyTorch against the torch policy: every place, "
    "counter, driver call, block and event; the first difference is printed, and the exit status "
    "is "
    "1.\n\n"
    "Columns: the peak is the moment reserved was highest, and requested highest then; rounding, "
    "split and cached are taken there, reserved at the end. overhead is peak_reserved less "
    "peak_requested. calls counts what the device was asked for segments, refused the requests "
    "that "
    "--capacity did not hold: the exit status is then 3.\n\n"
    "Examples:\n"
    "  memtrace --backend none --trace run.trace > /dev/null\n"
    "  memtrace replay run.trace --policy torch,block:2MiB,direct\n"
    "  memtrace replay run.trace --summary torch\n"
    "  memtrace replay --check kv--default.tsv.gz";

typedef struct replay_options {
    const char *policy;
    unsigned summary; /* 0 no, 1 torch, 2 stats */
    cli_files files;
    uint64_t capacity, granularity;
    bool check, quiet, optimum;
} replay_options;

#define FIELD(name) offsetof(replay_options, name)
#define SIZE_MOST   ((uint64_t)1 << 50)

static const cli_option rows[] = {
    { CLI_FILES, FIELD(files), "FILE", "FILE...", .least = 1, .most = UINT32_MAX },
    { CLI_GROUP, .help = "Replay:" },
    { CLI_SPEC, FIELD(policy), "policy", "LIST",
      .help = "policies with their options, see memtrace --help", "torch" },
    { CLI_SIZE, FIELD(capacity), "capacity", "SIZE", .help = "memory of the device", "1024GiB", 1,
      SIZE_MOST },
    { CLI_SIZE, FIELD(granularity), "granularity", "SIZE",
      .help = "the driver rounds each segment up to a multiple of this power of two", "2MiB", 512,
      SIZE_MOST },
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
    const replay_options *o = input;
    char size[32];
    if ((o->granularity & (o->granularity - 1)) != 0)
        argp_error(state, "--granularity %s: expected a power of two",
                   cli_size_text(size, sizeof size, o->granularity));
    if (o->check && (o->policy || o->summary || o->optimum))
        argp_error(state, "--check takes its policy from each file: no --policy, no --summary, "
                          "no --optimum");
    if (!o->check && o->files.count > 1)
        argp_error(state, "expected one FILE");
}

static const cli_usage usage = { .doc = doc,
                                 .table = { { rows, 0 }, { cli_size_note, 0 } },
                                 .check = check };

/* ---- checking -------------------------------------------------------------------------------- */

/* Whether a file holds a schedule; a file that cannot be read is told by the check itself. */
static bool holds_schedule(const char *path) {
    char *data;
    size_t n;
    if (mt_input_read(path, (size_t)1 << 30, &data, &n, NULL) != MT_OK)
        return false;
    bool is = mt_is_schedule(data);
    free(data);
    return is;
}

/* One file; a difference is printed with the pools around it, a file that is no recording refused.
 */
static mt_status check_file(const char *path, mt_torch_counts *traces,
                            mt_schedule_counts *schedules, cli_progress *p, mt_error *err) {
    char *text = NULL;
    size_t n = 0;
    FILE *around = open_memstream(&text, &n);
    mt_status status = holds_schedule(path) ? mt_schedule_check_to(path, schedules, around, err)
                                            : mt_torch_check_to(path, traces, around, err);
    if (around != NULL)
        fclose(around);
    if (status != MT_OK)
        cli_progress_end(p);
    if (status == MT_CHECK)
        printf("%s\n%s", err->text, text != NULL ? text : "");
    else
        cli_fail(status, err);
    free(text);
    return status;
}

static int check_files(const replay_options *o) {
    mt_torch_counts traces = { 0 };
    mt_schedule_counts schedules = { 0 };
    mt_status worst = MT_OK;
    int different = 0, broken = 0;
    cli_progress p;
    cli_progress_start(&p, o->quiet, "checking", "files", (uint64_t)o->files.count);
    for (int i = 0; i < o->files.count && !cli_interrupted(); i++) {
        mt_error err;
        mt_status status = check_file(o->files.path[i], &traces, &schedules, &p, &err);
        cli_progress_show(&p, (uint64_t)i + 1);
        different += status == MT_CHECK;
        broken += status != MT_OK && status != MT_CHECK;
        worst = worst == MT_OK || status > worst ? status : worst;
    }
    cli_progress_end(&p);
    printf("%d files, %" PRIu64 " operations, %" PRIu64 " driver calls and places, %" PRIu64
           " blocks, %" PRIu64 " statistics, %" PRIu64
           " events: %d files differ, %d cannot be read\n",
           o->files.count, traces.operations + schedules.operations,
           schedules.calls + schedules.places, traces.blocks,
           traces.statistics + 14 * schedules.markers, traces.history, different, broken);
    return cli_interrupted() ? MT_INTERRUPTED : worst;
}

/* ---- replaying ------------------------------------------------------------------------------- */

static void print_row(const char *policy, const mt_meter_row *r, uint64_t refused) {
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           policy, r->peak_requested, r->peak_reserved, r->reserved, r->rounding, r->split,
           r->cached, r->peak_reserved - r->peak_requested, r->calls, r->bumps, refused);
}

static mt_status print_summary(const replay_options *o, mt_alloc *a, mt_error *err) {
    mt_policy *p = mt_alloc_policy_of(a);
    if (o->summary == 0)
        return MT_OK;
    if (p->ops != &mt_policy_torch)
        return mt_fail(err, MT_BAD, "--summary needs the torch policy, not %s", p->ops->name);
    (o->summary == 1 ? mt_torch_summary : mt_torch_statistics)(stdout, &((torch *)p)->stats);
    return MT_OK;
}

/* *least: the lowest peak of the policies that served everything. */
static mt_status replay_one(const replay_options *o, const mt_ops *ops, const char *policy,
                            uint64_t *least, uint64_t *refusals, mt_error *err) {
    mt_source *source;
    mt_alloc *a = NULL;
    mt_meter meter;
    mt_meter_row row;
    uint64_t refused = 0;
    uint64_t capacity = o->capacity > 0 ? o->capacity : 1024 * MT_GIB;
    MT_TRY(mt_source_sim(&source, capacity, o->granularity > 0 ? o->granularity : 2 * MT_MIB, err));
    mt_status status = mt_alloc_open(&a, source, policy, err);
    if (status == MT_OK) {
        mt_meter_start(&meter, a);
        status = mt_ops_run(ops, a, &refused, cli_interrupted, err);
    }
    if (status == MT_OK)
        status = mt_alloc_check(a, err);
    if (status == MT_OK) {
        mt_meter_read(&meter, &row);
        print_row(policy, &row, refused);
        *refusals += refused;
        if (refused == 0 && row.peak_reserved < *least)
            *least = row.peak_reserved;
        status = print_summary(o, a, err);
    }
    if (a != NULL)
        mt_alloc_unlisten(a);
    mt_alloc_close(a);
    source->close(source);
    return status;
}

/* Requests and frees as direct serves them, which holds nothing back. */
static mt_status bounds_of(const mt_ops *ops, mt_optimum *optimum, mt_source *source,
                           mt_bounds *bounds, mt_error *err) {
    mt_alloc *a;
    uint64_t refused;
    MT_TRY(mt_alloc_open(&a, source, "direct", err));
    mt_alloc_listen(a, mt_optimum_listener(optimum));
    mt_status status = mt_ops_run(ops, a, &refused, cli_interrupted, err);
    mt_alloc_unlisten(a);
    mt_alloc_close(a);
    return status == MT_OK ? mt_optimum_solve(optimum, bounds, err) : status;
}

/* The row of the best packing; never above what a policy of this run needed. */
static mt_status replay_optimum(const mt_ops *ops, uint64_t least, mt_error *err) {
    mt_optimum *optimum;
    mt_source *source;
    mt_bounds b;
    MT_TRY(mt_optimum_open(&optimum, err));
    mt_status status = mt_source_sim(&source, UINT64_MAX / 2, 4 * MT_KIB, err);
    if (status == MT_OK) {
        status = bounds_of(ops, optimum, source, &b, err);
        source->close(source);
    }
    mt_optimum_close(optimum);
    MT_TRY(status);
    const mt_meter_row row = { .peak_requested = b.low,
                               .peak_reserved = b.high < least ? b.high : least };
    printf("# optimum: one range of addresses needs %s%" PRIu64 "; the least was found by %s\n",
           b.exact ? "" : "at most ", b.packed, b.high <= least ? b.how : "a policy above");
    print_row("optimum", &row, 0);
    return MT_OK;
}

static int is_policy(const char *word) {
    return mt_policy_known(word);
}

/* Looks at every policy before anything is printed. */
static mt_status check_policies(const replay_options *o, const cli_list *policies, mt_error *err) {
    for (size_t i = 0; i < policies->count; i++) {
        MT_TRY(sweep_check_policy(policies->value[i], err));
        if (o->summary != 0 && strncmp(policies->value[i], "torch", 5) != 0)
            return mt_fail(err, MT_BAD, "--summary needs the torch policy, not %.100s",
                           policies->value[i]);
    }
    return MT_OK;
}

static mt_status replay(const replay_options *o, mt_error *err) {
    mt_ops ops;
    cli_list policies;
    uint64_t least = UINT64_MAX, refusals = 0;
    mt_status status =
        cli_list_read(&policies, "policy", o->policy != NULL ? o->policy : "torch", is_policy, err);
    if (status == MT_OK)
        status = check_policies(o, &policies, err);
    if (status == MT_OK)
        status = mt_ops_read(&ops, o->files.path[0], err);
    if (status == MT_OK) {
        char path[1000];
        printf("# memtrace %s\n# command replay\n# file %s\n# requests %" PRIu64
               "\n# units bytes\n",
               MT_VERSION, mt_printable_path(path, sizeof path, o->files.path[0]), ops.requests);
        printf(
            "# policy peak_requested peak_reserved reserved rounding split cached overhead calls "
            "bumps refused\n");
        for (size_t i = 0; status == MT_OK && i < policies.count; i++)
            status = replay_one(o, &ops, policies.value[i], &least, &refusals, err);
        if (status == MT_OK && o->optimum)
            status = replay_optimum(&ops, least, err);
        if (status == MT_OK && refusals > 0)
            status = mt_fail(err, MT_NO_MEMORY,
                             "%" PRIu64 " requests were refused: out of device memory (--capacity)",
                             refusals);
        mt_ops_free(&ops);
    }
    cli_list_free(&policies);
    return status;
}

int cli_replay(int argc, char **argv) {
    replay_options o = { 0 };
    mt_error err;
    mt_status status;
    cli_parse(&usage, argc, argv, &o);
    if (o.check) {
        status = (mt_status)check_files(&o);
    } else {
        status = replay(&o, &err);
        cli_fail(status, &err);
    }
    return cli_flush(status);
}
