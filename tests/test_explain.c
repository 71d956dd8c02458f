/* test_explain.c - what is said of a snapshot whose every byte is known: two devices, a private
 * pool, pinned host memory, a call site that never asks for the same size twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"
#include "reports/explain.h"
#include "tests/pickle_writer.h"

#define BASE UINT64_C(0x7f0000000000)

/* ---- the snapshot ---------------------------------------------------------------------------- */

static void key_int(pickle_writer *p, const char *key, uint64_t n) {
    pickle_text(p, key);
    pickle_int(p, n);
}

static void key_text(pickle_writer *p, const char *key, const char *text) {
    pickle_text(p, key);
    pickle_text(p, text);
}

static void key_pool(pickle_writer *p, const char *key, uint64_t pool) {
    pickle_text(p, key);
    pickle_tuple(p);
    pickle_int(p, 0);
    pickle_int(p, pool);
    pickle_end(p);
}

/* A stack: a line of PyTorch's, and one of the program's. */
static void key_frames(pickle_writer *p, int line) {
    pickle_text(p, "frames");
    pickle_list(p);
    for (int i = 0; line > 0 && i < 2; i++) {
        pickle_dict(p);
        key_text(p, "filename",
                 i == 0 ? "/v/site-packages/torch/nn/linear.py" : "/home/a/train.py");
        key_int(p, "line", i == 0 ? 125 : (uint64_t)line);
        key_text(p, "name", i == 0 ? "forward" : "step");
        pickle_end(p);
    }
    pickle_end(p);
}

static void block(pickle_writer *p, uint64_t address, uint64_t size, uint64_t requested,
                  const char *state, int line) {
    pickle_dict(p);
    key_int(p, "address", address);
    key_int(p, "size", size);
    key_int(p, "requested_size", requested);
    key_text(p, "state", state);
    key_frames(p, line);
    pickle_end(p);
}

/* Begins a segment; its blocks follow, and two pickle_end. */
static void segment(pickle_writer *p, uint64_t device, uint64_t address, uint64_t total,
                    uint64_t pool, const char *type) {
    pickle_dict(p);
    key_int(p, "device", device);
    key_int(p, "address", address);
    key_int(p, "total_size", total);
    key_int(p, "allocated_size", device == 0 ? 4096 : 0);
    key_int(p, "active_size", device == 0 ? 4096 : 0);
    key_int(p, "requested_size", device == 0 ? 4000 : 0);
    key_int(p, "stream", 0);
    key_text(p, "segment_type", type);
    key_pool(p, "segment_pool_id", pool);
    pickle_text(p, "is_expandable");
    pickle_bool(p, false);
    pickle_text(p, "blocks");
    pickle_list(p);
}

static void event(pickle_writer *p, const char *action, uint64_t address, uint64_t size, int line) {
    pickle_dict(p);
    key_text(p, "action", action);
    key_int(p, "addr", address);
    key_int(p, "size", size);
    key_int(p, "stream", 0);
    key_frames(p, line);
    pickle_end(p);
}

/* Device 0: 2 MiB with two live blocks, 2 MiB of a private pool, wholly free. Device 2: 20 MiB with
 * one live block of 3 MiB at its end, its events. Host: 4 MiB. */
static void write_segments(pickle_writer *p) {
    pickle_text(p, "segments");
    pickle_list(p);
    segment(p, 0, BASE, 2 * MT_MIB, 0, "small");
    block(p, BASE, 2048, 2000, "active_allocated", 10);
    block(p, BASE + 2048, MT_MIB, 5, "inactive", 0);
    block(p, BASE + 2048 + MT_MIB, 2048, 2000, "active_pending_free", 10);
    block(p, BASE + 4096 + MT_MIB, MT_MIB - 4096, 0, "inactive", 0);
    pickle_end(p);
    pickle_end(p);
    segment(p, 0, BASE + 4 * MT_MIB, 2 * MT_MIB, 1, "small");
    block(p, BASE + 4 * MT_MIB, 2 * MT_MIB, 0, "inactive", 0);
    pickle_end(p);
    pickle_end(p);
    segment(p, 2, BASE, 20 * MT_MIB, 0, "large");
    block(p, BASE, 17 * MT_MIB, 0, "inactive", 0);
    block(p, BASE + 17 * MT_MIB, 3 * MT_MIB, 3 * MT_MIB - 100, "active_allocated", 20);
    pickle_end(p);
    pickle_end(p);
    pickle_end(p);
    pickle_text(p, "host_segments");
    pickle_list(p);
    segment(p, 0, BASE, 4 * MT_MIB, 0, "large");
    pickle_end(p);
    pickle_end(p);
    pickle_end(p);
}

