/* weights.c - see weights.h. The table has five rows outside the layers and twelve that every
 * layer repeats; each row says its shape by the letters of the configuration and where its pointer
 * is kept. */
#include "engine/checkpoint/weights.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

/* A length, by what it is in a configuration. */
typedef enum length { ONE, WIDTH, WIDTH3, INNER, VOCAB, POSITIONS } length;

typedef struct row {
    const char *name;
    length rows, cols;
    bool conv1d;
    size_t slot; /* offset of the pointer in its struct */
} row;

#define IN_LAYER(field) offsetof(mt_layer_weights, field)
#define IN_MODEL(field) offsetof(mt_weights, field)

static const row layer_rows[] = {
    { "ln_1.weight", ONE, WIDTH, false, IN_LAYER(ln1_w) },
    { "ln_1.bias", ONE, WIDTH, false, IN_LAYER(ln1_b) },
    { "attn.c_attn.weight", WIDTH3, WIDTH, true, IN_LAYER(attn_w) },
    { "attn.c_attn.bias", ONE, WIDTH3, false, IN_LAYER(attn_b) },
    { "attn.c_proj.weight", WIDTH, WIDTH, true, IN_LAYER(proj_w) },
    { "attn.c_proj.bias", ONE, WIDTH, false, IN_LAYER(proj_b) },
    { "ln_2.weight", ONE, WIDTH, false, IN_LAYER(ln2_w) },
    { "ln_2.bias", ONE, WIDTH, false, IN_LAYER(ln2_b) },
    { "mlp.c_fc.weight", INNER, WIDTH, true, IN_LAYER(fc_w) },
    { "mlp.c_fc.bias", ONE, INNER, false, IN_LAYER(fc_b) },
    { "mlp.c_proj.weight", WIDTH, INNER, true, IN_LAYER(fcp_w) },
    { "mlp.c_proj.bias", ONE, WIDTH, false, IN_LAYER(fcp_b) },
};

static const row first_rows[] = {
    { "wte.weight", VOCAB, WIDTH, false, IN_MODEL(wte) },
    { "wpe.weight", POSITIONS, WIDTH, false, IN_MODEL(wpe) },
};

static const row last_rows[] = {
    { "ln_f.weight", ONE, WIDTH, false, IN_MODEL(lnf_w) },
    { "ln_f.bias", ONE, WIDTH, false, IN_MODEL(lnf_b) },
    { "lm_head.weight", VOCAB, WIDTH, false, IN_MODEL(head) },
};

enum {
    IN_EACH_LAYER = sizeof layer_rows / sizeof *layer_rows,
    FIRST = sizeof first_rows / sizeof *first_rows
};

_Static_assert(sizeof(mt_layer_weights) == IN_EACH_LAYER * sizeof(float *),
               "every pointer of a layer has its row");

uint32_t mt_tensor_count(const mt_config *c) {
    return FIRST + IN_EACH_LAYER * c->layers + (c->tied ? 2 : 3);
}

/* The row of the table behind index i, and its layer or -1. */
static const row *row_at(const mt_config *c, uint32_t i, int32_t *layer) {
    assert(i < mt_tensor_count(c));
    *layer = -1;
    if (i < FIRST)
        return &first_rows[i];
    i -= FIRST;
    if (i >= IN_EACH_LAYER * c->layers)
        return &last_rows[i - IN_EACH_LAYER * c->layers];
    *layer = (int32_t)(i / IN_EACH_LAYER);
    return &layer_rows[i % IN_EACH_LAYER];
}

static uint64_t length_of(const mt_config *c, length which) {
    switch (which) {
    case WIDTH:
        return c->width;
    case WIDTH3:
        return 3 * (uint64_t)c->width;
    case INNER:
        return c->inner;
    case VOCAB:
        return c->vocab;
    case POSITIONS:
        return c->positions;
    default:
        return 1;
    }
}

void mt_tensor_at(const mt_config *c, uint32_t i, mt_tensor *out) {
    int32_t layer;
    const row *r = row_at(c, i, &layer);
    *out = (mt_tensor){ .rows = length_of(c, r->rows),
                        .cols = length_of(c, r->cols),
                        .layer = layer,
                        .conv1d = r->conv1d,
                        .vector = r->rows == ONE };
    if (layer < 0)
        snprintf(out->name, sizeof out->name, "%s", r->name);
    else
        snprintf(out->name, sizeof out->name, "h.%d.%s", (int)layer, r->name);
}

float **mt_weights_slot(mt_weights *w, const mt_config *c, uint32_t i) {
    int32_t layer;
    const row *r = row_at(c, i, &layer);
    char *base = layer < 0 ? (char *)w : (char *)&w->layer[layer];
    return (float **)(void *)(base + r->slot);
}
