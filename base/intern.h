/* intern.h - byte strings that are kept once and known by a number.
 *
 *     mt_intern names = { 0 };                                  an empty table
 *     uint32_t id;
 *     if (!mt_intern_add(&names, text, n, &id)) ...             no memory
 *     const void *text = mt_intern_get(&names, id, &n);         as it was given, and a final 0
 *     mt_intern_free(&names);                                   empty again
 *
 * Numbers count from 0 in the order of first entry. The bytes may be anything: text, or an array of
 * numbers of another table. */
#ifndef MT_BASE_INTERN_H
#define MT_BASE_INTERN_H

#include "base/array.h"
#include "base/map.h"

typedef struct mt_intern {
    MT_ARRAY(char) bytes; /* all strings, one behind the other, each begins at a multiple of 8 */
    MT_ARRAY(uint64_t) begin; /* where each begins */
    MT_ARRAY(uint32_t) length;
    mt_map ids; /* from hash, or the next one that is free */
} mt_intern;

/* Enters n bytes, if they are not there; *id: their number. False when there is no memory, or there
 * are 2^32 strings. */
bool mt_intern_add(mt_intern *t, const void *data, uint32_t n, uint32_t *id);

/* The bytes of a number; good until the next entry. n may be NULL. */
const void *mt_intern_get(const mt_intern *t, uint32_t id, uint32_t *n);

static inline size_t mt_intern_count(const mt_intern *t) {
    return t->length.count;
}

/* Bytes of memory that it takes. */
size_t mt_intern_memory(const mt_intern *t);

void mt_intern_free(mt_intern *t);

#endif
