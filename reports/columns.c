/* columns.c - see columns.h. */
#include "reports/columns.h"

#include "base/text.h"
#include "reports/json.h"

#include <inttypes.h>
#include <string.h>

static const char *between(mt_form form) {
    return form == MT_DAT ? " " : form == MT_TSV ? "\t" : form == MT_CSV ? "," : ", ";
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

static void plain_text(FILE *out, const char *text) {
    char shown[4096];
    for (const char *c = mt_printable(shown, sizeof shown, text, strlen(text)); *c != '\0'; c++)
        fprintf(out, *c == ' ' ? "\\x20" : "%c", *c);
}

void mt_columns_text(FILE *out, const char *text, mt_form form) {
    (form == MT_CSV ? csv_text : form == MT_JSON ? mt_json_string : plain_text)(out, text);
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
        mt_columns_text(out, *(const char *const *)cell, form);
        break;
    case MT_CELL_CHARS:
        mt_columns_text(out, cell, form);
        break;
    case MT_CELL_MS:
        write_ms(out, *(const uint64_t *)cell);
        break;
    }
}

void mt_columns_names(FILE *out, const mt_column *columns, mt_form form) {
    const char *quote = form == MT_JSON ? "\"" : "";
    fputs(form == MT_JSON ? "[" : form == MT_CSV ? "" : "# ", out);
    for (const mt_column *c = columns; c->name != NULL; c++)
        fprintf(out, "%s%s%s%s", c == columns ? "" : between(form), quote, c->name, quote);
    fputs(form == MT_JSON ? "]" : "\n", out);
}

void mt_columns_row(FILE *out, const mt_column *columns, const void *row, mt_form form) {
    fputs(form == MT_JSON ? "{" : "", out);
    for (const mt_column *c = columns; c->name != NULL; c++) {
        fputs(c == columns ? "" : between(form), out);
        if (form == MT_JSON)
            fprintf(out, "\"%s\": ", c->name);
        write_cell(out, c, row, form);
    }
    fputs(form == MT_JSON ? "}" : "\n", out);
}
