/* pickle_writer.h - writes pickles of plain data, as CPython does in protocols 2 to 5, or as
 * PyTorch's own C++ pickler does (a container goes into the memo after it is filled, and is filled
 * in one step however long it is).
 *
 *     pickle_writer w;
 *     pickle_begin(&w, 4, false);
 *     pickle_dict(&w);
 *     pickle_text(&w, "size");
 *     pickle_int(&w, 512);
 *     pickle_end(&w);                            of the dictionary
 *     pickle_stop(&w);                           w.at, w.count
 *     pickle_free(&w);
 *
 * Texts are shared: the second one of a kind is fetched from the memo, as an interned string is. */
#ifndef MT_TESTS_PICKLE_WRITER_H
#define MT_TESTS_PICKLE_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PICKLE_DEPTH = 16, PICKLE_TEXTS = 512, PICKLE_BATCH = 1000 };

typedef struct pickle_level {
    bool dict, tuple;
    size_t items;
} pickle_level;

typedef struct pickle_writer {
    unsigned char *at;
    size_t count, room, frame;
    int protocol;
    bool late; /* containers enter the memo when they are full */
    uint32_t memo;
    int depth;
    pickle_level level[PICKLE_DEPTH];
    char *text[PICKLE_TEXTS];
    uint32_t slot[PICKLE_TEXTS], texts;
} pickle_writer;

static inline void pickle_bytes(pickle_writer *w, const void *data, size_t n) {
    if (w->count + n > w->room) {
        w->room = 2 * (w->count + n) + 64;
        w->at = realloc(w->at, w->room);
        if (w->at == NULL)
            abort();
    }
    memcpy(w->at + w->count, data, n);
    w->count += n;
}

static inline void pickle_op(pickle_writer *w, int op, uint64_t number, int bytes) {
    unsigned char data[9] = { (unsigned char)op };
    for (int i = 0; i < bytes; i++)
        data[1 + i] = (unsigned char)(number >> 8 * i);
    pickle_bytes(w, data, 1 + (size_t)bytes);
}

static inline void pickle_begin(pickle_writer *w, int protocol, bool late) {
    memset(w, 0, sizeof *w);
    w->protocol = protocol;
    w->late = late;
    pickle_op(w, 0x80, (uint64_t)protocol, 1);
    if (protocol >= 4) {
        w->frame = w->count;
        pickle_op(w, 0x95, 0, 8);
    }
}

/* Stores the top in the memo; returns its number. */
static inline uint32_t pickle_memo(pickle_writer *w) {
    if (w->protocol >= 4)
        pickle_op(w, 0x94, 0, 0);
    else
        pickle_op(w, w->memo < 256 ? 'q' : 'r', w->memo, w->memo < 256 ? 1 : 4);
    return w->memo++;
}

static inline void pickle_fetch(pickle_writer *w, uint32_t slot);

/* Fills the innermost container with what stands above its mark, when it is full or a batch. */
static inline void pickle_flush(pickle_writer *w, bool more) {
    pickle_level *l = &w->level[w->depth - 1];
    pickle_op(w, l->tuple ? 't' : l->dict ? 'u' : 'e', 0, 0);
    if (more)
        pickle_op(w, '(', 0, 0);
}

/* Counts an item that is about to be written. */
static inline void pickle_item(pickle_writer *w) {
    if (w->depth == 0)
        return;
    pickle_level *l = &w->level[w->depth - 1];
    size_t batch = l->dict ? 2 * PICKLE_BATCH : PICKLE_BATCH;
    if (l->items > 0 && l->items % batch == 0 && !w->late && !l->tuple)
        pickle_flush(w, true);
    l->items++;
}

static inline void pickle_fetch(pickle_writer *w, uint32_t slot) {
    pickle_item(w);
    pickle_op(w, slot < 256 ? 'h' : 'j', slot, slot < 256 ? 1 : 4);
}

static inline void pickle_open(pickle_writer *w, bool dict, bool tuple) {
    pickle_item(w);
    if (!tuple)
        pickle_op(w, dict ? '}' : ']', 0, 0);
    if (!w->late && !tuple)
        pickle_memo(w);
    pickle_op(w, '(', 0, 0);
    w->level[w->depth++] = (pickle_level){ dict, tuple, 0 };
}

static inline void pickle_dict(pickle_writer *w) {
    pickle_open(w, true, false);
}

static inline void pickle_list(pickle_writer *w) {
    pickle_open(w, false, false);
}

static inline void pickle_tuple(pickle_writer *w) {
    pickle_open(w, false, true);
}

/* Ends the innermost container; returns its number in the memo, of a filled one late writers. */
static inline uint32_t pickle_end(pickle_writer *w) {
    bool tuple = w->level[w->depth - 1].tuple;
    pickle_flush(w, false);
    w->depth--;
    return w->late || tuple ? pickle_memo(w) : 0;
}

static inline void pickle_text(pickle_writer *w, const char *text) {
    size_t n = strlen(text);
    for (uint32_t i = 0; i < w->texts; i++)
        if (strcmp(w->text[i], text) == 0) {
            pickle_fetch(w, w->slot[i]);
            return;
        }
    pickle_item(w);
    if (w->protocol >= 4 && n < 256)
        pickle_op(w, 0x8c, n, 1);
    else
        pickle_op(w, 'X', n, 4);
    pickle_bytes(w, text, n);
    uint32_t slot = pickle_memo(w);
    if (w->texts < PICKLE_TEXTS) {
        w->text[w->texts] = strdup(text);
        w->slot[w->texts++] = slot;
    }
}

static inline void pickle_int(pickle_writer *w, uint64_t n) {
    int bytes = 8;
    pickle_item(w);
    if (n < 256) {
        pickle_op(w, 'K', n, 1);
    } else if (n < 65536) {
        pickle_op(w, 'M', n, 2);
    } else if (n < (uint64_t)1 << 31) {
        pickle_op(w, 'J', n, 4);
    } else {
        while (bytes > 1 && n >> (8 * bytes - 9) == 0)
            bytes--;
        pickle_op(w, 0x8a, (uint64_t)bytes + (n >> 63), 1);
        for (int i = 0; i < bytes; i++)
            pickle_bytes(w, &(unsigned char){ (unsigned char)(n >> 8 * i) }, 1);
        if (n >> 63)
            pickle_bytes(w, "", 1);
    }
}

static inline void pickle_bool(pickle_writer *w, bool value) {
    pickle_item(w);
    pickle_op(w, value ? 0x88 : 0x89, 0, 0);
}

static inline void pickle_double(pickle_writer *w, double value) {
    uint64_t bits, swapped = 0;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++)
        swapped = swapped << 8 | (bits >> 8 * i & 255);
    pickle_item(w);
    pickle_op(w, 'G', swapped, 8);
}

static inline void pickle_none(pickle_writer *w) {
    pickle_item(w);
    pickle_op(w, 'N', 0, 0);
}

static inline void pickle_stop(pickle_writer *w) {
    pickle_op(w, '.', 0, 0);
    for (int i = 0; w->protocol >= 4 && i < 8; i++)
        w->at[w->frame + 1 + (size_t)i] = (unsigned char)((w->count - w->frame - 9) >> 8 * i);
}

static inline void pickle_free(pickle_writer *w) {
    for (uint32_t i = 0; i < w->texts; i++)
        free(w->text[i]);
    free(w->at);
}

#endif
