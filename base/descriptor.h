/* descriptor.h - open files by their descriptors, with waits that an interrupt ends.
 *
 * The system's own calls go on after a signal (SA_RESTART, so that nothing else has to be tried
 * again): one that waits for the other side of a pipe would wait for ever. These wait in poll. */
#ifndef MT_BASE_DESCRIPTOR_H
#define MT_BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* Each returns -1 when it fails, with errno: EINTR when the program is asked to stop.
 *
 * Opens a file for reading. "-" and /dev/stdin are standard input, and /dev/fd/N the open file N,
 * with its position; closing it leaves those as they are. */
int mt_open_read(const char *path);

/* What a failure to open or read means: the path is wrong (MT_BAD), the system cannot (MT_FAILED),
 * or the program is asked to stop (MT_INTERRUPTED). */
mt_status mt_open_status(int code);

/* Opens what exists and is no plain file for writing, a FIFO when somebody reads it. */
int mt_open_write(const char *path);

/* The open file that /dev/stdout, /dev/stderr or /dev/fd/N stands for; -1 for other names. */
int mt_descriptor_of(const char *path);

/* Whether two names, as of mt_open_read, are the same plain file. */
bool mt_same_file(const char *a, const char *b);

/* read and write. A write of ours that a FIFO does not take is waited for, after an interrupt for
 * another second, so that one who reads gets what was written before. */
ssize_t mt_read(int fd, void *data, size_t n);
ssize_t mt_write(int fd, const void *data, size_t n);

#endif
