/* trace.h - the event stream as a file, one line per event: the format, and its writer (the reader
 * is read_trace.c, behind reader.h).
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

#include "alloc/events.h"
#include "base/status.h"

/* A line of a trace has fewer characters than this. */
#define MT_TRACE_LINE ((size_t)64 << 10)

#define MT_TRACE_FIRST   "# memtrace trace 1"
#define MT_TRACE_COLUMNS "seq kind step stream id segment offset requested rounded tag layer pool"
#define MT_TRACE_TIMES   " ns"

/* Errors of the disk are kept until mt_trace_commit. */
typedef struct mt_trace mt_trace;
mt_status mt_trace_create(mt_trace **out, const char *path, bool times, mt_error *err);
/* One line without "# "; before any event. Line ends in it become blanks; what is too long for a
 * line is cut. */
void mt_trace_header(mt_trace *t, const char *line);
mt_listener mt_trace_listener(mt_trace *t);
/* Closes the file under its real name; ending is NULL, "interrupted" or "out of memory". Frees t,
 * also when it fails. */
mt_status mt_trace_commit(mt_trace *t, const char *ending, mt_error *err);
void mt_trace_abandon(mt_trace *t); /* nothing stays behind; NULL is allowed */

#endif
