/* alloc.h - the allocator: every byte of device memory goes through here.
 *
 * Words, used everywhere in this project:
 *
 *     requested  bytes the caller asked for
 *     block      a piece of a segment; the blocks of a segment tile it without gaps
 *     rounded    size of the block that serves a request
 *     rounding   rounded - requested, summed over live blocks
 *     segment    memory taken from a source in one piece
 *     split      free bytes inside segments that also hold a live block
 *     cached     free bytes of segments that hold no live block
 *     reserved   bytes of all segments held
 *     source     where segments come from: host, sim, cuda
 *     policy     the rules that turn requests into blocks and segments
 *
 * What always holds, after every event, in whole bytes (see ledger.h):
 *
 *     reserved = sum over tags of requested + rounding + split + cached
 *
 * An mt_alloc is a source, a policy over it, a ledger, and listeners to its event stream. It is not
 * thread-safe: one owner at a time. */
#ifndef MT_ALLOC_ALLOC_H
#define MT_ALLOC_ALLOC_H

#include "alloc/events.h"
#include "alloc/ledger.h"
#include "alloc/policy.h"
#include "alloc/source.h"
#include "alloc/walk.h"

typedef struct mt_alloc mt_alloc;

/* One request. */
typedef struct mt_request {
    uint64_t bytes;
    mt_tag tag;
    int32_t layer;   /* -1: none */
    uint32_t stream; /* 0: the default stream */
} mt_request;

/* Live memory. handle 0 is no memory (ptr NULL), which every call accepts. ptr is the device's
 * address; for the sim source it is only a number. */
typedef struct mt_mem {
    void *ptr;
    uint64_t handle;
} mt_mem;

/* Opens an allocator over source, which must outlive it and is not owned. policy is a policy's name
 * with its options, as on the command line ("torch", "block:2MiB,fit:first"). */
mt_status mt_alloc_open(mt_alloc **out, mt_source *source, const char *policy, mt_error *err);

/* Frees everything still live, gives every segment back, frees the allocator. NULL is allowed. */
void mt_alloc_close(mt_alloc *a);

/* Takes memory. A request of 0 bytes returns no memory, without an event. When the source refuses
 * even after the policy gave back what was wholly free: MT_NO_MEMORY, an oom event, and the state
 * as it was but for what was given back. Memory is aligned to at least 256 bytes. */
mt_status mt_alloc_get(mt_alloc *a, const mt_request *request, mt_mem *out, mt_error *err);

/* Frees memory and clears *mem. A handle that is not live (never given out, freed already) is
 * refused with MT_BAD; nothing changes. */
mt_status mt_alloc_put(mt_alloc *a, mt_mem *mem, mt_error *err);

/* Says that another stream uses the memory: a later free completes only when that stream is done
 * (at the next request while nothing is held back, or at a trim). */
mt_status mt_alloc_use(mt_alloc *a, mt_mem mem, uint32_t stream, mt_error *err);

/* Holds back (true) or lets go (false) the completion of work on all streams: while held, a free of
 * memory that other streams use stays pending. Sources that compute nothing finish at once. */
void mt_alloc_hold(mt_alloc *a, bool held);

/* Gives wholly free segments back to the source; pending frees are completed first. */
void mt_alloc_trim(mt_alloc *a);

/* The block size that a request of so many bytes would be rounded to, before any choice of
 * block. */
uint64_t mt_alloc_roundup(const mt_alloc *a, uint64_t bytes);

/* Ends a step: sends a mark event. Events belong to step -1 (loading) until the first mark, then to
 * step 0, and so on. nanoseconds: wall time of the step, 0 when not measured. */
void mt_alloc_mark(mt_alloc *a, uint64_t ctx, uint64_t kv_ideal, uint64_t nanoseconds);

/* Adds a listener; at most 4. Events so far are not sent again. */
void mt_alloc_listen(mt_alloc *a, mt_listener listener);

/* Tells one listener of every call to the source from now on; on_call NULL: no more. */
void mt_alloc_on_driver_call(mt_alloc *a, mt_driver_listener listener);

/* Drops all listeners to events: what comes later (the freeing of everything) is not part of the
 * run. */
void mt_alloc_unlisten(mt_alloc *a);

/* Stamps events with monotonic nanoseconds (off at first, so that equal runs give equal events). */
void mt_alloc_stamp(mt_alloc *a, bool on);

/* Time spent in requests and frees, policy and ledger included, and in listeners. */
typedef struct mt_alloc_times {
    uint64_t calls, events; /* of get and put; sent to listeners */
    uint64_t alloc_ns, listen_ns;
} mt_alloc_times;

/* Adds to *times from now on, at the cost of two looks at the clock a call and two an event; NULL:
 * no more. */
void mt_alloc_time(mt_alloc *a, mt_alloc_times *times);

const mt_ledger *mt_alloc_ledger(const mt_alloc *a);
mt_source *mt_alloc_source(const mt_alloc *a);
const char *mt_alloc_policy(const mt_alloc *a); /* name and options in effect */

/* Note i about the policy's options, for the user; NULL after the last. One printable line that
 * names the option: a legal value that does nothing, or that PyTorch ignores. */
const char *mt_alloc_note(const mt_alloc *a, uint32_t i);

/* Live memory: what a handle was asked for and got. */
typedef struct mt_live_info {
    uint64_t id, requested, rounded, offset;
    uint32_t segment, stream;
    int32_t layer;
    mt_tag tag;
    mt_pool pool;
} mt_live_info;
mt_status mt_alloc_info(const mt_alloc *a, mt_mem mem, mt_live_info *out, mt_error *err);

/* Walks every segment and block and compares with the ledger: tiling without gaps, no overlap of
 * live blocks, complete coalescing, the four parts of reserved, sums per tag. MT_CHECK and a line
 * when something does not hold. Debug builds (MT_WALK) do so after every event. */
mt_status mt_alloc_check(const mt_alloc *a, mt_error *err);

/* Walks every segment and block; meets nothing where the policy hides them. */
mt_status mt_alloc_walk(const mt_alloc *a, const mt_visitor *v, mt_error *err);

/* The largest free block of all, whoever may use it; a full walk. */
uint64_t mt_alloc_largest_free(const mt_alloc *a);

/* What stood in the way of a refused request, for the report: largest free block that could serve
 * it, free bytes in all. Valid after mt_alloc_get returned MT_NO_MEMORY, until the next request. */
typedef struct mt_refusal {
    mt_request request;
    uint64_t rounded;      /* what the request would have been rounded to */
    uint64_t segment;      /* bytes that the source was asked for */
    uint64_t capacity;     /* of the source */
    uint64_t source_free;  /* of the source, when it refused */
    uint64_t reserved;     /* held by this allocator then */
    uint64_t free_total;   /* free bytes inside held segments: split + cached */
    uint64_t largest_free; /* the largest of them that the request could use */
    int32_t step;
} mt_refusal;
const mt_refusal *mt_alloc_refusal(const mt_alloc *a);

#endif
