/* text.c - see text.h. Text is gone through one unit at a time: a character, or a byte that belongs
 * to none. A copy that must be cut keeps units from the front as far as its room for the front
 * goes, and units from the back likewise. */
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool continues(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return false;
    return true;
}

size_t mt_utf8(const char *text, size_t n, uint32_t *code) {
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = (unsigned char)text[0];
    size_t length = first < 0x80   ? 1
                    : first < 0xc2 ? 0
                    : first < 0xe0 ? 2
                    : first < 0xf0 ? 3
                    : first < 0xf5 ? 4
                                   : 0;
    if (length == 0 || length > n || !continues(text + 1, length - 1))
        return 0;
    uint32_t c = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | ((unsigned char)text[i] & 0x3f);
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    if (code != NULL)
        *code = c;
    return length;
}

/* ---- printable text -------------------------------------------------------------------------- */

/* C0, DEL and C1; line and paragraph separators; what changes the direction of a line. */
static bool is_shown(uint32_t c) {
    return !(c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
             (c >= 0x2066 && c <= 0x2069));
}

/* Bytes of the unit at text, of which n > 0 are there, and how many its copy takes. */
static size_t unit(const char *text, size_t n, size_t *copied) {
    uint32_t code;
    size_t length = mt_utf8(text, n, &code);
    bool plain = length > 0 && is_shown(code);
    length = length == 0 ? 1 : length;
    *copied = plain ? length : 4 * length;
    return length;
}

/* Bytes of the unit that ends at text + n. */
static size_t last_unit(const char *text, size_t n) {
    for (size_t length = 1; length <= 4 && length <= n; length++)
        if (mt_utf8(text + n - length, length, NULL) == length)
            return length;
    return 1;
}

/* Bytes at the front whose copy fits room characters. */
static size_t front(const char *text, size_t n, size_t room) {
    size_t at = 0, copied;
    while (at < n) {
        size_t length = unit(text + at, n - at, &copied);
        if (copied > room)
            break;
        room -= copied;
        at += length;
    }
    return at;
}

/* Where the bytes at the back begin whose copy fits room characters; not before start. */
static size_t back(const char *text, size_t start, size_t n, size_t room) {
    size_t copied;
    while (n > start) {
        size_t length = last_unit(text + start, n - start);
        unit(text + n - length, length, &copied);
        if (copied > room)
            break;
        room -= copied;
        n -= length;
    }
    return n;
}

/* Writes all n bytes, which are known to fit, and a final 0. Returns the end. */
static char *copy(char *out, const char *text, size_t n) {
    size_t copied;
    for (size_t at = 0, length; at < n; at += length) {
        length = unit(text + at, n - at, &copied);
        if (copied == length)
            out = mempcpy(out, text + at, length);
        else
            for (size_t i = 0; i < length; i++)
                out += sprintf(out, "\\x%02x", (unsigned char)text[at + i]);
    }
    *out = '\0';
    return out;
}

/* What must be cut keeps up to head characters from its front, and as many as fit of its back. */
static char *shorten(char *buffer, size_t capacity, const char *text, size_t n, size_t head) {
    if (front(text, n, capacity - 1) == n) {
        copy(buffer, text, n);
        return buffer;
    }
    size_t kept = front(text, n, head);
    char *at = stpcpy(copy(buffer, text, kept), "...");
    size_t again = back(text, kept, n, capacity - 1 - (size_t)(at - buffer));
    if (head < capacity - 4)
        copy(at, text + again, n - again);
    return buffer;
}

char *mt_printable(char *buffer, size_t capacity, const char *text, size_t n) {
    return shorten(buffer, capacity, text, n, capacity - 4);
}

char *mt_printable_path(char *buffer, size_t capacity, const char *path) {
    return shorten(buffer, capacity, path, strlen(path), 0);
}

char *mt_printable_line(char *buffer, size_t capacity, const char *line) {
    return shorten(buffer, capacity, line, strlen(line), capacity / 2);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

size_t mt_json_quote(char *buffer, const char *text, size_t n) {
    char *out = buffer;
    *out++ = '"';
    for (size_t at = 0, length; at < n; at += length == 0 ? 1 : length) {
        length = mt_utf8(text + at, n - at, NULL);
        if (length == 0) {
            out = mempcpy(out, "\\ufffd", 6);
        } else if ((unsigned char)text[at] < ' ' || text[at] == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)text[at]);
            out = mempcpy(out, escape, 6);
        } else {
            if (text[at] == '"' || text[at] == '\\')
                *out++ = '\\';
            out = mempcpy(out, text + at, length);
        }
    }
    *out++ = '"';
    return (size_t)(out - buffer);
}
