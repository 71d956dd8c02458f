/* intern.c - see intern.h. The keys of the map are hashes, of equal ones the next free number. */
#include "base/intern.h"

#include <string.h>

static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash(const void *data, size_t n) {
    const char *p = data;
    uint64_t h = n, word = 0;
    for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        h = mix(h, word);
    }
    word = 0;
    if (n > 0)
        memcpy(&word, p, n);
    return mix(h, word);
}

/* Appends a string; its place is a multiple of 8, with a 0 behind it. */
static bool append(mt_intern *t, const void *data, uint32_t n) {
    size_t begin = t->bytes.count, end = (begin + n + 8) / 8 * 8;
    if (!mt_array_extend(&t->bytes, end))
        return false;
    uint64_t *place = mt_array_push(&t->begin);
    uint32_t *length = place != NULL ? mt_array_push(&t->length) : NULL;
    if (length == NULL) {
        t->begin.count = t->length.count;
        t->bytes.count = begin;
        return false;
    }
    if (n > 0)
        memcpy(t->bytes.at + begin, data, n);
    *place = begin;
    *length = n;
    return true;
}

bool mt_intern_add(mt_intern *t, const void *data, uint32_t n, uint32_t *id) {
    uint64_t h = hash(data, n);
    for (const uint64_t *known; (known = mt_map_find(&t->ids, h)) != NULL; h++) {
        uint32_t length;
        const void *other = mt_intern_get(t, (uint32_t)*known, &length);
        *id = (uint32_t)*known;
        if (length == n && (n == 0 || memcmp(other, data, n) == 0))
            return true;
    }
    *id = (uint32_t)t->length.count;
    if (t->length.count >= UINT32_MAX || !append(t, data, n))
        return false;
    if (mt_map_set(&t->ids, h, *id))
        return true;
    t->bytes.count = t->begin.at[--t->begin.count];
    t->length.count--;
    return false;
}

const void *mt_intern_get(const mt_intern *t, uint32_t id, uint32_t *n) {
    if (n != NULL)
        *n = t->length.at[id];
    return t->bytes.at + t->begin.at[id];
}

size_t mt_intern_memory(const mt_intern *t) {
    return t->bytes.count + t->begin.count * sizeof *t->begin.at +
           t->length.count * sizeof *t->length.at +
           t->ids.places * (sizeof *t->ids.entry + sizeof *t->ids.used);
}

void mt_intern_free(mt_intern *t) {
    mt_array_free(&t->bytes);
    mt_array_free(&t->begin);
    mt_array_free(&t->length);
    mt_map_free(&t->ids);
}
