/* output.h - a file that appears whole or not at all, and files read whole or in pieces.
 *
 * Text goes to a temporary name in the same folder; mt_output_commit gives it its real name,
 * mt_output_abandon removes it. A name that ends in .gz or .zst is compressed on the way.
 *
 * What exists already and is no plain file (a FIFO, a terminal, /dev/null, /dev/stdout, a symbolic
 * link) is written straight, under its own name: there is nothing to rename, and what was written
 * stays written. /dev/stdout, /dev/stderr and /dev/fd/N mean that open file itself, position
 * included. */
#ifndef MT_BASE_OUTPUT_H
#define MT_BASE_OUTPUT_H

#include <stddef.h>

#include "base/status.h"

typedef struct mt_output mt_output;

/* Opens a new output that will become path. MT_FAILED when it cannot be written there. */
mt_status mt_output_open(mt_output **out, const char *path, mt_error *err);

/* Appends n bytes. The first error is kept and returned by the commit, so that callers may ignore
 * it; what comes after it is dropped. */
void mt_output_write(mt_output *o, const void *data, size_t n);

/* Finishes, renames and frees the output: also when it fails. On failure (MT_FAILED: a full disk, a
 * name that cannot be replaced) nothing is left behind, and a file that path named before stays as
 * it was. */
mt_status mt_output_commit(mt_output *o, mt_error *err);

/* Removes the temporary file and frees the output; NULL is allowed. */
void mt_output_abandon(mt_output *o);

/* Removes the temporary files of all outputs that are open, for a program that ends at once; a
 * signal's handler may call it. The outputs are of no use afterwards. */
void mt_output_remove_all(void);

/* A file read in pieces, decompressed when its first bytes are those of gzip or zstd, whatever its
 * name. A file that is missing, or whose compressed data are cut or corrupt, is MT_BAD; a read that
 * fails is MT_FAILED. */
typedef struct mt_input mt_input;
mt_status mt_input_open(mt_input **out, const char *path, mt_error *err);
/* The next bytes, at most capacity; *n is 0 at the end of the file and only there. */
mt_status mt_input_some(mt_input *in, void *data, size_t capacity, size_t *n, mt_error *err);
void mt_input_close(mt_input *in); /* NULL is allowed */

/* Reads a whole file so into *data (free() it), n bytes and a final 0. Refuses more than limit
 * bytes of text. On failure *data is NULL. */
mt_status mt_input_read(const char *path, size_t limit, char **data, size_t *n, mt_error *err);

#endif
