/* rig.h - what the tests of the CUDA back end share: the back end on the emulated device, and whole
 * engines on any back end that keep their events. */
#ifndef MT_TESTS_CUDA_RIG_H
#define MT_TESTS_CUDA_RIG_H

#include <math.h>
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
#include "engine/checkpoint/seeded.h"
#include "kernels/cuda/backend.h"
#ifdef MT_REAL_DEVICE
#include "tests/cuda/real_device.h"
#else
#include "tests/cuda_emulation/control.h"
#endif

static inline void must(mt_status status, const mt_error *err) {
    if (status != MT_OK)
        fail_msg("%s", err->text);
}

/* Before each test: a device as after power-on. After it: no fault, nothing left behind. */
static inline int fresh_device(void **state) {
    (void)state;
    mt_emulation_reset();
    mt_emulation_set_quiet(true);
    return 0;
}

static inline int nothing_left(void **state) {
    (void)state;
    if (mt_emulation_faults() > 0)
        print_error("the device found: %s\n", mt_emulation_last_fault());
    bool clean = mt_emulation_faults() == 0 && mt_emulation_print_leaks(stderr) == 0;
    mt_emulation_reset();
    return clean ? 0 : -1;
}

/* Less work, for runs under a watcher. */
static inline bool quick(void) {
    const char *q = getenv("MEMTRACE_QUICK");
    return q != NULL && *q != '\0';
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh_device, nothing_left)

/* ---- an engine on some back end -------------------------------------------------------------- */

typedef enum rig_kind { ON_CUDA, ON_CPU, ON_NOTHING } rig_kind;

typedef struct setup {
    rig_kind kind;
    mt_config config;
    const char *folder; /* of a checkpoint, which gives the shape; NULL: seeded */
    mt_engine_options options;
    const char *policy; /* NULL: torch */
    uint64_t capacity;  /* 0: 4 GiB */
    mt_cuda_options cuda;
} setup;

typedef struct rig {
    rig_kind kind;
    mt_cuda_backend cuda;
    mt_device *device;
    mt_source *source;
    mt_alloc *alloc;
    mt_checkpoint *ck;
    mt_model *model;
    mt_engine *engine;
    mt_event *event;
    size_t events, room;
    mt_error err, late;
} rig;

static inline void rig_on_event(void *context, const mt_event *e) {
    rig *r = context;
    if (r->events == r->room) {
        r->room = r->room == 0 ? 1024 : 2 * r->room;
        r->event = realloc(r->event, r->room * sizeof *r->event);
        assert_non_null(r->event);
    }
    r->event[r->events++] = *e;
}

static inline mt_status rig_open_device(rig *r, const setup *s) {
    uint64_t capacity = s->capacity > 0 ? s->capacity : 4 * MT_GIB;
    r->kind = s->kind;
    if (s->kind == ON_CUDA) {
        mt_cuda_options o = s->cuda;
        o.capacity = capacity;
#ifndef MT_REAL_DEVICE
        o.block = o.block > 0 ? o.block : 32; /* an emulated thread is dear */
#endif
        o.late = &r->late;
        MT_TRY(mt_cuda_open(&r->cuda, &o, &r->err));
        r->device = r->cuda.device;
        r->source = r->cuda.source;
        return MT_OK;
    }
    if (s->kind == ON_CPU) {
        MT_TRY(mt_device_cpu(&r->device, 1, &r->err));
        return mt_source_host(&r->source, capacity, &r->err);
    }
    MT_TRY(mt_device_none(&r->device, &r->err));
    return mt_source_sim(&r->source, capacity, 4 * MT_KIB, &r->err);
}

/* Opens all that a run needs; what was opened is closed by rig_close, on failure too. */
static inline mt_status rig_open(rig *r, const setup *s) {
    *r = (rig){ .kind = s->kind };
    MT_TRY(rig_open_device(r, s));
    MT_TRY(mt_alloc_open(&r->alloc, r->source, s->policy ? s->policy : "torch", &r->err));
    mt_alloc_listen(r->alloc, (mt_listener){ rig_on_event, r });
    MT_TRY(s->folder != NULL ? mt_checkpoint_open(&r->ck, s->folder, &r->err)
                             : mt_checkpoint_seeded(&r->ck, &s->config, 5, &r->err));
    MT_TRY(mt_model_load(&r->model, r->ck, mt_checkpoint_config(r->ck), r->alloc, r->device, 1,
                         NULL, NULL, &r->err));
    return mt_engine_open(&r->engine, r->model, &s->options, &r->err);
}

/* Frees everything and looks whether the ledger is back to zero. */
static inline void rig_close(rig *r) {
    mt_engine_close(r->engine);
    mt_model_close(r->model);
    if (r->alloc != NULL) {
        mt_alloc_trim(r->alloc);
        mt_alloc_trim(r->alloc); /* in case the first was made to fail */
        const mt_ledger *l = mt_alloc_ledger(r->alloc);
        assert_int_equal(l->requested.current, 0);
        assert_int_equal(l->reserved.current, 0);
        assert_int_equal(l->segments, 0);
        mt_alloc_close(r->alloc);
    }
    if (r->source != NULL) {
        assert_int_equal(r->source->used, 0);
        if (r->err.status == MT_OK &&
            r->device->failure.status == MT_OK) /* a failed measurement leaves it inexact */
            assert_int_equal(r->source->driver_bytes, 0);
        r->source->close(r->source);
    }
    mt_checkpoint_close(r->ck);
    if (r->device != NULL)
        r->device->close(r->device);
    free(r->event);
    r->event = NULL;
}

/* A small model of four layers; heads of 17, which no warp divides. */
static inline mt_config four_layers(void) {
    return (mt_config){ .layers = 4,
                        .heads = 3,
                        .width = 51,
                        .vocab = 97,
                        .positions = 80,
                        .inner = 204,
                        .epsilon = 1e-5f,
                        .tied = true,
                        .dtype = MT_F32 };
}

static inline mt_engine_options options_of(const char *kv, uint32_t batch, uint32_t prompt,
                                           uint32_t ctx, bool arena, uint64_t workspace) {
    return (mt_engine_options){ .batch = batch,
                                .prompt = prompt,
                                .ctx = ctx,
                                .arena = arena,
                                .kv = kv,
                                .workspace = workspace };
}

/* The whole run, by its own choices. */
static inline mt_status rig_generate(rig *r) {
    const mt_engine_options *o = &r->engine->options;
    const mt_generation g = { .stop = -1 };
    uint32_t done;
    int32_t *prompt = malloc((size_t)o->batch * o->prompt * sizeof *prompt);
    assert_non_null(prompt);
    mt_seeded_prompt(prompt, o->batch, o->prompt, 3, r->model->config.vocab);
    mt_status status = mt_generate(r->engine, prompt, &g, NULL, &done, &r->err);
    free(prompt);
    return status;
}

#endif
