/* checkpoint.h - where the weights' values come from.
 *
 * Three kinds behind one interface: a Hugging Face folder (config.json, model.safetensors), an
 * llm.c .bin file (versions 3 and 5), and seeded pseudo-random values. Files are mapped for reading
 * only; values are converted to fp32 and to [out, in] order as they are read. */
#ifndef MT_ENGINE_CHECKPOINT_CHECKPOINT_H
#define MT_ENGINE_CHECKPOINT_CHECKPOINT_H

#include "base/threads.h"
#include "engine/checkpoint/weights.h"

typedef struct mt_checkpoint mt_checkpoint;

/* Opens a Hugging Face folder, a .safetensors file with a config.json beside it, or a file that
 * begins as llm.c's do. Everything that can be wrong with names, types, shapes and offsets is found
 * here (MT_BAD), so that a later read cannot fail for a file that does not change. On failure *out
 * is NULL.
 *
 * A tensor that the model does not need is skipped and reported in mt_checkpoint_source: the causal
 * masks h.N.attn.bias and h.N.attn.masked_bias, the lm_head.weight of a tied head if it repeats
 * wte.weight (else the file is refused), and any other. */
mt_status mt_checkpoint_open(mt_checkpoint **out, const char *path, mt_error *err);

/* Seeded values for any shape. For element i (row-major in [out, in]) of the tensor NAME:
 *
 *     mix(x): x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16
 *     h = mix(mix(i) ^ key),  key = mix(fnv1a(NAME) + seed)        all modulo 2^32
 *     u = (float)((int32)(h >> 8) - 2^23) * 2^-23                  exact, in [-1, 1)
 *     value = scale * u (fp32 product), + 1 (fp32 sum) for the weights of layer norms
 *
 * with fnv1a the 32-bit FNV-1a hash of the name's bytes, NAME as in the table (weights.h), seed
 * reduced to its low 32 bits, and scale = 0.5 for wte and wpe, 0.125 for attn.c_attn.weight and for
 * every bias, 0.25 for all else: greedy text varies, and each row of the cache is felt.
 * tests/oracle/ holds the same in ten lines of Python. */
mt_status mt_checkpoint_seeded(mt_checkpoint **out, const mt_config *c, uint64_t seed,
                               mt_error *err);

const mt_config *mt_checkpoint_config(const mt_checkpoint *ck);

/* A short text for headers: "seeded 0", "PATH (safetensors, 48.0 MiB of mask buffers skipped)". */
const char *mt_checkpoint_source(const mt_checkpoint *ck);

/* Writes rows [first, first + rows) of tensor i of the table to dst, fp32, [out, in] order. Uses
 * the threads of pool, or the caller's alone (NULL). Fails (MT_BAD) only for rows that are not
 * there. Pages of the file that will not be needed again are dropped; reading them again is slower,
 * but works. */
mt_status mt_checkpoint_read(mt_checkpoint *ck, uint32_t i, uint64_t first, uint64_t rows,
                             float *dst, mt_threads *pool, mt_error *err);

void mt_checkpoint_close(mt_checkpoint *ck); /* NULL is allowed */

#endif
