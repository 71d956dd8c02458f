/* json_file.c - see json_file.h. jansson checks the syntax, UTF-8, duplicate keys and the depth
 * of nesting; this file only turns its findings into our one line. */
#include "base/json_file.h"

#include <string.h>

#include "base/text.h"

mt_status mt_json_object(json_t **out, const char *file, const unsigned char *text, uint64_t n,
                         uint64_t offset, mt_error *err) {
    json_error_t error;
    char what[120];
    *out = NULL;
    if (n == 0)
        return mt_fail(err, MT_BAD, "%s: byte %llu: nothing there, expected a JSON object", file,
                       (unsigned long long)offset);
    json_t *value = json_loadb((const char *)text, n, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL)
        return mt_fail(err,
                       json_error_code(&error) == json_error_out_of_memory ? MT_FAILED : MT_BAD,
                       "%s: byte %llu: not the JSON expected: %s", file,
                       (unsigned long long)offset + (unsigned)error.position,
                       mt_printable(what, sizeof what, error.text, strlen(error.text)));
    if (!json_is_object(value)) {
        mt_status status = mt_fail(err, MT_BAD, "%s: byte %llu: %s, expected a JSON object", file,
                                   (unsigned long long)offset, mt_json_type(value));
        json_decref(value);
        return status;
    }
    *out = value;
    return MT_OK;
}

json_t *mt_json_get(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

const char *mt_json_type(const json_t *value) {
    if (value == NULL)
        return "missing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}
