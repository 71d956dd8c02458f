/* torch_check.c - see torch_check.h.
 *
 * Two passes over the text: the header makes the policy's options, then each row is carried out and
 * its columns are written again from what the policy did; a row agrees when the two texts are
 * equal. */
#include "traces/torch_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/torch/internal.h"
#include "base/output.h"
#include "base/size.h"
#include "traces/torch_calls.h"
#include "reports/torch_pools.h"

#define COLUMNS    14
#define LINE_LIMIT 65536

typedef struct text {
    char *data;
    size_t n, room;
} text;

typedef struct check {
    const char *path;
    uint64_t line;
    mt_source *source;
    mt_alloc *alloc;
    torch *policy;
    mt_mem *mem; /* by number of the allocation */
    uint64_t mems;
    mt_calls calls; /* of this operation */
    text history;   /* all events so far, one line each */
    const char *history_at;
    char options[1024], fraction[64], addresses[16], version[64];
    uint64_t device;
    mt_torch_counts *counts;
    uint32_t stream; /* of the operation, and its bytes: what to look around */
    uint64_t bytes;
} check;

/* ---- text that grows ------------------------------------------------------------------------- */

static void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(text *t, const char *format, ...) {
    if (t->room - t->n < 512) {
        size_t room = 2 * t->room + 4096;
        char *data = realloc(t->data, room);
        if (data == NULL)
            return;
        t->data = data;
        t->room = room;
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->data + t->n, t->room - t->n, format, args);
    va_end(args);
    if (n > 0)
        t->n += (size_t)n;
}

/* ---- what the policy does -------------------------------------------------------------------- */

