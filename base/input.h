/* input.h - files read whole, in pieces or line by line, and looked at without using anything up.
 *
 * A file is decompressed when its first bytes are those of gzip or zstd, whatever its name. It is
 * opened once and read forward only, so that pipes and FIFOs do; "-" is standard input. Memory does
 * not depend on a file's length.
 *
 * A file that is missing, whose compressed data are cut or corrupt, or that has more than the limit
 * of bytes of text (after decompression) is MT_BAD; a read that fails is MT_FAILED, one that was
 * interrupted (base/interrupt.h) MT_INTERRUPTED. */
#ifndef MT_BASE_INPUT_H
#define MT_BASE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mt_input mt_input;

#define MT_INPUT_ANY  UINT64_MAX          /* no limit */
#define MT_INPUT_PEEK ((size_t)64 * 1024) /* how far ahead one may look */

mt_status mt_input_open(mt_input **out, const char *path, uint64_t limit, mt_error *err);
void mt_input_close(mt_input *in); /* NULL is allowed */

/* Sets another limit if the file is compressed: a few of its bytes may stand for any number. */
void mt_input_limit_packed(mt_input *in, uint64_t limit);

/* The path by which another library can read the same bytes: that of a file, not compressed; NULL
 * for anything else. */
const char *mt_input_path(const mt_input *in);

/* The name for messages: the path, "standard input" for "-". */
const char *mt_input_name(const mt_input *in);

/* The next bytes, at most capacity; *n is 0 at the end of the file and only there. */
mt_status mt_input_some(mt_input *in, void *data, size_t capacity, size_t *n, mt_error *err);

/* Looks at the next bytes, which stay to be read: *n is want (at most MT_INPUT_PEEK), less only
 * when the file has no more. *data is good until the next call. */
mt_status mt_input_peek(mt_input *in, size_t want, const char **data, size_t *n, mt_error *err);

typedef struct mt_line {
    char *text; /* a string, without its newline; NULL at the end of the file */
    size_t length;
    uint64_t number; /* from 1 */
    bool ended;      /* by a newline: false for text behind the last one */
} mt_line;

/* The next line, which is the caller's to change and good until the next call. A line of more than
 * most bytes and one with a zero byte inside are MT_BAD, with "NAME:LINE: " before what is
 * wrong. */
mt_status mt_input_line(mt_input *in, size_t most, mt_line *line, mt_error *err);

/* Reads a whole file into *data (free() it), n bytes and a final 0. On failure *data is NULL. */
mt_status mt_input_read(const char *path, uint64_t limit, char **data, size_t *n, mt_error *err);

#endif
