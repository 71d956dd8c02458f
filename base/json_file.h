/* json_file.h - JSON out of files that nobody vouches for, by way of jansson. */
#ifndef MT_BASE_JSON_FILE_H
#define MT_BASE_JSON_FILE_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

/* Parses n bytes of text that must be one JSON object, its keys unique and no string of it with a
 * NUL inside. file and offset (the text's place in the file) are for the message. The caller calls
 * json_decref on *out. */
mt_status mt_json_object(json_t **out, const char *file, const unsigned char *text, uint64_t n,
                         uint64_t offset, mt_error *err);

/* The value of a key; NULL when the key is missing or its value is null. */
json_t *mt_json_get(const json_t *object, const char *key);

/* "a string", "an integer", ... for messages; "missing" for NULL. */
const char *mt_json_type(const json_t *value);

#endif
