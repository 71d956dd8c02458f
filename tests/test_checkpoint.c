/* test_checkpoint.c - the three kinds of checkpoint: seeded values against known answers, files of
 * both formats written from seeded values and read back, every kind of broken file, and small
 * trained checkpoints: our own against checksums, one of the shared data against its JSON form. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <zlib.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/seeded.h"
#include "tests/temp_files.h"

/* No length is a multiple of a tile, some are longer than one, and no two are equal. */
static const mt_config SHAPE = { .layers = 2,
                                 .heads = 3,
                                 .width = 78,
                                 .vocab = 131,
                                 .positions = 11,
                                 .inner = 312,
                                 .epsilon = 1e-5f,
                                 .tied = true,
                                 .dtype = MT_F32 };

static uint32_t bits(float value) {
    uint32_t b;
    memcpy(&b, &value, sizeof b);
    return b;
}

/* ---- reading --------------------------------------------------------------------------------- */

static mt_checkpoint *open_good(const char *path) {
    mt_checkpoint *ck;
    mt_error err = { 0 };
    if (mt_checkpoint_open(&ck, path, &err) != MT_OK)
        fail_msg("%s", err.text);
    return ck;
}

static mt_checkpoint *seeded(const mt_config *c, uint64_t seed) {
    mt_checkpoint *ck;
    assert_int_equal(mt_checkpoint_seeded(&ck, c, seed, NULL), MT_OK);
    return ck;
}

/* All of tensor i; free() it. */
static float *read_all(mt_checkpoint *ck, uint32_t i, int threads) {
    mt_tensor t;
    mt_tensor_at(mt_checkpoint_config(ck), i, &t);
    float *values = malloc(t.rows * t.cols * sizeof *values);
    mt_threads *pool;
    assert_non_null(values);
    assert_int_equal(mt_threads_open(&pool, threads, NULL), MT_OK);
    assert_int_equal(mt_checkpoint_read(ck, i, 0, t.rows, values, pool, NULL), MT_OK);
    mt_threads_close(pool);
    return values;
}

static void assert_same_values(const mt_tensor *t, const float *a, const float *b, uint64_t n) {
    for (uint64_t k = 0; k < n; k++)
        if (bits(a[k]) != bits(b[k]))
            fail_msg("%s: element %llu is %a, expected %a", t->name, (unsigned long long)k,
                     (double)a[k], (double)b[k]);
}

/* Every tensor of a equals that of b, read whole, again, and in uneven parts. */
static void assert_equal_checkpoints(mt_checkpoint *a, mt_checkpoint *b) {
    const mt_config *c = mt_checkpoint_config(a);
    assert_int_equal(mt_tensor_count(c), mt_tensor_count(mt_checkpoint_config(b)));
    for (uint32_t i = 0; i < mt_tensor_count(c); i++) {
        mt_tensor t;
        mt_tensor_at(c, i, &t);
        const uint64_t n = t.rows * t.cols;
        float *x = read_all(a, i, 1), *y = read_all(b, i, 2), *z = read_all(a, i, 3);
        assert_same_values(&t, x, y, n);
        assert_same_values(&t, z, y, n);
        memset(x, 0xff, n * sizeof *x);
        for (uint64_t first = 0, rows = 1; first < t.rows; first += rows, rows = 2 * rows + 1) {
            rows = rows < t.rows - first ? rows : t.rows - first;
            assert_int_equal(mt_checkpoint_read(a, i, first, rows, x + first * t.cols, NULL, NULL),
                             MT_OK);
        }
        assert_same_values(&t, x, y, n);
        free(x);
        free(y);
        free(z);
    }
}

static void assert_refused(const char *path, const char *part) {
    mt_checkpoint *ck = (mt_checkpoint *)&SHAPE;
    mt_error err = { 0 };
    mt_status status = mt_checkpoint_open(&ck, path, &err);
    if (status != MT_BAD || err.status != MT_BAD || ck != NULL)
        fail_msg("%s: status %d, expected %d for \"%s\"", path, status, MT_BAD, part);
    assert_null(strchr(err.text, '\n'));
    if (strncmp(err.text, path, strlen(path)) != 0 || strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not name the file and \"%s\"", err.text, part);
    assert_int_equal(mt_checkpoint_open(&ck, path, NULL), MT_BAD);
}

static void assert_source(const mt_checkpoint *ck, const char *path, const char *rest) {
    char expected[400];
    snprintf(expected, sizeof expected, "%s%s", path, rest);
    assert_string_equal(mt_checkpoint_source(ck), expected);
}

/* ---- seeded values --------------------------------------------------------------------------- */

/* The three scales of seeded.c. */
#define EMBEDDING 0.5f
#define SMALL     0.125f /* attn.c_attn.weight and biases */
#define OTHERS    0.25f

static uint32_t index_of(const mt_config *c, const char *name) {
    for (uint32_t i = 0; i < mt_tensor_count(c); i++) {
        mt_tensor t;
        mt_tensor_at(c, i, &t);
        if (strcmp(t.name, name) == 0)
            return i;
    }
    fail_msg("no tensor %s", name);
    return 0;
}

/* Element k of a tensor, read with as few rows as it takes. */
static float element(mt_checkpoint *ck, const char *name, uint64_t k) {
    const mt_config *c = mt_checkpoint_config(ck);
    mt_tensor t;
    mt_tensor_at(c, index_of(c, name), &t);
    float *row = malloc(t.cols * sizeof *row);
    assert_int_equal(mt_checkpoint_read(ck, index_of(c, name), k / t.cols, 1, row, NULL, NULL),
                     MT_OK);
    const float value = row[k % t.cols];
    free(row);
    return value;
}

