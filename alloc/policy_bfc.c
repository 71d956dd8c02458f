/* policy_bfc.c - TensorFlow's best-fit with coalescing.
 *
 *     bfc[:START]
 *
 * A request is rounded up to a multiple of 256 bytes. TensorFlow keeps free chunks in bins by
 * powers of two (256 << k up to 256 MiB), each bin ordered by size, then address, and searches from
 * the request's bin upwards; every chunk of a bin is larger than those of the bins below, so the
 * first fit of that search is the smallest chunk of all that fits, ties by address. Here one index
 * in that order finds it without walking a bin. The chunk is split when it is at least twice the
 * rounded size, or when 128 MiB or more would be left over; otherwise the request gets the whole
 * chunk. A free merges with free neighbours of its region.
 *
 * When nothing fits a region is taken. Its size starts at START (1 MiB; newer releases begin with
 * 2 MiB), is doubled until the request fits, and doubles after each region that did not need that;
 * never more than the device's capacity less the regions held. A source that refuses is asked again
 * for 0.9 of it, rounded to 256 bytes, in single precision as the original computes it, down to the
 * rounded size. Then wholly free regions go back, if with them the request could fit, and all is
 * tried once more. (The original repeats one size for ever when 0.9 of it rounds to itself; here
 * that ends the shrinking.)
 *
 * Each stream has regions of its own. Only memtrace trims: the next region is then as large as it
 * would be had the held ones been all.
 *
 * O(log n) in the free chunks. Worst case: a request gets a chunk of just under twice its size, or
 * 128 MiB more than it needs, and a region of up to twice all that was held before stays for one
 * live chunk in it. */
#include "alloc/internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"

#define UNIT     256
#define LEFTOVER (128 * MT_MIB) /* split when that much would be left over */
#define MOST     ((uint64_t)1 << 60)

typedef struct bfc {
    mt_policy base;
    uint64_t start, next; /* size of the first region, of the next one */
    uint64_t wanted;      /* what the source refused last */
    mt_index free;
} bfc;

static mt_status bfc_open(mt_policy *base, char *options, mt_error *err) {
    bfc *p = (bfc *)base;
    uint64_t start = MT_MIB;
    if (*options != '\0' && (!mt_parse_size(options, &start) || start == 0 || start % UNIT != 0 ||
                             start > (uint64_t)1 << 50))
        return mt_fail(
            err, MT_BAD,
            "policy bfc \"%.60s\": expected bfc:SIZE, the first region, a multiple of 256 and at "
            "most 1048576GiB",
            options);
    p->start = p->next = start;
    p->free.order = MT_ORDER_ADDRESS;
    snprintf(p->base.description, sizeof p->base.description, "bfc:%" PRIu64, start);
    return MT_OK;
}

static uint64_t bfc_roundup(const mt_policy *base, uint64_t bytes) {
    (void)base;
    return mt_round_up(bytes, UNIT);
}

/* The smallest chunk that fits, out of the index; NULL when there is none. */
static mt_block *find(bfc *p, uint32_t stream, uint64_t size) {
    mt_block *b = mt_index_at_least(&p->free, stream, size);
    if (b == NULL || b->stream != stream)
        return NULL;
    mt_index_remove(&p->free, b);
    return b;
}

/* ---- regions --------------------------------------------------------------------------------- */

static void grow(bfc *p) {
    if (p->next < MOST)
        p->next *= 2;
}

/* 0.9 of a region, rounded up. */
static uint64_t less(uint64_t bytes) {
    return mt_round_up((uint64_t)((float)bytes * 0.9f), UNIT);
}

/* Asks for a region of so many bytes, then for less and less, but not below size. */
static mt_status take(bfc *p, uint64_t bytes, uint64_t size, uint32_t stream, mt_block **b,
                      mt_error *err) {
    for (;;) {
        p->wanted = bytes;
        mt_status status = mt_core_take(&p->base.core, bytes, MT_POOL_REGION, stream, b, err);
        uint64_t smaller = less(bytes);
        if (status != MT_NO_MEMORY || smaller < size || smaller >= bytes)
            return status;
        bytes = smaller;
    }
}

