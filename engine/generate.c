/* generate.c - see generate.h. */
#include "engine/generate.h"

#include <stdlib.h>

#include "base/clock.h"
#include "engine/checkpoint/seeded.h"

uint32_t mt_generate_steps(const mt_engine *e) {
    return e->options.ctx - e->options.prompt + 1;
}

/* One step and its mark; a device that computes nothing has no times. */
static mt_status timed_step(mt_engine *e, const int32_t *ids, uint32_t T, int32_t *next,
                            mt_error *err) {
    uint64_t start = e->device->computes ? mt_now_ns() : 0;
    MT_TRY(mt_engine_step(e, ids, T, next, err));
    uint64_t ns = e->device->computes ? mt_now_ns() - start : 0;
    mt_alloc_mark(e->alloc, e->tokens, mt_engine_kv_ideal(e, e->tokens), ns);
    return MT_OK;
}

/* Notes which sequences have met the stop id; true when all have. */
static bool all_stopped(const mt_engine *e, const mt_generation *g, const int32_t *next,
                        bool *stopped) {
    bool all = g->stop >= 0;
    for (uint32_t b = 0; g->stop >= 0 && b < e->options.batch; b++) {
        stopped[b] |= next[b] == g->stop;
        all &= stopped[b];
    }
    return all;
}

static mt_status run(mt_engine *e, const int32_t *prompt, const mt_generation *g, int32_t *ids,
                     uint32_t *done, int32_t *next, bool *stopped, mt_error *err) {
    uint32_t B = e->options.batch, steps = mt_generate_steps(e);
    for (uint32_t step = 0; step < steps; step++) {
        MT_TRY(
            timed_step(e, step == 0 ? prompt : next, step == 0 ? e->options.prompt : 1, next, err));
        for (uint32_t b = 0; ids != NULL && b < B; b++)
            ids[(size_t)b * steps + step] = next[b];
        *done = step + 1;
        mt_status status =
            g->on_step != NULL ? g->on_step(g->context, step, e->tokens, next) : MT_OK;
        if (status != MT_OK)
            return mt_fail(err, status, "stopped after step %u", step);
        if (all_stopped(e, g, next, stopped))
            break;
    }
    return MT_OK;
}

mt_status mt_generate(mt_engine *e, const int32_t *prompt, const mt_generation *g, int32_t *ids,
                      uint32_t *done, mt_error *err) {
    int32_t *next = calloc(e->options.batch, sizeof *next);
    bool *stopped = calloc(e->options.batch, sizeof *stopped);
    *done = 0;
    mt_status status = next != NULL && stopped != NULL
                           ? run(e, prompt, g, ids, done, next, stopped, err)
                           : mt_no_memory(err, "the tokens of a step");
    free(next);
    free(stopped);
    return status;
}

void mt_seeded_prompt(int32_t *ids, uint32_t B, uint32_t P, uint64_t seed, uint32_t vocab) {
    uint32_t key = mt_seeded_key("prompt", seed);
    for (uint32_t i = 0; i < B * P; i++)
        ids[i] = (int32_t)(mt_seeded_hash(key, i) % vocab);
}