/* The hashes come from a separate program in Python that follows the text of checkpoint.h. */
static const struct {
    const char *name;
    uint64_t i, seed;
    uint32_t hash;
    float scale;
    int one;
} ANSWERS[] = {
    { "wte.weight", 0, 0x0, 0xb460b866u, EMBEDDING, 0 },
    { "wte.weight", 1, 0x0, 0x903fa4b7u, EMBEDDING, 0 },
    { "wte.weight", 38597375, 0x0, 0x527b8920u, EMBEDDING, 0 },
    { "wte.weight", 767, 0x1, 0xe3b0e95fu, EMBEDDING, 0 },
    { "wpe.weight", 0, 0x0, 0x1b03bb76u, EMBEDDING, 0 },
    { "wpe.weight", 786431, 0x1, 0x5db97eb5u, EMBEDDING, 0 },
    { "h.0.ln_1.weight", 0, 0x0, 0x8438683fu, OTHERS, 1 },
    { "h.0.ln_1.weight", 5, 0x100000007ull, 0x53b6bacau, OTHERS, 1 },
    { "h.3.ln_2.bias", 17, 0x0, 0xab4006d8u, SMALL, 0 },
    { "h.11.attn.c_attn.weight", 1769471, 0x0, 0x3295e398u, SMALL, 0 },
    { "h.5.attn.c_proj.weight", 1, 0x0, 0x06a0ab7bu, OTHERS, 0 },
    { "h.5.attn.c_proj.bias", 1, 0x1, 0x4e807dddu, SMALL, 0 },
    { "h.7.mlp.c_proj.weight", 2359295, 0x100000007ull, 0x325cefdfu, OTHERS, 0 },
    { "h.7.mlp.c_fc.weight", 4096, 0x1, 0xa927d47au, OTHERS, 0 },
    { "ln_f.weight", 767, 0x0, 0xe5647064u, OTHERS, 1 },
    { "lm_head.weight", 2, 0x0, 0x78f77a10u, OTHERS, 0 },
};

static void test_seeded_answers(void **state) {
    (void)state;
    mt_config c;
    assert_true(mt_config_preset("gpt2", &c));
    c.tied = false;
    for (size_t i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        const uint32_t key = mt_seeded_key(ANSWERS[i].name, ANSWERS[i].seed);
        assert_int_equal(mt_seeded_hash(key, (uint32_t)ANSWERS[i].i), ANSWERS[i].hash);
        const double u = ((double)(ANSWERS[i].hash >> 8) - 8388608) / 8388608;
        const float product = (float)(u * (double)ANSWERS[i].scale);
        mt_checkpoint *ck = seeded(&c, ANSWERS[i].seed);
        const float value = element(ck, ANSWERS[i].name, ANSWERS[i].i);
        assert_int_equal(bits(value), bits(product + (float)ANSWERS[i].one));
        mt_checkpoint_close(ck);
    }
}

/* The index of an element is taken modulo 2^32. */
static void test_seeded_wraps(void **state) {
    (void)state;
    mt_config c;
    assert_true(mt_config_preset("gpt2-medium", &c));
    c.vocab = 1 << 24;
    mt_checkpoint *ck = seeded(&c, 0);
    const float u = (float)((int32_t)(0x1d732f38u >> 8) - (1 << 23)) * 0x1p-23f;
    assert_int_equal(bits(element(ck, "wte.weight", 5120000003u)), bits(EMBEDDING * u));
    assert_int_equal(bits(element(ck, "wte.weight", 825032707)), bits(EMBEDDING * u));
    mt_checkpoint_close(ck);
}

static void test_seeded_parts(void **state) {
    (void)state;
    mt_checkpoint *a = seeded(&SHAPE, 5), *b = seeded(&SHAPE, 5), *other = seeded(&SHAPE, 6);
    assert_equal_checkpoints(a, b);
    assert_string_equal(mt_checkpoint_source(a), "seeded 5");
    assert_int_not_equal(bits(element(a, "ln_f.bias", 0)), bits(element(other, "ln_f.bias", 0)));
    mt_checkpoint_close(a);
    mt_checkpoint_close(b);
    mt_checkpoint_close(other);
}

/* More elements than one thread is given at a time: all splits give the same. */
static void test_seeded_threads(void **state) {
    (void)state;
    mt_config c = SHAPE;
    c.vocab = 4001;
    mt_checkpoint *ck = seeded(&c, 9);
    float *one = read_all(ck, 0, 1), *many = read_all(ck, 0, 5), *none = read_all(ck, 0, 0);
    const mt_tensor t = { .name = "wte" };
    double sum = 0, most = 0;
    const uint64_t n = (uint64_t)c.vocab * c.width;
    assert_same_values(&t, many, one, n);
    assert_same_values(&t, none, one, n);
    for (uint64_t k = 0; k < n; k++) {
        sum += (double)one[k];
        most = fmax(most, fabs((double)one[k]));
    }
    assert_true(fabs(sum / (double)n) < 8e-3 && most <= (double)EMBEDDING &&
                most > 0.99 * (double)EMBEDDING);
    free(one);
    free(many);
    free(none);
    mt_checkpoint_close(ck);
}

static void test_seeded_refused(void **state) {
    (void)state;
    mt_config c = SHAPE;
    mt_checkpoint *ck;
    mt_error err;
    c.heads = 5;
    assert_int_equal(mt_checkpoint_seeded(&ck, &c, 0, &err), MT_BAD);
    assert_null(ck);
    mt_checkpoint_close(NULL);
}

