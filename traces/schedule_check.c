/* schedule_check.c - see schedule_check.h. */
#include "traces/schedule_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/torch/internal.h"
#include "base/output.h"
#include "base/size.h"
#include "traces/torch_calls.h"
#include "reports/torch_pools.h"

#define COUNTERS 14

typedef struct check {
    const char *path;
    uint64_t line, operation;
    mt_source *source;
    mt_alloc *alloc;
    torch *policy;
    mt_calls calls;    /* made by the policy in this operation */
    mt_calls expected; /* listed before it */
    mt_mem *mem;
    size_t mems, mem_room;
    char options[512], version[64];
    uint64_t device;
    uint64_t bytes; /* of the operation */
    mt_schedule_counts *counts;
} check;

static mt_status bad(const check *c, const char *what, mt_error *err) {
    return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": %s", c->path, c->line, what);
}

int mt_is_schedule(const char *text) {
    while (*text == '#') {
        const char *end = strchr(text, '\n');
        if (strncmp(text, "# row: step", 11) == 0)
            return 1;
        if (end == NULL)
            return 0;
        text = end + 1;
    }
    return 0;
}

/* Copies the word that begins at from. */
static void copy_word(char *to, size_t room, const char *from) {
    snprintf(to, room, "%.*s", (int)strcspn(from, " +\t"), from);
}

static void read_header(check *c, const char *line) {
    const char *at;
    unsigned long long device;
    if (strncmp(line, "# torch ", 8) == 0)
        copy_word(c->version, sizeof c->version, line + 8);
    if ((at = strstr(line, "PYTORCH_CUDA_ALLOC_CONF=")) != NULL)
        snprintf(c->options, sizeof c->options, "%.*s", (int)strcspn(at + 24, " \t"), at + 24);
    if ((at = strstr(line, "simulated, ")) != NULL && sscanf(at, "simulated, %llu", &device) == 1)
        c->device = device;
}

static mt_status open_policy(check *c, mt_error *err) {
    char spec[700];
    if (c->device == 0 || c->device > (uint64_t)1 << 50)
        return bad(c, "no header line with the device's bytes before the first operation", err);
    snprintf(spec, sizeof spec, "torch%s%s%s%s", *c->options ? "," : "", c->options,
             *c->version ? ",version:" : "", c->version);
    MT_TRY(mt_source_sim(&c->source, c->device, 2 * MT_MIB, err));
    MT_TRY(mt_alloc_open(&c->alloc, c->source, spec, err));
    c->policy = (torch *)mt_alloc_policy_of(c->alloc);
    c->policy->base.core.driver = mt_calls_add;
    c->policy->base.core.driver_context = &c->calls;
    return MT_OK;
}

/* ---- driver calls ---------------------------------------------------------------------------- */

/* A listed call, in the policy's terms: S is taken (M), R is given back (F). */
static mt_status expect_call(check *c, const char *line, mt_error *err) {
    uint64_t a, b = 0, n = 0;
    char op = *line;
    bool pages = op == 'P' || op == 'U';
    int read = pages ? sscanf(line + 1, " %" SCNu64 "+%" SCNu64 " %" SCNu64, &a, &b, &n)
                     : sscanf(line + 1, " %" SCNu64, &a);
    if (read != (pages ? 3 : 1))
        return bad(c, "expected a driver call: S SIZE, R N, P N+OFF SIZE or U N+OFF SIZE", err);
    if (pages)
        mt_calls_add(&c->expected, op, (uint32_t)a, b, n);
    else if (op == 'S')
        mt_calls_add(&c->expected, 'M', 0, 0, a);
    else
        mt_calls_add(&c->expected, 'F', (uint32_t)a, 0, 0);
    return MT_OK;
}

/* The next call that schedules list; ranges reserved and given back and refusals are not. */
static const mt_call *next_listed(const mt_calls *calls, size_t *i) {
    while (*i < calls->n && strchr("MFPU", calls->call[*i].op) == NULL)
        ++*i;
    return *i < calls->n ? &calls->call[(*i)++] : NULL;
}

static bool same_call(const mt_call *a, const mt_call *b) {
    if (a->op != b->op)
        return false;
    if (a->op == 'M')
        return a->bytes == b->bytes;
    return a->segment == b->segment &&
           (a->op == 'F' || (a->offset == b->offset && a->bytes == b->bytes));
}

