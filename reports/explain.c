/* explain.c - see explain.h: what is reported, worked out. */
#include "reports/explain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/size.h"

static mt_status no_memory(mt_error *err) {
    return mt_no_memory(err, "the report");
}

void mt_explain_open(mt_explain *x, const mt_explain_options *options) {
    *x = (mt_explain){ .options = *options };
}

static void close_state(mt_state *s) {
    mt_view_free(&s->view);
    mt_account_free(&s->account);
}

void mt_explain_close(mt_explain *x) {
    for (size_t i = 0; i < x->devices.count; i++) {
        mt_explain_device *d = &x->devices.at[i];
        close_state(&d->end);
        close_state(&d->peak);
        close_state(&d->at);
        close_state(&d->refusal.before);
        if (d->list == MT_NO_LIST && d->sites != NULL) {
            mt_callers_free(d->sites);
            free(d->sites);
        }
    }
    for (size_t i = 0; i < x->lists.count; i++) {
        mt_timeline_close(&x->lists.at[i].timeline);
        mt_callers_free(&x->lists.at[i].sites);
    }
    mt_array_free(&x->devices);
    mt_array_free(&x->lists);
    free(x->order);
    free(x->sum);
    mt_alloc_close(x->rules);
    if (x->source != NULL)
        x->source->close(x->source);
}

mt_status mt_explain_events(void *context, const mt_snapshot *s, uint32_t list,
                            const mt_snapshot_event *event, size_t n, mt_error *err) {
    mt_explain *x = context;
    while (x->lists.count <= list) {
        mt_explain_list *l = mt_array_push(&x->lists);
        if (l == NULL)
            return no_memory(err);
        memset(l, 0, sizeof *l);
        mt_timeline_open(&l->timeline,
                         x->options.at == MT_AT_TIME ? x->options.when : MT_SNAPSHOT_NONE);
    }
    mt_explain_list *l = &x->lists.at[list];
    if (mt_interrupted())
        return mt_fail(err, MT_INTERRUPTED, "interrupted");
    for (size_t i = 0; i < n; i++)
        if (event[i].action == MT_ACTION_ALLOC &&
            !mt_callers_request(&l->sites, s, event[i].stack, event[i].size))
            return no_memory(err);
    return mt_timeline_add(&l->timeline, event, n, err);
}

/* ---- which devices there are ----------------------------------------------------------------- */

static mt_status device_of(mt_explain *x, uint32_t device, mt_explain_device **out, mt_error *err) {
    for (size_t i = 0; i < x->devices.count; i++)
        if (x->devices.at[i].device == device) {
            *out = &x->devices.at[i];
            return MT_OK;
        }
    *out = mt_array_push(&x->devices);
    if (*out == NULL)
        return no_memory(err);
    **out = (mt_explain_device){ .device = device, .list = MT_NO_LIST };
    return MT_OK;
}

static int by_number(const void *a, const void *b) {
    const mt_explain_device *x = a, *y = b;
    return (x->device > y->device) - (x->device < y->device);
}

/* What the file states of each segment, added up. */
static mt_status add_segments(mt_explain *x, mt_error *err) {
    mt_explain_device *d = NULL;
    for (size_t i = 0; i < x->snapshot->segments.count; i++) {
        const mt_snapshot_segment *g = &x->snapshot->segments.at[i];
        if (d == NULL || d->device != g->device)
            MT_TRY(device_of(x, g->device, &d, err));
        d->reserved += g->total;
        d->allocated += g->allocated;
        d->active += g->active;
        d->requested += g->requested != MT_SNAPSHOT_NONE ? g->requested : 0;
        d->segments++;
        d->blocks += g->blocks;
    }
    x->host_segments = x->snapshot->host.count;
    for (size_t i = 0; i < x->snapshot->host.count; i++)
        x->host_bytes += x->snapshot->host.at[i].total;
    for (size_t i = 0; i < x->snapshot->lists.count; i++)
        x->host_events += x->snapshot->lists.at[i].host ? x->snapshot->lists.at[i].events : 0;
    return MT_OK;
}

