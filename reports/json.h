/* json.h - a run as one JSON object, written as it goes.
 *
 *     {"program": "memtrace", "version": "...",
 *      "options": {"NAME": value, ...},            numbers, true and false where they are
 *      "columns": ["step", "ctx", ..., "ms"],      the names of table.h
 *      "load": {"step": -1, ...} or null,
 *      "rows": [{"step": 0, ...}, ...],            one a step, keys as in columns
 *      "notes": {"NAME": value, ...},              what is known at the end only
 *      "ended": "done", "interrupted", "out of memory" or "failed",
 *      "refusal": null, or the request that was refused and what stood in its way,
 *      "summary": {"tags": {"weights": {"current": n, "peak": n, "total": n}, ...},
 *                  "requested": {...}, "reserved": {...}, "rounding": n, "split": n, "cached": n,
 *                  "unexplained": n, "segments": n, "segment_events": n,
 *                  "allocs": n, "frees": n, "ooms": n} or null}
 *
 * Bytes are whole numbers, ms a number with three decimals (0 without times), cause the text of the
 * table. Strings are UTF-8: bytes that are not become U+FFFD. */
#ifndef MT_REPORTS_JSON_H
#define MT_REPORTS_JSON_H

#include <stdio.h>

#include "alloc/alloc.h"
#include "reports/table.h"

typedef struct mt_run_json mt_run_json;

/* Begins the object on out, which stays the caller's. */
mt_status mt_run_json_open(mt_run_json **out, FILE *file, const char *version, mt_error *err);

/* How a value is written: as a string; as the number that its text begins with, a + and what
 * follows the digits left out; as true for "on", else false. */
typedef enum mt_value_kind { MT_VALUE_TEXT, MT_VALUE_NUMBER, MT_VALUE_SWITCH } mt_value_kind;

/* One of the options, before the first row, and one of the notes, after the last. Each name once;
 * its blanks and hyphens become underscores. */
void mt_run_json_header(mt_run_json *r, const char *name, const char *value, mt_value_kind kind);
void mt_run_json_note(mt_run_json *r, const char *name, const char *value, mt_value_kind kind);

/* A row; that of step -1, if there is one, first. */
void mt_run_json_row(mt_run_json *r, const mt_row *row);

/* Ends the object with a newline and frees r. ledger may be NULL (no summary), refusal too.
 * MT_FAILED when the file could not be written: flushes it to know. MT_CHECK: base/json.h. */
mt_status mt_run_json_close(mt_run_json *r, const mt_ledger *ledger, const char *ended,
                            const mt_refusal *refusal, mt_error *err);

#endif