/* Each request of line 30 is 512 bytes longer than the one before. */
static void write_events(pickle_writer *p) {
    event(p, "segment_alloc", BASE, 20 * MT_MIB, 30);
    for (uint64_t i = 0; i < 40; i++) {
        event(p, "alloc", BASE, 2 * MT_MIB + 512 * i, 30);
        if (i == 39)
            event(p, "alloc", BASE + 17 * MT_MIB, 3 * MT_MIB - 100, 20);
        event(p, "free_requested", BASE, 2 * MT_MIB + 512 * i, 0);
        event(p, "free_completed", BASE, 2 * MT_MIB + 512 * i, 0);
    }
    event(p, "workspace", 0, 1, 0);
}

static void write_snapshot(pickle_writer *p) {
    pickle_begin(p, 4, false);
    pickle_dict(p);
    write_segments(p);
    pickle_text(p, "device_traces");
    pickle_list(p);
    for (int i = 0; i < 4; i++) {
        pickle_list(p);
        if (i == 2)
            write_events(p);
        pickle_end(p);
    }
    pickle_end(p);
    pickle_text(p, "host_traces");
    pickle_list(p);
    event(p, "alloc", BASE, 100, 0);
    event(p, "free_completed", BASE, 100, 0);
    pickle_end(p);
    pickle_end(p);
    pickle_stop(p);
}

/* ---- what is said of it ---------------------------------------------------------------------- */

typedef struct report {
    pickle_writer p;
    mt_snapshot s;
    mt_explain x;
} report;

static void make_report(report *r, mt_explain_options options) {
    mt_error err = { MT_OK, "" };
    write_snapshot(&r->p);
    mt_explain_open(&r->x, &options);
    if (mt_snapshot_read(&r->s, "p", r->p.at, r->p.count, mt_explain_events, &r->x, &err) !=
            MT_OK ||
        mt_explain_conclude(&r->x, &r->s, &err) != MT_OK)
        fail_msg("%s", err.text);
}

static void free_report(report *r) {
    mt_explain_close(&r->x);
    mt_snapshot_free(&r->s);
    pickle_free(&r->p);
}

static void assert_share(const mt_share *s, uint64_t reserved, uint64_t requested,
                         uint64_t rounding, uint64_t split, uint64_t cached) {
    assert_int_equal(s->reserved, reserved);
    assert_int_equal(s->requested, requested);
    assert_int_equal(s->rounding, rounding);
    assert_int_equal(s->split, split);
    assert_int_equal(s->cached, cached);
    assert_int_equal(reserved, requested + rounding + split + cached);
}

static void test_devices(void **state) {
    report r;
    (void)state;
    make_report(&r, (mt_explain_options){ .device = -1, .rows = 10 });
    assert_int_equal(r.x.devices.count, 2);
    const mt_explain_device *a = &r.x.devices.at[0], *b = &r.x.devices.at[1];
    assert_int_equal(a->device, 0);
    assert_int_equal(b->device, 2);
    assert_int_equal(a->reserved, 4 * MT_MIB);
    assert_int_equal(a->allocated, 8192); /* as the file states it */
    assert_int_equal(a->requested, 8000);
    assert_int_equal(a->blocks, 5);
    assert_null(a->timeline);
    assert_int_equal(b->reserved, 20 * MT_MIB);
    assert_int_equal(b->timeline->events, 1 + 3 * 40 + 1 + 1);
    assert_int_equal(r.x.host_segments, 1);
    assert_int_equal(r.x.host_bytes, 4 * MT_MIB);
    assert_int_equal(r.x.host_events, 2);
    free_report(&r);
}

