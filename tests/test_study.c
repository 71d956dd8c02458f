/* test_study.c - what `memtrace study` stands on: counts of work, a device that times another, time
 * spent in the allocator, and the Chrome trace.
 *
 * The formulas are held against the table that others worked out for GPT-2 small, and against the
 * calls that an engine really makes, for every cache strategy. A timed engine must choose the same
 * tokens and send the same events as a plain one. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/size.h"
#include "engine/generate.h"
#include "engine/work.h"
#include "kernels/timed/timed.h"
#include "tests/events.h"
#include "traces/chrome.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void must(mt_status status, const mt_error *err) {
    if (status != MT_OK)
        fail_msg("%s", err->text);
}

/* ---- formulas -------------------------------------------------------------------------------- */

/* 24 L d d + 4 L d t + 2 d V and its sums, for GPT-2 small: figures worked out elsewhere. */
static void figures_of_gpt2_small(void **state) {
    (void)state;
    static const struct {
        uint32_t context;
        double cached, uncached; /* GFLOP, all logits */
        double ratio, last;
    } table[] = { { 128, 0.252, 32.2, 128, 89 },
                  { 512, 0.266, 136.2, 512, 364 },
                  { 1000, 0.284, 283.9, 1000, 728 },
                  { 1024, 0.285, 291.7, 1024, 747 } };
    mt_config c;
    assert_true(mt_config_preset("gpt2", &c));
    for (size_t i = 0; i < COUNT(table); i++) {
        uint32_t t = table[i].context;
        mt_work one = mt_work_of_pass(&c, 1, 1, t - 1, false);
        mt_work all = mt_work_of_pass(&c, 1, t, 0, true),
                last = mt_work_of_pass(&c, 1, t, 0, false);
        double cached = (double)mt_work_usual(&one);
        assert_int_equal(mt_work_flops(&one), mt_work_usual(&one));
        assert_int_equal((int)(cached / 1e6 + 0.5), (int)(table[i].cached * 1e3 + 0.5));
        double uncached = (double)mt_work_usual(&all) / 1e9;
        assert_true(uncached > table[i].uncached - 0.1 && uncached < table[i].uncached + 0.1);
        assert_int_equal((int)((double)mt_work_usual(&all) / cached + 0.5), (int)table[i].ratio);
        assert_int_equal((int)((double)mt_work_usual(&last) / cached + 0.5), (int)table[i].last);
    }
}

static void generating_1016_tokens(void **state) {
    (void)state;
    mt_config c;
    double cached = 0, uncached = 0;
    assert_true(mt_config_preset("gpt2", &c));
    for (uint32_t t = 8; t < 1024; t++) {
        mt_work all = mt_work_of_pass(&c, 1, t, 0, true);
        mt_work one = mt_work_of_pass(&c, 1, t == 8 ? 8 : 1, t == 8 ? 0 : t - 1, false);
        uncached += (double)mt_work_usual(&all);
        cached += (double)mt_work_usual(&one);
    }
    assert_int_equal((int)(uncached / 1e11 + 0.5), 1426);
    assert_int_equal((int)(cached / 1e9 + 0.5), 272);
}

/* ---- engines --------------------------------------------------------------------------------- */

#define EVENTS_MOST 20000

typedef struct rig {
    mt_device *inner, *timed;
    mt_source *source;
    mt_alloc *alloc;
    mt_checkpoint *checkpoint;
    mt_model *model;
    mt_engine *engine;
    mt_event event[EVENTS_MOST];
    size_t events;
    mt_error err;
} rig;

static void on_event(void *context, const mt_event *e) {
    rig *r = context;
    assert_true(r->events < EVENTS_MOST);
    r->event[r->events++] = *e;
}

static mt_config small(void) {
    mt_config c = { .layers = 3,
                    .heads = 3,
                    .width = 51,
                    .vocab = 97,
                    .positions = 40,
                    .inner = 204,
                    .epsilon = 1e-5f,
                    .tied = true,
                    .dtype = MT_F32 };
    return c;
}

