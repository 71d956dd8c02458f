/* ops.c - see ops.h. */
#include "traces/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "base/size.h"
#include "traces/schedule_check.h"
#include "traces/trace.h"

#define TEXT_LIMIT ((size_t)1 << 30)

void mt_ops_free(mt_ops *ops) {
    free(ops->op);
    *ops = (mt_ops){ 0 };
}

static mt_status add(mt_ops *ops, mt_op op, mt_error *err) {
    if (ops->n == ops->room) {
        size_t room = 2 * ops->room + 1024;
        mt_op *more = realloc(ops->op, room * sizeof *more);
        if (more == NULL)
            return mt_fail(err, MT_FAILED, "no memory for %zu operations", room);
        ops->op = more;
        ops->room = room;
    }
    ops->op[ops->n++] = op;
    if (op.kind == MT_OP_GET && op.id >= ops->requests)
        ops->requests = op.id + 1;
    return MT_OK;
}

/* ---- memtrace's own traces ------------------------------------------------------------------- */

typedef struct trace_reader {
    mt_ops *ops;
    mt_error err;
} trace_reader;

static void on_event(void *context, const mt_event *e) {
    trace_reader *r = context;
    mt_op op = {
        .id = e->id, .bytes = e->requested, .stream = e->stream, .layer = e->layer, .tag = e->tag
    };
    if (e->kind == MT_EV_ALLOC)
        op.kind = MT_OP_GET;
    else if (e->kind == MT_EV_FREE)
        op.kind = MT_OP_PUT;
    else if (e->kind == MT_EV_MARK)
        op = (mt_op){ .kind = MT_OP_MARK, .id = e->ctx, .bytes = e->kv_ideal };
    else
        return;
    if (r->err.status == MT_OK)
        add(r->ops, op, &r->err);
}

static mt_status read_trace(mt_ops *ops, const char *path, mt_error *err) {
    trace_reader r = { .ops = ops };
    MT_TRY(mt_trace_read(path, (mt_listener){ on_event, &r }, NULL, NULL, err));
    return r.err.status == MT_OK ? MT_OK : mt_fail(err, r.err.status, "%s", r.err.text);
}

/* ---- recordings and schedules ---------------------------------------------------------------- */

typedef struct text_reader {
    mt_ops *ops;
    const char *path;
    uint64_t line, next;
} text_reader;

static mt_status bad(const text_reader *r, const char *expected, mt_error *err) {
    return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": expected %s", r->path, r->line, expected);
}

static mt_status schedule_line(text_reader *r, const char *line, mt_error *err) {
    uint64_t n;
    mt_op op = { .layer = -1, .tag = MT_OTHER };
    switch (*line) {
    case 'a':
        if (sscanf(line, "a %" SCNu64, &op.bytes) != 1)
            return bad(r, "a SIZE", err);
        op.id = r->next++;
        return add(r->ops, op, err);
    case 'f':
        if (sscanf(line, "f %" SCNu64, &n) != 1 || n >= r->next)
            return bad(r, "f K with K below the number of allocations", err);
        op.kind = MT_OP_PUT;
        op.id = r->next - 1 - n;
        return add(r->ops, op, err);
    case '=':
        if (sscanf(line, "= %*s %" SCNu64, &op.id) != 1)
            return bad(r, "= STEP TOKENS and counters", err);
        op.kind = MT_OP_MARK;
        return add(r->ops, op, err);
    default:
        return strchr("#SRPU", *line) != NULL ? MT_OK : bad(r, "a, f, S, R, P, U, = or #", err);
    }
}

