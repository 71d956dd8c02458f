/* optimum.c - see optimum.h. Time is counted in requests: number i lives from i to the number of
 * requests made before its free. */
#include "reports/optimum.h"

#include <stdlib.h>

#include "reports/pack.h"
#include "base/array.h"
#include "base/interrupt.h"
#include "base/size.h"

#define ALIGN 256

/* Policies that hold little: candidates. */
static const char *const frugal[] = { "direct", "block:4KiB,round:256,keep:none",
                                      "block:4KiB,round:256,fit:first,keep:none" };

struct mt_optimum {
    MT_ARRAY(mt_pack_item) item; /* by id, less the first id heard; sizes as requested */
    MT_ARRAY(uint32_t) freed;    /* items in order of their frees, with room for all */
    uint64_t first_id, live, low;
    bool lost; /* no memory for an event */
};

mt_status mt_optimum_open(mt_optimum **out, mt_error *err) {
    *out = calloc(1, sizeof **out);
    return *out != NULL ? MT_OK : mt_no_memory(err, "the optimum");
}

void mt_optimum_close(mt_optimum *o) {
    if (o == NULL)
        return;
    mt_array_free(&o->item);
    mt_array_free(&o->freed);
    free(o);
}

/* ---- collecting ------------------------------------------------------------------------------ */

static void on_get(mt_optimum *o, const mt_event *e) {
    size_t n = o->item.count;
    if (n == 0)
        o->first_id = e->id;
    mt_pack_item *item = NULL;
    if (!o->lost && e->id - o->first_id == n && n < UINT32_MAX &&
        mt_array_reserve(&o->freed, n + 1))
        item = mt_array_push(&o->item);
    if (item == NULL) {
        o->lost = true;
        return;
    }
    *item = (mt_pack_item){ e->requested, (uint32_t)n, UINT32_MAX };
    o->live += e->requested;
    if (o->live > o->low)
        o->low = o->live;
}

static void on_put(mt_optimum *o, const mt_event *e) {
    uint64_t i = e->id - o->first_id;
    if (o->lost || e->id < o->first_id || i >= o->item.count)
        return;
    o->item.at[i].death = (uint32_t)o->item.count;
    o->freed.at[o->freed.count++] = (uint32_t)i;
    o->live -= e->requested;
}

static void on_event(void *context, const mt_event *e) {
    if (e->kind == MT_EV_ALLOC)
        on_get(context, e);
    else if (e->kind == MT_EV_FREE)
        on_put(context, e);
}

mt_listener mt_optimum_listener(mt_optimum *o) {
    return (mt_listener){ on_event, o };
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Whether nothing was freed before it and it never was: it may as well live from the beginning. */
static bool stays(const mt_optimum *o, uint32_t i) {
    return o->item.at[i].death == UINT32_MAX &&
           (o->freed.count == 0 || i < o->item.at[o->freed.at[0]].death);
}

/* The others, rounded; *bottom: bytes of those that stay. Returns how many. */
static uint32_t collect(const mt_optimum *o, mt_pack_item *item, uint64_t *bottom) {
    uint32_t n = 0;
    *bottom = 0;
    for (uint32_t i = 0; i < o->item.count; i++) {
        uint64_t size = mt_round_up(o->item.at[i].size, ALIGN);
        if (stays(o, i)) {
            *bottom += size;
            continue;
        }
        item[n] = o->item.at[i];
        item[n++].size = size;
    }
    return n;
}

static mt_status pack(const mt_optimum *o, mt_bounds *b, uint64_t *least, mt_error *err) {
    mt_pack_item *item = malloc((o->item.count + 1) * sizeof *item);
    uint64_t *offset = malloc((o->item.count + 1) * sizeof *offset);
    mt_pack_result r;
    mt_status status = mt_no_memory(err, "a packing");
    if (item != NULL && offset != NULL) {
        uint64_t bottom;
        uint32_t n = collect(o, item, &bottom);
        status = mt_pack(item, n, offset, &r, err);
        b->packed = bottom + r.height;
        b->exact = r.exact;
        b->how = r.how;
        *least = bottom + r.low;
    }
    free(item);
    free(offset);
    return status;
}

/* ---- frugal policies ------------------------------------------------------------------------- */

/* All requests and frees, in their order. */
static mt_status run(const mt_optimum *o, mt_alloc *a, mt_mem *mem, mt_error *err) {
    for (uint32_t i = 0, f = 0; i < o->item.count; i++) {
        if (mt_interrupted())
            return mt_fail(err, MT_INTERRUPTED, "interrupted");
        mt_request r = { .bytes = o->item.at[i].size, .tag = MT_OTHER, .layer = -1 };
        for (; f < o->freed.count && o->item.at[o->freed.at[f]].death <= i; f++)
            MT_TRY(mt_alloc_put(a, &mem[o->freed.at[f]], err));
        MT_TRY(mt_alloc_get(a, &r, &mem[i], err));
    }
    return MT_OK;
}

static mt_status reserved_by(const mt_optimum *o, const char *policy, uint64_t *peak,
                             mt_error *err) {
    mt_source *source;
    mt_alloc *a = NULL;
    mt_mem *mem = malloc((o->item.count + 1) * sizeof *mem);
    if (mem == NULL)
        return mt_no_memory(err, "a packing");
    mt_status status = mt_source_sim(&source, UINT64_MAX / 2, 4 * MT_KIB, err);
    if (status == MT_OK) {
        status = mt_alloc_open(&a, source, policy, err);
        if (status == MT_OK)
            status = run(o, a, mem, err);
        if (status == MT_OK)
            *peak = mt_alloc_ledger(a)->reserved.peak;
        mt_alloc_close(a);
        source->close(source);
    }
    free(mem);
    return status;
}

mt_status mt_optimum_solve(const mt_optimum *o, mt_bounds *out, mt_error *err) {
    uint64_t least = 0, peak = 0;
    if (o->lost)
        return mt_no_memory(err, "the requests of the optimum");
    *out = (mt_bounds){ .low = o->low, .exact = true, .how = "nothing requested" };
    if (o->item.count == 0)
        return MT_OK;
    MT_TRY(pack(o, out, &least, err));
    out->high = out->packed;
    for (size_t i = 0; out->high > least && i < sizeof frugal / sizeof *frugal; i++) {
        MT_TRY(reserved_by(o, frugal[i], &peak, err));
        if (peak < out->high) {
            out->high = peak;
            out->how = frugal[i];
        }
    }
    return MT_OK;
}
