/* timed.c - see timed.h. */
#include "kernels/timed/timed.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

#define RANGES 8 /* that nest */

typedef struct timed {
    mt_device device; /* first, so that an mt_device * is a timed * */
    mt_device *inner;
    bool on, lost;            /* taking notes; a note found no memory */
    bool recorded;            /* a graph was recorded meanwhile */
    MT_ARRAY(mt_timing) call; /* those that have ended; the one that is on stands behind them */
    char range[RANGES][16];
    uint32_t depth;
} timed;

static const char *const names[MT_KERNELS] = { "embed",     "layernorm", "linear", "kv_write",
                                               "attention", "argmax",    "copy",   "host",
                                               "zero",      "replay" };

const char *mt_kernel_name(mt_kernel kernel) {
    return names[kernel];
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* A new note, or NULL when none is taken. */
static mt_timing *note(timed *t, mt_kernel kernel) {
    if (!t->on || t->lost)
        return NULL;
    if (!mt_array_reserve(&t->call, t->call.count + 1)) {
        t->lost = true;
        return NULL;
    }
    mt_timing *n = &t->call.at[t->call.count];
    *n = (mt_timing){ .kernel = kernel };
    if (t->depth > 0 && t->depth <= RANGES)
        memcpy(n->range, t->range[t->depth - 1], sizeof n->range);
    if (t->inner->stamp != NULL)
        t->inner->stamp(t->inner, 2 * (uint32_t)t->call.count);
    n->begin_ns = mt_now_ns();
    return n;
}

/* A failure of the inner device shows in ours, so that an engine stops as it would. */
static void end(timed *t, mt_timing *n) {
    if (n != NULL) {
        n->end_ns = mt_now_ns();
        if (t->inner->stamp != NULL)
            t->inner->stamp(t->inner, 2 * (uint32_t)t->call.count + 1);
        t->call.count++;
    }
    if (t->inner->failure.status != MT_OK)
        t->device.failure = t->inner->failure;
}

#define NOTE(kernel)                                                                               \
    timed *t = (timed *)d;                                                                         \
    mt_device *in = t->inner;                                                                      \
    mt_timing *n = note(t, kernel)

static void work(mt_timing *n, uint64_t flops, uint64_t bytes) {
    if (n != NULL) {
        n->flops = flops;
        n->bytes = bytes;
    }
}

static void shape(mt_timing *n, uint32_t rows, uint32_t cols, uint32_t depth) {
    if (n != NULL) {
        n->rows = rows;
        n->cols = cols;
        n->depth = depth;
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void timed_copy_in(mt_device *d, void *dst, const void *host, size_t bytes) {
    NOTE(MT_KERNEL_HOST);
    in->copy_in(in, dst, host, bytes);
    work(n, 0, bytes);
    end(t, n);
}

static void timed_copy_out(mt_device *d, void *host, const void *src, size_t bytes) {
    NOTE(MT_KERNEL_HOST);
    in->copy_out(in, host, src, bytes);
    work(n, 0, bytes);
    end(t, n);
}

static void timed_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src,
                            size_t src_pitch, size_t bytes, size_t rows) {
    NOTE(MT_KERNEL_COPY);
    in->copy_rows(in, dst, dst_pitch, src, src_pitch, bytes, rows);
    work(n, 0, 2 * (uint64_t)bytes * rows);
    end(t, n);
}

static void timed_zero(mt_device *d, void *dst, size_t bytes) {
    NOTE(MT_KERNEL_ZERO);
    in->zero(in, dst, bytes);
    work(n, 0, bytes);
    end(t, n);
}

static void timed_embed(mt_device *d, float *out, const int32_t *ids, const float *wte,
                        const float *wpe, uint32_t B, uint32_t T, uint32_t first, uint32_t C,
                        uint32_t vocab) {
    NOTE(MT_KERNEL_EMBED);
    in->embed(in, out, ids, wte, wpe, B, T, first, C, vocab);
    work(n, 0, (uint64_t)B * T * (3 * (uint64_t)C * sizeof(float) + sizeof(int32_t)));
    shape(n, B * T, C, 0);
    end(t, n);
}

static void timed_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                            const float *b, uint32_t R, uint32_t C, float epsilon) {
    NOTE(MT_KERNEL_LAYERNORM);
    in->layernorm(in, out, x, stride, w, b, R, C, epsilon);
    work(n, 0, 2 * ((uint64_t)R + 1) * C * sizeof(float));
    shape(n, R, C, 0);
    end(t, n);
}

static void timed_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                         uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue) {
    NOTE(MT_KERNEL_LINEAR);
    in->linear(in, out, x, W, b, R, N, K, epilogue);
    uint64_t outs = (uint64_t)R * N * (epilogue == MT_ADD ? 2 : 1);
    work(n, 2 * (uint64_t)R * N * K,
         ((uint64_t)N * K + (uint64_t)R * K + outs + (b != NULL ? N : 0)) * sizeof(float));
    shape(n, R, N, K);
    end(t, n);
}

