/* test_engine.c - the whole engine: its numbers, its bytes, the order of its requests, its
 * failures.
 *
 * Numbers: small trained checkpoints with another program's intermediate tensors (our own, and one
 * in the folder MEMTRACE_SHARED, default ../shared, where it is), cached runs against runs without
 * a cache, wrong caches made on purpose. Bytes: every row of a run against formulas that are
 * written here once more. Order: the event stream itself. Failures: every request of a run refused
 * in turn. MEMTRACE_QUICK makes all of it smaller. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/size.h"
#include "engine/generate.h"
#include "engine/kv/fault.h"
#include "tests/events.h"
#include "tests/interrupts.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FEW_ROWS     16   /* a product of up to so many rows is our own; more go through BLAS */
#define RELATIVE     1e-4 /* of the largest logit: how far two right runs may be apart */

static const char *const strategies[] = { "concat",   "concat-tuple", "static",
                                          "doubling", "doubling:8",   "doubling:3",
                                          "paged:16", "paged:5",      "none" };

static bool quick(void) {
    const char *text = getenv("MEMTRACE_QUICK");
    return text != NULL && *text != '\0';
}

static void must(mt_status status, const mt_error *err) {
    if (status != MT_OK)
        fail_msg("%s", err->text);
}

/* A failure as the interface promises it: this status and one line. */
static void must_fail(mt_status status, mt_status expected, const mt_error *err) {
    assert_int_equal(status, expected);
    assert_int_equal(err->status, expected);
    assert_true(err->text[0] != '\0');
    assert_null(strchr(err->text, '\n'));
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static mt_config shape(uint32_t layers, uint32_t heads, uint32_t width, uint32_t vocab,
                       uint32_t positions) {
    return (mt_config){ .layers = layers,
                        .heads = heads,
                        .width = width,
                        .vocab = vocab,
                        .positions = positions,
                        .inner = 4 * width,
                        .epsilon = 1e-5f,
                        .tied = true,
                        .dtype = MT_F32 };
}

/* 4 layers, 4 heads of 16, 97 words. */
static mt_config small(uint32_t positions) {
    return shape(4, 4, 64, 97, positions);
}

static mt_config gpt2(void) {
    mt_config c;
    assert_true(mt_config_preset("gpt2", &c));
    return c;
}

/* ---- a device that keeps what it computes ---------------------------------------------------- */

/* Forwards each call to the device behind it and copies the result. A capture is named by its
 * kernel and the number of that kernel's call; "plain" is a product without its epilogue. */

typedef struct capture {
    char name[24];
    float *data;
    size_t count;
} capture;

typedef struct spy {
    mt_device device; /* first: what the engine sees */
    mt_device *inner;
    capture kept[64];
    size_t captures;
    uint32_t embeds, norms, products, attentions;
} spy;

static void keep(spy *s, const char *kernel, uint32_t number, const float *data, size_t count) {
    assert_true(s->captures < COUNT(s->kept));
    capture *c = &s->kept[s->captures++];
    snprintf(c->name, sizeof c->name, "%s %u", kernel, number);
    c->data = malloc(count * sizeof *data);
    c->count = count;
    memcpy(c->data, data, count * sizeof *data);
}

static void forget(spy *s) {
    for (size_t i = 0; i < s->captures; i++)
        free(s->kept[i].data);
    s->captures = 0;
    s->embeds = s->norms = s->products = s->attentions = 0;
}

static const capture *captured(const spy *s, const char *name) {
    for (size_t i = 0; i < s->captures; i++)
        if (strcmp(s->kept[i].name, name) == 0)
            return &s->kept[i];
    fail_msg("the engine never called %s", name);
    return NULL;
}

static mt_device *inner(mt_device *d) {
    return ((spy *)d)->inner;
}

static void spy_copy_in(mt_device *d, void *dst, const void *host, size_t bytes) {
    inner(d)->copy_in(inner(d), dst, host, bytes);
}

static void spy_copy_out(mt_device *d, void *host, const void *src, size_t bytes) {
    inner(d)->copy_out(inner(d), host, src, bytes);
}

static void spy_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src,
                          size_t src_pitch, size_t bytes, size_t rows) {
    inner(d)->copy_rows(inner(d), dst, dst_pitch, src, src_pitch, bytes, rows);
}

static void spy_zero(mt_device *d, void *dst, size_t bytes) {
    inner(d)->zero(inner(d), dst, bytes);
}

static void spy_embed(mt_device *d, float *out, const int32_t *ids, const float *wte,
                      const float *wpe, uint32_t B, uint32_t T, uint32_t first, uint32_t C,
                      uint32_t vocab) {
    spy *s = (spy *)d;
    inner(d)->embed(inner(d), out, ids, wte, wpe, B, T, first, C, vocab);
    keep(s, "embed", s->embeds++, out, (size_t)B * T * C);
}

static void spy_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                          const float *b, uint32_t R, uint32_t C, float epsilon) {
    spy *s = (spy *)d;
    inner(d)->layernorm(inner(d), out, x, stride, w, b, R, C, epsilon);
    keep(s, "norm", s->norms++, out, (size_t)R * C);
}

static void spy_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                       uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue) {
    spy *s = (spy *)d;
    float *plain = calloc((size_t)R * N, sizeof *plain);
    inner(d)->linear(inner(d), plain, x, W, b, R, N, K, MT_STORE);
    keep(s, "plain", s->products, plain, (size_t)R * N);
    free(plain);
    inner(d)->linear(inner(d), out, x, W, b, R, N, K, epilogue);
    keep(s, "product", s->products++, out, (size_t)R * N);
}

static void spy_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B,
                         uint32_t T, uint32_t first, uint32_t C) {
    inner(d)->kv_write(inner(d), kv, qkv, B, T, first, C);
}

static void spy_attention(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv,
                          uint32_t B, uint32_t T, uint32_t first, uint32_t H, uint32_t D,
                          float *scratch) {
    spy *s = (spy *)d;
    inner(d)->attention(inner(d), out, qkv, kv, B, T, first, H, D, scratch);
    keep(s, "attention", s->attentions++, out, (size_t)B * T * H * D);
}

static void spy_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V) {
    inner(d)->argmax(inner(d), ids, logits, R, V);
}

static mt_status spy_sync(mt_device *d, mt_error *err) {
    return inner(d)->sync(inner(d), err);
}

static void spy_close(mt_device *d) {
    forget((spy *)d);
    inner(d)->close(inner(d));
}

static mt_device *spy_over(spy *s, mt_device *behind) {
    *s = (spy){ .device = *behind, .inner = behind };
    s->device.copy_in = spy_copy_in;
    s->device.copy_out = spy_copy_out;
    s->device.copy_rows = spy_copy_rows;
    s->device.zero = spy_zero;
    s->device.embed = spy_embed;
    s->device.layernorm = spy_layernorm;
    s->device.linear = spy_linear;
    s->device.kv_write = spy_kv_write;
    s->device.attention = spy_attention;
    s->device.argmax = spy_argmax;
    s->device.sync = spy_sync;
    s->device.close = spy_close;
    return &s->device;
}

/* ---- a source that is full from some moment on ----------------------------------------------- */

static struct {
    mt_source real;     /* the methods that were replaced */
    uint64_t from, met; /* refuses request number `from` (1, 2, ...) and all later ones */
} full;

static bool refuses(void) {
    return ++full.met >= full.from;
}

static mt_status full_take(mt_source *s, uint64_t bytes, void **ptr, mt_error *err) {
    if (refuses())
        return mt_fail(err, MT_NO_MEMORY, "full");
    return full.real.take(s, bytes, ptr, err);
}

static mt_status full_map(mt_source *s, void *base, uint64_t offset, uint64_t bytes,
                          mt_error *err) {
    if (refuses())
        return mt_fail(err, MT_NO_MEMORY, "full");
    return full.real.map(s, base, offset, bytes, err);
}

static void fill_up_at(mt_source *s, uint64_t from) {
    full.real = *s;
    full.from = from;
    full.met = 0;
    s->take = full_take;
    s->map = full_map;
}

/* ---- a rig: all that an engine stands on ----------------------------------------------------- */

typedef struct setup {
    mt_config config;
    mt_engine_options options;
    const char *policy; /* NULL: direct */
    uint64_t capacity;  /* 0: 64 GiB */
    bool real;          /* cpu over host memory, else none over addresses alone */
    int threads;        /* 0: one */
    const char *folder; /* of a checkpoint, which gives the shape; NULL: seeded */
    spy *spy;           /* between engine and device; may be NULL */
    bool unheard;       /* keep no events */
    uint64_t fail_at;   /* this request of the source fails */
    uint64_t full_from; /* this one and all later ones do */
} setup;

/* The state at a mark. */
typedef struct row {
    int32_t step;
    uint64_t ctx, ideal, reserved, tag[MT_TAGS];
} row;

typedef struct rig {
    mt_source *source;
    mt_alloc *alloc;
    mt_device *device;
    mt_checkpoint *ck;
    mt_model *model;
    mt_engine *engine;
    mt_event *event; /* all that were sent */
    size_t events, event_room;
    row *row; /* one a mark; the first ends the loading */
    size_t rows, row_room;
    mt_error err;
} rig;

/* Room for one more element in an array that doubles. */
static void *one_more(void *array, size_t count, size_t *room, size_t bytes) {
    if (count < *room)
        return array;
    *room = *room == 0 ? 256 : 2 * *room;
    array = realloc(array, *room * bytes);
    assert_non_null(array);
    return array;
}

/* Keeps the event; at a mark checks the identity and keeps the row. */
static void on_event(void *context, const mt_event *e) {
    rig *r = context;
    r->event = one_more(r->event, r->events, &r->event_room, sizeof *r->event);
    r->event[r->events++] = *e;
    if (e->kind != MT_EV_MARK)
        return;
    const mt_ledger *l = mt_alloc_ledger(r->alloc);
    mt_error err;
    must(mt_ledger_check(l, &err), &err);
    r->row = one_more(r->row, r->rows, &r->row_room, sizeof *r->row);
    row *now = &r->row[r->rows++];
    *now = (row){ e->step, e->ctx, e->kv_ideal, l->reserved.current, { 0 } };
    for (int t = 0; t < MT_TAGS; t++)
        now->tag[t] = l->tag[t].current;
}

static void open_source(rig *r, const setup *s) {
    uint64_t capacity = s->capacity > 0 ? s->capacity : 64 * MT_GIB;
    must(s->real ? mt_source_host(&r->source, capacity, &r->err)
                 : mt_source_sim(&r->source, capacity, 4 * MT_KIB, &r->err),
         &r->err);
    r->source->fail_at = s->fail_at;
    if (s->full_from > 0)
        fill_up_at(r->source, s->full_from);
}

