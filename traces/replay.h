/* replay.h - the requests and frees of a recording, asked of other allocators: any number of them
 * side by side, in one pass over the recording and memory for what is live. An allocator stands for
 * one device: of a recording of several, each replay is given the items of its own. */
#ifndef MT_TRACES_REPLAY_H
#define MT_TRACES_REPLAY_H

#include "alloc/alloc.h"
#include "traces/reader.h"

/* What an allocator could not serve. */
typedef struct mt_refused {
    uint64_t count;
    uint64_t line; /* of the first one */
    mt_refusal first;
} mt_refused;

typedef struct mt_replay {
    mt_alloc *const *alloc; /* [n], not owned */
    size_t n;
    mt_refused *refused; /* [n] */
    mt_mem *mem;         /* [room][n] by live number; no memory where it was refused */
    size_t room;
    uint32_t device; /* whose items are asked for; 0 at first */
    uint64_t requests;
    uint64_t elsewhere; /* requests of host memory and of other devices, passed over */
    uint64_t unknown;   /* frees and uses of what was requested before the recording began */
} mt_replay;

/* The allocators must outlive the replay. */
mt_status mt_replay_open(mt_replay *r, mt_alloc *const *alloc, size_t n, mt_error *err);
void mt_replay_close(mt_replay *r);

/* Asks every allocator for what an operation asks; facts are passed over. A refused request is
 * counted and no failure, and its free and uses are left out. */
mt_status mt_replay_item(mt_replay *r, const mt_item *item, mt_error *err);

/* All items of a reader. MT_BAD when no request is among them, MT_INTERRUPTED when stop (NULL:
 * nobody asks) says so. */
mt_status mt_replay_all(mt_replay *r, mt_reader *in, bool (*stop)(void), mt_error *err);

/* The memory of a live request in an allocator. */
static inline mt_mem *mt_replay_mem(const mt_replay *r, size_t i, uint32_t live) {
    return &r->mem[(size_t)live * r->n + i];
}

#endif
