/* tokenizer.c - see tokenizer.h.
 *
 * Both files write bytes as symbols, one character for each: the 188 printable bytes of Latin-1
 * stand for themselves, the other 68 are U+0100 onward in the order of the bytes. vocab.json maps
 * a string of symbols to its id, merges.txt has one merge a line, lowest rank first. After opening,
 * symbols are gone: an id has its bytes, a byte its id, and a pair of ids its merge.
 *
 * Encoding: pretokenize.h cuts the text, each byte of a piece becomes an id, bpe.h merges them. */
#include "engine/text/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/input.h"
#include "base/json_file.h"
#include "base/size.h"
#include "base/text.h"
#include "engine/text/bpe.h"
#include "engine/text/pretokenize.h"

#define IDS_MAX        16777216 /* ids are below this, the largest vocabulary of a model too */
#define FILE_MOST      ((uint64_t)1 << 30)
#define LINE_MAX_BYTES ((size_t)1 << 20) /* of merges.txt */

static const char end_of_text[] = "<|endoftext|>";

typedef struct token {
    const unsigned char *bytes; /* in mt_tokenizer.bytes; NULL: no token has this id */
    size_t length;
} token;

struct mt_tokenizer {
    token *tokens; /* [size], by id */
    size_t size;
    unsigned char *bytes;  /* those of all tokens, one after another */
    int32_t byte_ids[256]; /* of the tokens of one byte */
    int32_t end_of_text;   /* -1: none */
    mt_merges merges;
    mt_splitter *splitter;
};

/* The beginning of a symbol or a line, for a message. */
#define SHOWN 84
static const char *shown(char buffer[SHOWN], const char *s, size_t n) {
    return mt_printable(buffer, SHOWN, s, n);
}

/* ---- symbols --------------------------------------------------------------------------------- */

#define CODES 324 /* code points of the symbols are below 256 + 68 */

typedef struct alphabet {
    int code[256];   /* of a byte's symbol */
    int byte[CODES]; /* of a symbol; -1 when the code point is none */
} alphabet;

static alphabet alphabet_make(void) {
    alphabet a;
    int next = 256;
    for (int i = 0; i < CODES; i++)
        a.byte[i] = -1;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        a.code[b] = printable ? b : next++;
        a.byte[a.code[b]] = b;
    }
    return a;
}

/* Writes the bytes that n bytes of symbols, valid UTF-8, stand for; false when one is outside the
 * alphabet. */
static bool symbols_to_bytes(const alphabet *a, const char *s, size_t n, unsigned char *bytes,
                             size_t *length) {
    uint32_t code = CODES;
    *length = 0;
    for (const char *end = s + n; s < end;) {
        s += mt_utf8(s, (size_t)(end - s), &code);
        if (code >= CODES || a->byte[code] < 0)
            return false;
        bytes[(*length)++] = (unsigned char)a->byte[code];
    }
    return true;
}

/* ---- vocab.json ------------------------------------------------------------------------------ */

/* Checks one id, and raises *size (largest id + 1) and *bytes (of all symbols) by its entry. */
static mt_status check_id(const char *path, const char *key, size_t n, const json_t *value,
                          size_t *size, size_t *bytes, mt_error *err) {
    char text[SHOWN];
    if (!json_is_integer(value))
        return mt_fail(err, MT_BAD, "%s: the id of \"%s\" is not an integer", path,
                       shown(text, key, n));
    json_int_t id = json_integer_value(value);
    if (id < 0 || id >= IDS_MAX)
        return mt_fail(err, MT_BAD,
                       "%s: the id of \"%s\" is %" JSON_INTEGER_FORMAT ", expected 0 to %d", path,
                       shown(text, key, n), id, IDS_MAX - 1);
    *size = (size_t)id >= *size ? (size_t)id + 1 : *size;
    *bytes += n;
    return MT_OK;
}

/* Makes room for all tokens. */
static mt_status size_tokens(mt_tokenizer *t, const char *path, json_t *vocab, mt_error *err) {
    const char *key;
    size_t n, bytes = 0;
    json_t *value;
    json_object_keylen_foreach(vocab, key, n, value)
        MT_TRY(check_id(path, key, n, value, &t->size, &bytes, err));
    t->tokens = calloc(t->size, sizeof *t->tokens);
    t->bytes = malloc(bytes + 1);
    if (t->tokens == NULL || t->bytes == NULL)
        return mt_no_memory(err, "the vocabulary");
    return MT_OK;
}

