/* safetensors.h - reader of the safetensors format. It knows nothing of GPT-2.
 *
 * A file is the length N of its header (8 bytes, little-endian), the header (N bytes of JSON) and
 * the data. The header maps each tensor's name to its dtype, shape and data_offsets [begin, end)
 * within the data; `__metadata__`, if there, maps strings to strings.
 *
 * Opening a file checks all of it. As in the format's own library the tensors tile the data: no
 * hole, no overlap, nothing after the last one. Tensors of more than MT_SAFETENSOR_DIMS dimensions
 * and strings with a NUL inside are refused. */
#ifndef MT_ENGINE_CHECKPOINT_SAFETENSORS_H
#define MT_ENGINE_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/mapped.h"

#define MT_SAFETENSOR_DIMS 8

typedef struct mt_safetensor {
    char *name;
    const char *type; /* one of the format's names: "F32", "BF16", "I64", ... */
    uint32_t dims;    /* 0 for a scalar */
    uint64_t shape[MT_SAFETENSOR_DIMS];
    uint64_t begin, end;       /* of its bytes within the data */
    const unsigned char *data; /* end - begin bytes, at any alignment */
} mt_safetensor;

typedef struct mt_safetensors {
    mt_mapped file;
    size_t count;
    mt_safetensor *tensor; /* [count], sorted by name */
} mt_safetensors;

/* Opens and checks a file. MT_BAD and one line that names the file, the place and what was
 * expected when it is not as it should be. On failure *f is as after mt_safetensors_close. */
mt_status mt_safetensors_open(mt_safetensors *f, const char *path, mt_error *err);

/* The tensor of that name, or NULL. It lives as long as f. */
const mt_safetensor *mt_safetensors_find(const mt_safetensors *f, const char *name);

/* Writes a shape as "[768, 2304]" and returns buffer; 200 bytes are enough for any. */
char *mt_safetensor_shape(char *buffer, size_t capacity, const uint64_t *shape, uint32_t dims);

void mt_safetensors_close(mt_safetensors *f); /* may be called twice */

#endif
