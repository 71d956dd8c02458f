/* size.c - see size.h. */
#include "base/size.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The digits after a decimal point, if there is one: value / *scale; zeros at the end do not count.
 * False when there are none after it, or too many. */
static bool fraction(const char **text, uint64_t *value, uint64_t *scale) {
    *value = 0;
    *scale = 1;
    if (**text != '.')
        return true;
    const char *from = ++*text;
    if (!mt_digits(text, value) || *text - from > 18)
        return false;
    for (const char *c = from; c < *text; c++)
        *scale *= 10;
    for (; *value % 10 == 0 && *scale > 1; *scale /= 10)
        *value /= 10;
    return true;
}

bool mt_parse_size(const char *text, uint64_t *bytes) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        { "", 1 },         { "B", 1 },       { "KiB", MT_KIB }, { "MiB", MT_MIB },
        { "GiB", MT_GIB }, { "K", MT_KIB },  { "M", MT_MIB },   { "G", MT_GIB },
        { "KB", MT_KIB },  { "MB", MT_MIB }, { "GB", MT_GIB },
    };
    uint64_t n, part, scale;
    if (!mt_digits(&text, &n) || !fraction(&text, &part, &scale))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(text, units[i].name) == 0) {
            __extension__ unsigned __int128 more = (unsigned __int128)part * units[i].bytes;
            return more % scale == 0 && mt_mul(n, units[i].bytes, &n) &&
                   mt_add(n, (uint64_t)(more / scale), bytes);
        }
    return false;
}

bool mt_names_decimal_unit(const char *text) {
    for (const char *c = text; *c != '\0'; c++)
        if (c > text && isdigit((unsigned char)c[-1]) && strchr("KMGkmg", *c) != NULL &&
            (c[1] == 'B' || c[1] == 'b') && !isalnum((unsigned char)c[2]))
            return true;
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
