/* torch_calls.h - the driver calls of one operation, as recordings list them: neighbouring pages
 * mapped or unmapped one after the other are one call. */
#ifndef MT_TRACES_TORCH_CALLS_H
#define MT_TRACES_TORCH_CALLS_H

#include <stddef.h>
#include <stdint.h>

typedef struct mt_call {
    char op; /* see mt_core.driver */
    uint32_t segment;
    uint64_t offset, bytes;
} mt_call;

typedef struct mt_calls {
    mt_call *call;
    size_t n, room;
} mt_calls;

/* The function for mt_core.driver; context is the mt_calls. A call that finds no memory is dropped,
 * and seen as a difference. */
void mt_calls_add(void *context, char op, uint32_t segment, uint64_t offset, uint64_t bytes);
void mt_calls_free(mt_calls *c);

#endif
