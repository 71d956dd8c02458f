/* test_kernels.c - the cpu and the none back end.
 *
 * Every kernel is compared with a plain double-precision twin written here, for every instruction
 * set of this processor, over sizes that are no multiple of anything. Buffers end at a page that
 * may not be touched, and begin after bytes that must stay as they are. Results that the interface
 * promises to be the same bits (rows together or alone, threads, layouts of the cache) are compared
 * as bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/cpu_isa.h"
#include "kernels/device.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- devices --------------------------------------------------------------------------------- */

static const char *const all_isas[] = { "portable", "avx2", "avx512" };
static const char *isas[COUNT(all_isas)]; /* those of this processor */
static size_t isa_count;

static void find_isas(void) {
    for (size_t i = 0; i < COUNT(all_isas); i++) {
        mt_device *d;
        mt_error err;
        if (mt_device_cpu_with(&d, 1, all_isas[i], &err) != MT_OK)
            continue;
        isas[isa_count++] = all_isas[i];
        d->close(d);
    }
}

static mt_device *open_cpu(int threads, const char *isa) {
    mt_device *d = NULL;
    mt_error err;
    assert_int_equal(mt_device_cpu_with(&d, threads, isa, &err), MT_OK);
    return d;
}

static void close_cpu(mt_device *d) {
    mt_error err;
    assert_int_equal(d->sync(d, &err), MT_OK);
    d->close(d);
}

/* ---- guarded buffers ------------------------------------------------------------------------- */

#define GUARDS 96
#define SLACK  0xa5

static struct guard {
    unsigned char *map;
    size_t map_bytes; /* the last page may not be touched */
    size_t slack;     /* bytes before the buffer */
} guards[GUARDS];
static size_t guard_count;

/* A buffer of n elements of 4 bytes whose end is the end of the memory that may be touched, filled
 * with NaN. */
static void *guarded(size_t n) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = n * sizeof(float);
    size_t body = (bytes + page) / page * page;
    assert_true(guard_count < GUARDS);
    unsigned char *map =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + body, page, PROT_NONE), 0);
    memset(map, SLACK, body - bytes);
    float *buffer = (float *)(void *)(map + body - bytes);
    for (size_t i = 0; i < n; i++)
        buffer[i] = NAN;
    guards[guard_count++] = (struct guard){ map, body + page, body - bytes };
    return buffer;
}

/* Checks that nothing was written before any buffer, and frees them all. */
static void release(void) {
    for (size_t g = 0; g < guard_count; g++) {
        for (size_t i = 0; i < guards[g].slack; i++)
            assert_int_equal(guards[g].map[i], SLACK);
        munmap(guards[g].map, guards[g].map_bytes);
    }
    guard_count = 0;
}

/* ---- values and comparisons ------------------------------------------------------------------ */

static uint64_t seed = 1;

