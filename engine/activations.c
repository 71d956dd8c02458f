/* activations.c - see activations.h. */
#include "engine/activations.h"

#include <string.h>

#include "base/size.h"

#define ARENA_ALIGN 256

void mt_acts_init(mt_acts *a, mt_acts_mode mode, mt_alloc *alloc) {
    memset(a, 0, sizeof *a);
    a->mode = mode;
    a->alloc = alloc;
}

mt_status mt_acts_open(mt_acts *a, uint64_t bytes, mt_error *err) {
    if (a->mode != MT_ARENA)
        return MT_OK;
    mt_request r = { .bytes = bytes, .tag = MT_ACTIVATIONS, .layer = -1 };
    a->arena_bytes = bytes;
    return mt_alloc_get(a->alloc, &r, &a->arena, err);
}

/* The end of the live buffer that overlaps [offset, offset + bytes), 0 if none does. */
static uint64_t blocked_until(const mt_acts *a, uint64_t offset, uint64_t bytes) {
    for (int i = 0; i < MT_ACTS_MOST; i++) {
        const mt_act *b = a->live[i];
        if (b != NULL && offset < b->offset + b->bytes && b->offset < offset + bytes)
            return mt_round_up(b->offset + b->bytes, ARENA_ALIGN);
    }
    return 0;
}

/* Bytes of the gap that begins at offset, which no live buffer covers. */
static uint64_t gap_at(const mt_acts *a, uint64_t offset) {
    uint64_t end = UINT64_MAX;
    for (int i = 0; i < MT_ACTS_MOST; i++)
        if (a->live[i] != NULL && a->live[i]->offset >= offset && a->live[i]->offset < end)
            end = a->live[i]->offset;
    return end - offset;
}

/* The smallest gap between live buffers that holds bytes, the lowest among equals. Gaps begin at 0
 * or right after a live buffer. */
static uint64_t best_offset(const mt_acts *a, uint64_t bytes) {
    uint64_t best = UINT64_MAX, best_gap = UINT64_MAX;
    for (int i = -1; i < MT_ACTS_MOST; i++) {
        if (i >= 0 && a->live[i] == NULL)
            continue;
        uint64_t at = i < 0 ? 0 : mt_round_up(a->live[i]->offset + a->live[i]->bytes, ARENA_ALIGN);
        if (blocked_until(a, at, bytes) != 0)
            continue;
        uint64_t gap = gap_at(a, at);
        if (gap < best_gap || (gap == best_gap && at < best)) {
            best = at;
            best_gap = gap;
        }
    }
    return best;
}

static mt_status place(mt_acts *a, mt_act *act, mt_error *err) {
    act->offset = best_offset(a, act->bytes);
    uint64_t end = act->offset + act->bytes;
    if (a->mode == MT_PLAN) {
        a->arena_bytes = end > a->arena_bytes ? end : a->arena_bytes;
        act->ptr = (void *)(uintptr_t)(act->offset + ARENA_ALIGN);
        return MT_OK;
    }
    if (end > a->arena_bytes)
        return mt_fail(err, MT_CHECK, "the pass needs more than its planned arena");
    act->ptr = (char *)a->arena.ptr + act->offset;
    return MT_OK;
}

static mt_status request(mt_acts *a, mt_act *act, int32_t layer, mt_error *err) {
    mt_request r = { .bytes = act->bytes, .tag = MT_ACTIVATIONS, .layer = layer };
    MT_TRY(mt_alloc_get(a->alloc, &r, &act->mem, err));
    act->ptr = act->mem.ptr;
    return MT_OK;
}

mt_status mt_acts_get(mt_acts *a, mt_act *act, uint64_t bytes, int32_t layer, mt_error *err) {
    *act = (mt_act){ .bytes = bytes };
    if (bytes == 0)
        return MT_OK;
    int i = 0;
    while (i < MT_ACTS_MOST && a->live[i] != NULL)
        i++;
    if (i == MT_ACTS_MOST)
        return mt_fail(err, MT_CHECK, "more than %d activation buffers live at once", MT_ACTS_MOST);
    MT_TRY(a->mode == MT_EAGER ? request(a, act, layer, err) : place(a, act, err));
    act->place = i;
    a->live[i] = act;
    return MT_OK;
}

void mt_acts_put(mt_acts *a, mt_act *act) {
    if (act->ptr == NULL)
        return;
    a->live[act->place] = NULL;
    act->ptr = NULL;
    mt_alloc_put(a->alloc, &act->mem, NULL);
}

void mt_acts_put_all(mt_acts *a) {
    for (int i = 0; i < MT_ACTS_MOST; i++)
        if (a->live[i] != NULL)
            mt_acts_put(a, a->live[i]);
}

void mt_acts_close(mt_acts *a) {
    mt_acts_put_all(a);
    mt_alloc_put(a->alloc, &a->arena, NULL);
}
