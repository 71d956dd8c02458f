/* test_cuda_engine.c - whole runs on the CUDA back end, over the emulated device.
 *
 * Held against the cpu back end (logits, within 1e-4 + 1e-4 |reference|), against the cpu and a dry
 * run (events, exactly), graphs against steps without (logits, exactly), and the device's own count
 * of its bytes against ours (what a library took). */
#include "tests/cuda/rig.h"
#include "tests/events.h"
#include "tests/interrupts.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const strategies[] = { "concat",      "concat-tuple", "static",
                                          "doubling:16", "paged:16",     "none" };

/* ---- logits ---------------------------------------------------------------------------------- */

static float *logits_of(rig *r) {
    size_t n = (size_t)r->engine->logits_rows * r->model->config.vocab;
    float *host = malloc(n * sizeof *host);
    assert_non_null(host);
    must(mt_engine_logits(r->engine, 0, r->engine->logits_rows, host, &r->err), &r->err);
    return host;
}

static void compare_logits(rig *a, rig *b, bool exactly, const char *kv) {
    float *got = logits_of(a), *expected = logits_of(b);
    size_t n = (size_t)b->engine->logits_rows * b->model->config.vocab;
    assert_int_equal(a->engine->logits_rows, b->engine->logits_rows);
    for (size_t i = 0; i < n; i++) {
        float most = exactly ? 0 : 1e-4f + 1e-4f * fabsf(expected[i]);
        if (!(fabsf(got[i] - expected[i]) <= most))
            fail_msg("%s at ctx %u: logit %zu is %.9g, expected %.9g", kv, a->engine->tokens, i,
                     got[i], expected[i]);
    }
    free(got);
    free(expected);
}

/* Feeds both what the second chooses, and compares the logits of every step. */
static void run_side_by_side(const setup *one, const setup *other, bool exactly) {
    rig a, b;
    must(rig_open(&a, one), &a.err);
    must(rig_open(&b, other), &b.err);
    const mt_engine_options *o = &one->options;
    uint32_t V = b.model->config.vocab;
    int32_t *ids = malloc((size_t)o->batch * o->prompt * sizeof *ids);
    int32_t *next = malloc(2 * o->batch * sizeof *next);
    assert_true(ids != NULL && next != NULL);
    mt_seeded_prompt(ids, o->batch, o->prompt, 3, V);
    for (uint32_t ctx = o->prompt; ctx <= o->ctx; ctx++) {
        bool prefill = ctx == o->prompt;
        const int32_t *fed = prefill ? ids : next + o->batch;
        must(mt_engine_step(a.engine, fed, prefill ? ctx : 1, next, &a.err), &a.err);
        must(mt_engine_step(b.engine, fed, prefill ? ctx : 1, next + o->batch, &b.err), &b.err);
        compare_logits(&a, &b, exactly, o->kv);
    }
    free(ids);
    free(next);
    rig_close(&a);
    rig_close(&b);
}

static void against_cpu(const char *folder, const mt_config *config, uint32_t ctx) {
    for (size_t k = 0; k < COUNT(strategies); k++)
        for (int arena = 0; arena < 2; arena++) {
            uint32_t prompt = arena ? 5 : 1;
            setup cuda = { .kind = ON_CUDA,
                           .folder = folder,
                           .options = options_of(strategies[k], 1 + (arena && folder), prompt, ctx,
                                                 arena, 1 << 20) };
            if (config != NULL)
                cuda.config = *config;
            setup cpu = cuda;
            cpu.kind = ON_CPU;
            cuda.options.logits_all = cpu.options.logits_all = arena;
            run_side_by_side(&cuda, &cpu, false);
        }
}

static void logits_of_trained_models_are_the_cpus(void **state) {
    (void)state;
    char folder[400];
    const char *shared = getenv("MEMTRACE_SHARED");
    against_cpu("tests/recordings/reverse", NULL, 11);
    snprintf(folder, sizeof folder, "%s/data/gpt-nano-sort",
             shared != NULL && *shared != '\0' ? shared : "../shared");
    if (access(folder, R_OK) == 0)
        against_cpu(folder, NULL, 11);
}

static void logits_of_a_seeded_model_are_the_cpus(void **state) {
    (void)state;
    mt_config c = four_layers();
    against_cpu(NULL, &c, quick() ? 20 : 68); /* 64 steps and more */
}

/* ---- events ---------------------------------------------------------------------------------- */

static void same_events(const rig *a, const rig *b, const char *policy, const char *kv) {
    if (a->events != b->events)
        fail_msg("%s %s: %zu events and %zu", policy, kv, a->events, b->events);
    for (size_t i = 0; i < a->events; i++)
        if (!same_event(&a->event[i], &b->event[i]))
            fail_msg("%s %s: event %zu differs", policy, kv, i);
}