static float random_float(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

static void randomize(float *x, size_t n, float scale) {
    for (size_t i = 0; i < n; i++)
        x[i] = random_float() * scale;
}

static float *random_guarded(size_t n, float scale) {
    float *x = guarded(n);
    randomize(x, n, scale);
    return x;
}

/* Fails unless x is within tolerance, so that NaN fails. */
static void close_to(double x, double expected, double tolerance) {
    if (!(fabs(x - expected) <= tolerance))
        fail_msg("%.9g, expected %.9g within %.3g", x, expected, tolerance);
}

static void same_bits(const void *a, const void *b, size_t n) {
    assert_memory_equal(a, b, n * sizeof(float));
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* ---- copies, embedding, failures ------------------------------------------------------------- */

static void test_copies(void **state) {
    (void)state;
    mt_device *d = open_cpu(2, "auto");
    enum { ROWS = 300, WIDTH = 1501 };
    const size_t half = ROWS / 2 * WIDTH * sizeof(float);
    float *from = random_guarded(ROWS * WIDTH, 1), *to = guarded(ROWS * WIDTH);
    float *back = guarded(ROWS * WIDTH), *narrow = guarded(ROWS * 7);
    d->copy_in(d, to, from, ROWS * WIDTH * sizeof(float));
    d->copy_out(d, back, to, ROWS * WIDTH * sizeof(float));
    same_bits(back, from, ROWS * WIDTH);
    d->copy_rows(d, narrow, 7 * sizeof(float), from + 5, WIDTH * sizeof(float), 7 * sizeof(float),
                 ROWS);
    d->zero(d, to, 3 * sizeof(float));
    d->copy_rows(d, back, half, to, half, half, 2);
    d->copy_in(d, NULL, NULL, 0);
    d->copy_out(d, NULL, NULL, 0);
    for (size_t r = 0; r < ROWS; r++)
        same_bits(narrow + r * 7, from + r * WIDTH + 5, 7);
    assert_true(to[0] == 0 && to[1] == 0 && to[2] == 0 && to[3] == from[3]);
    same_bits(back, to, ROWS * WIDTH);
    close_cpu(d);
    release();
}

static void test_embed(void **state) {
    (void)state;
    enum { B = 3, T = 5, FIRST = 4, V = 19, PLACES = FIRST + T };
    const uint32_t widths[] = { 1, 31, 32, 33, 769 };
    mt_device *d = open_cpu(2, "auto");
    for (size_t i = 0; i < COUNT(widths); i++) {
        uint32_t C = widths[i];
        float *wte = random_guarded(V * C, 1), *wpe = random_guarded(PLACES * C, 1);
        float *out = guarded(B * T * C);
        int32_t *ids = guarded(B * T);
        for (int r = 0; r < B * T; r++)
            ids[r] = r * 7 % V;
        d->embed(d, out, ids, wte, wpe, B, T, FIRST, C, V);
        for (uint32_t r = 0; r < B * T; r++)
            for (uint32_t c = 0; c < C; c++)
                close_to(out[r * C + c],
                         (double)wte[(uint32_t)ids[r] * C + c] + wpe[(FIRST + r % T) * C + c],
                         2e-7);
        release();
    }
    close_cpu(d);
}

/* A bad id is the failure that sync reports; what was called in between has done nothing. */
static void test_embed_bad_id(void **state) {
    (void)state;
    const int32_t bad[] = { 10, -1, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < COUNT(bad); i++) {
        mt_device *d = open_cpu(1, "auto");
        float table[10 * 4] = { 0 }, out[3 * 4] = { 0 }, x[4] = { 1, 1, 1, 1 }, y = 5;
        int32_t ids[] = { 9, 0, bad[i] }, found = 77;
        char id[16];
        mt_error err;
        d->embed(d, out, ids, table, table, 1, 3, 0, 4, 10);
        d->linear(d, &y, x, x, NULL, 1, 1, 4, MT_STORE);
        d->argmax(d, &found, x, 1, 4);
        d->zero(d, x, sizeof x);
        d->copy_out(d, out, x, sizeof x);
        assert_int_equal(d->failure.status, MT_BAD);
        assert_true(y == 5 && x[0] == 1 && out[0] == 0 && found == 77);

        assert_int_equal(d->sync(d, &err), MT_BAD);
        assert_int_equal(err.status, MT_BAD);
        snprintf(id, sizeof id, "id %d,", bad[i]);
        assert_non_null(strstr(err.text, "row 2"));
        assert_non_null(strstr(err.text, id));
        assert_non_null(strstr(err.text, "vocabulary of 10"));

        assert_int_equal(d->sync(d, &err), MT_OK);
        d->linear(d, &y, x, x, NULL, 1, 1, 4, MT_STORE);
        assert_true(y == 4);
        close_cpu(d);
    }
}

/* ---- layernorm ------------------------------------------------------------------------------- */

static void check_layernorm(const float *out, const float *x, const float *w, const float *b,
                            uint32_t C) {
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < C; i++)
        mean += x[i] / (double)C;
    for (uint32_t i = 0; i < C; i++)
        variance += (x[i] - mean) * (x[i] - mean) / C;
    for (uint32_t i = 0; i < C; i++)
        close_to(out[i], (x[i] - mean) / sqrt(variance + 1e-5) * w[i] + b[i], 1e-5);
}

static void layernorm_of(const char *isa, uint32_t C, uint32_t gap) {
    enum { R = 5 };
    mt_device *d = open_cpu(2, isa);
    size_t stride = C + gap, floats = (R - 1) * stride + C;
    float *x = random_guarded(floats, 3), *copy = guarded(floats);
    float *w = random_guarded(C, 1), *b = random_guarded(C, 1), *out = guarded(R * C);
    for (size_t i = 0; i < floats; i++)
        copy[i] = x[i] += 2;
    d->layernorm(d, out, x, stride, w, b, R, C, 1e-5f);
    for (uint32_t r = 0; r < R; r++)
        check_layernorm(out + r * C, x + r * stride, w, b, C);
    same_bits(x, copy, floats);
    if (gap == 0) {
        d->layernorm(d, x, x, stride, w, b, R, C, 1e-5f);
        same_bits(x, out, R * C);
    }
    close_cpu(d);
    release();
}

static void test_layernorm(void **state) {
    (void)state;
    const uint32_t widths[] = { 1, 2, 3, 15, 16, 17, 31, 32, 33, 767, 768, 769, 1024 };
    for (size_t i = 0; i < isa_count; i++)
        for (size_t j = 0; j < COUNT(widths); j++) {
            layernorm_of(isas[i], widths[j], 0);
            layernorm_of(isas[i], widths[j], 11);
        }
}

static void test_layernorm_threads(void **state) {
    (void)state;
    enum { R = 200, C = 769 };
    float *x = random_guarded(R * C, 1), *w = random_guarded(C, 1), *b = random_guarded(C, 1);
    float *one = guarded(R * C), *other = guarded(R * C);
    for (size_t i = 0; i < isa_count; i++)
        for (int threads = 1; threads <= 3; threads++) {
            mt_device *d = open_cpu(threads, isas[i]);
            d->layernorm(d, threads == 1 ? one : other, x, C, w, b, R, C, 1e-5f);
            if (threads > 1)
                same_bits(other, one, R * C);
            close_cpu(d);
        }
    release();
}

/* ---- linear ---------------------------------------------------------------------------------- */

/* One product: its inputs, the exact results and the size of each sum. */
typedef struct product {
    uint32_t R, N, K;
    float *x, *W, *b, *old;
    double *exact, *size;
} product;

static product new_product(uint32_t R, uint32_t N, uint32_t K) {
    product p = { .R = R, .N = N, .K = K };
    p.x = random_guarded(R * K, 1);
    p.W = random_guarded(N * K, 1);
    p.b = random_guarded(N, 1);
    p.old = random_guarded(R * N, 1);
    p.exact = calloc(2 * R * N, sizeof(double));
    assert_non_null(p.exact);
    p.size = p.exact + R * N;
    for (uint32_t r = 0; r < R; r++)
        for (uint32_t n = 0; n < N; n++)
            for (uint32_t k = 0; k < K; k++) {
                double term = (double)p.x[r * K + k] * p.W[n * K + k];
                p.exact[r * N + n] += term;
                p.size[r * N + n] += fabs(term);
            }
    return p;
}

static void run_product(mt_device *d, const product *p, float *out, bool bias, mt_epilogue e) {
    if (e == MT_ADD)
        memcpy(out, p->old, p->R * p->N * sizeof(float));
    d->linear(d, out, p->x, p->W, bias ? p->b : NULL, p->R, p->N, p->K, e);
}

static void check_product(mt_device *d, const product *p, bool bias, mt_epilogue e) {
    float *out = guarded(p->R * p->N);
    run_product(d, p, out, bias, e);
    for (uint32_t i = 0; i < p->R * p->N; i++) {
        double b = bias ? p->b[i % p->N] : 0, old = e == MT_ADD ? p->old[i] : 0;
        double y = old + p->exact[i] + b;
        close_to(out[i], e == MT_GELU ? gelu(y) : y, 5e-7 * (p->size[i] + fabs(b) + fabs(old)));
    }
}

static void linear_of(uint32_t R, uint32_t N, uint32_t K) {
    product p = new_product(R, N, K);
    for (size_t i = 0; i < isa_count; i++) {
        mt_device *d = open_cpu(2, isas[i]);
        for (int e = MT_STORE; e <= MT_ADD; e++) {
            check_product(d, &p, true, e);
            check_product(d, &p, false, e);
        }
        close_cpu(d);
    }
    free(p.exact);
    release();
}

static void test_linear(void **state) {
    (void)state;
    const uint32_t rows[] = { 1, 2, 3, 5, 7, 8, 15, 16, 17 };
    const uint32_t outputs[] = { 1, 31, 32, 33 };
    const uint32_t widths[] = { 1, 15, 16, 31, 32, 33, 63, 64, 65, 767, 768, 769, 1024 };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t j = 0; j < COUNT(outputs); j++)
            for (size_t k = 0; k < COUNT(widths); k++)
                linear_of(rows[i], outputs[j], widths[k]);
    linear_of(1, 769, 767);
    linear_of(6, 769, 1024);
    linear_of(20, 767, 769);
}

