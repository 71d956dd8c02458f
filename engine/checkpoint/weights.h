/* weights.h - the weights of a GPT-2: one struct of pointers, one table of names and shapes.
 *
 * The loader reads what the table names, and requests device memory in its order. What Hugging
 * Face's classes hold beside these (masks) is another list, in predict/. A matrix of a linear layer
 * is held as [out, in], each output's inputs in a row, whatever the file's order. */
#ifndef MT_ENGINE_CHECKPOINT_WEIGHTS_H
#define MT_ENGINE_CHECKPOINT_WEIGHTS_H

#include "engine/config.h"

typedef struct mt_layer_weights {
    float *ln1_w;  /* [C] */
    float *ln1_b;  /* [C] */
    float *attn_w; /* [3C, C]: queries, keys, values, each split into heads */
    float *attn_b; /* [3C] */
    float *proj_w; /* [C, C] */
    float *proj_b; /* [C] */
    float *ln2_w;  /* [C] */
    float *ln2_b;  /* [C] */
    float *fc_w;   /* [inner, C] */
    float *fc_b;   /* [inner] */
    float *fcp_w;  /* [C, inner] */
    float *fcp_b;  /* [C] */
} mt_layer_weights;

typedef struct mt_weights {
    float *wte;              /* [V, C] */
    float *wpe;              /* [positions, C] */
    mt_layer_weights *layer; /* [L] */
    float *lnf_w;            /* [C] */
    float *lnf_b;            /* [C] */
    float *head;             /* [V, C]: lm_head, or wte when tied */
} mt_weights;

/* One row of the table, for a given configuration. */
typedef struct mt_tensor {
    char name[48]; /* Hugging Face key without the "transformer." prefix */
    uint64_t rows; /* 1 for a vector */
    uint64_t cols; /* elements of a row */
    int32_t layer; /* -1 outside the layers */
    bool conv1d;   /* Hugging Face stores the transpose, [cols, rows] */
    bool vector;   /* one-dimensional in the file */
} mt_tensor;

/* Tensors of a configuration: 2 + 12 L + 2, one more when the head is untied. */
uint32_t mt_tensor_count(const mt_config *c);

/* Row i of the table, in the order wte, wpe, each layer's twelve, ln_f, lm_head. */
void mt_tensor_at(const mt_config *c, uint32_t i, mt_tensor *out);

/* Where the pointer of row i is kept in w; w->layer must be there. */
float **mt_weights_slot(mt_weights *w, const mt_config *c, uint32_t i);

#endif
