/* model.h - a model in device memory: its shape, its weights, where they live. */
#ifndef MT_ENGINE_MODEL_H
#define MT_ENGINE_MODEL_H

#include "alloc/alloc.h"
#include "engine/checkpoint/checkpoint.h"
#include "kernels/device.h"

typedef struct mt_model {
    mt_config config;
    mt_weights weights;
    mt_mem *mem; /* [tensors], in the order of the table */
    uint32_t tensors;
    mt_alloc *alloc;
    mt_device *device;
} mt_model;

/* Told of progress while loading: bytes done, bytes in all. */
typedef void (*mt_progress_fn)(void *context, uint64_t done, uint64_t total);

/* Requests device memory for each tensor in the table's order and, when the device computes, fills
 * it from ck with so many threads (0: one for each core). alloc and device must outlive the model.
 * Looks for an interrupt before each tensor. On failure nothing stays allocated. */
mt_status mt_model_load(mt_model **out, mt_checkpoint *ck, const mt_config *config, mt_alloc *alloc,
                        mt_device *device, int threads, mt_progress_fn progress, void *context,
                        mt_error *err);

/* Frees the weights in the order of the table. NULL is allowed. */
void mt_model_close(mt_model *m);

#endif
