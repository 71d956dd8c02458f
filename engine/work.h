/* work.h - how much a pass computes, by formula.
 *
 * Conventions: a multiply and an add are two FLOPs; matrix products and attention count, LayerNorm,
 * softmax and GELU do not. Attention is counted twice: as computed, a query meets the places it may
 * see and no others (causal), and as the usual square of T and T. With L layers, C width, I inner
 * width, V vocabulary, B sequences, T new tokens of each after `first` earlier ones:
 *
 *     products   2 L (4 C C + 2 C I) R           R = B T rows; 24 L C C R when I = 4 C
 *     attention  4 L C B (T first + T (T + 1) / 2)    the square: 4 L C B T (first + T)
 *     head       2 C V rows                      rows: B, or R when all logits are wanted
 *
 * Counting training needs three times as much, so figures of that kind do not compare. */
#ifndef MT_ENGINE_WORK_H
#define MT_ENGINE_WORK_H

#include "engine/config.h"

typedef struct mt_work {
    uint64_t products, attention, head; /* FLOPs, as computed */
    uint64_t square;                    /* FLOPs of the attention that masks instead of skipping */
} mt_work;

mt_work mt_work_of_pass(const mt_config *c, uint32_t B, uint32_t T, uint32_t first,
                        bool all_logits);

/* FLOPs as computed, and as usually counted. */
static inline uint64_t mt_work_flops(const mt_work *w) {
    return w->products + w->attention + w->head;
}
static inline uint64_t mt_work_usual(const mt_work *w) {
    return w->products + w->square + w->head;
}

#endif