static void open_device(rig *r, const setup *s) {
    must(s->real ? mt_device_cpu(&r->device, s->threads > 0 ? s->threads : 1, &r->err)
                 : mt_device_none(&r->device, &r->err),
         &r->err);
    if (s->spy != NULL)
        r->device = spy_over(s->spy, r->device);
}

/* Everything but model and engine. */
static void rig_open(rig *r, const setup *s) {
    *r = (rig){ 0 };
    open_source(r, s);
    must(mt_alloc_open(&r->alloc, r->source, s->policy != NULL ? s->policy : "direct", &r->err),
         &r->err);
    if (!s->unheard)
        mt_alloc_listen(r->alloc, (mt_listener){ on_event, r });
    open_device(r, s);
    must(s->folder != NULL ? mt_checkpoint_open(&r->ck, s->folder, &r->err)
                           : mt_checkpoint_seeded(&r->ck, &s->config, 5, &r->err),
         &r->err);
}

static mt_status rig_load(rig *r, const setup *s) {
    MT_TRY(mt_model_load(&r->model, r->ck, mt_checkpoint_config(r->ck), r->alloc, r->device, 1,
                         NULL, NULL, &r->err));
    return mt_engine_open(&r->engine, r->model, &s->options, &r->err);
}

static int32_t *new_prompt(uint32_t B, uint32_t P, uint32_t vocab) {
    int32_t *prompt = malloc((size_t)B * P * sizeof *prompt);
    assert_non_null(prompt);
    mt_seeded_prompt(prompt, B, P, 3, vocab);
    return prompt;
}

static mt_status rig_generate(rig *r, uint32_t *done) {
    const mt_engine_options *o = &r->engine->options;
    const mt_generation g = { .stop = -1 };
    int32_t *prompt = new_prompt(o->batch, o->prompt, r->model->config.vocab);
    mt_status status = mt_generate(r->engine, prompt, &g, NULL, done, &r->err);
    free(prompt);
    return status;
}

/* Loads and runs to the end, or to the first failure. */
static mt_status rig_run(rig *r, const setup *s, uint32_t *done) {
    *done = 0;
    MT_TRY(rig_load(r, s));
    return rig_generate(r, done);
}

/* Nothing requested is left; after a trim nothing is reserved. */
static void check_empty(rig *r) {
    const mt_ledger *l = mt_alloc_ledger(r->alloc);
    for (int t = 0; t < MT_TAGS; t++)
        assert_int_equal(l->tag[t].current, 0);
    assert_int_equal(l->requested.current, 0);
    assert_int_equal(l->rounding, 0);
    assert_int_equal(l->split, 0);
    assert_int_equal(l->allocs, l->frees);
    must(mt_alloc_check(r->alloc, &r->err), &r->err);
    mt_alloc_trim(r->alloc);
    assert_int_equal(l->reserved.current, 0);
    assert_int_equal(l->segments, 0);
    assert_int_equal(r->source->used, 0);
    must(mt_alloc_check(r->alloc, &r->err), &r->err);
}

static void rig_close(rig *r) {
    mt_engine_close(r->engine);
    mt_model_close(r->model);
    check_empty(r);
    mt_checkpoint_close(r->ck);
    mt_alloc_close(r->alloc);
    r->device->close(r->device);
    r->source->close(r->source);
    free(r->event);
    free(r->row);
}

/* Opens, runs without a failure; the caller closes. */
static void rig_whole(rig *r, const setup *s) {
    uint32_t done;
    rig_open(r, s);
    must(rig_run(r, s, &done), &r->err);
    assert_int_equal(done, s->options.ctx - s->options.prompt + 1);
}

static mt_engine_options options_of(const char *kv, uint32_t batch, uint32_t prompt, uint32_t ctx,
                                    bool arena) {
    return (mt_engine_options){
        .batch = batch, .prompt = prompt, .ctx = ctx, .arena = arena, .kv = kv
    };
}

/* ---- the trained checkpoint ------------------------------------------------------------------ */

/* Small trained models with another program's inner tensors and answers: our own, and one of the
 * shared data where that is there. Of each, three layers of three heads and three ids. */
static void for_trained(void (*test)(const char *folder)) {
    char folder[400];
    const char *shared = getenv("MEMTRACE_SHARED");
    bool set = shared != NULL && *shared != '\0';
    test("tests/recordings/reverse");
    snprintf(folder, sizeof folder, "%s/data/gpt-nano-sort", set ? shared : "../shared");
    if (access(folder, R_OK) == 0)
        test(folder);
}

/* Decodes base64 of count fp32 numbers; free() the result. */
static float *decode(const char *text, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char *out = malloc(count * sizeof(float));
    uint32_t word = 0, bits = 0;
    size_t n = 0;
    assert_non_null(out);
    for (; *text != '\0' && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        assert_non_null(digit);
        word = word << 6 | (uint32_t)(digit - digits);
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        assert_true(n < count * sizeof(float));
        out[n++] = (unsigned char)(word >> bits);
    }
    assert_int_equal(n, count * sizeof(float));
    return (float *)(void *)out;
}

enum { NANO_B = 3, NANO_T = 11, NANO_H = 3, NANO_V = 3, NANO_ROWS = 33 };

static size_t nano_c, nano_d; /* the model's width and a head's */

/* A tensor of the reference, count numbers; free() it. */
static float *reference(const json_t *file, const char *name, size_t count) {
    const json_t *tensor = json_object_get(file, name), *dims = json_object_get(tensor, "shape");
    size_t product = 1;
    for (size_t i = 0; i < json_array_size(dims); i++)
        product *= (size_t)json_integer_value(json_array_get(dims, i));
    assert_true(json_is_array(dims));
    assert_int_equal(product, count);
    return decode(json_string_value(json_object_get(tensor, "data")), count);
}

static double nano_worst; /* the largest difference met, over all tensors */

/* Within 1e-5 + 1e-5 |expected|; NaN fails, equal infinities pass. */
static void near(const char *name, double value, double expected) {
    if (value == expected)
        return;
    double difference = fabs(value - expected);
    if (!(difference <= 1e-5 + 1e-5 * fabs(expected)))
        fail_msg("%s: %.9g, expected %.9g", name, value, expected);
    nano_worst = fmax(nano_worst, difference);
}

/* Which call makes which tensor, and its width in widths of the model; 0: a logit for each id. In a
 * layer: product 0 is qkv, 1 the projection of the attention, 2 and 3 the MLP's. */
static const struct {
    const char *tensor, *made_by;
    size_t widths;
} nano_tensors[] = {
    { "x", "embed 0", 1 },          { "ln1", "norm 0", 1 },         { "qkv", "product 0", 3 },
    { "y", "attention 0", 1 },      { "yProj", "plain 1", 1 },      { "attnResid", "product 1", 1 },
    { "ln2", "norm 1", 1 },         { "fc", "plain 2", 4 },         { "gelu", "product 2", 4 },
    { "mlp", "plain 3", 1 },        { "mlpResid", "product 3", 1 }, { "block0", "product 3", 1 },
    { "block1", "product 7", 1 },   { "block2", "product 11", 1 },  { "ln_f", "norm 6", 1 },
    { "lm_head", "product 12", 0 },
};

/* Compares what a pass over places first .. first + T - 1 left with the reference's rows. */
static void compare_rows(const spy *s, const json_t *file, uint32_t first, uint32_t T) {
    for (size_t i = 0; i < COUNT(nano_tensors); i++) {
        const char *name = nano_tensors[i].tensor;
        size_t widths = nano_tensors[i].widths, width = widths > 0 ? widths * nano_c : NANO_V;
        const capture *c = captured(s, nano_tensors[i].made_by);
        float *expected = reference(file, name, NANO_ROWS * width);
        assert_int_equal(c->count, NANO_B * T * width);
        for (uint32_t b = 0; b < NANO_B; b++)
            for (size_t j = 0; j < T * width; j++)
                near(name, c->data[b * T * width + j], expected[(b * NANO_T + first) * width + j]);
        free(expected);
    }
}

/* A third of a full pass's qkv at [b, h, t, d]: 0 queries, 1 keys, 2 values. */
static float third_at(const capture *qkv, int third, size_t b, size_t h, size_t t, size_t d) {
    return qkv->data[((b * NANO_T + t) * 3 + (size_t)third) * nano_c + h * nano_d + d];
}

static void compare_thirds(const capture *qkv, const json_t *file) {
    static const char *const names[] = { "q", "k", "v" };
    for (int third = 0; third < 3; third++) {
        float *expected = reference(file, names[third], NANO_ROWS * nano_c), *e = expected;
        for (size_t b = 0; b < NANO_B; b++)
            for (size_t h = 0; h < NANO_H; h++)
                for (size_t t = 0; t < NANO_T; t++)
                    for (size_t d = 0; d < nano_d; d++)
                        near(names[third], third_at(qkv, third, b, h, t, d), *e++);
        free(expected);
    }
}

/* One query's scores over all places, and their softmax. */
static void plain_attention(const capture *qkv, size_t b, size_t h, size_t t, double *score,
                            double *share) {
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j < NANO_T; j++) {
        double dot = 0;
        for (size_t d = 0; d < nano_d; d++)
            dot += (double)third_at(qkv, 0, b, h, t, d) * third_at(qkv, 1, b, h, j, d);
        score[j] = j <= t ? dot / sqrt((double)nano_d) : -INFINITY;
        max = fmax(max, score[j]);
    }
    for (size_t j = 0; j < NANO_T; j++)
        sum += share[j] = exp(score[j] - max);
    for (size_t j = 0; j < NANO_T; j++)
        share[j] /= sum;
}

static void compare_attention(const capture *qkv, const json_t *file) {
    size_t count = NANO_B * NANO_H * NANO_T * NANO_T;
    float *att = reference(file, "att", count), *softmax = reference(file, "attSm", count);
    for (size_t i = 0; i < count; i += NANO_T) {
        double score[NANO_T], share[NANO_T];
        size_t line = i / NANO_T;
        plain_attention(qkv, line / NANO_T / NANO_H, line / NANO_T % NANO_H, line % NANO_T, score,
                        share);
        for (size_t j = 0; j < NANO_T; j++) {
            near("att", score[j], att[i + j]);
            near("attSm", share[j], softmax[i + j]);
        }
    }
    free(att);
    free(softmax);
}

