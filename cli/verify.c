/* verify.c - `memtrace verify`: is the cache right?
 *
 * A greedy run with the cache is compared, logit by logit, with a run without one over the same
 * tokens: one causal pass whose row i is step i's logits, or (--rerun) every prefix run again. Both
 * compute the same sums in another order, so logits agree to rounding and tokens wherever the gap
 * between the two most likely exceeds that. --fault makes wrong caches and shows that they are
 * caught. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "engine/kv/fault.h"

/* Rounding of fp32 sums through the layers of a GPT-2, relative to the largest logit: a right cache
 * stays some ten times below (measured over contexts up to 1024 and 4 to 48 layers). */
#define RELATIVE_BOUND 2e-5
#define FAULT_CTX      128

static const char doc[] =
    "Checks the KV cache: the logits of every step of a cached greedy run against those of "
    "a run without a cache. The last line is the verdict.\v--fault uses a context of 128 "
    "unless --ctx says otherwise.\n"
    "\n"
    "\f\n"
    "Examples:\n"
    "  memtrace verify --ctx 1024\n"
    "  memtrace verify --kv paged:16 --activations arena --ctx 64 --rerun\n"
    "  memtrace verify --fault --ctx 128\n"
    "\n"
    "Exit status: 0 cached and uncached agree; 1 they do not; 2 bad input or usage; 3 out "
    "of device memory; 4 a device, library or write failed; 130 interrupted.";

typedef struct verify_options {
    cli_options engine;
    bool rerun, fault;
} verify_options;

static const cli_option rows[] = {
    { CLI_GROUP, .help = "Verification:" },
    { CLI_FLAG, offsetof(verify_options, rerun), "rerun",
      .help = "run every prefix again instead of one causal pass (slow)" },
    { CLI_FLAG, offsetof(verify_options, fault), "fault",
      .help = "inject faults into the cache; show that the check catches them" },
    { .name = NULL },
};

static void check(struct argp_state *state, void *input) {
    const verify_options *o = input;
    cli_check_engine(state, &o->engine);
    const mt_kv_traits *kv = o->engine.kv != NULL ? mt_kv_find(o->engine.kv) : NULL;
    if (kv != NULL && kv->uncached)
        cli_usage_error(state, "--kv %s has no cache to verify", kv->name);
    if (o->fault && o->rerun)
        cli_usage_error(state, "--fault goes without --rerun");
}

static const cli_usage usage = {
    .doc = doc,
    .lists = cli_list_memory,
    .table = { { rows, 0 }, CLI_ENGINE_TABLES(0), { cli_no_output_rows, 0 }, { cli_size_note, 0 } },
    .check = check,
};

/* ---- runs and what they leave ---------------------------------------------------------------- */

/* A run's logits and choices: row [step, b]. */
typedef struct record {
    uint32_t steps, B, V;
    float *logits; /* [steps, B, V] */
    int32_t *ids;  /* [B, steps] */
} record;

static mt_status new_record(record *r, const cli_session *s, mt_error *err) {
    r->steps = s->ctx - s->P + 1;
    r->B = s->batch;
    r->V = s->config.vocab;
    r->logits = malloc((size_t)r->steps * r->B * r->V * sizeof *r->logits);
    r->ids = malloc((size_t)r->steps * r->B * sizeof *r->ids);
    return r->logits != NULL && r->ids != NULL ? MT_OK : mt_no_memory(err, "the logits");
}

static void free_record(record *r) {
    free(r->logits);
    free(r->ids);
    *r = (record){ 0 };
}

static float *row_of(const record *r, uint32_t step, uint32_t b) {
    return r->logits + ((size_t)step * r->B + b) * r->V;
}

