/* status.c - see status.h. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

mt_status mt_fail(mt_error *err, mt_status status, const char *format, ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->status = status;
    }
    return status;
}