/* Runs one setup on all three back ends. */
static void events_of(setup s) {
    rig r[3];
    for (int kind = ON_CUDA; kind <= ON_NOTHING; kind++) {
        setup one = s;
        one.kind = (rig_kind)kind;
        one.options.graph = s.options.graph && kind != ON_CPU;
        must(rig_open(&r[kind], &one), &r[kind].err);
        must(rig_generate(&r[kind]), &r[kind].err);
    }
    same_events(&r[ON_CUDA], &r[ON_CPU], s.policy, s.options.kv);
    same_events(&r[ON_CUDA], &r[ON_NOTHING], s.policy, s.options.kv);
    for (int kind = ON_CUDA; kind <= ON_NOTHING; kind++)
        rig_close(&r[kind]);
}

static void events_are_those_of_the_cpu_and_of_a_dry_run(void **state) {
    (void)state;
    static const char *const policies[] = {
        "torch",      "torch,expandable_segments:True", "torch,max_split_size_mb:20",
        "block:2MiB", "block:64KiB,keep:none",          "direct"
    };
    for (size_t p = 0; p < (quick() ? 2 : COUNT(policies)); p++)
        for (size_t k = 0; k < COUNT(strategies); k++)
            for (int arena = 0; arena < 2; arena++)
                events_of(
                    (setup){ .config = four_layers(),
                             .policy = policies[p],
                             .options = options_of(strategies[k], 2, 3, 24, arena, 8519680) });
}

static void events_are_the_same_with_graphs(void **state) {
    (void)state;
    static const char *const moving[] = { "static", "doubling:4" };
    for (int k = 0; k < 2; k++) {
        setup s = { .config = four_layers(),
                    .policy = "torch",
                    .options = options_of(moving[k], 2, 3, 40, true, 65536) };
        s.options.graph = true;
        events_of(s);
#ifndef MT_REAL_DEVICE
        assert_true(mt_emulation_calls("cudaGraphLaunch") > 0);
#endif
    }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void graph_against_eager(const char *kv, uint32_t batch, uint32_t prompt, uint32_t ctx,
                                uint64_t recordings) {
    setup eager = { .kind = ON_CUDA,
                    .config = four_layers(),
                    .options = options_of(kv, batch, prompt, ctx, true, 65536) };
    eager.config.positions = 600;
    eager.config.layers = prompt > 100 ? 1 : 4;
    setup graph = eager;
    graph.options.graph = true;
#ifdef MT_REAL_DEVICE
    (void)recordings;
    run_side_by_side(&graph, &eager, true);
#else
    uint64_t before = mt_emulation_calls("cudaStreamBeginCapture");
    uint64_t launched = mt_emulation_calls("cudaGraphLaunch");
    run_side_by_side(&graph, &eager, true);
    assert_int_equal(mt_emulation_calls("cudaStreamBeginCapture") - before, recordings);
    uint64_t steps = ctx - prompt - (prompt > 1); /* the first of one token is eager */
    assert_int_equal(mt_emulation_calls("cudaGraphLaunch") - launched, steps);
#endif
}

static void graphs_compute_the_same(void **state) {
    (void)state;
    graph_against_eager("static", 1, 1, 70, 1);
    graph_against_eager("static", 3, 5, 40, 1);
    graph_against_eager("doubling:16", 1, 3, 70, 4);     /* capacities 16, 32, 64, 128 */
    graph_against_eager("doubling:256", 2, 250, 262, 2); /* a second part of the cache */
    graph_against_eager("static", 1, 251, 262, 1);
}

/* A recording watched: nothing may be requested, given back or taken of the device meanwhile. */
static struct {
    mt_status (*begin)(mt_device *d, mt_error *err);
    mt_status (*end)(mt_device *d, mt_error *err);
    bool now;
    int recordings, events;
} recording;

static mt_status record_watched(mt_device *d, mt_error *err) {
    mt_status status = recording.begin(d, err);
    recording.now = status == MT_OK;
    recording.recordings++;
    return status;
}

static mt_status record_end_watched(mt_device *d, mt_error *err) {
    recording.now = false;
    return recording.end(d, err);
}

static void count_in_recording(void *context, const mt_event *e) {
    (void)context, (void)e;
    recording.events += recording.now;
}

static void nothing_is_requested_in_a_recording(void **state) {
    (void)state;
    static const char *const kv[] = { "static", "doubling:4" };
    static const int recordings[] = { 1, 4 }; /* capacities 4, 8, 16, 32 */
    for (size_t i = 0; i < COUNT(kv); i++) {
        rig r;
        setup s = { .kind = ON_CUDA,
                    .config = four_layers(),
                    .policy = "direct", /* a segment for each request */
                    .options = options_of(kv[i], 1, 1, 20, true, 65536) };
        s.options.graph = true;
        must(rig_open(&r, &s), &r.err);
        recording =
            (__typeof__(recording)){ .begin = r.device->record, .end = r.device->record_end };
        r.device->record = record_watched;
        r.device->record_end = record_end_watched;
        mt_alloc_listen(r.alloc, (mt_listener){ count_in_recording, NULL });
        must(rig_generate(&r), &r.err);
        assert_int_equal(recording.recordings, recordings[i]);
        assert_int_equal(recording.events, 0);
        assert_true(r.events > 0);
        rig_close(&r);
    }
}

/* A step that is replayed has no layers to look between: it looks once. */
static void a_replayed_step_looks_for_an_interrupt(void **state) {
    (void)state;
    setup s = { .kind = ON_CUDA,
                .config = four_layers(),
                .options = options_of("static", 1, 1, 20, true, 65536) };
    s.options.graph = true;
    uint64_t looks = s.config.layers + s.config.layers + 19; /* eager, recorded, 19 replayed */
    for (uint64_t from = 0; from <= looks; from += 3) {
        rig r;
        must(rig_open(&r, &s), &r.err);
        watch_interrupts(from);
        mt_status status = rig_generate(&r);
        mt_interrupt_by(NULL);
        assert_int_equal(status, from > 0 ? MT_INTERRUPTED : MT_OK);
        assert_int_equal(interrupt.looks, from > 0 ? from : looks);
        rig_close(&r);
    }
}

/* What --graph needs and what it refuses. */
static void graphs_need_buffers_that_stay(void **state) {
    (void)state;
    static const struct {
        const char *kv;
        bool arena;
        rig_kind kind;
    } wrong[] = { { "concat", true, ON_CUDA },       { "paged:16", true, ON_CUDA },
                  { "concat-tuple", true, ON_CUDA }, { "none", true, ON_CUDA },
                  { "static", false, ON_CUDA },      { "static", true, ON_CPU } };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        rig r;
        setup s = { .kind = wrong[i].kind,
                    .config = four_layers(),
                    .options = options_of(wrong[i].kv, 1, 1, 8, wrong[i].arena, 65536) };
        s.options.graph = true;
        assert_int_equal(rig_open(&r, &s), MT_BAD);
        assert_non_null(strstr(r.err.text, "--graph"));
        rig_close(&r);
    }
}

