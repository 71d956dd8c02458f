/* read_items.h - files read whole by traces/reader.h, and replayed, for tests. */
#ifndef MT_TESTS_READ_ITEMS_H
#define MT_TESTS_READ_ITEMS_H

#include "tests/temp_files.h"
#include "traces/replay.h"

#define MOST 32

/* The items of a file but for notes and the end. Pointers in them are of no use any more. */
typedef struct items {
    mt_item at[MOST];
    size_t count, notes;
    char lacks[MT_LACKS];
} items;

static inline mt_status read_as(const char *path, const mt_reading *how, items *all,
                                mt_error *err) {
    mt_reader *r;
    mt_item item;
    mt_status status;
    *err = (mt_error){ MT_OK, "" };
    *all = (items){ .count = 0 };
    MT_TRY(mt_reader_open_as(&r, path, how, err));
    while ((status = mt_reader_next(r, &item, err)) == MT_OK && item.kind != MT_ITEM_END) {
        all->notes += item.kind == MT_ITEM_NOTE;
        if (item.kind != MT_ITEM_NOTE && all->count < MOST)
            all->at[all->count++] = item;
    }
    mt_reader_lacks(r, all->lacks);
    mt_reader_close(r);
    return status;
}

static inline mt_status read_file(const char *path, items *all, mt_error *err) {
    return read_as(path, NULL, all, err);
}

static inline mt_status read_text(const char *text, size_t n, items *all, mt_error *err) {
    return read_file(temp_write("recording", text, n), all, err);
}

/* The items of a sample, which is whole. */
static inline void read_sample(const char *text, size_t n, items *all) {
    mt_error err;
    if (read_text(text, n, all, &err) != MT_OK)
        fail_msg("%s", err.text);
}

static inline void refused(const char *text, size_t n, int line, const char *words) {
    items all;
    mt_error err;
    char place[32];
    snprintf(place, sizeof place, line > 0 ? "/recording:%d: " : "/recording: ", line);
    if (read_text(text, n, &all, &err) != MT_BAD || err.status != MT_BAD)
        fail_msg("not refused, expected: %s", words);
    if (strstr(err.text, place) == NULL || strstr(err.text, words) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", err.text, place, words);
}

/* A sample with the first occurrence of some text replaced. */
static inline void changed(const char *sample, const char *from, const char *to, int line,
                           const char *words) {
    char text[4096];
    const char *at = strstr(sample, from);
    assert_non_null(at);
    int n =
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sample), sample, to, at + strlen(from));
    refused(text, (size_t)n, line, words);
}

/* What became of a sample in the torch policy on a device of 16 GiB. */
typedef struct played {
    mt_status status;
    mt_error err;
    uint64_t requests, elsewhere, unknown, refused, peak, current;
} played;

static inline played play(const char *text, size_t n, uint32_t device) {
    played p;
    mt_source *source;
    mt_alloc *alloc;
    mt_replay replay;
    mt_reader *in;
    assert_int_equal(mt_source_sim(&source, (uint64_t)16 << 30, 2 << 20, &p.err), MT_OK);
    assert_int_equal(mt_alloc_open(&alloc, source, "torch", &p.err), MT_OK);
    assert_int_equal(mt_replay_open(&replay, &alloc, 1, &p.err), MT_OK);
    assert_int_equal(mt_reader_open(&in, temp_write("recording", text, n), &p.err), MT_OK);
    replay.device = device;
    p.status = mt_replay_all(&replay, in, NULL, &p.err);
    p.requests = replay.requests;
    p.elsewhere = replay.elsewhere;
    p.unknown = replay.unknown;
    p.refused = replay.refused[0].count;
    p.peak = mt_alloc_ledger(alloc)->requested.peak;
    p.current = mt_alloc_ledger(alloc)->requested.current;
    mt_reader_close(in);
    mt_alloc_close(alloc);
    source->close(source);
    mt_replay_close(&replay);
    return p;
}

#endif
