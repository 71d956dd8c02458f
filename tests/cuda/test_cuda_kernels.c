/* test_cuda_kernels.c - every kernel of the CUDA back end against its twin of the cpu back end.
 *
 * The kernels run on the emulated device: memory between guard pages, new memory full of NaN,
 * threads that must meet at the same barriers. Each is tried with blocks of several sizes, at
 * widths beside the powers of two. A difference passes only when it is at most 1e-4 + 1e-4
 * |reference|. */
#include "tests/cuda/rig.h"

static const uint32_t sizes[] = { 1, 31, 32, 33, 767, 768, 769, 1024 };
static const uint32_t blocks[] = { 0, 32, 96, 1024 };
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- two devices and what lies in their memory ----------------------------------------------- */

typedef struct pair {
    mt_cuda_backend cuda;
    mt_device *cpu;
    mt_error err;
    uint32_t seed;
} pair;

/* An array in both memories. */
typedef struct twin {
    float *host; /* the cpu's */
    float *dev;
    size_t n;
} twin;

static void open_pair(pair *p, uint32_t block) {
    *p = (pair){ .seed = 1 };
    mt_cuda_options o = { .block = block };
    must(mt_cuda_open(&p->cuda, &o, &p->err), &p->err);
    must(mt_device_cpu(&p->cpu, 1, &p->err), &p->err);
}

static void close_pair(pair *p) {
    p->cpu->close(p->cpu);
    p->cuda.source->close(p->cuda.source);
    p->cuda.device->close(p->cuda.device);
}

static void done(pair *p) {
    must(p->cuda.device->sync(p->cuda.device, &p->err), &p->err);
    must(p->cpu->sync(p->cpu, &p->err), &p->err);
}

/* Numbers in [-1, 1). */
static float next_number(pair *p) {
    p->seed = p->seed * 1664525u + 1013904223u;
    return (float)(p->seed >> 8) / 8388608.0f - 1.0f;
}

static twin new_twin(pair *p, size_t n) {
    twin t = { malloc(n * sizeof(float)), NULL, n };
    assert_non_null(t.host);
    for (size_t i = 0; i < n; i++)
        t.host[i] = next_number(p);
    must(p->cuda.source->take(p->cuda.source, n * sizeof(float), (void **)&t.dev, &p->err),
         &p->err);
    p->cuda.device->copy_in(p->cuda.device, t.dev, t.host, n * sizeof(float));
    return t;
}

static void drop(pair *p, twin *t) {
    p->cuda.source->give(p->cuda.source, t->dev, t->n * sizeof(float));
    free(t->host);
}

static void same(pair *p, const twin *t, const char *what, uint32_t a, uint32_t b) {
    float *got = malloc(t->n * sizeof *got);
    assert_non_null(got);
    p->cuda.device->copy_out(p->cuda.device, got, t->dev, t->n * sizeof *got);
    done(p);
    for (size_t i = 0; i < t->n; i++)
        if (!(fabsf(got[i] - t->host[i]) <= 1e-4f + 1e-4f * fabsf(t->host[i])))
            fail_msg("%s (%u, %u): element %zu is %g, expected %g", what, a, b, i, got[i],
                     t->host[i]);
    free(got);
}

#define EVERY_BLOCK(p)                                                                             \
    for (size_t block_ = 0; block_ < COUNT(blocks); block_++, close_pair(p))                       \
        if (open_pair(p, blocks[block_]), true)

/* ---- embedding and its bad ids --------------------------------------------------------------- */

static int32_t *ids_on_device(pair *p, const int32_t *ids, size_t n) {
    void *dev;
    must(p->cuda.source->take(p->cuda.source, n * sizeof *ids, &dev, &p->err), &p->err);
    p->cuda.device->copy_in(p->cuda.device, dev, ids, n * sizeof *ids);
    return dev;
}

static void embed_once(pair *p, uint32_t C) {
    enum { B = 2, T = 3, FIRST = 4, V = 7 };
    const int32_t ids[B * T] = { 0, 6, 3, 3, 1, 5 };
    int32_t *dev = ids_on_device(p, ids, B * T);
    twin wte = new_twin(p, (size_t)V * C), wpe = new_twin(p, (size_t)(FIRST + T) * C);
    twin out = new_twin(p, (size_t)B * T * C);
    p->cuda.device->embed(p->cuda.device, out.dev, dev, wte.dev, wpe.dev, B, T, FIRST, C, V);
    p->cpu->embed(p->cpu, out.host, ids, wte.host, wpe.host, B, T, FIRST, C, V);
    same(p, &out, "embed", C, 0);
    p->cuda.source->give(p->cuda.source, dev, sizeof ids);
    drop(p, &wte), drop(p, &wpe), drop(p, &out);
}

