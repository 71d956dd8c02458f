/* policy.c - the list of policies, and the reading of their options. */
#include "alloc/internal.h"

#include <stdio.h>
#include <string.h>

static const mt_policy_ops *const policies[] = { &mt_policy_torch,  &mt_policy_block,
                                                 &mt_policy_direct, &mt_policy_async,
                                                 &mt_policy_bfc,    &mt_policy_jemalloc };

const mt_policy_ops *mt_policy_find(const char *spec, const char **options) {
    size_t n = strcspn(spec, ",:");
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const char *name = policies[i]->name;
        if (strlen(name) == n && strncmp(name, spec, n) == 0) {
            bool none = spec[n] == '\0' || spec[n + 1] == '\0';
            bool wrong = spec[n] == ',' && policies[i]->colon;
            *options = none || wrong ? spec + n : spec + n + 1;
            return policies[i];
        }
    }
    return NULL;
}

bool mt_policy_known(const char *word) {
    const char *options;
    return mt_policy_find(word, &options) != NULL;
}

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
