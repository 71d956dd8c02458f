/* huggingface.c - a Hugging Face folder: config.json and model.safetensors.
 *
 * Every row of the table is looked up in the file by its name, with the prefix "transformer." if
 * the file's own names have it (lm_head.weight never has), and checked against the shape that
 * config.json promises. The four projections of a layer are stored [in, out] and turned as they
 * are read. What the file holds besides is skipped and reported: the causal masks kept under
 * h.N.attn.bias and h.N.attn.masked_bias (no GPT-2 has weights of these names), an lm_head.weight
 * that repeats wte.weight though the head is tied, and any other tensor. A tied head whose
 * lm_head.weight has other values is refused: programs differ in which of the two they believe. */
#include "engine/checkpoint/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/size.h"
#include "base/text.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored.h"

typedef struct huggingface {
    mt_checkpoint base;
    mt_safetensors file;
    const char *prefix;
    bool *used;        /* [file.count], by a row of the table */
    mt_stored *tensor; /* one for each row of the table */
} huggingface;

/* ---- paths ----------------------------------------------------------------------------------- */

/* The two files of a checkpoint; free() both. */
typedef struct paths {
    char *config, *weights;
} paths;

static void paths_free(paths *p) {
    free(p->config);
    free(p->weights);
}

static mt_status paths_of(const char *path, paths *p, mt_error *err) {
    struct stat info;
    const bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const char *slash = strrchr(path, '/');
    int length = folder ? (int)strlen(path) : slash == NULL ? 0 : (int)(slash - path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    const char *between = length > 0 || slash != NULL ? "/" : "";
    *p = (paths){ NULL, NULL };
    if (asprintf(&p->config, "%.*s%sconfig.json", length, path, between) < 0)
        p->config = NULL;
    if (folder && asprintf(&p->weights, "%.*s/model.safetensors", length, path) < 0)
        p->weights = NULL;
    if (!folder)
        p->weights = strdup(path);
    if (p->config != NULL && p->weights != NULL)
        return MT_OK;
    paths_free(p);
    return mt_no_memory(err, "the names of a checkpoint's files");
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool float_type(const char *type, mt_dtype *out) {
    const struct {
        const char *name;
        mt_dtype dtype;
    } known[] = { { "F32", MT_F32 }, { "BF16", MT_BF16 }, { "F16", MT_F16 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].name) == 0) {
            *out = known[i].dtype;
            return true;
        }
    return false;
}

/* A tensor's shape in the file. */
static uint32_t stored_shape(const mt_tensor *t, uint64_t shape[2]) {
    shape[0] = t->vector || t->conv1d ? t->cols : t->rows;
    shape[1] = t->conv1d ? t->rows : t->cols;
    return t->vector ? 1 : 2;
}

static const mt_safetensor *find(const huggingface *h, const char *name) {
    char key[80];
    const char *prefix = strcmp(name, "lm_head.weight") == 0 ? "" : h->prefix;
    snprintf(key, sizeof key, "%s%s", prefix, name);
    return mt_safetensors_find(&h->file, key);
}

static mt_status check_tensor(const huggingface *h, const mt_tensor *t, const mt_safetensor *found,
                              mt_dtype *dtype, mt_error *err) {
    const char *file = h->file.file.label;
    uint64_t shape[2];
    const uint32_t dims = stored_shape(t, shape);
    char expected[200], actual[200];
    mt_safetensor_shape(expected, sizeof expected, shape, dims);
    if (found == NULL)
        return mt_fail(err, MT_BAD, "%s: tensor %s is missing, expected one of shape %s", file,
                       t->name, expected);
    if (!float_type(found->type, dtype))
        return mt_fail(err, MT_BAD, "%s: tensor %s is of type %s, expected F32, BF16 or F16", file,
                       t->name, found->type);
    if (found->dims != dims || memcmp(found->shape, shape, dims * sizeof *shape) != 0)
        return mt_fail(
            err, MT_BAD, "%s: tensor %s has shape %s, expected %s by config.json", file, t->name,
            mt_safetensor_shape(actual, sizeof actual, found->shape, found->dims), expected);
    return MT_OK;
}

static mt_status find_tensors(huggingface *h, mt_error *err) {
    const uint32_t count = mt_tensor_count(&h->base.config);
    h->prefix = mt_safetensors_find(&h->file, "transformer.wte.weight") ? "transformer." : "";
    h->used = calloc(h->file.count + 1, sizeof *h->used);
    h->tensor = calloc(count, sizeof *h->tensor);
    if (h->used == NULL || h->tensor == NULL)
        return mt_no_memory(err, h->file.file.label);
    for (uint32_t i = 0; i < count; i++) {
        mt_tensor t;
        mt_dtype dtype = MT_F32;
        mt_tensor_at(&h->base.config, i, &t);
        const mt_safetensor *found = find(h, t.name);
        MT_TRY(check_tensor(h, &t, found, &dtype, err));
        h->used[found - h->file.tensor] = true;
        h->tensor[i] = (mt_stored){ found->data, dtype, t.rows, t.cols, t.conv1d };
    }
    return MT_OK;
}

/* ---- what is skipped ------------------------------------------------------------------------- */

typedef struct skipped {
    uint64_t mask_bytes, head_bytes, other_bytes;
    size_t others;
    const char *other; /* the first of them */
} skipped;

/* h.N.attn.bias or h.N.attn.masked_bias, after the prefix. */
static bool is_mask(const huggingface *h, const char *name) {
    const size_t prefix = strlen(h->prefix);
    if (strncmp(name, h->prefix, prefix) != 0 || strncmp(name + prefix, "h.", 2) != 0)
        return false;
    const char *number = name + prefix + 2;
    const size_t digits = strspn(number, "0123456789");
    return digits > 0 && (strcmp(number + digits, ".attn.bias") == 0 ||
                          strcmp(number + digits, ".attn.masked_bias") == 0);
}

static bool same_tensor(const mt_safetensor *a, const mt_safetensor *b) {
    const uint64_t bytes = a->end - a->begin;
    return a->type == b->type && a->dims == b->dims &&
           memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0 &&
           memcmp(a->data, b->data, bytes) == 0;
}

/* A tied head may be there once more, if it is the same. */
static mt_status check_tied_head(const huggingface *h, const mt_safetensor *head, mt_error *err) {
    const mt_safetensor *wte = find(h, "wte.weight");
    const bool same = same_tensor(head, wte);
    mt_mapped_drop(&h->file.file, head->data, head->end - head->begin);
    mt_mapped_drop(&h->file.file, wte->data, wte->end - wte->begin);
    if (same)
        return MT_OK;
    return mt_fail(err, MT_BAD,
                   "%s: tensor lm_head.weight differs from wte.weight, expected the same: by "
                   "config.json the head is tied (tie_word_embeddings)",
                   h->file.file.label);
}

static mt_status count_skipped(const huggingface *h, skipped *s, mt_error *err) {
    *s = (skipped){ 0 };
    for (size_t i = 0; i < h->file.count; i++) {
        const mt_safetensor *t = &h->file.tensor[i];
        const uint64_t bytes = t->end - t->begin;
        if (h->used[i])
            continue;
        if (is_mask(h, t->name)) {
            s->mask_bytes += bytes;
        } else if (strcmp(t->name, "lm_head.weight") == 0) {
            MT_TRY(check_tied_head(h, t, err));
            s->head_bytes += bytes;
        } else {
            if (s->others++ == 0)
                s->other = t->name;
            s->other_bytes += bytes;
        }
    }
    return MT_OK;
}

/* Appends to the source text; what does not fit is lost. */
static void append(mt_checkpoint *ck, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(mt_checkpoint *ck, const char *format, ...) {
    const size_t used = strlen(ck->source);
    va_list args;
    va_start(args, format);
    vsnprintf(ck->source + used, sizeof ck->source - used, format, args);
    va_end(args);
}

static void describe(mt_checkpoint *ck, const char *path, const skipped *s) {
    char text[160], size[24];
    append(ck, "%s (safetensors", mt_printable_path(text, sizeof text, path));
    if (s->mask_bytes > 0)
        append(ck, ", %s of mask buffers", mt_format_size(s->mask_bytes, size, sizeof size));
    if (s->head_bytes > 0)
        append(ck, ", %s of lm_head.weight (wte.weight again)",
               mt_format_size(s->head_bytes, size, sizeof size));
    if (s->others > 0)
        append(ck, ", %s of %zu other tensor%s (%s%s)",
               mt_format_size(s->other_bytes, size, sizeof size), s->others,
               s->others == 1 ? "" : "s", mt_printable(text, 60, s->other, strlen(s->other)),
               s->others == 1 ? "" : ", ...");
    append(ck, "%s)", s->mask_bytes + s->head_bytes + s->others > 0 ? " skipped" : "");
}

/* ---- the methods ----------------------------------------------------------------------------- */

static void huggingface_read(mt_checkpoint *ck, uint32_t i, const mt_tensor *t, uint64_t first,
                             uint64_t rows, float *dst, mt_threads *pool) {
    const huggingface *h = (const huggingface *)ck;
    (void)t;
    mt_stored_read(&h->tensor[i], first, rows, dst, pool);
    mt_stored_drop(&h->tensor[i], &h->file.file, first, rows);
}

static void huggingface_close(mt_checkpoint *ck) {
    huggingface *h = (huggingface *)ck;
    mt_safetensors_close(&h->file);
    free(h->used);
    free(h->tensor);
    free(h);
}

static mt_status open_files(huggingface *h, const char *path, mt_error *err) {
    paths p;
    skipped s;
    MT_TRY(paths_of(path, &p, err));
    mt_status status = mt_config_read(p.config, &h->base.config, err);
    if (status == MT_OK)
        status = mt_safetensors_open(&h->file, p.weights, err);
    paths_free(&p);
    if (status != MT_OK)
        return status;
    MT_TRY(find_tensors(h, err));
    MT_TRY(count_skipped(h, &s, err));
    describe(&h->base, path, &s);
    return MT_OK;
}

mt_status mt_huggingface_open(mt_checkpoint **out, const char *path, mt_error *err) {
    static const mt_checkpoint_kind kind = { huggingface_read, huggingface_close };
    huggingface *h = calloc(1, sizeof *h);
    if (h == NULL)
        return mt_no_memory(err, "a checkpoint");
    h->base.kind = &kind;
    mt_status status = open_files(h, path, err);
    if (status != MT_OK)
        huggingface_close(&h->base);
    else
        *out = &h->base;
    return status;
}
