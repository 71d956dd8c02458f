/* activations.h - memory for what a forward pass computes on the way.
 *
 * eager: each buffer is a request of its own, freed after its last use, as a framework does.
 * arena: buffers are places in one block that was requested once. A small best-fit allocator of
 *        offsets, restarted at each pass, places them; the arena's size is the highest end it
 * reaches in any step of the run, found beforehand by running the passes without a device (plan).
 *
 * Live buffers are kept in a list, so that a pass that fails half-way can be undone. */
#ifndef MT_ENGINE_ACTIVATIONS_H
#define MT_ENGINE_ACTIVATIONS_H

#include "alloc/alloc.h"

#define MT_ACTS_MOST 16 /* buffers alive at once in a pass */

typedef enum mt_acts_mode { MT_EAGER, MT_ARENA, MT_PLAN } mt_acts_mode;

/* One buffer. ptr is NULL while it is not live. */
typedef struct mt_act {
    void *ptr;
    mt_mem mem;
    uint64_t offset, bytes;
    int32_t place; /* in the list of live ones */
} mt_act;

typedef struct mt_acts {
    mt_acts_mode mode;
    mt_alloc *alloc;
    mt_mem arena;
    uint64_t arena_bytes; /* of the arena; in a plan, the highest end so far */
    mt_act *live[MT_ACTS_MOST];
} mt_acts;

void mt_acts_init(mt_acts *a, mt_acts_mode mode, mt_alloc *alloc);

/* Requests the arena of a plan's size (arena mode; nothing otherwise). */
mt_status mt_acts_open(mt_acts *a, uint64_t bytes, mt_error *err);

/* Takes a buffer of bytes (0: none, ptr stays NULL). */
mt_status mt_acts_get(mt_acts *a, mt_act *act, uint64_t bytes, int32_t layer, mt_error *err);
void mt_acts_put(mt_acts *a, mt_act *act); /* one that is not live is allowed */
void mt_acts_put_all(mt_acts *a);          /* all that are live: a pass failed */
void mt_acts_close(mt_acts *a);

#endif
