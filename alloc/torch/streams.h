/* streams.h - a set of streams in the order in which PyTorch's hash table visits them.
 *
 * PyTorch keeps the streams that use a block, and those with unfinished frees, in sets that are
 * c10's ska::flat_hash_map: open addressing with Fibonacci hashing, where an entry nearer to its
 * own slot makes room for one farther away; a distance has a limit of log2(slots), 4 at least. The
 * slots' order is the order of completion. The table doubles when more than half full and never
 * shrinks. */
#ifndef MT_ALLOC_TORCH_STREAMS_H
#define MT_ALLOC_TORCH_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct torch_slot {
    uint32_t stream;
    int32_t distance;     /* from where the hash points; -1: empty */
    uint32_t first, last; /* for the user: 0 when the stream comes in */
} torch_slot;

typedef struct torch_streams {
    torch_slot *slot;
    uint32_t slots, room, count; /* by hash; with the spare ones behind; in use */
    uint32_t next;               /* for the user */
} torch_streams;

/* The slot of a stream, which stays where it is when it is there already; valid until the next
 * stream comes in. NULL without memory. */
torch_slot *torch_streams_add(torch_streams *s, uint32_t stream);

/* Empties it and keeps its size. */
void torch_streams_clear(torch_streams *s);
void torch_streams_free(torch_streams *s);

#endif
