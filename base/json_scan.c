/* json_scan.c - see json_scan.h. */
#include "base/json_scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

mt_status mt_scan_bad(const mt_scan *s, mt_error *err, const char *expected) {
    return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": expected %s", mt_input_name(s->in), s->lines + 1,
                   expected);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Makes the next byte ready; s->end when there is none. */
static mt_status fill(mt_scan *s, mt_error *err) {
    if (s->at < s->used || s->end)
        return MT_OK;
    s->at = 0;
    MT_TRY(mt_input_some(s->in, s->buffer, sizeof s->buffer, &s->used, err));
    s->end = s->used == 0;
    return MT_OK;
}

/* The next byte, 0 at the end, which stays to be read. */
static mt_status peek(mt_scan *s, char *c, mt_error *err) {
    MT_TRY(fill(s, err));
    *c = s->end ? '\0' : s->buffer[s->at];
    return MT_OK;
}

static mt_status skip_blanks(mt_scan *s, char *c, mt_error *err) {
    for (;;) {
        MT_TRY(peek(s, c, err));
        if (*c != ' ' && *c != '\n' && *c != '\t' && *c != '\r')
            return MT_OK;
        s->lines += *c == '\n';
        s->at++;
    }
}

static void keep(mt_scan *s, size_t *n, const char *bytes, size_t more) {
    size_t room = MT_SCAN_TEXT - 1 - *n;
    s->cut = s->cut || more > room;
    if (more > room)
        more = room;
    memcpy(s->text + *n, bytes, more);
    *n += more;
    s->text[*n] = '\0';
}

/* ---- strings, numbers, words ----------------------------------------------------------------- */

/* What stands behind a backslash. \uXXXX stays as it is: nothing that is looked for has one. */
static mt_status escape(mt_scan *s, size_t *n, mt_error *err) {
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    char c;
    MT_TRY(peek(s, &c, err));
    if (s->end || c == '\n')
        return mt_scan_bad(s, err, "a character behind a backslash");
    const char *at = c != '\0' ? strchr(from, c) : NULL;
    if (c == 'u')
        keep(s, n, "\\", 1);
    keep(s, n, at != NULL ? &to[at - from] : &c, 1);
    s->at++;
    return MT_OK;
}

/* The rest of a string, its quotes included. */
static mt_status string(mt_scan *s, mt_error *err) {
    size_t n = 0;
    s->cut = false;
    s->text[0] = '\0';
    for (s->at++;;) {
        MT_TRY(fill(s, err));
        size_t from = s->at;
        while (s->at < s->used && s->buffer[s->at] != '"' && s->buffer[s->at] != '\\' &&
               s->buffer[s->at] != '\n')
            s->at++;
        keep(s, &n, s->buffer + from, s->at - from);
        if (s->end || (s->at < s->used && s->buffer[s->at] == '\n'))
            return mt_scan_bad(s, err, "the end of a string");
        if (s->at == s->used)
            continue;
        if (s->buffer[s->at++] == '"')
            return MT_OK;
        MT_TRY(escape(s, &n, err));
    }
}

/* The characters of a number or a word. */
static mt_status plain(mt_scan *s, mt_error *err) {
    size_t n = 0;
    char c;
    s->cut = false;
    for (s->text[0] = '\0';; s->at++) {
        MT_TRY(peek(s, &c, err));
        if (c == '\0' || strchr("+-.", c) == NULL)
            if ((c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z'))
                return MT_OK;
        keep(s, &n, &c, 1);
    }
}

static const char *digits(const char *at) {
    return at + strspn(at, "0123456789");
}

/* [-]digits[.digits][e[+-]digits], or what is none but stands for one. */
static bool is_number(const char *at) {
    at += *at == '-';
    if (strcmp(at, "Infinity") == 0 || strcmp(at, "NaN") == 0)
        return true;
    bool good = digits(at) > at;
    at = digits(at);
    if (*at == '.') {
        good = good && digits(at + 1) > at + 1;
        at = digits(at + 1);
    }
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '+' || at[1] == '-');
        good = good && digits(at) > at;
        at = digits(at);
    }
    return good && *at == '\0';
}

