/* explain_json.c - see explain.h: the report as JSON.
 *
 *     "devices": [{"device", "reserved", "allocated", "active", "requested", "segments", "blocks",
 *                  "events": {ACTION: count},                        as the file states them
 *                  "end": STATE, "peak": STATE or null, "at": STATE or null,
 *                  "sites": [...], "growth": [...], "refusal": {...} or null, "notes": {...}}]
 *     "host": {"segments", "reserved"}
 *
 * A STATE accounts for a moment, its pinned segments and its pools included. Bytes are whole
 * numbers. */
#include "reports/explain.h"

#include <stdlib.h>

#define LABEL 220 /* characters of a call site */

/* Of each list, at most so many; how many there are is told too. */
#define MOST_PINNED 1000
#define MOST_SITES  2000
#define MOST_GROWTH 5000

static void site_label(const mt_explain *x, mt_json *j, const char *key, uint32_t frame) {
    char text[LABEL];
    if (frame == MT_CALLER_UNKNOWN)
        mt_json_null(j, key);
    else
        mt_json_text(j, key,
                     mt_caller_label(text, sizeof text, x->snapshot, frame, x->options.strip));
}

static void site_of_stack(const mt_explain *x, const mt_explain_device *d, mt_json *j,
                          const char *key, uint32_t stack) {
    uint32_t site = stack < d->sites->of_stack.count ? d->sites->of_stack.at[stack] : 0;
    site_label(x, j, key, site != 0 ? d->sites->at.at[site - 1].frame : MT_CALLER_UNKNOWN);
}

static void step_or_null(mt_json *j, const char *key, uint64_t value) {
    if (value == MT_SNAPSHOT_NONE)
        mt_json_null(j, key);
    else
        mt_json_unsigned(j, key, value);
}

/* ---- a state --------------------------------------------------------------------------------- */

static void share(mt_json *j, const mt_share *s) {
    mt_json_unsigned(j, "reserved", s->reserved);
    mt_json_unsigned(j, "requested", s->requested);
    mt_json_unsigned(j, "rounding", s->rounding);
    mt_json_unsigned(j, "split", s->split);
    mt_json_unsigned(j, "cached", s->cached);
    mt_json_unsigned(j, "pending", s->pending);
    mt_json_unsigned(j, "largest_free", s->largest);
    mt_json_unsigned(j, "segments", s->segments);
    mt_json_unsigned(j, "blocks", s->blocks);
    mt_json_unsigned(j, "live", s->live);
}

