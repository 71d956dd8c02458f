/* test_tokenizer.c - tests of engine/text/tokenizer.h and of its parts, pretokenize.h and bpe.h.
 *
 * Most run on a tiny vocabulary, written to a temporary folder: 256 symbols of one byte, a dozen
 * merges whose ranks are not in the order a trainer would give, and <|endoftext|>. Others read a
 * whole vocabulary and what another program made of texts with it: tests/recordings/bpe, and
 * GPT-2's own in the folder MEMTRACE_SHARED (default ../shared) where that is there. Random cases
 * have fixed seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/text/bpe.h"
#include "engine/text/pretokenize.h"
#include "engine/text/tokenizer.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- the basics ------------------------------------------------------------------------------ */

static uint32_t random_below(uint64_t *seed, uint32_t limit) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % limit);
}

static char folder[] = "/tmp/memtrace-tokenizer-XXXXXX";

static const char *const names[] = { "vocab.json", "merges.txt", "encoder.json", "vocab.bpe" };

static void path_of(const char *name, char path[256]) {
    snprintf(path, 256, "%s/%s", folder, name);
}

static void write_file(const char *name, const char *text, size_t n) {
    char path[256];
    path_of(name, path);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static void write_text(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

static void remove_files(void) {
    char path[256];
    for (size_t i = 0; i < COUNT(names); i++) {
        path_of(names[i], path);
        unlink(path);
    }
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    remove_files();
    return rmdir(folder);
}

/* A file's bytes and a 0, to be freed; NULL when it cannot be opened. */
static char *read_file(const char *path, size_t *n) {
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return NULL;
    fseek(in, 0, SEEK_END);
    *n = (size_t)ftell(in);
    rewind(in);
    char *text = malloc(*n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *n, in), *n);
    text[*n] = '\0';
    fclose(in);
    return text;
}

/* The status is as expected, and its message is one line of text. */
static void check_error(const mt_error *err, mt_status status, mt_status expected) {
    assert_int_equal(status, expected);
    assert_int_equal(err->status, expected);
    assert_true(strlen(err->text) > 0);
    assert_null(strchr(err->text, '\n'));
    assert_null(strchr(err->text, '\r'));
}

/* ---- a tiny vocabulary ----------------------------------------------------------------------- */

#define BYTE_ID(byte)   (((byte)*37 + 11) % 256) /* ids need not be in the order of the bytes */
#define MERGED_ID(rank) (300 + 2 * (int)(rank))  /* and may have gaps */
#define END_OF_TEXT     290
#define NO_TOKEN        301

/* In rank order. "ab" comes after what is made of it, and "abca" is made in two ways. */
static const char *const merges[][2] = {
    { "ab", "c" },  { "abc", "a" },     { "a", "b" },
    { "a", "a" },   { "aa", "aa" },     { "c", "a" },
    { "ab", "ca" }, { " ", "a" },       { "b", "b" },
    { "bb", "a" },  { "c", "ab" },      { "\xc3", "\xa9" },
    { "\n", "\n" }, { "!", "\xff" },    { "aaaa", "aaaa" },
    { "bba", "c" }, { "\xff", "\xff" }, { "aaaaaaaa", "aaaaaaaa" },
};

/* The code point that stands for a byte. */
static unsigned symbol(unsigned char byte) {
    unsigned code = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return printable ? b : code;
        code += !printable;
    }
    return 0;
}

/* Appends the symbols of some bytes to a file, as JSON escapes or as UTF-8. */
static void put_symbols(FILE *out, const char *bytes, size_t n, bool json) {
    for (size_t i = 0; i < n; i++) {
        unsigned code = symbol((unsigned char)bytes[i]);
        if (json)
            fprintf(out, "\\u%04x", code);
        else if (code < 0x80)
            fputc((int)code, out);
        else
            fprintf(out, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 0x3F)));
    }
}

/* A vocabulary of <|endoftext|> and the bytes, or all but one; more is added as it is. */
static char *bytes_json(int without, const char *more) {
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    fprintf(out, "{\"<|endoftext|>\": %d", END_OF_TEXT);
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        if (b == without)
            continue;
        fputs(",\n\"", out);
        put_symbols(out, &byte, 1, true);
        fprintf(out, "\": %d", BYTE_ID(b));
    }
    fprintf(out, "%s}\n", more);
    fclose(out);
    return text;
}

/* JSON entries of what the merges make, each once. */
static char *merged_json(void) {
    char *text = NULL, seen[4096] = "|";
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    for (size_t i = 0; i < COUNT(merges); i++) {
        char both[64], key[80];
        snprintf(both, sizeof both, "%s%s", merges[i][0], merges[i][1]);
        snprintf(key, sizeof key, "|%s|", both);
        if (strstr(seen, key) != NULL)
            continue;
        strcat(seen, key + 1);
        fputs(",\n\"", out);
        put_symbols(out, both, strlen(both), true);
        fprintf(out, "\": %d", MERGED_ID(i));
    }
    fclose(out);
    return text;
}

