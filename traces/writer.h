/* writer.h - for the writers of a form (trace.h), one file write_NAME.c each: a struct that begins
 * with an mt_trace, all zero at first but for that, and an mt_trace_form, of which `item` is the
 * work; then a row in the list in trace.c. */
#ifndef MT_TRACES_WRITER_H
#define MT_TRACES_WRITER_H

#include "base/output.h"
#include "traces/trace.h"

struct mt_trace {
    const mt_trace_form *form;
    mt_output *out;
    bool times;
    bool timed; /* first_ns is that of the first item that has a time */
    uint64_t first_ns;
    mt_error error; /* the first one; the output keeps its own */
};

/* begin, settings and close may be NULL. Notes are whole lines, before the first event and perhaps
 * after the last; end writes what is known at the end only and the ending, if there is one; close
 * frees what is behind the mt_trace. */

/* The item's time since the first one's. */
static inline uint64_t mt_trace_time(const mt_trace *t, const mt_item *item) {
    return item->time_ns > t->first_ns ? item->time_ns - t->first_ns : 0;
}

/* Keeps the first failure; nothing is written any more. */
static inline void mt_trace_broken(mt_trace *t, mt_status status, const char *text) {
    if (t->error.status == MT_OK)
        mt_fail(&t->error, status, "%s", text);
}

static inline void mt_trace_no_memory(mt_trace *t) {
    mt_trace_broken(t, MT_FAILED, "no host memory for a trace");
}

extern const mt_trace_form mt_form_trace, mt_form_mtb, mt_form_csv, mt_form_jsonl, mt_form_rmm,
    mt_form_folded, mt_form_massif, mt_form_chrome;

#endif