static mt_status scalar(mt_scan *s, mt_token *token, mt_error *err) {
    MT_TRY(plain(s, err));
    bool word = strcmp(s->text, "true") == 0 || strcmp(s->text, "false") == 0 ||
                strcmp(s->text, "null") == 0;
    *token = word ? MT_TOKEN_WORD : MT_TOKEN_NUMBER;
    return !s->cut && (word || is_number(s->text)) ? MT_OK : mt_scan_bad(s, err, "a value");
}

/* ---- structure ------------------------------------------------------------------------------- */

static mt_status open_one(mt_scan *s, bool object, mt_error *err) {
    if (s->depth == MT_SCAN_DEPTH)
        return mt_scan_bad(s, err, "fewer arrays and objects inside one another");
    s->object[s->depth++] = object;
    s->first = true;
    s->after = false;
    s->at++;
    return MT_OK;
}

static bool closes(const mt_scan *s, char c) {
    return s->depth > 0 && c == (s->object[s->depth - 1] ? '}' : ']');
}

static mt_status close_one(mt_scan *s, mt_token *token) {
    s->depth--;
    s->at++;
    s->first = false;
    s->after = true;
    *token = MT_TOKEN_CLOSE;
    return MT_OK;
}

static mt_status key(mt_scan *s, char c, mt_token *token, mt_error *err) {
    if (c != '"')
        return mt_scan_bad(s, err, "a key in double quotes");
    MT_TRY(string(s, err));
    MT_TRY(skip_blanks(s, &c, err));
    if (c != ':')
        return mt_scan_bad(s, err, "a colon behind a key");
    s->at++;
    s->colon = true;
    *token = MT_TOKEN_KEY;
    return MT_OK;
}

static mt_status value(mt_scan *s, char c, mt_token *token, mt_error *err) {
    s->colon = false;
    if (c == '{' || c == '[') {
        *token = c == '{' ? MT_TOKEN_OBJECT : MT_TOKEN_ARRAY;
        return open_one(s, c == '{', err);
    }
    s->after = true;
    *token = MT_TOKEN_STRING;
    return c == '"' ? string(s, err) : scalar(s, token, err);
}

mt_status mt_scan_next(mt_scan *s, mt_token *token, mt_error *err) {
    char c;
    MT_TRY(skip_blanks(s, &c, err));
    if (s->after && s->depth == 0) {
        *token = MT_TOKEN_END;
        return s->end ? MT_OK : mt_scan_bad(s, err, "nothing behind the value");
    }
    if ((s->after || s->first) && closes(s, c))
        return close_one(s, token);
    if (s->after && c != ',')
        return mt_scan_bad(s, err, "a comma or a closing bracket");
    if (s->after) {
        s->at++;
        s->after = false;
        MT_TRY(skip_blanks(s, &c, err));
    }
    s->first = false;
    return s->depth > 0 && s->object[s->depth - 1] && !s->colon ? key(s, c, token, err)
                                                                : value(s, c, token, err);
}

mt_status mt_scan_skip(mt_scan *s, mt_token token, mt_error *err) {
    int depth = s->depth;
    if (token != MT_TOKEN_OBJECT && token != MT_TOKEN_ARRAY)
        return MT_OK;
    while (s->depth >= depth)
        MT_TRY(mt_scan_next(s, &token, err));
    return MT_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool with_sign(bool minus, uint64_t n, int64_t *value) {
    if (n > INT64_MAX)
        return false;
    *value = minus ? -(int64_t)n : (int64_t)n;
    return true;
}

bool mt_scan_integer(const mt_scan *s, int64_t *value) {
    const char *at = s->text + (*s->text == '-');
    uint64_t n;
    return mt_digits(&at, &n) && *at == '\0' && with_sign(*s->text == '-', n, value);
}

bool mt_scan_thousandths(const mt_scan *s, int64_t *value) {
    const char *at = s->text + (*s->text == '-');
    uint64_t n, part = 0;
    if (!mt_digits(&at, &n) || !mt_mul(n, 1000, &n))
        return false;
    if (*at == '.')
        for (uint64_t unit = 100; *++at >= '0' && *at <= '9'; unit /= 10)
            part += (uint64_t)(*at - '0') * unit;
    return *at == '\0' && mt_add(n, part, &n) && with_sign(*s->text == '-', n, value);
}