static char *merges_text(const char *first_line, const char *line_end) {
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    fputs(first_line, out);
    for (size_t i = 0; i < COUNT(merges); i++) {
        put_symbols(out, merges[i][0], strlen(merges[i][0]), false);
        fputc(' ', out);
        put_symbols(out, merges[i][1], strlen(merges[i][1]), false);
        fputs(line_end, out);
    }
    fclose(out);
    return text;
}

static void write_tiny(const char *vocab_name, const char *merges_name, const char *first_line,
                       const char *line_end) {
    char *more = merged_json(), *vocab = bytes_json(-1, more);
    char *lines = merges_text(first_line, line_end);
    write_text(vocab_name, vocab);
    write_text(merges_name, lines);
    free(more);
    free(vocab);
    free(lines);
}

static mt_tokenizer *open_tiny(void) {
    mt_tokenizer *t;
    mt_error err;
    write_tiny("vocab.json", "merges.txt", "#version: 0.2\n", "\n");
    assert_int_equal(mt_tokenizer_open_folder(&t, folder, &err), MT_OK);
    remove_files();
    return t;
}

static void check_ids(mt_tokenizer *t, const char *text, size_t n, const int32_t *expected,
                      size_t expected_count) {
    int32_t *ids;
    size_t count;
    mt_error err;
    assert_int_equal(mt_tokenizer_encode(t, text, n, &ids, &count, &err), MT_OK);
    assert_int_equal(count, expected_count);
    for (size_t i = 0; i < count; i++)
        if (ids[i] != expected[i])
            fail_msg("id %zu is %d, expected %d", i, ids[i], expected[i]);
    free(ids);
}

static void check_decode(const mt_tokenizer *t, const int32_t *ids, size_t count, const char *text,
                         size_t n) {
    char *decoded;
    size_t length;
    mt_error err;
    assert_int_equal(mt_tokenizer_decode(t, ids, count, &decoded, &length, &err), MT_OK);
    assert_int_equal(length, n);
    assert_int_equal(decoded[n], 0);
    if (n > 0)
        assert_memory_equal(decoded, text, n);
    free(decoded);
}

static void check_round_trip(mt_tokenizer *t, const char *text, size_t n) {
    int32_t *ids;
    size_t count;
    mt_error err;
    assert_int_equal(mt_tokenizer_encode(t, text, n, &ids, &count, &err), MT_OK);
    assert_true(count <= n);
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(ids[i], mt_tokenizer_end_of_text(t));
    check_decode(t, ids, count, text, n);
    free(ids);
}

/* Random text that favours what is difficult: runs, cut and false UTF-8, space, apostrophes. */
static size_t random_text(uint64_t *seed, char *text, size_t most) {
    static const char *const parts[] = {
        "a",
        "b",
        "c",
        "ab",
        "aaaa",
        " ",
        "  ",
        "\n",
        "\r\n",
        "'s",
        "'ll",
        "1",
        "!",
        "\xff",
        "\xc3\xa9",
        "\xc3",
        "\xa9",
        "\xe2\x82\xac",
        "\xe2\x82",
        "\xed\xa0\x80",
        "\xc0\x80",
        "\xf0\x9f\x91\x8b",
        "\xf0\x9f\x91",
        "\xf4\x90\x80\x80",
        "\xc2\xa0",
        "\xe1\xa0\x8e",
        "\x1c",
        "\xc2\x85",
        "\xd0\x97\xd0\xb4",
        "\xe0\xa4\xbf",
        "The",
        " world",
        "<|endoftext|>",
    };
    size_t n = 0, limit = random_below(seed, (uint32_t)most - 16);
    bool bytes = random_below(seed, 3) == 0;
    while (n < limit) {
        uint32_t part = random_below(seed, COUNT(parts) + 3);
        if (bytes || part >= COUNT(parts)) {
            text[n++] = (char)random_below(seed, 256);
            continue;
        }
        memcpy(text + n, parts[part], strlen(parts[part]));
        n += strlen(parts[part]);
    }
    return n;
}

static void check_random_round_trips(mt_tokenizer *t, int times) {
    uint64_t seed = 7;
    char text[300];
    for (int i = 0; i < times; i++)
        check_round_trip(t, text, random_text(&seed, text, sizeof text));
    for (int b = 0; b < 256; b++) {
        text[0] = (char)b;
        check_round_trip(t, text, 1);
    }
}

/* ---- pretokenize.h --------------------------------------------------------------------------- */

/* Cuts the row without its bars, and expects the cuts where the bars are. */
static void check_split(const mt_splitter *s, const char *row, size_t n) {
    char text[200] = "";
    size_t ends[200], length = 0, cuts = 0, end;
    mt_pieces *p;
    mt_error err;
    for (size_t i = 0; i < n; i++)
        if (row[i] == '|')
            ends[cuts++] = length;
        else
            text[length++] = row[i];
    ends[cuts++] = length;
    assert_int_equal(mt_pieces_open(&p, s, text, length, &err), MT_OK);
    for (size_t i = 0; i < cuts; i++) {
        assert_int_equal(mt_pieces_next(p, &end, &err), MT_OK);
        if (end != ends[i])
            fail_msg("piece %zu of \"%s\" ends at %zu, expected %zu", i, row, end, ends[i]);
    }
    mt_pieces_close(p);
}

