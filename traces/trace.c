/* trace.c - see trace.h. Numbers are turned into text by hand, and whole lines handed to an
 * mt_output. */
#include "traces/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/output.h"

#define FIRST_LINE MT_TRACE_FIRST "\n"

struct mt_trace {
    mt_output *out;
    bool times;
    bool named;   /* the columns are written */
    bool started; /* first_ns is that of the first event */
    uint64_t first_ns;
};

mt_status mt_trace_create(mt_trace **out, const char *path, bool times, mt_error *err) {
    *out = NULL;
    mt_trace *t = calloc(1, sizeof *t);
    if (t == NULL)
        return mt_no_memory(err, path);
    t->times = times;
    mt_status status = mt_output_open(&t->out, path, err);
    if (status != MT_OK) {
        free(t);
        return status;
    }
    mt_output_write(t->out, FIRST_LINE, strlen(FIRST_LINE));
    *out = t;
    return MT_OK;
}

void mt_trace_header(mt_trace *t, const char *line) {
    size_t length = strnlen(line, MT_TRACE_LINE - 8);
    mt_output_write(t->out, "# ", 2);
    for (size_t i = 0; i < length; i++)
        mt_output_write(t->out, line[i] == '\n' || line[i] == '\r' ? " " : &line[i], 1);
    mt_output_write(t->out, "\n", 1);
}

static void write_columns(mt_trace *t) {
    if (!t->named)
        mt_trace_header(t, t->times ? MT_TRACE_COLUMNS MT_TRACE_TIMES : MT_TRACE_COLUMNS);
    t->named = true;
}

/* How many digits n has. */
static int digits_of(uint64_t n) {
    int digits = 1;
    for (; n >= 10000; n /= 10000)
        digits += 4;
    return digits + (n >= 10) + (n >= 100) + (n >= 1000);
}

/* Writers of a word: each returns the place after the blank that follows it. */
static char *write_number(char *at, uint64_t n) {
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    int digits = digits_of(n), i = digits;
    for (; n >= 10; n /= 100)
        memcpy(at + (i -= 2), pairs + n % 100 * 2, 2);
    if (i > 0)
        at[0] = (char)('0' + n);
    at[digits] = ' ';
    return at + digits + 1;
}

static char *write_signed(char *at, int32_t n) {
    if (n < 0)
        *at++ = '-';
    return write_number(at, n < 0 ? (uint64_t) - (int64_t)n : (uint64_t)n);
}

static char *write_word(char *at, const char *word) {
    at = stpcpy(at, word);
    *at++ = ' ';
    return at;
}

/* The columns that do not apply to every event have a dash where they do not. */
static char *write_event(char *at, const mt_event *e, bool times) {
    bool mark = e->kind == MT_EV_MARK, nowhere = mark || e->kind == MT_EV_OOM;
    at = write_number(at, e->seq);
    at = write_word(at, mt_event_kind_name(e->kind));
    at = write_signed(at, e->step);
    at = write_number(at, e->stream);
    at = mark || e->id == MT_NO_ID ? write_word(at, "-") : write_number(at, e->id);
    at = nowhere ? write_word(at, "-") : write_number(at, e->segment);
    at = write_number(at, e->offset);
    at = write_number(at, e->requested);
    at = write_number(at, mark && !times ? 0 : e->rounded);
    at = write_word(at, mark ? "-" : mt_tag_name(e->tag));
    at = write_signed(at, mark ? -1 : e->layer);
    return write_word(at, nowhere ? "-" : mt_pool_name(e->pool));
}

static void write_line(void *context, const mt_event *e) {
    mt_trace *t = context;
    char line[400]; /* 13 columns of at most 21 characters */
    write_columns(t);
    if (!t->started)
        t->first_ns = e->time_ns;
    t->started = true;
    char *at = write_event(line, e, t->times);
    if (t->times)
        at = write_number(at, e->time_ns > t->first_ns ? e->time_ns - t->first_ns : 0);
    at[-1] = '\n';
    mt_output_write(t->out, line, (size_t)(at - line));
}

mt_listener mt_trace_listener(mt_trace *t) {
    return (mt_listener){ write_line, t };
}

mt_status mt_trace_commit(mt_trace *t, const char *ending, mt_error *err) {
    write_columns(t);
    if (ending != NULL)
        mt_trace_header(t, ending);
    mt_status status = mt_output_commit(t->out, err);
    free(t);
    return status;
}

void mt_trace_abandon(mt_trace *t) {
    if (t == NULL)
        return;
    mt_output_abandon(t->out);
    free(t);
}