static void test_account(void **state) {
    report r;
    (void)state;
    make_report(&r, (mt_explain_options){ .device = 0, .rows = 10 });
    assert_int_equal(r.x.devices.count, 1);
    const mt_account *a = &r.x.devices.at[0].end.account;
    assert_share(&a->total, 4 * MT_MIB, 4000, 96, 2 * MT_MIB - 4096, 2 * MT_MIB);
    assert_int_equal(a->total.pending, 2048);
    assert_int_equal(a->allocated, 2048);
    assert_int_equal(a->active, 4096);
    assert_int_equal(a->by_rule, 96);
    assert_int_equal(a->unsplit, 0);
    assert_int_equal(a->dormant, 2 * MT_MIB - 4096);
    assert_int_equal(a->rows.count, 2);
    assert_share(&a->rows.at[a->rows.at[0].pool != 0].share, 2 * MT_MIB, 4000, 96,
                 2 * MT_MIB - 4096, 0);
    assert_share(&a->rows.at[a->rows.at[0].pool == 0].share, 2 * MT_MIB, 0, 0, 0, 2 * MT_MIB);
    assert_int_equal(a->pinned.count, 1);
    assert_int_equal(a->pinned.at[0].live, 2);
    assert_int_equal(a->pinned.at[0].largest, MT_MIB);
    mt_figures f = mt_account_figures(a);
    assert_true(f.idle == 1 - 4096.0 / (4 << 20));
    assert_true(f.captive == (double)((2 << 20) - 4096) / (4 << 20));
    assert_true(f.scattered == 1 - (double)(2 << 20) / ((4 << 20) - 4096));
    free_report(&r);
}

static const mt_caller *site_of_line(const report *r, const mt_explain_device *d, int line) {
    for (size_t i = 0; i < d->sites->at.count; i++) {
        const mt_caller *s = &d->sites->at.at[i];
        if (s->frame != MT_CALLER_UNKNOWN && mt_snapshot_frame_of(&r->s, s->frame)->line == line)
            return s;
    }
    fail_msg("no site at line %d", line);
    return NULL;
}

static void test_sites(void **state) {
    report r;
    char text[200];
    (void)state;
    make_report(&r, (mt_explain_options){ .device = -1, .rows = 10 });
    const mt_caller *s = site_of_line(&r, &r.x.devices.at[0], 10);
    assert_int_equal(s->live[MT_CALLER_FOCUS], 4096);
    assert_int_equal(s->rounding, 96);
    assert_int_equal(s->held_back, 2 * MT_MIB - 4096);
    assert_int_equal(s->pins, 1);
    assert_string_equal(mt_caller_label(text, sizeof text, &r.s, s->frame, false),
                        "/home/a/train.py:10 step");
    assert_string_equal(mt_caller_label(text, sizeof text, &r.s, s->frame, true),
                        "train.py:10 step");

    s = site_of_line(&r, &r.x.devices.at[1], 30);
    assert_int_equal(s->requests, 40);
    assert_true(mt_caller_always_new(s));
    assert_in_range(mt_caller_sizes(s), 36, 40);
    assert_int_equal(s->segments, 1);
    assert_int_equal(s->obtained, 20 * MT_MIB);
    assert_int_equal(s->live[MT_CALLER_FOCUS], 0);
    assert_int_equal(s->live[MT_CALLER_PEAK], 2 * MT_MIB + 512 * 39);
    s = site_of_line(&r, &r.x.devices.at[1], 20);
    assert_false(mt_caller_always_new(s));
    assert_int_equal(s->live[MT_CALLER_FOCUS], 3 * MT_MIB);
    free_report(&r);
}

/* The final state knows that line 20 got its block at the end of the segment; the events alone,
 * that nothing lies before it. */
static void test_moments(void **state) {
    report r;
    (void)state;
    make_report(&r, (mt_explain_options){ .device = 2, .at = MT_AT_STEP, .when = 2, .rows = 10 });
    const mt_explain_device *d = &r.x.devices.at[0];
    assert_share(&d->at.account.total, 20 * MT_MIB, 2 * MT_MIB, 0, 18 * MT_MIB, 0);
    assert_int_equal(d->peak.step, 1 + 3 * 39 + 2);
    assert_int_equal(d->peak.account.total.requested, 5 * MT_MIB + 512 * 39 - 100);
    assert_int_equal(d->end.account.total.requested, 3 * MT_MIB - 100);
    free_report(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_sites),
        cmocka_unit_test(test_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