/* Rows together, in groups and alone; a part of the outputs; 1, 2 and 3 threads: the same bits. */
static void same_product(const char *isa, uint32_t N, uint32_t K) {
    enum { R = 16 };
    float *x = random_guarded(R * K, 1), *W = random_guarded(N * K, 1), *b = random_guarded(N, 1);
    float *all = guarded(R * N), *part = guarded(R * N);
    mt_device *d = open_cpu(1, isa);
    d->linear(d, all, x, W, b, R, N, K, MT_GELU);
    for (uint32_t group = 1; group < R; group++)
        for (uint32_t r = 0; r + group <= R; r++) {
            d->linear(d, part, x + r * K, W, b, group, N, K, MT_GELU);
            same_bits(part, all + r * N, group * N);
        }
    for (uint32_t n = 1; n < 20; n++) {
        d->linear(d, part, x, W + n * K, b + n, 1, N - n, K, MT_GELU);
        same_bits(part, all + n, N - n);
    }
    close_cpu(d);
    for (int threads = 2; threads <= 3; threads++) {
        d = open_cpu(threads, isa);
        d->linear(d, part, x, W, b, R, N, K, MT_GELU);
        same_bits(part, all, R * N);
        d->linear(d, part, x, W, b, 1, N, K, MT_GELU);
        same_bits(part, all, N);
        close_cpu(d);
    }
    release();
}

