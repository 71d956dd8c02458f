/* safetensors.c - see safetensors.h.
 *
 * The header is parsed by jansson, then each tensor is checked by itself: its type is known, its
 * offsets lie within the data, and their difference is what its shape and type take. Then all are
 * sorted by offset, where each must begin as the one before it ends, and last sorted by name for
 * the search. */
#include "engine/checkpoint/safetensors.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/json_file.h"
#include "base/text.h"

enum { LENGTH_BYTES = 8, HEADER_MOST = 100 * 1000 * 1000 };

static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    { "F32", 32 },    { "F16", 16 },    { "BF16", 16 },   { "F64", 64 },    { "BOOL", 8 },
    { "U8", 8 },      { "I8", 8 },      { "U16", 16 },    { "I16", 16 },    { "U32", 32 },
    { "I32", 32 },    { "U64", 64 },    { "I64", 64 },    { "F8_E5M2", 8 }, { "F8_E4M3", 8 },
    { "F8_E8M0", 8 }, { "F6_E2M3", 6 }, { "F6_E3M2", 6 }, { "F4", 4 },      { "C64", 64 },
};

/* ---- one tensor ------------------------------------------------------------------------------ */

/* The tensor that is being read, and where to say what is wrong with it. */
typedef struct entry {
    const mt_safetensors *f;
    const char *name;
    uint64_t data_bytes;
    mt_error *err;
} entry;

static mt_status bad(const entry *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

static mt_status bad(const entry *e, const char *format, ...) {
    char name[100], what[320];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return mt_fail(e->err, MT_BAD, "%s: tensor %s: %s", e->f->file.label,
                   mt_printable(name, sizeof name, e->name, strlen(e->name)), what);
}

/* The number of a JSON value; false when it is no integer or below 0. */
static bool natural(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static mt_status read_type(const entry *e, const json_t *value, mt_safetensor *t, unsigned *bits) {
    char text[40];
    if (!json_is_string(value))
        return bad(e, "dtype is %s, expected a string", mt_json_type(value));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(json_string_value(value), types[i].name) == 0) {
            t->type = types[i].name;
            *bits = types[i].bits;
            return MT_OK;
        }
    mt_printable(text, sizeof text, json_string_value(value), json_string_length(value));
    return bad(e, "dtype is \"%s\", expected one of the format's, such as \"F32\"", text);
}

static mt_status read_shape(const entry *e, const json_t *value, mt_safetensor *t) {
    if (!json_is_array(value))
        return bad(e, "shape is %s, expected an array", mt_json_type(value));
    if (json_array_size(value) > MT_SAFETENSOR_DIMS)
        return bad(e, "shape has %zu dimensions, expected at most %d", json_array_size(value),
                   MT_SAFETENSOR_DIMS);
    t->dims = (uint32_t)json_array_size(value);
    for (uint32_t i = 0; i < t->dims; i++)
        if (!natural(json_array_get(value, i), &t->shape[i]))
            return bad(e, "dimension %u of the shape is %s, expected an integer of at least 0", i,
                       json_is_integer(json_array_get(value, i))
                           ? "negative"
                           : mt_json_type(json_array_get(value, i)));
    return MT_OK;
}

static mt_status read_offsets(const entry *e, const json_t *value, mt_safetensor *t) {
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !natural(json_array_get(value, 0), &t->begin) ||
        !natural(json_array_get(value, 1), &t->end))
        return bad(e, "data_offsets is not as expected, two integers of at least 0");
    if (t->begin > t->end || t->end > e->data_bytes)
        return bad(e,
                   "data_offsets are [%llu, %llu], expected begin <= end <= %llu, the data's end",
                   (unsigned long long)t->begin, (unsigned long long)t->end,
                   (unsigned long long)e->data_bytes);
    return MT_OK;
}

/* Bytes of a tensor of that shape; false when they are no whole number or overflow. */
static bool shape_bytes(const mt_safetensor *t, unsigned bits, uint64_t *bytes) {
    uint64_t n = bits;
    for (uint32_t i = 0; i < t->dims; i++)
        if (!mt_mul(n, t->shape[i], &n))
            return false;
    *bytes = n / 8;
    return n % 8 == 0;
}

static mt_status read_tensor(const entry *e, const json_t *value, mt_safetensor *t) {
    unsigned bits = 0;
    uint64_t bytes;
    char shape[200];
    if (!json_is_object(value))
        return bad(e, "%s, expected an object", mt_json_type(value));
    MT_TRY(read_type(e, json_object_get(value, "dtype"), t, &bits));
    MT_TRY(read_shape(e, json_object_get(value, "shape"), t));
    MT_TRY(read_offsets(e, json_object_get(value, "data_offsets"), t));
    mt_safetensor_shape(shape, sizeof shape, t->shape, t->dims);
    if (!shape_bytes(t, bits, &bytes))
        return bad(e, "%s of shape %s is no whole number of bytes below 2^61", t->type, shape);
    if (bytes != t->end - t->begin)
        return bad(e, "data_offsets hold %llu bytes, expected %llu for %s of shape %s",
                   (unsigned long long)(t->end - t->begin), (unsigned long long)bytes, t->type,
                   shape);
    return MT_OK;
}

/* ---- the header ------------------------------------------------------------------------------ */

static mt_status check_metadata(const mt_safetensors *f, json_t *metadata, mt_error *err) {
    const char *key;
    json_t *value;
    char text[100];
    if (!json_is_object(metadata))
        return mt_fail(err, MT_BAD, "%s: __metadata__ is %s, expected an object of strings",
                       f->file.label, mt_json_type(metadata));
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return mt_fail(err, MT_BAD, "%s: __metadata__: %s is %s, expected a string",
                           f->file.label, mt_printable(text, sizeof text, key, strlen(key)),
                           mt_json_type(value));
    }
    return MT_OK;
}