#ifndef MT_REAL_DEVICE
/* ---- library bytes --------------------------------------------------------------------------- */

/* Bytes of the device that neither our segments nor the context explain. */
static int64_t library_bytes(const rig *r) {
    uint64_t used;
    mt_error err;
    must(r->source->device_used(r->source, &used, &err), &err);
    return (int64_t)(used - r->source->driver_bytes) - r->cuda.notes[0].bytes;
}

/* Whether the last product worked in the engine's workspace and nowhere else. */
static bool worked_in_ours(const rig *r) {
    mt_emulation_workspace w = mt_emulation_last_workspace();
    return !w.own && !w.captured && w.ptr == r->engine->workspace.ptr &&
           w.bytes == r->engine->options.workspace;
}

/* Library bytes after three steps and at the end. */
static void watch_run(const setup *s, int64_t *warm, int64_t *end, bool *ours) {
    rig r;
    must(rig_open(&r, s), &r.err);
    uint32_t done = 0;
    int32_t next[8] = { 0 };
    for (uint32_t ctx = s->options.prompt; ctx <= s->options.ctx; ctx++) {
        must(mt_engine_step(r.engine, next, done == 0 ? s->options.prompt : 1, next, &r.err),
             &r.err);
        if (++done == 3)
            *warm = library_bytes(&r);
    }
    *end = library_bytes(&r);
    *ours = worked_in_ours(&r);
    assert_int_equal(
        *end, (int64_t)(mt_emulation_get_usage().kernels + mt_emulation_get_usage().library));
    rig_close(&r);
    mt_emulation_reset(); /* the next run's context loads its code anew */
    mt_emulation_set_quiet(true);
}

static setup watched(const char *policy, const char *kv, bool graph) {
    setup s = { .kind = ON_CUDA,
                .config = four_layers(),
                .policy = policy,
                .options = options_of(kv, 1, 1, 1024, graph, 4 << 20),
                .cuda = { .watch = true } };
    s.config.positions = 1024;
    s.config.layers = 1;
    s.config.width = 16;
    s.config.heads = 1;
    s.config.inner = 64;
    s.options.graph = graph;
    s.options.ctx = quick() ? 280 : 1024;
    return s;
}

