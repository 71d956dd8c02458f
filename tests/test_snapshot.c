/* test_snapshot.c - snapshots of PyTorch's allocator, and their events.
 *
 * A world is our own reproduction of that allocator under random requests. It writes down what
 * PyTorch would have recorded, and what every block was after each event; a snapshot is made of
 * both, in the form of any release. What is read from it, and what follows from its events, must be
 * what was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/alloc.h"
#include "base/size.h"
#include "tests/pickle_writer.h"
#include "traces/timeline.h"

/* ---- a world --------------------------------------------------------------------------------- */

#define PIECES    80
#define STEPS     3000
#define KEEP_EACH 37 /* the state after every so many events is kept */

typedef struct recorded {
    mt_action action;
    uint64_t address, size, stream;
} recorded;

/* A block or the beginning of a segment, as a walk meets it. */
typedef struct met {
    bool segment, large, growable;
    uint64_t address, size, requested, stream;
    uint8_t state;
} met;

typedef struct moment {
    size_t step;
    MT_ARRAY(met) met;
} moment;

typedef struct world {
    mt_source *source;
    mt_alloc *alloc;
    mt_mem piece[PIECES];
    MT_ARRAY(recorded) events;
    MT_ARRAY(moment) moments;
    uint64_t stream[STEPS + 1000]; /* of each segment */
    uint64_t seed;
} world;

static uint64_t draw(world *w, uint64_t below) {
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->seed >> 33) % below;
}

static uint64_t address_of(uint64_t segment, uint64_t offset) {
    return UINT64_C(0x700000000000) + (segment << 38) + offset;
}

static mt_status meet(void *context, const mt_segment_info *s, const mt_block_info *b,
                      mt_error *err) {
    moment *m = context;
    static uint64_t end; /* of the run of mapped blocks */
    (void)err;
    if (b->state == MT_BLOCK_UNMAPPED)
        return MT_OK;
    uint64_t address = address_of(s->number, b->offset);
    if (m->met.count == 0 || address != end) {
        met *run = mt_array_push(&m->met);
        *run = (met){ .segment = true,
                      .large = s->pool == MT_POOL_LARGE,
                      .growable = s->growable,
                      .address = address,
                      .stream = s->stream };
    }
    end = address + b->size;
    met *block = mt_array_push(&m->met);
    *block = (met){
        .address = address, .size = b->size, .requested = b->requested, .state = (uint8_t)b->state
    };
    return MT_OK;
}

static void keep_moment(world *w) {
    moment *m = mt_array_push(&w->moments);
    *m = (moment){ .step = w->events.count };
    const mt_visitor v = { NULL, meet, m };
    assert_int_equal(mt_alloc_walk(w->alloc, &v, NULL), MT_OK);
}

static void record(world *w, mt_action action, uint64_t address, uint64_t size, uint64_t stream) {
    recorded *r = mt_array_push(&w->events);
    *r = (recorded){ action, address, size, stream };
}

static void on_event(void *context, const mt_event *e) {
    world *w = context;
    bool block = e->kind == MT_EV_ALLOC || e->kind == MT_EV_FREE;
    if (e->kind == MT_EV_SEGMENT_ALLOC || e->kind == MT_EV_SEGMENT_MAP)
        w->stream[e->segment] = e->stream;
    record(w, mt_action_of(e->kind),
           e->kind == MT_EV_OOM ? e->offset : address_of(e->segment, e->offset),
           block ? e->requested : e->rounded,
           e->kind == MT_EV_OOM ? e->stream : w->stream[e->segment]);
}

static uint64_t draw_size(world *w) {
    static const uint64_t most[] = { 2000, 700000, 3 << 20, 12 << 20, 30 << 20 };
    return 1 + draw(w, most[draw(w, 5)]);
}

/* A request, a free, a use by another stream, or an empty_cache. */
static void act(world *w) {
    mt_error err;
    mt_mem *m = &w->piece[draw(w, PIECES)];
    uint64_t what = draw(w, 100);
    if (what == 0) {
        mt_alloc_trim(w->alloc);
    } else if (what < 3) {
        mt_alloc_hold(w->alloc, what == 1);
    } else if (m->handle == 0) {
        const mt_request r = { draw_size(w), MT_OTHER, -1, (uint32_t)draw(w, 3) };
        (void)mt_alloc_get(w->alloc, &r, m, &err);
    } else if (what < 10) {
        assert_int_equal(mt_alloc_use(w->alloc, *m, (uint32_t)draw(w, 3), &err), MT_OK);
    } else {
        mt_live_info info;
        assert_int_equal(mt_alloc_info(w->alloc, *m, &info, &err), MT_OK);
        record(w, MT_ACTION_FREE_REQUESTED, address_of(info.segment, info.offset), info.requested,
               info.stream);
        assert_int_equal(mt_alloc_put(w->alloc, m, &err), MT_OK);
    }
}

