/* fault.h - a wrong cache, made on purpose, to see whether it is noticed. */
#ifndef MT_ENGINE_KV_FAULT_H
#define MT_ENGINE_KV_FAULT_H

#include "engine/kv/kv.h"

typedef enum mt_fault_kind {
    MT_FAULT_SWAP_K,   /* keys of two places exchanged in one layer, their values left */
    MT_FAULT_SWAP_KV,  /* keys and values of two places exchanged: attention is a sum, nothing
                          changes */
    MT_FAULT_POSITION, /* later tokens take the next position's embedding */
    MT_FAULT_STALE,    /* one layer's new row holds the row before it */
    MT_FAULT_MIX_KV    /* keys and values of the old rows exchanged in one layer, after a growth */
} mt_fault_kind;

typedef struct mt_fault {
    mt_fault_kind kind;
    uint32_t layer;     /* where */
    uint32_t ctx;       /* at the step that makes the cache this long; POSITION: from it on */
    uint32_t positions; /* of the model: no token is moved beyond them */
} mt_fault;

/* Puts in front of *kv a strategy that does what it does and damages it so (an mt_kv_wrap;
 * fault: an mt_fault, which is copied). */
mt_status mt_kv_fault(mt_kv **kv, const void *fault, mt_error *err);

#endif
