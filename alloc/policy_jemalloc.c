/* policy_jemalloc.c - jemalloc's arenas over our source.
 *
 *     jemalloc[,decay:MS][,grow:SIZE]
 *
 * The library decides where blocks lie; its extents come from our source through extent hooks, its
 * own records stay in this program's memory (metadata_use_hooks = false). Each stream has an arena,
 * made for this allocator and destroyed with it. Small requests (up to 14,336 bytes, aligned to
 * 256) share slabs of one size class, larger ones are extents of their own, aligned to a page and
 * followed by a page of padding that the library adds; it counts as split. Classes are spaced by a
 * quarter of a power of two, so rounding costs up to a fifth.
 *
 * jemalloc sees addresses of ranges reserved for its extents and never touched, so that a run is
 * the same on every source; the source's own address is found through the range. When it needs more
 * it asks the hook for an extent, larger from time to time (2 MiB, 2.5, 3, 3.5, 4, 5 ...), at most
 * grow:SIZE at a time unless the request is larger: a segment. It commits the parts it uses and
 * decommits what it purges; a range with nothing committed has no segment: that goes back, and is
 * taken again, whole, when a part is committed. It purges after MS milliseconds of the wall clock
 * (decay; -1, the default: never, 0: at once), at a trim, and when the source refuses; only -1 and
 * 0 make runs repeatable. Addresses are never given up.
 *
 * The library is linked from its archive with everything but six calls made invisible and those
 * renamed (see the Makefile), so that the program's malloc stays what it is. Without MT_JEMALLOC
 * the policy only says that it is not there.
 *
 * Worst case: a slab, or a segment, stays for one small live block, and a segment may be a step
 * larger than the largest before it though little of it is used. Time as jemalloc's; the commit of
 * a part finds its range in O(log n), a walk sorts the live blocks. */
#include "alloc/jemalloc.h"
#include "base/size.h"

#define TRAITS                                                                                     \
    .name = "jemalloc", .syntax = "jemalloc[,decay:MS][,grow:SIZE]",                               \
    .help = "jemalloc's arenas, their extents taken from the device"

#ifndef MT_JEMALLOC

bool mt_jemalloc_read(const mt_policy *p, mt_jemalloc_stats *out) {
    (void)p, (void)out;
    return false;
}

static mt_status jemalloc_open(mt_policy *p, char *options, mt_error *err) {
    (void)options;
    return mt_fail(err, MT_BAD, "policy jemalloc: %s", p->ops->traits.missing);
}

const mt_policy_ops mt_policy_jemalloc = {
    .traits = { TRAITS, .missing = "this program was built without jemalloc (libjemalloc-dev)" },
    .size = sizeof(mt_policy),
    .open = jemalloc_open,
};

#else

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define JEMALLOC_NO_RENAME
#include <jemalloc/jemalloc.h>

#define PAGE      UINT64_C(4096)
#define ALIGN     UINT64_C(256)
#define SMALL_MAX UINT64_C(14336)

/* The library's calls, by the names that the Makefile gives them. */
int mt_je_mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);
void *mt_je_mallocx(size_t size, int flags);
void mt_je_dallocx(void *at, int flags);
size_t mt_je_nallocx(size_t size, int flags);

typedef struct arena_config {
    extent_hooks_t *hooks;
    bool metadata_use_hooks;
} arena_config;

/* A live request. */
typedef struct je_live {
    struct je_live *prev, *next;
    void *at; /* as jemalloc sees it */
    mt_segment *segment;
    uint64_t offset, rounded;
    uint32_t live;
} je_live;

/* Addresses that jemalloc has; the memory lies elsewhere, in a segment of the same size. */
typedef struct je_range {
    uintptr_t from;
    uint64_t bytes, committed;
    mt_block *block; /* the whole segment; NULL: none while nothing is committed */
    uint32_t stream;
} je_range;

