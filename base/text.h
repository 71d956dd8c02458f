/* text.h - text from files and users: UTF-8, and what of it may be shown.
 *
 * What stands in a message, a table or on a terminal is printable: control characters, line breaks,
 * characters that reorder a line and bytes that are no UTF-8 are written as \xNN, byte by byte. All
 * else stays as it is. What does not fit is cut between two characters, where "..." stands. */
#ifndef MT_BASE_TEXT_H
#define MT_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at text, of which n > 0 bytes are there, and its code point in *code
 * (which may be NULL); 0 when there is none: overlong forms, surrogates and what is beyond U+10FFFF
 * are none. */
size_t mt_utf8(const char *text, size_t n, uint32_t *code);

/* Copies n bytes of text, made printable, and a final 0; the beginning is kept. capacity is at
 * least 8. Returns buffer. */
char *mt_printable(char *buffer, size_t capacity, const char *text, size_t n);

/* Copies a path; the end is kept, as in ".../models/gpt2". */
char *mt_printable_path(char *buffer, size_t capacity, const char *path);

/* Copies a line; both ends are kept. */
char *mt_printable_line(char *buffer, size_t capacity, const char *line);

/* Writes n bytes of text as a JSON string, quotes included, without a final 0: at most
 * MT_JSON_QUOTED(n) characters. What is no UTF-8 becomes \ufffd. Returns how many were written. */
#define MT_JSON_QUOTED(n) (6 * (n) + 2)
size_t mt_json_quote(char *buffer, const char *text, size_t n);

#endif
