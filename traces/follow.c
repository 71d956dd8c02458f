/* follow.c - see follow.h. */
#include "traces/follow.h"

#include <inttypes.h>

void mt_follow_free(mt_follow *f) {
    mt_numbers_free(&f->slots);
    mt_array_free(&f->segment);
    mt_ledger_free(&f->ledger);
}

static mt_status begin_segment(mt_follow *f, mt_event *e, mt_error *err) {
    e->slot = mt_numbers_take(&f->slots, e->segment);
    if (e->slot == MT_NO_NUMBER || !mt_array_extend(&f->segment, (size_t)e->slot + 1))
        return mt_no_memory(err, "the segments of a trace");
    f->segment.at[e->slot] = (mt_follow_segment){ e->rounded, e->kind == MT_EV_SEGMENT_MAP };
    return MT_OK;
}

mt_status mt_follow_slot(mt_follow *f, const mt_reader *r, mt_event *e, mt_error *err) {
    e->slot = mt_numbers_find(&f->slots, e->segment);
    if (e->kind == MT_EV_SEGMENT_ALLOC && e->slot != MT_NO_NUMBER)
        return mt_reader_bad(r, err, "segment %" PRIu32 " is already allocated", e->segment);
    if (e->slot != MT_NO_NUMBER)
        return MT_OK;
    if (!mt_follow_begins(e->kind))
        return mt_reader_bad(r, err, "segment %" PRIu32 " is not allocated", e->segment);
    return begin_segment(f, e, err);
}

static mt_status ask_ledger(mt_follow *f, const mt_reader *r, const mt_event *e, mt_error *err) {
    mt_error why; /* set when it fails */
    mt_status status = mt_ledger_apply(&f->ledger, e, &why);
    if (status == MT_OK)
        return MT_OK;
    return status == MT_CHECK ? mt_reader_bad(r, err, "%s", why.text)
                              : mt_fail(err, status, "%s: %s", mt_input_name(r->in), why.text);
}

/* A segment is held no more; a growable one when its last page is unmapped. */
static void end_segment(mt_follow *f, const mt_event *e) {
    if (f->ledger.segment.at[e->slot].reserved == 0)
        mt_numbers_drop(&f->slots, e->segment);
}

static mt_status check_block(const mt_follow *f, const mt_reader *r, const mt_event *e,
                             mt_error *err) {
    const mt_follow_segment *s = &f->segment.at[e->slot];
    if (s->growable || (e->rounded <= s->bytes && e->offset <= s->bytes - e->rounded))
        return MT_OK;
    return mt_reader_bad(r, err,
                         "the block ends at %" PRIu64 " + %" PRIu64 ", its segment at %" PRIu64,
                         e->offset, e->rounded, s->bytes);
}

/* Before the ledger: sums of bytes cannot overflow. */
static mt_status check_segment(mt_follow *f, const mt_reader *r, const mt_event *e, mt_error *err) {
    if (e->kind == MT_EV_SEGMENT_MAP || e->kind == MT_EV_SEGMENT_UNMAP)
        f->segment.at[e->slot].growable = true;
    if (mt_follow_begins(e->kind) && e->rounded > (uint64_t)INT64_MAX - f->ledger.reserved.current)
        return mt_reader_bad(r, err, "more than 2^63 bytes are reserved with these %" PRIu64,
                             e->rounded);
    return MT_OK;
}

mt_status mt_follow_event(mt_follow *f, const mt_reader *r, const mt_event *e, mt_error *err) {
    if (e->kind >= MT_EV_OOM)
        return ask_ledger(f, r, e, err);
    if (e->rounded == 0)
        return mt_reader_bad(r, err, "rounded is 0, expected at least 1");
    if (e->kind == MT_EV_ALLOC)
        MT_TRY(check_block(f, r, e, err));
    else if (e->kind != MT_EV_FREE)
        MT_TRY(check_segment(f, r, e, err));
    MT_TRY(ask_ledger(f, r, e, err));
    if (e->kind == MT_EV_SEGMENT_FREE || e->kind == MT_EV_SEGMENT_UNMAP)
        end_segment(f, e);
    return MT_OK;
}