static void no_library_bytes_with_our_workspace(void **state) {
    (void)state;
    static const char *const runs[][2] = { { "torch", "concat" },
                                           { "torch", "concat-tuple" },
                                           { "torch", "static" },
                                           { "torch", "doubling" },
                                           { "torch", "paged:16" },
                                           { "block:2MiB", "concat" },
                                           { "block:2MiB", "concat-tuple" },
                                           { "direct:2MiB", "concat" },
                                           { "bfc:2MiB", "doubling" },
                                           { "torch,expandable_segments:True", "concat" } };
    for (size_t i = 0; i < COUNT(runs); i++) {
        int64_t warm, end;
        bool ours;
        setup s = watched(runs[i][0], runs[i][1], false);
        watch_run(&s, &warm, &end, &ours);
        if (warm != end || !ours)
            fail_msg("%s %s: %ld library bytes after the warm-up, %ld at the end, %s", runs[i][0],
                     runs[i][1], (long)warm, (long)end,
                     ours ? "our workspace" : "another workspace");
    }
}

static void no_library_bytes_with_graphs(void **state) {
    (void)state;
    int64_t warm, end;
    bool ours;
    setup s = watched("torch", "static", true);
    watch_run(&s, &warm, &end, &ours);
    assert_int_equal(warm, end);
    assert_true(ours);
}

/* Segments that share the driver's pages: their cost is the driver's rounding, not a library's. */
static void small_segments_are_no_library_bytes(void **state) {
    (void)state;
    int64_t warm, end;
    bool ours;
    setup s = watched("direct", "concat", false);
    s.options.ctx = 200;
    watch_run(&s, &warm, &end, &ours);
    assert_int_equal(warm, end);
}

static const mt_cuda_note *find_note(const rig *r, const char *begin) {
    for (uint32_t i = 0; i < *r->cuda.noted; i++)
        if (strncmp(r->cuda.notes[i].what, begin, strlen(begin)) == 0)
            return &r->cuda.notes[i];
    fail_msg("no note of %s", begin);
    return NULL;
}

/* cuBLAS takes its pool when the handle is created, and works in it when we give it nothing. */
static void the_librarys_own_workspace_is_seen(void **state) {
    (void)state;
    rig r;
    setup s = { .kind = ON_CUDA,
                .config = four_layers(),
                .options = options_of("static", 1, 1, 12, true, 0),
                .cuda = { .watch = true } };
    s.options.own_workspace = true;
    must(rig_open(&r, &s), &r.err);
    must(rig_generate(&r), &r.err);
    assert_true(mt_emulation_last_workspace().own);
    assert_false(worked_in_ours(&r));
    assert_true(find_note(&r, "cublasCreate")->bytes > 0);
    assert_int_equal(find_note(&r, "cublasCreate")->bytes, mt_emulation_get_usage().library);
    assert_int_equal(find_note(&r, "context")->bytes, mt_emulation_get_usage().context);
    assert_int_equal(find_note(&r, "matmul 1 x 153 x 51")->calls, 2);
    assert_int_equal(find_note(&r, "matmul 1 x 153 x 51")->again, 0);
    rig_close(&r);
}

/* A recording in the library's own workspace takes device memory for the graph. */
static void what_a_recording_takes_is_seen(void **state) {
    (void)state;
    rig r;
    setup s = { .kind = ON_CUDA,
                .config = four_layers(),
                .options = options_of("static", 1, 1, 12, true, 0),
                .cuda = { .watch = true } };
    s.options.own_workspace = true;
    s.options.graph = true;
    must(rig_open(&r, &s), &r.err);
    must(rig_generate(&r), &r.err);
    assert_true(mt_emulation_last_workspace().captured);
    assert_true(find_note(&r, "graph")->bytes > 0);
    rig_close(&r);
    s.options.own_workspace = false;
    s.options.workspace = 65536;
    must(rig_open(&r, &s), &r.err);
    must(rig_generate(&r), &r.err);
    assert_true(worked_in_ours(&r));
    assert_int_equal(find_note(&r, "graph")->bytes, 0);
    rig_close(&r);
}

/* cublasSetStream gives the library's pool back: leaving the workspace out after it is caught. */
static void a_forgotten_workspace_is_caught(void **state) {
    (void)state;
    for (int forget = 0; forget < 2; forget++) {
        rig r;
        setup s = { .kind = ON_CUDA,
                    .config = four_layers(),
                    .options = options_of("concat", 1, 1, 6, false, 65536),
                    .cuda = { .forget_workspace = forget } };
        must(rig_open(&r, &s), &r.err);
        must(rig_generate(&r), &r.err);
        assert_int_equal(worked_in_ours(&r), !forget);
        rig_close(&r);
    }
}

