/* bench_snapshot.c - writes a snapshot to be timed: usage bench_snapshot EVENTS FILE.
 *
 * The torch policy under random requests of 40 bytes to 8 MiB, recorded as PyTorch 2.15 records its
 * allocator: each event a dictionary of nine keys, with one of 400 stacks of 5 to 24 frames. 100
 * bytes an event. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc/alloc.h"
#include "base/array.h"
#include "tests/pickle_writer.h"

enum { LIVE = 4000, STACKS = 400, FRAMES = 3000 };

static pickle_writer w;
static uint64_t seed = 1, events, most, time_us = UINT64_C(1795971438660262);
static uint32_t stack[STACKS], frame[FRAMES]; /* their numbers in the memo */
static MT_ARRAY(mt_block_info) blocks;        /* of the segment that is walked */
static mt_segment_info segment;

static uint64_t draw(uint64_t below) {
    seed = seed * UINT64_C(6364136223846793005) + 1;
    return (seed >> 33) % below;
}

static uint64_t address(uint64_t number, uint64_t offset) {
    return UINT64_C(0x7f0000000000) + (number << 26) + offset;
}

static void key_int(const char *key, uint64_t n) {
    pickle_text(&w, key);
    pickle_int(&w, n);
}

static void key_text(const char *key, const char *text) {
    pickle_text(&w, key);
    pickle_text(&w, text);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void write_frames(void) {
    char text[80];
    pickle_text(&w, "frames");
    pickle_list(&w);
    for (int i = 0; i < FRAMES; i++) {
        frame[i] = w.memo;
        pickle_dict(&w);
        snprintf(text, sizeof text, i % 9 == 0 ? "/home/me/train%d.py" : "/x/torch/nn/m%d.py",
                 i % 50);
        key_text("filename", text);
        key_int("line", (uint64_t)i);
        snprintf(text, sizeof text, "f%d", i % 200);
        key_text("name", text);
        pickle_end(&w);
    }
    pickle_end(&w);
    pickle_text(&w, "stacks");
    pickle_list(&w);
    for (int i = 0; i < STACKS; i++) {
        stack[i] = w.memo;
        pickle_list(&w);
        for (uint64_t n = 5 + draw(20); n > 0; n--)
            pickle_fetch(&w, frame[draw(FRAMES)]);
        pickle_end(&w);
    }
    pickle_end(&w);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void write_event(const char *action, uint64_t at, uint64_t size) {
    events++;
    time_us += draw(40);
    pickle_dict(&w);
    key_text("action", action);
    key_int("addr", at);
    key_int("size", size);
    key_int("stream", 0);
    key_int("time_us", time_us);
    pickle_text(&w, "compile_context"); /* a text of each event's own, as there */
    pickle_item(&w);
    pickle_op(&w, 0x8c, 3, 1);
    pickle_bytes(&w, "N/A", 3);
    pickle_memo(&w);
    key_text("user_metadata", "");
    pickle_text(&w, "pool_id");
    pickle_tuple(&w);
    pickle_int(&w, 0);
    pickle_int(&w, 0);
    pickle_end(&w);
    pickle_text(&w, "frames");
    pickle_fetch(&w, stack[draw(STACKS)]);
    pickle_end(&w);
}

static void on_event(void *context, const mt_event *e) {
    static const char *const actions[] = { [MT_EV_ALLOC] = "alloc",
                                           [MT_EV_FREE] = "free_completed",
                                           [MT_EV_SEGMENT_ALLOC] = "segment_alloc",
                                           [MT_EV_SEGMENT_FREE] = "segment_free" };
    bool block = e->kind == MT_EV_ALLOC || e->kind == MT_EV_FREE;
    (void)context;
    write_event(actions[e->kind], address(e->segment, e->offset),
                block ? e->requested : e->rounded);
}

/* A request where nothing is live, else its free. */
static void act(mt_alloc *a, mt_mem *m) {
    mt_error err;
    mt_live_info info;
    uint64_t kind = draw(10);
    if (m->handle == 0) {
        uint64_t size = kind < 6   ? 40 + draw(4000)
                        : kind < 9 ? 1 + draw(1 << 20)
                                   : 1 + draw(8 << 20);
        const mt_request r = { size, MT_OTHER, -1, 0 };
        (void)mt_alloc_get(a, &r, m, &err);
    } else if (mt_alloc_info(a, *m, &info, &err) == MT_OK) {
        write_event("free_requested", address(info.segment, info.offset), info.requested);
        (void)mt_alloc_put(a, m, &err);
    }
}

static void write_events(mt_alloc *a) {
    static mt_mem live[LIVE];
    pickle_text(&w, "device_traces");
    pickle_list(&w);
    pickle_list(&w);
    while (events < most)
        act(a, &live[draw(LIVE)]);
    pickle_end(&w);
    pickle_end(&w);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void write_blocks(void) {
    pickle_text(&w, "blocks");
    pickle_list(&w);
    for (size_t i = 0; i < blocks.count; i++) {
        const mt_block_info *b = &blocks.at[i];
        pickle_dict(&w);
        key_int("address", address(segment.number, b->offset));
        key_int("size", b->size);
        key_int("requested_size", b->requested);
        key_text("state", b->state == MT_BLOCK_ACTIVE ? "active_allocated" : "inactive");
        pickle_end(&w);
    }
    pickle_end(&w);
}

static void write_segment(void) {
    uint64_t live = 0, requested = 0;
    if (blocks.count == 0)
        return;
    for (size_t i = 0; i < blocks.count; i++)
        if (blocks.at[i].state == MT_BLOCK_ACTIVE) {
            live += blocks.at[i].size;
            requested += blocks.at[i].requested;
        }
    pickle_dict(&w);
    key_int("device", 0);
    key_int("address", address(segment.number, 0));
    key_int("total_size", segment.bytes);
    key_int("allocated_size", live);
    key_int("active_size", live);
    key_int("requested_size", requested);
    key_int("stream", 0);
    key_text("segment_type", segment.pool == MT_POOL_LARGE ? "large" : "small");
    write_blocks();
    pickle_end(&w);
    blocks.count = 0;
}

static mt_status meet(void *context, const mt_segment_info *s, const mt_block_info *b,
                      mt_error *err) {
    (void)context;
    if (blocks.count > 0 && segment.number != s->number)
        write_segment();
    segment = *s;
    mt_block_info *to = mt_array_push(&blocks);
    if (to == NULL)
        return mt_no_memory(err, "a snapshot");
    *to = *b;
    return MT_OK;
}

static mt_status write_snapshot(mt_alloc *a, mt_error *err) {
    const mt_visitor v = { NULL, meet, NULL };
    pickle_begin(&w, 4, false);
    pickle_dict(&w);
    write_frames();
    write_events(a);
    pickle_text(&w, "segments");
    pickle_list(&w);
    MT_TRY(mt_alloc_walk(a, &v, err));
    write_segment();
    pickle_end(&w);
    pickle_end(&w);
    pickle_stop(&w);
    return MT_OK;
}

int main(int argc, char **argv) {
    mt_source *source;
    mt_alloc *a;
    mt_error err;
    FILE *f = argc == 3 ? fopen(argv[2], "wb") : NULL;
    if (f == NULL || !mt_parse_u64(argv[1], 1, UINT32_MAX, &most))
        return 2;
    if (mt_source_sim(&source, 1024 * MT_GIB, 2 * MT_MIB, &err) != MT_OK ||
        mt_alloc_open(&a, source, "torch", &err) != MT_OK)
        return 4;
    mt_alloc_listen(a, (mt_listener){ on_event, NULL });
    mt_status status = write_snapshot(a, &err);
    mt_alloc_unlisten(a);
    mt_alloc_close(a);
    source->close(source);
    mt_array_free(&blocks);
    if (status == MT_OK && (fwrite(w.at, 1, w.count, f) != w.count || fclose(f) != 0))
        status = MT_FAILED;
    pickle_free(&w);
    return status;
}
