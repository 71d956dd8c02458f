/* status.c - see status.h. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

mt_status mt_fail(mt_error *err, mt_status status, const char *format, ...) {
    char line[9000]; /* two paths as long as they can be, and words around them */
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(line, sizeof line, format, args);
        va_end(args);
        mt_printable_line(err->text, sizeof err->text, line);
        err->status = status;
    }
    return status;
}

mt_status mt_no_memory(mt_error *err, const char *what) {
    return mt_fail(err, MT_FAILED, "no host memory for %s", what);
}