static void test_linear_same_bits(void **state) {
    (void)state;
    const uint32_t widths[] = { 1, 33, 768, 769 };
    for (size_t i = 0; i < isa_count; i++)
        for (size_t k = 0; k < COUNT(widths); k++)
            same_product(isas[i], 257, widths[k]);
}

/* Many rows go through BLAS in blocks that are the same for any number of threads. */
static void test_many_rows_same_bits(void **state) {
    (void)state;
    const uint32_t N = 769, K = 96, R = 600;
    float *x = random_guarded(R * K, 1), *W = random_guarded(N * K, 1);
    float *one = guarded(R * N), *other = guarded(R * N);
    for (int threads = 1; threads <= 3; threads++) {
        mt_device *d = open_cpu(threads, isas[0]);
        d->linear(d, threads == 1 ? one : other, x, W, NULL, R, N, K, MT_STORE);
        if (threads > 1)
            same_bits(other, one, R * N);
        close_cpu(d);
    }
    release();
}

/* Rows by our own product against the same rows among more, which BLAS computes. */
static void test_linear_against_blas(void **state) {
    (void)state;
    const uint32_t N = 769, K = 3072, OWN = 8, R = 40;
    float *x = random_guarded(R * K, 1), *W = random_guarded(N * K, 0.1f);
    float *own = guarded(OWN * N), *blas = guarded(R * N);
    for (size_t i = 0; i < isa_count; i++) {
        double largest = 0, size = 0;
        mt_device *d = open_cpu(2, isas[i]);
        d->linear(d, own, x, W, NULL, OWN, N, K, MT_STORE);
        d->linear(d, blas, x, W, NULL, R, N, K, MT_STORE);
        for (uint32_t j = 0; j < OWN * N; j++) {
            close_to(own[j], blas[j], 2e-5);
            largest = fmax(largest, fabs((double)own[j] - blas[j]));
            size = fmax(size, fabs((double)own[j]));
        }
        print_message("%s against BLAS, K = %u: largest difference %.3g, largest value %.3g\n",
                      isas[i], K, largest, size);
        close_cpu(d);
    }
    release();
}

/* ---- gelu ------------------------------------------------------------------------------------ */

/* gelu of x[n], as the product of W = x by 1. */
static void gelu_of(mt_device *d, float *out, const float *x, uint32_t n) {
    const float one = 1;
    d->linear(d, out, &one, x, NULL, 1, n, 1, MT_GELU);
}

static void test_gelu(void **state) {
    (void)state;
    enum { N = 60001 };
    float *x = guarded(N), *y = guarded(N);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) * 0.0005f;
    for (size_t i = 0; i < isa_count; i++) {
        double worst = 0;
        mt_device *d = open_cpu(2, isas[i]);
        gelu_of(d, y, x, N);
        for (int j = 0; j < N; j++) {
            double expected = gelu(x[j]), ulp = ldexp(1, ilogb(fabs(expected) + 1e-9) - 23);
            close_to(y[j], expected, 2.5e-7 * fabs(x[j]));
            if (x[j] >= -1)
                worst = fmax(worst, fabs(y[j] - expected) / ulp);
        }
        print_message("%s gelu: largest error %.2f ulp where x >= -1\n", isas[i], worst);
        assert_true(worst <= 4);
        close_cpu(d);
    }
    release();
}

