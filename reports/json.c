/* json.c - see json.h.
 *
 * The object is written part by part; stage says which part is open, and advance() closes and opens
 * parts on the way to a later one, so that each part is there even when it is empty. */
#include "reports/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum stage { OPTIONS, LOAD, ROWS, NOTES, END } stage;

struct mt_json {
    FILE *file;
    stage stage;
    uint64_t items; /* of the open part so far */
};

/* ---------------------------------------------------------------- strings */

/* Length of the UTF-8 character at text: 0 when there is none (overlong forms, surrogates and what
 * is beyond U+10FFFF included). */
static int character(const unsigned char *text) {
    unsigned first = text[0], second = first < 0x80 ? 0 : text[1];
    int length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first > 0xf4 || (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
        return 0;
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

void mt_json_string(FILE *file, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', file);
    while (*at != '\0') {
        int length = character(at);
        if (length == 0)
            fputs("\\ufffd", file);
        else if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at < ' ' || *at == 0x7f)
            fprintf(file, "\\u%04x", (unsigned)*at);
        else
            fwrite(at, 1, (size_t)length, file);
        at += length == 0 ? 1 : length;
    }
    fputc('"', file);
}

/* ---------------------------------------------------------------- parts */

/* Goes on to a later part. */
static void advance(mt_json *j, stage stage) {
    if (j->stage == OPTIONS && stage > OPTIONS) {
        fputs("},\n\"columns\": ", j->file);
        mt_columns_names(j->file, mt_table_columns, MT_JSON);
        fputs(",\n\"load\": ", j->file);
        j->stage = LOAD;
        j->items = 0;
    }
    if (j->stage == LOAD && stage > LOAD) {
        fprintf(j->file, "%s,\n\"rows\": [", j->items == 0 ? "null" : "");
        j->stage = ROWS;
        j->items = 0;
    }
    if (j->stage == ROWS && stage > ROWS) {
        fputs("],\n\"notes\": {", j->file);
        j->stage = NOTES;
        j->items = 0;
    }
    if (j->stage == NOTES && stage > NOTES) {
        fputs("},\n", j->file);
        j->stage = END;
    }
}

mt_status mt_json_open(mt_json **out, FILE *file, const char *version, mt_error *err) {
    mt_json *j = *out = calloc(1, sizeof *j);
    if (j == NULL)
        return mt_fail(err, MT_FAILED, "not enough memory to write JSON");
    j->file = file;
    fputs("{\"program\": \"memtrace\", \"version\": ", file);
    mt_json_string(file, version);
    fputs(",\n\"options\": {", file);
    return MT_OK;
}

/* The number that text begins with. */
static void write_number(FILE *file, const char *text) {
    text += *text == '+';
    fprintf(file, "%.*s", (int)strspn(text, "-0123456789"), text);
}

/* A name as a key: blanks and hyphens are underscores. */
static void write_key(FILE *file, const char *name) {
    fputc('"', file);
    for (; *name != '\0'; name++)
        fputc(*name == ' ' || *name == '-' ? '_' : *name, file);
    fputs("\": ", file);
}

static void write_member(mt_json *j, const char *name, const char *value, mt_value_kind kind) {
    fputs(j->items++ == 0 ? "\n  " : ",\n  ", j->file);
    write_key(j->file, name);
    if (kind == MT_VALUE_NUMBER)
        write_number(j->file, value);
    else if (kind == MT_VALUE_SWITCH)
        fputs(strcmp(value, "on") == 0 ? "true" : "false", j->file);
    else
        mt_json_string(j->file, value);
}

void mt_json_header(mt_json *j, const char *name, const char *value, mt_value_kind kind) {
    if (j->stage == OPTIONS)
        write_member(j, name, value, kind);
}

void mt_json_note(mt_json *j, const char *name, const char *value, mt_value_kind kind) {
    advance(j, NOTES);
    if (j->stage == NOTES)
        write_member(j, name, value, kind);
}

void mt_json_row(mt_json *j, const mt_row *row) {
    advance(j, LOAD);
    if (row->step >= 0)
        advance(j, ROWS);
    else if (j->stage != LOAD || j->items > 0)
        return;
    if (j->stage == ROWS)
        fputs(j->items == 0 ? "\n  " : ",\n  ", j->file);
    mt_columns_row(j->file, mt_table_columns, row, MT_JSON);
    j->items++;
}

static void write_refusal(FILE *file, const mt_refusal *r) {
    if (r == NULL) {
        fputs("null", file);
        return;
    }
    fprintf(file,
            "{\"step\": %" PRId32 ", \"tag\": \"%s\", \"layer\": %" PRId32
            ", \"requested\": %" PRIu64 ", \"rounded\": %" PRIu64 ", \"segment\": %" PRIu64,
            r->step, mt_tag_name(r->request.tag), r->request.layer, r->request.bytes, r->rounded,
            r->segment);
    fprintf(file,
            ", \"capacity\": %" PRIu64 ", \"source_free\": %" PRIu64 ", \"reserved\": %" PRIu64
            ", \"free_total\": %" PRIu64 ", \"largest_free\": %" PRIu64 "}",
            r->capacity, r->source_free, r->reserved, r->free_total, r->largest_free);
}

static void write_count(FILE *file, const char *name, const mt_count *c) {
    fprintf(file,
            "\"%s\": {\"current\": %" PRIu64 ", \"peak\": %" PRIu64 ", \"total\": %" PRIu64 "}",
            name, c->current, c->peak, c->total);
}

static void write_summary(FILE *file, const mt_ledger *l) {
    uint64_t sum = l->rounding + l->split + l->cached;
    fputs("{\"tags\": {", file);
    for (int i = 0; i < MT_TAGS; i++) {
        fputs(i == 0 ? "\n  " : ",\n  ", file);
        write_count(file, mt_tag_name((mt_tag)i), &l->tag[i]);
        sum += l->tag[i].current;
    }
    fputs("},\n  ", file);
    write_count(file, "requested", &l->requested);
    fputs(",\n  ", file);
    write_count(file, "reserved", &l->reserved);
    fprintf(file,
            ",\n  \"rounding\": %" PRIu64 ", \"split\": %" PRIu64 ", \"cached\": %" PRIu64
            ", \"unexplained\": %" PRId64,
            l->rounding, l->split, l->cached, (int64_t)(l->reserved.current - sum));
    fprintf(file,
            ",\n  \"segments\": %" PRIu64 ", \"segment_events\": %" PRIu64 ", \"allocs\": %" PRIu64
            ", \"frees\": %" PRIu64 ", \"ooms\": %" PRIu64 "}",
            l->segments, l->segment_events, l->allocs, l->frees, l->ooms);
}

mt_status mt_json_close(mt_json *j, const mt_ledger *ledger, const char *ended,
                        const mt_refusal *refusal, mt_error *err) {
    FILE *file = j->file;
    advance(j, END);
    free(j);
    fputs("\"ended\": ", file);
    mt_json_string(file, ended);
    fputs(",\n\"refusal\": ", file);
    write_refusal(file, refusal);
    fputs(",\n\"summary\": ", file);
    if (ledger != NULL)
        write_summary(file, ledger);
    else
        fputs("null", file);
    fputs("}\n", file);
    if (fflush(file) != 0 || ferror(file))
        return mt_fail(err, MT_FAILED, "JSON cannot be written: %s", strerror(errno));
    return MT_OK;
}