/* Writes the bytes of one token to *at and moves it past them. */
static mt_status fill_token(const alphabet *a, const char *path, const char *key, size_t n,
                            token *slot, unsigned char **at, mt_error *err) {
    char text[SHOWN];
    size_t length;
    if (slot->bytes != NULL)
        return mt_fail(err, MT_BAD, "%s: the id of \"%s\" is also that of another token", path,
                       shown(text, key, n));
    if (n == 0)
        return mt_fail(err, MT_BAD, "%s: a token is empty", path);
    if (!symbols_to_bytes(a, key, n, *at, &length))
        return mt_fail(err, MT_BAD, "%s: \"%s\" has a character outside the byte alphabet", path,
                       shown(text, key, n));
    *slot = (token){ *at, length };
    *at += length;
    return MT_OK;
}

static mt_status fill_tokens(mt_tokenizer *t, const alphabet *a, const char *path, json_t *vocab,
                             mt_error *err) {
    unsigned char *at = t->bytes;
    const char *key;
    size_t n;
    json_t *value;
    json_object_keylen_foreach(vocab, key, n, value) {
        token *slot = &t->tokens[json_integer_value(value)];
        MT_TRY(fill_token(a, path, key, n, slot, &at, err));
    }
    return MT_OK;
}

/* The id of n bytes of symbols, -1 when the vocabulary has none. */
static int32_t id_of(json_t *vocab, const char *symbols, size_t n) {
    json_t *id = json_object_getn(vocab, symbols, n);
    return id != NULL ? (int32_t)json_integer_value(id) : -1;
}

static mt_status find_bytes(mt_tokenizer *t, const alphabet *a, const char *path, json_t *vocab,
                            mt_error *err) {
    for (int b = 0; b < 256; b++) {
        int code = a->code[b];
        char two[2] = { (char)(0xC0 | code >> 6), (char)(0x80 | (code & 0x3F)) };
        char one = (char)code;
        t->byte_ids[b] = code < 0x80 ? id_of(vocab, &one, 1) : id_of(vocab, two, 2);
        if (t->byte_ids[b] < 0)
            return mt_fail(err, MT_BAD, "%s: no token for the byte 0x%02x (U+%04X)", path,
                           (unsigned)b, (unsigned)code);
    }
    t->end_of_text = id_of(vocab, end_of_text, sizeof end_of_text - 1);
    return MT_OK;
}

static mt_status read_tokens(mt_tokenizer *t, const char *path, json_t *vocab, mt_error *err) {
    alphabet a = alphabet_make();
    MT_TRY(size_tokens(t, path, vocab, err));
    MT_TRY(fill_tokens(t, &a, path, vocab, err));
    return find_bytes(t, &a, path, vocab, err);
}

/* ---- merges.txt ------------------------------------------------------------------------------ */

typedef struct merge_line {
    const char *path;
    mt_line line;
} merge_line;

static mt_status bad_line(const merge_line *l, const char *what, mt_error *err) {
    char text[SHOWN];
    return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": %s: \"%s\"", l->path, l->line.number, what,
                   shown(text, l->line.text, l->line.length));
}

/* The id of the symbols that left and right make together. */
static mt_status joined_id(json_t *vocab, const char *left, size_t left_n, const char *right,
                           size_t right_n, int32_t *id, mt_error *err) {
    char *joined = malloc(left_n + right_n);
    if (joined == NULL)
        return mt_no_memory(err, "a merge");
    memcpy(joined, left, left_n);
    memcpy(joined + left_n, right, right_n);
    *id = id_of(vocab, joined, left_n + right_n);
    free(joined);
    return MT_OK;
}

