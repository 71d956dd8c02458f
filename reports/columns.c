/* columns.c - see columns.h. */
#include "reports/columns.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

static const char *between(mt_form form) {
    return form == MT_DAT ? " " : form == MT_TSV ? "\t" : ",";
}

static void csv_text(FILE *out, const char *text) {
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

/* A blank would part cells of a dat or tsv file. */
static void plain_text(FILE *out, const char *text) {
    char shown[4096];
    for (const char *c = mt_printable(shown, sizeof shown, text, strlen(text)); *c != '\0'; c++)
        fprintf(out, *c == ' ' ? "\\x20" : "%c", *c);
}

static void write_text(FILE *out, const char *text, mt_form form) {
    (form == MT_CSV ? csv_text : plain_text)(out, text);
}

static void write_ms(FILE *out, uint64_t nanoseconds) {
    if (nanoseconds == 0)
        fputc('0', out);
    else
        fprintf(out, "%.3f", (double)nanoseconds / 1e6);
}

static void write_cell(FILE *out, const mt_column *c, const void *row, mt_form form) {
    const char *cell = (const char *)row + c->at;
    switch (c->cell) {
    case MT_CELL_U64:
        fprintf(out, "%" PRIu64, *(const uint64_t *)cell);
        break;
    case MT_CELL_I64:
        fprintf(out, "%" PRId64, *(const int64_t *)cell);
        break;
    case MT_CELL_U32:
        fprintf(out, "%" PRIu32, *(const uint32_t *)cell);
        break;
    case MT_CELL_REAL:
        fprintf(out, "%.*f", c->decimals, *(const double *)cell);
        break;
    case MT_CELL_TEXT:
        write_text(out, *(const char *const *)cell, form);
        break;
    case MT_CELL_CHARS:
        write_text(out, cell, form);
        break;
    case MT_CELL_MS:
        write_ms(out, *(const uint64_t *)cell);
        break;
    }
}

void mt_columns_names(FILE *out, const mt_column *columns, mt_form form) {
    fputs(form == MT_CSV ? "" : "# ", out);
    for (const mt_column *c = columns; c->name != NULL; c++)
        fprintf(out, "%s%s", c == columns ? "" : between(form), c->name);
    fputc('\n', out);
}

void mt_columns_row(FILE *out, const mt_column *columns, const void *row, mt_form form) {
    for (const mt_column *c = columns; c->name != NULL; c++) {
        fputs(c == columns ? "" : between(form), out);
        write_cell(out, c, row, form);
    }
    fputc('\n', out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_item(mt_json *j, const mt_column *c, const void *row) {
    const char *cell = (const char *)row + c->at;
    uint64_t ns;
    switch (c->cell) {
    case MT_CELL_U64:
        mt_json_unsigned(j, c->name, *(const uint64_t *)cell);
        break;
    case MT_CELL_I64:
        mt_json_signed(j, c->name, *(const int64_t *)cell);
        break;
    case MT_CELL_U32:
        mt_json_unsigned(j, c->name, *(const uint32_t *)cell);
        break;
    case MT_CELL_REAL:
        mt_json_fixed(j, c->name, *(const double *)cell, c->decimals);
        break;
    case MT_CELL_TEXT:
        mt_json_text(j, c->name, *(const char *const *)cell);
        break;
    case MT_CELL_CHARS:
        mt_json_text(j, c->name, cell);
        break;
    case MT_CELL_MS:
        ns = *(const uint64_t *)cell;
        mt_json_fixed(j, c->name, (double)ns / 1e6, ns == 0 ? 0 : 3);
        break;
    }
}

void mt_columns_array(mt_json *j, const char *key, const mt_column *columns) {
    mt_json_begin_array(j, key);
    for (const mt_column *c = columns; c->name != NULL; c++)
        mt_json_text(j, NULL, c->name);
    mt_json_end(j);
}

void mt_columns_object(mt_json *j, const char *key, const mt_column *columns, const void *row) {
    mt_json_begin_object(j, key);
    for (const mt_column *c = columns; c->name != NULL; c++)
        write_item(j, c, row);
    mt_json_end(j);
}
