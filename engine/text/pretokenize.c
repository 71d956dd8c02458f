/* pretokenize.c - see pretokenize.h.
 *
 * PCRE2 matches the pattern at each place in turn; every character belongs to some alternative, so
 * each match begins where the last one ended. The text is checked for UTF-8 once, so that matching
 * need not check it again for every piece. An invalid byte counts as a symbol: in the copy that is
 * matched, '!' stands in its place. It is one byte too, so all offsets stay those of the text, and
 * the pattern does not tell one symbol from another. */
#include "engine/text/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* White space, written out as Unicode has it and as GPT-2's tokenizers match it (checked against
 * three of them): PCRE2's \s has U+180E besides. U+001C to U+001F are symbols. */
#define SPACES                                                                                     \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}"             \
    "\\x{202F}\\x{205F}\\x{3000}"

static const char pattern[] = "'(?:[stmd]|re|ve|ll)"
                              "| ?\\p{L}+"
                              "| ?\\p{N}+"
                              "| ?[^" SPACES "\\p{L}\\p{N}]+"
                              "|[" SPACES "]+(?![^" SPACES "])"
                              "|[" SPACES "]+";

struct mt_splitter {
    pcre2_code *code;
};

struct mt_pieces {
    const mt_splitter *splitter;
    pcre2_match_data *match;
    unsigned char *text; /* [n] valid UTF-8 */
    size_t n;
    size_t at; /* end of the last piece */
};

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Puts '!' in the place of every invalid byte. */
static void replace_invalid(unsigned char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t length = mt_utf8((const char *)text + i, n - i, NULL);
        if (length == 0) {
            text[i] = '!';
            length = 1;
        }
        i += length;
    }
}

/* ---- the pattern ----------------------------------------------------------------------------- */

static mt_status library_error(int code, mt_error *err) {
    PCRE2_UCHAR text[200] = "";
    pcre2_get_error_message(code, text, sizeof text);
    return mt_fail(err, MT_FAILED, "splitting text: PCRE2 says: %s", (const char *)text);
}

mt_status mt_splitter_open(mt_splitter **out, mt_error *err) {
    *out = NULL;
    mt_splitter *s = calloc(1, sizeof *s);
    if (s == NULL)
        return mt_no_memory(err, "the tokenizer's pattern");
    int code;
    PCRE2_SIZE at;
    s->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
    if (s->code == NULL) {
        mt_splitter_close(s);
        return library_error(code, err);
    }
    /* Only speed depends on it: without compiled code pcre2_match interprets the pattern. */
    (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE);
    *out = s;
    return MT_OK;
}

void mt_splitter_close(mt_splitter *s) {
    if (s == NULL)
        return;
    pcre2_code_free(s->code);
    free(s);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

mt_status mt_pieces_open(mt_pieces **out, const mt_splitter *s, const char *text, size_t n,
                         mt_error *err) {
    *out = NULL;
    mt_pieces *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->splitter = s;
        p->n = n;
        p->text = malloc(n > 0 ? n : 1);
        p->match = pcre2_match_data_create_from_pattern(s->code, NULL);
    }
    if (p == NULL || p->text == NULL || p->match == NULL) {
        mt_pieces_close(p);
        return mt_no_memory(err, "splitting text");
    }
    if (n > 0)
        memcpy(p->text, text, n);
    replace_invalid(p->text, n);
    *out = p;
    return MT_OK;
}

mt_status mt_pieces_next(mt_pieces *p, size_t *end, mt_error *err) {
    int code =
        pcre2_match(p->splitter->code, p->text, p->n, p->at, PCRE2_NO_UTF_CHECK, p->match, NULL);
    if (code < 0)
        return library_error(code, err);
    p->at = pcre2_get_ovector_pointer(p->match)[1];
    *end = p->at;
    return MT_OK;
}

void mt_pieces_close(mt_pieces *p) {
    if (p == NULL)
        return;
    pcre2_match_data_free(p->match);
    free(p->text);
    free(p);
}