static void pool_rows(const mt_explain *x, mt_json *j, const mt_account *a) {
    mt_json_begin_array(j, "pools");
    for (size_t i = 0; i < a->rows.count; i++) {
        const mt_account_row *r = &a->rows.at[i];
        const mt_snapshot_pool *id = mt_intern_get(&x->snapshot->pools, r->pool, NULL);
        mt_json_begin_object(j, NULL);
        mt_json_text(j, "pool", r->large ? "large" : "small");
        mt_json_begin_array(j, "private_pool");
        mt_json_unsigned(j, NULL, id->id[0]);
        mt_json_unsigned(j, NULL, id->id[1]);
        mt_json_end(j);
        mt_json_unsigned(j, "stream", r->stream);
        share(j, &r->share);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void pinned_rows(const mt_explain *x, const mt_explain_device *d, mt_json *j,
                        const mt_state *s) {
    mt_json_begin_array(j, "pinned");
    for (size_t i = 0; i < s->account.pinned.count && i < MOST_PINNED; i++) {
        const mt_pinned *p = &s->account.pinned.at[i];
        const mt_snapshot_block *holder = &s->view.blocks[p->holder];
        mt_json_begin_object(j, NULL);
        mt_json_unsigned(j, "address", s->view.segments.at[p->segment].address);
        mt_json_unsigned(j, "free", p->free);
        mt_json_unsigned(j, "largest_free", p->largest);
        mt_json_unsigned(j, "held", p->held);
        mt_json_unsigned(j, "live", p->live);
        mt_json_unsigned(j, "holder", holder->address);
        mt_json_unsigned(j, "holder_bytes", holder->size);
        site_of_stack(x, d, j, "site", holder->stack);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_unsigned(j, "pinned_segments", s->account.pinned.count);
}

static void gap(mt_json *j, const mt_account *a) {
    mt_figures f = mt_account_figures(a);
    mt_json_begin_object(j, "gap");
    mt_json_unsigned(j, "rounding_by_rule", a->by_rule);
    mt_json_unsigned(j, "rounding_unsplit", a->unsplit);
    mt_json_unsigned(j, "pinned", a->total.split - a->unmappable);
    mt_json_unsigned(j, "unmappable", a->unmappable);
    mt_json_unsigned(j, "cached", a->total.cached);
    mt_json_end(j);
    mt_json_begin_object(j, "fragmentation");
    mt_json_fixed(j, "idle", f.idle, 6);
    mt_json_fixed(j, "captive", f.captive, 6);
    mt_json_fixed(j, "scattered", f.scattered, 6);
    mt_json_end(j);
    mt_json_unsigned(j, "inactive_split_bytes", a->dormant);
}

static void state(const mt_explain *x, const mt_explain_device *d, mt_json *j, const char *key,
                  const mt_state *s) {
    if (!s->known) {
        mt_json_null(j, key);
        return;
    }
    mt_json_begin_object(j, key);
    mt_json_unsigned(j, "step", s->step);
    share(j, &s->account.total);
    mt_json_unsigned(j, "allocated", s->account.allocated);
    mt_json_unsigned(j, "active", s->account.active);
    mt_json_bool(j, "requests_told", s->account.requests_told);
    gap(j, &s->account);
    pool_rows(x, j, &s->account);
    pinned_rows(x, d, j, s);
    mt_json_end(j);
}

/* ---- call sites and growth ------------------------------------------------------------------- */

static int by_live(const void *a, const void *b) {
    const mt_caller *x = *(const mt_caller *const *)a, *y = *(const mt_caller *const *)b;
    for (int i = 0; i < 2; i++)
        if (x->live[i] != y->live[i])
            return (x->live[i] < y->live[i]) - (x->live[i] > y->live[i]);
    return (x > y) - (x < y);
}

static void site_row(const mt_explain *x, mt_json *j, const mt_caller *s) {
    mt_json_begin_object(j, NULL);
    site_label(x, j, "site", s->frame);
    mt_json_unsigned(j, "live", s->live[MT_CALLER_FOCUS]);
    mt_json_unsigned(j, "at_peak", s->live[MT_CALLER_PEAK]);
    mt_json_unsigned(j, "at_refusal", s->live[MT_CALLER_REFUSED]);
    mt_json_unsigned(j, "rounding", s->rounding);
    mt_json_unsigned(j, "held_back", s->held_back);
    mt_json_unsigned(j, "held_segments", s->pins);
    mt_json_unsigned(j, "requests", s->requests);
    mt_json_unsigned(j, "requested_in_all", s->bytes);
    mt_json_unsigned(j, "sizes_at_least", mt_caller_sizes(s));
    mt_json_bool(j, "always_new_size", mt_caller_always_new(s));
    mt_json_unsigned(j, "segments_obtained", s->segments);
    mt_json_unsigned(j, "obtained", s->obtained);
    mt_json_end(j);
}

static void sites(const mt_explain *x, const mt_explain_device *d, mt_json *j) {
    size_t n = d->sites->at.count;
    const mt_caller **order = x->order;
    mt_json_begin_array(j, "sites");
    for (size_t i = 0; i < n; i++)
        order[i] = &d->sites->at.at[i];
    if (n > 0)
        qsort(order, n, sizeof *order, by_live);
    for (size_t i = 0; i < n && i < MOST_SITES; i++)
        site_row(x, j, order[i]);
    mt_json_end(j);
    mt_json_unsigned(j, "sites_in_all", n);
}

static void growth(const mt_explain *x, const mt_explain_device *d, mt_json *j) {
    const mt_timeline *t = d->timeline;
    size_t n = t != NULL ? t->segments.count : 0;
    mt_json_begin_array(j, "growth");
    for (size_t i = 0; i < n && i < MOST_GROWTH; i++) {
        const mt_segment_event *e = &t->segments.at[i];
        mt_json_begin_object(j, NULL);
        mt_json_unsigned(j, "step", e->step);
        step_or_null(j, "time_us", e->time_us);
        mt_json_text(j, "action", mt_action_name((mt_action)e->action));
        mt_json_unsigned(j, "bytes", e->size);
        mt_json_unsigned(j, "requested", e->requested);
        site_of_stack(x, d, j, "site", e->cause != 0 ? e->cause : e->stack);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_unsigned(j, "growth_in_all", n);
}

static void refusal(const mt_explain *x, const mt_explain_device *d, mt_json *j) {
    const mt_explain_refusal *r = &d->refusal;
    mt_json_unsigned(j, "refusals", d->refusals);
    if (!r->known) {
        mt_json_null(j, "refusal");
        return;
    }
    mt_json_begin_object(j, "refusal");
    mt_json_unsigned(j, "step", r->event->step);
    mt_json_unsigned(j, "rounded", r->event->size);
    mt_json_unsigned(j, "segment", r->segment);
    mt_json_unsigned(j, "stream", r->event->stream);
    step_or_null(j, "device_free", r->event->address);
    mt_json_unsigned(j, "largest_free", r->largest);
    mt_json_unsigned(j, "free_there", r->fitting);
    mt_json_unsigned(j, "free_elsewhere", r->elsewhere);
    site_of_stack(x, d, j, "site", r->event->stack);
    mt_json_end(j);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void events(const mt_explain *x, const mt_explain_device *d, mt_json *j) {
    mt_json_begin_object(j, "events");
    if (d->list != MT_NO_LIST) {
        const mt_snapshot_list *l = &x->snapshot->lists.at[d->list];
        for (uint32_t i = 0; i < l->count.count; i++)
            if (l->count.at[i] > 0)
                mt_json_unsigned(j, mt_intern_get(&x->snapshot->actions, i, NULL), l->count.at[i]);
    }
    mt_json_end(j);
}

static void notes(const mt_explain_device *d, mt_json *j) {
    const mt_timeline *t = d->timeline;
    mt_json_begin_object(j, "notes");
    mt_json_unsigned(j, "live_at_the_start", t != NULL ? t->start.own.count : 0);
    mt_json_unsigned(j, "freed_without_request", t != NULL ? t->early : 0);
    mt_json_unsigned(j, "contradictions", t != NULL ? t->odd + d->odd : 0);
    mt_json_unsigned(j, "untiled_segments", d->end.account.untiled);
    mt_json_end(j);
}

static void peak_reserved(const mt_explain_device *d, mt_json *j) {
    const mt_timeline *t = d->timeline;
    mt_json_signed(j, "peak_requested",
                   t != NULL ? t->requested.peak : (int64_t)d->end.account.total.requested);
    mt_json_signed(j, "peak_reserved",
                   t != NULL ? t->reserved.peak : (int64_t)d->end.account.total.reserved);
}

static void device(const mt_explain *x, const mt_explain_device *d, mt_json *j) {
    mt_json_begin_object(j, NULL);
    mt_json_unsigned(j, "device", d->device);
    mt_json_unsigned(j, "reserved", d->reserved);
    mt_json_unsigned(j, "allocated", d->allocated);
    mt_json_unsigned(j, "active", d->active);
    mt_json_unsigned(j, "requested", d->requested);
    mt_json_unsigned(j, "segments", d->segments);
    mt_json_unsigned(j, "blocks", d->blocks);
    events(x, d, j);
    peak_reserved(d, j);
    state(x, d, j, "end", &d->end);
    state(x, d, j, "peak", &d->peak);
    state(x, d, j, "at", &d->at);
    sites(x, d, j);
    growth(x, d, j);
    refusal(x, d, j);
    notes(d, j);
    mt_json_end(j);
}

void mt_explain_json(const mt_explain *x, mt_json *j) {
    mt_json_begin_array(j, "devices");
    for (size_t i = 0; i < x->devices.count; i++)
        device(x, &x->devices.at[i], j);
    mt_json_end(j);
    mt_json_begin_object(j, "host");
    mt_json_unsigned(j, "segments", x->host_segments);
    mt_json_unsigned(j, "reserved", x->host_bytes);
    mt_json_unsigned(j, "events", x->host_events);
    mt_json_end(j);
}