static mt_status read_tensors(mt_safetensors *f, json_t *header, uint64_t data_at, mt_error *err) {
    entry e = { .f = f, .data_bytes = f->file.size - data_at, .err = err };
    json_t *value;
    f->tensor = calloc(json_object_size(header) + 1, sizeof *f->tensor);
    if (f->tensor == NULL)
        return mt_no_memory(err, f->file.label);
    json_object_foreach(header, e.name, value) {
        if (strcmp(e.name, "__metadata__") == 0) {
            MT_TRY(check_metadata(f, value, err));
            continue;
        }
        mt_safetensor *t = &f->tensor[f->count];
        MT_TRY(read_tensor(&e, value, t));
        t->data = f->file.data + data_at + t->begin;
        t->name = strdup(e.name);
        if (t->name == NULL)
            return mt_no_memory(err, f->file.label);
        f->count++;
    }
    return MT_OK;
}

/* ---- the data -------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b) {
    const mt_safetensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const mt_safetensor *)a)->name, ((const mt_safetensor *)b)->name);
}

/* Checks that the tensors, sorted by offset, tile the data. */
static mt_status check_tiling(const mt_safetensors *f, uint64_t data_bytes, mt_error *err) {
    uint64_t at = 0;
    for (size_t i = 0; i < f->count; i++) {
        const mt_safetensor *t = &f->tensor[i];
        const entry e = { .f = f, .name = t->name, .err = err };
        if (t->begin < at)
            return bad(&e, "begins at byte %llu of the data, inside another tensor, expected %llu",
                       (unsigned long long)t->begin, (unsigned long long)at);
        if (t->begin > at)
            return bad(&e, "begins at byte %llu of the data, after a hole, expected %llu",
                       (unsigned long long)t->begin, (unsigned long long)at);
        at = t->end;
    }
    if (at != data_bytes)
        return mt_fail(err, MT_BAD, "%s: %llu bytes of data, expected %llu, the tensors' end",
                       f->file.label, (unsigned long long)data_bytes, (unsigned long long)at);
    return MT_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static mt_status header_length(const mt_mapped *file, uint64_t *length, mt_error *err) {
    if (file->size < LENGTH_BYTES)
        return mt_fail(err, MT_BAD, "%s: %llu bytes, expected the 8 of a header's length",
                       file->label, (unsigned long long)file->size);
    memcpy(length, file->data, LENGTH_BYTES);
    if (*length > HEADER_MOST)
        return mt_fail(err, MT_BAD, "%s: byte 0: header of %llu bytes, expected at most %d",
                       file->label, (unsigned long long)*length, HEADER_MOST);
    if (*length > file->size - LENGTH_BYTES)
        return mt_fail(err, MT_BAD,
                       "%s: byte 0: header of %llu bytes, expected at most %llu, "
                       "the rest of the file",
                       file->label, (unsigned long long)*length,
                       (unsigned long long)(file->size - LENGTH_BYTES));
    return MT_OK;
}

static mt_status read_header(mt_safetensors *f, mt_error *err) {
    uint64_t length = 0;
    mt_json_tree header;
    MT_TRY(header_length(&f->file, &length, err));
    const unsigned char *text = f->file.data + LENGTH_BYTES;
    if (length > 0 && text[0] != '{')
        return mt_fail(err, MT_BAD, "%s: byte 8: 0x%02x, expected { as a header begins",
                       f->file.label, text[0]);
    MT_TRY(mt_json_read(&header, f->file.label, text, length, LENGTH_BYTES, err));
    mt_status status = read_tensors(f, header.root, LENGTH_BYTES + length, err);
    mt_json_free(&header);
    if (status != MT_OK)
        return status;
    qsort(f->tensor, f->count, sizeof *f->tensor, by_offset);
    MT_TRY(check_tiling(f, f->file.size - LENGTH_BYTES - length, err));
    qsort(f->tensor, f->count, sizeof *f->tensor, by_name);
    return MT_OK;
}

mt_status mt_safetensors_open(mt_safetensors *f, const char *path, mt_error *err) {
    *f = (mt_safetensors){ 0 };
    MT_TRY(mt_mapped_open(&f->file, path, err));
    mt_status status = read_header(f, err);
    if (status != MT_OK)
        mt_safetensors_close(f);
    return status;
}

const mt_safetensor *mt_safetensors_find(const mt_safetensors *f, const char *name) {
    size_t low = 0, high = f->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, f->tensor[middle].name);
        if (order == 0)
            return &f->tensor[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

char *mt_safetensor_shape(char *buffer, size_t capacity, const uint64_t *shape, uint32_t dims) {
    size_t used = (size_t)snprintf(buffer, capacity, "[");
    for (uint32_t i = 0; i < dims && used < capacity; i++)
        used += (size_t)snprintf(buffer + used, capacity - used, "%s%llu", i == 0 ? "" : ", ",
                                 (unsigned long long)shape[i]);
    if (used < capacity)
        snprintf(buffer + used, capacity - used, "]");
    return buffer;
}

void mt_safetensors_close(mt_safetensors *f) {
    for (size_t i = 0; i < f->count; i++)
        free(f->tensor[i].name);
    free(f->tensor);
    f->tensor = NULL;
    f->count = 0;
    mt_mapped_close(&f->file);
}
