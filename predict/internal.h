/* internal.h - between the files of predict/, see gpt2.h.
 *
 * The verbs are pass_new, pass_drop and, for what lives during one call only, pass_scratch. After
 * the first refusal, or when someone interrupts the run, they do nothing, so that the model reads
 * as a recipe without checks: the run ends at the next row. */
#ifndef MT_PREDICT_INTERNAL_H
#define MT_PREDICT_INTERNAL_H

#include "predict/gpt2.h"

/* Bytes of an element of torch.long (ids, positions), torch.bool (masks) and torch.float
 * (statistics, whatever the model's type). */
#define LONG_BYTES  ((uint64_t)8)
#define BOOL_BYTES  ((uint64_t)1)
#define FLOAT_BYTES ((uint64_t)4)

/* A pass over some tokens. A tensor here is only memory; its shape stands where it is made. */
typedef struct pass {
    mt_alloc *alloc;
    const mt_predict_options *o;
    mt_error *err;
    mt_status status;     /* of the first refusal */
    int32_t layer;        /* that requests belong to; -1: none */
    uint64_t B, H, D;     /* sequences, heads, width of a head */
    uint64_t C, F, V;     /* width, width inside the MLP, vocabulary */
    uint64_t E;           /* bytes of an element of the model's type */
    uint64_t Q;           /* tokens of this pass, of each sequence */
    uint64_t T;           /* keys that they attend to */
    bool masked;          /* scaled_dot_product_attention gets a mask */
    mt_mem blas, lt;      /* workspaces that are kept */
    mt_mem *key, *value;  /* the cache, by layer */
    mt_mem *cache_length; /* of a static cache, by layer */
} pass;

/* A tensor's bytes: the product of all factors; UINT64_MAX when it does not fit, which no device
 * can serve. */
uint64_t pass_product(const uint64_t *factor, size_t count);
#define BYTES(...)                                                                                 \
    pass_product((const uint64_t[]){ __VA_ARGS__ }, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8)

/* Takes memory, or none for 0 bytes. */
mt_mem pass_new(pass *t, mt_tag tag, uint64_t bytes);
void pass_drop(pass *t, mt_mem *m);
void pass_scratch(pass *t, uint64_t bytes);

/* A tensor of this pass's tokens, with so many elements for each. */
mt_mem pass_rows(pass *t, uint64_t width);

/* x -> the next value of the same name: the new tensor is there before the old one goes. */
void pass_replace(pass *t, mt_mem *x, mt_mem next);

/* Calls of the libraries: each takes its workspace. */
void pass_call_blas(pass *t);
void pass_call_lt(pass *t);

/* torch.addmm of a bias row: [B Q, from] to [B Q, to]. */
mt_mem pass_addmm(pass *t, uint64_t from, uint64_t to);

/* torch.bmm of B H pairs of matrices. An operand whose strides do not let batch and heads become
 * one dimension is copied first; its bytes are given then, else 0. */
mt_mem pass_bmm(pass *t, uint64_t left_copy, uint64_t right_copy, uint64_t bytes);

mt_mem pass_layer_norm(pass *t); /* of [B, Q, C] */
mt_mem pass_cumsum(pass *t);     /* along the rows of a mask [B, Q] */
mt_mem pass_argmax(pass *t);     /* of the last logits, [B, V] to [B] */

/* Attention of a layer's queries, keys and values to [B, Q, C]. *weights: the probabilities, which
 * the eager kind returns; no memory otherwise. */
mt_mem pass_attention(pass *t, mt_mem *weights);

/* Whether scaled_dot_product_attention would choose a kernel of cuDNN's, whose scratch memory is
 * not known here. */
bool predict_needs_cudnn(const mt_predict_options *o);

/* As given, or of a usual device of this capability. */
uint64_t predict_multiprocessors(const mt_predict_options *o);

#endif