static void embed_adds_token_and_place(void **state) {
    (void)state;
    pair p;
    EVERY_BLOCK(&p) for (size_t i = 0; i < COUNT(sizes); i++) embed_once(&p, sizes[i]);
}

static void embed_reports_the_first_bad_id(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 0);
    const int32_t ids[5] = { 0, 6, 7, -1, 2 };
    int32_t *dev = ids_on_device(&p, ids, 5);
    twin wte = new_twin(&p, 7 * 33), wpe = new_twin(&p, 5 * 33), out = new_twin(&p, 5 * 33);
    mt_device *d = p.cuda.device;
    for (int again = 0; again < 2; again++) {
        d->embed(d, out.dev, dev, wte.dev, wpe.dev, 1, 5, 0, 33, 7);
        assert_int_equal(d->sync(d, &p.err), MT_BAD);
        assert_non_null(strstr(p.err.text, "row 2"));
        assert_int_equal(d->sync(d, &p.err), MT_OK);
    }
    p.cuda.source->give(p.cuda.source, dev, sizeof ids);
    drop(&p, &wte), drop(&p, &wpe), drop(&p, &out);
    close_pair(&p);
}

/* ---- layer normalisation --------------------------------------------------------------------- */

static void layernorm_once(pair *p, uint32_t R, uint32_t C, size_t stride) {
    twin x = new_twin(p, R * stride), w = new_twin(p, C), b = new_twin(p, C);
    twin out = new_twin(p, (size_t)R * C);
    mt_device *d = p->cuda.device;
    d->layernorm(d, out.dev, x.dev, stride, w.dev, b.dev, R, C, 1e-5f);
    p->cpu->layernorm(p->cpu, out.host, x.host, stride, w.host, b.host, R, C, 1e-5f);
    same(p, &out, "layernorm", R, C);
    if (stride == C) {
        d->layernorm(d, x.dev, x.dev, stride, w.dev, b.dev, R, C, 1e-5f);
        p->cpu->layernorm(p->cpu, x.host, x.host, stride, w.host, b.host, R, C, 1e-5f);
        same(p, &x, "layernorm in place", R, C);
    }
    drop(p, &x), drop(p, &w), drop(p, &b), drop(p, &out);
}