static mt_status find_devices(mt_explain *x, mt_error *err) {
    mt_explain_device *d;
    MT_TRY(add_segments(x, err));
    for (size_t i = 0; i < x->snapshot->lists.count; i++) {
        const mt_snapshot_list *l = &x->snapshot->lists.at[i];
        if (l->device < 0)
            continue;
        MT_TRY(device_of(x, (uint32_t)l->device, &d, err));
        d->list = (uint32_t)i;
        d->timeline = &x->lists.at[i].timeline;
        d->sites = &x->lists.at[i].sites;
    }
    if (x->devices.count > 0)
        qsort(x->devices.at, x->devices.count, sizeof *x->devices.at, by_number);
    return MT_OK;
}

/* Leaves only the device that was asked for. */
static mt_status select_device(mt_explain *x, mt_error *err) {
    if (x->options.device < 0)
        return MT_OK;
    for (size_t i = 0; i < x->devices.count; i++)
        if (x->devices.at[i].device == x->options.device) {
            x->devices.at[0] = x->devices.at[i];
            x->devices.count = 1;
            return MT_OK;
        }
    return mt_fail(err, MT_BAD,
                   "the snapshot has nothing of device %" PRId64 "; it has %zu devices",
                   x->options.device, x->devices.count);
}

/* ---- moments --------------------------------------------------------------------------------- */

static mt_status account(mt_explain *x, mt_state *s, mt_error *err) {
    s->known = true;
    return mt_account_make(&s->account, &s->view, x->rules, err);
}

/* The step that was asked for. */
static mt_status step_of(const mt_explain *x, const mt_explain_device *d, uint64_t *step,
                         mt_error *err) {
    const mt_timeline *t = d->timeline;
    *step = x->options.when;
    if (x->options.at == MT_AT_TIME) {
        if (t->first_us == MT_SNAPSHOT_NONE)
            return mt_fail(err, MT_BAD, "the events of device %u have no times; give a step",
                           d->device);
        *step = t->after_step;
    } else if (*step > t->events) {
        return mt_fail(err, MT_BAD, "device %u has %" PRIu64 " events, expected a step up to that",
                       d->device, t->events);
    }
    return MT_OK;
}

/* A moment that is wanted, and where it goes. */
typedef struct wanted {
    uint64_t step;
    mt_state *state;
} wanted;

