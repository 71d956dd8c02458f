/* range.c - see range.h. */
#include "traces/range.h"

#include <stdlib.h>

mt_range mt_range_of(mt_trace *to, int64_t first, int64_t last) {
    return (mt_range){
        .to = to, .first = first, .last = last, .step = -1, .begun = first < 0, .new_step = -1
    };
}

void mt_range_free(mt_range *r) {
    mt_numbers_free(&r->requests);
    mt_numbers_free(&r->segments);
    mt_array_free(&r->request);
    mt_array_free(&r->segment);
}

/* ---- what is live ---------------------------------------------------------------------------- */

static mt_range_live *add(mt_range *r, bool segment, const mt_item *item) {
    mt_numbers *names = segment ? &r->segments : &r->requests;
    uint32_t at = mt_numbers_take(names, segment ? item->segment : item->id);
    if (at == MT_NO_NUMBER || !(segment ? mt_array_extend(&r->segment, (size_t)at + 1)
                                        : mt_array_extend(&r->request, (size_t)at + 1)))
        return NULL;
    mt_range_live *live = segment ? &r->segment.at[at] : &r->request.at[at];
    *live = (mt_range_live){ .item = *item, .held = true };
    if ((item->has & MT_HAS_EVENT) != 0)
        live->event = *item->event;
    return live;
}

/* The events of a segment, of which the bytes are added up. */
static bool note_segment(mt_range *r, const mt_item *item) {
    const mt_event *e = item->event;
    bool adds = e->kind == MT_EV_SEGMENT_ALLOC || e->kind == MT_EV_SEGMENT_MAP;
    uint32_t at = mt_numbers_find(&r->segments, e->segment);
    mt_range_live *live = at != MT_NO_NUMBER ? &r->segment.at[at] : NULL;
    if (live == NULL && (!adds || (live = add(r, true, item)) == NULL))
        return !adds;
    live->bytes += adds ? e->rounded : -e->rounded;
    live->held = live->bytes > 0;
    if (!live->held)
        mt_numbers_drop(&r->segments, e->segment);
    return true;
}

static bool note(mt_range *r, const mt_item *item) {
    if (item->kind == MT_ITEM_ALLOC)
        return add(r, false, item) != NULL;
    if (item->kind == MT_ITEM_FREE) {
        uint32_t at = mt_numbers_drop(&r->requests, item->id);
        if (at != MT_NO_NUMBER)
            r->request.at[at].held = false;
    }
    if (item->kind == MT_ITEM_EVENT && item->event->kind < MT_EV_OOM)
        return note_segment(r, item);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Under the numbers of the range. */
static void write_item(mt_range *r, const mt_item *item) {
    mt_item copy = *item;
    mt_event e;
    if ((item->has & MT_HAS_EVENT) != 0) {
        e = *item->event;
        e.seq = r->seq++;
        e.step = r->new_step;
        copy.event = &e;
    }
    r->new_step += item->kind == MT_ITEM_MARK;
    mt_trace_item(r->to, &copy);
}

static int by_id(const void *a, const void *b) {
    uint64_t x = ((const mt_range_live *)a)->item.id, y = ((const mt_range_live *)b)->item.id;
    return (x > y) - (x < y);
}

/* What was live, at the time of the mark that it ends with. */
static void write_live(mt_range *r, const mt_item *mark) {
    for (size_t i = 0; i < r->segment.count; i++) {
        mt_range_live *s = &r->segment.at[i];
        s->event.rounded = s->item.rounded = s->bytes;
        s->event.offset = s->item.offset = 0;
        s->event.time_ns = s->item.time_ns = mark->time_ns;
        s->item.event = &s->event;
        if (s->held)
            write_item(r, &s->item);
    }
    if (r->request.count > 0)
        qsort(r->request.at, r->request.count, sizeof *r->request.at, by_id);
    for (size_t i = 0; i < r->request.count; i++) {
        mt_range_live *q = &r->request.at[i];
        q->event.time_ns = q->item.time_ns = mark->time_ns;
        q->item.event = &q->event;
        if (q->held)
            write_item(r, &q->item);
    }
    write_item(r, mark);
}

mt_status mt_range_item(mt_range *r, const mt_item *item, mt_error *err) {
    bool mark = item->kind == MT_ITEM_MARK;
    if (mt_range_over(r))
        return MT_OK;
    if (item->kind == MT_ITEM_NOTE || item->kind == MT_ITEM_STACK) {
        mt_trace_item(r->to, item);
        return MT_OK;
    }
    r->told = r->step;
    r->step += mark;
    if (r->begun) {
        write_item(r, item);
    } else if (!note(r, item)) {
        return mt_no_memory(err, "what is live");
    } else if (mark && r->step == r->first) {
        write_live(r, item);
        r->begun = true;
    }
    return MT_OK;
}
