/* pickle.c - see targets.h. Values are made into how many there are in them; what is read must be
 * the same when the memo keeps only what is fetched. */
#include "tests/fuzz/targets.h"

#include <stdlib.h>
#include <string.h>

#include "base/pickle.h"

/* Looks at every byte of an item. */
static uint64_t weigh(const mt_pickle_value *v) {
    uint64_t sum = v->kind;
    if (v->kind == MT_PICKLE_TEXT || v->kind == MT_PICKLE_BYTES)
        for (uint32_t i = 0; i < v->n; i++)
            sum += (unsigned char)v->text[i];
    else if (v->kind != MT_PICKLE_FLOAT)
        sum += v->u;
    return sum % MT_PICKLE_MOST;
}

static mt_status make(void *context, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                      mt_error *err) {
    uint64_t *steps = context, sum = made->shape != 0 ? made->u : 0;
    for (size_t i = 0; i < n; i++)
        sum += weigh(&item[i]) + 1;
    ++*steps;
    made->shape = (uint16_t)(sum % 7 + 1);
    made->u = sum % MT_PICKLE_MOST;
    return sum % 1009 == 0 ? mt_fail(err, MT_BAD, "the maker does not like %zu items", n) : MT_OK;
}

void mt_fuzz_pickle(const uint8_t *data, size_t n) {
    static const char *const names[] = { "action", "size", "a", NULL };
    static const mt_pickle_global globals[] = { { "collections", "OrderedDict" }, { NULL, NULL } };
    mt_pickle_maker maker = { names, make, make, n % 2 ? globals : NULL, make, 0 };
    mt_pickle_value made[2];
    mt_error err[2] = { { MT_OK, "" }, { MT_OK, "" } };
    uint64_t steps[2] = { 0, 0 };
    mt_status status[2];
    memset(made, 0, sizeof made);
    for (int first = 0; first < 2; first++) {
        maker.large = first;
        status[first] =
            mt_pickle_read(&maker, &steps[first], "f", data, n, &made[first], &err[first]);
    }
    if (status[0] != status[1] || steps[0] != steps[1] || made[0].shape != made[1].shape ||
        strcmp(err[0].text, err[1].text) != 0)
        abort();
}