static void check_splits(const char *const *rows, size_t count) {
    mt_splitter *s;
    mt_error err;
    assert_int_equal(mt_splitter_open(&s, &err), MT_OK);
    for (size_t i = 0; i < count; i++)
        check_split(s, rows[i], strlen(rows[i]));
    check_split(s, "a|\0!\0|b", 7);
    mt_splitter_close(s);
}

static void splits_as_gpt2_does(void **state) {
    (void)state;
    static const char *const rows[] = {
        "Hello| world|!",
        "a|  | b",
        "a|\n| b",
        "a|   ",
        " | a",
        "12| 345",
        "a|1|b",
        "a|!|1",
        " !|a",
        "I|'m| you|'re| he|'s| we|'d| they|'ll| I|'ve| don|'t",
        "I|'|M| '|s",
        "'|x",
        "'s|'s",
        "''''",
        "'s|s",
        "!'|s",
        "\t|\t|a",
        "\t| a",
        "  | !",
        "\r\n",
        "a|\r|\n|b",
        "a| \n | b",
        /* combining marks are symbols, superscripts and Roman numerals are numbers */
        "\xc3\xa9t\xc3\xa9",
        "e|\xcc\x81|x",
        "\xc2\xb2\xe2\x85\xa7| 1",
        /* white space beyond ASCII; U+001C to U+001F, U+180E and U+200B are none */
        "a|\xc2\x85|\xc2\x85|b",
        "a|\xc2\xa0|b",
        "a|\xe3\x80\x80|b",
        "a|\xe2\x80\xa8|b",
        "a|\x1c\x1d|b",
        "\n|\n|\x1c|b",
        "!\x1f!",
        "a|\xe1\xa0\x8e|b",
        "!\xe1\xa0\x8e!",
        "  | \xe1\xa0\x8e|b",
        "a|\xe2\x80\x8b|b",
        "\x1b\x7f!",
    };
    check_splits(rows, COUNT(rows));
}

static void invalid_bytes_are_symbols(void **state) {
    (void)state;
    static const char *const rows[] = {
        "!\xff!",
        "\xff\xfe",
        "a|\xff|b",
        " \xff",
        " | \xff",
        "\n|\xff",
        "\xff|\n",
        "1|\x80|1",
        "'\xff|s",
        "!\xa9|\xc3\xa9",
        "\xc3\xff|\xc3\xa9",
        /* overlong forms */
        "!\xc1\x81!",
        "!\xc0\x80!",
        "!\xe0\x81\x81!",
        "!\xf0\x80\x81\x81!",
        "!\xe0\x9f\xbf!",
        /* surrogates, and above U+10FFFF */
        "!\xed\xa0\x80!",
        "!\xed\xbf\xbf!",
        "!\xf4\x90\x80\x80!",
        "!\xf5\x80\x80\x80!",
        /* cut short */
        "!\xc3",
        "!\xc3|a",
        "!\xc3|\xc3\xa9",
        "\xe2\x82",
        "\xe2\x82|a",
        "\xf0\x90\x8d",
        "\xf0\x90\x8d|\xc3\xa9",
        "\xf0\x90|1",
        "\xf0|a",
        "\xe4| ",
        "\xe4\xb8| |\n|a",
        /* valid: letters at the ends of the ranges of each length, then U+10FFFF, a symbol */
        "\xc2\xaa\xdf\xaa\xe0\xa0\x80\xed\x9f\xbb\xef\xbc\xa1\xf0\x90\x80\x80|\xf4\x8f\xbf\xbf!",
    };
    check_splits(rows, COUNT(rows));
}