static void on_event(void *context, const mt_event *e) {
    check *c = context;
    text *h = &c->history;
    switch (e->kind) {
    case MT_EV_ALLOC:
        put(h, "alloc %u %" PRIu64 " %" PRIu64 "\n", e->segment, e->offset, e->requested);
        break;
    case MT_EV_FREE:
        put(h, "free_completed %u %" PRIu64 " %" PRIu64 "\n", e->segment, e->offset, e->requested);
        break;
    case MT_EV_OOM:
        put(h, "oom %" PRIu64 " - %" PRIu64 "\n", e->offset, e->rounded);
        break;
    case MT_EV_MARK:
        break;
    default:
        put(h, "%s %u %" PRIu64 " %" PRIu64 "\n", mt_event_kind_name(e->kind), e->segment,
            e->offset, e->rounded);
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static mt_status bad(const check *c, const char *what, mt_error *err) {
    return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": %s", c->path, c->line, what);
}

static mt_status differs(const check *c, const char *what, const char *ours, const char *theirs,
                         mt_error *err) {
    return mt_fail(err, MT_CHECK, "%s:%" PRIu64 ": %s: memtrace %.180s, recorded %.180s", c->path,
                   c->line, what, ours, theirs);
}

/* Cuts the next line off *at, without its newline; NULL at the end. */
static char *next_line(char **at) {
    char *line = *at;
    if (*line == '\0')
        return NULL;
    char *end = strchr(line, '\n');
    if (end == NULL) {
        *at = line + strlen(line);
    } else {
        *end = '\0';
        *at = end + 1;
    }
    return line;
}

static void copy_value(char *to, size_t room, const char *value) {
    size_t n = strcspn(value, " ");
    if (strcmp(value, "-") == 0)
        n = 0;
    snprintf(to, room, "%.*s", (int)n, value);
}

static mt_status read_header(check *c, const char *line, mt_error *err) {
    const char *value = strchr(line + 2, ' ');
    if (value == NULL)
        return MT_OK;
    value++;
    if (strncmp(line, "# options ", 10) == 0)
        copy_value(c->options, sizeof c->options, value);
    else if (strncmp(line, "# fraction ", 11) == 0)
        copy_value(c->fraction, sizeof c->fraction, value);
    else if (strncmp(line, "# addresses ", 12) == 0)
        copy_value(c->addresses, sizeof c->addresses, value);
    else if (strncmp(line, "# torch ", 8) == 0)
        copy_value(c->version, sizeof c->version, value);
    else if (strncmp(line, "# device_bytes ", 15) == 0 &&
             !mt_parse_u64(value, 1, UINT64_C(1) << 50, &c->device))
        return bad(c, "device_bytes is no number", err);
    return MT_OK;
}

static mt_status open_policy(check *c, mt_error *err) {
    char spec[1400];
    if (c->device == 0)
        return bad(c, "no header line \"# device_bytes N\" before the first operation", err);
    snprintf(spec, sizeof spec, "torch%s%s%s%s%s%s%s%s", *c->options ? "," : "", c->options,
             *c->fraction ? ",per_process_memory_fraction:" : "", c->fraction,
             *c->addresses ? ",addresses:" : "", c->addresses, *c->version ? ",version:" : "",
             c->version);
    char *plus = strrchr(spec, '+'); /* a build's suffix: 2.15.0+cu132 */
    if (plus != NULL && *c->version)
        *plus = '\0';
    MT_TRY(mt_source_sim(&c->source, c->device, 2 * MT_MIB, err));
    MT_TRY(mt_alloc_open(&c->alloc, c->source, spec, err));
    c->policy = (torch *)mt_alloc_policy_of(c->alloc);
    c->policy->base.core.driver = mt_calls_add;
    c->policy->base.core.driver_context = &c->calls;
    mt_alloc_listen(c->alloc, (mt_listener){ on_event, c });
    return MT_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static mt_status remember(check *c, uint64_t id, mt_mem mem, mt_error *err) {
    if (id >= c->mems) {
        uint64_t room = 2 * id + 64;
        mt_mem *m = realloc(c->mem, room * sizeof *m);
        if (m == NULL)
            return mt_fail(err, MT_FAILED, "no memory for %" PRIu64 " allocations", room);
        memset(m + c->mems, 0, (room - c->mems) * sizeof *m);
        c->mem = m;
        c->mems = room;
    }
    c->mem[id] = mem;
    return MT_OK;
}

static void drop_last_line(text *t) {
    if (t->n > 0)
        t->n--;
    while (t->n > 0 && t->data[t->n - 1] != '\n')
        t->n--;
}

static mt_status do_alloc(check *c, char **f, uint64_t id, char place[3][24], mt_error *err) {
    uint64_t bytes, stream;
    mt_mem mem;
    mt_live_info info;
    if (!mt_parse_u64(f[2], 1, UINT64_MAX, &bytes) || !mt_parse_u64(f[3], 0, UINT32_MAX, &stream))
        return bad(c, "bytes or stream is no number", err);
    mt_request r = { .bytes = bytes, .tag = MT_OTHER, .layer = -1, .stream = (uint32_t)stream };
    c->stream = r.stream;
    c->bytes = mt_alloc_roundup(c->alloc, bytes);
    uint64_t rejections = c->policy->stats.num_oom_rejections;
    mt_status status = mt_alloc_get(c->alloc, &r, &mem, err);
    if (status == MT_NO_MEMORY) {
        if (c->policy->stats.num_oom_rejections != rejections)
            drop_last_line(&c->history); /* PyTorch keeps no event of a rejection */
        for (int i = 0; i < 3; i++)
            snprintf(place[i], 24, "OOM");
        return MT_OK;
    }
    MT_TRY(status);
    MT_TRY(mt_alloc_info(c->alloc, mem, &info, err));
    snprintf(place[0], 24, "%u", info.segment);
    snprintf(place[1], 24, "%" PRIu64, info.offset);
    snprintf(place[2], 24, "%" PRIu64, info.rounded);
    return remember(c, id, mem, err);
}

static mt_status do_free(check *c, uint64_t id, mt_error *err) {
    mt_live_info info;
    if (id >= c->mems || c->mem[id].handle == 0)
        return bad(c, "frees what is not allocated", err);
    MT_TRY(mt_alloc_info(c->alloc, c->mem[id], &info, err));
    put(&c->history, "free_requested %u %" PRIu64 " %" PRIu64 "\n", info.segment, info.offset,
        info.requested);
    return mt_alloc_put(c->alloc, &c->mem[id], err);
}

static mt_status do_use(check *c, char **f, uint64_t id, mt_error *err) {
    uint64_t stream;
    if (id >= c->mems || c->mem[id].handle == 0 || !mt_parse_u64(f[3], 0, UINT32_MAX, &stream))
        return bad(c, "a use of what is not allocated, or no stream", err);
    return mt_alloc_use(c->alloc, c->mem[id], (uint32_t)stream, err);
}

static mt_status carry_out(check *c, char **f, char place[3][24], mt_error *err) {
    const char *op = f[0];
    uint64_t id = 0;
    bool numbered = mt_parse_u64(f[1], 0, 1u << 30, &id);
    if (strcmp(op, "ec") == 0)
        mt_alloc_trim(c->alloc);
    else if (strcmp(op, "hold") == 0 || strcmp(op, "go") == 0)
        mt_alloc_hold(c->alloc, *op == 'h');
    else if (!numbered)
        return bad(c, "unknown operation, or no number of an allocation", err);
    else if (strcmp(op, "a") == 0)
        return do_alloc(c, f, id, place, err);
    else if (strcmp(op, "f") == 0)
        return do_free(c, id, err);
    else if (strcmp(op, "rs") == 0)
        return do_use(c, f, id, err);
    else
        return bad(c, "unknown operation", err);
    return MT_OK;
}

/* The calls as the recording writes them; what does not fit is cut, and seen as a difference. */
static const char *format_calls(const mt_calls *calls, char *out) {
    size_t n = 0;
    if (calls->n == 0)
        return "-";
    for (size_t i = 0; i < calls->n && n + 80 < LINE_LIMIT; i++) {
        const mt_call *k = &calls->call[i];
        const char *blank = i > 0 ? " " : "";
        if (k->op == 'F' || k->op == 'A')
            n += (size_t)sprintf(out + n, "%s%c%u", blank, k->op, k->segment);
        else if (k->op == 'P' || k->op == 'U')
            n += (size_t)sprintf(out + n, "%s%c%u+%" PRIu64 ":%" PRIu64, blank, k->op, k->segment,
                                 k->offset, k->bytes);
        else
            n += (size_t)sprintf(out + n, "%s%c%" PRIu64, blank, k->op, k->bytes);
    }
    return out;
}

static mt_status check_row(check *c, char *line, mt_error *err) {
    char *f[COLUMNS], recorded[LINE_LIMIT], ours[2 * LINE_LIMIT], calls[LINE_LIMIT],
        place[3][24] = { "-", "-", "-" };
    int n = 0;
    if (strlen(line) >= LINE_LIMIT - 512)
        return bad(c, "the line is too long", err);
    memcpy(recorded, line, strlen(line) + 1);
    for (char *at = line; n < COLUMNS && at != NULL; n++) {
        f[n] = at;
        at = strchr(at, '\t');
        if (at != NULL)
            *at++ = '\0';
    }
    if (n != COLUMNS)
        return bad(c, "expected 14 columns", err);
    c->calls.n = 0;
    MT_TRY(carry_out(c, f, place, err));
    const torch_stat *s = c->policy->stats.pool[0];
    snprintf(ours, sizeof ours,
             "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
             "\t%" PRIu64 "\t%" PRIu64 "\t%s",
             f[0], f[1], f[2], f[3], place[0], place[1], place[2], s[TORCH_requested_bytes].current,
             s[TORCH_allocated_bytes].current, s[TORCH_active_bytes].current,
             s[TORCH_reserved_bytes].current, s[TORCH_inactive_split_bytes].current,
             s[TORCH_segment].current, format_calls(&c->calls, calls));
    c->counts->operations++;
    if (strcmp(ours, recorded) != 0)
        return differs(c, "operation", ours, recorded, err);
    MT_TRY(mt_alloc_check(c->alloc, err));
    return MT_OK;
}

/* ---- blocks, statistics, history ------------------------------------------------------------- */

static mt_status check_blocks(check *c, uint64_t n, char **at, mt_error *err) {
    char ours[256];
    for (const mt_segment *s = c->policy->base.core.first; s != NULL; s = s->next)
        for (const mt_block *b = s->first; b != NULL; b = b->next) {
            if (!b->mapped)
                continue;
            char *line = n > 0 ? next_line(at) : NULL;
            c->line++;
            n--;
            snprintf(ours, sizeof ours, "@\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%u",
                     s->number, b->offset, b->size, b->requested,
                     b->allocated ? "active_allocated"
                     : b->used    ? "active_pending_free"
                                  : "inactive",
                     mt_pool_name(b->pool), b->stream);
            c->counts->blocks++;
            if (line == NULL || strcmp(ours, line) != 0)
                return differs(c, "block", ours, line == NULL ? "none" : line, err);
        }
    return n == 0 ? MT_OK : differs(c, "block", "none", "more", err);
}

static mt_status check_statistic(check *c, const char *line, mt_error *err) {
    char key[128], ours[32], theirs[32];
    int64_t value;
    if (sscanf(line, "! %127s %31s", key, theirs) != 2)
        return bad(c, "expected \"! key value\"", err);
    if (!torch_stats_get(&c->policy->stats, key, &value))
        return MT_OK; /* statistics of other parts of PyTorch */
    snprintf(ours, sizeof ours, "%" PRId64, value);
    c->counts->statistics++;
    return strcmp(ours, theirs) == 0 ? MT_OK : differs(c, key, ours, theirs, err);
}

static mt_status check_history(check *c, const char *line, mt_error *err) {
    char ours[256] = "none";
    if (c->history_at == NULL)
        c->history_at = c->history.data != NULL ? c->history.data : "";
    const char *end = strchr(c->history_at, '\n');
    if (end != NULL) {
        snprintf(ours, sizeof ours, "%.*s", (int)(end - c->history_at), c->history_at);
        c->history_at = end + 1;
    }
    c->counts->history++;
    return strcmp(ours, line + 2) == 0 ? MT_OK : differs(c, "history", ours, line + 2, err);
}

static mt_status check_line(check *c, char *line, char **at, mt_error *err) {
    uint64_t n;
    if (*line == '#')
        return read_header(c, line, err);
    if (c->alloc == NULL)
        MT_TRY(open_policy(c, err));
    if (*line == '!')
        return check_statistic(c, line, err);
    if (*line == '~')
        return check_history(c, line, err);
    if (strncmp(line, "snap\t", 5) == 0)
        return mt_parse_u64(line + 5, 0, 1u << 30, &n) ? check_blocks(c, n, at, err)
                                                       : bad(c, "expected snap N", err);
    return check_row(c, line, err);
}

static mt_status check_text(check *c, char *at, mt_error *err) {
    for (char *line; (line = next_line(&at)) != NULL;) {
        c->line++;
        MT_TRY(check_line(c, line, &at, err));
    }
    if (c->alloc == NULL)
        return bad(c, "no operation in this file", err);
    return MT_OK;
}

mt_status mt_torch_check_to(const char *path, mt_torch_counts *counts, FILE *around,
                            mt_error *err) {
    check c = { .path = path, .counts = counts };
    char *data;
    size_t n;
    MT_TRY(mt_input_read(path, (size_t)1 << 30, &data, &n, err));
    mt_status status = check_text(&c, data, err);
    if (status == MT_CHECK && around != NULL && c.policy != NULL)
        mt_torch_pools_print(around, c.policy, c.stream, c.bytes);
    mt_alloc_close(c.alloc);
    if (c.source != NULL)
        c.source->close(c.source);
    free(c.mem);
    mt_calls_free(&c.calls);
    free(c.history.data);
    free(data);
    return status;
}

mt_status mt_torch_check(const char *path, mt_torch_counts *counts, mt_error *err) {
    return mt_torch_check_to(path, counts, NULL, err);
}
