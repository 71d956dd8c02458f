/* simd_body.h - the inner loops, written once over a vocabulary of vector operations.
 *
 * The including file defines, for its instruction set:
 *   TARGET                 the function attribute that turns the instructions on
 *   vec, LANES             a vector of floats and how many it holds
 *   ROWS, COLUMNS          register blocking: rows of x, vectors of a head that stay in registers
 *   v_load, v_store        of LANES floats at any address
 *   v_load_n, v_store_n    of the first n < LANES; other lanes read as 0 and are never touched
 *   v_first(v, n)          the first n lanes of v, the rest 0
 *   v_set, v_add, v_sub, v_mul, v_div, v_fma(a, b, c) = a b + c
 *   v_max(a, b)            lane by lane, b where either is NaN
 *   v_zero_below(v, x, y)  0 where x < y, else v
 *   v_pow2(z)              2^n, with n the integer in the low bits of z = n + 1.5 2^23
 *   v_sum, v_top           sum (a fixed tree) and maximum of the lanes
 *   v_sum4(out, a, b, c, d) four sums, each by the same fixed tree
 *   v_lane0(v)             the first lane
 *
 * Tails go through the same operations as full vectors, with lanes masked off, so that a value
 * never depends on where in a vector it stood. */
#include <math.h>

#define INLINE static inline __attribute__((always_inline)) TARGET

INLINE vec load_part(const float *p, size_t n) {
    return n >= LANES ? v_load(p) : v_load_n(p, n);
}

INLINE void store_part(float *p, vec v, size_t n) {
    if (n >= LANES)
        v_store(p, v);
    else
        v_store_n(p, v, n);
}

/* ---- exp ------------------------------------------------------------------------------------- */

/* exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of
 * degree 7 (remainder below 0.1 ulp). ln 2 is split in two so that n * high is exact. Error below 1
 * ulp with FMA, 1.2 without. Where x < -87.3, and the result would hardly be a normal number, it is
 * 0. Above 88 it is anything; NaN gives NaN. */
#define EXP_LOWEST -87.3f

INLINE vec v_exp(vec x) {
    const vec shift = v_set(0x1.8p23f);
    vec z = v_fma(x, v_set(1.44269504f), shift);
    vec n = v_sub(z, shift);
    vec r = v_fma(n, v_set(-0.693359375f), x);
    r = v_fma(n, v_set(2.12194440e-4f), r);
    vec p = v_set(1.0f / 5040);
    p = v_fma(p, r, v_set(1.0f / 720));
    p = v_fma(p, r, v_set(1.0f / 120));
    p = v_fma(p, r, v_set(1.0f / 24));
    p = v_fma(p, r, v_set(1.0f / 6));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    return v_zero_below(v_mul(p, v_pow2(z)), x, v_set(EXP_LOWEST));
}

/* ---- linear ---------------------------------------------------------------------------------- */

/* A dot product runs in 4 * LANES partial sums: element k goes to sum k mod 4 LANES, and the four
 * vectors and then their lanes are added as a tree. Nothing of that depends on R. */
#define PREFETCH_AHEAD 3072 /* bytes */

/* out[r * stride] = x[r] . w for r < rows, which is a constant at every call: the loops over r
 * unroll. fetch: w comes from memory, so prefetch it. */
INLINE void dots(float *out, size_t stride, const float *x, const float *w, size_t K, int rows,
                 bool add, bool fetch) {
    vec acc[ROWS][4];
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = v_set(0);
    size_t k = 0;
    for (; k + 4 * LANES <= K; k += 4 * LANES) {
        for (int i = 0; i < 4; i++) {
            if (fetch && i * LANES % 16 == 0) /* one for each cache line */
                __builtin_prefetch((const char *)(w + k + i * LANES) + PREFETCH_AHEAD);
            vec wi = v_load(w + k + i * LANES);
            for (int r = 0; r < rows; r++)
                acc[r][i] = v_fma(wi, v_load(x + r * K + k + i * LANES), acc[r][i]);
        }
    }
    for (int i = 0; i < 4 && k < K; i++, k += LANES) {
        vec wi = load_part(w + k, K - k);
        for (int r = 0; r < rows; r++)
            acc[r][i] = v_fma(wi, load_part(x + r * K + k, K - k), acc[r][i]);
    }
    for (int r = 0; r < rows; r++) {
        float sum = v_sum(v_add(v_add(acc[r][0], acc[r][1]), v_add(acc[r][2], acc[r][3])));
        out[r * stride] = add ? out[r * stride] + sum : sum;
    }
}

/* The first rows bring a row of W from DRAM, the others find it in the L1 cache. */
INLINE void product_of(float *out, size_t stride, const float *x, const float *W, uint32_t R,
                       size_t N, size_t K, bool add, bool fetch) {
    for (size_t n = 0; n < N; n++, out++) {
        const float *w = W + n * K;
        uint32_t r = R >= ROWS ? ROWS : 1;
        if (r == ROWS)
            dots(out, stride, x, w, K, ROWS, add, fetch);
        else
            dots(out, stride, x, w, K, 1, add, fetch);
        for (; r + ROWS <= R; r += ROWS)
            dots(out + r * stride, stride, x + r * K, w, K, ROWS, add, false);
        for (; r < R; r++)
            dots(out + r * stride, stride, x + r * K, w, K, 1, add, false);
    }
}

