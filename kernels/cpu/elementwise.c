/* elementwise.c - the kernels that move or compare but do not sum: copies, embedding, writes to the
 * cache, argmax. */
#include "kernels/cpu/cpu.h"

#include <string.h>

/* Bytes that a thread copies at a time: enough to run at the memory's speed. */
#define MT_PIECE ((size_t)256 << 10)

void mt_cpu_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                      size_t bytes, size_t rows) {
    if (mt_cpu_failed(d) || bytes == 0)
        return;
    size_t pieces = (bytes + MT_PIECE - 1) / MT_PIECE; /* of one row */
    int threads = mt_cpu_threads((const mt_cpu *)d, rows * bytes / sizeof(float));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < rows * pieces; i++) {
        size_t r = i / pieces, at = i % pieces * MT_PIECE;
        memcpy((char *)dst + r * dst_pitch + at, (const char *)src + r * src_pitch + at,
               bytes - at < MT_PIECE ? bytes - at : MT_PIECE);
    }
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
    int threads = mt_cpu_threads((const mt_cpu *)d, R * C);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t r = 0; r < R; r++) {
        const float *token = wte + (size_t)ids[r] * C;
        const float *place = wpe + (first + r % T) * (size_t)C;
        for (uint32_t i = 0; i < C; i++)
            out[r * C + i] = token[i] + place[i];
    }
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

void mt_cpu_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B, uint32_t T,
                     uint32_t first, uint32_t C) {
    if (mt_cpu_failed(d))
        return;
    size_t R = (size_t)B * T;
    int threads = mt_cpu_threads((const mt_cpu *)d, 2 * R * C);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t r = 0; r < R; r++) {
        float *v, *k = place_of(kv, (uint32_t)(r / T), first + (uint32_t)(r % T), C, &v);
        memcpy(k, qkv + r * 3 * C + C, C * sizeof(float));
        memcpy(v, qkv + r * 3 * C + 2 * C, C * sizeof(float));
    }
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

void mt_cpu_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V) {
    const mt_cpu *c = (const mt_cpu *)d;
    if (mt_cpu_failed(d))
        return;
    int threads = R == 1 ? 1 : mt_cpu_threads(c, (size_t)R * V);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint32_t r = 0; r < R; r++)
        ids[r] = argmax_row(c->simd, logits + (size_t)r * V, V);
}