static void test_gelu_extremes(void **state) {
    (void)state;
    const float x[] = { 0, -0.0f, 1e-40f, -1e-40f, 1e-20f, 20, 1e10f, 3e38f, INFINITY };
    const float far[] = { -20, -1e10f, -3e38f };
    for (size_t i = 0; i < isa_count; i++) {
        float y[COUNT(x)], z[COUNT(far)], nan = NAN;
        mt_device *d = open_cpu(1, isas[i]);
        gelu_of(d, y, x, COUNT(x));
        gelu_of(d, z, far, COUNT(far));
        gelu_of(d, &nan, &nan, 1);
        for (size_t j = 0; j < COUNT(x); j++)
            assert_true(y[j] == (x[j] < 1 ? x[j] / 2 : x[j]));
        for (size_t j = 0; j < COUNT(far); j++)
            assert_true(z[j] == 0);
        assert_true(isnan(nan));
        close_cpu(d);
    }
}

/* ---- the cache ------------------------------------------------------------------------------- */

static mt_kv_view new_contiguous(uint32_t B, uint32_t places, uint32_t C) {
    size_t sequence = (size_t)places * C;
    return (mt_kv_view){
        .k = guarded(B * sequence), .v = guarded(B * sequence), .sequence = sequence, .row = C
    };
}

static mt_kv_view new_paged(uint32_t B, uint32_t places, uint32_t C, uint32_t page_tokens) {
    uint32_t per = (places + page_tokens - 1) / page_tokens;
    float **pages = guarded(B * per * sizeof(float *) / sizeof(float));
    for (uint32_t i = B * per; i-- > 0;)
        pages[i] = guarded((size_t)2 * page_tokens * C);
    return (mt_kv_view){ .pages = (float *const *)pages,
                         .page_tokens = page_tokens,
                         .pages_per_sequence = per };
}

static const float *key(const mt_kv_view *kv, uint32_t b, uint32_t j, uint32_t C) {
    if (kv->pages == NULL)
        return kv->k + b * kv->sequence + j * kv->row;
    return kv->pages[b * kv->pages_per_sequence + j / kv->page_tokens] + j % kv->page_tokens * C;
}

static const float *value(const mt_kv_view *kv, uint32_t b, uint32_t j, uint32_t C) {
    return kv->pages ? key(kv, b, j, C) + kv->page_tokens * C
                     : kv->v + b * kv->sequence + j * kv->row;
}

static void kv_write_of(mt_kv_view kv, uint32_t B, uint32_t places, uint32_t C) {
    float *qkv = random_guarded(B * places * 3 * C, 1), *tail = guarded(B * 3 * C);
    mt_device *d = open_cpu(2, "auto");
    d->kv_write(d, &kv, qkv, B, places, 0, C);
    for (uint32_t r = 0; r < B * places; r++) {
        same_bits(key(&kv, r / places, r % places, C), qkv + (r * 3 + 1) * C, C);
        same_bits(value(&kv, r / places, r % places, C), qkv + (r * 3 + 2) * C, C);
    }
    randomize(tail, B * 3 * C, 1);
    d->kv_write(d, &kv, tail, B, 1, places - 1, C);
    for (uint32_t b = 0; b < B; b++) {
        same_bits(key(&kv, b, places - 1, C), tail + (b * 3 + 1) * C, C);
        same_bits(value(&kv, b, places - 1, C), tail + (b * 3 + 2) * C, C);
        same_bits(key(&kv, b, places - 2, C), qkv + ((b * places + places - 2) * 3 + 1) * C, C);
    }
    close_cpu(d);
    release();
}