static rig *open_rig(bool timed, const char *kv, bool arena, uint32_t B, uint32_t P, uint32_t ctx,
                     bool all) {
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    mt_config c = small();
    must(mt_device_cpu(&r->inner, 2, &r->err), &r->err);
    must(mt_source_host(&r->source, MT_GIB, &r->err), &r->err);
    must(mt_alloc_open(&r->alloc, r->source, "torch", &r->err), &r->err);
    mt_alloc_listen(r->alloc, (mt_listener){ on_event, r });
    must(mt_checkpoint_seeded(&r->checkpoint, &c, 7, &r->err), &r->err);
    must(mt_model_load(&r->model, r->checkpoint, &c, r->alloc, r->inner, 1, NULL, NULL, &r->err),
         &r->err);
    must(mt_device_timed(&r->timed, r->inner, &r->err), &r->err);
    if (timed)
        r->model->device = r->timed;
    mt_engine_options o = {
        .batch = B, .prompt = P, .ctx = ctx, .logits_all = all, .arena = arena, .kv = kv
    };
    must(mt_engine_open(&r->engine, r->model, &o, &r->err), &r->err);
    return r;
}

static void close_rig(rig *r) {
    mt_engine_close(r->engine);
    r->model->device = r->inner;
    mt_model_close(r->model);
    mt_alloc_close(r->alloc);
    r->source->close(r->source);
    r->timed->close(r->timed);
    r->inner->close(r->inner);
    mt_checkpoint_close(r->checkpoint);
    free(r);
}

static void generate(rig *r, int32_t *ids) {
    const mt_engine_options *o = &r->engine->options;
    const mt_generation g = { .stop = -1 };
    int32_t prompt[64];
    uint32_t done;
    assert_true(o->batch * o->prompt <= COUNT(prompt));
    mt_seeded_prompt(prompt, o->batch, o->prompt, 1, r->model->config.vocab);
    must(mt_generate(r->engine, prompt, &g, ids, &done, &r->err), &r->err);
}

static const char *const strategies[] = { "concat",     "concat-tuple", "static",
                                          "doubling:4", "paged:3",      "none" };

static void same_events(const rig *a, const rig *b) {
    assert_int_equal(a->events, b->events);
    for (size_t i = 0; i < a->events; i++)
        assert_true(same_event(&a->event[i], &b->event[i]));
}

static void timing_changes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(strategies); i++)
        for (int arena = 0; arena < 2; arena++) {
            int32_t ids[2 * 40], timed_ids[2 * 40];
            rig *plain = open_rig(false, strategies[i], arena, 2, 5, 24, false);
            rig *timed = open_rig(true, strategies[i], arena, 2, 5, 24, false);
            generate(plain, ids);
            mt_timed_start(timed->timed);
            generate(timed, timed_ids);
            must(mt_timed_stop(timed->timed, &timed->err), &timed->err);
            assert_memory_equal(ids, timed_ids, 2 * 20 * sizeof *ids);
            same_events(plain, timed);
            close_rig(plain);
            close_rig(timed);
        }
}

/* FLOPs of the calls between start and stop, and that their times are in order. */
static uint64_t counted(rig *r) {
    uint32_t count;
    uint64_t flops = 0, last = 0;
    must(mt_timed_stop(r->timed, &r->err), &r->err);
    const mt_timing *t = mt_timed_calls(r->timed, &count);
    assert_true(count > 10);
    for (uint32_t i = 0; i < count; i++) {
        flops += t[i].flops;
        assert_true(t[i].begin_ns >= last && t[i].end_ns >= t[i].begin_ns);
        last = t[i].end_ns;
    }
    return flops;
}

static void calls_add_up_to_the_formulas(void **state) {
    (void)state;
    const mt_config c = small();
    for (size_t i = 0; i < COUNT(strategies); i++)
        for (uint32_t P = 1; P <= 20; P += 19)
            for (int all = 0; all < 2; all++) {
                const uint32_t B = 3;
                bool cached = strcmp(strategies[i], "none") != 0;
                int32_t ids[3 * 20], next[3];
                rig *r = open_rig(true, strategies[i], false, B, P, P + 4, all);
                mt_seeded_prompt(ids, B, P, 1, c.vocab);
                for (uint32_t tokens = 0; tokens < P + 4;) {
                    uint32_t T = tokens == 0 ? P : 1;
                    mt_work w = cached ? mt_work_of_pass(&c, B, T, tokens, all)
                                       : mt_work_of_pass(&c, B, tokens + T, 0, all);
                    mt_timed_start(r->timed);
                    must(mt_engine_step(r->engine, tokens == 0 ? ids : next, T, next, &r->err),
                         &r->err);
                    assert_int_equal(counted(r), mt_work_flops(&w));
                    tokens += T;
                }
                close_rig(r);
            }
}

