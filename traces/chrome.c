/* chrome.c - see chrome.h. */
#include "traces/chrome.h"

#include "base/output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct mt_chrome {
    mt_output *out;
    bool any; /* an event was written: a comma comes before the next */
};

static void print(mt_chrome *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print(mt_chrome *c, const char *format, ...) {
    char text[512];
    va_list a;
    va_start(a, format);
    int n = vsnprintf(text, sizeof text, format, a);
    va_end(a);
    if (n > 0)
        mt_output_write(c->out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* A string in quotes: ours are plain words, so what is not printable ASCII becomes '?'. */
static void quoted(mt_chrome *c, const char *s) {
    print(c, "\"");
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            print(c, "\\%c", *s);
        else
            print(c, "%c", *s >= ' ' && *s < 127 ? *s : '?');
    }
    print(c, "\"");
}

static void begin(mt_chrome *c, char phase, const char *name) {
    print(c, "%s\n{\"ph\": \"%c\", \"pid\": 1, \"name\": ", c->any ? "," : "", phase);
    quoted(c, name);
    c->any = true;
}

static void arguments(mt_chrome *c, const mt_chrome_arg *args, size_t count) {
    print(c, ", \"args\": {");
    for (size_t i = 0; i < count; i++) {
        print(c, "%s", i > 0 ? ", " : "");
        quoted(c, args[i].name);
        print(c, ": %" PRIu64, args[i].value);
    }
    print(c, "}}");
}

static void name_of(mt_chrome *c, const char *kind, int track, const char *name) {
    begin(c, 'M', kind);
    print(c, ", \"tid\": %d, \"args\": {\"name\": ", track);
    quoted(c, name);
    print(c, "}}");
}

mt_status mt_chrome_open(mt_chrome **out, const char *path, const char *process, mt_error *err) {
    mt_chrome *c = calloc(1, sizeof *c);
    if (c == NULL)
        return mt_fail(err, MT_FAILED, "no memory for a profile");
    mt_status status = mt_output_open(&c->out, path, err);
    if (status != MT_OK) {
        free(c);
        return status;
    }
    print(c, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    name_of(c, "process_name", 0, process);
    *out = c;
    return MT_OK;
}

void mt_chrome_track(mt_chrome *c, int track, const char *name) {
    name_of(c, "thread_name", track, name);
}

void mt_chrome_span(mt_chrome *c, int track, const char *name, const char *category,
                    double begin_us, double us, const mt_chrome_arg *args, size_t count) {
    begin(c, 'X', name);
    print(c, ", \"cat\": ");
    quoted(c, category);
    print(c, ", \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f", track, begin_us, us);
    arguments(c, args, count);
}

void mt_chrome_counter(mt_chrome *c, const char *name, double at_us, const mt_chrome_arg *args,
                       size_t count) {
    begin(c, 'C', name);
    print(c, ", \"ts\": %.3f", at_us);
    arguments(c, args, count);
}

mt_status mt_chrome_commit(mt_chrome *c, mt_error *err) {
    print(c, "\n]}\n");
    mt_status status = mt_output_commit(c->out, err);
    free(c);
    return status;
}

void mt_chrome_abandon(mt_chrome *c) {
    if (c == NULL)
        return;
    mt_output_abandon(c->out);
    free(c);
}
