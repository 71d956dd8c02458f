/* policy_block.c - segments in whole blocks of one size: the laboratory for block-size effects.
 *
 *     block:SIZE[,round:N][,fit:best|first][,keep:all|none]
 *
 * One pool. A request is rounded up to a multiple of N (512) and served from a free block of its
 * stream: the smallest that fits (best), or the one at the lowest address (first). What is left
 * over stays a free block. When nothing fits, a new segment is taken: the rounded size rounded up
 * to a multiple of SIZE. A free merges with free neighbours. keep:all keeps wholly free segments
 * for later requests, keep:none gives them back at once.
 *
 * Best fit is O(log n) in the free blocks; first fit walks them by address, O(n) at worst. Waste at
 * worst: a segment stays held for one small live block in it. */
#include "alloc/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

typedef struct block_policy {
    mt_policy base;
    uint64_t size, round;
    bool first_fit, keep_none;
    mt_index free;
} block_policy;

static mt_status read_option(void *policy, const char *key, char *value, mt_error *err) {
    block_policy *p = policy;
    if (strcmp(key, "round") == 0 && mt_parse_size(value, &p->round) && p->round > 0 &&
        p->round % 256 == 0 && p->round <= (uint64_t)1 << 50)
        return MT_OK;
    if (strcmp(key, "fit") == 0 && (strcmp(value, "best") == 0 || strcmp(value, "first") == 0)) {
        p->first_fit = *value == 'f';
        return MT_OK;
    }
    if (strcmp(key, "keep") == 0 && (strcmp(value, "all") == 0 || strcmp(value, "none") == 0)) {
        p->keep_none = *value == 'n';
        return MT_OK;
    }
    return mt_fail(err, MT_BAD,
                   "policy block: %.40s:%.40s: expected round:N (a multiple of 256), "
                   "fit:best|first or keep:all|none",
                   key, value);
}

static mt_status read_options(block_policy *p, char *text, mt_error *err) {
    size_t n = strcspn(text, ",");
    bool more = text[n] == ',';
    text[n] = '\0';
    if (n == 0)
        return mt_fail(err, MT_BAD, "policy block: expected block:SIZE, for example block:2MiB");
    if (!mt_parse_size(text, &p->size) || p->size == 0 || p->size % (4 * MT_KIB) != 0 ||
        p->size > (uint64_t)1 << 50)
        return mt_fail(err, MT_BAD,
                       "policy block:%.60s: expected block:SIZE, a multiple of 4KiB and at most "
                       "1048576GiB",
                       text);
    if (more && text[n + 1] == '\0')
        return mt_fail(err, MT_BAD, "policy block:%.60s,: an option is missing after the comma",
                       text);
    return more ? mt_policy_options(text + n + 1, read_option, p, err) : MT_OK;
}

static mt_status block_open(mt_policy *base, char *options, mt_error *err) {
    block_policy *p = (block_policy *)base;
    p->round = 512;
    MT_TRY(read_options(p, options, err));
    p->free.by_address = p->first_fit;
    p->free.order = MT_ORDER_SEGMENT;
    snprintf(p->base.description, sizeof p->base.description,
             "block:%" PRIu64 ",round:%" PRIu64 ",fit:%s,keep:%s", p->size, p->round,
             p->first_fit ? "first" : "best", p->keep_none ? "none" : "all");
    return MT_OK;
}

static uint64_t block_roundup(const mt_policy *base, uint64_t bytes) {
    return mt_round_up(bytes, ((const block_policy *)base)->round);
}

/* The free block that serves size bytes of a stream, out of the index; NULL when none fits. */
static mt_block *find(block_policy *p, uint32_t stream, uint64_t size) {
    mt_block *b = mt_index_at_least(&p->free, stream, p->first_fit ? 0 : size);
    while (b != NULL && b->stream == stream && b->size < size)
        b = mt_index_next(b);
    if (b == NULL || b->stream != stream)
        return NULL;
    mt_index_remove(&p->free, b);
    return b;
}

static void give_free_segments(block_policy *p) {
    mt_block *b = mt_index_first(&p->free);
    while (b != NULL) {
        mt_block *next = mt_index_next(b);
        if (mt_block_whole(b)) {
            mt_index_remove(&p->free, b);
            mt_core_give(&p->base.core, b);
        }
        b = next;
    }
}

static mt_status new_segment(block_policy *p, uint64_t size, uint32_t stream, mt_block **b,
                             mt_error *err) {
    uint64_t bytes = mt_round_up(size, p->size);
    mt_core *c = &p->base.core;
    mt_status status = mt_core_take(c, bytes, MT_POOL_BLOCK, stream, b, err);
    if (status != MT_NO_MEMORY)
        return status;
    give_free_segments(p);
    return mt_core_take(c, bytes, MT_POOL_BLOCK, stream, b, err);
}

static mt_status block_get(mt_policy *base, uint64_t bytes, uint32_t stream, uint32_t live,
                           mt_place *place, mt_error *err) {
    block_policy *p = (block_policy *)base;
    uint64_t size = block_roundup(base, bytes);
    MT_TRY(mt_core_spare(&base->core, 4, err));
    mt_block *b = find(p, stream, size);
    if (b == NULL)
        MT_TRY(new_segment(p, size, stream, &b, err));
    if (b->size > size) {
        mt_block *rest = b;
        b = mt_core_split(&base->core, rest, size);
        mt_index_insert(&p->free, rest);
    }
    mt_block_serve(b, bytes, live, place);
    return MT_OK;
}

static void absorb(block_policy *p, mt_block *b, mt_block *other) {
    if (other == NULL || other->used)
        return;
    mt_index_remove(&p->free, other);
    mt_core_merge(&p->base.core, b, other);
}

static void block_put(mt_policy *base, void *block) {
    block_policy *p = (block_policy *)base;
    mt_block *b = block;
    uint32_t live = b->live;
    b->used = false;
    absorb(p, b, b->prev);
    absorb(p, b, b->next);
    mt_send_free(&base->core, live);
    if (p->keep_none && mt_block_whole(b))
        mt_core_give(&base->core, b);
    else
        mt_index_insert(&p->free, b);
}

static void block_trim(mt_policy *base) {
    give_free_segments((block_policy *)base);
}

static void block_refusal(const mt_policy *base, uint64_t bytes, uint32_t stream, uint64_t *segment,
                          uint64_t *largest) {
    const block_policy *p = (const block_policy *)base;
    *segment = mt_round_up(block_roundup(base, bytes), p->size);
    *largest = mt_core_largest_free(&base->core, stream, MT_POOL_BLOCK);
}

const mt_policy_ops mt_policy_block = {
    .traits = { .name = "block",
                .syntax = "block:SIZE[,round:N][,fit:best|first][,keep:all|none]",
                .help = "segments of whole blocks of SIZE; requests rounded up to N bytes",
                .colon = true },
    .size = sizeof(block_policy),
    .open = block_open,
    .roundup = block_roundup,
    .get = block_get,
    .put = block_put,
    .trim = block_trim,
    .refusal = block_refusal,
};