static void test_read_range(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 0);
    mt_error err;
    float x[78] = { 0 };
    assert_int_equal(mt_checkpoint_read(ck, 28, 0, 1, x, NULL, &err), MT_BAD);
    assert_non_null(strstr(err.text, "tensor index 28, expected one below 28"));
    assert_int_equal(mt_checkpoint_read(ck, 0, 131, 1, x, NULL, &err), MT_BAD);
    assert_non_null(strstr(err.text, "tensor wte.weight: 1 rows from 131 requested, it has 131"));
    assert_int_equal(mt_checkpoint_read(ck, 0, UINT64_MAX, 1, x, NULL, &err), MT_BAD);
    assert_int_equal(mt_checkpoint_read(ck, 0, 1, UINT64_MAX, x, NULL, &err), MT_BAD);
    assert_int_equal(mt_checkpoint_read(ck, 0, 131, 0, x, NULL, &err), MT_OK);
    assert_int_equal(bits(x[0]), 0);
    assert_int_equal(mt_checkpoint_read(ck, 0, 130, 1, x, NULL, &err), MT_OK);
    assert_int_not_equal(bits(x[0]), 0);
    mt_checkpoint_close(ck);
}

/* ---- writing a Hugging Face folder ----------------------------------------------------------- */

typedef struct item {
    char name[80];
    const char *type;
    uint32_t dims;
    uint64_t shape[4];
    void *data;
    size_t bytes;
} item;

/* The tensors of a file in the making. */
typedef struct builder {
    item items[64];
    size_t count;
} builder;

static void add(builder *b, const char *name, const char *type, uint32_t dims,
                const uint64_t *shape, const void *data, size_t bytes) {
    item *it = &b->items[b->count++];
    assert_true(b->count <= 64);
    *it = (item){ .type = type, .dims = dims, .data = malloc(bytes + 1), .bytes = bytes };
    snprintf(it->name, sizeof it->name, "%s", name);
    memcpy(it->shape, shape, dims * sizeof *shape);
    memcpy(it->data, data, bytes);
}

static item *item_named(builder *b, const char *name) {
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->items[i].name, name) == 0)
            return &b->items[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void drop(builder *b, const char *name) {
    item *it = item_named(b, name);
    free(it->data);
    *it = b->items[--b->count];
}

static void builder_free(builder *b) {
    for (size_t i = 0; i < b->count; i++)
        free(b->items[i].data);
    free(b);
}

/* Fills a builder with all tensors of ck as Hugging Face names and stores them. */
static builder *build(mt_checkpoint *ck, const char *prefix) {
    builder *b = calloc(1, sizeof *b);
    const mt_config *c = mt_checkpoint_config(ck);
    for (uint32_t i = 0; i < mt_tensor_count(c); i++) {
        mt_tensor t;
        char name[80];
        mt_tensor_at(c, i, &t);
        float *values = read_all(ck, i, 1), *turned = malloc(t.rows * t.cols * sizeof *turned);
        for (uint64_t r = 0; r < t.rows; r++)
            for (uint64_t k = 0; k < t.cols; k++)
                turned[k * t.rows + r] = values[r * t.cols + k];
        const uint64_t as_is[] = { t.rows, t.cols }, flipped[] = { t.cols, t.rows };
        snprintf(name, sizeof name, "%s%s", strcmp(t.name, "lm_head.weight") ? prefix : "", t.name);
        add(b, name, "F32", t.vector ? 1 : 2,
            t.vector   ? &t.cols
            : t.conv1d ? flipped
                       : as_is,
            t.conv1d ? turned : values, t.rows * t.cols * sizeof *values);
        free(values);
        free(turned);
    }
    return b;
}

/* Writes the file; the data begin at an address that is a multiple of 4 or not, as `pad` wants. */
static const char *write_tensors(const builder *b, const char *name, int pad) {
    char *text;
    size_t n;
    uint64_t at = 0;
    FILE *f = open_memstream(&text, &n);
    fwrite(&at, 8, 1, f);
    for (size_t i = 0; i < b->count; i++) {
        const item *it = &b->items[i];
        fprintf(f, "%c\"%s\": {\"dtype\": \"%s\", \"shape\": [", i ? ',' : '{', it->name, it->type);
        for (uint32_t k = 0; k < it->dims; k++)
            fprintf(f, "%s%llu", k ? ", " : "", (unsigned long long)it->shape[k]);
        fprintf(f, "], \"data_offsets\": [%llu, %llu]}", (unsigned long long)at,
                (unsigned long long)(at + it->bytes));
        at += it->bytes;
    }
    fprintf(f, "}");
    for (fflush(f); n % 4 != (size_t)pad; fflush(f))
        fputc(' ', f);
    const uint64_t length = n - 8;
    for (size_t i = 0; i < b->count; i++)
        fwrite(b->items[i].data, 1, b->items[i].bytes, f);
    fclose(f);
    memcpy(text, &length, 8);
    const char *path = temp_write(name, text, n);
    free(text);
    return path;
}

static void write_config(const mt_config *c, const char *name) {
    char text[400];
    int n = snprintf(text, sizeof text,
                     "{\"model_type\": \"gpt2\", \"n_layer\": %u, \"n_head\": %u, \"n_embd\": %u, "
                     "\"vocab_size\": %u, \"n_positions\": %u, \"n_inner\": %u, "
                     "\"tie_word_embeddings\": %s}",
                     c->layers, c->heads, c->width, c->vocab, c->positions, c->inner,
                     c->tied ? "true" : "false");
    temp_write(name, text, (size_t)n);
}

/* Writes both files into the folder "hf" and returns its path. */
static const char *write_folder(const mt_config *c, const builder *b) {
    (void)mkdir(temp_path("hf"), 0700);
    write_config(c, "hf/config.json");
    write_tensors(b, "hf/model.safetensors", 0);
    return temp_path("hf");
}

/* ---- good Hugging Face folders --------------------------------------------------------------- */

static void test_folder(void **state) {
    (void)state;
    static const char *const prefixes[] = { "", "transformer." };
    mt_config c = SHAPE;
    for (int tied = 0; tied < 2; tied++)
        for (int p = 0; p < 2; p++) {
            c.tied = tied;
            mt_checkpoint *ck = seeded(&c, 3);
            builder *b = build(ck, prefixes[p]);
            const char *path = write_folder(&c, b);
            mt_checkpoint *hf = open_good(path);
            assert_equal_checkpoints(hf, ck);
            assert_source(hf, path, " (safetensors)");
            assert_int_equal(mt_checkpoint_config(hf)->tied, tied);
            assert_int_equal(mt_checkpoint_config(hf)->inner, 312);
            mt_checkpoint_close(hf);
            mt_checkpoint_close(ck);
            builder_free(b);
        }
}

/* Data at any alignment, a direct path, a path without a folder, and slashes at the end. */
static void test_paths(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 4);
    builder *b = build(ck, "");
    char old[400], slashes[200];
    for (int pad = 0; pad < 4; pad++) {
        write_config(&SHAPE, "config.json");
        mt_checkpoint *hf = open_good(write_tensors(b, "x.safetensors", pad));
        assert_equal_checkpoints(hf, ck);
        mt_checkpoint_close(hf);
    }
    snprintf(slashes, sizeof slashes, "%s///", write_folder(&SHAPE, b));
    mt_checkpoint_close(open_good(slashes));
    assert_non_null(getcwd(old, sizeof old));
    assert_int_equal(chdir(temp_path("hf")), 0);
    mt_checkpoint_close(open_good("model.safetensors"));
    mt_checkpoint_close(open_good("./model.safetensors"));
    mt_checkpoint_close(open_good("."));
    assert_int_equal(chdir(old), 0);
    builder_free(b);
    mt_checkpoint_close(ck);
}

