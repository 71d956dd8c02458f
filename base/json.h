/* json.h - writes JSON.
 *
 *     mt_json j;
 *     mt_json_to_file(&j, stdout);
 *     mt_json_begin_object(&j, NULL);             {
 *     mt_json_text(&j, "program", "memtrace");    "program": "memtrace"
 *     mt_json_begin_array(&j, "rows");            , "rows": [
 *     mt_json_line(&j);                           the next item begins on a line of its own
 *     mt_json_unsigned(&j, NULL, 42);             42
 *     mt_json_end(&j);                            ]
 *     mt_json_end(&j);                            }
 *
 *     status = mt_json_finish(&j, err);           and a newline
 *
 * An item of an object has a key, one of an array has none (NULL). What makes no JSON - a key too
 * few, too many, or a second time among the first MT_JSON_KEYS of its object - is kept and told at
 * the end. Integers are exact. */
#ifndef MT_BASE_JSON_H
#define MT_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/output.h"

enum { MT_JSON_DEPTH = 8, MT_JSON_KEYS = 48 };

typedef struct mt_json_level {
    bool object;
    size_t items;
    uint64_t key[MT_JSON_KEYS]; /* hashes of the first ones */
} mt_json_level;

/* Needs no closing. */
typedef struct mt_json {
    void (*write)(void *context, const char *text, size_t n);
    void *context;
    int depth;
    bool line;           /* before the next item */
    const char *mistake; /* NULL: none */
    mt_json_level level[MT_JSON_DEPTH];
} mt_json;

/* Begins a text that goes to a file or an output, which keep their own errors. */
void mt_json_to_file(mt_json *j, FILE *file);
void mt_json_to_output(mt_json *j, mt_output *out);

void mt_json_begin_object(mt_json *j, const char *key);
void mt_json_begin_array(mt_json *j, const char *key);
void mt_json_end(mt_json *j); /* of what was begun last */

/* The next item begins on a new line, two blanks in unless it is one of the outermost object. */
void mt_json_line(mt_json *j);

void mt_json_unsigned(mt_json *j, const char *key, uint64_t value);
void mt_json_signed(mt_json *j, const char *key, int64_t value);
void mt_json_fixed(mt_json *j, const char *key, double value, int decimals); /* null: no number */
void mt_json_text(mt_json *j, const char *key, const char *text);            /* null for NULL */
void mt_json_bool(mt_json *j, const char *key, bool value);
void mt_json_null(mt_json *j, const char *key);

/* Ends the text; MT_CHECK when it is no JSON. */
mt_status mt_json_finish(mt_json *j, mt_error *err);

#endif