static void test_kv_write(void **state) {
    (void)state;
    kv_write_of(new_contiguous(3, 21, 33), 3, 21, 33);
    kv_write_of(new_contiguous(2, 70, 769), 2, 70, 769);
    kv_write_of(new_paged(3, 21, 33, 1), 3, 21, 33);
    kv_write_of(new_paged(2, 70, 769, 16), 2, 70, 769);
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct shape {
    uint32_t B, T, first, H, D;
} shape;

/* qkv[B, T, 3C] and a cache, contiguous, of first + T places whose last T are qkv's. */
typedef struct scene {
    shape s;
    uint32_t C, places;
    float *qkv;
    mt_kv_view kv;
} scene;

static scene new_scene(shape s, float query_scale) {
    scene a = { .s = s, .C = s.H * s.D, .places = s.first + s.T };
    a.qkv = random_guarded(s.B * s.T * 3 * a.C, 1);
    for (uint32_t r = 0; r < s.B * s.T; r++)
        randomize(a.qkv + r * 3 * a.C, a.C, query_scale);
    a.kv = new_contiguous(s.B, a.places, a.C);
    randomize(a.kv.k, s.B * a.places * a.C, 1);
    randomize(a.kv.v, s.B * a.places * a.C, 1);
    mt_device *d = open_cpu(1, "auto");
    d->kv_write(d, &a.kv, a.qkv, s.B, s.T, s.first, a.C);
    close_cpu(d);
    return a;
}

static mt_kv_view paged_copy(const scene *a, uint32_t page_tokens) {
    mt_kv_view kv = new_paged(a->s.B, a->places, a->C, page_tokens);
    for (uint32_t b = 0; b < a->s.B; b++)
        for (uint32_t j = 0; j < a->places; j++) {
            memcpy((float *)key(&kv, b, j, a->C), key(&a->kv, b, j, a->C), a->C * sizeof(float));
            memcpy((float *)value(&kv, b, j, a->C), value(&a->kv, b, j, a->C),
                   a->C * sizeof(float));
        }
    return kv;
}

static float *attend(const scene *a, const mt_kv_view *kv, int threads, const char *isa) {
    shape s = a->s;
    size_t scratch = mt_attention_scratch(s.B, s.T, s.first, s.H, s.D) / sizeof(float);
    float *out = guarded(s.B * s.T * a->C);
    mt_device *d = open_cpu(threads, isa);
    d->attention(d, out, a->qkv, kv, s.B, s.T, s.first, s.H, s.D,
                 scratch > 0 ? guarded(scratch) : NULL);
    close_cpu(d);
    return out;
}

/* One query and head in double precision: weighted[D], and the largest |score|. */
static double plain_attention(const scene *a, uint32_t b, uint32_t t, uint32_t h,
                              double *weighted) {
    uint32_t D = a->s.D, seen = a->s.first + t + 1;
    const float *q = a->qkv + (b * a->s.T + t) * 3 * a->C + h * D;
    double *score = calloc(seen, sizeof *score), top = -INFINITY, size = 0, sum = 0;
    assert_non_null(score);
    for (uint32_t j = 0; j < seen; j++) {
        for (uint32_t i = 0; i < D; i++)
            score[j] += (double)q[i] * key(&a->kv, b, j, a->C)[h * D + i] / sqrt(D);
        top = fmax(top, score[j]);
        size = fmax(size, fabs(score[j]));
    }
    memset(weighted, 0, D * sizeof *weighted);
    for (uint32_t j = 0; j < seen; j++) {
        double p = exp(score[j] - top);
        sum += p;
        for (uint32_t i = 0; i < D; i++)
            weighted[i] += p * value(&a->kv, b, j, a->C)[h * D + i];
    }
    for (uint32_t i = 0; i < D; i++)
        weighted[i] /= sum;
    free(score);
    return size;
}

static void check_attention(const scene *a, const float *out) {
    shape s = a->s;
    double *expected = calloc(s.D, sizeof *expected);
    assert_non_null(expected);
    for (uint32_t r = 0; r < s.B * s.T; r++)
        for (uint32_t h = 0; h < s.H; h++) {
            double size = plain_attention(a, r / s.T, r % s.T, h, expected);
            for (uint32_t i = 0; i < s.D; i++)
                close_to(out[r * a->C + h * s.D + i], expected[i], 1e-6 + 5e-7 * size);
        }
    free(expected);
}

static void test_attention(void **state) {
    (void)state;
    const shape shapes[] = { { 1, 1, 0, 1, 1 },    { 2, 1, 0, 3, 16 },   { 1, 33, 0, 2, 48 },
                             { 2, 5, 31, 2, 64 },  { 1, 1, 32, 3, 80 },  { 3, 2, 63, 1, 1 },
                             { 1, 70, 0, 1, 100 }, { 2, 1, 300, 5, 33 }, { 1, 17, 15, 2, 7 },
                             { 1, 1, 255, 25, 64 } };
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t j = 0; j < isa_count; j++) {
            scene a = new_scene(shapes[i], 3);
            check_attention(&a, attend(&a, &a.kv, 2, isas[j]));
            release();
        }
}

/* Scores of +-1e4: exp of any of them alone would overflow or vanish. */
static void test_attention_large_scores(void **state) {
    (void)state;
    for (size_t j = 0; j < isa_count; j++) {
        scene a = new_scene((shape){ 1, 70, 20, 2, 64 }, 1e4f);
        check_attention(&a, attend(&a, &a.kv, 2, isas[j]));
        release();
        a = new_scene((shape){ 1, 50, 0, 1, 16 }, 0); /* every score 0: the mean of the values */
        check_attention(&a, attend(&a, &a.kv, 2, isas[j]));
        release();
    }
}