/* Shapes cannot tell a square matrix from its transpose: look at the values. */
static void test_square_projection(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    builder *b = build(ck, "transformer.");
    float *stored = item_named(b, "transformer.h.1.attn.c_proj.weight")->data;
    for (int in = 0; in < 78; in++)
        for (int out = 0; out < 78; out++)
            stored[in * 78 + out] = (float)(1000 * in + out);
    mt_checkpoint *hf = open_good(write_folder(&SHAPE, b));
    float *w = read_all(hf, index_of(&SHAPE, "h.1.attn.c_proj.weight"), 2);
    for (int out = 0; out < 78; out++)
        for (int in = 0; in < 78; in++)
            assert_true(w[out * 78 + in] == (float)(1000 * in + out));
    free(w);
    mt_checkpoint_close(hf);
    builder_free(b);
    mt_checkpoint_close(ck);
}

/* Large enough for the threads to share one matrix. */
static void test_large_matrix(void **state) {
    (void)state;
    mt_config c = SHAPE;
    c.layers = 1;
    c.width = 258;
    c.inner = 1031;
    mt_checkpoint *ck = seeded(&c, 8);
    builder *b = build(ck, "");
    mt_checkpoint *hf = open_good(write_folder(&c, b));
    assert_equal_checkpoints(hf, ck);
    mt_checkpoint_close(hf);
    builder_free(b);
    mt_checkpoint_close(ck);
}

static void add_masks(builder *b, const char *prefix) {
    static const float zeros[121];
    static const uint64_t square[] = { 1, 1, 11, 11 }, scalar[] = { 0 };
    for (int l = 0; l < 2; l++) {
        char name[80];
        snprintf(name, sizeof name, "%sh.%d.attn.bias", prefix, l);
        add(b, name, l == 0 ? "F32" : "BOOL", 4, square, zeros, l == 0 ? 484 : 121);
        snprintf(name, sizeof name, "%sh.%d.attn.masked_bias", prefix, l);
        add(b, name, "F32", 0, scalar, zeros, 4);
    }
}

static void test_masks(void **state) {
    (void)state;
    static const char *const prefixes[] = { "", "transformer." };
    for (int p = 0; p < 2; p++) {
        mt_checkpoint *ck = seeded(&SHAPE, 3);
        builder *b = build(ck, prefixes[p]);
        add_masks(b, prefixes[p]);
        const char *path = write_folder(&SHAPE, b);
        mt_checkpoint *hf = open_good(path);
        assert_equal_checkpoints(hf, ck);
        assert_source(hf, path, " (safetensors, 613 B of mask buffers skipped)");
        mt_checkpoint_close(hf);
        builder_free(b);
        mt_checkpoint_close(ck);
    }
}

static void test_other_tensors(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    builder *b = build(ck, "");
    const uint64_t shape[] = { 3 };
    add(b, "score.weight", "F64", 1, shape, "012345670123456701234567", 24);
    const char *path = write_folder(&SHAPE, b);
    mt_checkpoint *hf = open_good(path);
    assert_source(hf, path, " (safetensors, 24 B of 1 other tensor (score.weight) skipped)");
    mt_checkpoint_close(hf);
    /* Of two the first by name is shown; names near a mask's are no masks. */
    add(b, "h.0.attn.biases", "U8", 1, shape, "012", 3);
    add_masks(b, "");
    path = write_folder(&SHAPE, b);
    hf = open_good(path);
    assert_source(hf, path,
                  " (safetensors, 613 B of mask buffers, 27 B of 2 other tensors "
                  "(h.0.attn.biases, ...) skipped)");
    assert_equal_checkpoints(hf, ck);
    mt_checkpoint_close(hf);
    builder_free(b);
    mt_checkpoint_close(ck);
}

