/* formats.c - the list of formats, and a reader of the one that a file is of. */
#include "traces/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 24 /* characters of an unknown file, in a message */

/* In the order of detection. A new format is entered here. */
const mt_format *const mt_formats[] = {
    &mt_format_trace,
    &mt_format_schedule,
    &mt_format_recording,
    NULL,
};

static const mt_format *format_of(const char *data, size_t n) {
    const mt_format *const *f = mt_formats;
    while (*f != NULL && !(*f)->detect(data, n))
        f++;
    return *f;
}

/* What a file of no known format looks like by its first bytes. */
static const char *looks_like(const char *data, size_t n) {
    static const struct {
        const char *begins, *what;
    } known[] = {
        { "# memtrace", "another output of memtrace" },
        { "\x80", "a Python pickle" },
        { "PK\x03\x04", "a zip archive" },
        { "SQLite format 3", "an SQLite database" },
        { "\x7f"
          "ELF",
          "a program" },
        { "{", "JSON" },
        { "[", "JSON" },
        { "<", "HTML or XML" },
        { "Thread,Time,Action", "an RMM log" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= strlen(known[i].begins) &&
            memcmp(data, known[i].begins, strlen(known[i].begins)) == 0)
            return known[i].what;
    return "something else";
}

/* "a memtrace trace, a schedule of a decode or ..." */
static const char *names(char buffer[static 256]) {
    size_t n = 0;
    for (int i = 0; mt_formats[i] != NULL; i++)
        n += (size_t)snprintf(buffer + n, 256 - n, "%s%s",
                              i == 0                      ? ""
                              : mt_formats[i + 1] == NULL ? " or "
                                                          : ", ",
                              mt_formats[i]->name);
    return buffer;
}

static mt_status no_format(const mt_reader *r, mt_error *err) {
    char expected[256];
    if (r->end == 0)
        return mt_fail(err, MT_BAD, "%s: the file is empty, expected %s", r->path, names(expected));
    return mt_fail(err, MT_BAD, "%s: '%.*s' looks like %s, expected %s", r->path,
                   (int)(r->end < SHOWN ? r->end : SHOWN), r->buffer, looks_like(r->buffer, r->end),
                   names(expected));
}

/* Opens the file and tells its format from its beginning, which stays to be read. */
static mt_status probe(mt_reader *r, const char *path, mt_error *err) {
    r->path = strdup(path);
    if (r->path == NULL)
        return mt_no_memory(err, "reading a recording");
    MT_TRY(mt_input_open(&r->in, path, MT_INPUT_ANY, err));
    MT_TRY(mt_reader_peek(r, err));
    r->format = format_of(r->buffer, r->end);
    return r->format != NULL ? MT_OK : no_format(r, err);
}

static void free_shared(mt_reader *r) {
    mt_input_close(r->in);
    mt_numbers_free(&r->live);
    free(r->settings.policy);
    free(r->buffer);
    free(r->path);
}

mt_status mt_reader_open(mt_reader **out, const char *path, mt_error *err) {
    mt_reader r = { 0 };
    *out = NULL;
    mt_status status = probe(&r, path, err);
    if (status == MT_OK && (*out = calloc(1, r.format->size)) == NULL)
        status = mt_no_memory(err, "reading a recording");
    if (status == MT_OK)
        **out = r;
    else
        free_shared(&r);
    return status;
}

mt_status mt_reader_next(mt_reader *r, mt_item *item, mt_error *err) {
    *item = (mt_item){
        .kind = MT_ITEM_END, .id = MT_NO_ID, .live = MT_NO_LIVE, .layer = -1, .tag = MT_OTHER
    };
    mt_status status = r->format->next(r, item, err);
    item->line = r->line;
    r->begun = r->begun || item->kind != MT_ITEM_NOTE;
    return status;
}

void mt_reader_close(mt_reader *r) {
    if (r == NULL)
        return;
    r->format->close(r);
    free_shared(r);
    free(r);
}
