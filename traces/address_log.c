/* address_log.c - see address_log.h. An id is the address; 0, which nothing has, is that of a
 * refused request. */
#include "traces/address_log.h"

#include <inttypes.h>

#define DEFAULT_STREAMS 3

uint32_t mt_log_stream(mt_address_log *log, uint64_t handle) {
    if (handle < DEFAULT_STREAMS)
        return (uint32_t)handle;
    uint32_t number = mt_numbers_find(&log->streams, handle);
    if (number == MT_NO_NUMBER)
        number = mt_numbers_take(&log->streams, handle);
    return number < MT_NO_NUMBER - DEFAULT_STREAMS ? number + DEFAULT_STREAMS : MT_NO_NUMBER;
}

mt_status mt_log_row(mt_address_log *log, uint64_t address, uint64_t handle, mt_item *item,
                     mt_error *err) {
    mt_reader *r = &log->base;
    bool alloc = item->kind == MT_ITEM_ALLOC;
    item->id = address;
    if (alloc ? item->bytes == 0 : address == 0) {
        item->kind = MT_ITEM_END;
        return MT_OK;
    }
    if ((item->stream = mt_log_stream(log, handle)) == MT_NO_NUMBER)
        return mt_no_memory(err, "reading a recording");
    if (!alloc) {
        item->bytes = 0;
        mt_reader_release(r, item);
        return MT_OK;
    }
    log->owed = item->refused;
    if ((address == 0) != item->refused)
        return mt_reader_bad(r, err, "expected an address of what was allocated, and of no other");
    if (mt_numbers_find(&r->live, address) != MT_NO_NUMBER)
        return mt_reader_bad(r, err, "0x%" PRIx64 " is allocated already, expected its free first",
                             address);
    return mt_reader_request(r, item, err);
}

bool mt_log_owed(mt_address_log *log, mt_item *item) {
    if (!log->owed)
        return false;
    log->owed = false;
    item->kind = MT_ITEM_FREE;
    item->id = 0;
    mt_reader_release(&log->base, item);
    return true;
}

void mt_log_close(mt_reader *r) {
    mt_numbers_free(&((mt_address_log *)r)->streams);
}
