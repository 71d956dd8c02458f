/* study_measure.c - takes the times of a study.
 *
 * A pass is timed in two ways, alternating: plainly, for its latency, and with every kernel timed,
 * for its split. A cached step is done again and again at the same place; where the cache does not
 * allow that (concat), the last steps of a generation that ends at the context count, and a
 * generation too short for them is run again. Each uncached step is a whole pass of its own. */
#include "cli/study.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/size.h"

#define WARM       2 /* steps before the first that counts */
#define READS      5 /* of the memory, before each pass */
#define PRODUCTS   7
#define STARTS     400
#define LEAST_ROOM (64 * MT_MIB)
#define MOST_ROOM  (1 * MT_GIB)

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts x. */
static double median(double *x, uint32_t n) {
    qsort(x, n, sizeof *x, by_size);
    return n == 0 ? 0 : n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- peaks ----------------------------------------------------------------------------------- */

/* Memory for the peaks: as much as the device and the host spare, written once so that it is
 * there. */
static mt_status take_room(study *st, mt_error *err) {
    mt_status status = MT_NO_MEMORY;
    mt_live_info info;
    for (uint64_t bytes = MOST_ROOM; status != MT_OK && bytes >= LEAST_ROOM; bytes /= 2) {
        mt_request r = { .bytes = bytes, .tag = MT_OTHER, .layer = -1 };
        status = mt_alloc_get(st->s.alloc, &r, &st->room, err);
        st->room_bytes = bytes;
    }
    if (status == MT_NO_MEMORY)
        return mt_fail(err, MT_BAD,
                       "study measures DRAM bandwidth in at least %" PRIu64
                       " MiB of device memory beside the model, more than is free",
                       LEAST_ROOM / MT_MIB);
    MT_TRY(status);
    MT_TRY(mt_alloc_info(st->s.alloc, st->room, &info, err));
    st->room_rounded = info.rounded;
    st->inner->zero(st->inner, st->room.ptr, st->room_bytes);
    return st->inner->sync(st->inner, err);
}

/* Between two measurements of the machine. */
static mt_status go_on(mt_error *err) {
    return mt_interrupted() ? mt_fail(err, MT_INTERRUPTED, "interrupted") : MT_OK;
}

static mt_status read_speed(study *st, double *gbs, mt_error *err) {
    double ms[READS];
    for (int i = -1; i < READS; i++) { /* the first one warms up */
        MT_TRY(go_on(err));
        uint64_t begin = mt_now_ns();
        st->inner->read(st->inner, st->room.ptr, st->room_bytes / sizeof(float));
        MT_TRY(st->inner->sync(st->inner, err));
        if (i >= 0)
            ms[i] = (double)(mt_now_ns() - begin) / 1e6;
    }
    *gbs = (double)st->room_bytes / (median(ms, READS) * 1e6);
    return MT_OK;
}

/* The fastest of some matrix products of 1024 rows, as square as the room allows up to 4096. */
static mt_status product_speed(study *st, double *gflops, mt_error *err) {
    uint32_t R = 1024, n = 4096;
    while (((uint64_t)n * n + 2 * (uint64_t)R * n) * sizeof(float) > st->room_bytes)
        n /= 2;
    float *x = st->room.ptr, *out = x + (size_t)R * n, *W = out + (size_t)R * n;
    double best = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        MT_TRY(go_on(err));
        uint64_t begin = mt_now_ns();
        st->inner->linear(st->inner, out, x, W, NULL, R, n, n, MT_STORE);
        MT_TRY(st->inner->sync(st->inner, err));
        double ms = (double)(mt_now_ns() - begin) / 1e6;
        best = i == 0 || ms < best ? ms : best;
    }
    *gflops = best > 0 ? 2.0 * R * n * n / (best * 1e6) : 0;
    return MT_OK;
}

static mt_status start_cost(study *st, double *us, mt_error *err) {
    double some[5];
    for (int i = 0; i < 5; i++) {
        uint64_t begin = mt_now_ns();
        for (int j = 0; j < STARTS; j++)
            st->inner->nothing(st->inner);
        MT_TRY(st->inner->sync(st->inner, err));
        some[i] = (double)(mt_now_ns() - begin) / 1e3 / STARTS;
    }
    *us = median(some, 5);
    return MT_OK;
}

mt_status study_peaks(study *st, mt_error *err) {
    uint64_t begin = mt_now_ns(), last = begin;
    for (int i = 0; i < 1000; i++)
        last = mt_now_ns();
    st->clock_ns = (double)(last - begin) / 1000;
    MT_TRY(take_room(st, err));
    MT_TRY(product_speed(st, &st->gflops, err));
    return start_cost(st, &st->start_us, err);
}

void study_note_memory(study *st) {
    const mt_ledger *l = mt_alloc_ledger(st->s.alloc);
    if (!st->sampling)
        return;
    study_memory *m = mt_array_push(&st->memory);
    st->memory_lost |= m == NULL;
    if (m != NULL)
        *m = (study_memory){ mt_now_ns(), l->requested.current - st->room_bytes,
                             l->reserved.current - st->room_rounded };
}