/* A tied head may be in the file again if it is the same. */
static void test_tied_head_again(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    builder *b = build(ck, "transformer.");
    const item *wte = item_named(b, "transformer.wte.weight");
    add(b, "lm_head.weight", "F32", 2, wte->shape, wte->data, wte->bytes);
    const char *path = write_folder(&SHAPE, b);
    mt_checkpoint *hf = open_good(path);
    assert_source(hf, path,
                  " (safetensors, 39.9 KiB of lm_head.weight (wte.weight again) skipped)");
    assert_equal_checkpoints(hf, ck);
    mt_checkpoint_close(hf);
    item *head = item_named(b, "lm_head.weight");
    ((char *)head->data)[head->bytes - 1] ^= 1;
    write_folder(&SHAPE, b);
    assert_refused(temp_path("hf"), "lm_head.weight differs from wte.weight, expected the same");
    ((char *)head->data)[head->bytes - 1] ^= 1;
    head->shape[0]--;
    head->bytes -= 4 * SHAPE.width;
    write_folder(&SHAPE, b);
    assert_refused(temp_path("hf"), "lm_head.weight differs from wte.weight");
    builder_free(b);
    mt_checkpoint_close(ck);
}

/* ---- element types --------------------------------------------------------------------------- */

/* What a binary16 or bfloat16 means, by its definition. */
static double meaning(uint16_t h, int exponent_bits) {
    const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (h & 0x7fff) >> mantissa_bits, mantissa = h & ((1 << mantissa_bits) - 1);
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

/* All 65,536 values of a 16-bit type, as wte, and a shuffle of them in a turned matrix. */
static void check_all_halves(const char *type, int exponent_bits) {
    const mt_config c = { .layers = 1,
                          .heads = 1,
                          .width = 128,
                          .vocab = 512,
                          .positions = 1,
                          .inner = 512,
                          .epsilon = 1e-5f,
                          .tied = true };
    mt_checkpoint *ck = seeded(&c, 0);
    builder *b = build(ck, "");
    static uint16_t all[65536];
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    item *wte = item_named(b, "wte.weight"), *fc = item_named(b, "h.0.mlp.c_fc.weight");
    wte->type = fc->type = type;
    wte->bytes = fc->bytes = sizeof all;
    memcpy(wte->data, all, sizeof all);
    memcpy(fc->data, all, sizeof all);
    mt_checkpoint *hf = open_good(write_folder(&c, b));
    float *x = read_all(hf, 0, 2), *y = read_all(hf, index_of(&c, "h.0.mlp.c_fc.weight"), 2);
    for (uint32_t i = 0; i < 65536; i++) {
        const double expected = meaning((uint16_t)i, exponent_bits);
        if (isnan(expected)) { /* sign and payload move to the top of the wider number */
            const uint32_t mantissa = i & ((1u << (15 - exponent_bits)) - 1);
            assert_int_equal(bits(x[i]), (i & 0x8000) << 16 | 0x7f800000 |
                                             mantissa << (23 - (15 - exponent_bits)));
        } else if (bits(x[i]) != bits((float)expected)) {
            fail_msg("%s 0x%04x is %a, expected %a", type, i, (double)x[i], expected);
        }
        assert_int_equal(bits(y[(i % 512) * 128 + i / 512]), bits(x[i]));
    }
    free(x);
    free(y);
    mt_checkpoint_close(hf);
    builder_free(b);
    mt_checkpoint_close(ck);
}

static void test_half_types(void **state) {
    (void)state;
    check_all_halves("F16", 5);
    check_all_halves("BF16", 8);
}

/* fp32 comes through bit by bit: subnormals, infinities, quiet and signalling NaNs. */
static void test_float_bits(void **state) {
    (void)state;
    static const uint32_t special[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x7f800000,
        0xff800000, 0x7f800001, 0x7fc00000, 0xffffffff, 0x3f800000
    };
    mt_checkpoint *ck = seeded(&SHAPE, 0);
    builder *b = build(ck, "");
    memcpy(item_named(b, "h.0.ln_1.bias")->data, special, sizeof special);
    memcpy(item_named(b, "h.0.attn.c_attn.weight")->data, special, sizeof special);
    mt_checkpoint *hf = open_good(write_folder(&SHAPE, b));
    float *x = read_all(hf, index_of(&SHAPE, "h.0.ln_1.bias"), 1);
    float *y = read_all(hf, index_of(&SHAPE, "h.0.attn.c_attn.weight"), 1);
    for (uint32_t i = 0; i < sizeof special / sizeof *special; i++) {
        assert_int_equal(bits(x[i]), special[i]);
        assert_int_equal(bits(y[i * 78]), special[i]);
    }
    free(x);
    free(y);
    mt_checkpoint_close(hf);
    builder_free(b);
    mt_checkpoint_close(ck);
}

/* ---- broken Hugging Face folders ------------------------------------------------------------- */

#define FILE_NAME "hf/model.safetensors"

static void assert_folder_refused(const builder *b, const mt_config *c, const char *part) {
    write_folder(c, b);
    mt_checkpoint *ck;
    mt_error err = { 0 };
    char file[200];
    snprintf(file, sizeof file, "%s: ", temp_path(FILE_NAME));
    assert_int_equal(mt_checkpoint_open(&ck, temp_path("hf"), &err), MT_BAD);
    assert_null(ck);
    if (strncmp(err.text, file, strlen(file)) != 0 || strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not name the file and \"%s\"", err.text, part);
}

/* Each tensor of the table is missed, and each with a shape or type of its own is refused. */
static void test_each_tensor_wrong(void **state) {
    (void)state;
    mt_config c = SHAPE;
    c.tied = false;
    mt_checkpoint *ck = seeded(&c, 3);
    for (uint32_t i = 0; i < mt_tensor_count(&c); i++) {
        mt_tensor t;
        char part[100];
        mt_tensor_at(&c, i, &t);
        builder *b = build(ck, "");
        item *it = item_named(b, t.name);
        snprintf(part, sizeof part, "tensor %s has shape [", t.name);
        it->shape[0]--;
        it->bytes = it->shape[0] * (it->dims == 2 ? it->shape[1] : 1) * 4;
        assert_folder_refused(b, &c, part);
        it->shape[0]++;
        it->bytes = it->shape[0] * (it->dims == 2 ? it->shape[1] : 1) * 4;
        snprintf(part, sizeof part, "tensor %s is of type I32, expected F32, BF16 or F16", t.name);
        it->type = "I32";
        assert_folder_refused(b, &c, part);
        snprintf(part, sizeof part, "tensor %s is missing, expected one of shape [", t.name);
        drop(b, t.name);
        assert_folder_refused(b, &c, part);
        builder_free(b);
    }
    mt_checkpoint_close(ck);
}

static void test_wrong_shapes(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    builder *b = build(ck, "");
    item *fc = item_named(b, "h.1.mlp.c_fc.weight"), *ln = item_named(b, "ln_f.bias");
    fc->shape[0] = 312, fc->shape[1] = 78; /* a Linear where a Conv1D is expected */
    assert_folder_refused(b, &SHAPE, "h.1.mlp.c_fc.weight has shape [312, 78], expected [78, 312]");
    fc->shape[0] = 78, fc->shape[1] = 312;
    ln->dims = 2, ln->shape[0] = 1, ln->shape[1] = 78;
    assert_folder_refused(b, &SHAPE, "ln_f.bias has shape [1, 78], expected [78] by config.json");
    ln->dims = 0, ln->bytes = 4;
    assert_folder_refused(b, &SHAPE, "ln_f.bias has shape [], expected [78]");
    ln->dims = 1, ln->shape[0] = 78, ln->bytes = 312;
    mt_config c = SHAPE;
    c.layers = 3;
    assert_folder_refused(b, &c, "tensor h.2.ln_1.weight is missing, expected one of shape [78]");
    c.layers = 1 << 20;
    assert_folder_refused(b, &c, "tensor h.2.ln_1.weight is missing");
    c = SHAPE;
    c.vocab = 132;
    assert_folder_refused(b, &c, "wte.weight has shape [131, 78], expected [132, 78]");
    c = SHAPE;
    c.tied = false;
    assert_folder_refused(b, &c,
                          "tensor lm_head.weight is missing, expected one of shape [131, 78]");
    /* Half the names with a prefix, half without. */
    strcpy(item_named(b, "wte.weight")->name, "transformer.wte.weight");
    assert_folder_refused(b, &SHAPE, "tensor wpe.weight is missing");
    builder_free(b);
    mt_checkpoint_close(ck);
}

static void test_broken_folder(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    builder *b = build(ck, "");
    mt_checkpoint *none;
    mt_error err;
    (void)mkdir(temp_path("empty"), 0700);
    assert_refused(temp_path("empty"), "/config.json: cannot be opened: No such file");
    write_config(&SHAPE, "empty/config.json");
    assert_refused(temp_path("empty"), "/model.safetensors: cannot be opened: No such file");
    temp_write("empty/model.safetensors", "not one", 7);
    assert_refused(temp_path("empty"), "/model.safetensors: 7 bytes, expected the 8");
    write_folder(&SHAPE, b);
    temp_write("hf/config.json", "{", 1);
    assert_int_equal(mt_checkpoint_open(&none, temp_path("hf"), &err), MT_BAD);
    assert_non_null(strstr(err.text, "hf/config.json: byte 1: not the JSON expected"));
    assert_refused(temp_path("no/such/place"), ": No such file or directory, expected a model");
    assert_refused(temp_path("no.safetensors"), ": No such file or directory, expected a model");
    assert_refused("", ": No such file or directory");
    builder_free(b);
    mt_checkpoint_close(ck);
}

/* ---- llm.c files ----------------------------------------------------------------------------- */

enum { HEADER = 1024, PADDED = 256 };

typedef struct llmc_file {
    unsigned char *bytes;
    size_t n;
} llmc_file;

static void append(llmc_file *f, const float *values, uint64_t n, int version) {
    f->bytes = realloc(f->bytes, f->n + 4 * n);
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t b = bits(values[i]);
        const unsigned char le[] = { b & 255, b >> 8 & 255, b >> 16 & 255, b >> 24 };
        const int size = version == 3 ? 4 : 2;
        memcpy(f->bytes + f->n, le + 4 - size, (size_t)size);
        f->n += (size_t)size;
    }
}

