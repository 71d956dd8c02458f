/* write_trace.c - the event stream as text, see trace.h. Numbers are turned into text by hand. */
#include <string.h>

#include "traces/writer.h"

typedef struct text_trace {
    mt_trace base;
    bool named; /* the columns are written */
} text_trace;

static mt_status begin(mt_trace *t, mt_error *err) {
    (void)err;
    mt_output_write(t->out, MT_TRACE_FIRST "\n", sizeof MT_TRACE_FIRST);
    return MT_OK;
}

static void write_note(mt_trace *t, const char *line) {
    mt_output_write(t->out, "# ", 2);
    mt_output_write(t->out, line, strlen(line));
    mt_output_write(t->out, "\n", 1);
}

static void write_columns(mt_trace *t) {
    text_trace *text = (text_trace *)t;
    if (!text->named)
        write_note(t, t->times ? MT_TRACE_COLUMNS MT_TRACE_TIMES : MT_TRACE_COLUMNS);
    text->named = true;
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

static void write_line(mt_trace *t, const mt_item *item) {
    char line[400]; /* 13 columns of at most 21 characters */
    write_columns(t);
    char *at = write_event(line, item->event, t->times);
    if (t->times)
        at = write_number(at, mt_trace_time(t, item));
    at[-1] = '\n';
    mt_output_write(t->out, line, (size_t)(at - line));
}

static void write_item(mt_trace *t, const mt_item *item) {
    if (item->kind == MT_ITEM_NOTE)
        write_note(t, item->text);
    else if ((item->has & MT_HAS_EVENT) != 0)
        write_line(t, item);
}

static void end(mt_trace *t, const char *ending) {
    write_columns(t);
    if (ending != NULL)
        write_note(t, ending);
}

const mt_trace_form mt_form_trace = {
    .name = "trace",
    .ending = ".trace",
    .loses = "devices, private pools, call stacks, threads and processes",
    .only = MT_TELLS_CONTEXT,
    .events = true,
    .size = sizeof(text_trace),
    .begin = begin,
    .item = write_item,
    .end = end,
};
