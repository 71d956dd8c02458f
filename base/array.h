/* array.h - arrays that grow.
 *
 *     MT_ARRAY(uint64_t) ids = { 0 };             an empty one
 *     uint64_t *id = mt_array_push(&ids);         NULL: no memory, and the array is as before
 *     for (size_t i = 0; i < ids.count; i++) ...  ids.at[i]
 *     mt_array_free(&ids);                        empty again
 *
 * Room doubles, so that pushing costs constant time each. Whatever grows an array moves it: a
 * pointer to an element is good until then. */
#ifndef MT_BASE_ARRAY_H
#define MT_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define MT_ARRAY(type)                                                                             \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t count, room; /* in use; there */                                                    \
    }

/* Makes room for n elements in all; false when there is no memory. */
#define mt_array_reserve(a, n)                                                                     \
    ((n) <= (a)->room || mt_array_grow(&(a)->at, &(a)->room, (n), sizeof *(a)->at))

/* A new last element, its contents undefined; NULL when there is no memory. */
#define mt_array_push(a) (mt_array_reserve(a, (a)->count + 1) ? &(a)->at[(a)->count++] : NULL)

/* Makes the array n elements long at least, new ones all zero; false when there is no memory. */
#define mt_array_extend(a, n)                                                                      \
    ((n) <= (a)->count ||                                                                          \
     (mt_array_reserve(a, n) && mt_array_zero((a)->at, &(a)->count, (n), sizeof *(a)->at)))

#define mt_array_free(a)                                                                           \
    do {                                                                                           \
        free((a)->at);                                                                             \
        (a)->at = NULL;                                                                            \
        (a)->count = (a)->room = 0;                                                                \
    } while (0)

#ifdef __cplusplus
extern "C" {
#endif

/* What the macros call. array is the place of the pointer to the first element, *room how many
 * elements of size bytes there are. On false nothing has changed. */
bool mt_array_grow(void *array, size_t *room, size_t need, size_t size);
bool mt_array_zero(void *array, size_t *count, size_t n, size_t size);

#ifdef __cplusplus
}
#endif

#endif
