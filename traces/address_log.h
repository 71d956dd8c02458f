/* address_log.h - what the readers of logs share that name a request by its address and a stream by
 * its handle. */
#ifndef MT_TRACES_ADDRESS_LOG_H
#define MT_TRACES_ADDRESS_LOG_H

#include "traces/reader.h"

/* What the struct of such a reader begins with. */
typedef struct mt_address_log {
    mt_reader base;
    mt_numbers streams; /* by handle */
    bool owed;          /* the last item was a refused request, whose free comes next */
} mt_address_log;

/* The number of a stream: the default streams have theirs (0, 1 legacy, 2 per thread), others
 * follow in the order of their first use. MT_NO_NUMBER when there is no memory. */
uint32_t mt_log_stream(mt_address_log *log, uint64_t handle);

/* Makes a row an item of the kind that it has: address, stream and bytes are what the row says.
 * Rows of no bytes and frees of no address tell nothing (kind MT_ITEM_END). A refused request has
 * no address, and mt_log_owed makes its free. */
mt_status mt_log_row(mt_address_log *log, uint64_t address, uint64_t handle, mt_item *item,
                     mt_error *err);

/* Whether a free is owed, which the item then is: a request that was refused holds nothing. */
bool mt_log_owed(mt_address_log *log, mt_item *item);

void mt_log_close(mt_reader *r);

#endif
