/* seeded.c - weights out of a seed: each element is a hash of its place, its tensor's name and the
 * seed (the definition is in checkpoint.h), so that any part can be made alone, in any order and
 * by any number of threads, and is the same everywhere. */
#include "engine/checkpoint/seeded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/internal.h"

/* Powers of two, so that the products are exact. Chosen so that greedy text varies, and that every
 * row of the cache is felt in the logits. */
static const float SCALE = 0.25f;
static const float SCALE_EMBEDDING = 0.5f; /* wte and wpe */
static const float SCALE_SMALL = 0.125f;   /* attn.c_attn.weight and every bias */

enum { CHUNK = 1 << 16 }; /* elements a thread makes at a time */

typedef struct seeded {
    mt_checkpoint base;
    uint64_t seed;
} seeded;

/* What the elements of one tensor have in common: value = scale * u + offset. */
typedef struct recipe {
    uint32_t key;
    float scale, offset;
} recipe;

uint32_t mt_seeded_key(const char *name, uint64_t seed) {
    uint32_t h = 0x811c9dc5u; /* 32-bit FNV-1a */
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 0x01000193u;
    return mt_seeded_mix(h + (uint32_t)seed);
}

static recipe recipe_of(const char *name, uint64_t seed) {
    const bool norm = strstr(name, "ln_") != NULL && strstr(name, ".weight") != NULL;
    recipe r = { mt_seeded_key(name, seed), SCALE, norm ? 1.0f : 0.0f };
    if (strcmp(name, "wte.weight") == 0 || strcmp(name, "wpe.weight") == 0)
        r.scale = SCALE_EMBEDDING;
    else if (strstr(name, ".bias") != NULL || strstr(name, ".attn.c_attn.weight") != NULL)
        r.scale = SCALE_SMALL;
    return r;
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Writes n elements from place i on. Adding an offset of 0 changes nothing: no u is -0. */
static inline __attribute__((always_inline)) void fill(float *dst, uint32_t i, uint32_t n,
                                                       const recipe *r) {
    const uint32_t key = r->key;
    const float scale = r->scale, offset = r->offset;
    for (uint32_t k = 0; k < n; k++) {
        const int32_t centred = (int32_t)(mt_seeded_hash(key, i + k) >> 8) - (1 << 23);
        const float u = (float)centred * 0x1p-23f;
        dst[k] = scale * u + offset;
    }
}

static void fill_plain(float *dst, uint32_t i, uint32_t n, const recipe *r) {
    fill(dst, i, n, r);
}

#if defined(__x86_64__)
/* The same code for eight elements at a time; the results are the same to the bit. */
__attribute__((target("avx2"))) static void fill_avx2(float *dst, uint32_t i, uint32_t n,
                                                      const recipe *r) {
    fill(dst, i, n, r);
}
#endif

typedef void fill_function(float *dst, uint32_t i, uint32_t n, const recipe *r);

static fill_function *best_fill(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return fill_avx2;
#endif
    return fill_plain;
}

/* ---- the methods ----------------------------------------------------------------------------- */

/* A read: total elements from place `start` of the tensor on. */
typedef struct reading {
    recipe r;
    fill_function *fill;
    float *dst;
    uint64_t start, total;
} reading;

static void fill_chunk(void *context, size_t i) {
    const reading *c = context;
    const uint64_t at = (uint64_t)i * CHUNK, left = c->total - at;
    c->fill(c->dst + at, (uint32_t)(c->start + at), (uint32_t)(left < CHUNK ? left : CHUNK), &c->r);
}

static void seeded_read(mt_checkpoint *ck, uint32_t i, const mt_tensor *t, uint64_t first,
                        uint64_t rows, float *dst, mt_threads *pool) {
    reading c = { recipe_of(t->name, ((const seeded *)ck)->seed), best_fill(), dst, first * t->cols,
                  rows * t->cols };
    (void)i;
    mt_threads_run(pool, fill_chunk, &c, (c.total + CHUNK - 1) / CHUNK);
}

static void seeded_close(mt_checkpoint *ck) {
    free((seeded *)ck);
}

mt_status mt_checkpoint_seeded(mt_checkpoint **out, const mt_config *c, uint64_t seed,
                               mt_error *err) {
    static const mt_checkpoint_kind kind = { seeded_read, seeded_close };
    *out = NULL;
    MT_TRY(mt_config_check(c, err));
    seeded *s = calloc(1, sizeof *s);
    if (s == NULL)
        return mt_no_memory(err, "a checkpoint");
    s->base.kind = &kind;
    s->base.config = *c;
    s->seed = seed;
    snprintf(s->base.source, sizeof s->base.source, "seeded %llu", (unsigned long long)seed);
    *out = &s->base;
    return MT_OK;
}
