/* chrome.h - spans of time as a Chrome trace, the JSON that Perfetto and chrome://tracing open.
 *
 *     {"displayTimeUnit": "ns", "traceEvents": [
 *       {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "device"}},
 *       {"ph": "X", "name": "linear", "cat": "layer 3", "pid": 1, "tid": 1, "ts": us, "dur": us,
 * "args": {...}},
 *       {"ph": "C", "name": "memory", "pid": 1, "ts": us, "args": {"requested": n, "reserved":
 * n}},
 *       {"ph": "i", "s": "g", "name": "out of memory", "pid": 1, "ts": us, "args": {...}}]}
 *
 * Times are microseconds with three decimals, from a zero of the caller's. Spans of one track nest
 * or follow one another. */
#ifndef MT_TRACES_CHROME_H
#define MT_TRACES_CHROME_H

#include <stddef.h>
#include <stdint.h>

#include "base/output.h"

typedef struct mt_chrome mt_chrome;

/* A number that belongs to a span or a counter. */
typedef struct mt_chrome_arg {
    const char *name;
    uint64_t value;
} mt_chrome_arg;

/* Opens an output that will become path (base/output.h). process: what the viewer calls it. */
mt_status mt_chrome_open(mt_chrome **out, const char *path, const char *process, mt_error *err);

/* The same to an output of the caller's, which mt_chrome_finish leaves open and to
 * which free() of c writes nothing more. finish frees c, also when it fails. */
mt_status mt_chrome_begin(mt_chrome **out, mt_output *to, const char *process, mt_error *err);
mt_status mt_chrome_finish(mt_chrome *c, mt_error *err);

/* Names a track; numbers begin at 1. */
void mt_chrome_track(mt_chrome *c, int track, const char *name);

void mt_chrome_span(mt_chrome *c, int track, const char *name, const char *category,
                    double begin_us, double us, const mt_chrome_arg *args, size_t count);

/* A moment that concerns everything. */
void mt_chrome_instant(mt_chrome *c, const char *name, double at_us, const mt_chrome_arg *args,
                       size_t count);

/* The values of a counter from begin_us on. */
void mt_chrome_counter(mt_chrome *c, const char *name, double at_us, const mt_chrome_arg *args,
                       size_t count);

/* Ends the file, renames it and frees c, also when that fails. */
mt_status mt_chrome_commit(mt_chrome *c, mt_error *err);
void mt_chrome_abandon(mt_chrome *c); /* leaves no file; NULL is allowed */

#endif