/* A place whose weight vanishes adds nothing, however large its value; one that is seen and NaN
 * spoils its own head only. */
static void test_attention_vanishing(void **state) {
    (void)state;
    for (size_t i = 0; i < isa_count; i++) {
        enum { D = 16, C = 2 * D, PLACES = 40 };
        float qkv[3 * C] = { 0 }, k[PLACES * C] = { 0 }, v[PLACES * C] = { 0 }, out[C];
        mt_kv_view kv = { .k = k, .v = v, .row = C };
        mt_device *d = open_cpu(1, isas[i]);
        for (int c = 0; c < D; c++) {
            qkv[c] = 100;
            k[7 * C + c] = -100;
            v[7 * C + c] = 3e38f;
            k[3 * C + D + c] = NAN;
        }
        d->attention(d, out, qkv, &kv, 1, 1, PLACES - 1, 2, D, NULL);
        for (int c = 0; c < D; c++)
            assert_true(out[c] == 0 && isnan(out[D + c]));
        close_cpu(d);
    }
}

/* Pages of any size give the bits of the contiguous cache. */
static void test_attention_layouts(void **state) {
    (void)state;
    const shape shapes[] = { { 2, 9, 60, 2, 64 }, { 2, 1, 66, 3, 33 } };
    const uint32_t pages[] = { 7, 16, 32, 100 };
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t j = 0; j < isa_count; j++)
            for (size_t k = 0; k < COUNT(pages); k++) {
                scene a = new_scene(shapes[i], 3);
                mt_kv_view paged = paged_copy(&a, pages[k]);
                same_bits(attend(&a, &paged, 2, isas[j]), attend(&a, &a.kv, 2, isas[j]),
                          a.s.B * a.s.T * a.C);
                release();
            }
}

/* So does a view of the keys and values where they lie in qkv. */
static void test_attention_inside_qkv(void **state) {
    (void)state;
    for (size_t j = 0; j < isa_count; j++) {
        scene a = new_scene((shape){ 2, 45, 0, 2, 64 }, 3);
        mt_kv_view inside = { .k = a.qkv + a.C,
                              .v = a.qkv + 2 * a.C,
                              .sequence = (size_t)a.s.T * 3 * a.C,
                              .row = 3 * a.C };
        same_bits(attend(&a, &inside, 2, isas[j]), attend(&a, &a.kv, 2, isas[j]),
                  a.s.B * a.s.T * a.C);
        release();
    }
}

/* The query at place t alone gives the bits of row t among all. */
static void attention_alone(const char *isa, uint32_t H, uint32_t D) {
    scene a = new_scene((shape){ 1, 100, 0, H, D }, 3);
    const float *all = attend(&a, &a.kv, 2, isa);
    mt_device *d = open_cpu(2, isa);
    float *out = guarded(a.C);
    for (uint32_t t = 0; t < a.s.T; t++) {
        float *scratch = malloc(mt_attention_scratch(1, 1, t, H, D));
        d->attention(d, out, a.qkv + t * 3 * a.C, &a.kv, 1, 1, t, H, D, scratch);
        same_bits(out, all + t * a.C, a.C);
        free(scratch);
    }
    close_cpu(d);
    release();
}

static void test_attention_same_bits(void **state) {
    (void)state;
    for (size_t j = 0; j < isa_count; j++) {
        attention_alone(isas[j], 12, 64);
        attention_alone(isas[j], 3, 33);
        scene a = new_scene((shape){ 2, 40, 100, 5, 64 }, 3);
        const float *one = attend(&a, &a.kv, 1, isas[j]);
        same_bits(attend(&a, &a.kv, 2, isas[j]), one, a.s.B * a.s.T * a.C);
        same_bits(attend(&a, &a.kv, 3, isas[j]), one, a.s.B * a.s.T * a.C);
        release();
        a = new_scene((shape){ 1, 1, 500, 7, 64 }, 3);
        one = attend(&a, &a.kv, 1, isas[j]);
        same_bits(attend(&a, &a.kv, 2, isas[j]), one, a.C);
        same_bits(attend(&a, &a.kv, 3, isas[j]), one, a.C);
        release();
    }
}

/* ---- argmax ---------------------------------------------------------------------------------- */

