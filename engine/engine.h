/* engine.h - GPT-2 inference: a model, a cache, and passes over tokens.
 *
 *     mt_model_load(&model, ...);
 *     mt_engine_open(&engine, model, &options, &err);   workspace, arena; ends loading
 *     mt_generate(engine, prompt, &run, ids, &err);     step 0 (the prefill), then a token a step
 *     mt_engine_close(engine); mt_model_close(model);
 *
 * Shapes: L layers, H heads, C width, V vocabulary, B sequences, T new tokens of each, R = B T
 * rows. */
#ifndef MT_ENGINE_ENGINE_H
#define MT_ENGINE_ENGINE_H

#include "engine/activations.h"
#include "engine/kv/kv.h"
#include "engine/model.h"

typedef struct mt_engine_options {
    uint32_t batch;   /* B */
    uint32_t prompt;  /* P, tokens of each sequence in the prefill */
    uint32_t ctx;     /* tokens in the cache at the end */
    bool logits_all;  /* the head computes all rows of a pass, else the last of each sequence */
    bool arena;       /* activations from one block, else eager */
    const char *kv;   /* cache strategy */
    mt_kv_wrap *wrap; /* puts another in front of it; NULL: none */
    const void *wrapped_with; /* its context */
    uint64_t workspace;       /* bytes requested for the library's workspace; 0: none */
    bool own_workspace;       /* the library keeps one that it takes itself */
    bool graph;               /* decode steps are recorded once and replayed; see graph.c */
} mt_engine_options;

/* A decode step as the device recorded it. */
typedef struct mt_recording {
    bool warm; /* a step of one token was done without: all code is loaded */
    bool made;
    int32_t *in;     /* [B] in the arena: ids that the recorded step reads */
    int32_t *out;    /* [B] and writes */
    mt_kv_view view; /* the first layer's cache then: a recording serves until it moves */
} mt_recording;

typedef struct mt_engine {
    mt_model *model;
    mt_alloc *alloc;
    mt_device *device;
    mt_engine_options options;
    mt_kv *kv;
    mt_acts acts;
    mt_mem workspace;
    mt_mem logits; /* [logits_rows, V] of the last pass; tag logits */
    uint32_t logits_rows;
    uint32_t tokens;  /* of each sequence, fed so far */
    int32_t *history; /* [B, ctx], this program's memory */
    mt_recording recording;
} mt_engine;

/* Requests workspace and arena, and marks the end of loading. options.kv must stay valid. */
mt_status mt_engine_open(mt_engine **out, mt_model *model, const mt_engine_options *options,
                         mt_error *err);

/* One step: feeds T new tokens of each sequence, ids[B, T], and writes the most likely next token
 * of each to next[B] (0 when the device does not compute). Sends no mark. On failure what the step
 * took is given back, but for the cache, which mt_engine_close frees. */
mt_status mt_engine_step(mt_engine *e, const int32_t *ids, uint32_t T, int32_t *next,
                         mt_error *err);

/* Forgets the tokens after the first `tokens`, so that a step at that place can be done again;
 * false, and nothing is forgotten, for a cache whose rows do not stay where they are (concat). */
bool mt_engine_rewind(mt_engine *e, uint32_t tokens);

/* Copies logits of the last step to host memory: rows [first, first + rows) of logits_rows. */
mt_status mt_engine_logits(mt_engine *e, uint32_t first, uint32_t rows, float *host, mt_error *err);

/* Ideal bytes of the cache: 2 L B ctx row. */
uint64_t mt_engine_kv_ideal(const mt_engine *e, uint64_t ctx);

void mt_engine_close(mt_engine *e); /* NULL is allowed */

/* forward.c: one pass over T new tokens after `first` earlier ones; ids in this program's memory.
 * Leaves e->logits and writes next[B]. In a plan (acts.mode MT_PLAN) only sizes are followed. */
mt_status mt_forward(mt_engine *e, const int32_t *ids, uint32_t T, uint32_t first, int32_t *next,
                     mt_error *err);

/* Records a pass over one new token of each sequence, which may later stand at any place up to
 * `last`. Needs an arena and a cache with room; requests nothing. Leaves e->recording.in and
 * out. */
mt_status mt_forward_record(mt_engine *e, uint32_t last, mt_error *err);

/* graph.c: whether the options allow what options.graph asks for (mt_engine_open asks too); whether
 * a step of T tokens is one to replay, and that step. */
mt_status mt_graph_check(const mt_engine_options *o, const mt_device *d, mt_error *err);
bool mt_graph_serves(const mt_engine *e, uint32_t T);
mt_status mt_graph_step(mt_engine *e, const int32_t *ids, int32_t *next, mt_error *err);

#endif