static void append_tensor(llmc_file *f, mt_checkpoint *ck, const char *name, int version) {
    const mt_config *c = mt_checkpoint_config(ck);
    mt_tensor t;
    mt_tensor_at(c, index_of(c, name), &t);
    float *values = read_all(ck, index_of(c, name), 1);
    append(f, values, t.rows * t.cols, version);
    free(values);
}

/* A model file of the tensors of ck, with rows of 7.0 as padding that nobody may read. */
static llmc_file llmc_model(mt_checkpoint *ck, int version) {
    static const char *const in_layer[] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias",
    };
    const mt_config *c = mt_checkpoint_config(ck);
    const int32_t words[] = { 20240326,       version,       (int)c->positions, (int)c->vocab,
                              (int)c->layers, (int)c->heads, (int)c->width,     PADDED };
    llmc_file f = { calloc(1, HEADER), HEADER };
    const float seven = 7;
    memcpy(f.bytes, words, sizeof words);
    append_tensor(&f, ck, "wte.weight", version);
    for (uint32_t i = 0; i < (PADDED - c->vocab) * c->width; i++)
        append(&f, &seven, 1, version);
    append_tensor(&f, ck, "wpe.weight", version);
    for (size_t i = 0; i < sizeof in_layer / sizeof *in_layer; i++)
        for (uint32_t l = 0; l < c->layers; l++) {
            char name[80];
            snprintf(name, sizeof name, "h.%u.%s", l, in_layer[i]);
            append_tensor(&f, ck, name, version);
        }
    append_tensor(&f, ck, "ln_f.weight", version);
    append_tensor(&f, ck, "ln_f.bias", version);
    return f;
}