static void timed_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B,
                           uint32_t T, uint32_t first, uint32_t C) {
    NOTE(MT_KERNEL_KV_WRITE);
    in->kv_write(in, kv, qkv, B, T, first, C);
    work(n, 0, 4 * (uint64_t)B * T * C * sizeof(float));
    shape(n, B * T, C, 0);
    end(t, n);
}

/* The query of new token t meets first + t + 1 places, each with 2 C multiply-adds. */
static void timed_attention(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv,
                            uint32_t B, uint32_t T, uint32_t first, uint32_t H, uint32_t D,
                            float *scratch) {
    NOTE(MT_KERNEL_ATTENTION);
    in->attention(in, out, qkv, kv, B, T, first, H, D, scratch);
    uint64_t C = (uint64_t)H * D, seen = (uint64_t)T * first + (uint64_t)T * (T + 1) / 2;
    work(n, 4 * B * C * seen,
         2 * (uint64_t)B * ((uint64_t)first + 2 * (uint64_t)T) * C * sizeof(float));
    shape(n, B * T, first + T, (uint32_t)C);
    end(t, n);
}

static void timed_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V) {
    NOTE(MT_KERNEL_ARGMAX);
    in->argmax(in, ids, logits, R, V);
    work(n, 0, (uint64_t)R * (V * sizeof(float) + sizeof(int32_t)));
    shape(n, R, V, 0);
    end(t, n);
}

static mt_status timed_sync(mt_device *d, mt_error *err) {
    timed *t = (timed *)d;
    t->device.failure = (mt_error){ .status = MT_OK };
    return t->inner->sync(t->inner, err);
}

static void timed_close(mt_device *d) {
    mt_array_free(&((timed *)d)->call);
    free(d);
}

static void timed_read(mt_device *d, const float *x, size_t n) {
    ((timed *)d)->inner->read(((timed *)d)->inner, x, n);
}

static void timed_nothing(mt_device *d) {
    ((timed *)d)->inner->nothing(((timed *)d)->inner);
}

static void timed_use_workspace(mt_device *d, void *ptr, size_t bytes) {
    timed *t = (timed *)d;
    t->inner->use_workspace(t->inner, ptr, bytes);
    end(t, NULL);
}

static void timed_range_begin(mt_device *d, const char *name) {
    timed *t = (timed *)d;
    if (t->depth < RANGES) {
        size_t n = strlen(name), room = sizeof t->range[0] - 1;
        memset(t->range[t->depth], 0, sizeof t->range[0]);
        memcpy(t->range[t->depth], name, n < room ? n : room);
    }
    t->depth++;
    if (t->inner->range_begin != NULL)
        t->inner->range_begin(t->inner, name);
}

static void timed_range_end(mt_device *d) {
    timed *t = (timed *)d;
    if (t->depth > 0)
        t->depth--;
    if (t->inner->range_end != NULL)
        t->inner->range_end(t->inner);
}