static mt_status read_merge(mt_tokenizer *t, json_t *vocab, const merge_line *l, mt_error *err) {
    const char *text = l->line.text, *space = strchr(text, ' ');
    size_t left_n = space != NULL ? (size_t)(space - text) : 0;
    const char *right = text + left_n + 1;
    size_t right_n = space != NULL ? l->line.length - left_n - 1 : 0;
    if (left_n == 0 || right_n == 0 || strchr(right, ' ') != NULL)
        return bad_line(l, "expected two tokens separated by one space", err);
    int32_t a = id_of(vocab, text, left_n), b = id_of(vocab, right, right_n), both = -1;
    if (a < 0 || b < 0)
        return bad_line(l, "a token is not in the vocabulary", err);
    MT_TRY(joined_id(vocab, text, left_n, right, right_n, &both, err));
    if (both < 0)
        return bad_line(l, "the merged token is not in the vocabulary", err);
    if (both == t->end_of_text)
        return bad_line(l, "a merge may not produce <|endoftext|>", err);
    if (mt_merges_has(&t->merges, a, b))
        return bad_line(l, "the merge is a duplicate", err);
    return mt_merges_add(&t->merges, a, b, both) ? MT_OK : mt_no_memory(err, "the merges");
}

static bool is_version(const mt_line *l) {
    return l->number == 1 && strncmp(l->text, "#version", 8) == 0;
}

static void drop_return(mt_line *l) {
    if (l->length > 0 && l->text[l->length - 1] == '\r')
        l->text[--l->length] = '\0';
}

static mt_status read_merges(mt_tokenizer *t, json_t *vocab, const char *path, mt_input *in,
                             mt_error *err) {
    for (merge_line l = { .path = path };;) {
        MT_TRY(mt_input_line(in, LINE_MAX_BYTES, &l.line, err));
        if (l.line.text == NULL)
            return l.line.number > 1 ? MT_OK : mt_fail(err, MT_BAD, "%s: the file is empty", path);
        if (l.line.number > MT_MERGES_MAX)
            return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": expected at most %zu lines", path,
                           l.line.number, MT_MERGES_MAX);
        drop_return(&l.line);
        if (!is_version(&l.line))
            MT_TRY(read_merge(t, vocab, &l, err));
    }
}

/* ---- open and close -------------------------------------------------------------------------- */

static mt_status read_both(mt_tokenizer *t, const char *vocab, const char *text, size_t n,
                           const char *merges, mt_input *in, mt_error *err) {
    mt_json_tree json;
    MT_TRY(mt_json_read(&json, vocab, text, n, 0, err));
    mt_status status =
        json_object_size(json.root) > 0
            ? read_tokens(t, vocab, json.root, err)
            : mt_fail(err, MT_BAD, "%s: expected a JSON object of tokens and their ids", vocab);
    if (status == MT_OK)
        status = read_merges(t, json.root, merges, in, err);
    mt_json_free(&json);
    return status;
}

static mt_status read_files(mt_tokenizer *t, const char *vocab, const char *merges, mt_error *err) {
    char *text;
    size_t n;
    mt_input *in = NULL;
    MT_TRY(mt_input_read(vocab, FILE_MOST, &text, &n, err));
    mt_status status = mt_input_open(&in, merges, FILE_MOST, err);
    if (status == MT_OK)
        status = read_both(t, vocab, text, n, merges, in, err);
    mt_input_close(in);
    free(text);
    return status;
}