typedef struct je_arena {
    extent_hooks_t hooks; /* first: hooks are called with its address */
    struct jemalloc *owner;
    struct je_arena *next;
    uint32_t stream;
    unsigned number;
} je_arena;

typedef struct jemalloc {
    mt_policy base;
    int64_t decay;
    uint64_t grow; /* 0: as the library does */
    je_arena *arenas;
    je_live *first;
    MT_ARRAY(je_range) range; /* by address */
    uint64_t wanted;          /* what the source refused last */
    bool refused;             /* the source refused a segment in this call */
    mt_status broken;         /* a failure inside a hook that is not a refusal */
    bool closing;
} jemalloc;

/* ---- talking to the library ------------------------------------------------------------------ */

static bool control(unsigned arena, const char *what, const void *value, size_t size) {
    char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    return mt_je_mallctl(name, NULL, NULL, (void *)(uintptr_t)value, size) == 0;
}

static uint64_t statistic(unsigned arena, const char *what) {
    char name[64];
    size_t value = 0, size = sizeof value;
    snprintf(name, sizeof name, "stats.arenas.%u.%s", arena, what);
    return mt_je_mallctl(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

static int flags_of(uint64_t bytes) {
    uint64_t align = mt_round_up(bytes, ALIGN) <= SMALL_MAX ? ALIGN : PAGE;
    return MALLOCX_ALIGN(align) | MALLOCX_TCACHE_NONE;
}

/* ---- ranges and their segments --------------------------------------------------------------- */

/* The place of the first range above an address. */
static size_t place_of(const jemalloc *p, uintptr_t at) {
    size_t low = 0, high = p->range.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->range.at[middle].from <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The range of an address that jemalloc has from us. */
static je_range *range_of(const jemalloc *p, const void *at) {
    return &p->range.at[place_of(p, (uintptr_t)at) - 1];
}

/* One page more than needed, so that ranges are never neighbours. */
static void *reserve(uint64_t bytes) {
    void *at =
        mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at != MAP_FAILED ? at : NULL;
}

static void enter_range(jemalloc *p, je_range r) {
    size_t i = place_of(p, r.from);
    je_range *at = p->range.at;
    memmove(at + i + 1, at + i, (p->range.count++ - i) * sizeof *at);
    p->range.at[i] = r;
}

/* A segment of so many bytes; false when the source refuses. */
static bool take_segment(jemalloc *p, uint64_t bytes, uint32_t stream, mt_block **b) {
    p->wanted = bytes;
    mt_status status = mt_core_take(&p->base.core, bytes, MT_POOL_ARENA, stream, b, NULL);
    p->refused |= status == MT_NO_MEMORY;
    if (status != MT_OK && status != MT_NO_MEMORY)
        p->broken = status;
    return status == MT_OK;
}

static void give_segment(jemalloc *p, je_range *r) {
    mt_block *b = r->block;
    r->block = NULL;
    if (b != NULL)
        mt_core_give(&p->base.core, b);
}

/* All that is free goes back. */
static void purge(jemalloc *p) {
    for (je_arena *a = p->arenas; a != NULL; a = a->next)
        control(a->number, "purge", NULL, 0);
    for (size_t i = 0; i < p->range.count; i++)
        if (p->range.at[i].committed == 0)
            give_segment(p, &p->range.at[i]);
}

/* ---- the hooks ------------------------------------------------------------------------------- */

static void *hook_alloc(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment, bool *zero,
                        bool *commit, unsigned number) {
    const je_arena *a = (je_arena *)hooks;
    jemalloc *p = a->owner;
    mt_block *b;
    (void)zero, (void)number;
    if (at != NULL || alignment > PAGE)
        return NULL;
    if (!mt_array_reserve(&p->range, p->range.count + 1)) {
        p->broken = MT_FAILED;
        return NULL;
    }
    if (!take_segment(p, bytes, a->stream, &b))
        return NULL;
    at = reserve(bytes);
    if (at == NULL) {
        p->broken = MT_FAILED;
        mt_core_give(&p->base.core, b);
        return NULL;
    }
    enter_range(p, (je_range){ (uintptr_t)at, bytes, *commit ? bytes : 0, b, a->stream });
    return at;
}

/* Addresses stay with jemalloc; it decommits instead. */
static bool hook_dalloc(extent_hooks_t *hooks, void *at, size_t bytes, bool committed,
                        unsigned number) {
    (void)at, (void)bytes, (void)committed, (void)number;
    return !((je_arena *)hooks)->owner->closing;
}

static void hook_destroy(extent_hooks_t *hooks, void *at, size_t bytes, bool committed,
                         unsigned number) {
    (void)hooks, (void)at, (void)bytes, (void)committed, (void)number;
}

/* True: the source refuses. */
static bool hook_commit(extent_hooks_t *hooks, void *at, size_t bytes, size_t offset, size_t length,
                        unsigned number) {
    jemalloc *p = ((je_arena *)hooks)->owner;
    je_range *r = range_of(p, at);
    (void)bytes, (void)offset, (void)number;
    if (r->block == NULL && !take_segment(p, r->bytes, r->stream, &r->block))
        return true;
    r->committed += length;
    return false;
}

static bool hook_decommit(extent_hooks_t *hooks, void *at, size_t bytes, size_t offset,
                          size_t length, unsigned number) {
    jemalloc *p = ((je_arena *)hooks)->owner;
    (void)bytes, (void)offset, (void)number;
    if (p->closing)
        return false;
    je_range *r = range_of(p, at);
    r->committed -= length;
    if (r->committed == 0)
        give_segment(p, r);
    return false;
}

static bool hook_split(extent_hooks_t *hooks, void *at, size_t bytes, size_t first, size_t second,
                       bool committed, unsigned number) {
    (void)hooks, (void)at, (void)bytes, (void)first, (void)second, (void)committed, (void)number;
    return false;
}

/* True: not across ranges. */
static bool hook_merge(extent_hooks_t *hooks, void *a, size_t a_bytes, void *b, size_t b_bytes,
                       bool committed, unsigned number) {
    const jemalloc *p = ((je_arena *)hooks)->owner;
    (void)a_bytes, (void)b_bytes, (void)committed, (void)number;
    return !p->closing && range_of(p, a) != range_of(p, b);
}

/* ---- arenas ---------------------------------------------------------------------------------- */

static mt_status set_up(const jemalloc *p, const je_arena *a, mt_error *err) {
    ssize_t decay = (ssize_t)p->decay;
    size_t grow = p->grow;
    if (control(a->number, "dirty_decay_ms", &decay, sizeof decay) &&
        control(a->number, "muzzy_decay_ms", &decay, sizeof decay) &&
        (grow == 0 || control(a->number, "retain_grow_limit", &grow, sizeof grow)))
        return MT_OK;
    return mt_fail(err, MT_FAILED, "jemalloc rejects an option of its arena");
}

static void drop_arena(je_arena *a) {
    control(a->number, "destroy", NULL, 0);
    free(a);
}

static mt_status new_arena(jemalloc *p, uint32_t stream, je_arena **out, mt_error *err) {
    je_arena *a = calloc(1, sizeof *a);
    size_t size = sizeof a->number;
    if (a == NULL)
        return mt_no_memory(err, "an arena");
    a->owner = p;
    a->stream = stream;
    a->hooks = (extent_hooks_t){ .alloc = hook_alloc,
                                 .dalloc = hook_dalloc,
                                 .destroy = hook_destroy,
                                 .commit = hook_commit,
                                 .decommit = hook_decommit,
                                 .split = hook_split,
                                 .merge = hook_merge };
    arena_config config = { &a->hooks, false };
    int failed =
        mt_je_mallctl("experimental.arenas_create_ext", &a->number, &size, &config, sizeof config);
    if (failed != 0) {
        free(a);
        return mt_fail(err, MT_FAILED, "jemalloc cannot create an arena: %s", strerror(failed));
    }
    mt_status status = set_up(p, a, err);
    if (status != MT_OK) {
        drop_arena(a);
        return status;
    }
    a->next = p->arenas;
    p->arenas = *out = a;
    return MT_OK;
}

static mt_status arena_of(jemalloc *p, uint32_t stream, je_arena **out, mt_error *err) {
    for (*out = p->arenas; *out != NULL; *out = (*out)->next)
        if ((*out)->stream == stream)
            return MT_OK;
    return new_arena(p, stream, out, err);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static mt_status read_option(void *policy, const char *key, char *value, mt_error *err) {
    jemalloc *p = policy;
    uint64_t n;
    if (strcmp(key, "decay") == 0 && strcmp(value, "-1") == 0) {
        p->decay = -1;
        return MT_OK;
    }
    if (strcmp(key, "decay") == 0 && mt_parse_u64(value, 0, 1000000000, &n)) {
        p->decay = (int64_t)n;
        return MT_OK;
    }
    if (strcmp(key, "grow") == 0 && mt_parse_size(value, &p->grow) && p->grow >= PAGE &&
        p->grow % PAGE == 0 && p->grow <= (uint64_t)1 << 50)
        return MT_OK;
    return mt_fail(err, MT_BAD,
                   "policy jemalloc: %.40s:%.40s: expected decay:MS (-1: never) or grow:SIZE (a "
                   "multiple of 4KiB)",
                   key, value);
}

static void describe(jemalloc *p) {
    int n = snprintf(p->base.description, sizeof p->base.description, "jemalloc,decay:%" PRId64,
                     p->decay);
    if (p->grow != 0)
        snprintf(p->base.description + n, sizeof p->base.description - (size_t)n, ",grow:%" PRIu64,
                 p->grow);
}

static void jemalloc_close(mt_policy *base) {
    jemalloc *p = (jemalloc *)base;
    p->closing = true;
    while (p->arenas != NULL) {
        je_arena *a = p->arenas;
        p->arenas = a->next;
        drop_arena(a);
    }
    while (p->first != NULL) {
        je_live *l = p->first;
        p->first = l->next;
        free(l);
    }
    for (size_t i = 0; i < p->range.count; i++)
        munmap((void *)p->range.at[i].from, p->range.at[i].bytes + PAGE);
    mt_array_free(&p->range);
}

static mt_status jemalloc_open(mt_policy *base, char *options, mt_error *err) {
    jemalloc *p = (jemalloc *)base;
    je_arena *a;
    p->decay = -1;
    MT_TRY(mt_policy_options(options, read_option, p, err));
    MT_TRY(arena_of(p, 0, &a, err));
    describe(p);
    return MT_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint64_t jemalloc_roundup(const mt_policy *base, uint64_t bytes) {
    (void)base;
    return bytes <= UINT64_MAX - PAGE ? mt_je_nallocx(bytes, flags_of(bytes)) : 0;
}

/* NULL when the source refused even after what is free went back. */
static void *take(jemalloc *p, uint64_t bytes, const je_arena *a) {
    int flags = flags_of(bytes) | MALLOCX_ARENA(a->number);
    void *at = mt_je_mallocx(bytes, flags);
    if (at != NULL)
        return at;
    purge(p);
    return mt_je_mallocx(bytes, flags);
}

static void fill(const jemalloc *p, je_live *l, uint64_t bytes, uint32_t live, mt_place *place) {
    const je_range *r = range_of(p, l->at);
    l->segment = r->block->segment;
    l->offset = (uintptr_t)l->at - r->from;
    l->rounded = mt_je_nallocx(bytes, flags_of(bytes));
    l->live = live;
    *place = (mt_place){ .ptr = (char *)l->segment->base + l->offset,
                         .block = l,
                         .offset = l->offset,
                         .rounded = l->rounded,
                         .segment = l->segment->number,
                         .slot = l->segment->slot,
                         .pool = MT_POOL_ARENA };
}

static void enter(jemalloc *p, je_live *l) {
    l->prev = NULL;
    l->next = p->first;
    if (l->next != NULL)
        l->next->prev = l;
    p->first = l;
}

static void leave(jemalloc *p, je_live *l) {
    if (l->prev != NULL)
        l->prev->next = l->next;
    else
        p->first = l->next;
    if (l->next != NULL)
        l->next->prev = l->prev;
    free(l);
}

/* Why there is no memory: a hook failed, even if jemalloc found a way round it; the source refused;
 * or jemalloc itself had none for its records. */
static mt_status refused(const jemalloc *p, uint64_t bytes, mt_error *err) {
    const mt_source *source = p->base.core.source;
    if (p->broken != MT_OK)
        return mt_fail(err, p->broken, "jemalloc's extent hook could not allocate a segment");
    if (!p->refused && bytes <= source->capacity - source->used)
        return mt_no_memory(err, "jemalloc's records");
    return mt_fail(err, MT_NO_MEMORY,
                   "%s: jemalloc found no extent for %" PRIu64 " bytes, %" PRIu64 " left",
                   p->base.core.source->name, bytes,
                   p->base.core.source->capacity - p->base.core.source->used);
}

static mt_status jemalloc_get(mt_policy *base, uint64_t bytes, uint32_t stream, uint32_t live,
                              mt_place *place, mt_error *err) {
    jemalloc *p = (jemalloc *)base;
    je_arena *a;
    MT_TRY(arena_of(p, stream, &a, err));
    je_live *l = malloc(sizeof *l);
    if (l == NULL)
        return mt_no_memory(err, "the record of a block");
    p->broken = MT_OK;
    p->refused = false;
    l->at = take(p, bytes, a);
    if (l->at == NULL || p->broken != MT_OK) {
        if (l->at != NULL)
            mt_je_dallocx(l->at, MALLOCX_TCACHE_NONE);
        free(l);
        return refused(p, bytes, err);
    }
    fill(p, l, bytes, live, place);
    enter(p, l);
    return MT_OK;
}

static void jemalloc_put(mt_policy *base, void *block) {
    jemalloc *p = (jemalloc *)base;
    je_live *l = block;
    void *at = l->at;
    uint32_t live = l->live;
    leave(p, l);
    mt_send_free(&base->core, live);
    mt_je_dallocx(at, MALLOCX_TCACHE_NONE);
}

static void jemalloc_trim(mt_policy *base) {
    purge((jemalloc *)base);
}

/* ---- looking inside -------------------------------------------------------------------------- */

static int compare_live(const void *a, const void *b) {
    const je_live *x = *(const je_live *const *)a, *y = *(const je_live *const *)b;
    if (x->segment != y->segment)
        return x->segment->number < y->segment->number ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Live blocks in order of segment and offset, and their number; NULL without memory. */
static const je_live **sorted(const jemalloc *p, size_t *n) {
    *n = 0;
    for (const je_live *l = p->first; l != NULL; l = l->next)
        ++*n;
    const je_live **all = malloc((*n + 1) * sizeof *all);
    if (all == NULL)
        return NULL;
    *n = 0;
    for (const je_live *l = p->first; l != NULL; l = l->next)
        all[(*n)++] = l;
    qsort(all, *n, sizeof *all, compare_live);
    all[*n] = NULL;
    return all;
}

/* A block of a segment; l NULL: a free one. */
static mt_block_info view(const mt_segment *s, uint64_t from, uint64_t to, const je_live *l) {
    return (mt_block_info){ .offset = from,
                            .size = to - from,
                            .id = MT_NO_ID,
                            .state = l != NULL ? MT_BLOCK_ACTIVE : MT_BLOCK_FREE,
                            .stream = s->stream,
                            .live = l != NULL ? l->live : 0,
                            .layer = -1,
                            .tag = MT_OTHER };
}

static mt_status visit(const mt_visitor *v, const mt_segment_info *s, mt_block_info b,
                       mt_error *err) {
    return b.size > 0 ? v->block(v->context, s, &b, err) : MT_OK;
}

/* The blocks of a segment; *next is its first live one, or one of a later segment. */
static mt_status walk_segment(const mt_segment *s, const je_live *const **next, const mt_visitor *v,
                              mt_error *err) {
    const mt_segment_info segment = mt_segment_view(s);
    uint64_t at = 0;
    MT_TRY(mt_visit_segment(v, &segment, err));
    for (; **next != NULL && (**next)->segment == s; ++*next) {
        const je_live *l = **next;
        uint64_t end = l->offset + l->rounded;
        if (l->offset > at)
            MT_TRY(visit(v, &segment, view(s, at, l->offset, NULL), err));
        MT_TRY(visit(v, &segment, view(s, l->offset, end, l), err));
        at = end;
    }
    return visit(v, &segment, view(s, at, s->bytes, NULL), err);
}

static mt_status jemalloc_walk(const mt_policy *base, const mt_visitor *v, mt_error *err) {
    size_t n;
    const je_live **all = sorted((const jemalloc *)base, &n);
    const je_live *const *next = all;
    mt_status status = MT_OK;
    if (all == NULL)
        return mt_no_memory(err, "a walk over jemalloc's blocks");
    for (const mt_segment *s = base->core.first; s != NULL && status == MT_OK; s = s->next)
        status = walk_segment(s, &next, v, err);
    free(all);
    return status;
}

/* For the refusal: the largest gap of a stream's segments. */
typedef struct gap {
    uint64_t largest;
    uint32_t stream;
} gap;

static mt_status note_gap(void *context, const mt_segment_info *s, const mt_block_info *b,
                          mt_error *err) {
    gap *g = context;
    (void)err;
    if (s->stream == g->stream && b->state == MT_BLOCK_FREE && b->size > g->largest)
        g->largest = b->size;
    return MT_OK;
}

static void jemalloc_refusal(const mt_policy *base, uint64_t bytes, uint32_t stream,
                             uint64_t *segment, uint64_t *largest) {
    const jemalloc *p = (const jemalloc *)base;
    gap g = { .stream = stream };
    mt_visitor v = { NULL, note_gap, &g };
    uint64_t size = jemalloc_roundup(base, bytes);
    jemalloc_walk(base, &v, NULL);
    *segment = p->wanted > size ? p->wanted : size;
    *largest = g.largest;
}

bool mt_jemalloc_read(const mt_policy *base, mt_jemalloc_stats *out) {
    const jemalloc *p = (const jemalloc *)base;
    uint64_t epoch = 1;
    size_t size = sizeof epoch;
    *out = (mt_jemalloc_stats){ 0 };
    if (base->ops != &mt_policy_jemalloc ||
        mt_je_mallctl("epoch", &epoch, &size, &epoch, sizeof epoch) != 0)
        return false;
    for (const je_arena *r = p->arenas; r != NULL; r = r->next) {
        out->allocated += statistic(r->number, "small.allocated");
        out->allocated += statistic(r->number, "large.allocated");
        out->active += statistic(r->number, "pactive") * PAGE;
        out->dirty += statistic(r->number, "pdirty") * PAGE;
        out->muzzy += statistic(r->number, "pmuzzy") * PAGE;
        out->retained += statistic(r->number, "retained");
    }
    for (size_t i = 0; i < p->range.count; i++) {
        out->committed += p->range.at[i].committed;
        out->addresses += p->range.at[i].bytes;
        out->held += p->range.at[i].block != NULL ? p->range.at[i].bytes : 0;
    }
    return true;
}

const mt_policy_ops mt_policy_jemalloc = {
    .traits = { TRAITS },
    .size = sizeof(jemalloc),
    .open = jemalloc_open,
    .close = jemalloc_close,
    .roundup = jemalloc_roundup,
    .get = jemalloc_get,
    .put = jemalloc_put,
    .trim = jemalloc_trim,
    .walk = jemalloc_walk,
    .refusal = jemalloc_refusal,
};

#endif
