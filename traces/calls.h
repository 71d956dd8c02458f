/* calls.h - the driver calls of one operation, as recordings list them.
 *
 *     M  a segment taken (cudaMalloc)      F  and given back
 *     R  a range of addresses reserved     A  and given back
 *     P  pages mapped into a range         U  and unmapped
 *     X  a segment refused                 x  a page refused
 *
 * Neighbouring pages mapped or unmapped one after the other are one call. */
#ifndef MT_TRACES_CALLS_H
#define MT_TRACES_CALLS_H

#include <stdint.h>

#include "base/array.h"

typedef struct mt_call {
    char op;
    uint32_t segment;
    uint64_t offset, bytes;
} mt_call;

typedef MT_ARRAY(mt_call) mt_calls;

/* False when there is no memory. */
bool mt_calls_add(mt_calls *c, mt_call call);

/* Reads a call as it stands in a recording (M20971520, F3, P0+0:41943040) at *text and moves past
 * it. */
bool mt_call_read(const char **text, mt_call *call);

/* Writes it so into 64 characters; "none" for NULL. Returns buffer. */
char *mt_call_write(const mt_call *call, char buffer[64]);

/* Whether a recorded call is the one made: recordings tell the segment or the bytes, not both. */
bool mt_call_equal(const mt_call *a, const mt_call *b);

#endif
