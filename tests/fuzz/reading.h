/* reading.h - what the targets of formats share: a file of these bytes is read, each item held
 * against what readers guarantee, and replayed. */
#ifndef MT_TESTS_FUZZ_READING_H
#define MT_TESTS_FUZZ_READING_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fuzz/targets.h"
#include "traces/replay.h"

#define ITEMS_MOST (1 << 21)

/* A request has bytes and an id that is not live; a free names what is live, or nothing. */
static inline void hold_to_it(mt_numbers *live, const mt_item *item) {
    if (item->kind == MT_ITEM_ALLOC) {
        if (item->bytes == 0 || mt_numbers_find(live, item->id) != MT_NO_NUMBER ||
            mt_numbers_take(live, item->id) != item->live)
            abort();
    } else if (item->kind == MT_ITEM_FREE && item->live != MT_NO_LIVE) {
        if (mt_numbers_drop(live, item->id) != item->live)
            abort();
    }
}

static inline mt_status read_items(mt_reader *r, mt_replay *replay, mt_numbers *live,
                                   mt_error *err) {
    mt_item item;
    int n = 0;
    do {
        MT_TRY(mt_reader_next(r, &item, err));
        hold_to_it(live, &item);
        MT_TRY(mt_replay_item(replay, &item, err));
    } while (item.kind != MT_ITEM_END && ++n < ITEMS_MOST);
    return MT_OK;
}

static inline void replay_file(const char *path, const mt_reading *how) {
    mt_reader *r;
    mt_source *source;
    mt_alloc *alloc;
    mt_replay replay;
    mt_error err;
    mt_numbers live = { 0 };
    if (mt_reader_open_as(&r, path, how, &err) != MT_OK)
        return;
    if (mt_source_sim(&source, (uint64_t)16 << 30, 2 << 20, &err) != MT_OK ||
        mt_alloc_open(&alloc, source, "torch", &err) != MT_OK ||
        mt_replay_open(&replay, &alloc, 1, &err) != MT_OK)
        abort();
    mt_status status = read_items(r, &replay, &live, &err);
    if (status == MT_OK || status == MT_BAD)
        status = mt_alloc_check(alloc, &err);
    if (status != MT_OK) {
        fprintf(stderr, "status %d: %s\n", status, err.text);
        abort();
    }
    mt_replay_close(&replay);
    mt_alloc_close(alloc);
    source->close(source);
    mt_reader_close(r);
    mt_numbers_free(&live);
}

/* Bytes as a file of a format, however they begin. */
static inline void fuzz_format(const char *word, const uint8_t *data, size_t n) {
    const mt_reading how = { .format = mt_format_find(word), .most = 1 << 24 };
    char path[] = "/tmp/memtrace-fuzz-XXXXXX";
    int fd = mkstemp(path);
    if (how.format == NULL || fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    close(fd);
    replay_file(path, &how);
    unlink(path);
}

#define MT_FUZZ_FORMAT(word)                                                                       \
    void mt_fuzz_##word(const uint8_t *data, size_t n) {                                           \
        fuzz_format(#word, data, n);                                                               \
    }

#endif
