/* output.h - a file that appears whole or not at all.
 *
 * Text goes to a temporary name in the same folder; mt_output_commit gives it its real name,
 * mt_output_abandon removes it. A name that ends in .gz or .zst is compressed on the way.
 *
 * A symbolic link stays, and the file that it names, there or not yet, is the one that appears.
 * What exists already and is no plain file (a FIFO, a terminal, /dev/null, /dev/stdout) is written
 * straight, under its own name: there is nothing to rename, and what was written stays written.
 * /dev/stdout, /dev/stderr and /dev/fd/N mean that open file itself, position included. */
#ifndef MT_BASE_OUTPUT_H
#define MT_BASE_OUTPUT_H

#include <stddef.h>

#include "base/status.h"

typedef struct mt_output mt_output;

/* Opens a new output that will become path. MT_FAILED when it cannot be written there. A FIFO that
 * nobody reads is waited for: MT_INTERRUPTED. */
mt_status mt_output_open(mt_output **out, const char *path, mt_error *err);

/* Appends n bytes. The first error is kept and returned by the commit, so that callers may ignore
 * it; what comes after it is dropped. */
void mt_output_write(mt_output *o, const void *data, size_t n);

/* Finishes, renames and frees the output: also when it fails. On failure (MT_FAILED: a full disk, a
 * name that cannot be replaced) nothing is left behind, and a file that path named before stays as
 * it was. After a power cut, too, path names what it named before or the whole new file: its data
 * are on the disk before it is renamed, as far as the file system can tell. */
mt_status mt_output_commit(mt_output *o, mt_error *err);

/* Removes the temporary file and frees the output; NULL is allowed. */
void mt_output_abandon(mt_output *o);

/* Removes the temporary files of all outputs that are open, for a program that ends at once; a
 * signal's handler may call it. The outputs are of no use afterwards. */
void mt_output_remove_all(void);

#endif
