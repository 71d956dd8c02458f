/* formats.c - the list of formats, and a reader of the one that a file is of. */
#include "traces/reader.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 24 /* characters of an unknown file, in a message */

/* In the order of detection. A new format is entered here. */
const mt_format *const mt_formats[] = {
    &mt_format_trace, &mt_format_mtb, &mt_format_schedule, &mt_format_recording, NULL,
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
#define NAMES 1024 /* room for the names of all formats */

static const char *names(char buffer[static NAMES]) {
    size_t n = 0;
    for (int i = 0; mt_formats[i] != NULL && n < NAMES; i++)
        n += (size_t)snprintf(buffer + n, NAMES - n, "%s%s",
                              i == 0                      ? ""
                              : mt_formats[i + 1] == NULL ? " or "
                                                          : ", ",
                              mt_formats[i]->name);
    return buffer;
}

static mt_status no_format(const char *name, const char *data, size_t n, mt_error *err) {
    char expected[NAMES];
    if (n == 0)
        return mt_fail(err, MT_BAD, "%s: the file is empty, expected %s", name, names(expected));
    return mt_fail(err, MT_BAD, "%s: '%.*s' looks like %s, expected %s", name,
                   (int)(n < SHOWN ? n : SHOWN), data, looks_like(data, n), names(expected));
}

/* The format as its first bytes tell, which stay to be read. */
static mt_status find_format(mt_input *in, const mt_format **format, mt_error *err) {
    const char *data;
    size_t n;
    MT_TRY(mt_input_peek(in, MT_PEEK, &data, &n, err));
    *format = format_of(data, n);
    return *format != NULL ? MT_OK : no_format(mt_input_name(in), data, n, err);
}

mt_status mt_reader_open(mt_reader **out, const char *path, mt_error *err) {
    const mt_format *format;
    mt_input *in;
    *out = NULL;
    MT_TRY(mt_input_open(&in, path, MT_INPUT_ANY, err));
    mt_status status = find_format(in, &format, err);
    if (status == MT_OK && (*out = calloc(1, format->size)) == NULL)
        status = mt_no_memory(err, "reading a recording");
    if (status == MT_OK)
        **out = (mt_reader){ .format = format, .in = in };
    else
        mt_input_close(in);
    return status;
}

mt_status mt_reader_next(mt_reader *r, mt_item *item, mt_error *err) {
    mt_item_clear(item);
    mt_status status = r->format->next(r, item, err);
    item->line = r->line;
    r->begun = r->begun || item->kind != MT_ITEM_NOTE;
    return status;
}

void mt_reader_close(mt_reader *r) {
    if (r == NULL)
        return;
    r->format->close(r);
    mt_input_close(r->in);
    mt_numbers_free(&r->live);
    free(r->settings.policy);
    free(r);
}
