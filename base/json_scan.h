/* json_scan.h - reads JSON one token at a time: memory depends neither on the length of the text
 * nor on what is in it.
 *
 *     mt_scan s = { .in = in };
 *     MT_TRY(mt_scan_next(&s, &token, err));
 *
 * Tokens come in the order of the text. What makes no JSON is MT_BAD with its line. Leniently, as
 * programs write it: NaN and Infinity are numbers, a backslash before any character stands for
 * that, and strings may hold any bytes but a line break. */
#ifndef MT_BASE_JSON_SCAN_H
#define MT_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/input.h"

typedef enum mt_token {
    MT_TOKEN_END,    /* of the text */
    MT_TOKEN_OBJECT, /* { */
    MT_TOKEN_ARRAY,  /* [ */
    MT_TOKEN_CLOSE,  /* of the innermost of the two */
    MT_TOKEN_KEY,    /* text; its value is the next token, or begins with it */
    MT_TOKEN_STRING, /* text */
    MT_TOKEN_NUMBER, /* text, as it stands there */
    MT_TOKEN_WORD    /* true, false, null */
} mt_token;

#define MT_SCAN_DEPTH 256
#define MT_SCAN_TEXT  128 /* bytes of a string that are kept, a final 0 among them */

/* All zero at first but for `in`. Needs no closing. */
typedef struct mt_scan {
    mt_input *in;
    uint64_t lines; /* breaks so far: the line is this plus 1 */
    char text[MT_SCAN_TEXT];
    bool cut; /* text is only the beginning */

    int depth;
    bool object[MT_SCAN_DEPTH]; /* of each open one */
    bool first;                 /* nothing stands in the innermost yet */
    bool colon;                 /* a key was read */
    bool after;                 /* a value was read */
    bool end;
    size_t at, used; /* of buffer */
    char buffer[16384];
} mt_scan;

mt_status mt_scan_next(mt_scan *s, mt_token *token, mt_error *err);

/* Passes over the rest of an array or object of which token began; nothing for other tokens. */
mt_status mt_scan_skip(mt_scan *s, mt_token token, mt_error *err);

/* The number in text, a whole one; false when it is none or does not fit. */
bool mt_scan_integer(const mt_scan *s, int64_t *value);

/* The number in text times 1000, rounded towards zero. */
bool mt_scan_thousandths(const mt_scan *s, int64_t *value);

/* "name:line: " and what was expected, MT_BAD. */
mt_status mt_scan_bad(const mt_scan *s, mt_error *err, const char *expected);

#endif