TARGET static void product(float *out, size_t stride, const float *x, const float *W, uint32_t R,
                           size_t N, size_t K, bool add) {
    product_of(out, stride, x, W, R, N, K, add, false);
}

TARGET static void product_ahead(float *out, size_t stride, const float *x, const float *W,
                                 uint32_t R, size_t N, size_t K, bool add) {
    product_of(out, stride, x, W, R, N, K, add, true);
}

/* gelu(x) = x / 2 (1 + tanh u) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3), a form
 * without cancellation. Error below 3 ulp for x >= -1. Further down the relative error grows with u
 * (26 ulp at -4), the absolute one stays below 6e-8. Where exp would overflow the result is 0. */
INLINE vec v_gelu(vec x) {
    vec cubic = v_fma(v_mul(x, x), v_set(0.044715f), v_set(1.0f));
    vec u2 = v_mul(v_mul(x, v_set(1.59576912f)), cubic);
    vec e = v_exp(v_sub(v_set(0), u2));
    return v_zero_below(v_div(x, v_add(e, v_set(1.0f))), u2, v_set(EXP_LOWEST));
}

TARGET static void finish(float *x, const float *b, size_t n, bool gelu) {
    for (size_t i = 0; i < n; i += LANES) {
        vec v = load_part(x + i, n - i);
        if (b != NULL)
            v = v_add(v, load_part(b + i, n - i));
        store_part(x + i, gelu ? v_gelu(v) : v, n - i);
    }
}

/* ---- layernorm ------------------------------------------------------------------------------- */

