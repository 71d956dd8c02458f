/* read_events.h - the events of a stored trace, for a listener; and its notes, if wanted. */
#ifndef MT_TESTS_READ_EVENTS_H
#define MT_TESTS_READ_EVENTS_H

#include "traces/reader.h"

static inline mt_status read_events(const char *path, mt_listener listener,
                                    void (*note)(void *context, const char *line), void *context,
                                    mt_error *err) {
    mt_reader *r;
    mt_item item;
    MT_TRY(mt_reader_open(&r, path, err));
    mt_status status;
    while ((status = mt_reader_next(r, &item, err)) == MT_OK && item.kind != MT_ITEM_END) {
        if ((item.has & MT_HAS_EVENT) != 0)
            listener.on_event(listener.context, item.event);
        else if (note != NULL)
            note(context, item.text);
    }
    mt_reader_close(r);
    return status;
}

#endif
