/* snapshot.h - memory snapshots of PyTorch's caching allocator, as torch.cuda.memory._snapshot()
 * makes them and _dump_snapshot() pickles them.
 *
 * Every release from 1.x to 2.15 is read: a bare list of segments (torch.cuda.memory_snapshot()),
 * or a dictionary of segments, device_traces and, later, allocator_settings, external_annotations,
 * host_segments and host_traces. What a release does not tell has a value that says so. Keys that
 * nobody asks for are passed over.
 *
 * Segments, blocks and stacks are kept, events are not: they go to the caller as they are read, in
 * batches, in the order of the file. A million of them cost no memory here. */
#ifndef MT_TRACES_SNAPSHOT_H
#define MT_TRACES_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/walk.h"
#include "base/array.h"
#include "base/intern.h"
#include "base/status.h"
#include "traces/reader.h"

#define MT_SNAPSHOT_NONE UINT64_MAX /* a number that the file does not tell */

/* ---- what is kept ---------------------------------------------------------------------------- */

/* A line of a program. */
typedef struct mt_snapshot_frame {
    uint32_t file, name; /* numbers in texts */
    int64_t line;
} mt_snapshot_frame;

typedef struct mt_snapshot_block {
    uint64_t address, size;
    uint64_t requested; /* of an inactive one what it held before, or 0 */
    uint32_t stack;     /* 0: not told */
    uint8_t state; /* MT_BLOCK_ACTIVE, _PENDING or _FREE: active_allocated, active_pending_free,
                      inactive */
} mt_snapshot_block;

typedef struct mt_snapshot_segment {
    uint64_t address, total, allocated, active; /* as the file states them */
    uint64_t requested;                         /* MT_SNAPSHOT_NONE up to 2.0 */
    uint64_t stream;
    uint32_t first, blocks; /* its blocks, by rising address */
    uint32_t device, stack;
    uint32_t pool; /* number in pools; 0: the default pool */
    bool large, expandable;
} mt_snapshot_segment;

/* A private pool's id. */
typedef struct mt_snapshot_pool {
    uint64_t id[2];
} mt_snapshot_pool;

/* A list of events: one device's, or the pinned host memory's. */
typedef struct mt_snapshot_list {
    MT_ARRAY(uint64_t) count; /* of events by action */
    uint64_t events;
    int64_t device; /* index in device_traces; -1: the list stands elsewhere */
    bool host;      /* it stands in host_traces */
} mt_snapshot_list;

/* allocator_settings, as far as they decide where memory goes. */
typedef struct mt_snapshot_settings {
    bool told; /* the file has them */
    bool expandable;
    int64_t max_split; /* bytes; -1: no limit */
    double garbage_collection;
    uint64_t divisions[16]; /* of sizes from 2^k MiB; [0]: and below */
    uint32_t text;          /* PYTORCH_CUDA_ALLOC_CONF: number in texts, + 1 */
} mt_snapshot_settings;

typedef struct mt_snapshot {
    MT_ARRAY(mt_snapshot_segment) segments; /* of all devices */
    MT_ARRAY(mt_snapshot_segment) host;     /* of pinned host memory */
    MT_ARRAY(mt_snapshot_block) blocks;
    MT_ARRAY(mt_snapshot_list) lists;
    mt_intern texts;   /* of frames and settings */
    mt_intern frames;  /* mt_snapshot_frame */
    mt_intern stacks;  /* uint32_t numbers of frames, innermost first; number 0 is the empty one */
    mt_intern pools;   /* mt_snapshot_pool; number 0 is the default one */
    mt_intern actions; /* text; those of mt_action first, under their numbers */
    mt_snapshot_settings settings;
    uint64_t annotations;
    bool history; /* requests come from "history", as up to 2.0 */
} mt_snapshot;

/* ---- events ---------------------------------------------------------------------------------- */

typedef struct mt_snapshot_event {
    uint64_t address; /* oom: what the device had left; MT_SNAPSHOT_NONE: not told */
    uint64_t size;    /* requested; of segments what was obtained or given back */
    uint64_t stream;
    uint64_t time_us;     /* since 1970; MT_SNAPSHOT_NONE: not told */
    const char *metadata; /* user_metadata; NULL: none */
    uint32_t metadata_n;
    uint32_t stack;  /* 0: not told */
    uint32_t pool;   /* number in pools */
    uint32_t action; /* mt_action, or a number in actions */
} mt_snapshot_event;

/* Gets n events that follow one another in a list. The list's device is known when the whole file
 * is read. */
typedef mt_status mt_snapshot_events(void *context, const mt_snapshot *s, uint32_t list,
                                     const mt_snapshot_event *event, size_t n, mt_error *err);

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads a pickle of size bytes. events may be NULL. file: for messages. On failure *out is empty.
 * MT_BAD when it is no snapshot or cannot be one. */
mt_status mt_snapshot_read(mt_snapshot *out, const char *file, const void *data, uint64_t size,
                           mt_snapshot_events *events, void *context, mt_error *err);
void mt_snapshot_free(mt_snapshot *s);

/* The text of a number, with its length if n is not NULL. */
const char *mt_snapshot_text(const mt_snapshot *s, uint32_t text, uint32_t *n);

/* The frames of a stack, innermost first, and how many. */
const uint32_t *mt_snapshot_stack(const mt_snapshot *s, uint32_t stack, uint32_t *n);
const mt_snapshot_frame *mt_snapshot_frame_of(const mt_snapshot *s, uint32_t frame);

#endif
