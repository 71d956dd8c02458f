/* read_stalloc.c - STAlloc's record of a PyTorch program, one file a device (mem_log_devN.txt):
 *
 *     1 ADDRESS BYTES STREAM       a request
 *     0 ADDRESS BYTES STREAM       a free
 *
 * with one blank between columns and no header. ADDRESS and STREAM are pointers as C++ writes them:
 * 0x and hexadecimal digits, or 0. */
#include "traces/address_log.h"

#include <stdlib.h>
#include <string.h>

#include "traces/columns.h"

#define COLUMNS 4

/* "1 0x", or a free of an earlier request. */
static bool detect(const char *data, size_t n) {
    return n >= 5 && (data[0] == '0' || data[0] == '1') && memcmp(data + 1, " 0x", 3) == 0;
}

static mt_status row(mt_address_log *log, char *line, mt_item *item, mt_error *err) {
    char *column[COLUMNS];
    uint64_t address, handle;
    bool good = mt_cut(line, ' ', column, COLUMNS) == COLUMNS &&
                mt_column(column[2], &item->bytes) && mt_column_pointer(column[1], &address) &&
                mt_column_pointer(column[3], &handle) &&
                (strcmp(column[0], "1") == 0 || strcmp(column[0], "0") == 0);
    if (!good)
        return mt_reader_bad(&log->base, err, "expected 1 ADDRESS BYTES STREAM or 0 ADDRESS ...");
    item->kind = *column[0] == '1' ? MT_ITEM_ALLOC : MT_ITEM_FREE;
    return mt_log_row(log, address, handle, item, err);
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    char *line;
    do {
        MT_TRY(mt_reader_line(r, &line, err));
        if (line != NULL && *line != '\0')
            MT_TRY(row((mt_address_log *)r, line, item, err));
    } while (line != NULL && item->kind == MT_ITEM_END);
    return MT_OK;
}

const mt_format mt_format_stalloc = {
    .word = "stalloc",
    .name = "an STAlloc record of a device",
    .tells = MT_TELLS_REQUESTED | MT_TELLS_FREES | MT_TELLS_STREAMS,
    .detect = detect,
    .size = sizeof(mt_address_log),
    .next = next,
    .close = mt_log_close,
};
