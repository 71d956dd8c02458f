/* generate.h - greedy decoding, one mark a step. */
#ifndef MT_ENGINE_GENERATE_H
#define MT_ENGINE_GENERATE_H

#include "engine/engine.h"

typedef struct mt_generation {
    /* Called after each step's mark with the tokens it chose, next[B]. Anything but MT_OK ends the
     * run with that status. May be NULL. */
    mt_status (*on_step)(void *context, uint32_t step, uint32_t ctx, const int32_t *next);
    void *context;
    int32_t stop; /* this id ends the run when every sequence has met it; -1: none does */
} mt_generation;

/* Steps a run needs: ctx - prompt + 1, each of which gives one id a sequence. */
uint32_t mt_generate_steps(const mt_engine *e);

/* Feeds prompt[B, P] and then each step's own choice until ctx tokens are in the cache. ids, when
 * not NULL, receives [B, steps]. *done: steps that ended, on failure too. */
mt_status mt_generate(mt_engine *e, const int32_t *prompt, const mt_generation *g, int32_t *ids,
                      uint32_t *done, mt_error *err);

/* P seeded ids of each of B sequences: the id of sequence b's place j is, with i = b P + j and mix
 * and fnv1a as in checkpoint.h, mix(mix(i) ^ mix(fnv1a("prompt") + seed)) mod vocab. */
void mt_seeded_prompt(int32_t *ids, uint32_t B, uint32_t P, uint64_t seed, uint32_t vocab);

#endif
