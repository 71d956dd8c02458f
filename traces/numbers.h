/* numbers.h - small numbers for things that come and go under names of 64 bits: requests by id,
 * segments by their number in a file.
 *
 * A number is below the most things held at once, and the one given back last is given out first:
 * arrays indexed by it stay small however long a file is. */
#ifndef MT_TRACES_NUMBERS_H
#define MT_TRACES_NUMBERS_H

#include "base/array.h"
#include "base/map.h"

#define MT_NO_NUMBER UINT32_MAX

/* All zero: holds nothing. */
typedef struct mt_numbers {
    mt_map of;                /* name -> number */
    MT_ARRAY(uint32_t) spare; /* given back, the last one on top */
    uint32_t next;            /* numbers given out so far are below it */
} mt_numbers;

/* The number of a name; MT_NO_NUMBER when it is not held. */
uint32_t mt_numbers_find(const mt_numbers *n, uint64_t name);

/* Gives a name that is not held a number; MT_NO_NUMBER when there is no memory. */
uint32_t mt_numbers_take(mt_numbers *n, uint64_t name);

/* Gives the number of a name back; MT_NO_NUMBER when it is not held. */
uint32_t mt_numbers_drop(mt_numbers *n, uint64_t name);

void mt_numbers_free(mt_numbers *n);

#endif
