/* source.h - where segments come from.
 *
 * A source takes and gives back memory in whole pieces, counts what is out, and refuses what its
 * capacity does not hold. It can also reserve a range of addresses whose pages are mapped one by
 * one (growable segments). Sources: host (mmap), sim (addresses only, nothing behind them),
 * cuda. */
#ifndef MT_ALLOC_SOURCE_H
#define MT_ALLOC_SOURCE_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"
#include "base/status.h"

typedef struct mt_source mt_source;

struct mt_source {
    const char *name;
    uint64_t capacity;    /* bytes the device holds */
    uint64_t granularity; /* pieces are counted in multiples of this */
    uint64_t used;        /* bytes out, so counted */
    uint64_t refusals;    /* pieces that did not fit */

    /* Each returns MT_NO_MEMORY when the piece does not fit (not an error to report: err keeps the
     * reason), MT_FAILED when the device failed. */
    mt_status (*take)(mt_source *s, uint64_t bytes, void **ptr, mt_error *err);
    void (*give)(mt_source *s, void *ptr, uint64_t bytes);
    mt_status (*reserve)(mt_source *s, uint64_t bytes, void **base, mt_error *err);
    mt_status (*map)(mt_source *s, void *base, uint64_t offset, uint64_t bytes, mt_error *err);
    void (*unmap)(mt_source *s, void *base, uint64_t offset, uint64_t bytes);
    void (*release)(mt_source *s, void *base, uint64_t bytes);
    void (*close)(mt_source *s); /* frees s */

    /* ---- of real devices; NULL elsewhere ---- */

    /* Bytes of the device that are gone, whoever took them; all that it has; and what our pieces
     * cost there: used plus the driver's own rounding. */
    mt_status (*device_used)(mt_source *s, uint64_t *used, mt_error *err);
    uint64_t device_total;
    uint64_t driver_bytes;

    /* The driver's own pool, for the policy async: memory out of it and back, in order of the
     * device's work; its bytes reserved and in use (err may be NULL: the device's next sync tells);
     * what is free in it goes back to the device. */
    mt_status (*pool_take)(mt_source *s, uint64_t bytes, void **ptr, mt_error *err);
    void (*pool_give)(mt_source *s, void *ptr, uint64_t bytes);
    mt_status (*pool_state)(mt_source *s, uint64_t *reserved, uint64_t *used, mt_error *err);
    void (*pool_trim)(mt_source *s);

    /* For tests: when not 0, counts down at each take and map, and refuses the one that reaches
     * 0. */
    uint64_t fail_at;
};

/* ---- for sources: counting against the capacity ---------------------------------------------- */

/* Counts a piece; MT_NO_MEMORY when it does not fit or a test asked for a refusal. */
static inline mt_status mt_source_count(mt_source *s, uint64_t bytes, mt_error *err) {
    uint64_t left = s->capacity - s->used;
    bool asked = s->fail_at != 0 && --s->fail_at == 0;
    if (asked || bytes > left || mt_round_up(bytes, s->granularity) > left) {
        s->refusals++;
        return mt_fail(err, MT_NO_MEMORY, "%s: %" PRIu64 " bytes requested, %" PRIu64 " free",
                       s->name, bytes, left);
    }
    s->used += mt_round_up(bytes, s->granularity);
    return MT_OK;
}

static inline void mt_source_uncount(mt_source *s, uint64_t bytes) {
    s->used -= mt_round_up(bytes, s->granularity);
}

/* ---- the sources of every machine ------------------------------------------------------------ */

/* Memory of this machine, from mmap, in huge pages where the system gives them. */
mt_status mt_source_host(mt_source **out, uint64_t capacity, mt_error *err);

/* Addresses only; they must never be followed. granularity: what the simulated driver rounds each
 * piece up to (4 KiB, or 2 MiB to count as a real device does). */
mt_status mt_source_sim(mt_source **out, uint64_t capacity, uint64_t granularity, mt_error *err);

#endif