/* A cached run: greedy, or fed with the ids of another run. */
static mt_status cached_run(cli_session *s, const mt_engine_options *o, const int32_t *feed,
                            record *r, const char *what, mt_error *err) {
    mt_engine *e = NULL;
    cli_progress p;
    int32_t *next = calloc(r->B, sizeof *next);
    cli_progress_start(&p, s->o.quiet, what, "steps", r->steps);
    mt_status status =
        next != NULL ? mt_engine_open(&e, s->model, o, err) : mt_no_memory(err, "a step's tokens");
    for (uint32_t step = 0; status == MT_OK && step < r->steps; step++) {
        status = mt_engine_step(e, step == 0 ? s->prompt : next, step == 0 ? s->P : 1, next, err);
        for (uint32_t b = 0; status == MT_OK && b < r->B; b++) {
            uint32_t row = (b + 1) * (e->logits_rows / r->B) - 1;
            status = mt_engine_logits(e, row, 1, row_of(r, step, b), err);
            r->ids[(size_t)b * r->steps + step] = next[b];
            if (feed != NULL)
                next[b] = feed[(size_t)b * r->steps + step];
        }
        cli_progress_show(&p, step + 1);
        if (status == MT_OK && cli_interrupted())
            status = mt_fail(err, MT_INTERRUPTED, "interrupted");
    }
    cli_progress_end(&p);
    mt_engine_close(e);
    free(next);
    return status;
}

/* The tokens in the cache at the end: prompt and all choices but the last, [B, ctx]. */
static int32_t *sequence(const cli_session *s, const record *cached) {
    int32_t *ids = malloc((size_t)s->batch * s->ctx * sizeof *ids);
    for (uint32_t b = 0; ids != NULL && b < s->batch; b++) {
        memcpy(ids + (size_t)b * s->ctx, s->prompt + (size_t)b * s->P, s->P * sizeof *ids);
        memcpy(ids + (size_t)b * s->ctx + s->P, cached->ids + (size_t)b * cached->steps,
               (cached->steps - 1) * sizeof *ids);
    }
    return ids;
}

/* One causal pass over the whole sequence gives every step's logits. */
static mt_status one_pass(cli_session *s, const int32_t *ids, record *r, mt_error *err) {
    mt_engine *e = NULL;
    mt_engine_options o = cli_engine_options(s);
    o.kv = "none";
    o.logits_all = true;
    o.prompt = s->ctx;
    int32_t *next = calloc(r->B, sizeof *next);
    mt_status status =
        next != NULL ? mt_engine_open(&e, s->model, &o, err) : mt_no_memory(err, "a step's tokens");
    if (status == MT_OK)
        status = mt_engine_step(e, ids, s->ctx, next, err);
    for (uint32_t step = 0; status == MT_OK && step < r->steps; step++)
        for (uint32_t b = 0; status == MT_OK && b < r->B; b++)
            status = mt_engine_logits(e, b * s->ctx + s->P - 1 + step, 1, row_of(r, step, b), err);
    mt_engine_close(e);
    free(next);
    return status;
}

/* Every prefix run again, from its first token. */
static mt_status all_prefixes(cli_session *s, const int32_t *ids, record *r, mt_error *err) {
    record again = *r;
    int32_t *feed = malloc((size_t)r->B * r->steps * sizeof *feed);
    mt_engine_options o = cli_engine_options(s);
    o.kv = "none";
    o.logits_all = false;
    if (feed == NULL)
        return mt_no_memory(err, "the run's tokens");
    for (uint32_t b = 0; b < r->B; b++)
        for (uint32_t step = 0; step < r->steps; step++)
            feed[(size_t)b * r->steps + step] =
                step + 1 < r->steps ? ids[(size_t)b * s->ctx + s->P + step] : 0;
    mt_status status = cached_run(s, &o, feed, &again, "without a cache", err);
    free(feed);
    return status;
}

static void choose(record *r) {
    for (uint32_t step = 0; step < r->steps; step++)
        for (uint32_t b = 0; b < r->B; b++) {
            const float *x = row_of(r, step, b);
            uint32_t best = 0;
            for (uint32_t i = 1; i < r->V; i++)
                if (x[i] > x[best])
                    best = i;
            r->ids[(size_t)b * r->steps + step] = (int32_t)best;
        }
}

