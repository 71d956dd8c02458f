/* device.h - the kernels a GPT-2 needs, as one table of functions per back end.
 *
 * Back ends: cpu (computes), none (does nothing: a dry run), cuda (a shared object of its own).
 * Kernels never allocate: every buffer, scratch included, is handed in and lives in the device's
 * memory. Work is done in order of the calls. A call that fails leaves a note; later calls do
 * nothing, and sync reports the first failure, so that a forward pass reads as a recipe.
 *
 * Matrices are row-major fp32. A row is one token of one sequence; R = rows, C = width, D = head
 * size, H = heads, B = sequences, T = new tokens of each sequence (R = B T, sequence by sequence).
 *
 * Order of summation (cpu): a result of our own kernels depends on its row's inputs alone, never on
 * the number of rows computed together or of threads. Matrix products of many rows go through BLAS,
 * whose order is its own. */
#ifndef MT_KERNELS_DEVICE_H
#define MT_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* What a matrix product does with its result. */
typedef enum mt_epilogue {
    MT_STORE, /* out = x W^T + b */
    MT_GELU,  /* out = gelu(x W^T + b), the tanh form of GPT-2 */
    MT_ADD    /* out = out + x W^T + b: the residual stream */
} mt_epilogue;

/* Keys and values of one layer, as an attention or a cache write sees them. Contiguous when pages
 * is NULL: token j of sequence b has its C keys at k + b * sequence + j * row and its values at
 * v + b * sequence + j * row (strides in elements). Paged otherwise: pages is a table in device
 * memory, B x pages_per_sequence pointers; each page holds the keys of page_tokens tokens
 * [page_tokens, C], then their values. */
typedef struct mt_kv_view {
    float *k;
    float *v;
    size_t sequence;
    size_t row;
    float *const *pages;
    uint32_t page_tokens;
    uint32_t pages_per_sequence;
} mt_kv_view;

typedef struct mt_device mt_device;

struct mt_device {
    const char *name;      /* "cpu", "none", "cuda" */
    bool computes;         /* false: results are never read */
    bool host_memory;      /* this program can read and write the device's memory itself */
    char description[128]; /* for headers: "cpu, 2 threads, avx512, OpenBLAS 0.3.21" */
    mt_error failure;      /* the first failure since the last sync; status MT_OK when none */

    /* Copies between this program's memory and the device's, and inside the device. The host's side
     * of copy_in and copy_out may be reused at once. copy_rows copies `rows` rows of `bytes` bytes,
     * pitches in bytes. */
    void (*copy_in)(mt_device *d, void *dst, const void *host, size_t bytes);
    void (*copy_out)(mt_device *d, void *host, const void *src, size_t bytes);
    void (*copy_rows)(mt_device *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                      size_t bytes, size_t rows);
    void (*zero)(mt_device *d, void *dst, size_t bytes);

    /* out[R, C] = wte[ids[r]] + wpe[first + t], t the row's place among its sequence's T. ids is in
     * device memory. An id outside [0, vocab) is a failure. */
    void (*embed)(mt_device *d, float *out, const int32_t *ids, const float *wte, const float *wpe,
                  uint32_t B, uint32_t T, uint32_t first, uint32_t C, uint32_t vocab);

    /* out[R, C] = (x - mean) / sqrt(variance + epsilon) * w + b, by rows; x may be strided: row r
     * begins at x + r * stride. out may be x when stride is C. */
    void (*layernorm)(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                      const float *b, uint32_t R, uint32_t C, float epsilon);

    /* out[R, N] from x[R, K], W[N, K] and b[N] (NULL for none); see mt_epilogue. */
    void (*linear)(mt_device *d, float *out, const float *x, const float *W, const float *b,
                   uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue);

    /* Writes keys and values of T new tokens of each sequence to places first .. first + T - 1 of
     * the view, from qkv[R, 3C] (queries, keys, values side by side). */
    void (*kv_write)(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B, uint32_t T,
                     uint32_t first, uint32_t C);

    /* Causal attention: out[R, C] for the queries in qkv[R, 3C]. The query of new token t sees
     * places 0 .. first + t. Softmax of q.k / sqrt(D), streamed (online), so no scores are kept.
     * scratch holds mt_attention_scratch() bytes, or is NULL when that is 0. */
    void (*attention)(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv, uint32_t B,
                      uint32_t T, uint32_t first, uint32_t H, uint32_t D, float *scratch);

    /* ids[r] = index of the largest of logits[r, V], the lowest one among equals. */
    void (*argmax)(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V);

    /* Waits for all work and reports the first failure since the last sync. */
    mt_status (*sync)(mt_device *d, mt_error *err);

    void (*close)(mt_device *d); /* frees d */

    /* ---- instruments ---- */

    /* Reads x[n] once and does nothing else with it: how fast the memory is. */
    void (*read)(mt_device *d, const float *x, size_t n);

    /* Starts a piece of work that does nothing: what a start costs (a job of the pool, a
     * launch). */
    void (*nothing)(mt_device *d);

    /* ---- what not every back end has: NULL there ---- */

    /* The device's own clock, where calls return before the work is done: stamp(i) notes when all
     * work so far is done; stamps, after a sync, gives the first `count` notes in ms since note
     * 0. */
    void (*stamp)(mt_device *d, uint32_t i);
    mt_status (*stamps)(mt_device *d, double *ms, uint32_t count, mt_error *err);

    /* Gives the BLAS library this memory as its workspace (aligned to 256 bytes, the caller's,
     * until the next call or the close); 0 bytes: none at all. Without a call it takes its own. */
    void (*use_workspace)(mt_device *d, void *ptr, size_t bytes);

    /* Names a stretch of work for a profiler; ranges nest. */
    void (*range_begin)(mt_device *d, const char *name);
    void (*range_end)(mt_device *d);

    /* Graphs. Between record and record_end calls are recorded and not done; copies to and from the
     * host are not allowed. `first` is then the largest there will be. replay does the recorded
     * calls with `first` in its place; the pointers are those of the recording. A new recording
     * replaces the old one; one that failed leaves none. */
    mt_status (*record)(mt_device *d, mt_error *err);
    mt_status (*record_end)(mt_device *d, mt_error *err);
    void (*replay)(mt_device *d, uint32_t first);
};

/* Scratch of one attention call, in bytes: the partial results of a query that is split over the
 * cache when T = 1 (one part per MT_ATTENTION_SPLIT places, an fp32 row, a maximum and a sum each).
 * A formula of shapes alone, the same on every back end. 0 when T > 1. */
#define MT_ATTENTION_SPLIT 256
static inline size_t mt_attention_scratch(uint32_t B, uint32_t T, uint32_t first, uint32_t H,
                                          uint32_t D) {
    size_t parts = ((size_t)first + T + MT_ATTENTION_SPLIT - 1) / MT_ATTENTION_SPLIT;
    return T == 1 ? (size_t)B * H * parts * (D + 2) * sizeof(float) : 0;
}

/* Opens a back end. threads = 0: one per physical core this process may use. */
mt_status mt_device_cpu(mt_device **out, int threads, mt_error *err);
mt_status mt_device_none(mt_device **out, mt_error *err);

#endif
