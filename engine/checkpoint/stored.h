/* stored.h - a tensor as it lies in a mapped file: its bytes, their type, and whether the file
 * holds the transpose of what the engine wants. */
#ifndef MT_ENGINE_CHECKPOINT_STORED_H
#define MT_ENGINE_CHECKPOINT_STORED_H

#include "engine/config.h"
#include "base/mapped.h"
#include "base/threads.h"

typedef struct mt_stored {
    const unsigned char *data; /* little-endian elements, at any alignment */
    mt_dtype dtype;
    uint64_t rows, cols; /* as the engine wants it, [out, in] */
    bool transposed;     /* the file holds [cols, rows] */
} mt_stored;

/* Writes rows [first, first + rows) to dst as fp32, which every value fits exactly, NaNs included.
 * pool: threads that help; NULL: none. */
void mt_stored_read(const mt_stored *s, uint64_t first, uint64_t rows, float *dst,
                    mt_threads *pool);

/* Drops the pages of the file that a read of these rows was the last to need: the rows' own, or,
 * when the file holds the transpose, all of them once the last row was read. */
void mt_stored_drop(const mt_stored *s, const mt_mapped *file, uint64_t first, uint64_t rows);

#endif