/* Mean first, then the mean of squared distances, each in LANES partial sums added as a tree. */
TARGET static void layernorm(float *out, const float *x, const float *w, const float *b, size_t C,
                             float epsilon) {
    vec sum = v_set(0), squares = v_set(0);
    for (size_t i = 0; i < C; i += LANES)
        sum = v_add(sum, load_part(x + i, C - i));
    vec mean = v_set(v_sum(sum) / (float)C);
    for (size_t i = 0; i < C; i += LANES) {
        vec far = v_sub(load_part(x + i, C - i), mean);
        far = C - i >= LANES ? far : v_first(far, C - i);
        squares = v_fma(far, far, squares);
    }
    vec scale = v_set(1.0f / sqrtf(v_sum(squares) / (float)C + epsilon));
    for (size_t i = 0; i < C; i += LANES) {
        vec y = v_mul(v_sub(load_part(x + i, C - i), mean), scale);
        y = v_fma(y, load_part(w + i, C - i), load_part(b + i, C - i));
        store_part(out + i, y, C - i);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* A chunk's scores, their maximum, exp, and the weighted sum of values: the streamed softmax one
 * chunk at a time. A score is summed in LANES partial sums; element d of out gathers the places in
 * order. Places past n get the score -infinity, and with it weight 0. */

/* Scores of places j .. j + 3, before scaling; those past n repeat the last one. */
INLINE void scores4(float *s, const float *q, const mt_chunk *c, size_t column, uint32_t j,
                    uint32_t n, size_t D) {
    const float *k[4];
    vec acc[4];
    for (uint32_t i = 0; i < 4; i++) {
        k[i] = c->k[j + i < n ? j + i : n - 1] + column;
        acc[i] = v_set(0);
    }
    for (size_t d = 0; d < D; d += LANES) {
        vec qd = load_part(q + d, D - d);
        for (int i = 0; i < 4; i++)
            acc[i] = v_fma(qd, load_part(k[i] + d, D - d), acc[i]);
    }
    v_sum4(s, acc[0], acc[1], acc[2], acc[3]);
}

/* Scores become weights exp(score - max); updates the state and returns what earlier sums keep. */
INLINE float weights(float *p, mt_softmax *state, uint32_t n, float scale) {
    for (uint32_t j = 0; j < n; j++)
        p[j] *= scale;
    for (uint32_t j = n; j < MT_CHUNK; j++)
        p[j] = -INFINITY;
    vec top = v_set(state->max), sum = v_set(0);
    for (int j = 0; j < MT_CHUNK; j += LANES)
        top = v_max(v_load(p + j), top);
    float max = v_top(top);
    for (int j = 0; j < MT_CHUNK; j += LANES) {
        vec e = v_exp(v_sub(v_load(p + j), v_set(max)));
        v_store(p + j, e);
        sum = v_add(sum, e);
    }
    float keep = v_lane0(v_exp(v_set(state->max - max)));
    state->sum = state->sum * keep + v_sum(sum);
    state->max = max;
    return keep;
}

/* out[d] = out[d] * keep + sum over j of p[j] v[j][d], for as many vectors as `columns`, a constant
 * at every call; `left` floats of the head remain from out on. */
INLINE void weigh(float *out, const float *p, const mt_chunk *c, size_t column, uint32_t n,
                  float keep, size_t left, int columns) {
    vec acc[COLUMNS];
    for (int i = 0; i < columns; i++)
        acc[i] = v_mul(load_part(out + i * LANES, left - i * LANES), v_set(keep));
    for (uint32_t j = 0; j < n; j++) {
        vec pj = v_set(p[j]);
        const float *v = c->v[j] + column;
        for (int i = 0; i < columns; i++)
            acc[i] = v_fma(pj, load_part(v + i * LANES, left - i * LANES), acc[i]);
    }
    for (int i = 0; i < columns; i++)
        store_part(out + i * LANES, acc[i], left - i * LANES);
}

INLINE void attend_of(float *out, mt_softmax *state, const float *q, const mt_chunk *c,
                      size_t column, uint32_t n, size_t D, float scale) {
    float p[MT_CHUNK] __attribute__((aligned(64)));
    for (uint32_t j = 0; j < n; j += 4)
        scores4(p + j, q, c, column, j, n, D);
    float keep = weights(p, state, n, scale);
    size_t d = 0;
    for (; d + COLUMNS * LANES <= D; d += COLUMNS * LANES)
        weigh(out + d, p, c, column + d, n, keep, COLUMNS * LANES, COLUMNS);
    for (; d < D; d += LANES)
        weigh(out + d, p, c, column + d, n, keep, D - d, 1);
}

/* out[d] += the weighted values of places j .. j + rows - 1, in order; rows is a constant. */
INLINE void weigh_rows(float *out, const float *p, const mt_chunk *c, size_t column, uint32_t j,
                       size_t D, int rows) {
    for (size_t d = 0; d < D; d += LANES) {
        vec acc = load_part(out + d, D - d);
        for (int i = 0; i < rows; i++)
            acc = v_fma(v_set(p[j + i]), load_part(c->v[j + i] + column + d, D - d), acc);
        store_part(out + d, acc, D - d);
    }
}

/* Places outside, heads inside: rows of the cache are read from end to end, four side by side. The
 * sums are those of attend_of. */
INLINE void attend_heads_of(float *out, mt_softmax *state, const float *q, const mt_chunk *c,
                            size_t column, uint32_t n, uint32_t heads, size_t D, float scale) {
    float p[MT_HEADS][MT_CHUNK] __attribute__((aligned(64)));
    for (uint32_t j = 0; j < n; j += 4)
        for (uint32_t h = 0; h < heads; h++)
            scores4(p[h] + j, q + h * D, c, column + h * D, j, n, D);
    for (uint32_t h = 0; h < heads; h++) {
        vec keep = v_set(weights(p[h], &state[h], n, scale));
        for (size_t d = 0; d < D; d += LANES)
            store_part(out + h * D + d, v_mul(load_part(out + h * D + d, D - d), keep), D - d);
    }
    uint32_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (uint32_t h = 0; h < heads; h++)
            weigh_rows(out + h * D, p[h], c, column + h * D, j, D, 4);
    for (; j < n; j++)
        for (uint32_t h = 0; h < heads; h++)
            weigh_rows(out + h * D, p[h], c, column + h * D, j, D, 1);
}

/* Every published GPT-2 has heads of 64, so that size has loops with constant bounds. The
 * arithmetic is the same. */
TARGET static void attend(float *out, mt_softmax *state, const float *q, const mt_chunk *c,
                          size_t column, uint32_t n, size_t D, float scale) {
    if (D == 64)
        attend_of(out, state, q, c, column, n, 64, scale);
    else
        attend_of(out, state, q, c, column, n, D, scale);
}

TARGET static void attend_heads(float *out, mt_softmax *state, const float *q, const mt_chunk *c,
                                size_t column, uint32_t n, uint32_t heads, size_t D, float scale) {
    if (D == 64)
        attend_heads_of(out, state, q, c, column, n, heads, 64, scale);
    else
        attend_heads_of(out, state, q, c, column, n, heads, D, scale);
}

/* ---- maximum --------------------------------------------------------------------------------- */
TARGET static float largest(const float *x, size_t n) {
    vec top = v_set(-INFINITY);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        top = v_max(v_load(x + i), top);
    float best = v_top(top);
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* ---- sum ------------------------------------------------------------------------------------- */
TARGET static float sum_of(const float *x, size_t n) {
    vec acc[4] = { v_set(0), v_set(0), v_set(0), v_set(0) };
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            acc[j] = v_add(acc[j], v_load(x + i + j * LANES));
    float sum = v_sum(v_add(v_add(acc[0], acc[1]), v_add(acc[2], acc[3])));
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

#define MT_SIMD_TABLE(label)                                                                       \
    { label, product, product_ahead, finish, layernorm, attend, attend_heads, largest, sum_of }
