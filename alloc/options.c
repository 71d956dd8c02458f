/* options.c - the reading of a policy's options. */
#include "alloc/internal.h"

#include <string.h>

/* Length of a value: up to the next comma outside brackets. */
static size_t value_length(const char *text) {
    size_t n = 0;
    int depth = 0;
    for (; text[n] != '\0' && (text[n] != ',' || depth > 0); n++)
        depth += text[n] == '[' ? 1 : text[n] == ']' ? -1 : 0;
    return n;
}

mt_status mt_policy_options(char *text, mt_option_reader *read, void *context, mt_error *err) {
    while (*text != '\0') {
        char *key = text;
        text += strcspn(text, ":,");
        bool named = text > key, valued = *text == ':';
        char *value = valued ? text + 1 : text, *end = value + (valued ? value_length(value) : 0);
        if (!named || (*end == ',' && end[1] == '\0'))
            return mt_fail(err, MT_BAD, "policy option at \"%.60s\": expected key:value", key);
        text = *end == ',' ? end + 1 : end;
        *end = '\0';
        if (valued)
            value[-1] = '\0';
        MT_TRY(read(context, key, value, err));
    }
    return MT_OK;
}
