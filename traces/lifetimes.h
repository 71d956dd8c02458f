/* lifetimes.h - lists of requests with the times of their beginning and end, made operations in
 * order: at one time the frees come first, requests in the order of the file.
 *
 * All of the list is read first: 44 bytes a request, 4 more while it is sorted. */
#ifndef MT_TRACES_LIFETIMES_H
#define MT_TRACES_LIFETIMES_H

#include "traces/reader.h"

typedef struct mt_lifetime {
    uint64_t begin, end, bytes; /* live from begin on, at end no more */
    uint32_t line, live;
} mt_lifetime;

/* What the struct of a reader of such lists begins with. */
typedef struct mt_lifetimes {
    mt_reader base;
    MT_ARRAY(mt_lifetime) of;
    uint32_t *by_begin, *by_end; /* [of.count] each, once all are read */
    uint32_t *spare;             /* [spares], numbers of requests that are live no more */
    size_t begun, ended, spares;
    bool ready;
} mt_lifetimes;

/* Adds what the latest line says; MT_BAD when it does not end after it begins, or has no bytes. */
mt_status mt_lifetimes_add(mt_lifetimes *l, uint64_t begin, uint64_t end, uint64_t bytes,
                           mt_error *err);

/* The next operation; the first call sorts. */
mt_status mt_lifetimes_next(mt_lifetimes *l, mt_item *item, mt_error *err);

void mt_lifetimes_close(mt_reader *r);

#endif
