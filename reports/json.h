/* json.h - a run as one JSON object, written as it goes.
 *
 *     {"program": "memtrace", "version": "...",
 *      "options": {"NAME": "VALUE", ...},
 *      "columns": ["step", "ctx", ..., "ms"],      the names of table.h
 *      "load": {"step": -1, ...} or null,
 *      "rows": [{"step": 0, ...}, ...],            one a step, keys as in columns
 *      "ended": "done", "interrupted", "out of memory" or "failed",
 *      "refusal": null, or the request that was refused and what stood in its way,
 *      "summary": {"tags": {"weights": {"current": n, "peak": n, "total": n}, ...},
 *                  "requested": {...}, "reserved": {...}, "rounding": n, "split": n, "cached": n,
 *                  "unexplained": n, "segments": n, "segment_events": n,
 *                  "allocs": n, "frees": n, "ooms": n} or null}
 *
 * Bytes are whole numbers, ms a number with three decimals (0 without times), cause the text of the
 * .dat file. Strings are UTF-8: bytes that are not become U+FFFD. */
#ifndef MT_REPORTS_JSON_H
#define MT_REPORTS_JSON_H

#include <stdio.h>

#include "alloc/alloc.h"
#include "reports/table.h"

typedef struct mt_json mt_json;

/* Writes text as a JSON string, quotes included. */
void mt_json_string(FILE *file, const char *text);

/* Begins the object on out, which stays the caller's. */
mt_status mt_json_open(mt_json **out, FILE *file, const char *version, mt_error *err);

/* One of the options; before the first row. */
void mt_json_header(mt_json *j, const char *name, const char *value);

/* A row; that of step -1, if there is one, first. */
void mt_json_row(mt_json *j, const mt_row *row);

/* Ends the object with a newline and frees j. ledger may be NULL (no summary), refusal too.
 * MT_FAILED when the file could not be written: flushes it to know. */
mt_status mt_json_close(mt_json *j, const mt_ledger *ledger, const char *ended,
                        const mt_refusal *refusal, mt_error *err);

#endif
