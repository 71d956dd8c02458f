/* size.c - see size.h. */
#include "base/size.h"

#include <stdio.h>
#include <string.h>

bool mt_parse_size(const char *text, uint64_t *bytes) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        { "", 1 },         { "B", 1 },      { "KiB", MT_KIB }, { "MiB", MT_MIB },
        { "GiB", MT_GIB }, { "K", MT_KIB }, { "M", MT_MIB },   { "G", MT_GIB },
    };
    uint64_t n;
    if (!mt_digits(&text, &n))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(text, units[i].name) == 0)
            return mt_mul(n, units[i].bytes, bytes);
    return false;
}

bool mt_parse_u64(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    uint64_t n;
    if (!mt_digits(&text, &n) || *text != '\0' || n < least || n > most)
        return false;
    *value = n;
    return true;
}

char *mt_format_size(uint64_t bytes, char *buffer, size_t capacity) {
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    if (bytes < 1024) {
        snprintf(buffer, capacity, "%u B", (unsigned)bytes);
        return buffer;
    }
    double n = (double)bytes / 1024;
    int unit = 0;
    while (n >= 1024 && unit < 5) {
        n /= 1024;
        unit++;
    }
    snprintf(buffer, capacity, "%.1f %s", n, units[unit]);
    return buffer;
}
