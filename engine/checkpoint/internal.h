/* internal.h - what the kinds of checkpoint share.
 *
 * Each kind is a file of its own (huggingface.c, llmc.c, seeded.c) whose struct begins with an
 * mt_checkpoint. checkpoint.c picks the kind and calls it through two methods. */
#ifndef MT_ENGINE_CHECKPOINT_INTERNAL_H
#define MT_ENGINE_CHECKPOINT_INTERNAL_H

#include "engine/checkpoint/checkpoint.h"

typedef struct mt_checkpoint_kind {
    /* Reads rows of row i of the table, t; the range is within t and not empty. */
    void (*read)(mt_checkpoint *ck, uint32_t i, const mt_tensor *t, uint64_t first, uint64_t rows,
                 float *dst, mt_threads *pool);
    /* Frees the checkpoint and all it holds. */
    void (*close)(mt_checkpoint *ck);
} mt_checkpoint_kind;

struct mt_checkpoint {
    const mt_checkpoint_kind *kind;
    mt_config config;
    char source[480]; /* see mt_checkpoint_source */
};

/* path is a folder or a .safetensors file with a config.json beside it. */
mt_status mt_huggingface_open(mt_checkpoint **out, const char *path, mt_error *err);

/* path is any file; what it is if not a model is said in err. */
mt_status mt_llmc_open(mt_checkpoint **out, const char *path, mt_error *err);

#endif