static void argmax_of(mt_device *d, uint32_t V) {
    float *x = random_guarded(3 * V, 1);
    int32_t *ids = guarded(3);
    uint32_t at = (uint32_t)((random_float() + 1) / 2 * (V - 1));
    x[at] = x[V - 1] = 2;      /* row 0: a tie */
    x[V] = x[2 * V - 1] = NAN; /* row 1: NaN at both ends */
    for (uint32_t i = 0; i < V; i++)
        x[2 * V + i] = -INFINITY; /* row 2: nothing but -infinity */
    d->argmax(d, ids, x, 3, V);
    int32_t expected = V < 3 ? 0 : 1;
    for (uint32_t i = 1; i + 1 < V; i++)
        if (x[V + i] > x[V + (uint32_t)expected])
            expected = (int32_t)i;
    assert_int_equal(ids[0], (int32_t)at);
    assert_int_equal(ids[1], expected);
    assert_int_equal(ids[2], 0);
    release();
}

static void test_argmax(void **state) {
    (void)state;
    const uint32_t sizes[] = { 1, 2, 3, 15, 16, 17, 31, 32, 33, 767, 50257 };
    for (size_t i = 0; i < isa_count; i++) {
        mt_device *d = open_cpu(3, isas[i]);
        for (size_t j = 0; j < COUNT(sizes); j++)
            argmax_of(d, sizes[j]);
        const float mixed[] = { NAN, -INFINITY, NAN, -INFINITY }, zeros[] = { -1, -0.0f, 0, -1 };
        int32_t id = -1;
        d->argmax(d, &id, mixed, 1, 4);
        assert_int_equal(id, 1);
        d->argmax(d, &id, zeros, 1, 4);
        assert_int_equal(id, 1);
        const float near[] = { 1, nextafterf(1, 2), nextafterf(1, 2), 1 };
        d->argmax(d, &id, near, 1, 4);
        assert_int_equal(id, 1);
        close_cpu(d);
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static void test_open(void **state) {
    (void)state;
    mt_device *d = NULL;
    mt_error err;
    assert_int_equal(mt_device_cpu_with(&d, 1, "sse9", &err), MT_BAD);
    assert_non_null(strstr(err.text, "sse9"));
    assert_int_equal(mt_device_cpu(&d, -1, &err), MT_BAD);
    assert_non_null(strstr(err.text, "-1"));
    assert_null(d);
    assert_int_equal(mt_device_cpu(&d, 0, &err), MT_OK);
    assert_string_equal(d->name, "cpu");
    assert_true(d->computes);
    assert_non_null(strstr(d->description, "OpenBLAS 0."));
    print_message("%s\n", d->description);
    close_cpu(d);
}

/* A dry run touches no device memory, so NULL will do for all of it; copy_out reads as zeros. */
static void test_none(void **state) {
    (void)state;
    mt_device *d = NULL;
    mt_error err;
    mt_kv_view kv = { 0 };
    assert_int_equal(mt_device_none(&d, &err), MT_OK);
    assert_string_equal(d->name, "none");
    assert_false(d->computes);
    float host[3] = { 1, 2, 3 };
    int32_t ids[1] = { 5 };
    d->copy_in(d, NULL, host, sizeof host);
    d->copy_rows(d, NULL, 8, NULL, 8, 8, 8);
    d->zero(d, NULL, 8);
    d->embed(d, NULL, ids, NULL, NULL, 1, 1, 0, 8, 4);
    d->layernorm(d, NULL, NULL, 8, NULL, NULL, 1, 8, 1e-5f);
    d->linear(d, NULL, NULL, NULL, NULL, 1, 8, 8, MT_GELU);
    d->kv_write(d, &kv, NULL, 1, 1, 0, 8);
    d->attention(d, NULL, NULL, &kv, 1, 1, 0, 1, 8, NULL);
    d->argmax(d, NULL, NULL, 1, 8);
    assert_true(host[0] == 1 && host[2] == 3);
    d->copy_out(d, host, NULL, sizeof host);
    assert_true(host[0] == 0 && host[1] == 0 && host[2] == 0);
    assert_int_equal(d->sync(d, &err), MT_OK);
    d->close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_embed_bad_id),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_layernorm_threads),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_same_bits),
        cmocka_unit_test(test_many_rows_same_bits),
        cmocka_unit_test(test_linear_against_blas),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_gelu_extremes),
        cmocka_unit_test(test_kv_write),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_large_scores),
        cmocka_unit_test(test_attention_vanishing),
        cmocka_unit_test(test_attention_layouts),
        cmocka_unit_test(test_attention_inside_qkv),
        cmocka_unit_test(test_attention_same_bits),
        cmocka_unit_test(test_argmax),
    };
    find_isas();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
