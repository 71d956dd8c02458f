/* llmc.c - a model file of llm.c, versions 3 (fp32) and 5 (bf16).
 *
 * A header of 256 int32: magic, version, longest context, vocabulary, layers, heads, width, padded
 * vocabulary; then sixteen groups in the table's order, each holding one tensor for all layers
 * together. Matrices are [out, in] already. wte has rows of padding after the vocabulary, which
 * are never read. The size of the file is exactly what the header implies. */
#include "engine/checkpoint/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/mapped.h"
#include "engine/checkpoint/stored.h"

enum {
    MAGIC = 20240326,
    WORDS = 256,
    HEADER_BYTES = 4 * WORDS,
    FIRST = 2,     /* groups before the layers: wte, wpe */
    IN_LAYER = 12, /* groups of the layers */
    GROUPS = FIRST + IN_LAYER + 2
};

/* Words of the header. */
enum { W_MAGIC, W_VERSION, W_POSITIONS, W_VOCAB, W_LAYERS, W_HEADS, W_WIDTH, W_PADDED, W_USED };

typedef struct llmc {
    mt_checkpoint base;
    mt_mapped file;
    mt_dtype dtype;
    uint32_t padded;        /* rows of wte in the file */
    uint64_t start[GROUPS]; /* byte of the file where each group begins */
} llmc;

/* ---- the header ------------------------------------------------------------------------------ */

