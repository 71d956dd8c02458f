/* internal.h - between the allocator's front (alloc.c) and its policies. */
#ifndef MT_ALLOC_INTERNAL_H
#define MT_ALLOC_INTERNAL_H

#include "alloc/core.h"

/* Where a request was placed. */
typedef struct mt_place {
    void *ptr;
    void *block; /* the policy's own record of it */
    uint64_t offset, rounded;
    uint32_t segment, slot;
    uint8_t pool;
} mt_place;

/* What a full walk meets, in order: each segment, then its pieces by offset. */
typedef enum mt_piece { MT_PIECE_FREE, MT_PIECE_LIVE, MT_PIECE_UNMAPPED } mt_piece;
typedef struct mt_visitor {
    mt_status (*segment)(void *context, uint32_t number, uint32_t slot, uint64_t bytes,
                         uint64_t mapped, mt_error *err);
    mt_status (*piece)(void *context, mt_piece kind, uint64_t offset, uint64_t bytes, uint32_t live,
                       mt_error *err);
    void *context;
} mt_visitor;

typedef struct mt_policy mt_policy;

/* A policy is a struct that begins with mt_policy, and this table. */
typedef struct mt_policy_ops {
    const char *name;
    bool colon; /* options come after NAME: and never after NAME, */

    /* Reads the options (the text after the name, "" if none) and opens the policy. Fills in the
     * policy's description: name and options in effect. */
    mt_status (*open)(mt_policy **out, struct mt_alloc *owner, mt_source *source,
                      const char *options, mt_error *err);
    void (*close)(mt_policy *p);

    uint64_t (*roundup)(const mt_policy *p, uint64_t bytes);

    /* Serves a request of bytes > 0 as number `live`, after giving back what is wholly free if need
     * be. MT_NO_MEMORY when the source refuses. */
    mt_status (*get)(mt_policy *p, uint64_t bytes, uint32_t stream, uint32_t live, mt_place *place,
                     mt_error *err);

    /* Frees a block, and calls mt_send_free for its live number, now or when other streams are done
     * with it. Never fails. */
    void (*put)(mt_policy *p, void *block);

    void (*use)(mt_policy *p, void *block, uint32_t stream); /* NULL: streams do not matter */
    void (*hold)(mt_policy *p, bool held);                   /* NULL: nothing is ever held */
    void (*trim)(mt_policy *p);

    void (*poll)(mt_policy *p); /* a step ends: reserved may have changed by itself; NULL: it never
                                   does */

    /* The full walk: every segment and block; NULL: the inside cannot be seen. merged: free
     * neighbours must be one block. */
    mt_status (*walk)(const mt_policy *p, const mt_visitor *v, mt_error *err);
    mt_status (*merged)(const mt_policy *p, mt_error *err); /* NULL: nothing to merge */

    /* Segment bytes that the last refused request wanted from the source, and the largest block
     * that is free and usable by such a request. */
    void (*refusal)(const mt_policy *p, uint64_t bytes, uint32_t stream, uint64_t *segment,
                    uint64_t *largest);
} mt_policy_ops;

struct mt_policy {
    const mt_policy_ops *ops;
    mt_core core;
    char description[512];
};

extern const mt_policy_ops mt_policy_torch, mt_policy_block, mt_policy_direct, mt_policy_async;
extern const mt_policy_ops mt_policy_bfc, mt_policy_jemalloc;

/* The policy whose name begins spec up to ',' or ':'; NULL if none. *options: what follows, and
 * where nothing does, or a ',' stands where a ':' must, with that sign in front: no policy takes
 * such options. */
const mt_policy_ops *mt_policy_find(const char *spec, const char **options);

/* One option of "key:value,key:value" (a value may be a [list]); false at the end. Moves *text. A
 * key without a value has an empty one. Bad syntax leaves a line in err and *status. */
bool mt_policy_option(const char **text, char *key, size_t key_room, char *value, size_t value_room,
                      mt_status *status, mt_error *err);

/* From core and policies to the front. */
void mt_send_segment(struct mt_alloc *a, mt_event_kind kind, uint32_t number, uint32_t slot,
                     uint8_t pool, uint64_t offset, uint64_t bytes);
void mt_send_free(struct mt_alloc *a, uint32_t live);

/* A walk over the core's segments, for policies built on it. */
mt_status mt_core_walk(const mt_core *c, const mt_visitor *v, mt_error *err);

/* Whether every free block that could be merged with a free neighbour is. Not between the events of
 * one operation, so the walk after every event leaves it out. */
mt_status mt_core_check_merged(const mt_core *c, mt_error *err);

/* The largest free block of a stream in a pool; linear, for reports of refusals. */
uint64_t mt_core_largest_free(const mt_core *c, uint32_t stream, uint8_t pool);

/* Hands a block out: marks it used by request `live` of so many bytes, and says where it lies. */
static inline void mt_block_serve(mt_block *b, uint64_t bytes, uint32_t live, mt_place *place) {
    b->used = b->allocated = true;
    b->live = live;
    b->requested = bytes;
    place->ptr = mt_block_ptr(b);
    place->block = b;
    place->offset = b->offset;
    place->rounded = b->size;
    place->segment = b->segment->number;
    place->slot = b->segment->slot;
    place->pool = b->pool;
}

/* The policy of an allocator, for tests and replays that look inside. */
mt_policy *mt_alloc_policy_of(struct mt_alloc *a);

#endif
