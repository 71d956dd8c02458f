/* attention.c - causal attention over the cache, softmax streamed, so that no scores are kept.
 *
 * The cache is walked in chunks of MT_CHUNK places that begin at multiples of MT_CHUNK. A query
 * meets its chunks in order; each one updates the running maximum, the running sum and out, which
 * holds the sum of weighted values until it is divided at the end (simd_body.h). So a result
 * depends on its query and on the places it sees, not on T, B, threads, or the layout of the cache.
 *
 * Work is cut into blocks of up to MT_ITEMS (head, query) pairs of one sequence that walk the cache
 * together: several queries of one head share a chunk while it is in the nearest cache (prefill),
 * and several heads of one query read whole rows of the cache (decode). */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define MT_ITEMS MT_HEADS

/* One call's arguments, and how it is cut. */
typedef struct attention_call {
    const mt_simd *simd;
    float *out;
    const float *qkv;
    const mt_kv_view *kv;
    uint32_t B, T, first, H, D;
    uint32_t heads, queries; /* of a block; heads * queries <= MT_ITEMS */
} attention_call;

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* The addresses of places begin .. begin + n - 1 of sequence b. */
static void locate(mt_chunk *chunk, const mt_kv_view *kv, uint32_t b, uint32_t begin, uint32_t n,
                   size_t C) {
    if (kv->pages == NULL) {
        size_t at = b * kv->sequence + begin * kv->row;
        for (uint32_t j = 0; j < n; j++, at += kv->row) {
            chunk->k[j] = kv->k + at;
            chunk->v[j] = kv->v + at;
        }
        return;
    }
    float *const *page = kv->pages + (size_t)b * kv->pages_per_sequence + begin / kv->page_tokens;
    uint32_t slot = begin % kv->page_tokens;
    for (uint32_t j = 0; j < n; j++) {
        chunk->k[j] = *page + slot * C;
        chunk->v[j] = chunk->k[j] + kv->page_tokens * C;
        if (++slot == kv->page_tokens) {
            slot = 0;
            page++;
        }
    }
}

/* Longest head whose chunks are copied together. */
#define MT_TOGETHER 128

/* A head's columns of a chunk, side by side. Its rows lie so far apart in the cache that they share
 * few places of the nearest processor cache and push each other out; several queries read them. */
typedef struct together {
    float k[MT_CHUNK][MT_TOGETHER];
    float v[MT_CHUNK][MT_TOGETHER];
} together;

/* Copies the head at `column` and lets the chunk point to the copy, at column 0. */
static void bring_together(mt_chunk *chunk, together *copy, size_t column, uint32_t n, size_t D) {
    float *k = copy->k[0], *v = copy->v[0];
    for (uint32_t j = 0; j < n; j++, k += D, v += D) {
        memcpy(k, chunk->k[j] + column, D * sizeof *k);
        memcpy(v, chunk->v[j] + column, D * sizeof *v);
        chunk->k[j] = k;
        chunk->v[j] = v;
    }
}

/* What is left of a softmax at the end: the division by its sum. */
static void divide(const attention_call *a, const mt_softmax *state, uint32_t b, uint32_t h0,
                   uint32_t h1, uint32_t t0, uint32_t t1) {
    for (uint32_t h = h0; h < h1; h++)
        for (uint32_t t = t0; t < t1; t++) {
            float *out = a->out + (((size_t)b * a->T + t) * a->H + h) * a->D;
            float sum = state[(h - h0) * a->queries + t - t0].sum;
            for (size_t i = 0; i < a->D; i++)
                out[i] /= sum;
        }
}

/* One block: heads h0 .. h1 - 1 and new tokens t0 .. t1 - 1 of sequence b. */
static void attend_block(const attention_call *a, uint32_t b, uint32_t h0, uint32_t h1, uint32_t t0,
                         uint32_t t1) {
    const size_t D = a->D, C = a->H * D, row = (size_t)b * a->T;
    const float scale = 1.0f / sqrtf((float)a->D);
    const bool copies = t1 - t0 > 1 && h1 - h0 == 1 && D <= MT_TOGETHER;
    together copy;
    mt_softmax state[MT_ITEMS];
    for (int i = 0; i < MT_ITEMS; i++)
        state[i] = (mt_softmax){ .max = -INFINITY, .sum = 0 };
    for (uint32_t t = t0; t < t1; t++)
        memset(a->out + (row + t) * C + h0 * D, 0, (h1 - h0) * D * sizeof(float));

    for (uint32_t place = 0; place < a->first + t1; place += MT_CHUNK) {
        mt_chunk chunk;
        uint32_t n = least(MT_CHUNK, a->first + t1 - place);
        locate(&chunk, a->kv, b, place, n, C);
        if (t1 - t0 == 1) {
            a->simd->attend_heads(a->out + (row + t0) * C + h0 * D, state,
                                  a->qkv + (row + t0) * 3 * C + h0 * D, &chunk, h0 * D, n, h1 - h0,
                                  D, scale);
            continue;
        }
        if (copies)
            bring_together(&chunk, &copy, h0 * D, n, D);
        for (uint32_t h = h0; h < h1; h++)
            for (uint32_t t = t0; t < t1; t++) {
                uint32_t seen = a->first + t + 1;
                if (seen > place)
                    a->simd->attend(a->out + (row + t) * C + h * D,
                                    &state[(h - h0) * a->queries + t - t0],
                                    a->qkv + (row + t) * 3 * C + h * D, &chunk, copies ? 0 : h * D,
                                    least(MT_CHUNK, seen - place), D, scale);
            }
    }
    divide(a, state, b, h0, h1, t0, t1);
}

/* One query: as many heads together as leave every thread something. More: one head, its
 * queries. */
static void cut(attention_call *a, int threads) {
    uint32_t share = (uint32_t)(((size_t)a->B * a->H + threads - 1) / threads);
    a->heads = a->T > 1 ? 1 : least(least(share, MT_ITEMS), a->H);
    a->queries = a->T > 1 ? least(a->T, MT_ITEMS) : 1;
}

/* Block i. A prompt's last queries see most, so they come first. */
static void attend_chunk(void *context, size_t i) {
    const attention_call *a = context;
    size_t by_head = (a->H + a->heads - 1) / a->heads;
    size_t by_query = (a->T + a->queries - 1) / a->queries;
    uint32_t t = (uint32_t)(by_query - 1 - i / (a->B * by_head)) * a->queries;
    uint32_t h = (uint32_t)(i % by_head) * a->heads;
    uint32_t b = (uint32_t)(i / by_head % a->B);
    attend_block(a, b, h, least(h + a->heads, a->H), t, least(t + a->queries, a->T));
}

void mt_cpu_attention(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv, uint32_t B,
                      uint32_t T, uint32_t first, uint32_t H, uint32_t D, float *scratch) {
    (void)scratch; /* a query is not split here */
    const mt_cpu *c = (const mt_cpu *)d;
    if (mt_cpu_failed(d) || B == 0 || T == 0 || H == 0)
        return;
    attention_call a = { c->simd, out, qkv, kv, B, T, first, H, D, 0, 0 };
    cut(&a, c->threads);
    size_t by_head = (H + a.heads - 1) / a.heads, by_query = (T + a.queries - 1) / a.queries;
    mt_cpu_run(c, (size_t)B * T * H * D * (first + T), attend_chunk, &a, B * by_head * by_query);
}