/* Says what a file is that begins as no model does. */
static mt_status not_a_model(const mt_mapped *file, int32_t magic, mt_error *err) {
    static const struct {
        int32_t magic;
        const char *what;
    } others[] = {
        { 20240327, "the debug state of an llm.c model" },
        { 20240328, "an llm.c tokenizer" },
        { 20240520, "a shard of tokens for llm.c" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (magic == others[i].magic)
            return mt_fail(err, MT_BAD, "%s: byte 0: %d, %s, expected %d, an llm.c model",
                           file->label, magic, others[i].what, MAGIC);
    return mt_fail(err, MT_BAD,
                   "%s: is no known model file, expected an llm.c file (%d in its first word), a "
                   ".safetensors file or a folder with config.json and model.safetensors",
                   file->label, MAGIC);
}

static mt_status check_word(const mt_mapped *file, const int32_t *word, int which, const char *name,
                            mt_error *err) {
    if (word[which] > 0)
        return MT_OK;
    return mt_fail(err, MT_BAD, "%s: byte %d: %s is %d, expected a positive number", file->label,
                   4 * which, name, word[which]);
}

static mt_status check_words(const mt_mapped *file, const int32_t *word, mt_error *err) {
    static const char *const names[W_USED] = {
        [W_POSITIONS] = "context length",
        [W_VOCAB] = "vocabulary",
        [W_LAYERS] = "layers",
        [W_HEADS] = "heads",
        [W_WIDTH] = "width",
        [W_PADDED] = "padded vocabulary",
    };
    if (word[W_VERSION] != 3 && word[W_VERSION] != 5)
        return mt_fail(err, MT_BAD, "%s: byte 4: version %d, expected 3 (fp32) or 5 (bf16)",
                       file->label, word[W_VERSION]);
    for (int i = W_POSITIONS; i < W_USED; i++)
        MT_TRY(check_word(file, word, i, names[i], err));
    if (word[W_PADDED] < word[W_VOCAB])
        return mt_fail(err, MT_BAD, "%s: byte %d: padded vocabulary is %d, expected at least %d",
                       file->label, 4 * W_PADDED, word[W_PADDED], word[W_VOCAB]);
    return MT_OK;
}

static mt_status read_words(const mt_mapped *file, int32_t *word, mt_error *err) {
    int32_t magic = 0;
    if (file->size >= sizeof magic)
        memcpy(&magic, file->data, sizeof magic);
    if (magic != MAGIC)
        return not_a_model(file, magic, err);
    if (file->size < HEADER_BYTES)
        return mt_fail(err, MT_BAD, "%s: %llu bytes, expected a header of %d", file->label,
                       (unsigned long long)file->size, HEADER_BYTES);
    memcpy(word, file->data, W_USED * sizeof *word);
    return check_words(file, word, err);
}

static mt_status read_header(llmc *l, mt_error *err) {
    int32_t word[W_USED] = { 0 };
    mt_error inner;
    MT_TRY(read_words(&l->file, word, err));
    mt_config *c = &l->base.config;
    *c = (mt_config){ .layers = (uint32_t)word[W_LAYERS],
                      .heads = (uint32_t)word[W_HEADS],
                      .width = (uint32_t)word[W_WIDTH],
                      .vocab = (uint32_t)word[W_VOCAB],
                      .positions = (uint32_t)word[W_POSITIONS],
                      .inner = 4 * (uint32_t)word[W_WIDTH],
                      .epsilon = 1e-5f,
                      .tied = true,
                      .dtype = MT_F32 };
    l->dtype = word[W_VERSION] == 3 ? MT_F32 : MT_BF16;
    l->padded = (uint32_t)word[W_PADDED];
    if (mt_config_check(c, &inner) != MT_OK)
        return mt_fail(err, inner.status, "%s: header: %s", l->file.label, inner.text);
    return MT_OK;
}

/* ---- the groups ------------------------------------------------------------------------------ */

/* The group that row i of the table belongs to. */
static uint32_t group_of(const mt_config *c, uint32_t i) {
    const uint32_t after = FIRST + IN_LAYER * c->layers;
    if (i < FIRST)
        return i;
    return i < after ? FIRST + (i - FIRST) % IN_LAYER : FIRST + IN_LAYER + (i - after);
}

/* Bytes of a group; false when they overflow. */
static bool group_bytes(const llmc *l, uint32_t group, uint64_t *bytes) {
    const mt_config *c = &l->base.config;
    const bool last = group >= FIRST + IN_LAYER;
    mt_tensor t;
    /* A group's first tensor: in the layers that is layer 0's, whose rows follow wte and wpe. */
    mt_tensor_at(c, last ? group + IN_LAYER * (c->layers - 1) : group, &t);
    const uint64_t rows = group == 0 ? l->padded : t.rows;
    return mt_mul(rows, t.cols, bytes) && mt_mul(*bytes, t.layer < 0 ? 1 : c->layers, bytes) &&
           mt_mul(*bytes, mt_dtype_bytes(l->dtype), bytes);
}

static mt_status place_groups(llmc *l, mt_error *err) {
    uint64_t at = HEADER_BYTES, bytes;
    for (uint32_t g = 0; g < GROUPS; g++) {
        l->start[g] = at;
        if (!group_bytes(l, g, &bytes) || !mt_add(at, bytes, &at))
            return mt_fail(err, MT_BAD, "%s: header: the tensors' size is out of range",
                           l->file.label);
    }
    if (at != l->file.size)
        return mt_fail(err, MT_BAD, "%s: %llu bytes, expected %llu by its header", l->file.label,
                       (unsigned long long)l->file.size, (unsigned long long)at);
    return MT_OK;
}

/* ---- the methods ----------------------------------------------------------------------------- */

static void llmc_read(mt_checkpoint *ck, uint32_t i, const mt_tensor *t, uint64_t first,
                      uint64_t rows, float *dst, mt_threads *pool) {
    const llmc *l = (const llmc *)ck;
    const uint64_t layer = t->layer < 0 ? 0 : (uint64_t)t->layer;
    const uint64_t at =
        l->start[group_of(&ck->config, i)] + layer * t->rows * t->cols * mt_dtype_bytes(l->dtype);
    const mt_stored stored = { l->file.data + at, l->dtype, t->rows, t->cols, false };
    mt_stored_read(&stored, first, rows, dst, pool);
    mt_stored_drop(&stored, &l->file, first, rows);
}

static void llmc_close(mt_checkpoint *ck) {
    llmc *l = (llmc *)ck;
    mt_mapped_close(&l->file);
    free(l);
}

static mt_status open_file(llmc *l, const char *path, mt_error *err) {
    mt_checkpoint *ck = &l->base;
    MT_TRY(mt_mapped_open(&l->file, path, err));
    MT_TRY(read_header(l, err));
    MT_TRY(place_groups(l, err));
    int used = snprintf(ck->source, sizeof ck->source, "%s (llm.c version %d", l->file.label,
                        l->dtype == MT_F32 ? 3 : 5);
    const uint32_t padding = l->padded - ck->config.vocab;
    if (padding > 0)
        used += snprintf(ck->source + used, sizeof ck->source - (size_t)used,
                         ", %u rows of padding skipped", padding);
    snprintf(ck->source + used, sizeof ck->source - (size_t)used, ")");
    return MT_OK;
}

mt_status mt_llmc_open(mt_checkpoint **out, const char *path, mt_error *err) {
    static const mt_checkpoint_kind kind = { llmc_read, llmc_close };
    llmc *l = calloc(1, sizeof *l);
    if (l == NULL)
        return mt_no_memory(err, "a checkpoint");
    l->base.kind = &kind;
    mt_status status = open_file(l, path, err);
    if (status != MT_OK)
        llmc_close(&l->base);
    else
        *out = &l->base;
    return status;
}