static mt_status extend(bfc *p, uint64_t size, uint32_t stream, mt_block **b, mt_error *err) {
    const mt_core *c = &p->base.core;
    uint64_t limit = c->source->capacity;
    uint64_t left = limit > c->reserved ? (limit - c->reserved) / UNIT * UNIT : 0;
    bool grown = false;
    p->wanted = size;
    if (size > left)
        return mt_fail(err, MT_NO_MEMORY, "%s: %" PRIu64 " bytes requested, %" PRIu64 " free",
                       c->source->name, size, left);
    while (size > p->next) {
        grow(p);
        grown = true;
    }
    MT_TRY(take(p, p->next < left ? p->next : left, size, stream, b, err));
    if (!grown)
        grow(p);
    return MT_OK;
}

/* Bytes of wholly free regions; gives them back on request. */
static uint64_t free_regions(bfc *p, bool give) {
    uint64_t bytes = 0;
    mt_block *b = mt_index_first(&p->free);
    while (b != NULL) {
        mt_block *next = mt_index_next(b);
        if (mt_block_whole(b)) {
            bytes += b->size;
            if (give) {
                mt_index_remove(&p->free, b);
                mt_core_give(&p->base.core, b);
            }
        }
        b = next;
    }
    return bytes;
}

/* Whether the request could fit once the free regions are back. */
static bool worth_giving(bfc *p, uint64_t size) {
    const mt_core *c = &p->base.core;
    uint64_t free_bytes = free_regions(p, false), limit = c->source->capacity;
    return free_bytes > 0 && size <= limit + free_bytes - c->reserved;
}

static mt_status new_region(bfc *p, uint64_t size, uint32_t stream, mt_block **b, mt_error *err) {
    mt_status status = extend(p, size, stream, b, err);
    if (status != MT_NO_MEMORY || !worth_giving(p, size))
        return status;
    free_regions(p, true);
    return extend(p, size, stream, b, err);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static mt_status bfc_get(mt_policy *base, uint64_t bytes, uint32_t stream, uint32_t live,
                         mt_place *place, mt_error *err) {
    bfc *p = (bfc *)base;
    uint64_t size = bfc_roundup(base, bytes);
    MT_TRY(mt_core_spare(&base->core, 4, err));
    mt_block *b = find(p, stream, size);
    if (b == NULL)
        MT_TRY(new_region(p, size, stream, &b, err));
    if (b->size >= 2 * size || b->size - size >= LEFTOVER) {
        mt_block *rest = b;
        b = mt_core_split(&base->core, rest, size);
        mt_index_insert(&p->free, rest);
    }
    mt_block_serve(b, bytes, live, place);
    return MT_OK;
}

static void absorb(bfc *p, mt_block *b, mt_block *other) {
    if (other == NULL || other->used)
        return;
    mt_index_remove(&p->free, other);
    mt_core_merge(&p->base.core, b, other);
}

static void bfc_put(mt_policy *base, void *block) {
    bfc *p = (bfc *)base;
    mt_block *b = block;
    uint32_t live = b->live;
    b->used = false;
    absorb(p, b, b->next);
    absorb(p, b, b->prev);
    mt_send_free(&base->core, live);
    mt_index_insert(&p->free, b);
}

static void bfc_trim(mt_policy *base) {
    bfc *p = (bfc *)base;
    if (free_regions(p, true) == 0)
        return;
    p->next = p->start;
    while (p->next <= base->core.reserved)
        grow(p);
}

static void bfc_refusal(const mt_policy *base, uint64_t bytes, uint32_t stream, uint64_t *segment,
                        uint64_t *largest) {
    const bfc *p = (const bfc *)base;
    uint64_t size = bfc_roundup(base, bytes);
    *segment = p->wanted > size ? p->wanted : size;
    *largest = mt_core_largest_free(&base->core, stream, MT_POOL_REGION);
}

const mt_policy_ops mt_policy_bfc = {
    .traits = { .name = "bfc",
                .syntax = "bfc[:SIZE]",
                .help = "TensorFlow's best fit with coalescing; SIZE of the first region",
                .colon = true },
    .size = sizeof(bfc),
    .open = bfc_open,
    .roundup = bfc_roundup,
    .get = bfc_get,
    .put = bfc_put,
    .trim = bfc_trim,
    .refusal = bfc_refusal,
};
