/* policy.c - PyTorch's CUDA caching allocator: requests and frees. See internal.h. */
#include "alloc/torch/internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

static inline unsigned log2_floor(uint64_t n) {
    return 63 - (unsigned)__builtin_clzll(n);
}

/* A power of two stays; anything else goes up to a multiple of (largest power of two below) / d. */
static uint64_t round_divisions(uint64_t n, unsigned d_log2) {
    unsigned e = log2_floor(n);
    return (n & (n - 1)) == 0 ? n : mt_round_up(n, UINT64_C(1) << (e - d_log2));
}

static uint64_t round_size(const torch_options *o, uint64_t n) {
    if (n < TORCH_MIN_BLOCK)
        return TORCH_MIN_BLOCK;
    unsigned e = log2_floor(n), i = e < 20 ? 0 : e - 20;
    unsigned d_log2 = o->division_log2[i < TORCH_DIVISIONS ? i : TORCH_DIVISIONS - 1];
    if (d_log2 > 0 && n > TORCH_MIN_BLOCK << d_log2)
        return round_divisions(n, d_log2);
    return mt_round_up(n, TORCH_MIN_BLOCK);
}

static uint64_t segment_size(const torch_options *o, uint64_t rounded) {
    if (rounded <= TORCH_SMALL_MAX)
        return TORCH_SMALL_SEGMENT;
    return rounded < TORCH_OWN_SEGMENT ? o->large_segment : mt_round_up(rounded, TORCH_OWN_ROUND);
}

