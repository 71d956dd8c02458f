/* map.c - see map.h.
 *
 * Open addressing with linear probing: an entry stands at the place that its key's hash names, or
 * at the first free one behind. A removal closes the gap: entries behind it that would be found no
 * more move up. At most half of the places are used, and at least an eighth. */
#include "base/map.h"

#include <stdlib.h>

enum { FIRST_PLACES = 16 };

/* Every bit of the key changes about half the bits (the finalizer of MurmurHash3). */
static uint64_t hash(uint64_t key) {
    key = (key ^ key >> 33) * UINT64_C(0xff51afd7ed558ccd);
    key = (key ^ key >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ key >> 33;
}

/* The place of the key, or the free one where it belongs. There is always a free one. */
static size_t place_of(const mt_map *m, uint64_t key) {
    size_t mask = m->places - 1, i = hash(key) & mask;
    while (m->used[i] && m->entry[i].key != key)
        i = (i + 1) & mask;
    return i;
}

/* Moves all entries to another number of places. */
static bool resize(mt_map *m, size_t places) {
    mt_map other = { .count = m->count, .places = places };
    if (places > SIZE_MAX / 2 / sizeof *m->entry)
        return false;
    other.entry = calloc(places, sizeof *other.entry + sizeof *other.used);
    if (other.entry == NULL)
        return false;
    other.used = (bool *)(other.entry + places);
    for (size_t i = 0; i < m->places; i++)
        if (m->used[i]) {
            size_t to = place_of(&other, m->entry[i].key);
            other.entry[to] = m->entry[i];
            other.used[to] = true;
        }
    free(m->entry);
    *m = other;
    return true;
}

uint64_t *mt_map_find(const mt_map *m, uint64_t key) {
    if (m->count == 0)
        return NULL;
    size_t i = place_of(m, key);
    return m->used[i] ? &m->entry[i].value : NULL;
}

bool mt_map_set(mt_map *m, uint64_t key, uint64_t value) {
    size_t i = m->places == 0 ? 0 : place_of(m, key);
    bool known = m->places > 0 && m->used[i];
    if (!known && m->count + 1 > m->places / 2) {
        if (!resize(m, m->places == 0 ? FIRST_PLACES : 2 * m->places))
            return false;
        i = place_of(m, key);
    }
    m->entry[i] = (mt_map_entry){ key, value };
    m->used[i] = true;
    m->count += !known;
    return true;
}

/* After place gap became free: what stands behind it, up to the next free place, moves up where its
 * own place is not between. */
static void close_gap(mt_map *m, size_t gap) {
    size_t mask = m->places - 1;
    for (size_t i = (gap + 1) & mask; m->used[i]; i = (i + 1) & mask) {
        size_t home = hash(m->entry[i].key) & mask;
        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        m->entry[gap] = m->entry[i];
        m->used[gap] = true;
        m->used[i] = false;
        gap = i;
    }
}

bool mt_map_take(mt_map *m, uint64_t key, uint64_t *value) {
    size_t i = m->count == 0 ? 0 : place_of(m, key);
    if (m->count == 0 || !m->used[i])
        return false;
    if (value != NULL)
        *value = m->entry[i].value;
    m->used[i] = false;
    m->count--;
    close_gap(m, i);
    if (m->places > FIRST_PLACES && m->count < m->places / 8)
        (void)resize(m, m->places / 2); /* without memory it stays as it is */
    return true;
}

void mt_map_free(mt_map *m) {
    free(m->entry);
    *m = (mt_map){ 0 };
}
