/* study_print.c - what a study says: the table, the verdicts, the profile.
 *
 * The table is made for gnuplot: blocks parted by two empty lines, each with a line that names its
 * columns. Block 0: latency and work by context. Block 1: where a step's time goes. Block 2: the
 * kernels of the last context against the roofline. */
#include "cli/study.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/columns.h"
#include "traces/chrome.h"

/* A step is called bound by one thing when that takes at least this part of its time. */
#define BOUND 0.6
/* A step that reads this many times faster than the plain read finds its data in a cache. */
#define ABOVE 1.1

static const char *const part_names[STUDY_PARTS] = { "products", "attention", "elementwise",
                                                     "logits",   "cache",     "allocator",
                                                     "tracing",  "gaps" };

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

static double read_ms(uint64_t bytes, double gbs) {
    return over((double)bytes, gbs * 1e6);
}

static double compute_ms(const study *st, uint64_t flops) {
    return over((double)flops, st->gflops * 1e6);
}

/* The larger of reading bytes and computing FLOPs at the measured rates. */
static double bound_ms(const study *st, uint64_t bytes, double gbs, uint64_t flops) {
    double read = read_ms(bytes, gbs), compute = compute_ms(st, flops);
    return read > compute ? read : compute;
}

static double pass_bound(const study *st, const study_pass *p) {
    return bound_ms(st, p->bytes, p->read_gbs, mt_work_flops(&p->work));
}

/* ---- header ---------------------------------------------------------------------------------- */

static void line(void *context, const char *name, const char *value, mt_value_kind kind) {
    if (strcmp(name, "units") != 0)
        cli_comments.line(context, name, value, kind);
}

void study_print_header(const study *st) {
    if (st->csv)
        return;
    cli_say_session((cli_sink){ line, NULL }, &st->s, "study");
    printf("# repeat %u\n", st->repeat);
}

