/* work.c - see work.h. */
#include "engine/work.h"

mt_work mt_work_of_pass(const mt_config *c, uint32_t B, uint32_t T, uint32_t first,
                        bool all_logits) {
    uint64_t L = c->layers, C = c->width, I = c->inner, V = c->vocab, R = (uint64_t)B * T;
    uint64_t seen = (uint64_t)T * first + (uint64_t)T * (T + 1) / 2;
    return (mt_work){ .products = 2 * L * (4 * C * C + 2 * C * I) * R,
                      .attention = 4 * L * C * B * seen,
                      .square = 4 * L * C * R * ((uint64_t)first + T),
                      .head = 2 * C * V * (all_logits ? R : B) };
}
