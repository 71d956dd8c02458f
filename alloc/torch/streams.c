/* streams.c - see streams.h. */
#include "alloc/torch/streams.h"

#include <stdlib.h>

#define SPARE_LEAST 4
#define CUDA_STREAM (UINT64_C(1) << 56) /* the kind of device, in the hash */

/* The slot a stream's hash points to. The default stream's id is 0; those of the pool follow. */
static uint32_t wanted(const torch_streams *s, uint32_t stream) {
    uint64_t id = stream == 0 ? 0 : 3 + 32 * (uint64_t)(stream - 1);
    uint64_t hash = (CUDA_STREAM | id) * UINT64_C(11400714819323198485);
    return (uint32_t)(hash >> (64 - __builtin_ctz(s->slots)));
}

static bool grow(torch_streams *s) {
    uint32_t slots = s->slots == 0 ? 4 : 2 * s->slots, spare = (uint32_t)__builtin_ctz(slots);
    torch_streams more = { .slots = slots };
    more.room = slots + (spare > SPARE_LEAST ? spare : SPARE_LEAST);
    more.slot = malloc(more.room * sizeof *more.slot);
    if (more.slot == NULL)
        return false;
    torch_streams_clear(&more);
    for (uint32_t i = 0; i < s->room; i++)
        if (s->slot[i].distance >= 0 && !torch_streams_add(&more, s->slot[i].stream)) {
            free(more.slot);
            return false;
        }
    free(s->slot);
    *s = more;
    return true;
}

bool torch_streams_add(torch_streams *s, uint32_t stream) {
    if (s->slots == 0 && !grow(s))
        return false;
    torch_slot *at = &s->slot[wanted(s, stream)];
    torch_slot new = { stream, 0 };
    int32_t most = (int32_t)(s->room - s->slots);
    for (; at->distance >= new.distance; at++, new.distance++)
        if (at->stream == stream)
            return true;
    if (new.distance == most || 2 * (s->count + 1) > s->slots)
        return grow(s) && torch_streams_add(s, stream);
    /* Whoever is nearer to its place makes room. */
    for (torch_slot *first = at;; at++) {
        torch_slot old = *at;
        if (old.distance < new.distance) {
            *at = new;
            if (old.distance < 0)
                break;
            new = old;
        }
        if (++new.distance == most) {
            uint32_t left = first->stream;
            first->stream = new.stream;
            return grow(s) && torch_streams_add(s, left);
        }
    }
    s->count++;
    return true;
}

void torch_streams_clear(torch_streams *s) {
    for (uint32_t i = 0; i < s->room; i++)
        s->slot[i].distance = -1;
    s->count = 0;
}

void torch_streams_free(torch_streams *s) {
    free(s->slot);
    *s = (torch_streams){ 0 };
}
