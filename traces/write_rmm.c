/* write_rmm.c - requests and frees as RMM's log of events, CSV, which its replay benchmark reads.
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     1,00:00:00.000012,allocate,0x200,1048576,0
 *
 * Pointers are numbers of requests, 512 apart: never the same twice. Time is that of the event, or
 * its number in microseconds. */
#include <inttypes.h>
#include <stdio.h>

#include "traces/writer.h"

typedef struct rmm {
    mt_trace base;
    uint64_t items;  /* so far */
    mt_numbers live; /* by id */
    uint64_t next;   /* number of the next request */
    struct {
        uint64_t *at;
        size_t count, room;
    } size, pointer; /* by live number */
} rmm;

static mt_status begin(mt_trace *t, mt_error *err) {
    static const char names[] = "Thread,Time,Action,Pointer,Size,Stream\n";
    (void)err;
    mt_output_write(t->out, names, sizeof names - 1);
    return MT_OK;
}

static void write_row(rmm *w, const mt_item *item, const char *action, uint64_t pointer,
                      uint64_t bytes) {
    char line[200], address[32] = "(nil)";
    uint64_t us = w->base.times ? mt_trace_time(&w->base, item) / 1000 : w->items;
    if (pointer != 0)
        snprintf(address, sizeof address, "0x%" PRIx64, pointer);
    int n =
        snprintf(line, sizeof line,
                 "%" PRIu32 ",%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%06" PRIu64
                 ",%s,%s,%" PRIu64 ",%s%" PRIx32 "\n",
                 item->thread, us / 3600000000 % 24, us / 60000000 % 60, us / 1000000 % 60,
                 us % 1000000, action, address, bytes, item->stream != 0 ? "0x" : "", item->stream);
    mt_output_write(w->base.out, line, (size_t)n);
}

static void write_alloc(rmm *w, const mt_item *item) {
    uint32_t live = mt_numbers_take(&w->live, item->id);
    if (live == MT_NO_NUMBER || !mt_array_extend(&w->size, (size_t)live + 1) ||
        !mt_array_extend(&w->pointer, (size_t)live + 1)) {
        mt_trace_no_memory(&w->base);
        return;
    }
    w->pointer.at[live] = item->refused ? 0 : 512 * ++w->next;
    w->size.at[live] = item->bytes;
    write_row(w, item, item->refused ? "allocate failure" : "allocate", w->pointer.at[live],
              item->bytes);
}

static void write_free(rmm *w, const mt_item *item) {
    uint32_t live = mt_numbers_drop(&w->live, item->id);
    if (live != MT_NO_NUMBER && w->pointer.at[live] != 0)
        write_row(w, item, "free", w->pointer.at[live], w->size.at[live]);
}

static void write_item(mt_trace *t, const mt_item *item) {
    rmm *w = (rmm *)t;
    if (item->kind == MT_ITEM_ALLOC)
        write_alloc(w, item);
    else if (item->kind == MT_ITEM_FREE)
        write_free(w, item);
    else if (item->kind == MT_ITEM_EVENT && item->event->kind == MT_EV_OOM)
        write_row(w, item, "allocate failure", 0, item->bytes);
    w->items++;
}

static void end(mt_trace *t, const char *ending) {
    (void)t, (void)ending;
}

static void close_rmm(mt_trace *t) {
    rmm *w = (rmm *)t;
    mt_numbers_free(&w->live);
    mt_array_free(&w->size);
    mt_array_free(&w->pointer);
}

const mt_trace_form mt_form_rmm = {
    .name = "rmm",
    .ending = ".rmm.csv",
    .loses =
        "segments, what was reserved, tags, steps, devices and the frees of requests from before",
    .size = sizeof(rmm),
    .begin = begin,
    .item = write_item,
    .end = end,
    .close = close_rmm,
};
