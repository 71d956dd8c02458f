/* status.h - how a function says that it failed.
 *
 * Nothing below cli/ prints or exits. A function that can fail returns an mt_status and, when it
 * is not MT_OK, has written one plain line into the caller's mt_error: what was met, where, and
 * what was expected. The values of mt_status are the exit statuses of the program. */
#ifndef MT_BASE_STATUS_H
#define MT_BASE_STATUS_H

typedef enum mt_status {
    MT_OK = 0,
    MT_CHECK = 1,     /* a check did not hold, the identity included */
    MT_BAD = 2,       /* bad input or usage */
    MT_NO_MEMORY = 3, /* out of device memory: an answer, reported as such */
    MT_FAILED = 4,    /* host memory, a device, a library, a read or a write failed */
    MT_INTERRUPTED = 130
} mt_status;

typedef struct mt_error {
    mt_status status; /* of the failure described in text */
    char text[500];   /* one printable line, no newline at the end */
} mt_error;

/* Writes the line into err (which may be NULL) and returns status. The line is made printable
 * (base/text.h) and cut in its middle when it is too long: names and text of any origin may be
 * given as they are, err->text itself included. */
mt_status mt_fail(mt_error *err, mt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "no host memory for WHAT", MT_FAILED. */
mt_status mt_no_memory(mt_error *err, const char *what);

/* Returns from the calling function when expr is not MT_OK. */
#define MT_TRY(expr)                                                                               \
    do {                                                                                           \
        mt_status try_status_ = (expr);                                                            \
        if (try_status_ != MT_OK)                                                                  \
            return try_status_;                                                                    \
    } while (0)

#endif
