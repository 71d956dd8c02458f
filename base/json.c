/* json.c - see json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

static void to_file(void *context, const char *text, size_t n) {
    fwrite(text, 1, n, context);
}

static void to_output(void *context, const char *text, size_t n) {
    mt_output_write(context, text, n);
}

static void begin(mt_json *j, void (*write)(void *, const char *, size_t), void *context) {
    j->write = write;
    j->context = context;
    j->depth = 0;
    j->line = false;
    j->mistake = NULL;
}

void mt_json_to_file(mt_json *j, FILE *file) {
    begin(j, to_file, file);
}

void mt_json_to_output(mt_json *j, mt_output *out) {
    begin(j, to_output, out);
}

static void put(mt_json *j, const char *text) {
    j->write(j->context, text, strlen(text));
}

/* In pieces, each of whole characters: a string of any length needs no memory. */
static void put_text(mt_json *j, const char *text) {
    enum { PIECE = 64 };
    char quoted[MT_JSON_QUOTED(PIECE)];
    put(j, "\"");
    for (size_t n = strlen(text), piece; n > 0; text += piece, n -= piece) {
        size_t length;
        for (piece = 0; piece < n && piece <= PIECE - 4; piece += length > 0 ? length : 1)
            length = mt_utf8(text + piece, n - piece, NULL);
        size_t written = mt_json_quote(quoted, text, piece);
        j->write(j->context, quoted + 1, written - 2);
    }
    put(j, "\"");
}

/* FNV-1a. */
static uint64_t hash(const char *key) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *key != '\0'; key++)
        h = (h ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return h;
}

static void check_key(mt_json *j, mt_json_level *l, const char *key) {
    uint64_t h = hash(key);
    for (size_t i = 0; i < l->items && i < MT_JSON_KEYS; i++)
        if (l->key[i] == h)
            j->mistake = "a key twice in one object";
    if (l->items < MT_JSON_KEYS)
        l->key[l->items] = h;
}

/* What comes before an item: comma, new line, key. */
static void item(mt_json *j, const char *key) {
    mt_json_level *l = j->depth > 0 ? &j->level[j->depth - 1] : NULL;
    if ((l != NULL && l->object) != (key != NULL))
        j->mistake = "an item of an object without a key, or a key elsewhere";
    else if (key != NULL)
        check_key(j, l, key);
    if (l != NULL && l->items++ > 0)
        put(j, j->line ? "," : ", ");
    if (j->line)
        put(j, j->depth > 1 ? "\n  " : "\n");
    j->line = false;
    if (key != NULL) {
        put_text(j, key);
        put(j, ": ");
    }
}

static void open_level(mt_json *j, const char *key, bool object) {
    item(j, key);
    if (j->depth == MT_JSON_DEPTH) {
        j->mistake = "nested too deeply";
        return;
    }
    j->level[j->depth].object = object;
    j->level[j->depth++].items = 0;
    put(j, object ? "{" : "[");
}

void mt_json_begin_object(mt_json *j, const char *key) {
    open_level(j, key, true);
}

void mt_json_begin_array(mt_json *j, const char *key) {
    open_level(j, key, false);
}

void mt_json_end(mt_json *j) {
    if (j->depth == 0) {
        j->mistake = "ended more often than begun";
        return;
    }
    if (j->line)
        put(j, "\n");
    j->line = false;
    put(j, j->level[--j->depth].object ? "}" : "]");
}

void mt_json_line(mt_json *j) {
    j->line = true;
}

void mt_json_unsigned(mt_json *j, const char *key, uint64_t value) {
    char text[24];
    item(j, key);
    snprintf(text, sizeof text, "%" PRIu64, value);
    put(j, text);
}

void mt_json_signed(mt_json *j, const char *key, int64_t value) {
    char text[24];
    item(j, key);
    snprintf(text, sizeof text, "%" PRId64, value);
    put(j, text);
}

void mt_json_fixed(mt_json *j, const char *key, double value, int decimals) {
    char text[400]; /* the largest double has 309 digits */
    item(j, key);
    snprintf(text, sizeof text, "%.*f", decimals, value);
    put(j, isfinite(value) ? text : "null");
}

void mt_json_text(mt_json *j, const char *key, const char *text) {
    item(j, key);
    if (text != NULL)
        put_text(j, text);
    else
        put(j, "null");
}

void mt_json_bool(mt_json *j, const char *key, bool value) {
    item(j, key);
    put(j, value ? "true" : "false");
}

void mt_json_null(mt_json *j, const char *key) {
    mt_json_text(j, key, NULL);
}

mt_status mt_json_finish(mt_json *j, mt_error *err) {
    if (j->depth > 0 && j->mistake == NULL)
        j->mistake = "begun more often than ended";
    put(j, "\n");
    return j->mistake == NULL
               ? MT_OK
               : mt_fail(err, MT_CHECK, "what was written is no JSON: %s", j->mistake);
}