/* What is recorded is not done, so it takes no time: no notes meanwhile. */
static mt_status timed_record(mt_device *d, mt_error *err) {
    timed *t = (timed *)d;
    t->recorded |= t->on;
    return t->inner->record(t->inner, err);
}

static mt_status timed_record_end(mt_device *d, mt_error *err) {
    timed *t = (timed *)d;
    t->device.failure = (mt_error){ .status = MT_OK };
    return t->inner->record_end(t->inner, err);
}

static void timed_replay(mt_device *d, uint32_t first) {
    NOTE(MT_KERNEL_REPLAY);
    in->replay(in, first);
    end(t, n);
}

mt_status mt_device_timed(mt_device **out, mt_device *inner, mt_error *err) {
    timed *t = calloc(1, sizeof *t);
    if (t == NULL)
        return mt_no_memory(err, "a device that times another");
    t->inner = inner;
    t->device = (mt_device){
        .name = inner->name,
        .computes = inner->computes,
        .host_memory = inner->host_memory,
        .copy_in = timed_copy_in,
        .copy_out = timed_copy_out,
        .copy_rows = timed_copy_rows,
        .zero = timed_zero,
        .embed = timed_embed,
        .layernorm = timed_layernorm,
        .linear = timed_linear,
        .kv_write = timed_kv_write,
        .attention = timed_attention,
        .argmax = timed_argmax,
        .sync = timed_sync,
        .close = timed_close,
        .read = timed_read,
        .nothing = timed_nothing,
        .use_workspace = inner->use_workspace != NULL ? timed_use_workspace : NULL,
        .range_begin = timed_range_begin,
        .range_end = timed_range_end,
        .record = inner->record != NULL ? timed_record : NULL,
        .record_end = inner->record_end != NULL ? timed_record_end : NULL,
        .replay = inner->replay != NULL ? timed_replay : NULL,
    };
    memcpy(t->device.description, inner->description, sizeof inner->description);
    *out = &t->device;
    return MT_OK;
}

/* ---- taking notes ---------------------------------------------------------------------------- */

void mt_timed_start(mt_device *d) {
    timed *t = (timed *)d;
    t->call.count = 0;
    t->lost = t->recorded = false;
    t->on = true;
}

/* Kernels' times by the device's clock, or by the calls' where there is none. */
static mt_status times(timed *t, mt_error *err) {
    uint32_t count = 2 * (uint32_t)t->call.count;
    mt_device *in = t->inner;
    double *ms = NULL;
    if (in->stamp != NULL && count > 0) {
        ms = malloc(count * sizeof *ms);
        if (ms == NULL)
            return mt_no_memory(err, "times");
        mt_status status = in->stamps(in, ms, count, err);
        if (status != MT_OK) {
            free(ms);
            return status;
        }
    }
    for (size_t i = 0; i < t->call.count; i++) {
        mt_timing *n = &t->call.at[i];
        n->device_at =
            ms != NULL ? ms[2 * i] : (double)(n->begin_ns - t->call.at[0].begin_ns) / 1e6;
        n->device_ms =
            ms != NULL ? ms[2 * i + 1] - ms[2 * i] : (double)(n->end_ns - n->begin_ns) / 1e6;
    }
    free(ms);
    return MT_OK;
}

mt_status mt_timed_stop(mt_device *d, mt_error *err) {
    timed *t = (timed *)d;
    t->on = false;
    MT_TRY(timed_sync(d, err));
    if (t->lost)
        return mt_no_memory(err, "the times of calls");
    if (t->recorded)
        return mt_fail(err, MT_FAILED, "a call could not be timed");
    return times(t, err);
}

const mt_timing *mt_timed_calls(const mt_device *d, uint32_t *count) {
    const timed *t = (const timed *)d;
    *count = (uint32_t)t->call.count;
    return t->call.at;
}
