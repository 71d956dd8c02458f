/* config.c - see config.h. A shape is checked in two steps: each number against its range, then
 * the products that follow from it, all through the table of tensors in weights.c. */
#include "engine/config.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/json_file.h"
#include "base/mapped.h"
#include "base/text.h"
#include "engine/checkpoint/weights.h"

enum {
    NUMBER_MOST = 1 << 20,     /* of every number of a shape but the vocabulary */
    VOCAB_MOST = 1 << 24,      /* ids */
    CONFIG_FILE_MOST = 1 << 24 /* bytes of a config.json, a thousand times the usual */
};

#define BYTES_MOST ((uint64_t)1 << 60) /* of a tensor, and of all of them */

/* ---- element types --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = { [MT_F32] = { "f32", 4 }, [MT_BF16] = { "bf16", 2 }, [MT_F16] = { "f16", 2 } };

size_t mt_dtype_bytes(mt_dtype dtype) {
    return dtypes[dtype].bytes;
}

const char *mt_dtype_name(mt_dtype dtype) {
    return dtypes[dtype].name;
}

bool mt_dtype_parse(const char *name, mt_dtype *out) {
    static const struct {
        const char *name;
        mt_dtype type;
    } names[] = {
        { "f32", MT_F32 },       { "fp32", MT_F32 }, { "float32", MT_F32 }, { "bf16", MT_BF16 },
        { "bfloat16", MT_BF16 }, { "f16", MT_F16 },  { "fp16", MT_F16 },    { "float16", MT_F16 },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            *out = names[i].type;
            return true;
        }
    return false;
}

/* ---- presets --------------------------------------------------------------------------------- */

bool mt_config_preset(const char *name, mt_config *c) {
    static const struct {
        const char *name;
        uint32_t layers, heads, width;
    } presets[] = {
        { "gpt2", 12, 12, 768 },
        { "gpt2-medium", 24, 16, 1024 },
        { "gpt2-large", 36, 20, 1280 },
        { "gpt2-xl", 48, 25, 1600 },
    };
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(name, presets[i].name) == 0) {
            *c = (mt_config){ .layers = presets[i].layers,
                              .heads = presets[i].heads,
                              .width = presets[i].width,
                              .vocab = 50257,
                              .positions = 1024,
                              .inner = 4 * presets[i].width,
                              .epsilon = 1e-5f,
                              .tied = true,
                              .dtype = MT_F32 };
            return true;
        }
    return false;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Adds the elements of times copies of row i of the table; false when that, in bytes, is more than
 * a model may have. */
static bool add_tensor(const mt_config *c, uint32_t i, uint64_t times, uint64_t *total) {
    mt_tensor t;
    uint64_t elements;
    mt_tensor_at(c, i, &t);
    return mt_mul(t.rows, t.cols, &elements) && mt_mul(elements, times, &elements) &&
           mt_add(*total, elements, total) && *total <= BYTES_MOST / mt_dtype_bytes(c->dtype);
}

/* Sums the table without walking through every layer: all layers are alike. */
static bool count_elements(const mt_config *c, uint64_t *total) {
    const uint32_t before = 2, in_layer = 12, all = mt_tensor_count(c);
    bool fits = true;
    *total = 0;
    for (uint32_t i = 0; i < before + in_layer; i++)
        fits = fits && add_tensor(c, i, i < before ? 1 : c->layers, total);
    for (uint32_t i = before + in_layer * c->layers; i < all; i++)
        fits = fits && add_tensor(c, i, 1, total);
    return fits;
}

uint64_t mt_config_parameters(const mt_config *c) {
    uint64_t total;
    count_elements(c, &total);
    return total;
}

uint64_t mt_config_kv_bytes_per_token(const mt_config *c) {
    return 2 * (uint64_t)c->layers * c->width * mt_dtype_bytes(c->dtype);
}

mt_status mt_config_check(const mt_config *c, mt_error *err) {
    const struct {
        const char *name;
        uint32_t value, most;
    } numbers[] = {
        { "layers", c->layers, NUMBER_MOST },       { "heads", c->heads, NUMBER_MOST },
        { "width", c->width, NUMBER_MOST },         { "vocab", c->vocab, VOCAB_MOST },
        { "positions", c->positions, NUMBER_MOST }, { "inner", c->inner, NUMBER_MOST },
    };
    uint64_t total;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < 1 || numbers[i].value > numbers[i].most)
            return mt_fail(err, MT_BAD, "%s is %u, expected an integer in [1, %u]", numbers[i].name,
                           numbers[i].value, numbers[i].most);
    if (c->width % c->heads != 0)
        return mt_fail(err, MT_BAD, "width is %u, expected a multiple of the %u heads", c->width,
                       c->heads);
    if (!(c->epsilon > 0 && c->epsilon <= 1))
        return mt_fail(err, MT_BAD, "epsilon is %g, expected a number in (0, 1]",
                       (double)c->epsilon);
    if (!count_elements(c, &total))
        return mt_fail(err, MT_BAD, "the weights' size is out of range, expected at most 2^60 B");
    return MT_OK;
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* What is being read, for messages. */
typedef struct source {
    const char *file;
    const json_t *object;
} source;

/* Writes how the value of a key was found: an integer by its value, a string quoted, else by
 * type. */