static size_t put_code(unsigned code, char *s) {
    if (code < 0x80) {
        s[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        s[0] = (char)(0xC0 | code >> 6);
        s[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    s[0] = (char)(0xE0 | code >> 12);
    s[1] = (char)(0x80 | (code >> 6 & 0x3F));
    s[2] = (char)(0x80 | (code & 0x3F));
    return 3;
}

static bool is_space(unsigned code) {
    static const unsigned ranges[][2] = {
        { 0x9, 0xD },       { 0x20, 0x20 },     { 0x85, 0x85 },     { 0xA0, 0xA0 },
        { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F },
        { 0x205F, 0x205F }, { 0x3000, 0x3000 },
    };
    for (size_t i = 0; i < COUNT(ranges); i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

/* Of two equal characters before a '!', the first is a piece of its own when they are spaces. */
static void white_space_is_exactly_the_list(void **state) {
    (void)state;
    mt_splitter *s;
    mt_pieces *p;
    mt_error err;
    assert_int_equal(mt_splitter_open(&s, &err), MT_OK);
    for (unsigned code = 0; code < 0x10000; code++) {
        char text[8];
        size_t n = put_code(code, text), end;
        memcpy(text + n, text, n);
        text[2 * n] = '!';
        assert_int_equal(mt_pieces_open(&p, s, text, 2 * n + 1, &err), MT_OK);
        assert_int_equal(mt_pieces_next(p, &end, &err), MT_OK);
        mt_pieces_close(p);
        if ((end == n) != is_space(code))
            fail_msg("U+%04X: the first piece ends at %zu", code, end);
    }
    mt_splitter_close(s);
}

/* ---- bpe.h ----------------------------------------------------------------------------------- */

typedef struct rule {
    int32_t left, right, merged;
} rule;

static bool has_pair(const int32_t *ids, size_t n, const rule *r) {
    for (size_t i = 0; i + 1 < n; i++)
        if (ids[i] == r->left && ids[i + 1] == r->right)
            return true;
    return false;
}

/* The definition: rules are in rank order; the first that applies is applied all along, and
 * again. */
static size_t naive_merge(const rule *rules, size_t count, int32_t *ids, size_t n) {
    for (size_t r = 0; r < count;) {
        if (!has_pair(ids, n, &rules[r])) {
            r++;
            continue;
        }
        size_t kept = 0;
        for (size_t i = 0; i < n; kept++) {
            bool pair = i + 1 < n && ids[i] == rules[r].left && ids[i + 1] == rules[r].right;
            ids[kept] = pair ? rules[r].merged : ids[i];
            i += pair ? 2 : 1;
        }
        n = kept;
        r = 0;
    }
    return n;
}

/* Random rules over three letters, in an order that has nothing to do with how they build on each
 * other; a pair that is there already is left out. */
static size_t random_rules(uint64_t *seed, rule *rules, size_t count) {
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        rule r = { (int32_t)random_below(seed, 3 + (uint32_t)made),
                   (int32_t)random_below(seed, 3 + (uint32_t)made), 3 + (int32_t)made };
        bool there = false;
        for (size_t j = 0; j < made; j++)
            there = there || (rules[j].left == r.left && rules[j].right == r.right);
        if (!there)
            rules[made++] = r;
    }
    for (size_t i = made; i > 1; i--) {
        size_t j = random_below(seed, (uint32_t)i);
        rule swap = rules[i - 1];
        rules[i - 1] = rules[j];
        rules[j] = swap;
    }
    return made;
}

static void check_merge(const mt_merges *m, const rule *rules, size_t count, const int32_t *piece,
                        size_t n) {
    int32_t fast[400], naive[400];
    size_t fast_n = n;
    memcpy(fast, piece, n * sizeof *piece);
    memcpy(naive, piece, n * sizeof *piece);
    assert_true(mt_merges_apply(m, fast, &fast_n));
    size_t naive_n = naive_merge(rules, count, naive, n);
    assert_int_equal(fast_n, naive_n);
    assert_memory_equal(fast, naive, naive_n * sizeof *naive);
}

static void fast_merge_equals_the_definition(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 300; round++) {
        rule rules[40];
        size_t count = random_rules(&seed, rules, 1 + random_below(&seed, COUNT(rules)));
        mt_merges m = { 0 };
        for (size_t i = 0; i < count; i++)
            assert_true(mt_merges_add(&m, rules[i].left, rules[i].right, rules[i].merged));
        assert_true(mt_merges_has(&m, rules[0].left, rules[0].right));
        assert_false(mt_merges_has(&m, rules[0].right, 1000));
        for (int k = 0; k < 20; k++) {
            int32_t piece[400];
            size_t n = 1 + random_below(&seed, k < 10 ? 60 : 400);
            uint32_t letters = 1 + random_below(&seed, 3);
            for (size_t i = 0; i < n; i++)
                piece[i] = (int32_t)random_below(&seed, letters);
            check_merge(&m, rules, count, piece, n);
        }
        mt_merges_free(&m);
    }
}

/* ---- the whole, tiny vocabulary -------------------------------------------------------------- */

static int32_t tiny_id(const char *bytes) {
    if (strlen(bytes) == 1)
        return BYTE_ID((unsigned char)bytes[0]);
    for (size_t i = 0; i < COUNT(merges); i++) {
        size_t left = strlen(merges[i][0]);
        if (strncmp(merges[i][0], bytes, left) == 0 && strcmp(merges[i][1], bytes + left) == 0)
            return MERGED_ID(i);
    }
    return -1;
}

static void encodes_by_rank_and_piece(void **state) {
    (void)state;
    static const char *const rows[][8] = {
        { "abc", "abc" }, /* "ab" has to be made first */
        { "abab", "ab", "ab" },
        { "abcab", "abc", "ab" }, /* both "ab" before "abc", though that has a lower rank */
        { "aaaaaaa", "aaaa", "aa", "a" },
        { "a a", "a", " a" },
        { "a  a", "a", " ", " a" },
        { "!\xff!", "!\xff", "!" },
        { "\xc3\xa9", "\xc3\xa9" },
        { "a\n\na", "a", "\n", "\n", "a" }, /* no merge across pieces */
        { "a\n\n", "a", "\n\n" },
    };
    mt_tokenizer *t = open_tiny();
    for (size_t i = 0; i < COUNT(rows); i++) {
        int32_t expected[8];
        size_t count = 0;
        for (; rows[i][count + 1] != NULL; count++)
            expected[count] = tiny_id(rows[i][count + 1]);
        check_ids(t, rows[i][0], strlen(rows[i][0]), expected, count);
    }
    mt_tokenizer_close(t);
}

static void empty_text_has_no_ids(void **state) {
    (void)state;
    mt_tokenizer *t = open_tiny();
    check_ids(t, "", 0, NULL, 0);
    check_ids(t, NULL, 0, NULL, 0);
    check_decode(t, NULL, 0, "", 0);
    mt_tokenizer_close(t);
}

/* The naive merge of one piece of the letters a, b, c. */
static size_t naive_tiny(const char *piece, size_t n, int32_t *ids) {
    rule rules[COUNT(merges)];
    for (size_t i = 0; i < COUNT(merges); i++) {
        char both[64];
        snprintf(both, sizeof both, "%s%s", merges[i][0], merges[i][1]);
        rules[i] = (rule){ tiny_id(merges[i][0]), tiny_id(merges[i][1]), tiny_id(both) };
    }
    for (size_t i = 0; i < n; i++)
        ids[i] = BYTE_ID((unsigned char)piece[i]);
    return naive_merge(rules, COUNT(rules), ids, n);
}

static void encoding_equals_the_definition(void **state) {
    (void)state;
    mt_tokenizer *t = open_tiny();
    uint64_t seed = 11;
    for (int k = 0; k < 1000; k++) {
        char piece[300];
        int32_t expected[300];
        size_t n = random_below(&seed, k < 500 ? 60 : sizeof piece);
        for (size_t i = 0; i < n; i++)
            piece[i] = "aaabbc"[random_below(&seed, 6)];
        check_ids(t, piece, n, expected, naive_tiny(piece, n, expected));
    }
    mt_tokenizer_close(t);
}

static void any_bytes_round_trip(void **state) {
    (void)state;
    mt_tokenizer *t = open_tiny();
    check_random_round_trips(t, 5000);
    mt_tokenizer_close(t);
}

static void long_pieces_encode(void **state) {
    (void)state;
    static const char letters[] = { 'a', '\xff', ' ', '\n', '!', '\0' };
    size_t n = (size_t)1 << 20, count;
    char *text = malloc(n + 1);
    mt_tokenizer *t = open_tiny();
    int32_t *ids;
    mt_error err;
    assert_non_null(text);
    text[n] = 'a';
    for (size_t i = 0; i < sizeof letters; i++) {
        memset(text, letters[i], n);
        check_round_trip(t, text, n + 1);
    }
    memset(text, 'a', n);
    assert_int_equal(mt_tokenizer_encode(t, text, n, &ids, &count, &err), MT_OK);
    assert_int_equal(count, n / 16);
    free(ids);
    free(text);
    mt_tokenizer_close(t);
}

static void end_of_text_is_not_special(void **state) {
    (void)state;
    mt_tokenizer *t = open_tiny();
    int32_t id = END_OF_TEXT;
    assert_int_equal(mt_tokenizer_end_of_text(t), END_OF_TEXT);
    check_decode(t, &id, 1, "<|endoftext|>", 13);
    check_round_trip(t, "<|endoftext|>", 13);
    mt_tokenizer_close(t);
}

static void decode_names_the_id_and_its_place(void **state) {
    (void)state;
    static const int32_t bad[] = { -1, INT32_MIN, INT32_MAX, NO_TOKEN, MERGED_ID(COUNT(merges)) };
    mt_tokenizer *t = open_tiny();
    for (size_t i = 0; i < COUNT(bad); i++) {
        int32_t ids[] = { BYTE_ID('a'), BYTE_ID('b'), bad[i], BYTE_ID('c') };
        char *text, number[16];
        size_t n;
        mt_error err;
        mt_status status = mt_tokenizer_decode(t, ids, COUNT(ids), &text, &n, &err);
        check_error(&err, status, MT_BAD);
        snprintf(number, sizeof number, "id %d ", bad[i]);
        assert_non_null(strstr(err.text, number));
        assert_non_null(strstr(err.text, "index 2 "));
        assert_null(text);
        assert_int_equal(mt_tokenizer_decode(t, ids, COUNT(ids), &text, &n, NULL), MT_BAD);
    }
    assert_int_equal(mt_tokenizer_size(t), MERGED_ID(COUNT(merges) - 1) + 1);
    mt_tokenizer_close(t);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* The files that were written make the tokenizer of open_tiny, by their names and by the folder. */
static void check_opens(const char *vocab, const char *merges_name) {
    char vocab_path[256], merges_path[256];
    mt_tokenizer *t;
    mt_error err;
    int32_t abc = tiny_id("abc");
    path_of(vocab, vocab_path);
    path_of(merges_name, merges_path);
    assert_int_equal(mt_tokenizer_open(&t, vocab_path, merges_path, &err), MT_OK);
    check_ids(t, "abc", 3, &abc, 1);
    mt_tokenizer_close(t);
    assert_int_equal(mt_tokenizer_open_folder(&t, folder, &err), MT_OK);
    check_ids(t, "abc", 3, &abc, 1);
    mt_tokenizer_close(t);
    remove_files();
}

static void accepts_other_names_and_line_ends(void **state) {
    (void)state;
    write_tiny("vocab.json", "merges.txt", "", "\n");
    check_opens("vocab.json", "merges.txt");
    write_tiny("vocab.json", "merges.txt", "#version: 0.2\r\n", "\r\n");
    check_opens("vocab.json", "merges.txt");
    write_tiny("encoder.json", "vocab.bpe", "#version: 0.2\n", "\n");
    check_opens("encoder.json", "vocab.bpe");
    mt_tokenizer_close(NULL);
}

/* Without a merge, an end of the last line, and <|endoftext|>. */
static void accepts_small_files(void **state) {
    (void)state;
    int32_t one[] = { 256 }, two[] = { BYTE_ID('a'), BYTE_ID('a') };
    char *vocab = bytes_json(-1, ", \"aa\": 256");
    memcpy(strstr(vocab, "<|end"), "<|not", 5);
    for (int with = 0; with < 2; with++) {
        mt_tokenizer *t;
        mt_error err;
        write_text("vocab.json", vocab);
        write_text("merges.txt", with ? "#version: 0.2\na a" : "#version: 0.2");
        assert_int_equal(mt_tokenizer_open_folder(&t, folder, &err), MT_OK);
        assert_int_equal(mt_tokenizer_end_of_text(t), -1);
        check_ids(t, "aa", 2, with ? one : two, with ? 1 : 2);
        mt_tokenizer_close(t);
        remove_files();
    }
    free(vocab);
}

/* Opens the folder, which must fail with these words. */
static void check_refused(const char *words) {
    mt_tokenizer *t;
    mt_error err;
    check_error(&err, mt_tokenizer_open_folder(&t, folder, &err), MT_BAD);
    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    assert_null(t);
    assert_int_equal(mt_tokenizer_open_folder(&t, folder, NULL), MT_BAD);
    remove_files();
}

static void refuses_a_bad_vocabulary(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "vocab.json: byte 0: empty, expected a JSON object" },
        { "\n", "not the JSON expected" },
        { "{\n \"a\": 1,\n}", "vocab.json: byte 12: not the JSON expected" },
        { "{\"a\": 1} x", "byte 10: not the JSON expected" },
        { "{\"a\": 1, \"a\": 2}", "duplicate" },
        { "{\"a\": 99999999999999999999}", "too big" },
        { "{\"a\n\": 1}", "byte 3" },
        { "{\"\xff\": 1}", "byte 2" },
        { "[1, 2]", "expected a JSON object" },
        { "{}", "expected a JSON object" },
        { "7", "not the JSON expected" },
        { "{\"a\": \"1\"}", "the id of \"a\" is not an integer" },
        { "{\"a\": 1.0}", "not an integer" },
        { "{\"a\": true}", "not an integer" },
        { "{\"a\": null}", "not an integer" },
        { "{\"a\\nb\": []}", "the id of \"a\\x0ab\" is not an integer" },
        { "{\"a\": -1}", "the id of \"a\" is -1" },
        { "{\"a\": 16777216}", "is 16777216" },
        { "{\"a\": 9223372036854775807}", "is 9223372036854775807" },
        { "{\"a\": 3, \"b\": 3}", "the id of \"b\" is also" },
        { "{\"\": 3}", "a token is empty" },
        { "{\"a b\": 3}", "\"a b\" has a character outside the byte alphabet" },
        { "{\"\\u0144\": 3}", "outside the byte alphabet" },
        { "{\"\\u00ad\": 3}", "outside the byte alphabet" },
        { "{\"\\u20ac\": 3}", "outside the byte alphabet" },
        { "{\"\\ud83d\\udc4b\": 3}", "outside the byte alphabet" },
        { "{\"a\": 3}", "no token for the byte 0x00 (U+0100)" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_text("vocab.json", cases[i].text);
        write_text("merges.txt", "#version: 0.2\n");
        check_refused(cases[i].words);
    }
}

static void refuses_a_vocabulary_without_a_byte(void **state) {
    (void)state;
    for (int b = 0; b < 256; b++) {
        char *vocab = bytes_json(b, ""), words[64];
        snprintf(words, sizeof words, "no token for the byte 0x%02x", (unsigned)b);
        write_text("vocab.json", vocab);
        write_text("merges.txt", "#version: 0.2\n");
        check_refused(words);
        free(vocab);
    }
}

static void refuses_bad_merges(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "merges.txt: the file is empty" },
        { "#version: 0.2\n\n", "merges.txt:2: expected two tokens" },
        { "a a\n\na b\n", "merges.txt:2: expected two tokens" },
        { "a a\naa\n", "merges.txt:2: expected two tokens separated by one space: \"aa\"" },
        { "a a a\n", "merges.txt:1: expected two tokens" },
        { "a  a\n", "merges.txt:1: expected two tokens" },
        { " a\n", "merges.txt:1: expected two tokens" },
        { "a \n", "merges.txt:1: expected two tokens" },
        { "a a \n", "merges.txt:1: expected two tokens" },
        { "a\ta\n", "merges.txt:1: expected two tokens" },
        { "a a\n#version: 0.2\n", "merges.txt:2: a token is not in the vocabulary" },
        { "a a\r\r\n", "merges.txt:1: a token is not in the vocabulary: \"a a\\x0d\"" },
        { "zz a\n", "merges.txt:1: a token is not in the vocabulary" },
        { "a zz\n", "merges.txt:1: a token is not in the vocabulary" },
        { "a \xff\n", "merges.txt:1: a token is not in the vocabulary" },
        { "a b\n", "merges.txt:1: the merged token is not in the vocabulary: \"a b\"" },
        { "a a\nc c\na a\n", "merges.txt:3: the merge is a duplicate" },
        { "<| endoftext|>\n", "merges.txt:1: a merge may not produce <|endoftext|>" },
    };
    char *vocab = bytes_json(-1, ", \"aa\": 256, \"cc\": 257, \"<|\": 258, \"endoftext|>\": 259");
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_text("vocab.json", vocab);
        write_text("merges.txt", cases[i].text);
        check_refused(cases[i].words);
    }
    write_text("vocab.json", vocab);
    write_file("merges.txt", "a a\0a\n", 6);
    check_refused("merges.txt:1: a zero byte, expected text");
    free(vocab);
}

