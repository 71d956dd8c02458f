/* descriptor.c - see descriptor.h. A signal that comes between the question and the wait is seen
 * when the wait has lasted LOOK_MS. */
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/size.h"

enum { LOOK_MS = 50, PATIENCE_MS = 1000 };

/* Waits until fd (-1: until a moment has passed) can be used. False when the program was asked to
 * stop and patience, in ms, is used up. */
static bool wait_for(int fd, short events, int *patience) {
    struct pollfd p = { .fd = fd, .events = events };
    for (;;) {
        if (mt_interrupted() && (*patience -= LOOK_MS) < 0) {
            errno = EINTR;
            return false;
        }
        if (poll(&p, fd >= 0, LOOK_MS) > 0 || fd < 0)
            return true;
    }
}

int mt_descriptor_of(const char *path) {
    uint64_t n;
    if (strcmp(path, "/dev/stdin") == 0)
        return STDIN_FILENO;
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    if (strncmp(path, "/dev/fd/", 8) == 0 && mt_parse_u64(path + 8, 0, INT_MAX, &n))
        return (int)n;
    return -1;
}

static int status_of(const char *path, struct stat *out) {
    int standing = strcmp(path, "-") == 0 ? STDIN_FILENO : mt_descriptor_of(path);
    return standing >= 0 ? fstat(standing, out) : stat(path, out);
}

bool mt_same_file(const char *a, const char *b) {
    struct stat x, y;
    return status_of(a, &x) == 0 && status_of(b, &y) == 0 && S_ISREG(x.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Without waiting: a FIFO that nobody writes yet opens at once, and mt_read waits for its data. */
int mt_open_read(const char *path) {
    int standing = strcmp(path, "-") == 0 ? STDIN_FILENO : mt_descriptor_of(path);
    if (standing >= 0)
        return fcntl(standing, F_DUPFD_CLOEXEC, 0);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

mt_status mt_open_status(int code) {
    static const int path_is_wrong[] = { ENOENT, ENOTDIR, EISDIR, EACCES, ENAMETOOLONG,
                                         ELOOP,  ENXIO,   ENODEV, EPERM,  EBADF };
    if (code == EINTR)
        return MT_INTERRUPTED;
    for (size_t i = 0; i < sizeof path_is_wrong / sizeof *path_is_wrong; i++)
        if (code == path_is_wrong[i])
            return MT_BAD;
    return MT_FAILED;
}

int mt_open_write(const char *path) {
    int fd, patience = 0;
    struct stat status;
    while ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666)) < 0)
        if (errno != ENXIO || stat(path, &status) != 0 || !S_ISFIFO(status.st_mode) ||
            !wait_for(-1, 0, &patience))
            break;
    return fd;
}

ssize_t mt_read(int fd, void *data, size_t n) {
    ssize_t done;
    int patience = 0;
    do {
        if (!wait_for(fd, POLLIN, &patience))
            return -1;
        done = read(fd, data, n);
    } while (done < 0 && (errno == EINTR || errno == EAGAIN));
    return done;
}

ssize_t mt_write(int fd, const void *data, size_t n) {
    ssize_t done;
    int patience = PATIENCE_MS;
    while ((done = write(fd, data, n)) < 0 && (errno == EINTR || errno == EAGAIN))
        if (!wait_for(fd, POLLOUT, &patience))
            return -1;
    return done;
}