static void layernorm_by_rows(void **state) {
    (void)state;
    pair p;
    EVERY_BLOCK(&p) for (size_t i = 0; i < COUNT(sizes); i++) {
        layernorm_once(&p, 1, sizes[i], sizes[i]);
        layernorm_once(&p, 3, sizes[i], sizes[i]);
        layernorm_once(&p, 33, sizes[i] < 40 ? sizes[i] : 40, 51);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

static void linear_once(pair *p, uint32_t R, uint32_t N, uint32_t K, bool bias, mt_epilogue e) {
    twin x = new_twin(p, (size_t)R * K), W = new_twin(p, (size_t)N * K), b = new_twin(p, N);
    twin out = new_twin(p, (size_t)R * N);
    mt_device *d = p->cuda.device;
    d->linear(d, out.dev, x.dev, W.dev, bias ? b.dev : NULL, R, N, K, e);
    p->cpu->linear(p->cpu, out.host, x.host, W.host, bias ? b.host : NULL, R, N, K, e);
    same(p, &out, bias ? "linear with bias" : "linear", N, K);
    drop(p, &x), drop(p, &W), drop(p, &b), drop(p, &out);
}

static void linear_and_what_follows_it(void **state) {
    (void)state;
    pair p;
    EVERY_BLOCK(&p)
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int e = MT_STORE; e <= MT_ADD; e++) {
            linear_once(&p, 1, sizes[i], 33, true, (mt_epilogue)e);
            linear_once(&p, 3, 33, sizes[i], e != MT_GELU, (mt_epilogue)e);
            linear_once(&p, 33, sizes[i], 31, false, (mt_epilogue)e);
        }
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* A cache in both memories, contiguous or in pages that stand in no order. */
typedef struct cache {
    twin k, v, pages;
    float **host_table;
    void *dev_table;
    size_t table_bytes;
    mt_kv_view host, dev;
} cache;

enum { PAGE = 16 };

static void page_table(pair *p, cache *c, uint32_t B, uint32_t pages, uint32_t C) {
    size_t count = (size_t)B * pages;
    float **dev = malloc(count * sizeof *dev);
    c->pages = new_twin(p, count * 2 * PAGE * C);
    c->table_bytes = count * sizeof *dev;
    c->host_table = malloc(c->table_bytes);
    assert_true(dev != NULL && c->host_table != NULL);
    for (size_t i = 0; i < count; i++) { /* last page first */
        c->host_table[i] = c->pages.host + (count - 1 - i) * 2 * PAGE * C;
        dev[i] = c->pages.dev + (count - 1 - i) * 2 * PAGE * C;
    }
    must(p->cuda.source->take(p->cuda.source, c->table_bytes, &c->dev_table, &p->err), &p->err);
    p->cuda.device->copy_in(p->cuda.device, c->dev_table, dev, c->table_bytes);
    c->host =
        (mt_kv_view){ .pages = c->host_table, .page_tokens = PAGE, .pages_per_sequence = pages };
    c->dev = c->host;
    c->dev.pages = c->dev_table;
    free(dev);
}

static cache new_cache(pair *p, uint32_t B, uint32_t places, uint32_t C, bool paged) {
    cache c = { 0 };
    if (paged) {
        page_table(p, &c, B, (places + PAGE - 1) / PAGE, C);
        return c;
    }
    c.k = new_twin(p, (size_t)B * places * C);
    c.v = new_twin(p, (size_t)B * places * C);
    c.host = (mt_kv_view){ .k = c.k.host, .v = c.v.host, .sequence = (size_t)places * C, .row = C };
    c.dev = c.host;
    c.dev.k = c.k.dev;
    c.dev.v = c.v.dev;
    return c;
}

static void drop_cache(pair *p, cache *c) {
    if (c->dev_table == NULL) {
        drop(p, &c->k), drop(p, &c->v);
        return;
    }
    p->cuda.source->give(p->cuda.source, c->dev_table, c->table_bytes);
    drop(p, &c->pages);
    free(c->host_table);
}

typedef struct attended {
    uint32_t B, T, first, H, D;
    bool paged;
} attended;

/* Writes the new rows, then attends. */
static void attention_once(pair *p, attended a) {
    uint32_t C = a.H * a.D, R = a.B * a.T;
    size_t scratch_bytes = mt_attention_scratch(a.B, a.T, a.first, a.H, a.D);
    twin qkv = new_twin(p, (size_t)R * 3 * C), out = new_twin(p, (size_t)R * C);
    twin scratch = new_twin(p, scratch_bytes / sizeof(float) + 1);
    cache c = new_cache(p, a.B, a.first + a.T, C, a.paged);
    mt_device *d = p->cuda.device;
    d->kv_write(d, &c.dev, qkv.dev, a.B, a.T, a.first, C);
    p->cpu->kv_write(p->cpu, &c.host, qkv.host, a.B, a.T, a.first, C);
    d->attention(d, out.dev, qkv.dev, &c.dev, a.B, a.T, a.first, a.H, a.D, scratch.dev);
    p->cpu->attention(p->cpu, out.host, qkv.host, &c.host, a.B, a.T, a.first, a.H, a.D, NULL);
    same(p, &out, "attention", a.first, a.D);
    if (a.paged) {
        same(p, &c.pages, "pages", a.first, C);
    } else {
        same(p, &c.k, "keys", a.first, C);
        same(p, &c.v, "values", a.first, C);
    }
    drop_cache(p, &c);
    drop(p, &qkv), drop(p, &out), drop(p, &scratch);
}

static void attention_of_one_query(void **state) {
    (void)state;
    static const uint32_t firsts[] = { 0, 1, 31, 255, 256, 600 };
    pair p;
    EVERY_BLOCK(&p) {
        for (size_t i = 0; i < COUNT(firsts); i++)
            for (int paged = 0; paged < 2; paged++)
                attention_once(&p, (attended){ 2, 1, firsts[i], 3, 17, paged });
        for (size_t i = 0; i < COUNT(sizes); i++)
            attention_once(&p, (attended){ 1, 1, 40, 1, sizes[i], i % 2 });
    }
}

static void attention_of_a_prompt(void **state) {
    (void)state;
    pair p;
    EVERY_BLOCK(&p) {
        for (uint32_t T = 2; T < 70; T += 31)
            for (int paged = 0; paged < 2; paged++)
                attention_once(&p, (attended){ 2, T, paged * 5, 2, 33, paged });
        for (size_t i = 0; i < COUNT(sizes); i++)
            attention_once(&p, (attended){ 1, 3, 2, 1, sizes[i], i % 2 });
    }
}

/* Keys and values where the pass's own projection left them, as without a cache. */
static void attention_without_a_cache(void **state) {
    (void)state;
    enum { B = 2, T = 9, H = 2, D = 31, C = H * D };
    pair p;
    EVERY_BLOCK(&p) {
        twin qkv = new_twin(&p, B * T * 3 * C), out = new_twin(&p, B * T * C);
        mt_kv_view host = {
            .k = qkv.host + C, .v = qkv.host + 2 * C, .sequence = (size_t)T * 3 * C, .row = 3 * C
        };
        mt_kv_view dev = host;
        dev.k = qkv.dev + C;
        dev.v = qkv.dev + 2 * C;
        p.cuda.device->attention(p.cuda.device, out.dev, qkv.dev, &dev, B, T, 0, H, D, NULL);
        p.cpu->attention(p.cpu, out.host, qkv.host, &host, B, T, 0, H, D, NULL);
        same(&p, &out, "attention without a cache", T, D);
        drop(&p, &qkv), drop(&p, &out);
    }
}

/* Scores far apart: the streamed maximum must not overflow. */
static void attention_with_large_scores(void **state) {
    (void)state;
    enum { PLACES = 700, D = 32 };
    pair p;
    EVERY_BLOCK(&p) {
        twin qkv = new_twin(&p, 3 * D), out = new_twin(&p, D), scratch = new_twin(&p, 3 * (D + 2));
        cache c = new_cache(&p, 1, PLACES, D, false);
        for (size_t i = 0; i < c.k.n; i++)
            c.k.host[i] *= 100;
        mt_device *d = p.cuda.device;
        d->copy_in(d, c.k.dev, c.k.host, c.k.n * sizeof(float));
        d->attention(d, out.dev, qkv.dev, &c.dev, 1, 1, PLACES - 1, 1, D, scratch.dev);
        p.cpu->attention(p.cpu, out.host, qkv.host, &c.host, 1, 1, PLACES - 1, 1, D, NULL);
        same(&p, &out, "large scores", PLACES, D);
        drop_cache(&p, &c);
        drop(&p, &qkv), drop(&p, &out), drop(&p, &scratch);
    }
}

static void heads_that_are_too_long_are_refused(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 0);
    mt_device *d = p.cuda.device;
    mt_kv_view none = { 0 };
    d->attention(d, NULL, NULL, &none, 1, 1, 0, 1, 1025, NULL);
    assert_int_equal(d->sync(d, &p.err), MT_BAD);
    assert_non_null(strstr(p.err.text, "1025"));
    close_pair(&p);
}

/* ---- argmax ---------------------------------------------------------------------------------- */

static void argmax_once(pair *p, const twin *logits, uint32_t R, uint32_t V) {
    int32_t got[8], expected[8];
    void *dev;
    assert_true(R <= 8);
    mt_device *d = p->cuda.device;
    must(p->cuda.source->take(p->cuda.source, sizeof got, &dev, &p->err), &p->err);
    d->copy_in(d, logits->dev, logits->host, logits->n * sizeof(float));
    d->argmax(d, dev, logits->dev, R, V);
    p->cpu->argmax(p->cpu, expected, logits->host, R, V);
    d->copy_out(d, got, dev, R * sizeof *got);
    done(p);
    for (uint32_t r = 0; r < R; r++)
        assert_int_equal(got[r], expected[r]);
    p->cuda.source->give(p->cuda.source, dev, sizeof got);
}

static void argmax_finds_the_lowest_of_the_largest(void **state) {
    (void)state;
    pair p;
    EVERY_BLOCK(&p) for (size_t i = 0; i < COUNT(sizes); i++) {
        uint32_t V = sizes[i];
        twin t = new_twin(&p, 3 * (size_t)V);
        argmax_once(&p, &t, 3, V);
        for (uint32_t j = V / 2; j < V; j++)
            t.host[j] = 2; /* equal largest ones */
        for (uint32_t j = 0; j < V; j++)
            t.host[V + j] = j % 3 == 0 ? NAN : t.host[V + j];
        for (uint32_t j = 0; j < V; j++)
            t.host[2 * V + j] = j < V / 3 ? NAN : -INFINITY;
        argmax_once(&p, &t, 3, V);
        for (uint32_t j = 0; j < V; j++)
            t.host[j] = NAN;
        argmax_once(&p, &t, 1, V);
        drop(&p, &t);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void copies_by_rows(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 0);
    mt_device *d = p.cuda.device;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t n = sizes[i] * sizeof(float), wide = n + 20;
        twin from = new_twin(&p, 5 * wide / sizeof(float)), to = new_twin(&p, 5 * wide / 4);
        d->copy_rows(d, to.dev, wide, from.dev, n, n, 5);
        p.cpu->copy_rows(p.cpu, to.host, wide, from.host, n, n, 5);
        same(&p, &to, "rows further apart", sizes[i], 5);
        d->copy_rows(d, to.dev, n, from.dev, wide, n, 1);
        p.cpu->copy_rows(p.cpu, to.host, n, from.host, wide, n, 1);
        same(&p, &to, "one row", sizes[i], 1);
        d->zero(d, to.dev, n);
        p.cpu->zero(p.cpu, to.host, n);
        same(&p, &to, "zeros", sizes[i], 0);
        d->copy_rows(d, to.dev, n, from.dev, n, 0, 5);
        d->zero(d, to.dev, 0);
        same(&p, &to, "nothing", sizes[i], 0);
        drop(&p, &from), drop(&p, &to);
    }
    close_pair(&p);
}

/* Pitches beyond what a two-dimensional copy takes. */
static void copies_with_large_pitches(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 0);
    mt_device *d = p.cuda.device;
    size_t pitch = (size_t)5 << 30;
    char *range;
    must(p.cuda.source->take(p.cuda.source, pitch + 64, (void **)&range, &p.err), &p.err);
    twin small = new_twin(&p, 32);
    d->copy_rows(d, range, pitch, small.dev, 64, 64, 2);
    d->zero(d, small.dev, 128);
    d->copy_rows(d, small.dev, 64, range, pitch, 64, 2);
    same(&p, &small, "rows far apart", 2, 64);
    drop(&p, &small);
    p.cuda.source->give(p.cuda.source, range, pitch + 64);
    close_pair(&p);
}

