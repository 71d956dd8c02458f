/* write_massif.c - memory over time as Valgrind's massif writes it, for ms_print and
 * massif-visualizer: requested as the heap, what else is reserved as its extra bytes, and the call
 * sites at the peak of what was requested. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "traces/curve.h"
#include "traces/sites.h"
#include "traces/writer.h"

#define POINTS 512

typedef struct massif {
    mt_trace base;
    mt_sites sites;
    mt_curve curve;
    mt_point peak; /* of what was requested */
    uint64_t snapshots;
} massif;

static void print(mt_trace *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(mt_trace *t, const char *format, ...) {
    char text[1000];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mt_output_write(t->out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* Milliseconds, or the number of the event. */
static uint64_t time_of(const mt_trace *t, const mt_item *item) {
    return t->times ? mt_trace_time(t, item) / 1000000 : item->event->seq;
}

static void write_item(mt_trace *t, const mt_item *item) {
    massif *m = (massif *)t;
    const mt_ledger *l = &m->curve.ledger;
    mt_error err;
    uint64_t peak = m->sites.peak;
    if (!mt_sites_item(&m->sites, item))
        mt_trace_no_memory(t);
    if ((item->has & MT_HAS_EVENT) == 0)
        return;
    uint64_t time = time_of(t, item);
    mt_status status = mt_curve_event(&m->curve, item->event, time, &err);
    if (status != MT_OK)
        mt_trace_broken(t, status, err.text);
    if (m->sites.peak > peak)
        m->peak = (mt_point){ time, l->requested.current, l->rounding, l->split, l->cached };
}

static mt_status begin(mt_trace *t, mt_error *err) {
    (void)err;
    ((massif *)t)->curve.most = POINTS;
    return MT_OK;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static void write_snapshot(massif *m, const mt_point *p, const char *tree) {
    print(&m->base,
          "#-----------\nsnapshot=%" PRIu64 "\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
          "\nmem_heap_extra_B=%" PRIu64 "\nmem_stacks_B=0\nheap_tree=%s\n",
          m->snapshots++, p->time, p->requested, mt_point_reserved(p) - p->requested, tree);
}

static int by_bytes(const void *a, const void *b) {
    uint64_t x = mt_site_at_peak(a), y = mt_site_at_peak(b);
    return (x < y) - (x > y);
}

/* A call site in one line: the innermost frame, then those that called it. */
static void write_site(massif *m, const mt_site *site, size_t number) {
    char layer[24];
    const char *frame[MT_SITE_FRAMES];
    size_t n = mt_sites_frames(&m->sites, site, layer, frame);
    print(&m->base, " n0: %" PRIu64 " 0x%zX: ", mt_site_at_peak(site), number);
    for (size_t i = n; i > 0; i--)
        print(&m->base, "%.200s%s", frame[i - 1], i > 1 ? " < " : "");
    print(&m->base, "\n");
}

/* The sites at the peak, the largest first; those below 1 % in one line. */
static void write_tree(massif *m) {
    mt_site *site = m->sites.site.at;
    size_t n = m->sites.site.count, shown = 0;
    uint64_t rest = m->sites.peak;
    if (n > 0)
        qsort(site, n, sizeof *site, by_bytes);
    while (n > 0 && mt_site_at_peak(&site[n - 1]) == 0)
        n--;
    for (; shown < n && mt_site_at_peak(&site[shown]) >= m->sites.peak / 100; shown++)
        rest -= mt_site_at_peak(&site[shown]);
    print(&m->base,
          "n%zu: %" PRIu64 " (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n",
          shown + (shown < n), m->sites.peak);
    for (size_t i = 0; i < shown; i++)
        write_site(m, &site[i], i + 1);
    if (shown < n)
        print(&m->base, " n0: %" PRIu64 " in %zu places, all below massif's threshold (1.00%%)\n",
              rest, n - shown);
}

static void end(mt_trace *t, const char *ending) {
    massif *m = (massif *)t;
    bool told = m->sites.peak == 0;
    (void)ending;
    print(t,
          "desc: memory requested of an allocator, and what it reserved beside it as extra bytes\n"
          "cmd: memtrace\ntime_unit: %s\n",
          t->times ? "ms" : "i");
    for (size_t i = 0; i <= m->curve.point.count; i++) {
        const mt_point *p = i < m->curve.point.count ? &m->curve.point.at[i] : NULL;
        if (!told && (p == NULL || p->time > m->peak.time)) {
            write_snapshot(m, &m->peak, "peak");
            write_tree(m);
            told = true;
        }
        if (p != NULL)
            write_snapshot(m, p, "empty");
    }
}

static void close_massif(mt_trace *t) {
    mt_sites_free(&((massif *)t)->sites);
    mt_curve_free(&((massif *)t)->curve);
}

const mt_trace_form mt_form_massif = {
    .name = "massif",
    .ending = ".massif",
    .loses = "all but 512 moments and the call sites at the peak",
    .events = true,
    .size = sizeof(massif),
    .begin = begin,
    .item = write_item,
    .end = end,
    .close = close_massif,
};
