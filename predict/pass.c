/* pass.c - what every operation is made of: taking and dropping memory. See internal.h. */
#include "predict/internal.h"

#include "base/interrupt.h"
#include "base/size.h"

uint64_t pass_product(const uint64_t *factor, size_t count) {
    uint64_t product = 1;
    for (size_t i = 0; i < count; i++)
        if (!mt_mul(product, factor[i], &product))
            return UINT64_MAX;
    return product;
}

mt_mem pass_new(pass *t, mt_tag tag, uint64_t bytes) {
    mt_mem m = { 0 };
    mt_request r = { .bytes = bytes, .tag = tag, .layer = t->layer };
    if (t->status == MT_OK && mt_interrupted())
        t->status = mt_fail(t->err, MT_INTERRUPTED, "interrupted");
    if (t->status == MT_OK)
        t->status = mt_alloc_get(t->alloc, &r, &m, t->err);
    return m;
}

void pass_drop(pass *t, mt_mem *m) {
    if (t->status == MT_OK)
        t->status = mt_alloc_put(t->alloc, m, t->err);
}

void pass_scratch(pass *t, uint64_t bytes) {
    mt_mem m = pass_new(t, MT_ACTIVATIONS, bytes);
    pass_drop(t, &m);
}

mt_mem pass_rows(pass *t, uint64_t width) {
    return pass_new(t, MT_ACTIVATIONS, BYTES(t->B, t->Q, width, t->E));
}

void pass_replace(pass *t, mt_mem *x, mt_mem next) {
    pass_drop(t, x);
    *x = next;
}