/* A symbol of 90 characters of two bytes, shown as its first 80 bytes or, with a byte before,
 * 79. */
static void long_symbols_are_cut_between_characters(void **state) {
    (void)state;
    for (int before = 0; before < 2; before++) {
        char vocab[300] = "{\"", words[120] = "\"";
        strcat(vocab, before ? "x" : "");
        strcat(words, before ? "x" : "");
        for (int i = 0; i < 90; i++) {
            strcat(vocab, "\xc4\xa0");
            strcat(words, i < 40 - before ? "\xc4\xa0" : "");
        }
        strcat(vocab, "\": -5}");
        strcat(words, "...\" is -5");
        write_text("vocab.json", vocab);
        write_text("merges.txt", "#version: 0.2\n");
        check_refused(words);
    }
}

static void names_a_missing_file(void **state) {
    (void)state;
    char path[256];
    mt_tokenizer *t;
    mt_error err;
    check_refused("expected vocab.json and merges.txt, or encoder.json and vocab.bpe");
    write_text("vocab.json", "{}");
    check_refused("merges.txt: cannot be opened");
    write_text("merges.txt", "a a\n");
    check_refused("vocab.json: cannot be opened");
    write_text("encoder.json", "{}");
    check_refused("vocab.bpe: cannot be opened");
    path_of("none.json", path);
    check_error(&err, mt_tokenizer_open(&t, path, path, &err), MT_BAD);
    assert_non_null(strstr(err.text, path));
    check_error(&err, mt_tokenizer_open(&t, folder, path, &err), MT_BAD);
    assert_non_null(strstr(err.text, folder));
    check_error(&err, mt_tokenizer_open_folder(&t, path, &err), MT_BAD);
    assert_non_null(strstr(err.text, path));
}