static void make_world(world *w, const char *policy, uint64_t seed) {
    mt_error err = { MT_OK, "" };
    memset(w, 0, sizeof *w);
    w->seed = seed;
    assert_int_equal(mt_source_sim(&w->source, 600 * MT_MIB, 2 * MT_MIB, &err), MT_OK);
    if (mt_alloc_open(&w->alloc, w->source, policy, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_alloc_listen(w->alloc, (mt_listener){ on_event, w });
    for (size_t next = 0; w->events.count < STEPS;) {
        act(w);
        if (w->events.count >= next) {
            keep_moment(w);
            next = w->events.count + KEEP_EACH;
        }
    }
    keep_moment(w);
}

static void free_world(world *w) {
    mt_alloc_unlisten(w->alloc);
    mt_alloc_close(w->alloc);
    w->source->close(w->source);
    for (size_t i = 0; i < w->moments.count; i++)
        mt_array_free(&w->moments.at[i].met);
    mt_array_free(&w->moments);
    mt_array_free(&w->events);
}

/* ---- a snapshot of it ------------------------------------------------------------------------ */

/* What releases differ in. */
typedef struct form {
    int protocol;
    bool late;       /* by the pickler of C++ */
    bool dictionary; /* not a bare list of segments */
    bool requested;  /* sizes and addresses of blocks, expandable segments (from 2.1 on) */
    bool times, newest;
    size_t skip; /* events that the ring has lost */
} form;

static void key_int(pickle_writer *p, const char *key, uint64_t n) {
    pickle_text(p, key);
    pickle_int(p, n);
}

static void key_text(pickle_writer *p, const char *key, const char *text) {
    pickle_text(p, key);
    pickle_text(p, text);
}

static void empty_list(pickle_writer *p, const char *key) {
    pickle_text(p, key);
    pickle_list(p);
    pickle_end(p);
}

static void pool_id(pickle_writer *p, const char *key) {
    pickle_text(p, key);
    pickle_tuple(p);
    pickle_int(p, 0);
    pickle_int(p, 0);
    pickle_end(p);
}

/* Frames that differ by a number; their dictionaries are not shared. */
static void frames(pickle_writer *p, uint64_t n) {
    pickle_text(p, "frames");
    pickle_list(p);
    for (uint64_t i = 0; i < 2; i++) {
        pickle_dict(p);
        key_text(p, "name", i == 0 ? "empty" : "forward");
        key_text(p, "filename",
                 i == 0 ? "/x/site-packages/torch/nn/linear.py" : "/home/me/train.py");
        key_int(p, "line", i == 0 ? 7 : n % 5);
        pickle_end(p);
    }
    pickle_end(p);
}

static void write_history(pickle_writer *p, const met *b) {
    pickle_text(p, "history");
    pickle_list(p);
    pickle_dict(p);
    key_int(p, "addr", b->address);
    key_int(p, "real_size", b->requested);
    frames(p, b->size);
    pickle_end(p);
    pickle_end(p);
}

static void write_block(pickle_writer *p, const form *f, const met *b) {
    static const char *const states[] = { [MT_BLOCK_ACTIVE] = "active_allocated",
                                          [MT_BLOCK_PENDING] = "active_pending_free",
                                          [MT_BLOCK_FREE] = "inactive" };
    pickle_dict(p);
    if (f->requested) {
        key_int(p, "address", b->address);
        key_int(p, "requested_size", b->requested);
        frames(p, b->requested);
    }
    key_int(p, "size", b->size);
    key_text(p, "state", states[b->state]);
    if (!f->requested && b->state != MT_BLOCK_FREE)
        write_history(p, b);
    pickle_end(p);
}

/* The segment that met[0] begins; returns how many entries it has. */
static size_t write_segment(pickle_writer *p, const form *f, const met *g, size_t n) {
    uint64_t total = 0, allocated = 0, active = 0, requested = 0;
    size_t end = 1;
    for (; end < n && !g[end].segment; end++) {
        bool live = g[end].state != MT_BLOCK_FREE;
        total += g[end].size;
        allocated += g[end].state == MT_BLOCK_ACTIVE ? g[end].size : 0;
        active += live ? g[end].size : 0;
        requested += live ? g[end].requested : 0;
    }
    pickle_dict(p);
    key_int(p, "device", 0);
    key_int(p, "address", g->address);
    key_int(p, "total_size", total);
    key_int(p, "allocated_size", allocated);
    key_int(p, "active_size", active);
    key_int(p, "stream", g->stream);
    key_text(p, "segment_type", g->large ? "large" : "small");
    if (f->requested) {
        key_int(p, "requested_size", requested);
        pool_id(p, "segment_pool_id");
        pickle_text(p, "is_expandable");
        pickle_bool(p, g->growable);
        empty_list(p, "frames");
    }
    pickle_text(p, "blocks");
    pickle_list(p);
    for (size_t i = 1; i < end; i++)
        write_block(p, f, &g[i]);
    pickle_end(p);
    pickle_end(p);
    return end;
}

static void write_segments(pickle_writer *p, const form *f, const world *w) {
    const moment *m = &w->moments.at[w->moments.count - 1];
    pickle_list(p);
    for (size_t i = 0; i < m->met.count;)
        i += write_segment(p, f, &m->met.at[i], m->met.count - i);
    pickle_end(p);
}

static void write_event(pickle_writer *p, const form *f, const recorded *e, size_t i) {
    pickle_dict(p);
    key_text(p, "action", mt_action_name(e->action));
    key_int(p, e->action == MT_ACTION_OOM ? "device_free" : "addr", e->address);
    key_int(p, "size", e->size);
    key_int(p, "stream", e->stream);
    if (f->times)
        key_int(p, "time_us", UINT64_C(1700000000000000) + 10 * i);
    if (f->newest) {
        key_text(p, "compile_context", "N/A");
        key_text(p, "user_metadata", i % 100 == 0 ? "a phase" : "");
        pool_id(p, "pool_id");
        frames(p, i);
    }
    pickle_end(p);
}

static void write_traces(pickle_writer *p, const form *f, const world *w) {
    pickle_text(p, "device_traces");
    pickle_list(p);
    pickle_list(p);
    for (size_t i = f->skip; i < w->events.count; i++)
        write_event(p, f, &w->events.at[i], i);
    pickle_end(p);
    for (int i = 0; i < 2; i++) { /* further devices without events */
        pickle_list(p);
        pickle_end(p);
    }
    pickle_end(p);
}

static void write_settings(pickle_writer *p) {
    pickle_text(p, "allocator_settings");
    pickle_dict(p);
    key_text(p, "PYTORCH_CUDA_ALLOC_CONF", "");
    pickle_text(p, "max_split_size");
    pickle_int(p, UINT64_MAX); /* as an unsigned number; -1 comes from CPython */
    pickle_text(p, "garbage_collection_threshold");
    pickle_double(p, 0.25);
    pickle_text(p, "expandable_segments");
    pickle_bool(p, false);
    pickle_text(p, "roundup_power2_divisions");
    pickle_dict(p);
    for (unsigned i = 0; i < 16; i++) {
        char mib[8];
        snprintf(mib, sizeof mib, "%u", 1u << i);
        key_int(p, mib, 0);
    }
    pickle_end(p);
    pickle_end(p);
}

static void write_snapshot(pickle_writer *p, const form *f, const world *w) {
    pickle_begin(p, f->protocol, f->late);
    if (f->dictionary) {
        pickle_dict(p);
        pickle_text(p, "segments");
    }
    write_segments(p, f, w);
    if (f->dictionary) {
        write_traces(p, f, w);
        if (f->requested)
            write_settings(p);
        if (f->newest) {
            empty_list(p, "external_annotations");
            empty_list(p, "host_segments");
            empty_list(p, "host_traces");
        }
        pickle_end(p);
    }
    pickle_stop(p);
}

/* ---- reading it ------------------------------------------------------------------------------ */

typedef struct reading {
    mt_snapshot s;
    mt_timeline t;
    mt_source *source;
    mt_alloc *rules;
    uint64_t events;
} reading;

static mt_status take_events(void *context, const mt_snapshot *s, uint32_t list,
                             const mt_snapshot_event *event, size_t n, mt_error *err) {
    reading *r = context;
    (void)s;
    assert_int_equal(list, 0);
    r->events += n;
    return mt_timeline_add(&r->t, event, n, err);
}

static void read_snapshot(reading *r, const pickle_writer *p) {
    mt_error err = { MT_OK, "" };
    memset(r, 0, sizeof *r);
    mt_timeline_open(&r->t, MT_SNAPSHOT_NONE);
    if (mt_snapshot_read(&r->s, "p", p->at, p->count, take_events, r, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(mt_snapshot_rules(&r->s, &r->source, &r->rules, &err), MT_OK);
    assert_int_equal(mt_timeline_conclude(&r->t, &r->s, r->rules, 0, &err), MT_OK);
}

static void free_reading(reading *r) {
    mt_timeline_close(&r->t);
    mt_snapshot_free(&r->s);
    mt_alloc_close(r->rules);
    r->source->close(r->source);
}

static void assert_final(const reading *r, const form *f, const world *w) {
    const mt_ledger *l = mt_alloc_ledger(w->alloc);
    uint64_t reserved = 0, requested = 0, blocks = 0;
    for (size_t i = 0; i < r->s.segments.count; i++) {
        reserved += r->s.segments.at[i].total;
        blocks += r->s.segments.at[i].blocks;
    }
    for (size_t i = 0; i < r->s.blocks.count; i++)
        requested += r->s.blocks.at[i].state != MT_BLOCK_FREE ? r->s.blocks.at[i].requested : 0;
    assert_int_equal(reserved, l->reserved.current);
    assert_int_equal(requested, l->requested.current);
    assert_int_equal(blocks, r->s.blocks.count);
    assert_int_equal(r->s.history, !f->requested);
    if (!f->dictionary)
        return;
    assert_int_equal(r->events, w->events.count - f->skip);
    assert_int_equal(r->s.lists.count, 1);
    assert_int_equal(r->s.lists.at[0].device, 0);
    for (size_t k = 0; k < MT_ACTIONS; k++) {
        uint64_t n = 0;
        for (size_t i = f->skip; i < w->events.count; i++)
            n += w->events.at[i].action == k;
        assert_int_equal(r->s.lists.at[0].count.at[k], n);
    }
}

/* A view holds what a moment did. exact: every block, else the live ones by place and request, and
 * the segments. */
static void assert_view(const mt_view *v, const moment *m, bool exact) {
    const mt_snapshot_segment *g = v->segments.at;
    const mt_snapshot_block *b = NULL, *end = NULL;
    for (size_t i = 0; i < m->met.count; i++) {
        const met *x = &m->met.at[i];
        while (!exact && b < end && b->state == MT_BLOCK_FREE)
            b++;
        if (x->segment) {
            assert_true(b == end && g < v->segments.at + v->segments.count);
            assert_int_equal(g->address, x->address);
            assert_int_equal(g->large, x->large);
            assert_int_equal(g->stream, x->stream);
            b = v->blocks + g->first;
            end = b + g->blocks;
            g++;
            continue;
        }
        if (!exact && x->state == MT_BLOCK_FREE)
            continue;
        assert_true(b < end);
        assert_int_equal(b->address, x->address);
        assert_int_equal(b->state, x->state);
        if (x->state != MT_BLOCK_FREE)
            assert_int_equal(b->requested, x->requested);
        if (exact)
            assert_int_equal(b->size, x->size);
        b++;
    }
    assert_int_equal(g - v->segments.at, v->segments.count);
}

/* Every kept moment that the events reach, as it was. */
static void assert_moments(const reading *r, const world *w, size_t skip) {
    mt_error err;
    for (size_t i = 0; i < w->moments.count; i++) {
        const moment *m = &w->moments.at[i];
        mt_view v;
        uint64_t step = m->step - skip, odd;
        if (m->step < skip)
            continue;
        assert_int_equal(mt_timeline_at(&r->t, &step, 1, &v, &odd, &err), MT_OK);
        assert_int_equal(odd, 0);
        assert_view(&v, m, skip == 0);
        mt_view_free(&v);
    }
}

/* The highest requested and reserved, and where. */
static void assert_peaks(const reading *r, const world *w) {
    const mt_ledger *l = mt_alloc_ledger(w->alloc);
    uint64_t now = 0, peak = 0, step = 0;
    for (size_t i = 0; i < w->events.count; i++) {
        const recorded *e = &w->events.at[i];
        now += e->action == MT_ACTION_ALLOC ? e->size : 0;
        now -= e->action == MT_ACTION_FREE_COMPLETED ? e->size : 0;
        if (now > peak) {
            peak = now;
            step = i + 1;
        }
    }
    assert_int_equal(peak, l->requested.peak);
    assert_int_equal(r->t.requested.peak, peak);
    assert_int_equal(r->t.requested.step, step);
    assert_int_equal(r->t.requested.now, l->requested.current);
    assert_int_equal(r->t.reserved.peak, l->reserved.peak);
    assert_int_equal(r->t.reserved.now, l->reserved.current);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const char *const POLICIES[] = { "torch", "torch,expandable_segments:True" };

static const form FORMS[] = {
    { 2, false, false, false, false, false, 0 }, /* memory_snapshot of 1.x */
    { 2, false, true, false, false, false, 0 },  /* 2.0: history */
    { 2, true, true, true, true, true, 0 },      /* C++ */
    { 3, false, true, true, false, false, 0 },   /* 2.1: no times */
    { 4, false, true, true, true, false, 0 },    { 4, false, true, true, true, true, 0 },
    { 5, false, true, true, true, true, 0 },
};

#define FORMS_COUNT (sizeof FORMS / sizeof *FORMS)

static void with_snapshot(const world *w, const form *f,
                          void (*test)(const reading *r, const form *f, const world *w)) {
    pickle_writer p;
    reading r;
    write_snapshot(&p, f, w);
    read_snapshot(&r, &p);
    test(&r, f, w);
    free_reading(&r);
    pickle_free(&p);
}

static void check_whole(const reading *r, const form *f, const world *w) {
    assert_final(r, f, w);
    if (!f->dictionary)
        return;
    assert_int_equal(r->t.odd, 0);
    assert_int_equal(r->t.early, 0);
    assert_int_equal(r->t.start.segments.count, 0);
    assert_peaks(r, w);
    assert_moments(r, w, 0);
}

/* Every form of every release, from an empty allocator. */
static void test_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof POLICIES / sizeof *POLICIES; i++) {
        world w;
        make_world(&w, POLICIES[i], 11 + i);
        for (size_t k = 0; k < FORMS_COUNT; k++) {
            /* without is_expandable only what those releases had */
            if (FORMS[k].requested || i == 0)
                with_snapshot(&w, &FORMS[k], check_whole);
        }
        free_world(&w);
    }
}

static void check_cut(const reading *r, const form *f, const world *w) {
    assert_final(r, f, w);
    assert_int_equal(r->t.odd, 0);
    assert_moments(r, w, f->skip);
}

/* The ring has lost the first events: what was there then is found from both ends. */
static void test_warm(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        world w;
        make_world(&w, POLICIES[seed % 2], seed);
        for (size_t skip = 1; skip < w.events.count; skip += w.events.count / 7) {
            form f = FORMS[5];
            f.skip = skip;
            with_snapshot(&w, &f, check_cut);
        }
        free_world(&w);
    }
}

/* Stacks are kept once; 0 is none. */
static void check_stacks(const reading *r, const form *f, const world *w) {
    uint32_t n, length;
    (void)f, (void)w;
    assert_int_equal(mt_intern_count(&r->s.stacks), 6);
    assert_int_equal(mt_intern_count(&r->s.frames), 6);
    const uint32_t *frame = mt_snapshot_stack(&r->s, 3, &n);
    assert_int_equal(n, 2);
    const mt_snapshot_frame *inner = mt_snapshot_frame_of(&r->s, frame[0]);
    assert_string_equal(mt_snapshot_text(&r->s, inner->name, &length), "empty");
    assert_int_equal(length, 5);
    assert_int_equal(inner->line, 7);
    for (size_t i = 0; i < r->s.segments.count; i++)
        assert_int_equal(r->s.segments.at[i].stack, 0);
    assert_true(r->s.settings.told && !r->s.settings.expandable);
    assert_int_equal(r->s.settings.max_split, -1);
    assert_true(r->s.settings.garbage_collection == 0.25);
}

static void test_stacks(void **state) {
    world w;
    (void)state;
    make_world(&w, POLICIES[0], 3);
    with_snapshot(&w, &FORMS[5], check_stacks);
    free_world(&w);
}

/* ---- what is no snapshot --------------------------------------------------------------------- */

static mt_status read_bytes(const void *data, size_t n, mt_error *err) {
    mt_snapshot s;
    char *copy = malloc(n + 1);
    memcpy(copy, data, n);
    mt_status status = mt_snapshot_read(&s, "p", copy, n, NULL, NULL, err);
    if (status == MT_OK)
        mt_snapshot_free(&s);
    free(copy);
    return status;
}

static void assert_refused(const void *data, size_t n, const char *words) {
    mt_error err = { MT_OK, "" };
    assert_int_equal(read_bytes(data, n, &err), MT_BAD);
    if (strstr(err.text, words) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, words);
}

#define PICKLE(bytes) "\x80\x04" bytes, sizeof("\x80\x04" bytes) - 1
#define T(text, n)    "\x8c" n text

static void test_refused(void **state) {
    mt_error err;
    (void)state;
    assert_refused(PICKLE("N."), "no snapshot of PyTorch's allocator");
    assert_refused(PICKLE("}."), "no snapshot of PyTorch's allocator");
    assert_refused(PICKLE("]K\001a."), "no snapshot of PyTorch's allocator");
    assert_refused(PICKLE("cos\nsystem\n."), "opcode GLOBAL");
    assert_refused(PICKLE("](}(" T("action", "\006") "K\001ue."), "action is an integer");
    assert_refused(PICKLE("](}(" T("action", "\006") T("a\nb", "\003") "ue."), "no word");
    assert_refused(PICKLE("](}(" T("state", "\005") T("odd", "\003") T("size", "\004") "K\001ue."),
                   "unknown state");
    assert_refused(PICKLE("](}(" T("total_size", "\012") "Nue."), "total_size is None");
    assert_refused(PICKLE("](}(" T("total_size", "\012") "J\377\377\377\377ue."),
                   "expected a size of at most");
    assert_refused(
        PICKLE("](}(" T("total_size", "\012") "K\001" T("device", "\006") "M\377\377ue."),
        "device number");
    assert_refused(PICKLE("}(" T("x", "\001") "](}(" T("action", "\006")
                              T("alloc", "\005") "ueu"
                                                 "(" T("y", "\001") "Nu."),
                   "no snapshot");
    assert_int_equal(read_bytes(PICKLE("]."), &err), MT_OK);
    assert_int_equal(read_bytes(PICKLE("}(" T("segments", "\010") "]u."), &err), MT_OK);
}

/* Cut at every byte: one clear line. */
static void test_cut(void **state) {
    world w;
    pickle_writer p;
    mt_error err;
    (void)state;
    make_world(&w, POLICIES[0], 5);
    w.events.count = 40;
    write_snapshot(&p, &FORMS[6], &w);
    for (size_t n = 0; n < p.count; n++) {
        assert_int_equal(read_bytes(p.at, n, &err), MT_BAD);
        assert_int_equal(strncmp(err.text, "p: ", 3), 0);
    }
    pickle_free(&p);
    free_world(&w);
}

/* Bytes changed at random: read or refused, followed or counted as odd. */
static void test_damaged(void **state) {
    world w;
    pickle_writer p;
    (void)state;
    make_world(&w, POLICIES[1], 6);
    w.events.count = 200;
    write_snapshot(&p, &FORMS[5], &w);
    for (int i = 0; i < 3000; i++) {
        reading r = { 0 };
        mt_error err;
        mt_view v;
        unsigned char *copy = malloc(p.count);
        memcpy(copy, p.at, p.count);
        for (uint64_t k = draw(&w, 4); k != UINT64_MAX; k--)
            copy[draw(&w, p.count)] = (unsigned char)draw(&w, 256);
        mt_timeline_open(&r.t, MT_SNAPSHOT_NONE);
        if (mt_snapshot_read(&r.s, "p", copy, p.count, take_events, &r, &err) == MT_OK) {
            uint64_t step = r.t.events / 2, odd;
            assert_int_equal(mt_snapshot_rules(&r.s, &r.source, &r.rules, &err), MT_OK);
            assert_int_equal(mt_timeline_conclude(&r.t, &r.s, r.rules, 0, &err), MT_OK);
            assert_int_equal(mt_timeline_at(&r.t, &step, 1, &v, &odd, &err), MT_OK);
            mt_view_free(&v);
            free_reading(&r);
        } else {
            mt_timeline_close(&r.t);
        }
        free(copy);
    }
    pickle_free(&p);
    free_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),   cmocka_unit_test(test_warm), cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_cut),  cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
