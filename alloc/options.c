/* options.c - the reading of a policy's options. */
#include "alloc/internal.h"

#include <string.h>

/* Copies [from, from + n) as a string; false when it does not fit. */
static bool copy(char *to, size_t room, const char *from, size_t n) {
    if (n >= room)
        return false;
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

/* Length of a value: up to the next comma outside brackets. */
static size_t value_length(const char *text) {
    size_t n = 0;
    int depth = 0;
    for (; text[n] != '\0' && (text[n] != ',' || depth > 0); n++)
        depth += text[n] == '[' ? 1 : text[n] == ']' ? -1 : 0;
    return n;
}

bool mt_policy_option(const char **text, char *key, size_t key_room, char *value, size_t value_room,
                      mt_status *status, mt_error *err) {
    const char *t = *text;
    *status = MT_OK;
    if (*t == '\0')
        return false;
    size_t n = strcspn(t, ":,"), m = 0;
    bool fits = copy(key, key_room, t, n);
    t += n;
    if (*t == ':') {
        t++;
        m = value_length(t);
    }
    fits = fits && copy(value, value_room, t, m);
    t += m;
    bool more = *t == ',';
    if (!fits || n == 0 || (more && t[1] == '\0')) {
        *status = mt_fail(err, MT_BAD, "policy option at \"%.60s\": expected key:value", *text);
        return false;
    }
    *text = more ? t + 1 : t;
    return true;
}
