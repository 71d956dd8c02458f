/* read_schedule.c - schedules of whole decodes in PyTorch: every request and free, and PyTorch's
 * counters after each token.
 *
 *     # ...                       header; "# row: step ..." names the counters of = lines
 *     a SIZE [SEGMENT+OFFSET]     a request on the default stream, numbered from 0, and its place
 *     f K                         the free of the request made K requests ago (0: the latest)
 *     S SIZE                      a driver call of the next operation: a segment was taken
 *     R SEGMENT                   and given back
 *     P SEGMENT+OFFSET SIZE       pages were mapped
 *     U SEGMENT+OFFSET SIZE       and unmapped
 *     = STEP TOKENS COUNTER...    the counters at this point; peaks since the previous =
 *
 * The header names the device's bytes ("simulated, N bytes"), the release ("# torch V ...") and the
 * allocator's options (PYTORCH_CUDA_ALLOC_CONF=...). */
#include "traces/reader.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/torch/torch.h"
#include "base/size.h"

#define COUNTERS 14

#define AT(name, part)                                                                             \
    { name, offsetof(mt_torch_stats, part) }
static const mt_counter counters[COUNTERS] = {
    AT("allocated", pool[0][MT_TORCH_allocated_bytes].current),
    AT("reserved", pool[0][MT_TORCH_reserved_bytes].current),
    AT("requested", pool[0][MT_TORCH_requested_bytes].current),
    AT("active", pool[0][MT_TORCH_active_bytes].current),
    AT("inactive_split", pool[0][MT_TORCH_inactive_split_bytes].current),
    AT("inactive_split_blocks", pool[0][MT_TORCH_inactive_split].current),
    AT("segments", pool[0][MT_TORCH_segment].current),
    AT("peak_allocated", pool[0][MT_TORCH_allocated_bytes].peak),
    AT("peak_reserved", pool[0][MT_TORCH_reserved_bytes].peak),
    AT("peak_requested", pool[0][MT_TORCH_requested_bytes].peak),
    AT("allocs", pool[0][MT_TORCH_allocation].allocated),
    AT("frees", pool[0][MT_TORCH_allocation].freed),
    AT("device_allocs", num_device_alloc),
    AT("device_frees", num_device_free),
};

typedef struct schedule {
    mt_reader base;
    uint64_t next;  /* number of the next request */
    mt_calls calls; /* of the next operation */
    bool given;     /* they were told with the last item */
    uint64_t count[COUNTERS];
} schedule;

/* The line "# row: step" stands in every header, and in no other format's. */
static bool detect(const char *data, size_t n) {
    static const char row[] = "# row: step";
    const char *end = data + n;
    while (data < end && *data == '#') {
        if ((size_t)(end - data) >= sizeof row - 1 && memcmp(data, row, sizeof row - 1) == 0)
            return true;
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        data = newline != NULL ? newline + 1 : end;
    }
    return false;
}

/* ---- header ---------------------------------------------------------------------------------- */