/* Nothing to compare: the guard pages see a read beyond the end. */
static void reading_stays_inside(void **state) {
    (void)state;
    pair p;
    open_pair(&p, 32);
    mt_device *d = p.cuda.device;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        twin x = new_twin(&p, sizes[i]);
        d->read(d, x.dev, sizes[i]);
        d->nothing(d);
        p.cpu->read(p.cpu, x.host, sizes[i]);
        p.cpu->nothing(p.cpu);
        done(&p);
        drop(&p, &x);
    }
    close_pair(&p);
}

static void impossible_blocks_are_refused(void **state) {
    (void)state;
    static const uint32_t wrong[] = { 1, 33, 1056 };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        mt_cuda_backend b;
        mt_cuda_options o = { .block = wrong[i] };
        mt_error err;
        assert_int_equal(mt_cuda_open(&b, &o, &err), MT_BAD);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(embed_adds_token_and_place),
        TEST(embed_reports_the_first_bad_id),
        TEST(layernorm_by_rows),
        TEST(linear_and_what_follows_it),
        TEST(attention_of_one_query),
        TEST(attention_of_a_prompt),
        TEST(attention_without_a_cache),
        TEST(attention_with_large_scores),
        TEST(heads_that_are_too_long_are_refused),
        TEST(argmax_finds_the_lowest_of_the_largest),
        TEST(copies_by_rows),
        TEST(copies_with_large_pitches),
        TEST(reading_stays_inside),
        TEST(impossible_blocks_are_refused),
    };
    return cmocka_run_group_tests_name("cuda kernels", tests, NULL, NULL);
}
