/* pack.h - buffers with known lifetimes into one range of addresses, as low as can be found.
 *
 * The problem (offline dynamic storage allocation) is NP-hard; this finds a good packing, says when
 * it is surely the best, and checks it. Candidates: first fit and best fit in the order of time, as
 * an allocator would that never rounds; then the lowest place for each buffer, largest first,
 * longest first, and by size x duration; then local search on the best of those three orders: a
 * buffer that reaches the top moves to an earlier place in the order. With up to 8 buffers all
 * orders are tried, which finds the optimum.
 *
 * The work is bounded by counts, not by time, so that results repeat: a candidate that would look
 * at too many pairs is left out. First and best fit always finish, in O(n x holes). */
#ifndef MT_REPORTS_PACK_H
#define MT_REPORTS_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Lives in [birth, death); births rise from item to item. */
typedef struct mt_pack_item {
    uint64_t size;
    uint32_t birth, death;
} mt_pack_item;

typedef struct mt_pack_result {
    uint64_t low;    /* peak of live sizes: no packing is lower */
    uint64_t height; /* of the packing found */
    bool exact;      /* no packing is lower than height */
    const char *how; /* which candidate */
} mt_pack_result;

/* Places n items: offset[i] is where item i begins. */
mt_status mt_pack(const mt_pack_item *item, uint32_t n, uint64_t *offset, mt_pack_result *out,
                  mt_error *err);

/* MT_CHECK when two items that live at once overlap, or one ends above height. */
mt_status mt_pack_check(const mt_pack_item *item, uint32_t n, const uint64_t *offset,
                        uint64_t height, mt_error *err);

#endif
