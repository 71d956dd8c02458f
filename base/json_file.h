/* json_file.h - JSON out of files that nobody vouches for, by way of jansson. */
#ifndef MT_BASE_JSON_FILE_H
#define MT_BASE_JSON_FILE_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

/* What was read. All of its memory goes at once: the values are not the caller's to release. */
typedef struct mt_json_tree {
    json_t *root;
    struct mt_json_block *blocks;
} mt_json_tree;

/* Parses n bytes of text that must be one JSON object, nested at most 2048 deep (jansson's limit),
 * its keys unique and no string of it with a NUL inside. file and offset (the text's place in the
 * file) are for the message. How much memory that takes is bounded by the text's length, which is
 * the caller's to limit. On failure there is nothing to free. */
mt_status mt_json_read(mt_json_tree *out, const char *file, const void *text, uint64_t n,
                       uint64_t offset, mt_error *err);
void mt_json_free(mt_json_tree *t); /* may be called twice */

/* The value of a key; NULL when the key is missing or its value is null. */
json_t *mt_json_get(const json_t *object, const char *key);

/* "a string", "an integer", ... for messages; "missing" for NULL. */
const char *mt_json_type(const json_t *value);

#endif
