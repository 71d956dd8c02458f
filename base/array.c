/* array.c - see array.h. */
#include "base/array.h"

#include <stdint.h>
#include <string.h>

enum { FIRST_ROOM = 16 };

bool mt_array_grow(void *array, size_t *room, size_t need, size_t size) {
    void *at;
    size_t more = *room < FIRST_ROOM / 2 ? FIRST_ROOM : 2 * *room;
    if (need > SIZE_MAX / 2 / size) /* so that twice the room is a size too */
        return false;
    if (more < need)
        more = need;
    memcpy(&at, array, sizeof at);
    at = realloc(at, more * size);
    if (at == NULL)
        return false;
    memcpy(array, &at, sizeof at);
    *room = more;
    return true;
}

bool mt_array_zero(void *array, size_t *count, size_t n, size_t size) {
    memset((char *)array + *count * size, 0, (n - *count) * size);
    *count = n;
    return true;
}
