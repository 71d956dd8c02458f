/* elementwise.c - the kernels that move or compare but do not sum: copies, embedding, writes to the
 * cache, argmax. */
#include "kernels/cpu/cpu.h"

#include <string.h>

/* Bytes that a thread copies at a time: enough to run at the memory's speed. */
#define MT_PIECE ((size_t)256 << 10)

typedef struct copy_call {
    char *dst;
    const char *src;
    size_t dst_pitch, src_pitch, bytes, pieces; /* pieces of one row */
} copy_call;

static void copy_piece(void *context, size_t i) {
    const copy_call *a = context;
    size_t r = i / a->pieces, at = i % a->pieces * MT_PIECE;
    memcpy(a->dst + r * a->dst_pitch + at, a->src + r * a->src_pitch + at,
           a->bytes - at < MT_PIECE ? a->bytes - at : MT_PIECE);
}

void mt_cpu_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                      size_t bytes, size_t rows) {
    if (mt_cpu_failed(d) || bytes == 0)
        return;
    size_t pieces = (bytes + MT_PIECE - 1) / MT_PIECE;
    copy_call a = { dst, src, dst_pitch, src_pitch, bytes, pieces };
    mt_cpu_run((const mt_cpu *)d, rows * bytes / sizeof(float), copy_piece, &a, rows * pieces);
}

void mt_cpu_copy_in(mt_device *d, void *dst, const void *host, size_t bytes) {
    mt_cpu_copy_rows(d, dst, bytes, host, bytes, bytes, 1);
}

void mt_cpu_copy_out(mt_device *d, void *host, const void *src, size_t bytes) {
    mt_cpu_copy_rows(d, host, bytes, src, bytes, bytes, 1);
}

void mt_cpu_zero(mt_device *d, void *dst, size_t bytes) {
    if (!mt_cpu_failed(d) && bytes > 0)
        memset(dst, 0, bytes);
}

typedef struct embed_call {
    float *out;
    const int32_t *ids;
    const float *wte, *wpe;
    uint32_t T, first, C;
} embed_call;

static void embed_row(void *context, size_t r) {
    const embed_call *a = context;
    const float *token = a->wte + (size_t)a->ids[r] * a->C;
    const float *place = a->wpe + (a->first + r % a->T) * (size_t)a->C;
    for (uint32_t i = 0; i < a->C; i++)
        a->out[r * a->C + i] = token[i] + place[i];
}

void mt_cpu_embed(mt_device *d, float *out, const int32_t *ids, const float *wte, const float *wpe,
                  uint32_t B, uint32_t T, uint32_t first, uint32_t C, uint32_t vocab) {
    if (mt_cpu_failed(d))
        return;
    size_t R = (size_t)B * T;
    for (size_t r = 0; r < R; r++)
        if ((uint32_t)ids[r] >= vocab) { /* a negative id is a large one */
            mt_fail(&d->failure, MT_BAD, "embed: row %zu has id %d, outside the vocabulary of %u",
                    r, ids[r], vocab);
            return;
        }
    embed_call a = { out, ids, wte, wpe, T, first, C };
    mt_cpu_run((const mt_cpu *)d, R * C, embed_row, &a, R);
}

/* Where place j of sequence b keeps its keys; its values are at *v. */
static float *place_of(const mt_kv_view *kv, uint32_t b, uint32_t j, size_t C, float **v) {
    if (kv->pages == NULL) {
        size_t at = b * kv->sequence + j * kv->row;
        *v = kv->v + at;
        return kv->k + at;
    }
    float *page = kv->pages[(size_t)b * kv->pages_per_sequence + j / kv->page_tokens];
    float *k = page + j % kv->page_tokens * C;
    *v = k + kv->page_tokens * C;
    return k;
}

typedef struct write_call {
    const mt_kv_view *kv;
    const float *qkv;
    uint32_t T, first, C;
} write_call;

static void write_token(void *context, size_t r) {
    const write_call *a = context;
    const float *row = a->qkv + r * 3 * a->C;
    float *v;
    float *k = place_of(a->kv, (uint32_t)(r / a->T), a->first + (uint32_t)(r % a->T), a->C, &v);
    memcpy(k, row + a->C, a->C * sizeof(float));
    memcpy(v, row + 2 * (size_t)a->C, a->C * sizeof(float));
}

void mt_cpu_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B, uint32_t T,
                     uint32_t first, uint32_t C) {
    if (mt_cpu_failed(d))
        return;
    write_call a = { kv, qkv, T, first, C };
    mt_cpu_run((const mt_cpu *)d, 2 * (size_t)B * T * C, write_token, &a, (size_t)B * T);
}

/* The largest value first, then the first place that has it. NaN equals nothing, so it is found
 * only when there is nothing else: then the answer is 0. */
static int32_t argmax_row(const mt_simd *simd, const float *x, uint32_t V) {
    float top = simd->max(x, V);
    for (uint32_t i = 0; i < V; i++)
        if (x[i] == top)
            return (int32_t)i;
    return 0;
}

typedef struct argmax_call {
    const mt_simd *simd;
    int32_t *ids;
    const float *logits;
    uint32_t V;
} argmax_call;

static void argmax_chunk(void *context, size_t r) {
    const argmax_call *a = context;
    a->ids[r] = argmax_row(a->simd, a->logits + r * a->V, a->V);
}

void mt_cpu_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V) {
    const mt_cpu *c = (const mt_cpu *)d;
    if (mt_cpu_failed(d))
        return;
    argmax_call a = { c->simd, ids, logits, V };
    mt_cpu_run(c, (size_t)R * V, argmax_chunk, &a, R);
}
