/* formats.c - the list of formats, and a reader of the one that a file is of. */
#include "traces/reader.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 24 /* characters of an unknown file, in a message */

/* In the order of detection. A new format is entered here. */
const mt_format *const mt_formats[] = {
    &mt_format_trace,   &mt_format_mtb,          &mt_format_schedule, &mt_format_recording,
    &mt_format_nsight,  &mt_format_rmm,          &mt_format_chrome,   &mt_format_minimalloc,
    &mt_format_stalloc, &mt_format_allocatorsim, &mt_format_pprof,    NULL,
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
        { "\x7f"
          "ELF",
          "a program" },
        { "{", "JSON" },
        { "[", "JSON" },
        { "<", "HTML or XML" },
    };
    if (n > 1 && data[0] == '[' && data[1] >= '0' && data[1] <= '9' &&
        memmem(data, n < 64 ? n : 64, "][", 2) != NULL)
        return "RMM's debug log, not its log of events";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= strlen(known[i].begins) &&
            memcmp(data, known[i].begins, strlen(known[i].begins)) == 0)
            return known[i].what;
    return "something else";
}

#define NAMES 256 /* room for the words of all formats */

/* "trace, schedule, ... or pprof" */
static const char *words(char buffer[static NAMES]) {
    size_t n = 0;
    for (int i = 0; mt_formats[i] != NULL && n < NAMES; i++)
        n += (size_t)snprintf(buffer + n, NAMES - n, "%s%s",
                              i == 0                      ? ""
                              : mt_formats[i + 1] == NULL ? " or "
                                                          : ", ",
                              mt_formats[i]->word);
    return buffer;
}

static mt_status no_format(const char *name, const char *data, size_t n, mt_error *err) {
    char expected[NAMES];
    if (n == 0)
        return mt_fail(err, MT_BAD, "%s: the file is empty, expected a file of the format %s", name,
                       words(expected));
    return mt_fail(err, MT_BAD, "%s: '%.*s' looks like %s, expected a file of the format %s", name,
                   (int)(n < SHOWN ? n : SHOWN), data, looks_like(data, n), words(expected));
}

const mt_format *mt_format_find(const char *word) {
    for (int i = 0; mt_formats[i] != NULL; i++)
        if (strcmp(mt_formats[i]->word, word) == 0)
            return mt_formats[i];
    return NULL;
}

/* The format as its first bytes tell, which stay to be read. */
static mt_status find_format(mt_input *in, const mt_format **format, mt_error *err) {
    const char *data;
    size_t n;
    MT_TRY(mt_input_peek(in, MT_PEEK, &data, &n, err));
    *format = format_of(data, n);
    return *format != NULL ? MT_OK : no_format(mt_input_name(in), data, n, err);
}

mt_status mt_reader_open_as(mt_reader **out, const char *path, const mt_reading *how,
                            mt_error *err) {
    const mt_format *format = how != NULL ? how->format : NULL;
    mt_status status = MT_OK;
    mt_input *in;
    *out = NULL;
    MT_TRY(mt_input_open(&in, path, MT_INPUT_ANY, err));
    mt_input_limit_packed(in, how != NULL && how->most > 0 ? how->most : MT_READING_MOST);
    if (format == NULL)
        status = find_format(in, &format, err);
    if (status == MT_OK && (*out = calloc(1, format->size)) == NULL)
        status = mt_no_memory(err, "reading a recording");
    if (status == MT_OK)
        **out = (mt_reader){ .format = format, .tells = format->tells, .in = in };
    else
        mt_input_close(in);
    return status;
}

mt_status mt_reader_open(mt_reader **out, const char *path, mt_error *err) {
    return mt_reader_open_as(out, path, NULL, err);
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