/* 0 requests nothing and leaves the library nothing. */
static void an_empty_workspace_is_handed_on(void **state) {
    (void)state;
    rig r;
    setup s = { .kind = ON_CUDA,
                .config = four_layers(),
                .options = options_of("concat", 1, 1, 6, false, 0) };
    must(rig_open(&r, &s), &r.err);
    must(rig_generate(&r), &r.err);
    assert_false(mt_emulation_last_workspace().own);
    assert_int_equal(mt_emulation_last_workspace().bytes, 0);
    assert_int_equal(mt_alloc_ledger(r.alloc)->tag[MT_WORKSPACE].total, 0);
    rig_close(&r);
}

#endif

/* ---- the driver's pool ----------------------------------------------------------------------- */

static void the_drivers_pool_keeps_the_identity(void **state) {
    (void)state;
    for (size_t k = 0; k < COUNT(strategies); k++) {
        rig r;
        setup s = { .kind = ON_CUDA,
                    .config = four_layers(),
                    .policy = "async",
                    .options = options_of(strategies[k], 2, 3, 40, k % 2, 65536),
                    .cuda = { .pool = true, .watch = true } };
        must(rig_open(&r, &s), &r.err);
        must(rig_generate(&r), &r.err);
        const mt_ledger *l = mt_alloc_ledger(r.alloc);
        must(mt_alloc_check(r.alloc, &r.err), &r.err);
        assert_int_equal(l->split, 0);
#ifndef MT_REAL_DEVICE
        assert_int_equal(l->reserved.current, mt_emulation_get_usage().pools);
        assert_int_equal(r.source->driver_bytes, l->reserved.current);
#endif
        rig_close(&r);
    }
}

static void the_drivers_pool_needs_a_device(void **state) {
    (void)state;
    for (int kind = ON_CPU; kind <= ON_NOTHING; kind++) {
        rig r;
        setup s = { .kind = (rig_kind)kind,
                    .config = four_layers(),
                    .policy = "async",
                    .options = options_of("concat", 1, 1, 4, false, 0) };
        assert_int_equal(rig_open(&r, &s), MT_BAD);
        assert_non_null(strstr(r.err.text, "async"));
        rig_close(&r);
    }
}

#ifndef MT_REAL_DEVICE
/* ---- words for a profiler -------------------------------------------------------------------- */

static void ranges_carry_our_words(void **state) {
    (void)state;
    static const char *const words[] = { "load",    "prefill", "layer 0", "layer 1",
                                         "layer 2", "layer 3", "head",    "decode" };
    rig r;
    setup s = { .kind = ON_CUDA,
                .config = four_layers(),
                .options = options_of("concat", 1, 4, 6, false, 0) };
    must(rig_open(&r, &s), &r.err);
    must(rig_generate(&r), &r.err);
    rig_close(&r);
    for (size_t i = 0; i < COUNT(words); i++) {
        int depth;
        const char *name = mt_emulation_range(i, &depth);
        assert_non_null(name);
        assert_string_equal(name, words[i]);
        assert_int_equal(depth, words[i][0] == 'h' || strncmp(words[i], "layer", 5) == 0);
    }
    assert_int_equal(mt_emulation_open_ranges(), 0);
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(logits_of_trained_models_are_the_cpus),
        TEST(logits_of_a_seeded_model_are_the_cpus),
        TEST(events_are_those_of_the_cpu_and_of_a_dry_run),
        TEST(events_are_the_same_with_graphs),
        TEST(graphs_compute_the_same),
        TEST(nothing_is_requested_in_a_recording),
        TEST(a_replayed_step_looks_for_an_interrupt),
        TEST(graphs_need_buffers_that_stay),
#ifndef MT_REAL_DEVICE
        TEST(no_library_bytes_with_our_workspace),
        TEST(no_library_bytes_with_graphs),
        TEST(small_segments_are_no_library_bytes),
        TEST(the_librarys_own_workspace_is_seen),
        TEST(what_a_recording_takes_is_seen),
        TEST(a_forgotten_workspace_is_caught),
        TEST(an_empty_workspace_is_handed_on),
        TEST(ranges_carry_our_words),
#endif
        TEST(the_drivers_pool_keeps_the_identity),
        TEST(the_drivers_pool_needs_a_device),
    };
    return cmocka_run_group_tests_name("cuda engine", tests, NULL, NULL);
}
