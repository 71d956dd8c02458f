/* printable.c - see printable.h. Both functions work on the escaped length of each byte, 1 or 4,
 * and never cut inside a UTF-8 sequence. */
#include "base/printable.h"

#include <stdbool.h>
#include <string.h>

static bool is_control(char c) {
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* A byte that continues a UTF-8 sequence. */
static bool is_continuation(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

static size_t escaped_length(const char *text, size_t n) {
    size_t length = n;
    for (size_t i = 0; i < n; i++)
        if (is_control(text[i]))
            length += 3;
    return length;
}

/* Writes all n bytes, which are known to fit, and a final 0. */
static void escape(char *out, const char *text, size_t n) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        if (is_control(text[i])) {
            *out++ = '\\';
            *out++ = 'x';
            *out++ = hex[(unsigned char)text[i] >> 4];
            *out++ = hex[text[i] & 15];
        } else {
            *out++ = text[i];
        }
    }
    *out = '\0';
}

char *mt_printable(char *buffer, size_t capacity, const char *text, size_t n) {
    bool cut = escaped_length(text, n) >= capacity;
    while (cut && n > 0 && (escaped_length(text, n) + 3 >= capacity || is_continuation(text[n])))
        n = n > capacity ? capacity : n - 1;
    escape(buffer, text, n);
    if (cut)
        strcat(buffer, "...");
    return buffer;
}

char *mt_printable_path(char *buffer, size_t capacity, const char *path) {
    size_t n = strlen(path);
    bool cut = escaped_length(path, n) >= capacity;
    if (cut && n > capacity) {
        path += n - capacity;
        n = capacity;
    }
    while (cut && n > 0 && (escaped_length(path, n) + 3 >= capacity || is_continuation(*path))) {
        path++;
        n--;
    }
    strcpy(buffer, cut ? "..." : "");
    escape(buffer + strlen(buffer), path, n);
    return buffer;
}