/* ---- whole vocabularies ---------------------------------------------------------------------- */

/* A vocabulary, and what another program made of texts with it. The first is our own; the second is
 * GPT-2's, of the shared data, where that is there. */
typedef struct recorded {
    const char *vocab, *merges, *golden, *text, *tokens;
    int32_t size;
    int rows;   /* of golden */
    size_t ids; /* in tokens */
} recorded;

static const recorded sets[] = {
    { "tests/recordings/bpe/vocab.json", "tests/recordings/bpe/merges.txt",
      "tests/recordings/bpe/golden.tsv", "tests/recordings/bpe/text.txt",
      "tests/recordings/bpe/tokens.u16", 1000, 69, 8646 },
    { "%s/data/gpt2-bpe/encoder.json", "%s/data/gpt2-bpe/vocab.bpe", "%s/data/gpt2-bpe/golden.tsv",
      "%s/data/tinyshakespeare/input.txt", "%s/data/tinyshakespeare/tokens.u16", 50257, 67,
      338025 },
};

static const char *place(const char *pattern, char path[512]) {
    const char *shared = getenv("MEMTRACE_SHARED"), *rest = strchr(pattern, '/');
    if (*pattern != '%')
        return pattern;
    snprintf(path, 512, "%s%s", shared != NULL ? shared : "../shared", rest);
    return path;
}

