/* columns.c - see columns.h. */
#include "traces/columns.h"

#include <string.h>

#include "base/size.h"

int mt_cut(char *line, char separator, char **column, int most) {
    int n = 0;
    for (char *at = line; at != NULL; n++) {
        if (n < most)
            column[n] = at;
        at = strchr(at, separator);
        if (at != NULL)
            *at++ = '\0';
    }
    return n;
}

bool mt_column(const char *text, uint64_t *value) {
    return mt_digits(&text, value) && *text == '\0';
}

bool mt_column32(const char *text, uint32_t *value) {
    uint64_t n;
    if (!mt_column(text, &n) || n > UINT32_MAX)
        return false;
    *value = (uint32_t)n;
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool mt_column_pointer(const char *text, uint64_t *value) {
    int digits = 0;
    *value = 0;
    if (strcmp(text, "(nil)") == 0 || strcmp(text, "0") == 0)
        return true;
    if (strncmp(text, "0x", 2) != 0)
        return false;
    for (text += 2; hex_digit(*text) >= 0; text++, digits++)
        *value = *value << 4 | (uint64_t)hex_digit(*text);
    return *text == '\0' && digits > 0 && digits <= 16;
}
