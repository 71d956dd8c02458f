/* mapped.h - a whole file mapped for reading only.
 *
 * A file that another program shortens while it is mapped ends this one by a signal, as with every
 * mapping; checkpoints are taken to be files that do not change. */
#ifndef MT_BASE_MAPPED_H
#define MT_BASE_MAPPED_H

#include <stdint.h>

#include "base/status.h"

typedef struct mt_mapped {
    const unsigned char *data; /* NULL when the file is empty */
    uint64_t size;
    char label[160]; /* the path, printable, for messages */
} mt_mapped;

/* Maps a regular file; anything else is MT_BAD. On failure m is as after mt_mapped_close. */
mt_status mt_mapped_open(mt_mapped *m, const char *path, mt_error *err);

/* Gives the memory of the pages that hold these bytes back to the system. They stay readable: a
 * later access takes them from the file again. */
void mt_mapped_drop(const mt_mapped *m, const unsigned char *data, uint64_t bytes);

/* May be called twice. The label stays. */
void mt_mapped_close(mt_mapped *m);

#endif