/* A step's calls in order, with their ranges and the work of their shapes. */
static void calls_of_a_step(void **state) {
    (void)state;
    static const struct {
        mt_kernel kernel;
        const char *range;
        uint64_t flops, bytes;
    } expected[] = {
        { MT_KERNEL_HOST, "decode", 0, 4 },
        { MT_KERNEL_EMBED, "decode", 0, 3 * 51 * 4 + 4 },
        { MT_KERNEL_LAYERNORM, "layer 0", 0, 4 * 51 * 4 },
        { MT_KERNEL_LINEAR, "layer 0", 2 * 153 * 51, (153 * 51 + 51 + 153 + 153) * 4 },
        { MT_KERNEL_KV_WRITE, "layer 0", 0, 4 * 51 * 4 },
        { MT_KERNEL_ATTENTION, "layer 0", 4 * 51 * 9, 2 * (8 + 2) * 51 * 4 },
        { MT_KERNEL_LINEAR, "layer 0", 2 * 51 * 51, (51 * 51 + 51 + 2 * 51 + 51) * 4 },
        { MT_KERNEL_LAYERNORM, "layer 0", 0, 4 * 51 * 4 },
        { MT_KERNEL_LINEAR, "layer 0", 2 * 204 * 51, (204 * 51 + 51 + 204 + 204) * 4 },
        { MT_KERNEL_LINEAR, "layer 0", 2 * 204 * 51, (204 * 51 + 204 + 2 * 51 + 51) * 4 },
        { MT_KERNEL_LAYERNORM, "layer 1", 0, 4 * 51 * 4 },
    };
    int32_t ids[8], next;
    uint32_t count;
    rig *r = open_rig(true, "static", false, 1, 8, 20, false);
    mt_seeded_prompt(ids, 1, 8, 1, 97);
    must(mt_engine_step(r->engine, ids, 8, &next, &r->err), &r->err);
    mt_timed_start(r->timed);
    must(mt_engine_step(r->engine, &next, 1, &next, &r->err), &r->err);
    must(mt_timed_stop(r->timed, &r->err), &r->err);
    const mt_timing *t = mt_timed_calls(r->timed, &count);
    assert_int_equal(count, 2 + 3 * 8 + 4); /* ids in, embed; layers; norm, head, argmax, id out */
    for (size_t i = 0; i < COUNT(expected); i++) {
        assert_int_equal(t[i].kernel, expected[i].kernel);
        assert_string_equal(t[i].range, expected[i].range);
        assert_int_equal(t[i].flops, expected[i].flops);
        assert_int_equal(t[i].bytes, expected[i].bytes);
    }
    assert_string_equal(t[count - 3].range, "head");
    assert_int_equal(t[count - 2].kernel, MT_KERNEL_ARGMAX);
    close_rig(r);
}

/* A failure behind the timed device stops the engine and is told once. */
static void failures_pass_through(void **state) {
    (void)state;
    int32_t wrong = 97, right = 3, next;
    rig *r = open_rig(true, "static", false, 1, 1, 4, false);
    assert_int_equal(mt_engine_step(r->engine, &wrong, 1, &next, &r->err), MT_BAD);
    assert_int_equal(r->timed->failure.status, MT_OK);
    r->engine->tokens = 0;
    must(mt_engine_step(r->engine, &right, 1, &next, &r->err), &r->err);
    close_rig(r);
}

static void a_step_again(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(strategies); i++) {
        bool stays = strcmp(strategies[i], "static") == 0 || strchr(strategies[i], ':') != NULL;
        int32_t ids[6], next, again;
        float first[97], second[97];
        rig *r = open_rig(false, strategies[i], false, 1, 6, 10, false);
        mt_seeded_prompt(ids, 1, 6, 1, 97);
        must(mt_engine_step(r->engine, ids, 6, &next, &r->err), &r->err);
        int32_t fed = next;
        must(mt_engine_step(r->engine, &fed, 1, &next, &r->err), &r->err);
        must(mt_engine_logits(r->engine, 0, 1, first, &r->err), &r->err);
        assert_int_equal(mt_engine_rewind(r->engine, 6), stays);
        assert_false(mt_engine_rewind(r->engine, 20));
        if (stays) {
            must(mt_engine_step(r->engine, &fed, 1, &again, &r->err), &r->err);
            must(mt_engine_logits(r->engine, 0, 1, second, &r->err), &r->err);
            assert_int_equal(again, next);
            assert_memory_equal(first, second, sizeof first);
        }
        close_rig(r);
    }
}