/* ---- one step -------------------------------------------------------------------------------- */

/* What a pass gathers. */
typedef struct gathering {
    study *st;
    study_pass *p;
    uint32_t plain, timed, seen; /* samples so far; usable steps so far */
    uint32_t want_plain, want_timed;
    double *ms;        /* [want_plain] */
    study_pass *split; /* [want_timed] */
} gathering;

/* The part of a call, or STUDY_PARTS for copies to and from this program: those are gaps. */
static study_part part_of(const mt_timing *t) {
    switch (t->kernel) {
    case MT_KERNEL_LINEAR:
        return strcmp(t->range, "head") == 0 ? STUDY_LOGITS : STUDY_PRODUCTS;
    case MT_KERNEL_ATTENTION:
        return STUDY_ATTENTION;
    case MT_KERNEL_EMBED:
    case MT_KERNEL_LAYERNORM:
        return STUDY_ELEMENTWISE;
    case MT_KERNEL_ARGMAX:
        return STUDY_LOGITS;
    case MT_KERNEL_KV_WRITE:
    case MT_KERNEL_COPY:
    case MT_KERNEL_ZERO:
        return STUDY_CACHE;
    default:
        return STUDY_PARTS;
    }
}

/* What looking at the clock added is taken off again. */
static double without_clock(const study *st, uint64_t ns, uint64_t looks) {
    double ms = ((double)ns - st->clock_ns * (double)looks) / 1e6;
    return ms > 0 ? ms : 0;
}

/* Keeps the calls of a timed step, and the memory at its events. */
static mt_status keep_notes(const study *st, study_pass *p, mt_error *err) {
    const mt_timing *call = mt_timed_calls(st->timed, &p->kernels);
    p->call = malloc((p->kernels + 1) * sizeof *p->call);
    p->memories = st->memory.count;
    p->memory = malloc((p->memories + 1) * sizeof *p->memory);
    if (p->call == NULL || p->memory == NULL || st->memory_lost)
        return mt_no_memory(err, "the times of a step");
    if (p->kernels > 0)
        memcpy(p->call, call, p->kernels * sizeof *call);
    if (p->memories > 0)
        memcpy(p->memory, st->memory.at, p->memories * sizeof *p->memory);
    return MT_OK;
}

/* Splits a step of so many ms by its calls; the counted FLOPs must be the formula's. */
static mt_status split(const study *st, study_pass *p, double ms, mt_error *err) {
    uint64_t flops = 0, work = mt_work_flops(&p->work);
    double sum = 0, calls = 0;
    MT_TRY(keep_notes(st, p, err));
    for (uint32_t i = 0; i < p->kernels; i++) {
        const mt_timing *call = &p->call[i];
        study_part part = part_of(call);
        flops += call->flops;
        p->bytes += call->bytes;
        calls += (double)(call->end_ns - call->begin_ns) / 1e3;
        if (part == STUDY_PARTS)
            continue;
        p->part[part] += call->device_ms;
        sum += call->device_ms;
    }
    p->part[STUDY_ALLOCATOR] = without_clock(st, st->times.alloc_ns, st->times.calls);
    p->part[STUDY_TRACING] = without_clock(st, st->times.listen_ns, st->times.events);
    if (!st->own_clock)
        sum += p->part[STUDY_ALLOCATOR] + p->part[STUDY_TRACING];
    p->part[STUDY_GAPS] = ms > sum ? ms - sum : 0;
    p->timed_ms = ms;
    p->call_us = p->kernels > 0 ? calls / p->kernels : 0;
    bool replayed = p->kernels > 0 && flops == 0;
    if (st->inner->computes && !replayed && flops != work)
        return mt_fail(err, MT_CHECK,
                       "a %s step at context %u: its calls make %" PRIu64
                       " FLOPs, the formula %" PRIu64,
                       p->cached ? "cached" : "uncached", p->context, flops, work);
    return MT_OK;
}

/* One step, timed in the way that is due; warm-up steps are not kept. */
static mt_status step(gathering *g, mt_engine *e, const int32_t *ids, uint32_t T, int32_t *next,
                      bool counts, mt_error *err) {
    study *st = g->st;
    bool keep = counts && g->seen >= WARM;
    bool timed =
        keep && g->timed < g->want_timed && (g->plain >= g->want_plain || g->timed < g->plain);
    st->times = (mt_alloc_times){ 0 };
    mt_alloc_time(st->s.alloc, timed ? &st->times : NULL);
    st->sampling = timed && st->profiling;
    st->memory.count = 0;
    if (timed)
        mt_timed_start(st->timed);
    study_note_memory(st);
    uint64_t begin = mt_now_ns();
    mt_status status = mt_engine_step(e, ids, T, next, err);
    if (status == MT_OK)
        mt_alloc_mark(e->alloc, e->tokens, mt_engine_kv_ideal(e, e->tokens), 0);
    double ms = (double)(mt_now_ns() - begin) / 1e6;
    mt_alloc_time(st->s.alloc, NULL);
    st->sampling = false;
    mt_error late;
    if (timed && mt_timed_stop(st->timed, &late) != MT_OK && status == MT_OK)
        status = mt_fail(err, late.status, "%s", late.text);
    g->seen += counts;
    cli_progress_show(&st->progress, ++st->steps);
    if (status != MT_OK || !keep)
        return status;
    if (!timed) {
        if (g->plain < g->want_plain)
            g->ms[g->plain++] = ms;
        return MT_OK;
    }
    study_pass *p = &g->split[g->timed++];
    *p = *g->p;
    p->begin_ns = begin;
    if (p->cached) /* of a generation: maybe some tokens before the context */
        p->work = mt_work_of_pass(&st->s.config, e->options.batch, 1, e->tokens - 1, false);
    return split(st, p, ms, err);
}

