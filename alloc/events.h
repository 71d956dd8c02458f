/* events.h - the event stream: all that reports are made from.
 *
 * An allocator sends each event to its listeners in order. A stored trace (traces/trace.h) holds
 * the same events, so a report of a stored trace is the report of the run. */
#ifndef MT_ALLOC_EVENTS_H
#define MT_ALLOC_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a request is for. */
typedef enum mt_tag {
    MT_WEIGHTS,
    MT_KV,
    MT_ACTIVATIONS,
    MT_LOGITS,
    MT_WORKSPACE,
    MT_OTHER,
    MT_TAGS /* how many */
} mt_tag;

/* Which pool of a policy a block or segment belongs to. */
typedef enum mt_pool {
    MT_POOL_SMALL,  /* torch: rounded size up to 1 MiB */
    MT_POOL_LARGE,  /* torch: above */
    MT_POOL_BLOCK,  /* block */
    MT_POOL_DIRECT, /* direct */
    MT_POOL_REGION, /* bfc */
    MT_POOL_ARENA,  /* jemalloc */
    MT_POOL_DRIVER, /* async */
    MT_POOLS
} mt_pool;

typedef enum mt_event_kind {
    MT_EV_ALLOC,         /* a request was served */
    MT_EV_FREE,          /* and its block is free again */
    MT_EV_SEGMENT_ALLOC, /* the source gave a segment */
    MT_EV_SEGMENT_FREE,  /* a segment went back */
    MT_EV_SEGMENT_MAP,   /* pages of a growable segment were mapped */
    MT_EV_SEGMENT_UNMAP, /* and unmapped */
    MT_EV_OOM,           /* a request was refused */
    MT_EV_MARK,          /* a step ended */
    MT_EVENTS
} mt_event_kind;

#define MT_NO_ID UINT64_MAX /* an event that no request caused */

typedef struct mt_event {
    uint64_t seq; /* 0, 1, 2, ... in one run */
    uint64_t id;  /* number of the request (alloc, free), of the request that caused it (segment
                     events, oom), MT_NO_ID if none */
    union {
        uint64_t offset; /* of the block or range in its segment; oom: free bytes of the source */
        uint64_t ctx;    /* mark: tokens in the cache */
    };
    union {
        uint64_t requested; /* bytes asked for by the request */
        uint64_t kv_ideal;  /* mark */
    };
    union {
        uint64_t rounded;     /* bytes of the block, segment or range */
        uint64_t nanoseconds; /* mark: wall time of the step, 0 when not measured */
    };
    uint64_t time_ns; /* monotonic; 0 unless stamped */
    uint32_t segment; /* number of the segment in order of creation, from 0 */
    uint32_t slot;    /* small number of a segment while it is held, reused later; not stored */
    uint32_t stream;
    int32_t step;  /* -1 before the first */
    int32_t layer; /* -1: none */
    uint8_t kind;  /* mt_event_kind */
    uint8_t tag;   /* mt_tag; of the cause for segment events */
    uint8_t pool;  /* mt_pool */
} mt_event;

typedef struct mt_listener {
    void (*on_event)(void *context, const mt_event *event);
    void *context;
} mt_listener;

/* Hears of each call to the source, for recordings that list them. op: M a segment taken, F given
 * back, R a range reserved, A a range given back, P mapped, U unmapped; X a segment refused, x a
 * page. Policies whose memory is not the core's own (async) make no such calls. */
typedef struct mt_driver_listener {
    void (*on_call)(void *context, char op, uint32_t segment, uint64_t offset, uint64_t bytes);
    void *context;
} mt_driver_listener;

const char *mt_tag_name(mt_tag tag);                /* "weights", "kv", ... */
const char *mt_pool_name(mt_pool pool);             /* "small", "large", ... */
const char *mt_event_kind_name(mt_event_kind kind); /* "alloc", "segment_alloc", ... */

#endif
