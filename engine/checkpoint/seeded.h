/* seeded.h - the hash behind every seeded value; see checkpoint.h for the definition. */
#ifndef MT_ENGINE_CHECKPOINT_SEEDED_H
#define MT_ENGINE_CHECKPOINT_SEEDED_H

#include <stdint.h>

/* Spreads the bits of x: equal x give equal results, near x unrelated ones. */
static inline uint32_t mt_seeded_mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* The key of a named sequence of values. */
uint32_t mt_seeded_key(const char *name, uint64_t seed);

/* Value i of the sequence: 32 pseudo-random bits. */
static inline uint32_t mt_seeded_hash(uint32_t key, uint32_t i) {
    return mt_seeded_mix(mt_seeded_mix(i) ^ key);
}

#endif