static bool enough(const gathering *g) {
    return g->plain >= g->want_plain && g->timed >= g->want_timed;
}

void study_drop(study_pass *p) {
    free(p->call);
    free(p->memory);
    p->call = NULL;
    p->memory = NULL;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* A generation that ends at the context: its last steps count. */
static mt_status generation(gathering *g, const mt_engine_options *o, mt_error *err) {
    const cli_session *s = &g->st->s;
    uint32_t B = o->batch, P = o->prompt, context = o->ctx;
    mt_engine *e = NULL;
    int32_t *ids = malloc((size_t)B * P * sizeof *ids), *next = calloc(B, sizeof *next);
    mt_status status = ids != NULL && next != NULL ? mt_engine_open(&e, s->model, o, err)
                                                   : mt_no_memory(err, "a step's tokens");
    if (status == MT_OK) {
        bool pass = e->kv->traits.uncached;
        mt_seeded_prompt(ids, B, P, s->o.seed, s->config.vocab);
        status = step(g, e, ids, P, next, pass || P == 1, err);
    }
    while (status == MT_OK && e->tokens < context && !enough(g)) {
        status = step(g, e, next, 1, next, true, err);
        if (status == MT_OK && e->tokens == context && !enough(g))
            mt_engine_rewind(e, context - 1);
    }
    mt_engine_close(e);
    free(ids);
    free(next);
    return status;
}

static int by_time(const void *a, const void *b) {
    double x = ((const study_pass *)a)->timed_ms, y = ((const study_pass *)b)->timed_ms;
    return (x > y) - (x < y);
}

/* Keeps the medians. */
static void conclude(gathering *g) {
    study_pass *p = g->p;
    qsort(g->split, g->timed, sizeof *g->split, by_time);
    study_pass kept = g->split[g->timed / 2];
    g->split[g->timed / 2] = (study_pass){ 0 };
    double ms = median(g->ms, g->plain);
    mt_work work = p->work;
    *p = kept;
    p->work = work;
    p->samples = g->plain;
    p->ms = ms;
    p->least = g->ms[0];
    p->most = g->ms[g->plain - 1];
}

/* Generations until there are samples enough. */
static mt_status gather(study *st, const mt_engine_options *o, uint32_t want_timed, study_pass *p,
                        mt_error *err) {
    gathering g = { .st = st, .p = p, .want_plain = st->repeat, .want_timed = want_timed };
    g.ms = calloc(g.want_plain, sizeof *g.ms);
    g.split = calloc(g.want_timed, sizeof *g.split);
    mt_status status = g.ms != NULL && g.split != NULL ? read_speed(st, &p->read_gbs, err)
                                                       : mt_no_memory(err, "a study's times");
    while (status == MT_OK && !enough(&g))
        status = generation(&g, o, err);
    if (status == MT_OK)
        conclude(&g);
    for (uint32_t i = 0; g.split != NULL && i < g.timed; i++)
        study_drop(&g.split[i]);
    free(g.ms);
    free(g.split);
    return status;
}

mt_status study_cached(study *st, uint32_t context, bool graph, study_pass *p, mt_error *err) {
    mt_engine_options o = cli_engine_options(&st->s);
    uint32_t span = mt_kv_find(st->s.o.kv)->repeats ? 1 : WARM + 2 * st->repeat;
    *p = (study_pass){ .cached = true, .context = context };
    p->work = mt_work_of_pass(&st->s.config, o.batch, 1, context - 1, false);
    o.ctx = context;
    o.prompt = context > span ? context - span : 1;
    o.graph = graph;
    o.arena |= graph;
    return gather(st, &o, st->repeat, p, err);
}

mt_status study_uncached(study *st, uint32_t context, study_pass *p, mt_error *err) {
    mt_engine_options o = cli_engine_options(&st->s);
    *p = (study_pass){ .context = context };
    p->work = mt_work_of_pass(&st->s.config, o.batch, context, 0, o.logits_all);
    o.kv = "none";
    o.graph = false;
    o.ctx = o.prompt = context;
    return gather(st, &o, st->repeat < 3 ? st->repeat : 3, p, err);
}