static void compare_probabilities(const capture *logits, const json_t *file) {
    float *expected = reference(file, "probs", NANO_ROWS * NANO_V);
    for (size_t r = 0; r < NANO_ROWS; r++) {
        double sum = 0;
        for (size_t v = 0; v < NANO_V; v++)
            sum += exp((double)logits->data[r * NANO_V + v]);
        for (size_t v = 0; v < NANO_V; v++)
            near("probs", exp((double)logits->data[r * NANO_V + v]) / sum,
                 expected[r * NANO_V + v]);
    }
    free(expected);
}

static void compare_embeddings(const mt_weights *w, const int32_t *ids, const json_t *file) {
    float *token = reference(file, "tok_emb", NANO_ROWS * nano_c);
    float *place = reference(file, "pos_emb", NANO_T * nano_c);
    for (size_t r = 0; r < NANO_ROWS; r++)
        for (size_t i = 0; i < nano_c; i++)
            near("tok_emb", w->wte[(size_t)ids[r] * nano_c + i], token[r * nano_c + i]);
    for (size_t i = 0; i < NANO_T * nano_c; i++)
        near("pos_emb", w->wpe[i], place[i]);
    free(token);
    free(place);
}

static void read_ids(const json_t *file, int32_t *ids) {
    float *idx = reference(file, "idx", NANO_ROWS);
    for (size_t i = 0; i < NANO_ROWS; i++)
        ids[i] = (int32_t)idx[i];
    free(idx);
}

static json_t *nano_json(const char *folder) {
    char path[450];
    snprintf(path, sizeof path, "%s/activations.json", folder);
    json_t *file = json_load_file(path, 0, NULL);
    const json_t *heads = json_object_get(json_object_get(file, "q"), "shape");
    nano_d = (size_t)json_integer_value(json_array_get(heads, 3));
    nano_c = NANO_H * nano_d;
    return file;
}

/* All 11 tokens of 3 sequences in one pass: every tensor of the reference. */
static void nano_pass(const char *kv, const char *folder, const json_t *file) {
    spy watch;
    setup s = { .real = true, .folder = folder, .spy = &watch };
    int32_t ids[NANO_ROWS], next[NANO_B];
    rig r;
    s.options = options_of(kv, NANO_B, NANO_T, NANO_T, false);
    s.options.logits_all = true;
    rig_open(&r, &s);
    must(rig_load(&r, &s), &r.err);
    read_ids(file, ids);
    must(mt_engine_step(r.engine, ids, NANO_T, next, &r.err), &r.err);
    compare_rows(&watch, file, 0, NANO_T);
    compare_thirds(captured(&watch, "product 0"), file);
    compare_attention(captured(&watch, "product 0"), file);
    compare_probabilities(captured(&watch, "product 12"), file);
    compare_embeddings(&r.model->weights, ids, file);
    rig_close(&r);
}

/* The same a token at a time, through the cache and our own kernels. */
static void nano_steps(const char *kv, const char *folder, const json_t *file) {
    spy watch;
    setup s = { .real = true, .folder = folder, .spy = &watch };
    int32_t ids[NANO_ROWS], column[NANO_B], next[NANO_B];
    rig r;
    s.options = options_of(kv, NANO_B, 1, NANO_T, false);
    rig_open(&r, &s);
    must(rig_load(&r, &s), &r.err);
    read_ids(file, ids);
    for (uint32_t t = 0; t < NANO_T; t++) {
        for (uint32_t b = 0; b < NANO_B; b++)
            column[b] = ids[b * NANO_T + t];
        forget(&watch);
        must(mt_engine_step(r.engine, column, 1, next, &r.err), &r.err);
        compare_rows(&watch, file, t, 1);
    }
    rig_close(&r);
}

static void nano_tensors_of(const char *folder) {
    json_t *file = nano_json(folder);
    nano_worst = 0;
    for (size_t i = 0; i < COUNT(strategies); i++) {
        nano_pass(strategies[i], folder, file);
        if (strcmp(strategies[i], "none") != 0)
            nano_steps(strategies[i], folder, file);
    }
    print_message("largest difference from the reference's tensors: %.2e\n", nano_worst);
    json_decref(file);
}

static void test_nano_tensors(void **state) {
    (void)state;
    for_trained(nano_tensors_of);
}

/* ---- 729 prompts and their answers ----------------------------------------------------------- */

enum { DIGITS = 6, PROMPTS = 729 };

typedef struct answers {
    int32_t prompt[PROMPTS][DIGITS], answer[PROMPTS][DIGITS];
} answers;

