/* json_file.c - see json_file.h. jansson checks the syntax, UTF-8, duplicate keys and the depth of
 * nesting; this file turns its findings into our one line, and gives it memory.
 *
 * jansson does not survive a failed allocation everywhere: its parser ends the program. Here it
 * meets none. While a text is parsed, all that jansson asks for is cut from the tree's own blocks,
 * and when there is no memory for a block, the parser is left by a jump; what it had is in the
 * blocks and goes with them. */
#include "base/json_file.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct mt_json_block {
    struct mt_json_block *next;
    size_t used, bytes; /* of data */
    _Alignas(16) unsigned char data[];
} block;

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

/* The parsing that this thread is in. */
typedef struct parsing {
    mt_json_tree *tree;
    jmp_buf no_memory;
} parsing;

static _Thread_local parsing *current;

static block *add_block(mt_json_tree *t, size_t n) {
    size_t bytes = t->blocks == NULL ? FIRST_BLOCK : 2 * t->blocks->bytes;
    bytes = bytes > LARGEST_BLOCK ? LARGEST_BLOCK : bytes;
    bytes = bytes < n ? n : bytes;
    block *b = bytes < SIZE_MAX - sizeof *b ? malloc(sizeof *b + bytes) : NULL;
    if (b == NULL)
        longjmp(current->no_memory, 1);
    b->next = t->blocks;
    b->used = 0;
    b->bytes = bytes;
    return t->blocks = b;
}

/* What jansson calls; outside of a parsing of ours it has the system's own. */
static void *take(size_t n) {
    if (current == NULL)
        return malloc(n);
    mt_json_tree *t = current->tree;
    size_t bytes = (n + 15) / 16 * 16;
    block *b = t->blocks;
    if (b == NULL || bytes > b->bytes - b->used)
        b = add_block(t, bytes);
    b->used += bytes;
    return b->data + b->used - bytes;
}

static void give_back(void *data) {
    if (current == NULL)
        free(data);
}

/* False when there was no memory. */
static bool parse(mt_json_tree *t, const char *text, size_t n, json_error_t *error) {
    parsing p = { .tree = t };
    json_set_alloc_funcs(take, give_back);
    current = &p;
    bool done = setjmp(p.no_memory) == 0;
    if (done)
        t->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, error);
    current = NULL;
    return done;
}

static mt_status refuse(const mt_json_tree *t, const char *file, uint64_t offset,
                        const json_error_t *error, mt_error *err) {
    unsigned long long at = offset;
    if (t->root == NULL)
        return mt_fail(err, MT_BAD, "%s: byte %llu: not the JSON expected: %s", file,
                       at + (unsigned)error->position, error->text);
    return mt_fail(err, MT_BAD, "%s: byte %llu: %s, expected a JSON object", file, at,
                   mt_json_type(t->root));
}

mt_status mt_json_read(mt_json_tree *out, const char *file, const void *text, uint64_t n,
                       uint64_t offset, mt_error *err) {
    json_error_t error;
    *out = (mt_json_tree){ 0 };
    if (n == 0)
        return mt_fail(err, MT_BAD, "%s: byte %llu: empty, expected a JSON object", file,
                       (unsigned long long)offset);
    mt_status status = MT_OK;
    if (!parse(out, text, n, &error))
        status = mt_no_memory(err, file);
    else if (!json_is_object(out->root))
        status = refuse(out, file, offset, &error, err);
    if (status != MT_OK)
        mt_json_free(out);
    return status;
}

void mt_json_free(mt_json_tree *t) {
    while (t->blocks != NULL) {
        block *b = t->blocks;
        t->blocks = b->next;
        free(b);
    }
    t->root = NULL;
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