mt_status mt_tokenizer_open(mt_tokenizer **out, const char *vocab, const char *merges,
                            mt_error *err) {
    *out = NULL;
    mt_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return mt_no_memory(err, "a tokenizer");
    mt_status status = mt_splitter_open(&t->splitter, err);
    if (status == MT_OK)
        status = read_files(t, vocab, merges, err);
    if (status != MT_OK) {
        mt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return MT_OK;
}

/* FOLDER/NAME, to be freed; NULL when there is no memory. */
static char *join_path(const char *folder, const char *name) {
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    if (path != NULL)
        snprintf(path, n, "%s/%s", folder, name);
    return path;
}

/* Opens the two files of that name, when the folder has at least one of them (*found). */
static mt_status open_pair(mt_tokenizer **out, const char *folder, const char *vocab_name,
                           const char *merges_name, bool *found, mt_error *err) {
    char *vocab = join_path(folder, vocab_name), *merges = join_path(folder, merges_name);
    mt_status status = MT_OK;
    if (vocab == NULL || merges == NULL)
        status = mt_no_memory(err, "a path");
    else if (access(vocab, F_OK) == 0 || access(merges, F_OK) == 0) {
        *found = true;
        status = mt_tokenizer_open(out, vocab, merges, err);
    }
    free(vocab);
    free(merges);
    return status;
}

mt_status mt_tokenizer_open_folder(mt_tokenizer **out, const char *folder, mt_error *err) {
    bool found = false;
    *out = NULL;
    MT_TRY(open_pair(out, folder, "vocab.json", "merges.txt", &found, err));
    if (!found)
        MT_TRY(open_pair(out, folder, "encoder.json", "vocab.bpe", &found, err));
    if (!found)
        return mt_fail(err, MT_BAD,
                       "%s: no vocabulary, expected vocab.json and merges.txt, or "
                       "encoder.json and vocab.bpe",
                       folder);
    return MT_OK;
}

void mt_tokenizer_close(mt_tokenizer *t) {
    if (t == NULL)
        return;
    mt_splitter_close(t->splitter);
    mt_merges_free(&t->merges);
    free(t->tokens);
    free(t->bytes);
    free(t);
}

size_t mt_tokenizer_size(const mt_tokenizer *t) {
    return t->size;
}

int32_t mt_tokenizer_end_of_text(const mt_tokenizer *t) {
    return t->end_of_text;
}

/* ---- encode and decode ----------------------------------------------------------------------- */

/* Ids of n bytes of text, cut by pieces, to ids, which has room for n of them. */
static mt_status encode_pieces(const mt_tokenizer *t, mt_pieces *pieces, const char *text, size_t n,
                               int32_t *ids, size_t *count, mt_error *err) {
    for (size_t start = 0, end; start < n; start = end) {
        MT_TRY(mt_pieces_next(pieces, &end, err));
        size_t length = end - start;
        for (size_t i = 0; i < length; i++)
            ids[*count + i] = t->byte_ids[(unsigned char)text[start + i]];
        if (!mt_merges_apply(&t->merges, ids + *count, &length))
            return mt_no_memory(err, "merging a piece of text");
        *count += length;
    }
    return MT_OK;
}

mt_status mt_tokenizer_encode(mt_tokenizer *t, const char *text, size_t n, int32_t **ids,
                              size_t *count, mt_error *err) {
    mt_pieces *pieces;
    *ids = NULL;
    *count = 0;
    int32_t *list = n < SIZE_MAX / sizeof *list ? malloc((n + 1) * sizeof *list) : NULL;
    if (list == NULL)
        return mt_no_memory(err, "the ids of the text");
    mt_status status = mt_pieces_open(&pieces, t->splitter, text, n, err);
    if (status == MT_OK) {
        status = encode_pieces(t, pieces, text, n, list, count, err);
        mt_pieces_close(pieces);
    }
    if (status != MT_OK) {
        free(list);
        *count = 0;
        return status;
    }
    *ids = list;
    return MT_OK;
}

/* Checks the ids and adds up their bytes. */
static mt_status decoded_length(const mt_tokenizer *t, const int32_t *ids, size_t count,
                                uint64_t *length, mt_error *err) {
    *length = 0;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= t->size || t->tokens[ids[i]].bytes == NULL)
            return mt_fail(err, MT_BAD, "id %" PRId32 " at index %zu is unknown, expected 0 to %zu",
                           ids[i], i, t->size - 1);
        if (!mt_add(*length, t->tokens[ids[i]].length, length))
            return mt_no_memory(err, "the decoded text");
    }
    return MT_OK;
}

mt_status mt_tokenizer_decode(const mt_tokenizer *t, const int32_t *ids, size_t count, char **text,
                              size_t *n, mt_error *err) {
    uint64_t length;
    *text = NULL;
    *n = 0;
    MT_TRY(decoded_length(t, ids, count, &length, err));
    char *out = length < SIZE_MAX ? malloc((size_t)length + 1) : NULL;
    if (out == NULL)
        return mt_no_memory(err, "the decoded text");
    for (size_t i = 0; i < count; i++) {
        const token *a = &t->tokens[ids[i]];
        memcpy(out + *n, a->bytes, a->length);
        *n += a->length;
    }
    out[*n] = '\0';
    *text = out;
    return MT_OK;
}
