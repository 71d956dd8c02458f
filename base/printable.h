/* printable.h - text from files and users, made fit for a one-line message: control characters
 * are written as \xNN, and what does not fit the buffer is cut where "..." stands. */
#ifndef MT_BASE_PRINTABLE_H
#define MT_BASE_PRINTABLE_H

#include <stddef.h>

/* Copies n bytes of text; the beginning is kept. capacity is at least 8. Returns buffer. */
char *mt_printable(char *buffer, size_t capacity, const char *text, size_t n);

/* Copies a path; the end is kept, as in ".../models/gpt2". Returns buffer. */
char *mt_printable_path(char *buffer, size_t capacity, const char *path);

#endif
