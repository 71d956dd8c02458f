/* map.h - a hash map from 64-bit keys to 64-bit values.
 *
 *     mt_map sizes = { 0 };                        an empty one
 *     if (!mt_map_set(&sizes, id, bytes)) ...      no memory, and the map is as before
 *     uint64_t *bytes = mt_map_find(&sizes, id);   NULL: not there
 *     mt_map_remove(&sizes, id);
 *     mt_map_free(&sizes);                         empty again
 *
 * Memory is proportional to what is there now, not to what ever was. Whatever sets or removes moves
 * values: a pointer to one is good until then. */
#ifndef MT_BASE_MAP_H
#define MT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mt_map_entry {
    uint64_t key, value;
} mt_map_entry;

typedef struct mt_map {
    size_t count;
    size_t places;       /* a power of two, or 0 */
    mt_map_entry *entry; /* [places] */
    bool *used;          /* [places], behind them */
} mt_map;

uint64_t *mt_map_find(const mt_map *m, uint64_t key);

/* Sets or replaces. Replacing does not fail. */
bool mt_map_set(mt_map *m, uint64_t key, uint64_t value);

/* Removes the key; *value (which may be NULL) is what it had. False when it was not there. */
bool mt_map_take(mt_map *m, uint64_t key, uint64_t *value);

static inline bool mt_map_remove(mt_map *m, uint64_t key) {
    return mt_map_take(m, key, NULL);
}

void mt_map_free(mt_map *m);

#endif
