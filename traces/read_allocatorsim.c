/* read_allocatorsim.c - lists of requests as allocatorSim reads them, one a line:
 *
 *     BEGIN END BYTES
 *
 * with one blank between the numbers of the operations that request and free it, and no header. */
#include "traces/lifetimes.h"

#include "base/size.h"

static mt_status read_line(mt_lifetimes *l, const char *at, mt_error *err) {
    uint64_t begin, end, bytes;
    if (*at == '\0')
        return MT_OK;
    bool good = mt_digits(&at, &begin) && *at++ == ' ' && mt_digits(&at, &end) && *at++ == ' ' &&
                mt_digits(&at, &bytes);
    if (!good || (*at != '\0' && *at != '\r'))
        return mt_reader_bad(&l->base, err, "expected BEGIN END BYTES");
    return mt_lifetimes_add(l, begin, end, bytes, err);
}

/* Three numbers in the first line. */
static bool detect(const char *data, size_t n) {
    int numbers = 0;
    size_t i = 0;
    while (numbers < 3 && i < n && data[i] >= '0' && data[i] <= '9') {
        while (i < n && data[i] >= '0' && data[i] <= '9')
            i++;
        if (++numbers < 3 && (i == n || data[i++] != ' '))
            return false;
    }
    return numbers == 3 && (i == n || data[i] == '\n' || data[i] == '\r');
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    mt_lifetimes *l = (mt_lifetimes *)r;
    char *line = NULL;
    do {
        if (!l->ready)
            MT_TRY(mt_reader_line(r, &line, err));
        if (line != NULL)
            MT_TRY(read_line(l, line, err));
    } while (line != NULL);
    return mt_lifetimes_next(l, item, err);
}

const mt_format mt_format_allocatorsim = {
    .word = "allocatorsim",
    .name = "an allocatorSim list of requests",
    .tells = MT_TELLS_REQUESTED | MT_TELLS_FREES,
    .detect = detect,
    .size = sizeof(mt_lifetimes),
    .next = next,
    .close = mt_lifetimes_close,
};
