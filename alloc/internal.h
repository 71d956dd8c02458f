/* internal.h - between the allocator's front (alloc.c) and its policies. */
#ifndef MT_ALLOC_INTERNAL_H
#define MT_ALLOC_INTERNAL_H

#include "alloc/core.h"
#include "alloc/policy.h"

/* Where a request was placed. */
typedef struct mt_place {
    void *ptr;
    void *block; /* the policy's own record of it */
    uint64_t offset, rounded;
    uint32_t segment, slot;
    uint8_t pool;
} mt_place;

typedef struct mt_policy mt_policy;

/* A policy is a struct that begins with mt_policy, and this table. */
typedef struct mt_policy_ops {
    mt_policy_traits traits;
    size_t size; /* of the policy's struct */

    /* Reads the options (the text after the name, "" if none; it may be cut up) into a policy that
     * is all zero but for ops and core, and fills in its description: name and options in effect.
     * Closed by the caller when it fails. */
    mt_status (*open)(mt_policy *p, char *options, mt_error *err);
    void (*close)(mt_policy *p); /* what it holds besides the core; NULL: nothing */

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
    void (*trim)(mt_policy *p);                              /* NULL: nothing is ever kept */

    void (*poll)(mt_policy *p); /* a step ends: reserved may have changed by itself; NULL: it never
                                   does */

    /* The full walk; NULL: the core's blocks are all, and free neighbours among them are merged. */
    mt_status (*walk)(const mt_policy *p, const mt_visitor *v, mt_error *err);

    /* Segment bytes that the last refused request wanted from the source, and the largest block
     * that is free and usable by such a request. */
    void (*refusal)(const mt_policy *p, uint64_t bytes, uint32_t stream, uint64_t *segment,
                    uint64_t *largest);
} mt_policy_ops;

#define MT_DESCRIPTION 1600
#define MT_NOTES       4
#define MT_NOTE        240

struct mt_policy {
    const mt_policy_ops *ops;
    mt_core core;
    char description[MT_DESCRIPTION];
    char note[MT_NOTES][MT_NOTE]; /* for the user: what is special about these options */
    uint32_t notes;
};

/* Adds a note: one line, made printable, cut where it is long. */
void mt_policy_note(mt_policy *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern const mt_policy_ops mt_policy_torch, mt_policy_block, mt_policy_direct, mt_policy_async;
extern const mt_policy_ops mt_policy_bfc, mt_policy_jemalloc;

/* Opens the policy that spec names, over a source; MT_BAD when there is none of that name. */
mt_status mt_policy_open(mt_policy **out, const char *spec, const mt_owner *owner,
                         mt_source *source, mt_error *err);
void mt_policy_close(mt_policy *p);

/* Every segment and block, as far as the policy shows them; whether free neighbours are merged. */
mt_status mt_policy_walk(const mt_policy *p, const mt_visitor *v, mt_error *err);
mt_status mt_policy_check_merged(const mt_policy *p, mt_error *err);

/* Reads "key:value,key:value" (a value may be a [list]), and cuts it up on the way: one call for
 * each option, whose value it may cut up too. A key without a value has an empty one. Bad syntax
 * leaves a line in err, as read must when it knows no such key or value. */
typedef mt_status mt_option_reader(void *context, const char *key, char *value, mt_error *err);
mt_status mt_policy_options(char *text, mt_option_reader *read, void *context, mt_error *err);

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

/* The policy of an allocator, for policies that tell more than all do, and for their tests. */
struct mt_alloc;
mt_policy *mt_alloc_policy_of(const struct mt_alloc *a);

#endif