void study_print_peaks(const study *st) {
    if (st->csv)
        return;
    printf("# peak_gflops %.1f\n", st->gflops);
    printf("# start_us %.3f\n", st->start_us);
    printf("# clock %s\n", st->own_clock ? "of the device" : "of this program");
    printf("# flops a multiply-add is two; matrix products and attention only; computed: causal "
           "attention, usual: attention over all pairs of tokens\n");
    printf("# units ms, bytes, FLOPs, GB/s = 10^9 bytes/s, GFLOP/s\n");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static mt_work usual(const study *st, uint32_t T, bool all) {
    return mt_work_of_pass(&st->s.config, st->s.batch, T, 0, all);
}

/* What the first block says of a pass, and of both at a context. */
typedef struct side {
    uint64_t computed, bytes;
    double intensity, gflops, gbs, read_gbs, bound_ms, leftover_ms;
} side;

typedef struct latency {
    study_pass c, u;
    side cached, uncached;
    double time_ratio, ratio_last, ratio_all;
    uint64_t flops, last, all;
} latency;

#define REAL(name, field, decimals)                                                                \
    { name, MT_CELL_REAL, offsetof(latency, field), decimals }
#define COUNT(name, field)                                                                         \
    { name, MT_CELL_U64, offsetof(latency, field), 0 }
#define SIDE(p)                                                                                    \
    COUNT(#p "_computed", p.computed), COUNT(#p "_bytes", p.bytes),                                \
        REAL(#p "_intensity", p.intensity, 3), REAL(#p "_gflops", p.gflops, 2),                    \
        REAL(#p "_gbs", p.gbs, 2), REAL(#p "_read_gbs", p.read_gbs, 2),                            \
        REAL(#p "_bound_ms", p.bound_ms, 3), REAL(#p "_leftover_ms", p.leftover_ms, 3)

static const mt_column latency_columns[] = {
    { "context", MT_CELL_U32, offsetof(latency, c.context), 0 },
    REAL("cached_ms", c.ms, 3),
    REAL("cached_least", c.least, 3),
    REAL("cached_most", c.most, 3),
    REAL("uncached_ms", u.ms, 3),
    REAL("uncached_least", u.least, 3),
    REAL("uncached_most", u.most, 3),
    REAL("time_ratio", time_ratio, 2),
    COUNT("cached_flops", flops),
    COUNT("uncached_flops_last", last),
    COUNT("uncached_flops_all", all),
    REAL("flops_ratio_last", ratio_last, 1),
    REAL("flops_ratio_all", ratio_all, 1),
    SIDE(cached),
    SIDE(uncached),
    { .name = NULL },
};

#define LATENCY_COLUMNS (sizeof latency_columns / sizeof *latency_columns - 1)

static side side_of(const study *st, const study_pass *p) {
    double computed = (double)mt_work_flops(&p->work), bytes = (double)p->bytes;
    return (side){ .computed = mt_work_flops(&p->work),
                   .bytes = p->bytes,
                   .intensity = over(computed, bytes),
                   .gflops = over(computed, p->ms * 1e6),
                   .gbs = over(bytes, p->ms * 1e6),
                   .read_gbs = p->read_gbs,
                   .bound_ms = pass_bound(st, p),
                   .leftover_ms = p->ms - pass_bound(st, p) };
}

static latency latency_at(const study *st, uint32_t i) {
    latency l = { .c = st->cached[i], .u = st->uncached[i] };
    mt_work last = usual(st, l.c.context, false), all = usual(st, l.c.context, true);
    l.cached = side_of(st, &l.c);
    l.uncached = side_of(st, &l.u);
    l.time_ratio = over(l.u.ms, l.c.ms);
    l.flops = mt_work_usual(&l.c.work);
    l.last = mt_work_usual(&last);
    l.all = mt_work_usual(&all);
    l.ratio_last = over((double)l.last, (double)l.flops);
    l.ratio_all = over((double)l.all, (double)l.flops);
    return l;
}

static void latency_rows(const study *st, const mt_column *columns, mt_form form) {
    mt_columns_names(stdout, columns, form);
    for (uint32_t i = 0; i < st->done; i++) {
        const latency l = latency_at(st, i);
        mt_columns_row(stdout, columns, &l, form);
    }
}

/* As CSV the first block goes on with the split of each pass. */
static void csv_rows(const study *st) {
    mt_column columns[LATENCY_COLUMNS + 2 * STUDY_PARTS + 1];
    char name[2 * STUDY_PARTS][32];
    mt_column *next = columns + LATENCY_COLUMNS;
    memcpy(columns, latency_columns, LATENCY_COLUMNS * sizeof *columns);
    for (size_t i = 0; i < 2 * STUDY_PARTS; i++) {
        bool cached = i < STUDY_PARTS;
        size_t part = i % STUDY_PARTS;
        snprintf(name[i], sizeof *name, "%s_%s_ms", cached ? "cached" : "uncached",
                 part_names[part]);
        size_t pass = cached ? offsetof(latency, c.part) : offsetof(latency, u.part);
        *next++ = (mt_column){ name[i], MT_CELL_REAL, pass + part * sizeof(double), 4 };
    }
    *next = (mt_column){ .name = NULL };
    latency_rows(st, columns, MT_CSV);
}

static void split_row(const study_pass *p, const char *pass) {
    printf("%s %u", pass, p->context);
    for (int i = 0; i < STUDY_PARTS; i++)
        printf(" %.4f", p->part[i]);
    printf(" %.4f %u %.3f\n", p->timed_ms, p->kernels, p->call_us);
}

/* Calls of one kind, under the name that people know them by. */
typedef struct kind {
    const char *name;
    uint32_t calls;
    double ms;
    uint64_t flops, bytes;
} kind;

static const char *kind_of(const study *st, const mt_timing *t) {
    const mt_config *c = &st->s.config;
    if (t->kernel != MT_KERNEL_LINEAR)
        return mt_kernel_name(t->kernel);
    if (strcmp(t->range, "head") == 0)
        return "logits";
    if (t->cols == 3 * c->width && t->depth == c->width)
        return "qkv";
    if (t->cols == c->width && t->depth == c->width)
        return "proj";
    return t->cols == c->inner && t->depth == c->width ? "fc" : "fcp";
}

#define KINDS_MOST 16

/* In order of first call. */
static int kinds_of(const study *st, const study_pass *p, kind *k) {
    int n = 0;
    for (uint32_t i = 0; i < p->kernels; i++) {
        const mt_timing *t = &p->call[i];
        const char *name = kind_of(st, t);
        int at = 0;
        while (at < n && strcmp(k[at].name, name) != 0)
            at++;
        if (at == KINDS_MOST)
            continue;
        if (at == n)
            k[n++] = (kind){ .name = name };
        k[at].calls++;
        k[at].ms += t->device_ms;
        k[at].flops += t->flops;
        k[at].bytes += t->bytes;
    }
    return n;
}

static void kernel_rows(const study *st, const study_pass *p, const char *pass) {
    kind k[KINDS_MOST];
    int n = kinds_of(st, p, k);
    for (int i = 0; i < n; i++) {
        double flops = (double)k[i].flops, bytes = (double)k[i].bytes;
        printf("%s %s %u %.4f %" PRIu64 " %" PRIu64 " %.3f %.2f %.2f %.1f\n", pass, k[i].name,
               k[i].calls, k[i].ms, k[i].flops, k[i].bytes, over(flops, bytes),
               over(flops, k[i].ms * 1e6), over(bytes, k[i].ms * 1e6),
               100 * over(bound_ms(st, k[i].bytes, p->read_gbs, k[i].flops), k[i].ms));
    }
}

/* ---- totals ---------------------------------------------------------------------------------- */

/* Times are added up only when the contexts reach this part of the generation. */
#define REACH 0.9

/* A pass's ms at a context between the measured ones, on straight lines through the medians. */
static double at_context(const study_pass *p, uint32_t count, uint32_t context) {
    uint32_t i = 1;
    if (count == 1)
        return p[0].ms;
    while (i + 1 < count && p[i].context < context)
        i++;
    double a = p[i - 1].context, b = p[i].context;
    double ms = p[i - 1].ms + (p[i].ms - p[i - 1].ms) * (context - a) / (b - a);
    bool between = context >= p[0].context && context <= p[count - 1].context;
    return between || ms > p[0].ms ? ms : p[0].ms;
}

typedef struct total {
    double cached_ms, uncached_ms;
    double cached, last, all; /* FLOPs, usual count */
} total;

/* Of a generation from P tokens to ctx: P .. ctx - 1 tokens are fed or in the cache. */
static total totals(const study *st) {
    total t = { 0 };
    uint32_t n = st->done;
    for (uint32_t T = st->s.P; T < st->s.ctx; T++) {
        mt_work last = usual(st, T, false), all = usual(st, T, true);
        mt_work one = mt_work_of_pass(&st->s.config, st->s.batch, 1, T - 1, false);
        bool prefill = T == st->s.P;
        t.last += (double)mt_work_usual(&last);
        t.all += (double)mt_work_usual(&all);
        t.cached += (double)mt_work_usual(prefill ? &last : &one);
        t.uncached_ms += at_context(st->uncached, n, T);
        t.cached_ms += at_context(prefill ? st->uncached : st->cached, n, T);
    }
    return t;
}

static void total_lines(const study *st, void (*say)(const char *text)) {
    total t = totals(st);
    char text[256];
    if (st->s.P >= st->s.ctx)
        return;
    snprintf(text, sizeof text,
             "total %u tokens from %u: cached %.3f TFLOP, uncached %.3f (last logits) or %.3f (all "
             "logits): %.0f or %.0f times",
             st->s.ctx - st->s.P, st->s.P, t.cached / 1e12, t.last / 1e12, t.all / 1e12,
             over(t.last, t.cached), over(t.all, t.cached));
    say(text);
    if (st->done < 2 || st->cached[st->done - 1].context < REACH * st->s.ctx)
        return;
    snprintf(text, sizeof text,
             "total_time interpolated between contexts: cached %.2f s, uncached %.2f s: %.1f times",
             t.cached_ms / 1e3, t.uncached_ms / 1e3, over(t.uncached_ms, t.cached_ms));
    say(text);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* What takes most of the time, with the figures; a name only when it takes BOUND of it. */
static void verdict(const study *st, const study_pass *p, char *text, size_t room) {
    const char *pass = p->cached ? "cached" : "uncached";
    double starts = p->kernels * st->start_us / 1e3;
    double reading = read_ms(p->bytes, p->read_gbs), read = over(reading, p->ms);
    double computing = compute_ms(st, mt_work_flops(&p->work)), compute = over(computing, p->ms);
    double gaps = st->own_clock ? over(p->part[STUDY_GAPS], p->timed_ms) : over(starts, p->ms);
    char figures[300];
    snprintf(figures, sizeof figures,
             "of %.3f ms, reading %.1f MB at %.1f GB/s takes %.3f (%.0f %%), computing %.3f GFLOP "
             "at %.0f GFLOP/s %.3f (%.0f %%), launching %u kernels %.3f (%.0f %%)",
             p->ms, (double)p->bytes / 1e6, p->read_gbs, reading, 100 * read,
             (double)mt_work_flops(&p->work) / 1e9, st->gflops, computing, 100 * compute,
             p->kernels, starts, 100 * over(starts, p->ms));
    const char *name = read > ABOVE                          ? "above DRAM bandwidth, so its data "
                                                               "is in a cache"
                       : read >= BOUND && read >= compute    ? "bandwidth-bound"
                       : compute >= BOUND && compute >= read ? "compute-bound"
                       : gaps >= BOUND                       ? "launch-bound"
                                                             : "no single bottleneck";
    snprintf(text, room, "verdict %s step at %u: %s: %s", pass, p->context, name, figures);
}

static void say_stdout(const char *text) {
    printf("# %s\n", text);
}

static void say_stderr(const char *text) {
    fprintf(stderr, "  %s\n", text);
}

static void closing_lines(const study *st, void (*say)(const char *text)) {
    char text[600];
    uint32_t n = st->done;
    if (n == 0)
        return;
    const study_pass *c = &st->cached[n - 1], *u = &st->uncached[n - 1];
    verdict(st, c, text, sizeof text);
    say(text);
    verdict(st, u, text, sizeof text);
    say(text);
    mt_work last = usual(st, c->context, false), all = usual(st, c->context, true);
    double one = (double)mt_work_usual(&c->work);
    snprintf(text, sizeof text,
             "ratio at %u: uncached over cached: %.0f times the FLOPs (%.0f with all logits), %.1f "
             "times the latency",
             c->context, over((double)mt_work_usual(&last), one),
             over((double)mt_work_usual(&all), one), over(u->ms, c->ms));
    say(text);
    if (st->graph.samples > 0) {
        snprintf(text, sizeof text,
                 "graph step at %u: %.3f ms, %.3f without a CUDA graph: %.2f times",
                 st->graph.context, st->graph.ms, c->ms, over(c->ms, st->graph.ms));
        say(text);
    }
    double tracing = c->part[STUDY_TRACING], allocator = c->part[STUDY_ALLOCATOR];
    snprintf(
        text, sizeof text,
        "tracing cached step at %u: %.4f of %.2f ms (%.3f %%); allocator and ledger %.4f (%.3f %%)",
        c->context, tracing, c->timed_ms, 100 * over(tracing, c->timed_ms), allocator,
        100 * over(allocator, c->timed_ms));
    say(text);
    total_lines(st, say);
}

void study_print_tables(const study *st) {
    uint32_t n = st->done;
    if (st->csv) {
        csv_rows(st);
        return;
    }
    latency_rows(st, latency_columns, MT_DAT);
    printf("\n\n# pass context");
    for (int i = 0; i < STUDY_PARTS; i++)
        printf(" %s", part_names[i]);
    printf(" total calls call_us\n");
    for (uint32_t i = 0; i < n; i++)
        split_row(&st->cached[i], "cached");
    for (uint32_t i = 0; i < n; i++)
        split_row(&st->uncached[i], "uncached");
    printf("\n\n# pass kernel calls ms flops bytes intensity gflops gbs percent_of_roof\n");
    if (n > 0) {
        kernel_rows(st, &st->cached[n - 1], "cached");
        kernel_rows(st, &st->uncached[n - 1], "uncached");
    }
    printf("\n\n");
    closing_lines(st, say_stdout);
}

void study_print_end(const study *st, const char *how) {
    if (how != NULL && !st->csv)
        printf("# %s\n", how);
}

void study_print_summary(const study *st) {
    fprintf(stderr, "  %8s %12s %12s %10s %14s\n", "context", "cached ms", "uncached ms",
            "latency x", "FLOPs x");
    for (uint32_t i = 0; i < st->done; i++) {
        const study_pass *c = &st->cached[i], *u = &st->uncached[i];
        mt_work last = usual(st, c->context, false);
        fprintf(stderr, "  %8u %12.2f %12.2f %10.1f %14.0f\n", c->context, c->ms, u->ms,
                over(u->ms, c->ms),
                over((double)mt_work_usual(&last), (double)mt_work_usual(&c->work)));
    }
    closing_lines(st, say_stderr);
}

/* ---- the profile ----------------------------------------------------------------------------- */

enum { TRACK_STEP = 1, TRACK_KERNELS, TRACK_CALLS };

static double since(const study_pass *p, uint64_t ns) {
    return ns > p->begin_ns ? (double)(ns - p->begin_ns) / 1e3 : 0;
}

/* The stretch of calls that share a range becomes one span above them. */
static void range_spans(mt_chrome *c, const study_pass *p, double zero) {
    for (uint32_t i = 0, j; i < p->kernels; i = j) {
        for (j = i; j < p->kernels && strcmp(p->call[j].range, p->call[i].range) == 0; j++)
            ;
        const mt_timing *a = &p->call[i], *b = &p->call[j - 1];
        double begin = zero + a->device_at * 1e3;
        if (a->range[0] != '\0')
            mt_chrome_span(c, TRACK_STEP, a->range, "range", begin,
                           (b->device_at + b->device_ms - a->device_at) * 1e3, NULL, 0);
    }
}

static void write_profile(mt_chrome *c, const study *st, const study_pass *p) {
    double zero = p->kernels > 0 ? since(p, p->call[0].begin_ns) : 0;
    mt_chrome_arg step[] = { { "context", p->context } };
    mt_chrome_track(c, TRACK_STEP, "step");
    mt_chrome_track(c, TRACK_KERNELS, st->own_clock ? "device" : "kernels");
    mt_chrome_span(c, TRACK_STEP, "decode step", "step", 0, p->timed_ms * 1e3, step, 1);
    range_spans(c, p, zero);
    if (st->own_clock)
        mt_chrome_track(c, TRACK_CALLS, "calls");
    for (uint32_t i = 0; i < p->kernels; i++) {
        const mt_timing *t = &p->call[i];
        mt_chrome_arg args[] = { { "flops", t->flops },
                                 { "bytes", t->bytes },
                                 { "rows", t->rows },
                                 { "cols", t->cols },
                                 { "depth", t->depth } };
        const char *name = kind_of(st, t);
        mt_chrome_span(c, TRACK_KERNELS, name, t->range, zero + t->device_at * 1e3,
                       t->device_ms * 1e3, args, 5);
        if (st->own_clock)
            mt_chrome_span(c, TRACK_CALLS, name, t->range, since(p, t->begin_ns),
                           (double)(t->end_ns - t->begin_ns) / 1e3, NULL, 0);
    }
    for (uint32_t i = 0; i < p->memories; i++) {
        const study_memory *m = &p->memory[i];
        mt_chrome_arg args[] = { { "requested", m->requested },
                                 { "reserved over requested", m->reserved - m->requested } };
        mt_chrome_counter(c, "memory", since(p, m->time_ns), args, 2);
    }
}

void study_profile(const study *st, mt_chrome *c) {
    if (st->done > 0)
        write_profile(c, st, &st->cached[st->done - 1]);
}