static void time_in_the_allocator(void **state) {
    (void)state;
    int32_t ids[20];
    mt_alloc_times times = { 0 };
    rig *r = open_rig(false, "concat", false, 1, 1, 12, false);
    const mt_ledger *l = mt_alloc_ledger(r->alloc);
    size_t events = r->events;
    uint64_t calls = l->allocs + l->frees;
    mt_alloc_time(r->alloc, &times);
    generate(r, ids);
    mt_alloc_time(r->alloc, NULL);
    assert_int_equal(times.calls, l->allocs + l->frees - calls);
    assert_int_equal(times.events, r->events - events);
    assert_true(times.alloc_ns > 0 && times.listen_ns > 0);
    mt_alloc_times before = times;
    mt_mem m;
    must(mt_alloc_get(r->alloc, &(mt_request){ .bytes = 9, .tag = MT_OTHER, .layer = -1 }, &m,
                      &r->err),
         &r->err);
    mt_alloc_put(r->alloc, &m, NULL);
    assert_memory_equal(&before, &times, sizeof times);
    close_rig(r);
}

/* ---- the Chrome trace ------------------------------------------------------------------------ */

static char *temporary(char path[64]) {
    snprintf(path, 64, "/tmp/memtrace-chrome-%d.json", (int)getpid());
    return path;
}

static void a_profile_is_json(void **state) {
    (void)state;
    char path[64];
    mt_error err;
    mt_chrome *c;
    json_error_t bad;
    must(mt_chrome_open(&c, temporary(path), "a \"process\"", &err), &err);
    assert_int_not_equal(access(path, F_OK), 0);
    mt_chrome_track(c, 1, "track\\one\n");
    mt_chrome_arg args[] = { { "bytes", UINT64_MAX / 2 }, { "flops", 0 } };
    mt_chrome_span(c, 1, "linear", "layer 3", 1.25, 1234567.891, args, 2);
    mt_chrome_span(c, 1, "bare", "", 0, 0, NULL, 0);
    mt_chrome_counter(c, "memory", 2.5, args, 1);
    must(mt_chrome_commit(c, &err), &err);
    json_t *root = json_load_file(path, 0, &bad);
    unlink(path);
    assert_non_null(root);
    json_t *events = json_object_get(root, "traceEvents");
    assert_int_equal(json_array_size(events), 5);
    json_t *process = json_object_get(json_array_get(events, 0), "args");
    assert_string_equal(json_string_value(json_object_get(process, "name")), "a \"process\"");
    json_t *track = json_object_get(json_array_get(events, 1), "args");
    assert_string_equal(json_string_value(json_object_get(track, "name")), "track\\one\n");
    json_t *span = json_array_get(events, 2);
    assert_string_equal(json_string_value(json_object_get(span, "ph")), "X");
    assert_string_equal(json_string_value(json_object_get(span, "cat")), "layer 3");
    assert_true(json_number_value(json_object_get(span, "ts")) == 1.25);
    assert_true(json_number_value(json_object_get(span, "dur")) == 1234567.891);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(span, "args"), "bytes")),
                     INT64_MAX);
    assert_string_equal(json_string_value(json_object_get(json_array_get(events, 4), "ph")), "C");
    json_decref(root);
}

static void an_abandoned_profile_leaves_nothing(void **state) {
    (void)state;
    char path[64];
    mt_error err;
    mt_chrome *c;
    must(mt_chrome_open(&c, temporary(path), "p", &err), &err);
    mt_chrome_abandon(c);
    mt_chrome_abandon(NULL);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(mt_chrome_open(&c, "/nowhere/at/all.json", "p", &err), MT_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_gpt2_small),
        cmocka_unit_test(generating_1016_tokens),
        cmocka_unit_test(timing_changes_nothing),
        cmocka_unit_test(calls_add_up_to_the_formulas),
        cmocka_unit_test(calls_of_a_step),
        cmocka_unit_test(failures_pass_through),
        cmocka_unit_test(a_step_again),
        cmocka_unit_test(time_in_the_allocator),
        cmocka_unit_test(a_profile_is_json),
        cmocka_unit_test(an_abandoned_profile_leaves_nothing),
    };
    return cmocka_run_group_tests_name("study", tests, NULL, NULL);
}