static void read_answers(answers *s, const char *folder) {
    char path[450], line[100], prompt[8], answer[8];
    snprintf(path, sizeof path, "%s/greedy.tsv", folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    for (int i = 0; i < PROMPTS; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        assert_int_equal(sscanf(line, "%7[012] %7[012]", prompt, answer), 2);
        for (int j = 0; j < DIGITS; j++) {
            s->prompt[i][j] = prompt[j] - '0';
            s->answer[i][j] = answer[j] - '0';
        }
    }
    fclose(f);
}

/* Some prompts, from number `from` on, side by side in one run. */
static void answer_batch(rig *r, const answers *all, const char *kv, bool arena, int from,
                         uint32_t batch) {
    mt_engine_options o = options_of(kv, batch, DIGITS, 2 * DIGITS - 1, arena);
    const mt_generation g = { .stop = -1 };
    int32_t *ids = malloc(batch * DIGITS * sizeof *ids);
    mt_engine *e;
    uint32_t done;
    must(mt_engine_open(&e, r->model, &o, &r->err), &r->err);
    must(mt_generate(e, all->prompt[from], &g, ids, &done, &r->err), &r->err);
    assert_int_equal(done, DIGITS);
    assert_memory_equal(ids, all->answer[from], batch * DIGITS * sizeof *ids);
    mt_engine_close(e);
    free(ids);
}

static void nano_greedy_of(const char *folder) {
    static const char *const some[] = { "concat", "concat-tuple", "static", "doubling:3",
                                        "paged:5" };
    static answers all;
    setup s = { .real = true, .folder = folder, .policy = "torch", .unheard = true };
    rig r;
    read_answers(&all, s.folder);
    rig_open(&r, &s);
    must(mt_model_load(&r.model, r.ck, mt_checkpoint_config(r.ck), r.alloc, r.device, 1, NULL, NULL,
                       &r.err),
         &r.err);
    for (size_t k = 0; k < COUNT(some); k++)
        for (int i = 0; i < PROMPTS; i += quick() ? 81 : 1)
            answer_batch(&r, &all, some[k], (k + (size_t)i) % 2 == 1, i, 1);
    for (size_t k = 0; k < COUNT(strategies); k++)
        answer_batch(&r, &all, strategies[k], k % 2 == 0, 0, quick() ? 20 : PROMPTS);
    rig_close(&r);
}

static void test_nano_greedy(void **state) {
    (void)state;
    for_trained(nano_greedy_of);
}

/* ---- bytes: every row of a run --------------------------------------------------------------- */

/* The number after ':' in a strategy's name, or what holds without one. */
static uint64_t argument(const char *kv, uint64_t otherwise) {
    const char *colon = strchr(kv, ':');
    return colon != NULL ? strtoull(colon + 1, NULL, 10) : otherwise;
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* kv at the end of a step, from the definitions of the strategies alone. */
static uint64_t expected_kv(const setup *s, uint64_t ctx) {
    const mt_engine_options *o = &s->options;
    uint64_t one = 2 * (uint64_t)s->config.layers * o->batch * s->config.width *
                   (s->config.dtype == MT_F32 ? 4 : 2); /* a token in all layers and sequences */
    if (starts(o->kv, "concat"))
        return one * ctx;
    if (starts(o->kv, "static"))
        return one * o->ctx;
    if (starts(o->kv, "paged")) {
        uint64_t page = argument(o->kv, 0);
        return one * ((ctx + page - 1) / page) * page;
    }
    if (starts(o->kv, "none"))
        return 0;
    uint64_t capacity = argument(o->kv, 256);
    while (capacity < ctx)
        capacity *= 2;
    return one * capacity;
}

/* Rows of the head in the step that ends at ctx. */
static uint64_t expected_logit_rows(const setup *s, uint64_t ctx) {
    const mt_engine_options *o = &s->options;
    bool whole = ctx == o->prompt || strcmp(o->kv, "none") == 0;
    return o->batch * (o->logits_all && whole ? ctx : 1);
}

static uint64_t expected_weights(const mt_config *c) {
    uint64_t C = c->width, layer = 12 * C * C + 13 * C;
    return 4 * (c->vocab * C + c->positions * C + c->layers * layer + 2 * C);
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The most that activations of one pass take at once: each is freed after its last use. */
static uint64_t expected_most(const setup *s, uint64_t ctx) {
    const mt_config *c = &s->config;
    bool cached = strcmp(s->options.kv, "none") != 0, first = ctx == s->options.prompt;
    uint64_t T = first || !cached ? ctx : 1, R = s->options.batch * T, x = R * c->width * 4;
    uint64_t parts = (ctx + 255) / 256, D = c->width / c->heads;
    uint64_t scratch = T == 1 ? 4 * R * c->heads * parts * (D + 2) : 0;
    uint64_t most = x + x + 3 * x;                 /* x, ln1, qkv */
    most = larger(most, x + 3 * x + scratch + x);  /* x, qkv, scratch, attention's output */
    return larger(most, x + x + R * c->inner * 4); /* x, ln2, hidden layer of the MLP */
}

/* The ids, the residual stream and the head's rows never add up to more than a layer does. */
static uint64_t run_most(const setup *s, uint64_t (*of)(const setup *, uint64_t)) {
    uint64_t most = 0;
    for (uint64_t ctx = s->options.prompt; ctx <= s->options.ctx; ctx++)
        most = larger(most, of(s, ctx));
    return most;
}

/* Two steps' logits are alive at once, from the second step on. */
static uint64_t logits_of_two(const setup *s, uint64_t ctx) {
    return expected_logit_rows(s, ctx) +
           (ctx > s->options.prompt ? expected_logit_rows(s, ctx - 1) : 0);
}

static void check_row(const rig *r, const setup *s, const row *at) {
    const mt_config *c = &s->config;
    const mt_engine_options *o = &s->options;
    bool loading = at->step < 0, paged = starts(o->kv, "paged");
    uint64_t kv = loading ? 0 : expected_kv(s, at->ctx), word = 4 * (uint64_t)c->vocab;
    uint64_t rows = loading ? 0 : expected_logit_rows(s, at->ctx), page = argument(o->kv, 1);
    uint64_t table = 8 * (uint64_t)c->layers * o->batch * ((o->ctx + page - 1) / page);
    if (o->arena)
        rows = run_most(s, expected_logit_rows);
    assert_int_equal(at->tag[MT_KV], kv);
    if (!loading)
        assert_int_equal(r->engine->kv->ops->bytes(r->engine->kv, at->ctx), kv);
    assert_int_equal(at->ideal, 2 * (uint64_t)c->layers * o->batch * at->ctx * c->width * 4);
    assert_int_equal(at->tag[MT_WEIGHTS], expected_weights(c));
    assert_int_equal(at->tag[MT_LOGITS], rows * word);
    assert_int_equal(at->tag[MT_WORKSPACE], o->workspace);
    assert_int_equal(at->tag[MT_OTHER], paged && !loading ? table : 0);
    assert_int_equal(at->tag[MT_ACTIVATIONS], o->arena ? r->row[0].tag[MT_ACTIVATIONS] : 0);
}

static void check_peaks(const rig *r, const setup *s) {
    const mt_ledger *l = mt_alloc_ledger(r->alloc);
    uint64_t word = 4 * (uint64_t)s->config.vocab, most = run_most(s, expected_most);
    uint64_t arena = r->row[0].tag[MT_ACTIVATIONS];
    if (!s->options.arena) {
        assert_int_equal(l->tag[MT_LOGITS].peak, run_most(s, logits_of_two) * word);
        assert_int_equal(l->tag[MT_ACTIVATIONS].peak, most);
        return;
    }
    assert_int_equal(l->tag[MT_LOGITS].peak, run_most(s, expected_logit_rows) * word);
    assert_int_equal(l->tag[MT_ACTIVATIONS].peak, arena);
    assert_true(arena >= most);
    assert_true(arena <= most + most / 4 + 16 * 256);
}

static void check_bytes(const setup *s) {
    uint32_t steps = s->options.ctx - s->options.prompt + 1;
    rig r;
    rig_whole(&r, s);
    assert_int_equal(r.rows, steps + 1);
    for (uint32_t i = 0; i < r.rows; i++) {
        assert_int_equal(r.row[i].step, (int)i - 1);
        assert_int_equal(r.row[i].ctx, i == 0 ? 0 : s->options.prompt + i - 1);
        check_row(&r, s, &r.row[i]);
    }
    check_peaks(&r, s);
    rig_close(&r);
}

static void test_bytes(void **state) {
    (void)state;
    static const uint32_t prompts[] = { 1, 7 }, batches[] = { 1, 3 };
    for (size_t i = 0; i < COUNT(strategies) * 16; i++) {
        setup s = { .config = small(300) };
        s.options = options_of(strategies[i / 16], batches[i / 2 % 2], prompts[i / 4 % 2],
                               quick() ? 30 : 300, i % 2 == 1);
        s.options.logits_all = i / 8 % 2 == 1;
        s.options.workspace = 12345;
        check_bytes(&s);
    }
}

/* ---- GPT-2 small: known answers -------------------------------------------------------------- */

enum { TENSORS = 148, LAYERS = 12, KV_TOKEN = 73728, TENSOR_TOKEN = 3072 };

static void open_gpt2(rig *r, const char *kv, const char *policy) {
    setup s = { .config = gpt2(), .policy = policy, .capacity = 48 * MT_GIB };
    s.options = options_of(kv, 1, 1, 1024, false);
    rig_whole(r, &s);
    assert_int_equal(r->rows, 1025);
    for (size_t i = 0; i < r->rows; i++)
        assert_int_equal(r->row[i].ideal, KV_TOKEN * r->row[i].ctx);
}

static uint64_t kv_requests(const rig *r) {
    uint64_t count = 0;
    for (size_t i = 0; i < r->events; i++)
        count += r->event[i].kind == MT_EV_ALLOC && r->event[i].tag == MT_KV;
    return count;
}

static void test_gpt2_concat(void **state) {
    (void)state;
    static const char *const policies[] = { "torch", "torch:expandable_segments:True", "block:2MiB",
                                            "direct" };
    for (size_t p = 0; p < (quick() ? 1 : COUNT(policies)); p++) {
        rig r;
        open_gpt2(&r, "concat", policies[p]);
        const mt_ledger *l = mt_alloc_ledger(r.alloc);
        for (uint64_t i = 1; i < r.rows; i++)
            assert_int_equal(r.row[i].tag[MT_KV], KV_TOKEN * i);
        assert_int_equal(r.row[0].tag[MT_WEIGHTS], 497759232);
        assert_int_equal(kv_requests(&r), 24 * 1024);
        assert_int_equal(l->tag[MT_KV].total, KV_TOKEN * UINT64_C(524800));
        /* When the last value tensor is replaced its predecessor is still there. */
        assert_int_equal(l->tag[MT_KV].peak, KV_TOKEN * 1024 + TENSOR_TOKEN * 1023);
        /* A step: K and V; six buffers a layer; ids, x, ln_f, logits, the chosen ids. */
        assert_int_equal(l->allocs, TENSORS + 1024 * (LAYERS * (2 + 6) + 5));
        rig_close(&r);
    }
}

static void test_gpt2_others(void **state) {
    (void)state;
    static const struct {
        const char *kv;
        uint64_t first, last, requests, peak;
    } known[] = {
        { "concat-tuple", KV_TOKEN, 75497472, 24 * 1024, 75497472 + KV_TOKEN * UINT64_C(1023) },
        { "static", 75497472, 75497472, 24, 75497472 },
        { "doubling", 18874368, 75497472, 6, 75497472 + 37748736 },
        { "paged:16", 1179648, 75497472, 12 * 64, 75497472 },
        { "none", 0, 0, 0, 0 },
    };
    for (size_t k = 0; k < COUNT(known); k++) {
        rig r;
        open_gpt2(&r, known[k].kv, "torch");
        assert_int_equal(r.row[1].tag[MT_KV], known[k].first);
        assert_int_equal(r.row[1024].tag[MT_KV], known[k].last);
        assert_int_equal(kv_requests(&r), known[k].requests);
        assert_int_equal(mt_alloc_ledger(r.alloc)->tag[MT_KV].peak, known[k].peak);
        for (size_t i = 1; i < r.rows && known[k].first == known[k].last; i++)
            assert_int_equal(r.row[i].tag[MT_KV], known[k].last);
        rig_close(&r);
    }
}

/* ---- the order of requests ------------------------------------------------------------------- */

/* The next alloc, free or mark event from *at on, which moves behind it. */
static const mt_event *next_event(const rig *r, size_t *at) {
    while (*at < r->events) {
        const mt_event *e = &r->event[(*at)++];
        if (e->kind == MT_EV_ALLOC || e->kind == MT_EV_FREE || e->kind == MT_EV_MARK)
            return e;
    }
    fail_msg("no further event");
    return NULL;
}

static void is_request(const mt_event *e, mt_tag tag, uint64_t bytes, int32_t layer) {
    assert_int_equal(e->kind, MT_EV_ALLOC);
    assert_int_equal(e->tag, tag);
    assert_int_equal(e->requested, bytes);
    assert_int_equal(e->layer, layer);
}

/* Weights in the table's order, workspace, arena, its logits, the mark; then steps. */
static void test_order_of_loading(void **state) {
    (void)state;
    setup s = { .config = small(32), .policy = "torch" };
    size_t at = 0;
    rig r;
    s.config.tied = false;
    s.options = options_of("concat", 2, 3, 20, true);
    s.options.workspace = 4 * MT_MIB;
    rig_whole(&r, &s);
    for (uint32_t i = 0; i < mt_tensor_count(&s.config); i++) {
        mt_tensor t;
        mt_tensor_at(&s.config, i, &t);
        is_request(next_event(&r, &at), MT_WEIGHTS, t.rows * t.cols * 4, t.layer);
    }
    is_request(next_event(&r, &at), MT_WORKSPACE, 4 * MT_MIB, -1);
    is_request(next_event(&r, &at), MT_ACTIVATIONS, r.row[0].tag[MT_ACTIVATIONS], -1);
    is_request(next_event(&r, &at), MT_LOGITS, 2 * 97 * 4, -1);
    assert_int_equal(next_event(&r, &at)->kind, MT_EV_MARK);
    while (r.row[0].step == -1 && at < r.events) {
        const mt_event *e = &r.event[at++];
        assert_true(e->kind == MT_EV_MARK || e->tag == MT_KV);
    }
    rig_close(&r);
}

/* The names and sizes at both ends of the table, so that it is not only compared with itself. */
static void test_order_of_weights(void **state) {
    (void)state;
    static const struct {
        uint32_t index;
        uint64_t bytes;
        int32_t layer;
    } known[] = { { 0, 97 * 64 * 4, -1 },
                  { 1, 32 * 64 * 4, -1 },
                  { 2, 256, 0 },
                  { 4, 3 * 64 * 64 * 4, 0 },
                  { 10, 4 * 64 * 64 * 4, 0 },
                  { 11, 1024, 0 },
                  { 14, 256, 1 },
                  { 48, 4 * 64 * 64 * 4, 3 },
                  { 49, 256, 3 },
                  { 50, 256, -1 },
                  { 51, 256, -1 } };
    setup s = { .config = small(32) };
    rig r;
    s.options = options_of("static", 1, 1, 2, false);
    rig_whole(&r, &s);
    for (size_t i = 0; i < COUNT(known); i++)
        for (size_t j = 0; j < r.events; j++)
            if (r.event[j].kind == MT_EV_ALLOC && r.event[j].id == known[i].index)
                is_request(&r.event[j], MT_WEIGHTS, known[i].bytes, known[i].layer);
    rig_close(&r);
}

enum { ORDER_B = 2, ORDER_CTX = 20, ORDER_L = 4, ORDER_ROW = 256, MOST_KV = 64 };

/* The requests and frees of kv in one step. */
typedef struct kv_step {
    const mt_event *event[MOST_KV];
    size_t count;
    uint64_t mark; /* seq of the step's mark */
    uint64_t last; /* seq of its last request or free of another tag */
} kv_step;

static kv_step kv_of_step(const rig *r, int32_t step) {
    kv_step k = { .count = 0 };
    for (size_t i = 0; i < r->events; i++) {
        const mt_event *e = &r->event[i];
        if (e->step != step || (e->kind != MT_EV_ALLOC && e->kind != MT_EV_FREE)) {
            if (e->step == step && e->kind == MT_EV_MARK)
                k.mark = e->seq;
            continue;
        }
        if (e->tag != MT_KV) {
            k.last = e->seq;
            continue;
        }
        assert_true(k.count < MOST_KV);
        k.event[k.count++] = e;
    }
    return k;
}

static void order_run(rig *r, const char *kv, uint32_t prompt) {
    setup s = { .config = small(ORDER_CTX) };
    s.options = options_of(kv, ORDER_B, prompt, ORDER_CTX, false);
    rig_whole(r, &s);
}

static void is_free_of(const mt_event *e, const mt_event *request) {
    assert_int_equal(e->kind, MT_EV_FREE);
    assert_int_equal(e->id, request->id);
    assert_int_equal(e->requested, request->requested);
}

/* Each layer: new K, free old K, new V, free old V. */
static void test_order_concat(void **state) {
    (void)state;
    rig r;
    order_run(&r, "concat", 1);
    const mt_event *old[2 * ORDER_L] = { 0 };
    for (int32_t step = 0; step < ORDER_CTX; step++) {
        kv_step k = kv_of_step(&r, step);
        size_t at = 0;
        for (int i = 0; i < 2 * ORDER_L; i++) {
            const mt_event *fresh = k.event[at++];
            is_request(fresh, MT_KV, ORDER_B * (uint64_t)(step + 1) * ORDER_ROW, i / 2);
            if (step > 0)
                is_free_of(k.event[at++], old[i]);
            old[i] = fresh;
        }
        assert_int_equal(at, k.count);
    }
    rig_close(&r);
}

/* New K and V layer by layer; all old ones freed together, last thing before the mark. */
static void test_order_concat_tuple(void **state) {
    (void)state;
    rig r;
    order_run(&r, "concat-tuple", 1);
    const mt_event *old[2 * ORDER_L] = { 0 };
    for (int32_t step = 0; step < ORDER_CTX; step++) {
        kv_step k = kv_of_step(&r, step);
        assert_int_equal(k.count, step == 0 ? 2 * ORDER_L : 4 * ORDER_L);
        for (int i = 0; i < 2 * ORDER_L; i++) {
            is_request(k.event[i], MT_KV, ORDER_B * (uint64_t)(step + 1) * ORDER_ROW, i / 2);
            if (step > 0) {
                is_free_of(k.event[2 * ORDER_L + i], old[i]);
                assert_true(k.event[2 * ORDER_L + i]->seq > k.last);
                assert_true(k.event[2 * ORDER_L + i]->seq < k.mark);
            }
        }
        memcpy(old, k.event, sizeof old);
    }
    rig_close(&r);
}

/* Growth: new K, new V, free both. Nothing between growths. A prompt of 7 begins at 3, 6, 12. */
static void test_order_doubling(void **state) {
    (void)state;
    rig r;
    order_run(&r, "doubling:3", 7);
    const mt_event *old[2] = { 0 };
    for (int32_t step = 0; step < ORDER_CTX - 6; step++) {
        kv_step k = kv_of_step(&r, step);
        uint64_t capacity = step == 0 ? 12 : 24;
        bool grows = step == 0 || step + 7 == 13;
        assert_int_equal(k.count, step == 0 ? 2 : grows ? 4 : 0);
        for (size_t i = 0; grows && i < 2; i++)
            is_request(k.event[i], MT_KV, ORDER_L * ORDER_B * capacity * ORDER_ROW, -1);
        for (size_t i = 0; k.count == 4 && i < 2; i++)
            is_free_of(k.event[2 + i], old[i]);
        if (grows)
            memcpy(old, k.event, sizeof old);
    }
    rig_close(&r);
}

/* A page a layer and sequence when one is needed, and never a free. */
static void test_order_paged(void **state) {
    (void)state;
    rig r;
    order_run(&r, "paged:5", 7);
    for (int32_t step = 0; step < ORDER_CTX - 6; step++) {
        kv_step k = kv_of_step(&r, step);
        int32_t pages = step == 0 ? 2 : (step + 7) % 5 == 1 ? 1 : 0, each = ORDER_B * pages;
        assert_int_equal(k.count, ORDER_L * each);
        for (int32_t i = 0; i < ORDER_L * each; i++)
            is_request(k.event[i], MT_KV, 2 * 5 * ORDER_ROW, i / each);
    }
    rig_close(&r);
}

/* All of a layer's cache at its first update, in the prefill. */
static void test_order_static(void **state) {
    (void)state;
    rig r;
    order_run(&r, "static", 7);
    kv_step k = kv_of_step(&r, 0);
    assert_int_equal(k.count, 2 * ORDER_L);
    for (int32_t i = 0; i < 2 * ORDER_L; i++)
        is_request(k.event[i], MT_KV, ORDER_B * ORDER_CTX * ORDER_ROW, i / 2);
    assert_true(k.event[0]->seq > r.event[0].seq && k.event[2]->seq > k.event[1]->seq + 1);
    for (int32_t step = 1; step < ORDER_CTX - 6; step++)
        assert_int_equal(kv_of_step(&r, step).count, 0);
    rig_close(&r);
}

/* ---- a dry run is the real run --------------------------------------------------------------- */

static void compare_events(const rig *a, const rig *b, const char *what) {
    for (size_t i = 0; i < a->events && i < b->events; i++)
        if (!same_event(&a->event[i], &b->event[i]))
            fail_msg("%s: event %zu differs", what, i);
    assert_int_equal(a->events, b->events);
}

static void test_dry_is_real(void **state) {
    (void)state;
    static const char *const policies[] = { "torch", "torch:expandable_segments:True", "block:2MiB",
                                            "direct" };
    for (size_t i = 0; i < COUNT(strategies) * 8; i += quick() ? 3 : 1) {
        setup s = { .config = small(40), .policy = policies[i / 2 % 4], .capacity = MT_GIB };
        rig dry, real;
        s.options = options_of(strategies[i / 8], 2, 1 + i / 8 % 3, quick() ? 12 : 40, i % 2 == 1);
        s.options.logits_all = i / 4 % 2 == 1;
        s.options.workspace = 100000;
        rig_whole(&dry, &s);
        s.real = true;
        rig_whole(&real, &s);
        compare_events(&dry, &real, s.options.kv);
        rig_close(&dry);
        rig_close(&real);
    }
}

/* Two bytes an element: every request is half as large, but for ids and the attention's scratch,
 * which is kept in fp32. */
static void check_half(const mt_event *whole, const mt_event *half, uint64_t scratch) {
    assert_int_equal(whole->tag, half->tag);
    assert_int_equal(whole->layer, half->layer);
    if (half->requested * 2 == whole->requested)
        return;
    assert_int_equal(whole->requested, half->requested);
    bool ids = whole->layer == -1 && whole->requested <= 2 * 40 * 4;
    assert_true(whole->tag == MT_OTHER ||
                (whole->tag == MT_ACTIVATIONS && (ids || whole->requested == scratch)));
}

static void test_bf16(void **state) {
    (void)state;
    for (size_t k = 0; k < COUNT(strategies); k++) {
        setup s = { .config = small(40) };
        rig whole, half;
        size_t at = 0, half_at = 0;
        s.options = options_of(strategies[k], 2, 3, 40, false);
        rig_whole(&whole, &s);
        s.config.dtype = MT_BF16;
        rig_whole(&half, &s);
        assert_int_equal(mt_alloc_ledger(whole.alloc)->allocs, mt_alloc_ledger(half.alloc)->allocs);
        for (uint64_t i = mt_alloc_ledger(half.alloc)->allocs; i > 0;) {
            const mt_event *a = next_event(&whole, &at), *b = next_event(&half, &half_at);
            assert_int_equal(a->kind, b->kind);
            i -= a->kind == MT_EV_ALLOC;
            if (a->kind == MT_EV_ALLOC)
                check_half(a, b, 2 * 4 * 1 * (16 + 2) * 4);
        }
        for (size_t i = 1; i < half.rows; i++) {
            assert_int_equal(half.row[i].tag[MT_KV], expected_kv(&s, half.row[i].ctx));
            assert_int_equal(2 * half.row[i].tag[MT_KV], whole.row[i].tag[MT_KV]);
            assert_int_equal(2 * half.row[i].tag[MT_WEIGHTS], whole.row[i].tag[MT_WEIGHTS]);
            assert_int_equal(2 * half.row[i].tag[MT_LOGITS], whole.row[i].tag[MT_LOGITS]);
            assert_int_equal(2 * half.row[i].ideal, whole.row[i].ideal);
        }
        rig_close(&whole);
        rig_close(&half);
    }
}

/* ---- cached = uncached ----------------------------------------------------------------------- */

/* A run's last logits of each sequence, and its choices, step by step. */
typedef struct record {
    uint32_t steps, B, V;
    float *logits; /* [steps, B, V] */
    int32_t *next; /* [steps, B] */
} record;

static void record_free(record *r) {
    free(r->logits);
    free(r->next);
}

static float *logits_at(const record *r, uint32_t step, uint32_t b) {
    return r->logits + ((size_t)step * r->B + b) * r->V;
}

static void record_step(rig *g, record *r, uint32_t step, const int32_t *ids, uint32_t T) {
    must(mt_engine_step(g->engine, ids, T, r->next + (size_t)step * r->B, &g->err), &g->err);
    uint32_t each = g->engine->logits_rows / r->B;
    for (uint32_t b = 0; b < r->B; b++)
        must(mt_engine_logits(g->engine, (b + 1) * each - 1, 1, logits_at(r, step, b), &g->err),
             &g->err);
}

/* Runs to the end. feed, when not NULL, are the choices to go on with instead of the run's own. */
static record record_run(const setup *s, const record *feed) {
    const mt_engine_options *o = &s->options;
    record r = { .steps = o->ctx - o->prompt + 1, .B = o->batch, .V = s->config.vocab };
    int32_t *prompt = new_prompt(r.B, o->prompt, r.V);
    rig g;
    r.logits = malloc((size_t)r.steps * r.B * r.V * sizeof(float));
    r.next = malloc((size_t)r.steps * r.B * sizeof(int32_t));
    rig_open(&g, s);
    must(rig_load(&g, s), &g.err);
    record_step(&g, &r, 0, prompt, o->prompt);
    for (uint32_t step = 1; step < r.steps; step++)
        record_step(&g, &r, step, (feed != NULL ? feed : &r)->next + (size_t)(step - 1) * r.B, 1);
    free(prompt);
    rig_close(&g);
    return r;
}

/* The same logits out of one causal pass without a cache, over the tokens of another run. */
static record record_pass(const setup *s, const record *run) {
    const mt_engine_options *o = &s->options;
    setup one = *s;
    record r = { .steps = run->steps, .B = run->B, .V = run->V };
    int32_t *prompt = new_prompt(r.B, o->prompt, r.V), *next = malloc(r.B * sizeof *next);
    int32_t *ids = malloc((size_t)r.B * o->ctx * sizeof *ids);
    rig g;
    for (uint32_t b = 0; b < r.B; b++)
        for (uint32_t t = 0; t < o->ctx; t++)
            ids[b * o->ctx + t] =
                t < o->prompt ? prompt[b * o->prompt + t] : run->next[(t - o->prompt) * r.B + b];
    one.options = options_of("none", r.B, o->ctx, o->ctx, false);
    one.options.logits_all = true;
    r.logits = malloc((size_t)r.steps * r.B * r.V * sizeof(float));
    rig_open(&g, &one);
    must(rig_load(&g, &one), &g.err);
    must(mt_engine_step(g.engine, ids, o->ctx, next, &g.err), &g.err);
    for (uint32_t i = 0; i < r.steps * r.B; i++)
        must(mt_engine_logits(g.engine, i % r.B * o->ctx + o->prompt - 1 + i / r.B, 1,
                              logits_at(&r, i / r.B, i % r.B), &g.err),
             &g.err);
    for (uint32_t b = 0; b < r.B; b++)
        assert_int_equal(next[b], run->next[(r.steps - 1) * r.B + b]);
    free(ids);
    free(next);
    free(prompt);
    rig_close(&g);
    return r;
}

/* The largest difference of n numbers; infinite when one is not finite. */
static double difference(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!isfinite(d))
            return INFINITY;
        most = fmax(most, d);
    }
    return most;
}

static double largest(const record *r) {
    double most = 0;
    for (size_t i = 0; i < (size_t)r->steps * r->B * r->V; i++)
        most = fmax(most, fabs(r->logits[i]));
    return most;
}

static int32_t best(const float *logits, uint32_t V) {
    uint32_t at = 0;
    for (uint32_t v = 1; v < V; v++)
        if (logits[v] > logits[at])
            at = v;
    return (int32_t)at;
}

/* Difference of two records relative to the largest logit, and their choices. */
static double compare_records(const record *a, const record *b) {
    double apart = difference(a->logits, b->logits, (size_t)a->steps * a->B * a->V) / largest(a);
    if (!(apart <= RELATIVE))
        fail_msg("logits are %.3g of the largest apart, expected at most %g", apart, RELATIVE);
    for (uint32_t i = 0; i < a->steps * a->B; i++)
        assert_int_equal(best(logits_at(b, i / a->B, i % a->B), a->V), a->next[i]);
    return apart;
}

/* Steps [from, to). */
static bool same_bits(const record *a, const record *b, uint32_t from, uint32_t to) {
    size_t step = (size_t)a->B * a->V;
    return memcmp(a->logits + from * step, b->logits + from * step,
                  (to - from) * step * sizeof(float)) == 0;
}

static setup parity_setup(const char *kv, uint32_t batch, uint32_t prompt, bool arena) {
    setup s = { .config = small(64), .real = true };
    s.options = options_of(kv, batch, prompt, quick() ? 12 : 64, arena);
    return s;
}

/* All strategies run the same kernels on the same rows, so they agree to the bit: but for a prefill
 * of many rows whose head computes all of them, which is BLAS's, and for runs without a cache while
 * their rows are few. */
static void check_bits(const record *run, const record *other, const mt_engine_options *o) {
    uint32_t rows = o->batch * o->prompt, few = FEW_ROWS / o->batch - o->prompt + 1;
    if (strcmp(o->kv, "none") != 0)
        assert_true(same_bits(run, other, o->logits_all && rows > FEW_ROWS, run->steps));
    else if (rows <= FEW_ROWS)
        assert_true(same_bits(run, other, 0, few < run->steps ? few : run->steps));
}

/* Every strategy, eager and arena, against one pass without a cache and against each other. */
static double check_parity(uint32_t batch, uint32_t prompt) {
    setup base = parity_setup("concat", batch, prompt, false);
    record run = record_run(&base, NULL), pass = record_pass(&base, &run);
    double worst = compare_records(&run, &pass);
    for (size_t i = 0; i < 2 * COUNT(strategies); i++) {
        setup s = parity_setup(strategies[i / 2], batch, prompt, i % 2 == 1);
        s.options.logits_all = i % 3 == 0;
        record other = record_run(&s, NULL);
        worst = fmax(worst, compare_records(&other, &pass));
        assert_memory_equal(other.next, run.next, run.steps * batch * sizeof(int32_t));
        check_bits(&run, &other, &s.options);
        record_free(&other);
    }
    record_free(&pass);
    record_free(&run);
    return worst;
}

static void test_cached_is_uncached(void **state) {
    (void)state;
    static const struct {
        uint32_t batch, prompt;
    } some[] = { { 1, 1 }, { 1, 3 }, { 2, 2 }, { 1, 21 }, { 3, 7 } };
    double worst = 0;
    for (size_t i = 0; i < COUNT(some); i += quick() ? 2 : 1)
        worst = fmax(worst, check_parity(some[i].batch, some[i].prompt));
    print_message("cached and uncached: at most %.2e of the largest logit apart\n", worst);
}

/* One causal pass of few rows is the cached run, bit for bit. */
static void test_short_pass_is_cached_run(void **state) {
    (void)state;
    for (uint32_t batch = 1; batch <= 2; batch++) {
        setup s = parity_setup("paged:5", batch, 1, false);
        s.options.ctx = FEW_ROWS / batch;
        record run = record_run(&s, NULL), pass = record_pass(&s, &run);
        assert_true(same_bits(&run, &pass, 0, run.steps));
        record_free(&run);
        record_free(&pass);
    }
}

/* ---- repeated steps -------------------------------------------------------------------------- */

static uint64_t kv_now(const rig *r) {
    return mt_alloc_ledger(r->alloc)->tag[MT_KV].current;
}

/* Feeds tokens up to ctx. */
static void feed_to(rig *r, const int32_t *ids, uint32_t ctx) {
    while (r->engine->tokens < ctx) {
        uint32_t at = r->engine->tokens, T = at == 0 ? r->engine->options.prompt : 1;
        int32_t next;
        must(mt_engine_step(r->engine, ids + at, T, &next, &r->err), &r->err);
    }
}

static void last_logits(rig *r, float *logits) {
    must(mt_engine_logits(r->engine, 0, 1, logits, &r->err), &r->err);
}

/* The last steps again and again: the cache does not grow, and the logits are the same. */
static void check_repeats(const char *spec) {
    setup s = { .config = small(64), .real = true };
    int32_t *ids = new_prompt(1, 33, s.config.vocab);
    float first[97], again[97];
    rig r;
    s.options = options_of(spec, 1, 3, 33, false);
    rig_open(&r, &s);
    must(rig_load(&r, &s), &r.err);
    for (uint32_t ctx = 4; ctx <= 33; ctx++) {
        feed_to(&r, ids, ctx);
        last_logits(&r, first);
        uint64_t kv = kv_now(&r);
        assert_int_equal(kv, r.engine->kv->ops->bytes(r.engine->kv, ctx));
        for (uint32_t back = 1; back <= 3; back++) {
            bool can = mt_engine_rewind(r.engine, ctx - back);
            assert_int_equal(can, mt_kv_find(spec)->repeats);
            assert_int_equal(r.engine->tokens, can ? ctx - back : ctx);
            feed_to(&r, ids, ctx);
            last_logits(&r, again);
            assert_memory_equal(first, again, sizeof first);
            assert_int_equal(kv_now(&r), kv);
        }
    }
    free(ids);
    rig_close(&r);
}

/* Every strategy of the table, at page sizes and capacities that a step meets and just misses. */
static void test_repeated_steps(void **state) {
    (void)state;
    const mt_kv_traits *t;
    for (size_t i = 0; (t = mt_kv_nth(i)) != NULL; i++) {
        static const int arguments[] = { 1, 2, 5, 16, 64 };
        for (size_t k = 0; k < (t->takes ? COUNT(arguments) : 1); k++) {
            char spec[32];
            snprintf(spec, sizeof spec, t->takes ? "%s:%d" : "%s", t->name, arguments[k]);
            check_repeats(spec);
        }
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static record threads_run(int threads, uint32_t prompt, const record *feed) {
    setup s = { .config = shape(2, 6, quick() ? 96 : 384, 300, 32),
                .real = true,
                .threads = threads };
    s.options = options_of("concat", 8, prompt, quick() ? 18 : 32, false);
    return record_run(&s, feed);
}

/* Wide enough for every kernel to be shared out. */
static void test_threads(void **state) {
    (void)state;
    record one = threads_run(1, 1, NULL), blas = threads_run(1, 16, NULL);
    double worst = 0;
    for (int threads = 2; threads <= (quick() ? 2 : 3); threads++) {
        record some = threads_run(threads, 1, NULL), other = threads_run(threads, 16, &blas);
        assert_true(same_bits(&one, &some, 0, one.steps));
        assert_memory_equal(one.next, some.next, one.steps * 8 * sizeof(int32_t));
        worst = fmax(worst, compare_records(&blas, &other));
        record_free(&some);
        record_free(&other);
    }
    print_message(
        "a prompt through BLAS, 1 to 3 threads: at most %.2e of the largest logit apart\n", worst);
    record_free(&one);
    record_free(&blas);
}

/* ---- wrong caches ---------------------------------------------------------------------------- */

/* Steps before the fault are the right run's to the bit; the ones from it on are not, but for the
 * exchange of whole places, which is a sum in another order. */
static void check_fault(const setup *s, const record *right, mt_fault_kind kind) {
    setup wrong = *s;
    mt_fault fault = { kind, 1, 12, s->config.positions };
    wrong.options.wrap = mt_kv_fault;
    wrong.options.wrapped_with = &fault;
    record r = record_run(&wrong, right);
    uint32_t before = 12 - s->options.prompt;
    size_t width = (size_t)r.B * r.V;
    assert_true(same_bits(&r, right, 0, before));
    double bound = RELATIVE * largest(right), changed = 0, most = 0;
    for (uint32_t step = before; step < r.steps; step++) {
        double d = difference(logits_at(&r, step, 0), logits_at(right, step, 0), width);
        changed += d > 10 * bound;
        most = fmax(most, d);
    }
    if (kind == MT_FAULT_SWAP_KV)
        assert_true(most > 0 && most <= bound);
    else
        assert_true(changed >= (r.steps - before) * 3 / 4);
    record_free(&r);
}

static void test_faults(void **state) {
    (void)state;
    static const char *const some[] = { "concat", "static", "doubling:8", "paged:5" };
    static const mt_fault_kind kinds[] = { MT_FAULT_SWAP_K, MT_FAULT_SWAP_KV, MT_FAULT_POSITION,
                                           MT_FAULT_STALE, MT_FAULT_MIX_KV };
    for (size_t i = 0; i < COUNT(some); i++) {
        setup s = parity_setup(some[i], 1, 2, false);
        s.options.ctx = 24;
        record right = record_run(&s, NULL);
        for (size_t k = 0; k < COUNT(kinds); k++)
            check_fault(&s, &right, kinds[k]);
        record_free(&right);
    }
}

/* ---- out of memory --------------------------------------------------------------------------- */

/* What a failure in the middle leaves: rows so far, a ledger that holds, no activations. */
static void check_middle(rig *r, uint32_t done) {
    const mt_ledger *l = mt_alloc_ledger(r->alloc);
    must(mt_alloc_check(r->alloc, &r->err), &r->err);
    assert_true(l->ooms > 0);
    if (r->engine == NULL)
        return;
    assert_int_equal(r->rows, done + 1);
    if (!r->engine->options.arena)
        assert_int_equal(l->tag[MT_ACTIVATIONS].current, 0);
}

/* A device that holds the weights and a third of what the steps add to them. */
static void check_out_of_memory(const char *kv, const char *policy) {
    setup s = { .config = small(300), .policy = policy };
    rig whole, r;
    uint32_t done;
    s.options = options_of(kv, 2, 3, 300, false);
    s.options.logits_all = true;
    rig_whole(&whole, &s);
    const mt_ledger *l = mt_alloc_ledger(whole.alloc);
    s.capacity = whole.row[0].reserved + (l->requested.peak - l->tag[MT_WEIGHTS].peak) / 3;
    rig_open(&r, &s);
    must_fail(rig_run(&r, &s, &done), MT_NO_MEMORY, &r.err);
    assert_true(done < 298);
    assert_int_equal(done == 0, strcmp(kv, "static") == 0 || strcmp(kv, "doubling") == 0);
    check_middle(&r, done);
    assert_int_equal(mt_alloc_refusal(r.alloc)->step, (int)done);
    assert_int_equal(mt_alloc_refusal(r.alloc)->capacity, s.capacity);
    for (uint32_t i = 0; i < r.rows; i++)
        assert_memory_equal(r.row[i].tag, whole.row[i].tag, sizeof r.row[i].tag);
    rig_close(&whole);
    rig_close(&r);
}

static void test_out_of_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(strategies); i++) {
        check_out_of_memory(strategies[i], "direct");
        check_out_of_memory(strategies[i], "block:16KiB");
    }
}

/* GPT-2 small on a device of 560 MiB. Under direct, where only rounding to pages is lost, the step
 * that fails is the one whose two caches do not fit. */
static void test_gpt2_out_of_memory(void **state) {
    (void)state;
    static const char *const policies[] = { "direct", "torch", "torch:expandable_segments:True" };
    for (size_t p = 0; p < COUNT(policies); p++) {
        setup s = { .config = gpt2(), .policy = policies[p], .capacity = 560 * MT_MIB };
        rig r;
        uint32_t done;
        s.options = options_of("concat-tuple", 1, 1, 1024, false);
        rig_open(&r, &s);
        must_fail(rig_run(&r, &s, &done), MT_NO_MEMORY, &r.err);
        check_middle(&r, done);
        for (uint64_t i = 1; i < r.rows; i++)
            assert_int_equal(r.row[i].tag[MT_KV], KV_TOKEN * i);
        uint64_t needs = expected_weights(&s.config) + KV_TOKEN * (2 * UINT64_C(1) * done + 1);
        assert_true(done > 0 && needs < 562 * MT_MIB);
        assert_true(p > 0 || needs > 558 * MT_MIB);
        rig_close(&r);
    }
}

/* Under direct every request is one of the source. */
static void test_every_request_fails(void **state) {
    (void)state;
    uint64_t runs = 0;
    for (size_t i = 0; i < COUNT(strategies) * 4; i++) {
        setup s = { .config = shape(2, 2, 16, 13, 8), .real = i % 2 == 1 };
        uint64_t stride = (s.real ? 4 : 1) * (quick() ? 3 : 1);
        s.options = options_of(strategies[i / 4], 2, 3, 7, i / 2 % 2 == 1);
        s.options.workspace = 1000;
        for (uint64_t n = 1, more = 1; more > 0; n += stride) {
            rig r;
            uint32_t done;
            s.fail_at = n;
            rig_open(&r, &s);
            mt_status status = rig_run(&r, &s, &done);
            more = r.source->fail_at == 0;
            assert_int_equal(status, more ? MT_NO_MEMORY : MT_OK);
            if (more) {
                must_fail(status, MT_NO_MEMORY, &r.err);
                check_middle(&r, done);
                assert_int_equal(mt_alloc_ledger(r.alloc)->allocs, n - 1);
            }
            rig_close(&r);
            runs++;
        }
    }
    print_message("%llu runs, each with one request refused\n", (unsigned long long)runs);
}

/* The other policies ask the source for more than one request's worth, and once more after giving
 * back what is free: here the device is full from some moment on. */
static void test_every_segment_fails(void **state) {
    (void)state;
    static const char *const policies[] = { "torch", "torch:expandable_segments:True",
                                            "block:1MiB" };
    uint64_t runs = 0;
    for (size_t i = 0; i < COUNT(strategies) * 6; i++) {
        setup s = { .config = shape(2, 4, 512, 3000, 8), .policy = policies[i / 2 % 3] };
        s.options = options_of(strategies[i / 6], 64, 3, 8, i % 2 == 1);
        s.options.workspace = 4 * MT_MIB;
        bool more = true;
        for (uint64_t n = 1; more; n += quick() ? 3 : 1) {
            rig r;
            uint32_t done;
            s.full_from = n;
            rig_open(&r, &s);
            mt_status status = rig_run(&r, &s, &done);
            more = full.met >= n;
            assert_int_equal(status, more ? MT_NO_MEMORY : MT_OK);
            if (more)
                check_middle(&r, done);
            rig_close(&r);
            runs++;
        }
    }
    print_message("%llu runs, each on a device that fills up\n", (unsigned long long)runs);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void test_bad_options(void **state) {
    (void)state;
    static const mt_engine_options bad[] = {
        { .batch = 1, .prompt = 1, .ctx = 65, .kv = "concat" }, /* more than positions */
        { .batch = 1, .prompt = 9, .ctx = 8, .kv = "concat" },
        { .batch = 1, .prompt = 0, .ctx = 8, .kv = "concat" },
        { .batch = 1, .prompt = 1, .ctx = UINT32_MAX, .kv = "concat" },
        { .batch = 0, .prompt = 1, .ctx = 8, .kv = "concat" },
        { .batch = (1 << 20) + 1, .prompt = 1, .ctx = 8, .kv = "concat" },
        { .batch = UINT32_MAX, .prompt = 1, .ctx = 64, .kv = "concat" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "concatenate" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "concat:3" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "concat-tuple:3" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "static:8" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "none:" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "paged" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "paged:0" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "paged:-1" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "paged:16x" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "doubling:0" },
        { .batch = 1, .prompt = 1, .ctx = 8, .kv = "doubling:99999999999999999999" },
    };
    setup s = { .config = small(64) };
    rig r;
    s.options = options_of("concat", 1, 1, 8, false);
    rig_open(&r, &s);
    must(rig_load(&r, &s), &r.err);
    uint64_t allocs = mt_alloc_ledger(r.alloc)->allocs;
    for (size_t i = 0; i < COUNT(bad); i++) {
        mt_engine *e = NULL;
        must_fail(mt_engine_open(&e, r.model, &bad[i], &r.err), MT_BAD, &r.err);
        assert_null(e);
    }
    assert_int_equal(mt_alloc_ledger(r.alloc)->allocs, allocs);
    rig_close(&r);
}

/* Sizes at the edge: 2^31 rows are refused; just below, a dry run of one step counts them all. */
static void test_huge_batch(void **state) {
    (void)state;
    setup s = { .config = shape(1, 1, 8, 5, 2048), .capacity = UINT64_C(1) << 50 };
    rig r;
    uint32_t done;
    mt_engine *e = NULL;
    s.options = options_of("paged:2048", 1 << 13, 2048, 2048, false);
    s.options.logits_all = true;
    rig_open(&r, &s);
    must(rig_load(&r, &s), &r.err);
    mt_engine_options over = s.options;
    over.batch = 1 << 20;
    must_fail(mt_engine_open(&e, r.model, &over, &r.err), MT_BAD, &r.err);
    must(rig_generate(&r, &done), &r.err);
    assert_int_equal(r.row[1].tag[MT_LOGITS], UINT64_C(5) * 4 << 24);
    assert_int_equal(r.row[1].tag[MT_KV], UINT64_C(2) * 32 << 24);
    rig_close(&r);
}

static void test_bad_steps(void **state) {
    (void)state;
    static const int32_t ids[64] = { 0 };
    float logits[97];
    setup s = { .config = small(64), .real = true };
    int32_t next;
    rig r;
    s.options = options_of("concat", 1, 5, 8, false);
    rig_open(&r, &s);
    must(rig_load(&r, &s), &r.err);
    must_fail(mt_engine_step(r.engine, ids, 0, &next, &r.err), MT_BAD, &r.err);
    must_fail(mt_engine_step(r.engine, ids, 9, &next, &r.err), MT_BAD, &r.err);
    must_fail(mt_engine_step(r.engine, ids, UINT32_MAX, &next, &r.err), MT_BAD, &r.err);
    must(mt_engine_step(r.engine, ids, 5, &next, &r.err), &r.err);
    must_fail(mt_engine_step(r.engine, ids, 4, &next, &r.err), MT_BAD, &r.err);
    must(mt_engine_logits(r.engine, 0, 1, logits, &r.err), &r.err);
    must_fail(mt_engine_logits(r.engine, 1, 1, logits, &r.err), MT_CHECK, &r.err);
    must_fail(mt_engine_logits(r.engine, 0, 2, logits, &r.err), MT_CHECK, &r.err);
    must_fail(mt_engine_logits(r.engine, UINT32_MAX, 2, logits, &r.err), MT_CHECK, &r.err);
    must(mt_engine_step(r.engine, ids, 3, &next, &r.err), &r.err);
    must_fail(mt_engine_step(r.engine, ids, 1, &next, &r.err), MT_BAD, &r.err);
    rig_close(&r);
}

/* An id that is no word is the device's to find; what the step took is given back. */
static void test_bad_id(void **state) {
    (void)state;
    static const int32_t bad[] = { 97, -1, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < COUNT(bad) * 2; i++) {
        setup s = { .config = small(64), .real = true };
        int32_t ids[5] = { 0, 1, 2, bad[i / 2], 4 }, next;
        rig r;
        s.options = options_of("concat", 1, 5, 8, i % 2 == 1);
        rig_open(&r, &s);
        must(rig_load(&r, &s), &r.err);
        mt_status status = mt_engine_step(r.engine, ids, 5, &next, &r.err);
        assert_true(status == MT_BAD || status == MT_FAILED);
        assert_true(r.err.text[0] != '\0');
        if (i % 2 == 0)
            assert_int_equal(mt_alloc_ledger(r.alloc)->tag[MT_ACTIVATIONS].current, 0);
        rig_close(&r);
    }
}

/* Logits of a step that was refused its own are still the step's before. */
static void test_logits_after_refusal(void **state) {
    (void)state;
    setup s = { .config = small(64), .real = true };
    int32_t ids[4] = { 1, 2, 3, 4 }, next;
    float before[97], after[97];
    rig r;
    s.options = options_of("none", 1, 2, 8, false);
    s.options.logits_all = true;
    rig_open(&r, &s);
    must(rig_load(&r, &s), &r.err);
    must(mt_engine_step(r.engine, ids, 2, &next, &r.err), &r.err);
    must(mt_engine_logits(r.engine, 1, 1, before, &r.err), &r.err);
    r.source->fail_at = 2 + 4 * 5 + 1 + 1; /* ids, x, five a layer, ln_f, logits */
    must_fail(mt_engine_step(r.engine, ids + 2, 1, &next, &r.err), MT_NO_MEMORY, &r.err);
    assert_int_equal(mt_alloc_refusal(r.alloc)->request.tag, MT_LOGITS);
    must(mt_engine_logits(r.engine, 1, 1, after, &r.err), &r.err);
    assert_memory_equal(before, after, sizeof before);
    must_fail(mt_engine_logits(r.engine, 2, 1, after, &r.err), MT_CHECK, &r.err);
    rig_close(&r);
}

/* A cache that this program cannot read cannot be damaged either. */
static void test_fault_needs_memory(void **state) {
    (void)state;
    setup s = { .config = small(64) };
    rig r;
    uint32_t done;
    s.options = options_of("concat", 1, 1, 8, false);
    const mt_fault fault = { MT_FAULT_SWAP_K, 0, 5, 64 };
    s.options.wrap = mt_kv_fault;
    s.options.wrapped_with = &fault;
    rig_open(&r, &s);
    must_fail(rig_run(&r, &s, &done), MT_BAD, &r.err);
    assert_int_equal(done, 4);
    rig_close(&r);
}

/* ---- generation and loading ------------------------------------------------------------------ */

static uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* The definition once more, in this file's own words. */
static void test_seeded_prompt(void **state) {
    (void)state;
    int32_t ids[12];
    uint32_t hash = 0x811c9dc5u;
    for (const char *c = "prompt"; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x01000193u;
    mt_seeded_prompt(ids, 3, 4, 42, 50257);
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(ids[i], mixed(mixed(i) ^ mixed(hash + 42)) % 50257);
}

typedef struct stopper {
    uint32_t steps, last;
} stopper;

static mt_status stop_at(void *context, uint32_t step, uint32_t ctx, const int32_t *next) {
    stopper *s = context;
    (void)next;
    assert_int_equal(step, s->steps++);
    assert_int_equal(ctx, step + 4);
    return step == s->last ? MT_INTERRUPTED : MT_OK;
}

/* ids[B, steps], the caller's stop, and the stop of an id that every sequence has met. */
static void test_generation(void **state) {
    (void)state;
    setup s = { .config = small(64), .real = true };
    s.options = options_of("concat", 2, 4, 20, false);
    record run = record_run(&s, NULL);
    int32_t *prompt = new_prompt(2, 4, 97), ids[2 * 17];
    for (uint32_t last = 0; last < 17; last++) {
        stopper stop = { 0, last };
        mt_generation g = { .on_step = stop_at, .context = &stop, .stop = -1 };
        rig r;
        uint32_t done;
        rig_open(&r, &s);
        must(rig_load(&r, &s), &r.err);
        must_fail(mt_generate(r.engine, prompt, &g, ids, &done, &r.err), MT_INTERRUPTED, &r.err);
        assert_int_equal(done, last + 1);
        assert_int_equal(r.rows, last + 2);
        for (uint32_t i = 0; i < 2 * done; i++)
            assert_int_equal(ids[i % 2 * 17 + i / 2], run.next[i]);
        rig_close(&r);
    }
    free(prompt);
    record_free(&run);
}

/* The first step after which every sequence has met the id; all steps when that never happens. */
static uint32_t steps_until(const record *run, int32_t id) {
    bool met[8] = { false };
    uint32_t missing = run->B;
    for (uint32_t step = 0; step < run->steps; step++) {
        for (uint32_t b = 0; b < run->B; b++)
            if (run->next[step * run->B + b] == id && !met[b]) {
                met[b] = true;
                missing--;
            }
        if (missing == 0)
            return step + 1;
    }
    return run->steps;
}

/* A run that stops at an id. Returns whether that was before its end. */
static bool check_stop(const setup *s, const record *run, int32_t id) {
    mt_generation g = { .stop = id };
    int32_t *prompt = new_prompt(run->B, s->options.prompt, run->V);
    rig r;
    uint32_t done;
    rig_open(&r, s);
    must(rig_load(&r, s), &r.err);
    must(mt_generate(r.engine, prompt, &g, NULL, &done, &r.err), &r.err);
    assert_int_equal(done, steps_until(run, id));
    rig_close(&r);
    free(prompt);
    return done < run->steps;
}

static void test_stop_id(void **state) {
    (void)state;
    uint32_t early = 0, late = 0;
    for (uint32_t vocab = 3; vocab < 11; vocab++) {
        setup s = { .config = shape(2, 2, 32, vocab, 64), .real = true };
        s.options = options_of("static", 2, 4, 40, false);
        record run = record_run(&s, NULL);
        for (int32_t id = 0; id < 3; id++)
            *(check_stop(&s, &run, id) ? &early : &late) += 1;
        record_free(&run);
    }
    assert_true(early > 0 && late > 0);
}

/* ---- interrupts ------------------------------------------------------------------------------ */

typedef struct loading {
    uint64_t calls, done;
} loading;

static void on_load(void *context, uint64_t done, uint64_t total) {
    loading *l = context;
    l->calls++;
    assert_true(done > l->done && done <= total);
    assert_int_equal(total, 4 * (97 * 64 + 64 * 64 + 4 * (12 * 64 * 64 + 13 * 64) + 2 * 64));
    l->done = done;
}

/* Someone looks before each tensor; what was loaded is given back. */
static void test_stopped_loading(void **state) {
    (void)state;
    for (uint64_t from = 1; from <= 53; from++) {
        setup s = { .config = small(64), .real = from % 2 == 0 };
        loading l = { 0, 0 };
        rig r;
        rig_open(&r, &s);
        watch_interrupts(from);
        mt_status status =
            mt_model_load(&r.model, r.ck, &s.config, r.alloc, r.device, 1, on_load, &l, &r.err);
        mt_interrupt_by(NULL);
        assert_int_equal(l.calls, from - 1);
        assert_int_equal(status, from <= 52 ? MT_INTERRUPTED : MT_OK);
        assert_int_equal(r.model == NULL, from <= 52);
        rig_close(&r);
    }
}

/* In a pass someone looks at least once a layer, whatever the pass and whoever asks for it; the
 * pass ends at the look that is answered, and gives back what it took. */
static void check_looks(const char *kv, bool arena, bool real) {
    setup s = { .config = small(64), .real = real };
    rig r;
    uint32_t done;
    s.options = options_of(kv, 2, 3, 9, arena);
    rig_open(&r, &s);
    must(mt_model_load(&r.model, r.ck, &s.config, r.alloc, r.device, 1, NULL, NULL, &r.err),
         &r.err);
    watch_interrupts(0);
    must(mt_engine_open(&r.engine, r.model, &s.options, &r.err), &r.err);
    assert_true(interrupt.looks >= (arena ? 7 * s.config.layers : 0)); /* it plans every step */
    watch_interrupts(0);
    must(rig_generate(&r, &done), &r.err);
    assert_true(interrupt.looks >= 7 * s.config.layers);
    mt_interrupt_by(NULL);
    rig_close(&r);
    for (uint64_t from = 1; from <= 7 * s.config.layers; from += 3) {
        rig_open(&r, &s);
        must(rig_load(&r, &s), &r.err);
        watch_interrupts(from);
        must_fail(rig_generate(&r, &done), MT_INTERRUPTED, &r.err);
        mt_interrupt_by(NULL);
        assert_int_equal(interrupt.looks, from);
        assert_int_equal(done, (from - 1) / s.config.layers);
        if (!arena)
            assert_int_equal(mt_alloc_ledger(r.alloc)->tag[MT_ACTIVATIONS].current, 0);
        rig_close(&r);
    }
}

static void test_interrupted_passes(void **state) {
    const mt_kv_traits *t;
    (void)state;
    for (size_t i = 0; (t = mt_kv_nth(i)) != NULL; i++) {
        char spec[32];
        snprintf(spec, sizeof spec, t->takes ? "%s:4" : "%s", t->name);
        check_looks(spec, false, true);
        check_looks(spec, true, true);
        check_looks(spec, i % 2 == 0, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nano_tensors),
        cmocka_unit_test(test_nano_greedy),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_gpt2_concat),
        cmocka_unit_test(test_gpt2_others),
        cmocka_unit_test(test_order_of_loading),
        cmocka_unit_test(test_order_of_weights),
        cmocka_unit_test(test_order_concat),
        cmocka_unit_test(test_order_concat_tuple),
        cmocka_unit_test(test_order_doubling),
        cmocka_unit_test(test_order_paged),
        cmocka_unit_test(test_order_static),
        cmocka_unit_test(test_dry_is_real),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_cached_is_uncached),
        cmocka_unit_test(test_short_pass_is_cached_run),
        cmocka_unit_test(test_repeated_steps),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_gpt2_out_of_memory),
        cmocka_unit_test(test_every_request_fails),
        cmocka_unit_test(test_every_segment_fails),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_huge_batch),
        cmocka_unit_test(test_bad_steps),
        cmocka_unit_test(test_bad_id),
        cmocka_unit_test(test_logits_after_refusal),
        cmocka_unit_test(test_fault_needs_memory),
        cmocka_unit_test(test_seeded_prompt),
        cmocka_unit_test(test_generation),
        cmocka_unit_test(test_stop_id),
        cmocka_unit_test(test_stopped_loading),
        cmocka_unit_test(test_interrupted_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