static const char *found(const json_t *value, char buffer[48]) {
    if (json_is_integer(value)) {
        snprintf(buffer, 48, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        snprintf(buffer, 48, "%#g", json_real_value(value));
    } else if (json_is_string(value)) {
        buffer[0] = '"';
        mt_printable(buffer + 1, 46, json_string_value(value), json_string_length(value));
        strcat(buffer, "\"");
    } else {
        snprintf(buffer, 48, "%s", mt_json_type(value));
    }
    return buffer;
}

static mt_status refuse(const source *s, const char *key, const char *expected, mt_error *err) {
    char text[48];
    return mt_fail(err, MT_BAD, "%s: %s is %s, expected %s", s->file, key,
                   found(mt_json_get(s->object, key), text), expected);
}

static mt_status read_integer(const source *s, const char *key, uint32_t most, uint32_t *out,
                              mt_error *err) {
    char expected[48];
    const json_t *value = mt_json_get(s->object, key);
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > most) {
        snprintf(expected, sizeof expected, "an integer in [1, %u]", most);
        return refuse(s, key, expected, err);
    }
    *out = (uint32_t)n;
    return MT_OK;
}

/* A key that may be missing; *out holds the default. */
static mt_status read_bool(const source *s, const char *key, bool *out, mt_error *err) {
    const json_t *value = mt_json_get(s->object, key);
    if (value == NULL)
        return MT_OK;
    if (!json_is_boolean(value))
        return refuse(s, key, "true or false", err);
    *out = json_is_true(value);
    return MT_OK;
}

static mt_status require_string(const source *s, const char *key, const char *only, mt_error *err) {
    char expected[32];
    const json_t *value = mt_json_get(s->object, key);
    if (value == NULL || (json_is_string(value) && strcmp(json_string_value(value), only) == 0))
        return MT_OK;
    snprintf(expected, sizeof expected, "\"%s\"", only);
    return refuse(s, key, expected, err);
}

static mt_status require_bool(const source *s, const char *key, bool only, mt_error *err) {
    bool value = only;
    MT_TRY(read_bool(s, key, &value, err));
    if (value == only)
        return MT_OK;
    return mt_fail(err, MT_BAD, "%s: %s is %s, expected %s", s->file, key, value ? "true" : "false",
                   only ? "true" : "false");
}

static mt_status read_epsilon(const source *s, float *out, mt_error *err) {
    const char *key = "layer_norm_epsilon";
    const json_t *value = mt_json_get(s->object, key);
    if (value == NULL)
        return MT_OK;
    const double epsilon = json_number_value(value); /* 0 when it is no number */
    if (!(epsilon > 0 && epsilon <= 1))
        return refuse(s, key, "a number in (0, 1]", err);
    *out = (float)epsilon;
    return MT_OK;
}

/* Everything that would make this another model than the one the engine computes. */
static mt_status require_gpt2(const source *s, mt_error *err) {
    MT_TRY(require_string(s, "model_type", "gpt2", err));
    MT_TRY(require_string(s, "activation_function", "gelu_new", err));
    MT_TRY(require_bool(s, "scale_attn_weights", true, err));
    MT_TRY(require_bool(s, "scale_attn_by_inverse_layer_idx", false, err));
    return require_bool(s, "reorder_and_upcast_attn", false, err);
}

static mt_status read_shape(const source *s, mt_config *c, mt_error *err) {
    const char *positions =
        mt_json_get(s->object, "n_positions") == NULL && mt_json_get(s->object, "n_ctx") != NULL
            ? "n_ctx"
            : "n_positions";
    MT_TRY(read_integer(s, "n_layer", NUMBER_MOST, &c->layers, err));
    MT_TRY(read_integer(s, "n_head", NUMBER_MOST, &c->heads, err));
    MT_TRY(read_integer(s, "n_embd", NUMBER_MOST, &c->width, err));
    MT_TRY(read_integer(s, "vocab_size", VOCAB_MOST, &c->vocab, err));
    MT_TRY(read_integer(s, positions, NUMBER_MOST, &c->positions, err));
    c->inner = 4 * c->width;
    if (mt_json_get(s->object, "n_inner") != NULL)
        MT_TRY(read_integer(s, "n_inner", NUMBER_MOST, &c->inner, err));
    return MT_OK;
}

static mt_status read_object(const source *s, mt_config *c, mt_error *err) {
    mt_error inner;
    MT_TRY(require_gpt2(s, err));
    MT_TRY(read_shape(s, c, err));
    MT_TRY(read_epsilon(s, &c->epsilon, err));
    MT_TRY(read_bool(s, "tie_word_embeddings", &c->tied, err));
    if (mt_config_check(c, &inner) != MT_OK)
        return mt_fail(err, inner.status, "%s: %s", s->file, inner.text);
    return MT_OK;
}

static mt_status read_file(const mt_mapped *file, mt_config *c, mt_error *err) {
    mt_json_tree tree;
    if (file->size > CONFIG_FILE_MOST)
        return mt_fail(err, MT_BAD, "%s: %llu bytes, expected a config.json of at most %d",
                       file->label, (unsigned long long)file->size, CONFIG_FILE_MOST);
    MT_TRY(mt_json_read(&tree, file->label, file->data, file->size, 0, err));
    mt_status status = read_object(&(source){ file->label, tree.root }, c, err);
    mt_json_free(&tree);
    return status;
}

mt_status mt_config_read(const char *path, mt_config *c, mt_error *err) {
    mt_mapped file;
    mt_config read = { .epsilon = 1e-5f, .tied = true, .dtype = MT_F32 };
    MT_TRY(mt_mapped_open(&file, path, err));
    mt_status status = read_file(&file, &read, err);
    mt_mapped_close(&file);
    if (status != MT_OK)
        return status;
    *c = read;
    return MT_OK;
}
