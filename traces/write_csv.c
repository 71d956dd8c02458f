/* write_csv.c - the event stream as comma-separated values, for spreadsheets, awk and data frames:
 * a row an event, the columns of a trace in text, what does not apply left empty. */
#include <inttypes.h>
#include <stdio.h>

#include "traces/writer.h"

/* An empty column for what an event does not have. */
static const char *number(char text[24], uint64_t n, bool there) {
    text[0] = '\0';
    if (there)
        snprintf(text, 24, "%" PRIu64, n);
    return text;
}

static mt_status begin(mt_trace *t, mt_error *err) {
    static const char names[] =
        "seq,kind,step,stream,id,segment,offset,requested,rounded,tag,layer,"
        "pool,device,ns\n";
    (void)err;
    mt_output_write(t->out, names, sizeof names - 1);
    return MT_OK;
}

static void write_item(mt_trace *t, const mt_item *item) {
    if ((item->has & MT_HAS_EVENT) == 0)
        return;
    const mt_event *e = item->event;
    bool mark = e->kind == MT_EV_MARK, nowhere = mark || e->kind == MT_EV_OOM;
    char line[400], id[24], segment[24], ns[24];
    int n = snprintf(line, sizeof line,
                     "%" PRIu64 ",%s,%" PRId32 ",%" PRIu32 ",%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64
                     ",%s,%" PRId32 ",%s,%" PRIu32 ",%s\n",
                     e->seq, mt_event_kind_name(e->kind), e->step, e->stream,
                     number(id, e->id, !mark && e->id != MT_NO_ID),
                     number(segment, e->segment, !nowhere), e->offset, e->requested,
                     mark && !t->times ? 0 : e->rounded, mark ? "" : mt_tag_name(e->tag),
                     mark ? -1 : e->layer, nowhere ? "" : mt_pool_name(e->pool), item->device,
                     number(ns, mt_trace_time(t, item), t->times));
    mt_output_write(t->out, line, (size_t)n);
}

static void end(mt_trace *t, const char *ending) {
    (void)t, (void)ending;
}

const mt_trace_form mt_form_csv = {
    .name = "csv",
    .ending = ".csv",
    .loses = "notes, private pools, call stacks, threads and processes",
    .events = true,
    .size = sizeof(mt_trace),
    .begin = begin,
    .item = write_item,
    .end = end,
};