static void test_llmc(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    llmc_file f = llmc_model(ck, 3);
    const char *path = temp_write("model.bin", f.bytes, f.n);
    mt_checkpoint *llmc = open_good(path);
    assert_source(llmc, path, " (llm.c version 3, 125 rows of padding skipped)");
    assert_equal_checkpoints(llmc, ck);
    const mt_config *c = mt_checkpoint_config(llmc);
    assert_true(c->layers == 2 && c->heads == 3 && c->width == 78 && c->vocab == 131);
    assert_true(c->positions == 11 && c->inner == 312 && c->tied && c->epsilon == 1e-5f);
    /* The same values by way of Hugging Face's layout. */
    builder *b = build(ck, "transformer.");
    mt_checkpoint *hf = open_good(write_folder(&SHAPE, b));
    assert_equal_checkpoints(llmc, hf);
    mt_checkpoint_close(hf);
    mt_checkpoint_close(llmc);
    mt_checkpoint_close(ck);
    builder_free(b);
    free(f.bytes);
}

static void test_llmc_bf16(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    llmc_file f = llmc_model(ck, 5);
    const char *path = temp_write("model.bin", f.bytes, f.n);
    mt_checkpoint *llmc = open_good(path);
    assert_source(llmc, path, " (llm.c version 5, 125 rows of padding skipped)");
    for (uint32_t i = 0; i < mt_tensor_count(&SHAPE); i++) {
        mt_tensor t;
        mt_tensor_at(&SHAPE, i, &t);
        float *x = read_all(llmc, i, 2), *y = read_all(ck, i, 2);
        for (uint64_t k = 0; k < t.rows * t.cols; k++)
            assert_int_equal(bits(x[k]), bits(y[k]) & 0xffff0000); /* as append cut them */
        free(x);
        free(y);
    }
    mt_checkpoint_close(llmc);
    mt_checkpoint_close(ck);
    free(f.bytes);
}

static void refused_with_word(llmc_file *f, int which, int32_t value, const char *part) {
    int32_t was;
    memcpy(&was, f->bytes + 4 * which, 4);
    memcpy(f->bytes + 4 * which, &value, 4);
    assert_refused(temp_write("bad.bin", f->bytes, f->n), part);
    memcpy(f->bytes + 4 * which, &was, 4);
}

static void test_llmc_words(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    llmc_file f = llmc_model(ck, 3);
    refused_with_word(&f, 0, 20240327, "20240327, the debug state of an llm.c model, expected");
    refused_with_word(&f, 0, 20240328, "20240328, an llm.c tokenizer, expected 20240326");
    refused_with_word(&f, 0, 20240520, "20240520, a shard of tokens for llm.c, expected");
    refused_with_word(&f, 0, 0, "is no known model file, expected an llm.c file");
    refused_with_word(&f, 1, 1, "byte 4: version 1, expected 3 (fp32) or 5 (bf16)");
    refused_with_word(&f, 1, 4, "byte 4: version 4");
    refused_with_word(&f, 1, -3, "byte 4: version -3");
    refused_with_word(&f, 1, 5, "bytes, expected");
    refused_with_word(&f, 2, 0, "byte 8: context length is 0, expected a positive number");
    refused_with_word(&f, 2, 12, "bytes, expected");
    refused_with_word(&f, 2, INT32_MAX, "positions is 2147483647");
    refused_with_word(&f, 3, -1, "byte 12: vocabulary is -1");
    refused_with_word(&f, 3, 257, "byte 28: padded vocabulary is 256, expected at least 257");
    refused_with_word(&f, 4, INT32_MIN, "byte 16: layers is -2147483648");
    refused_with_word(&f, 4, 3, "bytes, expected");
    refused_with_word(&f, 5, 0, "byte 20: heads is 0");
    refused_with_word(&f, 5, 4, "header: width is 78, expected a multiple of the 4 heads");
    refused_with_word(&f, 6, 0, "byte 24: width is 0");
    refused_with_word(&f, 6, 1 << 30, "header: width is 1073741824");
    refused_with_word(&f, 6, 81, "bytes, expected");
    refused_with_word(&f, 7, 0, "byte 28: padded vocabulary is 0");
    refused_with_word(&f, 7, 128, "byte 28: padded vocabulary is 128, expected at least 131");
    refused_with_word(&f, 7, 255, "bytes, expected");
    refused_with_word(&f, 7, INT32_MAX, "bytes, expected");
    free(f.bytes);
    mt_checkpoint_close(ck);
}

static void test_llmc_size(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    llmc_file f = llmc_model(ck, 3);
    char part[100];
    f.bytes = realloc(f.bytes, f.n + 1);
    f.bytes[f.n] = 0;
    snprintf(part, sizeof part, "%zu bytes, expected %zu by its header", f.n + 1, f.n);
    assert_refused(temp_write("bad.bin", f.bytes, f.n + 1), part);
    snprintf(part, sizeof part, "%zu bytes, expected %zu by its header", f.n - 1, f.n);
    assert_refused(temp_write("bad.bin", f.bytes, f.n - 1), part);
    assert_refused(temp_write("bad.bin", f.bytes, HEADER), "1024 bytes, expected");
    assert_refused(temp_write("bad.bin", f.bytes, HEADER - 1), "1023 bytes, expected a header of");
    assert_refused(temp_write("bad.bin", f.bytes, 4), "4 bytes, expected a header of 1024");
    assert_refused(temp_write("bad.bin", f.bytes, 3), "is no known model file");
    assert_refused(temp_write("bad.bin", f.bytes, 0), "is no known model file");
    assert_refused(temp_write("text.bin", "hello, world", 12), "is no known model file");
    assert_refused("/dev/null", "not a file");
    free(f.bytes);
    mt_checkpoint_close(ck);
}