static int by_step(const void *a, const void *b) {
    const wanted *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

/* The states at all wanted moments, in one pass over the events. */
static mt_status follow(mt_explain *x, mt_explain_device *d, wanted *w, size_t n, mt_error *err) {
    uint64_t step[3];
    mt_view view[3];
    qsort(w, n, sizeof *w, by_step);
    for (size_t i = 0; i < n; i++)
        step[i] = w[i].step;
    MT_TRY(mt_timeline_at(d->timeline, step, n, view, &d->odd, err));
    for (size_t i = 0; i < n; i++) {
        w[i].state->view = view[i];
        w[i].state->step = w[i].step;
    }
    for (size_t i = 0; i < n; i++)
        MT_TRY(account(x, w[i].state, err));
    return MT_OK;
}

static const mt_segment_event *last_refusal(mt_explain_device *d) {
    const mt_segment_event *last = NULL;
    for (size_t i = 0; i < d->timeline->segments.count; i++)
        if (d->timeline->segments.at[i].action == MT_ACTION_OOM) {
            last = &d->timeline->segments.at[i];
            d->refusals++;
        }
    return last;
}

/* All moments but the end. */
static mt_status find_moments(mt_explain *x, mt_explain_device *d, mt_error *err) {
    wanted w[3];
    size_t n = 0;
    w[n++] = (wanted){ d->timeline->requested.step, &d->peak };
    if (x->options.at >= MT_AT_STEP) {
        MT_TRY(step_of(x, d, &w[n].step, err));
        w[n++].state = &d->at;
    }
    d->refusal.event = last_refusal(d);
    d->refusal.known = d->refusal.event != NULL;
    if (d->refusal.known)
        w[n++] = (wanted){ d->refusal.event->step, &d->refusal.before };
    return follow(x, d, w, n, err);
}

/* ---- a refused request ----------------------------------------------------------------------- */

/* The segment that a request takes when no free block serves it. */
static uint64_t segment_size(uint64_t rounded) {
    if (rounded <= MT_MIB)
        return 2 * MT_MIB;
    return rounded < 10 * MT_MIB ? 20 * MT_MIB : mt_round_up(rounded, 2 * MT_MIB);
}

static void look_for_room(mt_explain_refusal *r) {
    const mt_view *v = &r->before.view;
    bool large = r->event->size > MT_MIB;
    r->segment = segment_size(r->event->size);
    for (size_t i = 0; i < v->segments.count; i++) {
        const mt_snapshot_segment *g = &v->segments.at[i];
        bool serves =
            g->stream == r->event->stream && g->large == large && g->pool == r->event->pool;
        for (uint32_t k = g->first; k < g->first + g->blocks; k++) {
            const mt_snapshot_block *b = &v->blocks[k];
            if (b->state != MT_BLOCK_FREE)
                continue;
            *(serves ? &r->fitting : &r->elsewhere) += b->size;
            if (serves && b->size > r->largest)
                r->largest = b->size;
        }
    }
}

/* ---- concluding ------------------------------------------------------------------------------ */

/* What the segments obtained, by the site of the request that needed them. */
static mt_status count_growth(mt_explain *x, mt_explain_device *d, mt_error *err) {
    for (size_t i = 0; i < d->timeline->segments.count; i++) {
        const mt_segment_event *e = &d->timeline->segments.at[i];
        if (e->action != MT_ACTION_SEGMENT_ALLOC && e->action != MT_ACTION_SEGMENT_MAP)
            continue;
        mt_caller *site = mt_callers_of(d->sites, x->snapshot, e->cause != 0 ? e->cause : e->stack);
        if (site == NULL)
            return no_memory(err);
        site->segments++;
        site->obtained += e->size;
    }
    return MT_OK;
}

static mt_status count_sites(mt_explain *x, mt_explain_device *d, mt_error *err) {
    const mt_state *views[MT_CALLER_VIEWS] = { [MT_CALLER_FOCUS] = d->focus,
                                               [MT_CALLER_PEAK] = &d->peak,
                                               [MT_CALLER_REFUSED] = &d->refusal.before };
    for (int i = 0; i < MT_CALLER_VIEWS; i++)
        if (views[i]->known)
            MT_TRY(mt_callers_view(d->sites, x->snapshot, &views[i]->view, i, err));
    return d->timeline != NULL ? count_growth(x, d, err) : MT_OK;
}

/* The blocks that were live before the events began have their stacks in the final state only. */
static mt_status conclude_device(mt_explain *x, mt_explain_device *d, mt_error *err) {
    MT_TRY(mt_view_of_snapshot(&d->end.view, x->snapshot, d->device, err));
    MT_TRY(account(x, &d->end, err));
    if (d->timeline != NULL) {
        d->end.step = d->timeline->events;
        MT_TRY(mt_timeline_conclude(d->timeline, x->snapshot, x->rules, d->device, err));
        MT_TRY(find_moments(x, d, err));
        if (d->refusal.known)
            look_for_room(&d->refusal);
    } else {
        d->sites = calloc(1, sizeof *d->sites);
        if (d->sites == NULL)
            return no_memory(err);
    }
    if (x->options.at != MT_AT_END && d->timeline == NULL)
        return mt_fail(err, MT_BAD, "device %u has no events, only a state at the end", d->device);
    d->focus = x->options.at == MT_AT_END    ? &d->end
               : x->options.at == MT_AT_PEAK ? &d->peak
                                             : &d->at;
    return count_sites(x, d, err);
}

static mt_status make_room(mt_explain *x, mt_error *err) {
    size_t most = 0;
    for (size_t i = 0; i < x->devices.count; i++)
        if (x->devices.at[i].sites->at.count > most)
            most = x->devices.at[i].sites->at.count;
    x->order = calloc(most + 1, sizeof *x->order);
    x->sum = calloc(most + 1, sizeof *x->sum);
    return x->order != NULL && x->sum != NULL ? MT_OK : no_memory(err);
}

mt_status mt_explain_conclude(mt_explain *x, const mt_snapshot *s, mt_error *err) {
    x->snapshot = s;
    MT_TRY(mt_snapshot_rules(s, &x->source, &x->rules, err));
    MT_TRY(find_devices(x, err));
    MT_TRY(select_device(x, err));
    for (size_t i = 0; i < x->devices.count; i++)
        MT_TRY(conclude_device(x, &x->devices.at[i], err));
    return make_room(x, err);
}
