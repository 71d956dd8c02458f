/* columns.h - rows of named columns, and the forms in which a table of them is written.
 *
 *     dat     "# a b c" names the columns, cells are space-separated; for gnuplot and awk
 *     tsv     the same with tabs
 *     csv     a header line, commas, cells in quotes where they need them; no comments
 *     json    objects, keys as the columns are named
 *
 * A table is an array of columns that ends with one without a name; each says where its cell lies
 * in the struct that is a row. */
#ifndef MT_REPORTS_COLUMNS_H
#define MT_REPORTS_COLUMNS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

typedef enum mt_form { MT_DAT, MT_TSV, MT_CSV, MT_JSON } mt_form;

typedef enum mt_cell {
    MT_CELL_U64,
    MT_CELL_I64,
    MT_CELL_U32,
    MT_CELL_REAL,  /* double */
    MT_CELL_TEXT,  /* const char * */
    MT_CELL_CHARS, /* text in an array of the row's own */
    MT_CELL_MS     /* uint64_t nanoseconds, written as milliseconds; 0 where there is no time */
} mt_cell;

typedef struct mt_column {
    const char *name;
    mt_cell cell;
    size_t at;
    int decimals; /* of MT_CELL_REAL */
} mt_column;

/* Write the names and a row, each a whole line; not for MT_JSON. */
void mt_columns_names(FILE *out, const mt_column *columns, mt_form form);
void mt_columns_row(FILE *out, const mt_column *columns, const void *row, mt_form form);

/* JSON's forms of them: an array, and an object with the names as keys. */
void mt_columns_array(mt_json *j, const char *key, const mt_column *columns);
void mt_columns_object(mt_json *j, const char *key, const mt_column *columns, const void *row);

#endif