static void write_call(const mt_call *c, char *out, size_t room) {
    if (c == NULL)
        snprintf(out, room, "none");
    else if (c->op == 'M')
        snprintf(out, room, "S %" PRIu64, c->bytes);
    else if (c->op == 'F')
        snprintf(out, room, "R %u", c->segment);
    else
        snprintf(out, room, "%c %u+%" PRIu64 " %" PRIu64, c->op, c->segment, c->offset, c->bytes);
}

static mt_status compare_calls(check *c, mt_error *err) {
    size_t i = 0, j = 0;
    for (;;) {
        const mt_call *ours = next_listed(&c->calls, &i), *theirs = next_listed(&c->expected, &j);
        char a[96], b[96];
        if (ours == NULL && theirs == NULL)
            break;
        c->counts->calls++;
        if (ours != NULL && theirs != NULL && same_call(ours, theirs))
            continue;
        write_call(ours, a, sizeof a);
        write_call(theirs, b, sizeof b);
        return mt_fail(err, MT_CHECK,
                       "%s:%" PRIu64 ": operation %" PRIu64
                       ": driver call: memtrace %s, recorded %s",
                       c->path, c->line, c->operation, a, b);
    }
    c->calls.n = c->expected.n = 0;
    return MT_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static mt_status remember(check *c, mt_mem mem, mt_error *err) {
    if (c->mems == c->mem_room) {
        size_t room = 2 * c->mem_room + 1024;
        mt_mem *m = realloc(c->mem, room * sizeof *m);
        if (m == NULL)
            return mt_fail(err, MT_FAILED, "no memory for %zu allocations", room);
        c->mem = m;
        c->mem_room = room;
    }
    c->mem[c->mems++] = mem;
    return MT_OK;
}

static mt_status check_place(check *c, mt_mem mem, const char *place, mt_error *err) {
    mt_live_info info;
    char ours[64];
    MT_TRY(mt_alloc_info(c->alloc, mem, &info, err));
    snprintf(ours, sizeof ours, "%u+%" PRIu64, info.segment, info.offset);
    c->counts->places++;
    if (strcmp(ours, place) == 0)
        return MT_OK;
    return mt_fail(err, MT_CHECK,
                   "%s:%" PRIu64 ": operation %" PRIu64 ": place: memtrace %s, recorded %.40s",
                   c->path, c->line, c->operation, ours, place);
}

static mt_status do_alloc(check *c, const char *line, mt_error *err) {
    uint64_t bytes;
    char place[64];
    mt_mem mem;
    int n = sscanf(line, "a %" SCNu64 " %63s", &bytes, place);
    if (n < 1)
        return bad(c, "expected a SIZE", err);
    mt_request r = { .bytes = bytes, .tag = MT_OTHER, .layer = -1 };
    c->bytes = mt_alloc_roundup(c->alloc, bytes);
    MT_TRY(mt_alloc_get(c->alloc, &r, &mem, err));
    MT_TRY(remember(c, mem, err));
    MT_TRY(compare_calls(c, err));
    return n == 2 ? check_place(c, mem, place, err) : MT_OK;
}

static mt_status do_free(check *c, const char *line, mt_error *err) {
    uint64_t k;
    if (!mt_parse_u64(line + 2, 0, UINT64_MAX, &k) || k >= c->mems ||
        c->mem[c->mems - 1 - k].handle == 0)
        return bad(c, "expected f K, the Kth allocation from the latest, still live", err);
    MT_TRY(mt_alloc_put(c->alloc, &c->mem[c->mems - 1 - k], err));
    return compare_calls(c, err);
}

/* Our counters in the order of a marker, and the peaks begin anew. */
static void counters(check *c, uint64_t out[COUNTERS - 2]) {
    torch_stats *s = &c->policy->stats;
    torch_stat *all = s->pool[0];
    const uint64_t values[COUNTERS - 2] = {
        all[TORCH_allocated_bytes].current,
        all[TORCH_reserved_bytes].current,
        all[TORCH_requested_bytes].current,
        all[TORCH_active_bytes].current,
        all[TORCH_inactive_split_bytes].current,
        all[TORCH_inactive_split].current,
        all[TORCH_segment].current,
        all[TORCH_allocated_bytes].peak,
        all[TORCH_reserved_bytes].peak,
        all[TORCH_requested_bytes].peak,
        all[TORCH_allocation].allocated,
        all[TORCH_allocation].freed,
    };
    memcpy(out, values, sizeof values);
    torch_stats_reset_peaks(s);
}

static mt_status check_marker(check *c, const char *line, mt_error *err) {
    static const char *const names[COUNTERS] = {
        "allocated",      "reserved",       "requested",
        "active",         "inactive_split", "inactive_split_blocks",
        "segments",       "peak_allocated", "peak_reserved",
        "peak_requested", "allocs",         "frees",
        "device_allocs",  "device_frees",
    };
    uint64_t ours[COUNTERS];
    char step[32], tokens[32];
    int used = 0;
    counters(c, ours);
    ours[COUNTERS - 2] = c->policy->stats.num_device_alloc;
    ours[COUNTERS - 1] = c->policy->stats.num_device_free;
    if (sscanf(line, "= %31s %31s%n", step, tokens, &used) != 2)
        return bad(c, "expected = STEP TOKENS and 14 counters", err);
    c->counts->markers++;
    for (int i = 0; i < COUNTERS; i++) {
        uint64_t theirs;
        int n = 0;
        if (sscanf(line + used, " %" SCNu64 "%n", &theirs, &n) != 1)
            return bad(c, "expected = STEP TOKENS and 14 counters", err);
        used += n;
        if (ours[i] != theirs)
            return mt_fail(err, MT_CHECK,
                           "%s:%" PRIu64 ": operation %" PRIu64 ", step %s: %s: memtrace %" PRIu64
                           ", recorded %" PRIu64,
                           c->path, c->line, c->operation, step, names[i], ours[i], theirs);
    }
    return MT_OK;
}

static mt_status check_line(check *c, const char *line, mt_error *err) {
    if (*line == '#') {
        read_header(c, line);
        return MT_OK;
    }
    if (c->alloc == NULL)
        MT_TRY(open_policy(c, err));
    if (strncmp(line, "a ", 2) == 0 || strncmp(line, "f ", 2) == 0) {
        c->operation++;
        c->counts->operations++;
        return *line == 'a' ? do_alloc(c, line, err) : do_free(c, line, err);
    }
    if (strncmp(line, "= ", 2) == 0)
        return check_marker(c, line, err);
    if (*line != '\0' && strchr("SRPU", *line) != NULL && line[1] == ' ')
        return expect_call(c, line, err);
    return bad(c, "expected a line that begins with a, f, S, R, P, U, = or #", err);
}

static mt_status check_text(check *c, char *at, mt_error *err) {
    while (*at != '\0') {
        char *end = strchr(at, '\n');
        if (end != NULL)
            *end = '\0';
        c->line++;
        MT_TRY(check_line(c, at, err));
        at = end != NULL ? end + 1 : at + strlen(at);
    }
    if (c->counts->markers == 0)
        return bad(c, "no counters in this file", err);
    return mt_alloc_check(c->alloc, err);
}

mt_status mt_schedule_check_to(const char *path, mt_schedule_counts *counts, FILE *around,
                               mt_error *err) {
    mt_schedule_counts own = { 0 };
    check c = { .path = path, .counts = &own };
    char *data;
    size_t n;
    MT_TRY(mt_input_read(path, (size_t)1 << 30, &data, &n, err));
    mt_status status = check_text(&c, data, err);
    if (status == MT_CHECK && around != NULL && c.policy != NULL)
        mt_torch_pools_print(around, c.policy, 0, c.bytes);
    mt_alloc_close(c.alloc);
    if (c.source != NULL)
        c.source->close(c.source);
    mt_calls_free(&c.calls);
    mt_calls_free(&c.expected);
    free(c.mem);
    free(data);
    counts->operations += own.operations;
    counts->calls += own.calls;
    counts->markers += own.markers;
    counts->places += own.places;
    return status;
}

mt_status mt_schedule_check(const char *path, mt_schedule_counts *counts, mt_error *err) {
    return mt_schedule_check_to(path, counts, NULL, err);
}
