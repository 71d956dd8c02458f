/* numbers.c - see numbers.h. */
#include "traces/numbers.h"

uint32_t mt_numbers_find(const mt_numbers *n, uint64_t name) {
    const uint64_t *number = mt_map_find(&n->of, name);
    return number != NULL ? (uint32_t)*number : MT_NO_NUMBER;
}

/* With room for every number to be spare: giving one back cannot fail. */
uint32_t mt_numbers_take(mt_numbers *n, uint64_t name) {
    bool fresh = n->spare.count == 0;
    if (fresh && (n->next == MT_NO_NUMBER || !mt_array_reserve(&n->spare, (size_t)n->next + 1)))
        return MT_NO_NUMBER;
    uint32_t number = fresh ? n->next : n->spare.at[n->spare.count - 1];
    if (!mt_map_set(&n->of, name, number))
        return MT_NO_NUMBER;
    n->next += fresh;
    n->spare.count -= !fresh;
    return number;
}

uint32_t mt_numbers_drop(mt_numbers *n, uint64_t name) {
    uint64_t number;
    if (!mt_map_take(&n->of, name, &number))
        return MT_NO_NUMBER;
    n->spare.at[n->spare.count++] = (uint32_t)number;
    return (uint32_t)number;
}

void mt_numbers_free(mt_numbers *n) {
    mt_map_free(&n->of);
    mt_array_free(&n->spare);
    n->next = 0;
}