/* Any bit of the words may be wrong; those after them mean nothing. */
static void test_llmc_flipped(void **state) {
    (void)state;
    mt_checkpoint *ck = seeded(&SHAPE, 3);
    llmc_file f = llmc_model(ck, 3);
    for (size_t i = 0; i < 40; i++)
        for (int k = 0; k < 8; k++) {
            mt_checkpoint *other;
            f.bytes[i] ^= (unsigned char)(1 << k);
            const char *path = temp_write("bad.bin", f.bytes, f.n);
            mt_status status = mt_checkpoint_open(&other, path, NULL);
            assert_true(status == MT_OK || status == MT_BAD);
            assert_true(i < 32 || status == MT_OK);
            for (uint32_t j = 0; status == MT_OK && j < 28; j++)
                free(read_all(other, j, 1));
            mt_checkpoint_close(other);
            f.bytes[i] ^= (unsigned char)(1 << k);
        }
    free(f.bytes);
    mt_checkpoint_close(ck);
}

/* ---- the small trained checkpoint ------------------------------------------------------------ */

/* Decodes base64 of fp32 numbers; free() the result. */
static float *decode(const char *text, uint64_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    float *values = malloc(count * 4 + 4);
    unsigned char *out = (unsigned char *)values;
    uint64_t n = 0;
    uint32_t word = 0, held = 0;
    for (; *text != '\0' && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        assert_non_null(digit);
        word = word << 6 | (uint32_t)(digit - digits);
        held += 6;
        if (held >= 8) {
            assert_true(n < count * 4);
            held -= 8;
            out[n++] = (unsigned char)(word >> held);
        }
    }
    assert_int_equal(n, count * 4);
    return values;
}

/* Our own trained model: every tensor has the checksum that was taken when it was saved. */
static void test_trained(void **state) {
    (void)state;
    mt_checkpoint *ck = open_good("tests/recordings/reverse");
    const mt_config *c = mt_checkpoint_config(ck);
    FILE *f = fopen("tests/recordings/reverse/tensors.tsv", "r");
    char line[200], name[80];
    uint32_t crc, n = 0;
    uint64_t count;
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        mt_tensor t;
        if (*line == '#')
            continue;
        assert_int_equal(sscanf(line, "%79s %" SCNu64 " %" SCNu32, name, &count, &crc), 3);
        mt_tensor_at(c, n, &t);
        assert_string_equal(t.name, strncmp(name, "transformer.", 12) == 0 ? name + 12 : name);
        assert_int_equal(t.rows * t.cols, count);
        float *values = read_all(ck, n++, 2);
        assert_int_equal(crc32(0, (const Bytef *)values, (uInt)(count * sizeof *values)), crc);
        free(values);
    }
    assert_int_equal(n, mt_tensor_count(c));
    fclose(f);
    mt_checkpoint_close(ck);
}

/* One of the shared data, where that is there, against its other form. */
static void test_nano_sort(void **state) {
    (void)state;
    const char *shared = getenv("MEMTRACE_SHARED");
    char folder[400], json[450];
    snprintf(folder, sizeof folder, "%s/data/gpt-nano-sort", shared ? shared : "../shared");
    snprintf(json, sizeof json, "%s/model.json", folder);
    if (access(json, R_OK) != 0)
        return;
    mt_checkpoint *ck = open_good(folder);
    const mt_config *c = mt_checkpoint_config(ck);
    json_t *model = json_load_file(json, 0, NULL);
    assert_non_null(model);
    assert_int_equal(mt_config_parameters(c), 85728);
    assert_false(c->tied);
    assert_non_null(strstr(mt_checkpoint_source(ck),
                           "gpt-nano-sort (safetensors, 1.4 KiB of mask buffers skipped)"));
    for (uint32_t i = 0; i < mt_tensor_count(c); i++) {
        mt_tensor t;
        char name[80];
        mt_tensor_at(c, i, &t);
        snprintf(name, sizeof name, "%s%s", strncmp(t.name, "lm_", 3) ? "transformer." : "",
                 t.name);
        const json_t *entry = json_object_get(model, name);
        const uint64_t count = t.rows * t.cols;
        float *expected = decode(json_string_value(json_object_get(entry, "data")), count);
        float *values = read_all(ck, i, 2);
        assert_same_values(&t, values, expected, count);
        free(values);
        free(expected);
    }
    json_decref(model);
    mt_checkpoint_close(ck);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeded_answers),
        cmocka_unit_test(test_seeded_wraps),
        cmocka_unit_test(test_seeded_parts),
        cmocka_unit_test(test_seeded_threads),
        cmocka_unit_test(test_seeded_refused),
        cmocka_unit_test(test_read_range),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_square_projection),
        cmocka_unit_test(test_large_matrix),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_other_tensors),
        cmocka_unit_test(test_tied_head_again),
        cmocka_unit_test(test_half_types),
        cmocka_unit_test(test_float_bits),
        cmocka_unit_test(test_each_tensor_wrong),
        cmocka_unit_test(test_wrong_shapes),
        cmocka_unit_test(test_broken_folder),
        cmocka_unit_test(test_llmc),
        cmocka_unit_test(test_llmc_bf16),
        cmocka_unit_test(test_llmc_words),
        cmocka_unit_test(test_llmc_size),
        cmocka_unit_test(test_llmc_flipped),
        cmocka_unit_test(test_trained),
        cmocka_unit_test(test_nano_sort),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, temp_setup, temp_teardown);
}