static mt_status uncached_run(cli_session *s, bool rerun, const record *cached, record *r,
                              mt_error *err) {
    int32_t *ids = sequence(s, cached);
    if (ids == NULL)
        return mt_no_memory(err, "the run's tokens");
    mt_status status = (rerun ? all_prefixes : one_pass)(s, ids, r, err);
    free(ids);
    if (status == MT_OK)
        choose(r);
    return status;
}

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct comparison {
    double difference, gap,
        largest; /* of logits: largest |a - b|, smallest top-two gap, largest |b| */
    uint32_t at_step, gap_step;
    uint64_t tokens, flips, unsafe; /* choices; that differ; with a gap above the bound */
    double bound;
} comparison;

/* The gap between the two largest of a row. */
static double top_two_gap(const float *x, uint32_t n) {
    float first = -INFINITY, second = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (x[i] > first) {
            second = first;
            first = x[i];
        } else if (x[i] > second) {
            second = x[i];
        }
    }
    return n > 1 ? (double)first - second : INFINITY;
}

static void compare_row(const float *a, const float *b, uint32_t n, uint32_t step, comparison *c) {
    for (uint32_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= c->difference)) { /* a NaN counts as the largest difference */
            c->difference = d == d ? d : INFINITY;
            c->at_step = step;
        }
        c->largest = fabs((double)b[i]) > c->largest ? fabs((double)b[i]) : c->largest;
    }
    double gap = top_two_gap(b, n);
    if (gap < c->gap) {
        c->gap = gap;
        c->gap_step = step;
    }
}

static double bound_for(double largest) {
    return RELATIVE_BOUND * (largest > 1 ? largest : 1);
}

static comparison compare(const record *a, const record *b) {
    comparison c = { .gap = INFINITY };
    for (uint32_t step = 0; step < b->steps; step++)
        for (uint32_t s = 0; s < b->B; s++)
            compare_row(row_of(a, step, s), row_of(b, step, s), b->V, step, &c);
    c.bound = bound_for(c.largest);
    for (uint32_t step = 0; step < b->steps; step++)
        for (uint32_t s = 0; s < b->B; s++) {
            size_t at = (size_t)s * b->steps + step;
            c.tokens++;
            c.flips += a->ids[at] != b->ids[at];
            c.unsafe += a->ids[at] != b->ids[at] && top_two_gap(row_of(b, step, s), b->V) > c.bound;
        }
    return c;
}

static void print_comparison(const cli_session *s, const char *other, const comparison *c) {
    printf("cached (%s, %s, %s activations) against %s, ctx %u, batch %u\n", s->o.model, s->o.kv,
           s->o.arena ? "arena" : "eager", other, s->ctx, s->batch);
    printf("  tokens equal:             %" PRIu64 " of %" PRIu64 "\n", c->tokens - c->flips,
           c->tokens);
    printf("  largest logit difference: %.3g (step %u), bound %.3g, largest logit %.3g\n",
           c->difference, c->at_step, c->bound, c->largest);
    printf("  smallest top-two gap:     %.3g (step %u)\n", c->gap, c->gap_step);
}

/* ---- the three checks ------------------------------------------------------------------------ */

static mt_status check_cache(cli_session *s, bool rerun, mt_error *err) {
    record cached = { 0 }, uncached = { 0 };
    mt_engine_options o = cli_engine_options(s);
    mt_status status = new_record(&cached, s, err);
    if (status == MT_OK)
        status = new_record(&uncached, s, err);
    if (status == MT_OK)
        status = cached_run(s, &o, NULL, &cached, "cached", err);
    if (status == MT_OK)
        status = uncached_run(s, rerun, &cached, &uncached, err);
    if (status == MT_OK) {
        comparison c = compare(&cached, &uncached);
        print_comparison(s, rerun ? "re-run prefixes" : "one causal pass", &c);
        bool good = c.difference <= c.bound && c.unsafe == 0;
        puts(good ? "verified: cached = uncached" : "FAILED: cached and uncached differ");
        status = good ? MT_OK : MT_CHECK;
    }
    free_record(&cached);
    free_record(&uncached);
    return status;
}

/* The context at which the cache moves to a larger place; where it does not, the middle. */
static uint32_t fault_ctx(const cli_session *s) {
    uint64_t capacity = mt_kv_capacity(s->o.kv, s->P);
    uint32_t middle = s->P + (s->ctx - s->P) / 2 + 1;
    return capacity > 0 && capacity + 1 < s->ctx ? (uint32_t)capacity + 1 : middle;
}

