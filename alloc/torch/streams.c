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

static torch_slot *enter(torch_streams *s, torch_slot new);

static bool grow(torch_streams *s) {
    if (s->slots > UINT32_MAX / 4)
        return false;
    uint32_t slots = s->slots == 0 ? 4 : 2 * s->slots, spare = (uint32_t)__builtin_ctz(slots);
    torch_streams more = { .slots = slots };
    more.room = slots + (spare > SPARE_LEAST ? spare : SPARE_LEAST);
    more.slot = malloc(more.room * sizeof *more.slot);
    if (more.slot == NULL)
        return false;
    torch_streams_clear(&more);
    for (uint32_t i = 0; i < s->room; i++)
        if (s->slot[i].distance >= 0 && enter(&more, s->slot[i]) == NULL) {
            torch_streams_free(&more);
            return false;
        }
    free(s->slot);
    *s = more;
    return true;
}

/* Puts an entry in; the slot of its stream. Whoever is nearer to its own slot makes room. */
static torch_slot *enter(torch_streams *s, torch_slot new) {
    const uint32_t stream = new.stream;
    if (s->slots == 0 && !grow(s))
        return NULL;
    torch_slot *at = &s->slot[wanted(s, stream)], *mine = NULL;
    int32_t most = (int32_t)(s->room - s->slots);
    new.distance = 0;
    for (; at->distance >= new.distance; at++, new.distance++)
        if (at->stream == stream)
            return at;
    if (new.distance == most || 2 * (s->count + 1) > s->slots)
        return grow(s) ? enter(s, new) : NULL;
    for (torch_slot *first = at;; at++) {
        torch_slot old = *at;
        if (old.distance < new.distance) {
            *at = new;
            mine = mine != NULL ? mine : at;
            if (old.distance < 0)
                break;
            new = old;
        }
        if (++new.distance == most) {
            torch_slot left = *first;
            *first = new;
            return grow(s) ? enter(s, left) : NULL;
        }
    }
    s->count++;
    return mine;
}

torch_slot *torch_streams_add(torch_streams *s, uint32_t stream) {
    return enter(s, (torch_slot){ .stream = stream });
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
