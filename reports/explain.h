/* explain.h - where the memory of a snapshot went.
 *
 *     mt_explain x;
 *     MT_TRY(mt_explain_open(&x, &options, err));
 *     MT_TRY(mt_snapshot_read(&s, file, data, size, mt_explain_events, &x, err));
 *     MT_TRY(mt_explain_conclude(&x, &s, err));
 *     mt_explain_print(&x, stdout);                     or mt_explain_json(&x, &json)
 *     mt_explain_close(&x);
 *
 * For each device: the identity at the end, at the peak of requested and at any moment; the gap
 * between reserved and requested by cause; the segments that live blocks keep; call sites; how
 * reserved grew; and what stood in the way of a refused request. */
#ifndef MT_REPORTS_EXPLAIN_H
#define MT_REPORTS_EXPLAIN_H

#include <stdio.h>

#include "base/json.h"
#include "reports/account.h"
#include "reports/callers.h"
#include "traces/timeline.h"

typedef enum mt_moment {
    MT_AT_END,
    MT_AT_PEAK,
    MT_AT_STEP, /* before the event of this number */
    MT_AT_TIME  /* microseconds since the first event */
} mt_moment;

typedef struct mt_explain_options {
    int64_t device; /* -1: every one */
    mt_moment at;   /* what the details are of */
    uint64_t when;
    bool strip;  /* paths lose their folders */
    size_t rows; /* of each table, in text */
} mt_explain_options;

/* A moment of a device. */
typedef struct mt_state {
    bool known;
    uint64_t step;
    mt_view view;
    mt_account account;
} mt_state;

/* The views that sites are counted in. */
enum { MT_CALLER_FOCUS, MT_CALLER_PEAK, MT_CALLER_REFUSED };

/* A refused request. */
typedef struct mt_explain_refusal {
    bool known;
    const mt_segment_event *event;
    mt_state before;
    uint64_t segment; /* that the request would have taken; 0: it was served from a cache */
    uint64_t fitting, largest; /* free bytes where it looked, and of the largest block there */
    uint64_t elsewhere;        /* free bytes of other streams and pools */
} mt_explain_refusal;

typedef struct mt_explain_device {
    uint32_t device;
    uint32_t list; /* of its events; MT_NO_LIST: none */
    uint64_t reserved, allocated, active, requested, segments, blocks; /* as the file states them */
    mt_timeline *timeline;                                             /* NULL: no events */
    mt_callers *sites;
    mt_state end, peak, at;
    const mt_state *focus;
    mt_explain_refusal refusal; /* the last one */
    uint64_t refusals, odd;
} mt_explain_device;

#define MT_NO_LIST UINT32_MAX

/* What the events of one list make, before it is known which device's they are. */
typedef struct mt_explain_list {
    mt_timeline timeline;
    mt_callers sites;
} mt_explain_list;

typedef struct mt_explain {
    mt_explain_options options;
    const mt_snapshot *snapshot;
    MT_ARRAY(mt_explain_list) lists;
    MT_ARRAY(mt_explain_device) devices;             /* those with segments or events, by number */
    uint64_t host_segments, host_bytes, host_events; /* pinned host memory: of no device */
    mt_source *source;
    mt_alloc *rules; /* how the snapshot's allocator rounds */

    /* For who writes the report: room for each site of a device, and one more. */
    const mt_caller **order;
    uint64_t *sum; /* all zero */
} mt_explain;

void mt_explain_open(mt_explain *x, const mt_explain_options *options);
void mt_explain_close(mt_explain *x);

/* For mt_snapshot_read; the context is the mt_explain. */
mt_snapshot_events mt_explain_events;

/* The snapshot must outlive x. MT_BAD when an option names what is not there. */
mt_status mt_explain_conclude(mt_explain *x, const mt_snapshot *s, mt_error *err);

/* For people. file is its name. */
void mt_explain_print(const mt_explain *x, const char *file, FILE *out);

/* The keys of an object that is begun. */
void mt_explain_json(const mt_explain *x, mt_json *j);

#endif
