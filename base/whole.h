/* whole.h - all of an input at once, without holding it in memory.
 *
 * A plain file is mapped as it is. What is compressed, or comes from a pipe, is written to a file
 * without a name in the system's folder for such files first, and that is mapped: its pages can be
 * dropped and come back. */
#ifndef MT_BASE_WHOLE_H
#define MT_BASE_WHOLE_H

#include "base/input.h"
#include "base/mapped.h"

/* Maps all bytes of an input of which none has been taken. path: as it was opened. The caller
 * closes m with mt_mapped_close; the input may be closed before. MT_FAILED when there is no room
 * for the file. */
mt_status mt_whole_open(mt_mapped *m, mt_input *in, const char *path, mt_error *err);

#endif