static uint64_t torch_roundup(const mt_policy *base, uint64_t bytes) {
    return round_size(&((const torch *)base)->options, bytes);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void init_pool(torch_pool *p, uint8_t pool, mt_order order) {
    p->pool = pool;
    p->free.order = order;
    p->unmapped.by_address = true;
}

/* What a call or else the option allows of the device; 1 is no limit. */
static uint64_t limit_of(const torch_options *o, uint64_t device) {
    double fraction = o->call_fraction != TORCH_NO_CALL ? o->call_fraction : o->fraction;
    return fraction < 1 ? (uint64_t)(fraction * (double)device) : UINT64_MAX;
}

/* Addresses of a growable segment: 9/8 of the device, or fewer as asked for. */
static uint64_t range_of(const torch_options *o, uint64_t device) {
    uint64_t most = device + device / 8;
    double bytes = o->reserve * (double)(o->reserve_gib ? MT_GIB : device);
    if (o->reserve == 0 || bytes >= (double)most)
        return most;
    return bytes >= 1 ? (uint64_t)bytes : 1;
}

static void note_options(torch *t) {
    const torch_options *o = &t->options;
    if (*o->ignored_reserve != '\0')
        mt_policy_note(&t->base,
                       "expandable_segments_reserve:%s is ignored, as PyTorch does: expected %s",
                       o->ignored_reserve, TORCH_RESERVE);
    if (*o->ignored_class != '\0')
        mt_policy_note(
            &t->base,
            "expandable_segments_reserve_by_class: %s is ignored, as PyTorch does: expected %s",
            o->ignored_class, TORCH_RESERVE);
    if (*o->reserve_by_class != '\0')
        mt_policy_note(&t->base,
                       "expandable_segments_reserve_by_class changes nothing: a program gives "
                       "classes to its streams by a call, and there is none here");
    if (o->garbage_collection_threshold > 0 && t->limit == UINT64_MAX)
        mt_policy_note(&t->base,
                       "garbage_collection_threshold changes nothing without a memory limit, as in "
                       "PyTorch: per_process_memory_fraction below 1 sets one");
}

static mt_status torch_open(mt_policy *base, char *options, mt_error *err) {
    torch *t = (torch *)base;
    const torch_options *o = &t->options;
    const mt_source *source = base->core.source;
    MT_TRY(torch_read_options(&t->options, options, err));
    if (!mt_array_extend(&t->users, 1) || !mt_array_extend(&t->waits, 1))
        return mt_no_memory(err, "a policy");
    t->base.core.addresses = o->addresses;
    init_pool(&t->small, MT_POOL_SMALL, o->order);
    init_pool(&t->large, MT_POOL_LARGE, o->order);
    t->limit = limit_of(o, source->capacity);
    t->range = range_of(o, source->capacity);
    t->stats.max_split_size =
        o->max_split_size == TORCH_UNLIMITED ? -1 : (int64_t)o->max_split_size;
    torch_describe(o, t->base.description, sizeof t->base.description);
    note_options(t);
    return MT_OK;
}

static void torch_close(mt_policy *base) {
    torch *t = (torch *)base;
    for (size_t i = 0; i < t->users.count; i++)
        torch_streams_free(&t->users.at[i]);
    mt_array_free(&t->users);
    mt_array_free(&t->waits);
    torch_streams_free(&t->waiting);
}

/* ---- search ---------------------------------------------------------------------------------- */

/* A block and the unmapped pages right behind it. */
static uint64_t reach(const mt_block *b) {
    return b->size + (b->next != NULL && !b->next->mapped ? b->next->size : 0);
}

static mt_block *next_of_stream(const mt_block *b, uint32_t stream) {
    mt_block *n = mt_index_next(b);
    return n != NULL && n->stream == stream ? n : NULL;
}

/* In growable segments a block in the middle is better than one at the growing end. */
static mt_block *prefer_inner(mt_block *b, uint32_t stream) {
    for (mt_block *n; torch_growable(b); b = n) {
        n = next_of_stream(b, stream);
        if (n == NULL || reach(n) >= reach(b))
            break;
    }
    return b;
}

static mt_block *skip_growable(mt_block *b, uint32_t stream) {
    while (b != NULL && torch_growable(b))
        b = next_of_stream(b, stream);
    return b;
}

/* The free block that serves size bytes, out of its pool; NULL when none may. */
static mt_block *find(torch *t, torch_pool *p, uint64_t size, uint32_t stream) {
    const torch_options *o = &t->options;
    if (t->limit != UINT64_MAX && o->garbage_collection_threshold > 0)
        p->searches++;
    mt_block *b = mt_index_at_least(&p->free, stream, size);
    if (b == NULL || b->stream != stream)
        return NULL;
    b = o->expandable_segments ? prefer_inner(b, stream) : skip_growable(b, stream);
    if (b == NULL)
        return NULL;
    if (size < o->max_split_size && b->size >= o->max_split_size)
        return NULL;
    if (size >= o->max_split_size && b->size >= size + o->max_non_split_rounding)
        return NULL;
    mt_index_remove(&p->free, b);
    return b;
}

/* ---- new memory ------------------------------------------------------------------------------ */

/* throw_on_cudamalloc_oom: whether a request is refused for good before the driver is asked. Only
 * the option's fraction counts, not the call's. */
static bool rejects(torch *t, uint64_t segment) {
    const torch_options *o = &t->options;
    const mt_core *c = &t->base.core;
    return o->throw_on_cudamalloc_oom &&
           c->reserved + segment > (uint64_t)(o->fraction * (double)c->source->capacity);
}

/* One attempt: a new segment, or newly mapped pages. */
static mt_status new_memory(torch *t, torch_pool *p, uint64_t size, uint32_t stream, mt_block **out,
                            mt_error *err) {
    mt_core *c = &t->base.core;
    uint64_t bytes = segment_size(&t->options, size);
    if (t->limit != UINT64_MAX && c->reserved + bytes > t->limit)
        return mt_fail(err, MT_NO_MEMORY,
                       "torch: %" PRIu64 " more bytes would exceed the limit of %" PRIu64, bytes,
                       t->limit);
    if (rejects(t, bytes)) {
        t->stats.num_oom_rejections++;
        return mt_fail(err, MT_NO_MEMORY, "torch: rejected before asking the driver");
    }
    if (t->options.expandable_segments)
        return torch_expand(t, p, size, stream, out, err);
    MT_TRY(mt_core_take(c, bytes, p->pool, stream, out, err));
    bool small = p->pool == MT_POOL_SMALL;
    torch_up(&t->stats, small, MT_TORCH_segment, 1);
    torch_up(&t->stats, small, MT_TORCH_reserved_bytes, bytes);
    if (bytes >= t->options.max_split_size)
        torch_stat_up(&t->stats.oversize_segments, 1);
    t->stats.num_device_alloc++;
    return MT_OK;
}

/* All attempts, from the cheapest to the release of everything that is free. A rejection ends
 * them. */
static mt_status any_memory(torch *t, torch_pool *p, uint64_t size, uint32_t stream, mt_block **out,
                            mt_error *err) {
    const uint64_t *rejections = &t->stats.num_oom_rejections, before = *rejections;
    if (t->limit != UINT64_MAX && t->options.garbage_collection_threshold > 0)
        torch_collect(t);
    mt_status status = new_memory(t, p, size, stream, out, err);
    if (status == MT_NO_MEMORY && *rejections == before &&
        torch_release_oversize(t, p, size, stream))
        status = new_memory(t, p, size, stream, out, err);
    if (status != MT_NO_MEMORY || *rejections != before)
        return status;
    torch_release_all(t);
    MT_TRY(mt_core_spare(&t->base.core, TORCH_SPARE, err)); /* the release may have used them */
    t->stats.num_alloc_retries++;
    status = new_memory(t, p, size, stream, out, err);
    if (status == MT_NO_MEMORY && *rejections == before)
        t->stats.num_ooms++;
    return status;
}

/* ---- requests and frees ---------------------------------------------------------------------- */

static bool worth_splitting(const torch *t, const torch_pool *p, const mt_block *b, uint64_t size) {
    uint64_t rest = b->size - size;
    if (p->pool == MT_POOL_SMALL || t->options.expandable_segments)
        return rest >= TORCH_MIN_BLOCK;
    return size < t->options.max_split_size && rest > TORCH_SMALL_MAX;
}

/* Cuts the block to size if that is worth it, and counts what becomes of the inactive rest. */
static mt_block *cut(torch *t, torch_pool *p, mt_block *b, uint64_t size) {
    mt_torch_stats *s = &t->stats;
    bool small = p->pool == MT_POOL_SMALL, was_split = !mt_block_whole(b),
         fixed = !torch_growable(b);
    if (!worth_splitting(t, p, b, size)) {
        if (was_split && fixed) {
            torch_down(s, small, MT_TORCH_inactive_split_bytes, b->size);
            torch_down(s, small, MT_TORCH_inactive_split, 1);
        }
        return b;
    }
    mt_block *rest = b;
    b = mt_core_split(&t->base.core, rest, size);
    torch_insert(p, rest);
    if (fixed && was_split) {
        torch_down(s, small, MT_TORCH_inactive_split_bytes, size);
    } else if (fixed) {
        torch_up(s, small, MT_TORCH_inactive_split_bytes, rest->size);
        torch_up(s, small, MT_TORCH_inactive_split, 1);
    }
    return b;
}

static void count_request(torch *t, const mt_block *b, uint64_t bytes) {
    mt_torch_stats *s = &t->stats;
    bool small = b->pool == MT_POOL_SMALL;
    torch_up(s, small, MT_TORCH_allocation, 1);
    torch_up(s, small, MT_TORCH_allocated_bytes, b->size);
    torch_up(s, small, MT_TORCH_active, 1);
    torch_up(s, small, MT_TORCH_active_bytes, b->size);
    torch_up(s, small, MT_TORCH_requested_bytes, bytes);
    if (b->size >= t->options.max_split_size)
        torch_stat_up(&s->oversize_allocations, 1);
}

static mt_status torch_get(mt_policy *base, uint64_t bytes, uint32_t stream, uint32_t live,
                           mt_place *place, mt_error *err) {
    torch *t = (torch *)base;
    MT_TRY(mt_core_spare(&base->core, TORCH_SPARE, err));
    torch_process_waits(t, false);
    uint64_t size = round_size(&t->options, bytes);
    torch_pool *p = size <= TORCH_SMALL_MAX ? &t->small : &t->large;
    mt_block *b = find(t, p, size, stream);
    if (b == NULL)
        MT_TRY(any_memory(t, p, size, stream, &b, err));
    b = cut(t, p, b, size);
    count_request(t, b, bytes);
    mt_block_serve(b, bytes, live, place);
    return MT_OK;
}

static void torch_put(mt_policy *base, void *block) {
    torch *t = (torch *)base;
    mt_block *b = block;
    bool small = b->pool == MT_POOL_SMALL;
    b->allocated = false;
    torch_down(&t->stats, small, MT_TORCH_allocation, 1);
    torch_down(&t->stats, small, MT_TORCH_allocated_bytes, b->size);
    if (b->size >= t->options.max_split_size)
        torch_stat_down(&t->stats.oversize_allocations, 1);
    if (b->users != 0)
        torch_wait_for_users(t, b);
    else
        torch_complete_free(t, b);
}

static void torch_hold(mt_policy *base, bool held) {
    ((torch *)base)->held = held;
}

static void torch_trim(mt_policy *base) {
    torch_release_all((torch *)base);
}

static void torch_refusal(const mt_policy *base, uint64_t bytes, uint32_t stream, uint64_t *segment,
                          uint64_t *largest) {
    const torch *t = (const torch *)base;
    uint64_t size = round_size(&t->options, bytes);
    *segment = segment_size(&t->options, size);
    *largest = mt_core_largest_free(&base->core, stream,
                                    size <= TORCH_SMALL_MAX ? MT_POOL_SMALL : MT_POOL_LARGE);
}

const mt_policy_ops mt_policy_torch = {
    .traits = { .name = "torch",
                .syntax = "torch[,OPTION:VALUE...] or torch:env",
                .help = "PyTorch's CUDA caching allocator, options as in PYTORCH_ALLOC_CONF",
                .pytorch = true },
    .size = sizeof(torch),
    .open = torch_open,
    .close = torch_close,
    .roundup = torch_roundup,
    .get = torch_get,
    .put = torch_put,
    .use = torch_use_block,
    .hold = torch_hold,
    .trim = torch_trim,
    .refusal = torch_refusal,
};
