/* explain_text.c - see explain.h: the report for people. */
#include "reports/explain.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

#define LABEL 220 /* characters of a call site */

/* What the parts of the report share. */
typedef struct page {
    const mt_explain *x;
    const mt_explain_device *d;
    FILE *out;
} page;

/* ---- pieces ---------------------------------------------------------------------------------- */

static const char *human(uint64_t bytes, char text[static 32]) {
    return mt_format_size(bytes, text, 32);
}

/* "  1 234  what" with its size for people, and a remark. */
static void line(const page *p, const char *sign, uint64_t bytes, const char *what,
                 const char *remark) {
    char size[32];
    fprintf(p->out, "  %1s %16" PRIu64 "  %11s  %s%s%s\n", sign, bytes, human(bytes, size), what,
            *remark != '\0' ? ": " : "", remark);
}

/* A stack's site, + 1; 0: it has none. */
static uint32_t site_number(const page *p, uint32_t stack) {
    return stack < p->d->sites->of_stack.count ? p->d->sites->of_stack.at[stack] : 0;
}

static const char *site_of_stack(const page *p, uint32_t stack, char text[static LABEL]) {
    uint32_t site = site_number(p, stack);
    uint32_t frame = site != 0 ? p->d->sites->at.at[site - 1].frame : MT_CALLER_UNKNOWN;
    return mt_caller_label(text, LABEL, p->x->snapshot, frame, p->x->options.strip);
}

static void moment(const page *p, uint64_t step) {
    const mt_timeline *t = p->d->timeline;
    if (t != NULL)
        fprintf(p->out, " (step %" PRIu64 " of %" PRIu64 ")", step, t->events);
}

static const char *focus_words(const page *p) {
    return p->x->options.at == MT_AT_END    ? "at the end"
           : p->x->options.at == MT_AT_PEAK ? "at the peak"
                                            : "then";
}

/* ---- the identity ---------------------------------------------------------------------------- */

static void identity(const page *p, const mt_state *s, const char *when) {
    const mt_share *t = &s->account.total;
    fprintf(p->out, "\ndevice %u %s", p->d->device, when);
    moment(p, s->step);
    fprintf(p->out, ": %" PRIu64 " segments, %" PRIu64 " blocks, %" PRIu64 " of them live\n",
            t->segments, t->blocks, t->live);
    line(p, "", t->reserved, "reserved", "");
    if (s->account.requests_told) {
        line(p, "=", t->requested, "requested", "");
        line(p, "+", t->rounding, "rounding", "");
    } else {
        line(p, "=", t->requested, "allocated", "the file does not tell what was requested");
    }
    line(p, "+", t->split, "split", "free, in segments that also hold a live block");
    line(p, "+", t->cached, "cached", "wholly free segments");
}

/* ---- the gap --------------------------------------------------------------------------------- */

static void cause(const page *p, uint64_t bytes, const char *what, const char *remedy) {
    if (bytes > 0)
        line(p, "", bytes, what, remedy);
}

static uint64_t free_in_private(const mt_account *a) {
    uint64_t n = 0;
    for (size_t i = 0; i < a->rows.count; i++)
        if (a->rows.at[i].pool != 0)
            n += a->rows.at[i].share.split + a->rows.at[i].share.cached;
    return n;
}

static void gap(const page *p) {
    const mt_account *a = &p->d->focus->account;
    const mt_share *t = &a->total;
    fprintf(p->out, "\nwhy reserved is %" PRIu64 " bytes more than requested %s\n",
            t->reserved - t->requested, focus_words(p));
    cause(p, a->by_rule, "rounding of requests to the allocator's sizes", "");
    cause(p, a->unsplit, "rests of large blocks, too small to be split off", "");
    cause(p, t->split - a->unmappable, "free between live blocks",
          "expandable_segments:True, or free what holds these segments (below)");
    cause(p, a->unmappable, "free pages of expandable segments",
          "torch.cuda.empty_cache() gives them back");
    cause(p, t->cached, "wholly free segments", "torch.cuda.empty_cache() gives them back");
    if (t->pending > 0)
        fprintf(p->out,
                "  and %" PRIu64 " bytes of live blocks are freed but wait for another "
                "stream (record_stream)\n",
                t->pending);
    if (free_in_private(a) > 0)
        fprintf(p->out,
                "  %" PRIu64 " of the free bytes lie in private pools (CUDA graphs, MemPool): no "
                "one else can use them\n",
                free_in_private(a));
}

