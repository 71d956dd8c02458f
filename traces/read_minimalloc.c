/* read_minimalloc.c - lists of buffers as minimalloc reads them:
 *
 *     id,lower,upper,size
 *     b1,0,3,4
 *
 * A buffer is live from lower on, at upper no more. The first line names the columns, in any order;
 * buffer, start and end mean id, lower and upper; columns of other names are passed over. */
#include "traces/lifetimes.h"

#include <string.h>

#include "traces/columns.h"

enum { LOWER, UPPER, SIZE, COLUMNS };
#define MOST 16 /* columns of a row */

static const char *const names[COLUMNS][2] = {
    { "lower", "start" },
    { "upper", "end" },
    { "size", "size" },
};

typedef struct minimalloc {
    mt_lifetimes list;
    int columns; /* of a row; 0: the header is still to come */
    int at[COLUMNS];
} minimalloc;

static bool find_columns(int at[COLUMNS], char **column, int n) {
    int found = 0;
    for (int i = 0; i < COLUMNS; i++)
        for (int j = 0; j < n && j < MOST; j++)
            if (strcmp(column[j], names[i][0]) == 0 || strcmp(column[j], names[i][1]) == 0) {
                at[i] = j;
                found++;
                break;
            }
    return n > COLUMNS && n <= MOST && found == COLUMNS;
}

static void end_line(char *line) {
    line[strcspn(line, "\r\n")] = '\0';
}

static bool detect(const char *data, size_t n) {
    char line[256], *column[MOST];
    int at[COLUMNS];
    size_t length = n < sizeof line - 1 ? n : sizeof line - 1;
    memcpy(line, data, length);
    line[length] = '\0';
    end_line(line);
    return find_columns(at, column, mt_cut(line, ',', column, MOST));
}

static mt_status read_line(minimalloc *x, char *line, mt_error *err) {
    char *column[MOST];
    uint64_t value[COLUMNS];
    end_line(line);
    if (*line == '\0')
        return MT_OK;
    int n = mt_cut(line, ',', column, MOST);
    if (x->columns == 0) {
        x->columns = n;
        return find_columns(x->at, column, n)
                   ? MT_OK
                   : mt_reader_bad(&x->list.base, err, "expected the columns id,lower,upper,size");
    }
    if (n != x->columns)
        return mt_reader_bad(&x->list.base, err, "%d columns, expected %d", n, x->columns);
    for (int i = 0; i < COLUMNS; i++)
        if (!mt_column(column[x->at[i]], &value[i]))
            return mt_reader_bad(&x->list.base, err, "%s is '%.40s', expected a number",
                                 names[i][0], column[x->at[i]]);
    return mt_lifetimes_add(&x->list, value[LOWER], value[UPPER], value[SIZE], err);
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    minimalloc *x = (minimalloc *)r;
    char *line = NULL;
    do {
        if (!x->list.ready)
            MT_TRY(mt_reader_line(r, &line, err));
        if (line != NULL)
            MT_TRY(read_line(x, line, err));
    } while (line != NULL);
    return mt_lifetimes_next(&x->list, item, err);
}

const mt_format mt_format_minimalloc = {
    .word = "minimalloc",
    .name = "a minimalloc list of buffers",
    .tells = MT_TELLS_REQUESTED | MT_TELLS_FREES,
    .detect = detect,
    .size = sizeof(minimalloc),
    .next = next,
    .close = mt_lifetimes_close,
};
