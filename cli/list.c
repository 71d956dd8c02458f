/* list.c - see list.h. */
#include "cli/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "base/array.h"
#include "base/size.h"

#define VALUES_MOST 4096
#define WORD_MOST   1024

static mt_status append(cli_list *l, const char *text, mt_error *err) {
    if (l->count >= VALUES_MOST)
        return mt_fail(err, MT_BAD, "more than %d values in one list", VALUES_MOST);
    if ((l->count == l->room && !mt_array_grow(&l->value, &l->room, l->count + 1, sizeof text)) ||
        (l->value[l->count] = strdup(text)) == NULL)
        return mt_no_memory(err, "a list of values");
    l->count++;
    return MT_OK;
}

/* Joins a word to the last value, with a comma. */
static mt_status extend(cli_list *l, const char *word, mt_error *err) {
    char **last = &l->value[l->count - 1];
    size_t n = strlen(*last) + strlen(word) + 2;
    char *longer = malloc(n);
    if (longer == NULL)
        return mt_no_memory(err, "a list of values");
    snprintf(longer, n, "%s,%s", *last, word);
    free(*last);
    *last = longer;
    return MT_OK;
}

/* Writes a value the way the range was written: with a unit if that had one. */
static void write_value(char *out, size_t room, const char *prefix, uint64_t n, int units) {
    char size[32];
    snprintf(size, sizeof size, "%" PRIu64, n);
    snprintf(out, room, "%s%s", prefix, units ? cli_size_text(size, sizeof size, n) : size);
}

typedef struct range {
    char prefix[WORD_MOST];
    uint64_t first, last, step;
    char op;
    int units;
} range;

static mt_status bad_range(const char *name, const char *word, mt_error *err) {
    return mt_fail(err, MT_BAD,
                   "--%s %.100s: expected a range such as 128..1024+128 or 64KiB..64MiB*2", name,
                   word);
}

static mt_status read_range(range *r, const char *name, const char *word, const char *dots,
                            mt_error *err) {
    char first[64], last[64];
    const char *start = dots;
    while (start > word && strchr(":", start[-1]) == NULL)
        start--;
    size_t op = strcspn(dots + 2, "+*");
    if (dots[2 + op] == '\0' || (size_t)(dots - start) >= sizeof first || op >= sizeof last ||
        start - word >= WORD_MOST)
        return bad_range(name, word, err);
    snprintf(r->prefix, sizeof r->prefix, "%.*s", (int)(start - word), word);
    snprintf(first, sizeof first, "%.*s", (int)(dots - start), start);
    snprintf(last, sizeof last, "%.*s", (int)op, dots + 2);
    r->op = dots[2 + op];
    r->units = strpbrk(first, "KMGBkmgb") != NULL || strpbrk(last, "KMGBkmgb") != NULL;
    if (!mt_parse_size(first, &r->first) || !mt_parse_size(last, &r->last) ||
        !mt_parse_size(dots + 3 + op, &r->step) || r->first > r->last || r->step == 0 ||
        (r->op == '*' && (r->step < 2 || r->first == 0)))
        return bad_range(name, word, err);
    return MT_OK;
}

/* One word: a value, or a range of them. */
static mt_status add_word(cli_list *l, const char *name, const char *word, mt_error *err) {
    range r;
    char text[WORD_MOST + 64];
    const char *dots = strstr(word, "..");
    if (dots == NULL)
        return append(l, word, err);
    MT_TRY(read_range(&r, name, word, dots, err));
    for (uint64_t n = r.first; n <= r.last;) {
        write_value(text, sizeof text, r.prefix, n, r.units);
        MT_TRY(append(l, text, err));
        if (!(r.op == '*' ? mt_mul(n, r.step, &n) : mt_add(n, r.step, &n)))
            break;
    }
    return MT_OK;
}

mt_status cli_list_read(cli_list *l, const char *name, const char *text,
                        int (*is_head)(const char *word), mt_error *err) {
    char word[WORD_MOST];
    *l = (cli_list){ 0 };
    for (const char *t = text;;) {
        int depth = 0;
        size_t n = 0;
        for (; t[n] != '\0' && (t[n] != ',' || depth > 0); n++)
            depth += t[n] == '[' ? 1 : t[n] == ']' ? -1 : 0;
        if (n == 0 || n >= sizeof word)
            return mt_fail(err, MT_BAD, "--%s %.100s: expected comma-separated values", name, text);
        memcpy(word, t, n);
        word[n] = '\0';
        if (is_head != NULL && !is_head(word) && l->count > 0)
            MT_TRY(extend(l, word, err));
        else
            MT_TRY(add_word(l, name, word, err));
        if (t[n] == '\0')
            return MT_OK;
        t += n + 1;
    }
}

void cli_list_free(cli_list *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->value[i]);
    free(l->value);
    *l = (cli_list){ 0 };
}