static void figures(const page *p) {
    const mt_account *a = &p->d->focus->account;
    mt_figures f = mt_account_figures(a);
    fprintf(p->out, "\nfragmentation %s, by each of the three formulas in use\n", focus_words(p));
    fprintf(p->out, "  %6.2f %%  1 - active / reserved: held, but holding nothing\n", 100 * f.idle);
    fprintf(p->out,
            "  %6.2f %%  split / reserved: cannot be given back, live blocks are beside it\n",
            100 * f.captive);
    fprintf(p->out, "  %6.2f %%  1 - largest free block / free bytes: in how many pieces it is\n",
            100 * f.scattered);
    if (a->dormant != a->total.split)
        fprintf(p->out,
                "  (PyTorch's inactive_split_bytes leaves expandable segments out: it is %" PRIu64
                " here, not %" PRIu64 ")\n",
                a->dormant, a->total.split);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static size_t shown(const page *p, size_t n) {
    return n < p->x->options.rows ? n : p->x->options.rows;
}

static void more(const page *p, size_t n) {
    if (n > shown(p, n))
        fprintf(p->out, "  ... and %zu more\n", n - shown(p, n));
}

static const uint64_t *pool_id(const page *p, uint32_t pool) {
    const mt_snapshot_pool *id = mt_intern_get(&p->x->snapshot->pools, pool, NULL);
    return id->id;
}

static void pools(const page *p) {
    const mt_account *a = &p->d->focus->account;
    if (a->rows.count < 2)
        return;
    fprintf(p->out,
            "\nby pool and stream %s: a free block serves its own row only\n"
            "  %14s %14s %14s %14s %14s  pool\n",
            focus_words(p), "reserved", "requested", "rounding", "split", "cached");
    for (size_t i = 0; i < shown(p, a->rows.count); i++) {
        const mt_account_row *r = &a->rows.at[i];
        const mt_share *s = &r->share;
        fprintf(p->out,
                "  %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64
                "  %s, stream %" PRIu64,
                s->reserved, s->requested, s->rounding, s->split, s->cached,
                r->large ? "large" : "small", r->stream);
        if (r->pool != 0)
            fprintf(p->out, ", private pool (%" PRIu64 ", %" PRIu64 ")", pool_id(p, r->pool)[0],
                    pool_id(p, r->pool)[1]);
        fputc('\n', p->out);
    }
    more(p, a->rows.count);
}

static void pinned(const page *p) {
    const mt_account *a = &p->d->focus->account;
    const mt_view *v = &p->d->focus->view;
    char text[LABEL];
    if (a->pinned.count == 0)
        return;
    fprintf(p->out,
            "\nsegments that live blocks keep %s, by what is free in them\n"
            "  %14s %14s %6s %18s  the largest live block was requested at\n",
            focus_words(p), "free", "live", "blocks", "segment");
    for (size_t i = 0; i < shown(p, a->pinned.count); i++) {
        const mt_pinned *q = &a->pinned.at[i];
        fprintf(p->out, "  %14" PRIu64 " %14" PRIu64 " %6u %#18" PRIx64 "  %s\n", q->free, q->held,
                q->live, v->segments.at[q->segment].address,
                site_of_stack(p, v->blocks[q->holder].stack, text));
    }
    more(p, a->pinned.count);
}

/* ---- call sites ------------------------------------------------------------------------------ */

/* Sites in an order, for one table. */
typedef uint64_t site_value(const mt_caller *s);

static uint64_t live_now(const mt_caller *s) {
    return s->live[MT_CALLER_FOCUS];
}

static uint64_t live_peak(const mt_caller *s) {
    return s->live[MT_CALLER_PEAK];
}

static uint64_t live_refused(const mt_caller *s) {
    return s->live[MT_CALLER_REFUSED];
}

static uint64_t waste(const mt_caller *s) {
    return s->held_back + s->rounding;
}

static uint64_t obtained(const mt_caller *s) {
    return s->obtained;
}

static uint64_t new_sizes(const mt_caller *s) {
    return mt_caller_always_new(s) ? s->bytes : 0;
}

/* Which sites have the highest values, at most rows of them; how many have one at all. */
static size_t highest(const page *p, site_value *value, size_t *all) {
    const mt_caller **top = p->x->order;
    size_t n = 0;
    *all = 0;
    for (size_t i = 0; i < p->d->sites->at.count; i++) {
        const mt_caller *s = &p->d->sites->at.at[i];
        if (value(s) == 0)
            continue;
        ++*all;
        size_t k = n < p->x->options.rows ? n++ : n;
        if (k == n && (n == 0 || value(s) <= value(top[n - 1])))
            continue;
        for (k = k < n ? k : n - 1; k > 0 && value(s) > value(top[k - 1]); k--)
            top[k] = top[k - 1];
        top[k] = s;
    }
    return n;
}

static void site_row(const page *p, const mt_caller *s, uint64_t a, uint64_t b, uint64_t c) {
    char text[LABEL];
    fprintf(p->out, "  %14" PRIu64 " %14" PRIu64 " %10" PRIu64 "  %s\n", a, b, c,
            mt_caller_label(text, sizeof text, p->x->snapshot, s->frame, p->x->options.strip));
}

/* A table: its title, its three columns, and what they hold. */
typedef struct site_table {
    const char *title, *columns[3];
    site_value *order, *value[3];
} site_table;

static uint64_t requests(const mt_caller *s) {
    return s->requests;
}

static uint64_t rounding(const mt_caller *s) {
    return s->rounding;
}

static uint64_t held_back(const mt_caller *s) {
    return s->held_back;
}

static uint64_t pins(const mt_caller *s) {
    return s->pins;
}

static uint64_t segments(const mt_caller *s) {
    return s->segments;
}

static uint64_t largest(const mt_caller *s) {
    return s->largest;
}

static const site_table TABLES[] = {
    { "call sites by the bytes of their live blocks",
      { "now", "at the peak", "requests" },
      live_now,
      { live_now, live_peak, requests } },
    { "call sites by their bytes at the peak",
      { "at the peak", "now", "requests" },
      live_peak,
      { live_peak, live_now, requests } },
    { "call sites by what they cost beyond their requests: free bytes of segments that only their "
      "blocks keep, and rounding",
      { "held back", "rounding", "segments" },
      waste,
      { held_back, rounding, pins } },
    { "call sites by the memory that was obtained from the device for them",
      { "obtained", "largest", "segments" },
      obtained,
      { obtained, largest, segments } },
    { "call sites whose request has a new size nearly every time: freed blocks do not fit again, "
      "the cache grows",
      { "bytes", "sizes at least", "requests" },
      new_sizes,
      { new_sizes, mt_caller_sizes, requests } },
    { "call sites by the bytes of their live blocks when the request was refused",
      { "then", "at the peak", "requests" },
      live_refused,
      { live_refused, live_peak, requests } },
};

static void sites(const page *p) {
    const mt_caller **top = p->x->order;
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++) {
        const site_table *t = &TABLES[i];
        size_t all, n = highest(p, t->order, &all);
        if (n == 0)
            continue;
        fprintf(p->out, "\n%s\n  %14s %14s %10s  call site\n", t->title, t->columns[0],
                t->columns[1], t->columns[2]);
        for (size_t k = 0; k < n; k++)
            site_row(p, top[k], t->value[0](top[k]), t->value[1](top[k]), t->value[2](top[k]));
        more(p, all);
    }
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* What happened to reserved between two steps. */
typedef struct slice {
    uint64_t obtained, given, most; /* most: of obtained, by one site */
    uint32_t stack;                 /* of that site */
} slice;

static bool gets(const mt_segment_event *e) {
    return e->action == MT_ACTION_SEGMENT_ALLOC || e->action == MT_ACTION_SEGMENT_MAP;
}

static uint32_t cause_of(const mt_segment_event *e) {
    return e->cause != 0 ? e->cause : e->stack;
}

/* Adds up the events before a step, from *next on. */
static slice cut_slice(const page *p, size_t *next, uint64_t step) {
    uint64_t *by_site = p->x->sum;
    const mt_timeline *t = p->d->timeline;
    slice s = { 0 };
    size_t first = *next;
    for (; *next < t->segments.count && t->segments.at[*next].step < step; ++*next) {
        const mt_segment_event *e = &t->segments.at[*next];
        *(gets(e) ? &s.obtained : &s.given) += e->action == MT_ACTION_OOM ? 0 : e->size;
        uint64_t *site = &by_site[site_number(p, cause_of(e))];
        *site += gets(e) ? e->size : 0;
        if (gets(e) && *site > s.most) {
            s.most = *site;
            s.stack = cause_of(e);
        }
    }
    for (size_t i = first; i < *next; i++)
        by_site[site_number(p, cause_of(&t->segments.at[i]))] = 0;
    return s;
}

/* Reserved over the events, in slices of equal length; those without a change are left out. */
static void growth(const page *p) {
    const mt_timeline *t = p->d->timeline;
    uint64_t rows = p->x->options.rows, reserved = (uint64_t)t->reserved.now;
    char text[LABEL];
    for (size_t i = t->segments.count; i > 0; i--)
        if (t->segments.at[i - 1].action != MT_ACTION_OOM)
            reserved += gets(&t->segments.at[i - 1]) ? -t->segments.at[i - 1].size
                                                     : t->segments.at[i - 1].size;
    if (rows > 0 && t->segments.count > 0)
        fprintf(p->out, "\nhow reserved grew\n  %14s %14s %14s %10s  most of it obtained for\n",
                "reserved", "obtained", "given back", "up to step");
    for (uint64_t i = 1, next = 0; i <= rows; i++) {
        uint64_t step = i == rows ? t->events : t->events / rows * i;
        slice s = cut_slice(p, &next, step);
        reserved += s.obtained - s.given;
        if (s.obtained + s.given > 0)
            fprintf(p->out, "  %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %10" PRIu64 "  %s\n",
                    reserved, s.obtained, s.given, step,
                    s.obtained > 0 ? site_of_stack(p, s.stack, text) : "-");
    }
}

/* ---- a refusal ------------------------------------------------------------------------------- */

static void remedy(const page *p, const mt_explain_refusal *r) {
    uint64_t left = r->event->address != MT_SNAPSHOT_NONE ? r->event->address : 0;
    uint64_t inside = r->fitting, size = r->event->size;
    char text[32];
    if (inside + left >= size && p->x->snapshot->settings.expandable)
        fprintf(p->out,
                "  %" PRIu64 " bytes lie free where it looked, in pieces between live blocks: "
                "free or move what is between them\n",
                inside);
    else if (inside + left >= size)
        fprintf(p->out,
                "  would fit with expandable_segments:True: %" PRIu64 " bytes lie free in "
                "pieces where it looked, and the device has the rest\n",
                inside);
    else if (inside + r->elsewhere + left >= size)
        fprintf(p->out,
                "  %" PRIu64 " bytes lie free in other pools and streams, which may not "
                "serve it: requests of one kind on one stream would\n",
                r->elsewhere);
    else
        fprintf(p->out, "  %s more would have been needed: all that is free is too little\n",
                human(size - inside - r->elsewhere - left, text));
}

static void refusal(const page *p) {
    const mt_explain_refusal *r = &p->d->refusal;
    char text[LABEL], size[32];
    if (!r->known)
        return;
    fprintf(p->out, "\nout of memory %" PRIu64 " times; the last one:", p->d->refusals);
    moment(p, r->event->step);
    fprintf(p->out,
            "\n  a request rounded to %" PRIu64 " bytes (%s), stream %" PRIu64
            ", which takes a segment of %" PRIu64 ", at %s\n",
            r->event->size, human(r->event->size, size), r->event->stream, r->segment,
            site_of_stack(p, r->event->stack, text));
    if (r->event->address != MT_SNAPSHOT_NONE)
        line(p, "", r->event->address, "the device had left", "");
    line(p, "", r->largest, "largest free block where it looked", "");
    line(p, "", r->fitting, "free there in all", "");
    line(p, "", r->elsewhere, "free in other pools and streams", "");
    remedy(p, r);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void notes(const page *p) {
    const mt_timeline *t = p->d->timeline;
    uint64_t odd = p->d->odd + (t != NULL ? t->odd : 0);
    if (t == NULL) {
        fprintf(p->out, "\nnote: no events of this device were recorded, only its final state\n");
        return;
    }
    if (t->start.own.count > 0 || t->start.segments.count > 0)
        fprintf(p->out,
                "\nnote: %zu blocks in %zu segments were there when the recording began; %" PRIu64
                " of them were freed since, and where they were requested is not recorded\n",
                t->start.own.count, t->start.segments.count, t->early);
    if (odd > 0)
        fprintf(p->out,
                "\nnote: %" PRIu64 " events contradict others (some are missing): figures between "
                "the beginning and the end are approximate\n",
                odd);
}

static void device(const page *p) {
    const mt_explain_device *d = p->d;
    identity(p, &d->end, "at the end");
    if (d->peak.known && d->peak.step != d->end.step)
        identity(p, &d->peak, "at the peak of requested");
    if (d->at.known)
        identity(p, &d->at, "then");
    if (d->timeline != NULL)
        fprintf(p->out, "  reserved was at most %" PRId64 " bytes (step %" PRIu64 ")\n",
                d->timeline->reserved.peak, d->timeline->reserved.step);
    gap(p);
    figures(p);
    pools(p);
    pinned(p);
    if (d->timeline != NULL)
        growth(p);
    refusal(p);
    sites(p);
    if (d->end.account.untiled > 0)
        fprintf(p->out, "\nnote: the blocks of %" PRIu64 " segments do not add up to them\n",
                d->end.account.untiled);
    notes(p);
}

static void settings(const mt_explain *x, FILE *out) {
    char shown[400];
    uint32_t n;
    if (x->snapshot->settings.text == 0)
        return;
    const char *text = mt_snapshot_text(x->snapshot, x->snapshot->settings.text - 1, &n);
    if (n > 0)
        fprintf(out, "allocator settings: %s\n", mt_printable(shown, sizeof shown, text, n));
}

void mt_explain_print(const mt_explain *x, const char *file, FILE *out) {
    uint64_t events = 0;
    for (size_t i = 0; i < x->devices.count; i++)
        events += x->devices.at[i].timeline != NULL ? x->devices.at[i].timeline->events : 0;
    fprintf(out, "%s: a memory snapshot of PyTorch, %zu device%s, %" PRIu64 " events\n", file,
            x->devices.count, x->devices.count == 1 ? "" : "s", events);
    settings(x, out);
    for (size_t i = 0; i < x->devices.count; i++)
        device(&(page){ x, &x->devices.at[i], out });
    if (x->host_segments > 0 || x->host_events > 0)
        fprintf(out,
                "\npinned host memory, of no device: %" PRIu64 " bytes in %" PRIu64
                " segments, %" PRIu64 " events\n",
                x->host_bytes, x->host_segments, x->host_events);
}
