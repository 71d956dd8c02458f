/* trace.h - the event stream as a file. The ending of its name chooses the form (the list is in
 * trace.c): .mtb is binary, .csv and so on are for other programs, and any other name a trace in
 * text, one line per event, which read_trace.c reads back:
 *
 *     # memtrace trace 1
 *     # NAME VALUE...                                  any number of header lines
 *     # seq kind step stream id segment offset requested rounded tag layer pool
 *     0 segment_alloc -1 0 0 0 0 154389504 155189248 weights -1 large
 *     1 alloc -1 0 0 0 0 154389504 154389504 weights -1 large
 *     ...
 *     812 mark 0 0 - - 1 73728 0 - -1 -
 *
 * One space between columns, whole bytes, - where a column does not apply: the id of an event that
 * no request caused, segment and pool of an oom, all but numbers of a mark. In a mark, offset is
 * the tokens in the cache, requested is kv_ideal and rounded the nanoseconds of the step (0 unless
 * times were asked for); a mark of step -1 ends the loading. In an oom, offset is what the source
 * had left. With times a last column, ns, holds monotonic nanoseconds since the first event. A name
 * that ends in .gz or .zst is compressed. A run that was cut short ends with `# interrupted` or
 * `# out of memory`.
 *
 * What a reader can rely on: seq counts from 0, ids rise from alloc to alloc, a free repeats what
 * its alloc said, and the events close as a ledger (alloc/ledger.h). Slots are not stored: a reader
 * gives them as the core does, the one freed last is used first, and a growable segment has one
 * while any of its pages is mapped. */
#ifndef MT_TRACES_TRACE_H
#define MT_TRACES_TRACE_H

#include <stdbool.h>

#include "traces/reader.h"

/* A line of a trace has fewer characters than this. */
#define MT_TRACE_LINE ((size_t)64 << 10)

#define MT_TRACE_FIRST   "# memtrace trace 1"
#define MT_TRACE_COLUMNS "seq kind step stream id segment offset requested rounded tag layer pool"
#define MT_TRACE_TIMES   " ns"

/* What a trace is written as. */
typedef struct mt_trace mt_trace;
typedef struct mt_trace_form mt_trace_form;
struct mt_trace_form {
    const char *name;   /* as `convert --to` takes it */
    const char *ending; /* of file names: ".mtb"; .gz or .zst may follow */
    const char *loses;  /* what it does not carry, in words */
    unsigned only;      /* MT_TELLS_... of formats that tell any of that; 0: all of them do */
    bool events;        /* it is made of events: operations alone are not enough */
    bool binary;        /* no text for a terminal */

    /* For the writers; see writer.h. */
    size_t size;
    mt_status (*begin)(mt_trace *t, mt_error *err);
    void (*settings)(mt_trace *t, const mt_settings *s);
    void (*item)(mt_trace *t, const mt_item *item);
    void (*end)(mt_trace *t, const char *ending);
    void (*close)(mt_trace *t);
};

/* The list, ended by NULL. The form of a name, of a path by its ending; NULL: none. */
extern const mt_trace_form *const mt_trace_forms[];
const mt_trace_form *mt_trace_form_named(const char *name);
const mt_trace_form *mt_trace_form_of(const char *path);

/* Opens an output that will become path (base/output.h); form NULL: as its ending says, else text.
 * Errors of the disk are kept until mt_trace_commit. */
mt_status mt_trace_open(mt_trace **out, const mt_trace_form *form, const char *path, bool times,
                        mt_error *err);
static inline mt_status mt_trace_create(mt_trace **out, const char *path, bool times,
                                        mt_error *err) {
    return mt_trace_open(out, NULL, path, times, err);
}

/* One line without "# "; before any event. Line ends in it become blanks; what is too long for a
 * line is cut. */
void mt_trace_header(mt_trace *t, const char *line);

/* How the recorded allocator was set up, and whether items have times: before any but notes. */
void mt_trace_settings(mt_trace *t, const mt_settings *s);

/* The next item, as a reader gives it; one that the form has no place for is left out. Ids are
 * those of the items, or the next free one where they do not rise. */
void mt_trace_item(mt_trace *t, const mt_item *item);
mt_listener mt_trace_listener(mt_trace *t);

/* Closes the file under its real name; ending is NULL, "interrupted" or "out of memory". Frees t,
 * also when it fails. */
mt_status mt_trace_commit(mt_trace *t, const char *ending, mt_error *err);
void mt_trace_abandon(mt_trace *t); /* nothing stays behind; NULL is allowed */

#endif