static char *read_recorded(const char *pattern, size_t *n) {
    char path[512], *text = read_file(place(pattern, path), n);
    assert_non_null(text);
    return text;
}

/* Calls test with each vocabulary that is there. */
static void for_vocabularies(void (*test)(mt_tokenizer *t, const recorded *r)) {
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const recorded *r = &sets[i];
        char vocab[512], merges_path[512];
        mt_tokenizer *t;
        mt_error err;
        if (i > 0 && access(place(r->vocab, vocab), R_OK) != 0)
            continue;
        if (mt_tokenizer_open(&t, place(r->vocab, vocab), place(r->merges, merges_path), &err) !=
            MT_OK)
            fail_msg("%s", err.text);
        assert_int_equal(mt_tokenizer_size(t), r->size);
        assert_int_equal(mt_tokenizer_end_of_text(t), r->size - 1);
        test(t, r);
        mt_tokenizer_close(t);
    }
}

/* Reads hex digits up to the tab and steps past it; the number of bytes. */
static size_t hex_bytes(const char **at, char *text) {
    size_t n = 0;
    for (unsigned byte; **at != '\t'; *at += 2) {
        assert_int_equal(sscanf(*at, "%2x", &byte), 1);
        text[n++] = (char)byte;
    }
    ++*at;
    return n;
}