static const struct {
    mt_fault_kind kind;
    const char *name;
    bool wrong; /* must be caught; else must not */
} faults[] = {
    { MT_FAULT_SWAP_K, "keys of two positions swapped", true },
    { MT_FAULT_POSITION, "position off by one", true },
    { MT_FAULT_STALE, "a stale layer", true },
    { MT_FAULT_MIX_KV, "keys and values swapped when the cache grows", true },
    { MT_FAULT_SWAP_KV, "keys and values of two positions swapped together", false },
};

static mt_status check_fault(cli_session *s, int i, const record *clean, const record *reference,
                             int *good, mt_error *err) {
    record damaged = { 0 };
    mt_engine_options o = cli_engine_options(s);
    mt_fault fault = { faults[i].kind, s->config.layers / 2, fault_ctx(s), s->config.positions };
    o.wrap = mt_kv_fault;
    o.wrapped_with = &fault;
    mt_status status = new_record(&damaged, s, err);
    if (status == MT_OK)
        status = cached_run(s, &o, clean->ids, &damaged, faults[i].name, err);
    if (status == MT_OK) {
        comparison c = compare(&damaged, reference);
        bool first = true;
        for (uint32_t b = 0; b < damaged.B; b++)
            first &= damaged.ids[(size_t)b * damaged.steps] ==
                     reference->ids[(size_t)b * reference->steps];
        bool caught = !(c.difference <= c.bound);
        printf("%s (layer %u, at ctx %u)\n", faults[i].name, fault.layer, fault.ctx);
        printf("  check of the first token: %s\n", first ? "passes" : "fails");
        printf("  check of all %u steps:    largest logit difference %.3g, bound %.3g: %s\n",
               damaged.steps, c.difference, c.bound,
               caught            ? "caught"
               : faults[i].wrong ? "NOT CAUGHT"
                                 : "no difference, as expected");
        *good += caught == faults[i].wrong && first;
    }
    free_record(&damaged);
    return status;
}

static mt_status check_faults(cli_session *s, mt_error *err) {
    record clean = { 0 }, reference = { 0 };
    int good = 0, count = (int)(sizeof faults / sizeof *faults);
    mt_engine_options o = cli_engine_options(s);
    if (s->ctx < s->P + 4)
        return mt_fail(err, MT_BAD, "--fault needs --ctx at least 4 tokens above the prompt's %u",
                       s->P);
    mt_status status = new_record(&clean, s, err);
    if (status == MT_OK)
        status = new_record(&reference, s, err);
    if (status == MT_OK)
        status = cached_run(s, &o, NULL, &clean, "cached", err);
    if (status == MT_OK)
        status = uncached_run(s, false, &clean, &reference, err);
    for (int i = 0; status == MT_OK && i < count; i++)
        status = check_fault(s, i, &clean, &reference, &good, err);
    if (status == MT_OK) {
        if (good == count)
            printf("caught: all 4 faults, none visible in the first token\n");
        else
            printf("FAILED: %d of %d faults as expected\n", good, count);
        status = good == count ? MT_OK : MT_CHECK;
    }
    free_record(&clean);
    free_record(&reference);
    return status;
}

int cli_verify(int argc, char **argv) {
    verify_options o = { 0 };
    cli_session s = { 0 };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    mt_status status = cli_prepare(&s, &o.engine, true, &err);
    if (status == MT_OK && o.fault && o.engine.ctx == 0 && s.ctx > FAULT_CTX && s.P + 4 < FAULT_CTX)
        s.ctx = FAULT_CTX;
    if (status == MT_OK)
        status = cli_load(&s, &err);
    if (status == MT_OK)
        status = o.fault ? check_faults(&s, &err) : check_cache(&s, o.rerun, &err);
    if (status == MT_NO_MEMORY)
        cli_tell_refusal(&s);
    else if (status != MT_CHECK)
        cli_fail(status, &err);
    cli_close(&s);
    return cli_flush(status);
}
