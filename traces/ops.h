/* ops.h - the requests and frees of a stored run, without their places: what another policy can be
 * asked to do.
 *
 * Read from memtrace's own traces (traces/trace.h), from recorded traces of PyTorch's allocator
 * (traces/torch_check.h) and from schedules of whole decodes (traces/schedule_check.h). */
#ifndef MT_TRACES_OPS_H
#define MT_TRACES_OPS_H

#include "alloc/alloc.h"

typedef enum mt_op_kind {
    MT_OP_GET,  /* request number id */
    MT_OP_PUT,  /* its free */
    MT_OP_USE,  /* its use by another stream */
    MT_OP_TRIM, /* empty_cache */
    MT_OP_HOLD, /* from here on no stream finishes */
    MT_OP_GO,   /* all streams finish */
    MT_OP_MARK  /* a step ended: bytes = kv_ideal, id = ctx */
} mt_op_kind;

typedef struct mt_op {
    uint64_t id; /* requests count from 0 */
    uint64_t bytes;
    uint32_t stream;
    int32_t layer;
    uint8_t kind, tag;
} mt_op;

typedef struct mt_ops {
    mt_op *op;
    size_t n, room;
    uint64_t requests; /* ids are below this */
} mt_ops;

/* Reads a file of any of the three kinds. MT_BAD when it is none of them, or broken. */
mt_status mt_ops_read(mt_ops *ops, const char *path, mt_error *err);
void mt_ops_free(mt_ops *ops);

/* Carries all of it out on an allocator. Frees and uses of requests that were refused are left out;
 * *refused counts those. Stops with MT_INTERRUPTED when stop (may be NULL) says so. */
mt_status mt_ops_run(const mt_ops *ops, mt_alloc *a, uint64_t *refused, bool (*stop)(void),
                     mt_error *err);

#endif