/* One line: hex of the text, tab, ids, tab, the text again for people. */
static void check_golden_line(mt_tokenizer *t, const char *line) {
    char text[512];
    int32_t ids[512];
    size_t n = hex_bytes(&line, text), count = 0;
    while (*line != '\t') {
        char *end;
        ids[count++] = (int32_t)strtol(line, &end, 10);
        line = *end == ' ' ? end + 1 : end;
    }
    check_ids(t, text, n, ids, count);
    check_decode(t, ids, count, text, n);
}

static void golden_rows_of(mt_tokenizer *t, const recorded *r) {
    size_t n;
    char *rows = read_recorded(r->golden, &n);
    int count = 0;
    for (char *line = rows; *line != '\0'; line = strchr(line, '\n') + 1, count++)
        check_golden_line(t, line);
    assert_int_equal(count, r->rows);
    free(rows);
}

static void golden_rows_are_equal(void **state) {
    (void)state;
    for_vocabularies(golden_rows_of);
}

static void text_of(mt_tokenizer *t, const recorded *r) {
    size_t n, bytes;
    char *text = read_recorded(r->text, &n), *tokens = read_recorded(r->tokens, &bytes);
    int32_t *ids = malloc(bytes / 2 * sizeof *ids);
    assert_non_null(ids);
    assert_int_equal(bytes / 2, r->ids);
    for (size_t i = 0; i < bytes / 2; i++)
        ids[i] = (unsigned char)tokens[2 * i] | (unsigned char)tokens[2 * i + 1] << 8;
    check_ids(t, text, n, ids, bytes / 2);
    check_decode(t, ids, bytes / 2, text, n);
    free(text);
    free(tokens);
    free(ids);
}

static void whole_texts_are_equal(void **state) {
    (void)state;
    for_vocabularies(text_of);
}

static void round_trips_of(mt_tokenizer *t, const recorded *r) {
    (void)r;
    check_random_round_trips(t, 5000);
}

static void any_bytes_round_trip_in_vocabularies(void **state) {
    (void)state;
    for_vocabularies(round_trips_of);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_as_gpt2_does),
        cmocka_unit_test(invalid_bytes_are_symbols),
        cmocka_unit_test(white_space_is_exactly_the_list),
        cmocka_unit_test(fast_merge_equals_the_definition),
        cmocka_unit_test(encodes_by_rank_and_piece),
        cmocka_unit_test(empty_text_has_no_ids),
        cmocka_unit_test(encoding_equals_the_definition),
        cmocka_unit_test(any_bytes_round_trip),
        cmocka_unit_test(long_pieces_encode),
        cmocka_unit_test(end_of_text_is_not_special),
        cmocka_unit_test(decode_names_the_id_and_its_place),
        cmocka_unit_test(accepts_other_names_and_line_ends),
        cmocka_unit_test(accepts_small_files),
        cmocka_unit_test(refuses_a_bad_vocabulary),
        cmocka_unit_test(refuses_a_vocabulary_without_a_byte),
        cmocka_unit_test(refuses_bad_merges),
        cmocka_unit_test(long_symbols_are_cut_between_characters),
        cmocka_unit_test(names_a_missing_file),
        cmocka_unit_test(golden_rows_are_equal),
        cmocka_unit_test(whole_texts_are_equal),
        cmocka_unit_test(any_bytes_round_trip_in_vocabularies),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, make_folder, remove_folder);
}
