/* bpe.h - byte-pair encoding: a table of ranked merges, and merging a piece of text by it.
 *
 * The rule: of all pairs of neighbours that have a merge, take the pair with the lowest rank and
 * merge every occurrence of it from left to right; repeat until no pair has a merge. */
#ifndef MT_ENGINE_TEXT_BPE_H
#define MT_ENGINE_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

#define MT_MERGES_MAX ((size_t)1 << 24)

/* All zero: no merges. */
typedef struct mt_merges {
    mt_map of; /* left << 32 | right -> rank << 32 | merged */
} mt_merges;

void mt_merges_free(mt_merges *m);

bool mt_merges_has(const mt_merges *m, int32_t left, int32_t right);

/* Adds the next merge: left, right -> merged, of which there is none yet. Its rank is the number of
 * merges before it, less than MT_MERGES_MAX. Ids are not negative. False when there is no
 * memory. */
bool mt_merges_add(mt_merges *m, int32_t left, int32_t right, int32_t merged);

/* Merges the *count ids of a piece in place and lowers *count. False when there is no memory; the
 * ids are then as they were. The merged id of a pair must stand for more bytes than either part. */
bool mt_merges_apply(const mt_merges *m, int32_t *ids, size_t *count);

#endif
