/* config.h - the shape of a GPT-2.
 *
 * One struct says all there is to know about a model's shape. It comes from a preset's name, from a
 * Hugging Face config.json, from the header of an llm.c file, or from the command line. */
#ifndef MT_ENGINE_CONFIG_H
#define MT_ENGINE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mt_dtype { MT_F32, MT_BF16, MT_F16 } mt_dtype;

typedef struct mt_config {
    uint32_t layers;    /* L, 12 in GPT-2 small */
    uint32_t heads;     /* H, 12; width is a multiple of it */
    uint32_t width;     /* C, 768 */
    uint32_t vocab;     /* V, 50257 */
    uint32_t positions; /* rows of wpe, 1024: the longest context */
    uint32_t inner;     /* width of the MLP, 4 C unless config.json says otherwise */
    float epsilon;      /* of the layer norms, 1e-5 */
    bool tied;          /* the head is wte; else lm_head is a tensor of its own */
    mt_dtype dtype;     /* of weights, cache and activations, for accounting */
} mt_config;

/* Bytes of one element: 4, 2, 2. */
size_t mt_dtype_bytes(mt_dtype dtype);
const char *mt_dtype_name(mt_dtype dtype); /* "f32", "bf16", "f16" */
bool mt_dtype_parse(const char *name, mt_dtype *out);

/* Fills c with a preset (gpt2, gpt2-medium, gpt2-large, gpt2-xl); false when there is none of
 * that name. */
bool mt_config_preset(const char *name, mt_config *c);

/* Reads a Hugging Face config.json. Keys that are missing or null and have a GPT-2 default
 * (n_inner, layer_norm_epsilon, tie_word_embeddings, activation_function, model_type) take it;
 * n_ctx stands in for a missing n_positions. A missing or impossible shape is refused, and so is
 * everything that makes another model of it: a model_type other than gpt2, an activation other than
 * gelu_new, scale_attn_by_inverse_layer_idx or reorder_and_upcast_attn set to true,
 * scale_attn_weights set to false. dtype becomes f32, whatever the file of weights holds. On
 * failure c is untouched. */
mt_status mt_config_read(const char *path, mt_config *c, mt_error *err);

/* Checks that the shape is one the engine can run: every number within [1, 2^20] (vocab to 2^24),
 * width a multiple of heads, epsilon in (0, 1], and every tensor's bytes and their sum within
 * 2^60. The functions below ask for a configuration that passed. */
mt_status mt_config_check(const mt_config *c, mt_error *err);

/* Number of parameters (a tied head counted once). */
uint64_t mt_config_parameters(const mt_config *c);

/* 2 L C bytes-per-element: what the keys and values of one token take in all layers. */
uint64_t mt_config_kv_bytes_per_token(const mt_config *c);

#endif