/* The kind of a recording's operation; -1 for what is none (places, statistics, history). */
static int recording_kind(const char *name) {
    static const char *const names[] = { "a", "f", "rs", "ec", "hold", "go" };
    for (int i = 0; i < 6; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static mt_status recording_line(text_reader *r, const char *line, mt_error *err) {
    char name[16], id[24], bytes[24], stream[24];
    mt_op op = { .layer = -1, .tag = MT_OTHER };
    uint64_t s = 0;
    if (*line == '\0' || strchr("#!~@", *line) != NULL || strncmp(line, "snap", 4) == 0)
        return MT_OK;
    if (sscanf(line, "%15s %23s %23s %23s", name, id, bytes, stream) != 4 ||
        recording_kind(name) < 0)
        return bad(r, "an operation (a, f, rs, ec, hold, go) with its columns", err);
    op.kind = (uint8_t)recording_kind(name);
    if (op.kind <= MT_OP_USE && !mt_parse_u64(id, 0, 1u << 30, &op.id))
        return bad(r, "the number of an allocation", err);
    if (op.kind == MT_OP_GET && !mt_parse_u64(bytes, 1, UINT64_MAX, &op.bytes))
        return bad(r, "a number of bytes", err);
    if ((op.kind == MT_OP_GET || op.kind == MT_OP_USE) && !mt_parse_u64(stream, 0, UINT32_MAX, &s))
        return bad(r, "the number of a stream", err);
    op.stream = (uint32_t)s;
    return add(r->ops, op, err);
}

static mt_status read_lines(mt_ops *ops, const char *path, char *at,
                            mt_status (*line)(text_reader *, const char *, mt_error *),
                            mt_error *err) {
    text_reader r = { .ops = ops, .path = path };
    while (*at != '\0') {
        char *end = strchr(at, '\n');
        if (end != NULL)
            *end = '\0';
        r.line++;
        MT_TRY(line(&r, at, err));
        at = end != NULL ? end + 1 : at + strlen(at);
    }
    return ops->requests > 0 ? MT_OK : mt_fail(err, MT_BAD, "%s: no request in this file", path);
}

mt_status mt_ops_read(mt_ops *ops, const char *path, mt_error *err) {
    char *data;
    size_t n;
    *ops = (mt_ops){ 0 };
    MT_TRY(mt_input_read(path, TEXT_LIMIT, &data, &n, err));
    mt_status status;
    if (strncmp(data, "# memtrace trace ", 17) == 0)
        status = read_trace(ops, path, err);
    else if (mt_is_schedule(data))
        status = read_lines(ops, path, data, schedule_line, err);
    else if (strncmp(data, "# torch ", 8) == 0)
        status = read_lines(ops, path, data, recording_line, err);
    else
        status = mt_fail(err, MT_BAD,
                         "%s: expected a memtrace trace (# memtrace trace 1), a schedule or a "
                         "recording (# torch ...)",
                         path);
    free(data);
    if (status != MT_OK)
        mt_ops_free(ops);
    return status;
}

/* ---- carrying out ---------------------------------------------------------------------------- */

static mt_status run_op(const mt_op *op, mt_alloc *a, mt_mem *mem, uint64_t *refused,
                        mt_error *err) {
    mt_request r = { .bytes = op->bytes, .tag = op->tag, .layer = op->layer, .stream = op->stream };
    mt_status status;
    switch (op->kind) {
    case MT_OP_GET:
        status = mt_alloc_get(a, &r, &mem[op->id], err);
        *refused += status == MT_NO_MEMORY;
        return status == MT_NO_MEMORY ? MT_OK : status;
    case MT_OP_PUT:
        return mt_alloc_put(a, &mem[op->id], err);
    case MT_OP_USE:
        return mt_alloc_use(a, mem[op->id], op->stream, err);
    case MT_OP_TRIM:
        mt_alloc_trim(a);
        return MT_OK;
    case MT_OP_HOLD:
    case MT_OP_GO:
        mt_alloc_hold(a, op->kind == MT_OP_HOLD);
        return MT_OK;
    default:
        mt_alloc_mark(a, op->id, op->bytes, 0);
        return MT_OK;
    }
}

mt_status mt_ops_run(const mt_ops *ops, mt_alloc *a, uint64_t *refused, bool (*stop)(void),
                     mt_error *err) {
    mt_mem *mem = calloc(ops->requests + 1, sizeof *mem);
    mt_status status =
        mem != NULL ? MT_OK : mt_fail(err, MT_FAILED, "no memory for the live requests");
    *refused = 0;
    for (size_t i = 0; status == MT_OK && i < ops->n; i++) {
        const mt_op *op = &ops->op[i];
        if (op->kind <= MT_OP_USE && op->id >= ops->requests)
            continue; /* freed, and never requested */
        status = run_op(op, a, mem, refused, err);
        if (stop != NULL && i % 65536 == 0 && stop())
            status = mt_fail(err, MT_INTERRUPTED, "interrupted");
    }
    free(mem);
    return status;
}
