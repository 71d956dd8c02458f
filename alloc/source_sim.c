/* source_sim.c - a device that hands out addresses and counts bytes.
 *
 * Addresses rise and are never reused, so that one is never mistaken for another; nothing is behind
 * them. Everything above the source behaves as on real memory, at any capacity. */
#include "alloc/source.h"

#include <stdlib.h>

typedef struct sim {
    mt_source base;
    uint64_t next; /* the next address */
} sim;

static void *addresses(sim *s, uint64_t bytes) {
    uint64_t at = s->next;
    s->next += mt_round_up(bytes, 2 * MT_MIB);
    return (void *)(uintptr_t)at;
}

static mt_status sim_take(mt_source *base, uint64_t bytes, void **ptr, mt_error *err) {
    MT_TRY(mt_source_count(base, bytes, err));
    *ptr = addresses((sim *)base, bytes);
    return MT_OK;
}

static void sim_give(mt_source *base, void *ptr, uint64_t bytes) {
    (void)ptr;
    mt_source_uncount(base, bytes);
}

static mt_status sim_reserve(mt_source *base, uint64_t bytes, void **ptr, mt_error *err) {
    (void)err;
    *ptr = addresses((sim *)base, bytes);
    return MT_OK;
}

static mt_status sim_map(mt_source *base, void *range, uint64_t offset, uint64_t bytes,
                         mt_error *err) {
    (void)range;
    (void)offset;
    return mt_source_count(base, bytes, err);
}

static void sim_unmap(mt_source *base, void *range, uint64_t offset, uint64_t bytes) {
    (void)range;
    (void)offset;
    mt_source_uncount(base, bytes);
}

static void sim_release(mt_source *base, void *range, uint64_t bytes) {
    (void)base;
    (void)range;
    (void)bytes;
}

static void sim_close(mt_source *base) {
    free(base);
}

mt_status mt_source_sim(mt_source **out, uint64_t capacity, uint64_t granularity, mt_error *err) {
    sim *s = calloc(1, sizeof *s);
    if (s == NULL)
        return mt_no_memory(err, "a simulated device");
    s->next = UINT64_C(1) << 40;
    s->base = (mt_source){
        .name = "sim",
        .capacity = capacity,
        .granularity = granularity,
        .take = sim_take,
        .give = sim_give,
        .reserve = sim_reserve,
        .map = sim_map,
        .unmap = sim_unmap,
        .release = sim_release,
        .close = sim_close,
    };
    *out = &s->base;
    return MT_OK;
}