static mt_status header(mt_reader *r, const char *line, mt_error *err) {
    static const char conf[] = "PYTORCH_CUDA_ALLOC_CONF=", device[] = "simulated, ";
    const char *at;
    if (strncmp(line, "# torch ", 8) == 0)
        MT_TRY(mt_reader_option(r, "version:", line + 8, " +\t", err));
    if ((at = strstr(line, conf)) != NULL)
        MT_TRY(mt_reader_option(r, "", at + sizeof conf - 1, " \t", err));
    if ((at = strstr(line, device)) == NULL)
        return MT_OK;
    at += sizeof device - 1;
    return mt_reader_capacity(r, at, err);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Whether the line went on with a blank; moves past it. */
static bool blank(const char **at) {
    return **at == ' ' && (++*at, true);
}

static mt_status request(schedule *s, const char *at, mt_item *item, mt_error *err) {
    uint64_t segment = 0;
    item->kind = MT_ITEM_ALLOC;
    bool good = mt_digits(&at, &item->bytes) && item->bytes > 0;
    if (good && blank(&at)) {
        good = mt_digits(&at, &segment) && segment <= UINT32_MAX && *at++ == '+' &&
               mt_digits(&at, &item->offset);
        item->segment = (uint32_t)segment;
        item->has |= MT_HAS_PLACE;
    }
    if (!good || *at != '\0')
        return mt_reader_bad(&s->base, err, "expected a SIZE or a SIZE SEGMENT+OFFSET");
    item->id = s->next++;
    item->live = mt_numbers_take(&s->base.live, item->id);
    return item->live != MT_NO_LIVE ? MT_OK : mt_no_memory(err, "reading a recording");
}

static mt_status release(schedule *s, const char *at, mt_item *item, mt_error *err) {
    uint64_t back;
    item->kind = MT_ITEM_FREE;
    if (!mt_digits(&at, &back) || *at != '\0' || back >= s->next)
        return mt_reader_bad(&s->base, err, "expected f K, K below the number of requests so far");
    item->id = s->next - 1 - back;
    mt_reader_release(&s->base, item);
    if (item->live == MT_NO_LIVE)
        return mt_reader_bad(&s->base, err, "f %" PRIu64 ": that request is already freed", back);
    return MT_OK;
}

/* A driver call of the next operation, in the terms of calls.h. */
static mt_status call(schedule *s, const char *line, mt_error *err) {
    mt_call c = { .op = *line == 'S' ? 'M' : *line == 'R' ? 'F' : *line };
    const char *at = line + 2;
    uint64_t number = 0;
    bool good = line[1] == ' ' && mt_digits(&at, &number);
    if (good && (c.op == 'P' || c.op == 'U'))
        good = *at++ == '+' && mt_digits(&at, &c.offset) && blank(&at) && mt_digits(&at, &c.bytes);
    if (!good || *at != '\0' || (c.op != 'M' && number > UINT32_MAX))
        return mt_reader_bad(&s->base, err,
                             "expected S SIZE, R SEGMENT, P or U SEGMENT+OFFSET SIZE");
    if (c.op == 'M')
        c.bytes = number;
    else
        c.segment = (uint32_t)number;
    return mt_calls_add(&s->calls, c) ? MT_OK
                                      : mt_no_memory(err, "the driver calls of a recording");
}

static mt_status marker(schedule *s, const char *at, mt_item *item, mt_error *err) {
    item->kind = MT_ITEM_MARK;
    item->text = at;
    at += strcspn(at, " ");
    bool good = blank(&at) && mt_digits(&at, &item->ctx);
    for (int i = 0; good && i < COUNTERS; i++)
        good = blank(&at) && mt_digits(&at, &s->count[i]);
    if (!good || *at != '\0')
        return mt_reader_bad(&s->base, err, "expected = STEP TOKENS and %d counters", COUNTERS);
    item->has |= MT_HAS_COUNTERS;
    item->counter = counters;
    item->count = s->count;
    item->counters = COUNTERS;
    return MT_OK;
}

/* The line as an item; MT_ITEM_END when it is none of its own. */
static mt_status read_line(schedule *s, const char *line, mt_item *item, mt_error *err) {
    const char *rest = line + 2;
    if (*line == '#') {
        item->kind = MT_ITEM_NOTE;
        item->text = line + 1 + (line[1] == ' ');
        return header(&s->base, line, err);
    }
    switch (line[0] != '\0' && line[1] == ' ' ? *line : '\0') {
    case 'a':
    case 'f':
        item->has = MT_HAS_CALLS;
        item->calls = &s->calls;
        return *line == 'a' ? request(s, rest, item, err) : release(s, rest, item, err);
    case '=':
        return marker(s, rest, item, err);
    case 'S':
    case 'R':
    case 'P':
    case 'U':
        return call(s, line, err);
    default:
        return mt_reader_bad(&s->base, err,
                             "expected a line that begins with a, f, S, R, P, U, = or #");
    }
}

static mt_status next(mt_reader *base, mt_item *item, mt_error *err) {
    schedule *s = (schedule *)base;
    char *line;
    if (s->given)
        s->calls.count = 0;
    do {
        MT_TRY(mt_reader_line(base, &line, err));
        if (line != NULL)
            MT_TRY(read_line(s, line, item, err));
    } while (line != NULL && item->kind == MT_ITEM_END);
    s->given = (item->has & MT_HAS_CALLS) != 0;
    return MT_OK;
}

static void close_schedule(mt_reader *base) {
    mt_array_free(&((schedule *)base)->calls);
}

const mt_format mt_format_schedule = {
    .word = "schedule",
    .name = "a schedule of a decode in PyTorch",
    .tells =
        MT_TELLS_SETTINGS | MT_TELLS_PLACES | MT_TELLS_CALLS | MT_TELLS_COUNTERS | MT_TELLS_MOST,
    .calls = "MFPU",
    .detect = detect,
    .size = sizeof(schedule),
    .next = next,
    .close = close_schedule,
};
