/* output.c - see output.h.
 *
 * Text fills a buffer, which is packed into another and written when it is full. The descriptor is
 * written without stdio, so a full disk is seen at once, and its close is checked, which is where
 * network file systems tell. */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/descriptor.h"

#define BUFFER      ((size_t)64 << 10)
#define GZIP_FORMAT (15 + 16) /* zlib: the largest window, with a gzip header */
#define LINKS_MOST  40        /* as many as the system follows */
#define GZIP_LEVEL  4         /* traces: twice as fast as the usual 6, a tenth larger */

typedef enum packing { PLAIN, GZIP, ZSTD } packing;

struct mt_output {
    char *path;      /* as it was named */
    char *target;    /* what it is a link to, or path itself */
    char *temporary; /* NULL: written straight */
    int fd;
    packing packing;
    z_stream gzip;
    ZSTD_CStream *zstd;
    mt_error error; /* the first one; its status is MT_OK while there is none */
    size_t used;    /* of text */
    char text[BUFFER];
    unsigned char packed[BUFFER];
};

/* The names to be removed when the program ends at once: the temporary of each open output, as far
 * as there is room. */
#define STANDING 16
static _Atomic(const char *) standing[STANDING];

static void exchange(const char *name, const char *by) {
    for (int i = 0; i < STANDING; i++) {
        const char *was = name;
        if (atomic_compare_exchange_strong(&standing[i], &was, by))
            return;
    }
}

void mt_output_remove_all(void) {
    for (int i = 0; i < STANDING; i++) {
        const char *name = atomic_load(&standing[i]);
        if (name != NULL)
            unlink(name);
    }
}

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

/* What a chain of symbolic links names in the end, whether that exists or not; free() it. NULL with
 * errno when there is no end to it. */
static char *follow(const char *path) {
    char at[PATH_MAX], link[PATH_MAX];
    if (strlen(path) >= sizeof at) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    strcpy(at, path);
    for (int i = 0; i < LINKS_MOST; i++) {
        ssize_t n = readlink(at, link, sizeof link);
        if (n < 0) /* no link */
            return strdup(at);
        const char *slash = link[0] == '/' ? NULL : strrchr(at, '/');
        size_t folder = slash != NULL ? (size_t)(slash + 1 - at) : 0;
        if (folder + (size_t)n >= sizeof at) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        memcpy(at + folder, link, (size_t)n);
        at[folder + (size_t)n] = '\0';
    }
    errno = ELOOP;
    return NULL;
}

/* Creates the first free name of the form TARGET.PROCESS-N.tmp. Returns its descriptor, or -1. */
static int create_temporary(mt_output *o) {
    size_t capacity = strlen(o->target) + 48;
    o->temporary = malloc(capacity);
    if (o->temporary == NULL)
        return -1;
    for (int i = 0; i < 1000; i++) {
        snprintf(o->temporary, capacity, "%s.%ld-%d.tmp", o->target, (long)getpid(), i);
        int fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            exchange(NULL, o->temporary);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Opens what will be written: the named file itself when it is no plain file, else a temporary. */
static int open_target(mt_output *o) {
    struct stat status;
    int standing = mt_descriptor_of(o->path);
    if (o->path[0] == '\0') {
        errno = ENOENT;
        return -1;
    }
    if (standing >= 0)
        return fcntl(standing, F_DUPFD_CLOEXEC, 0);
    if (stat(o->path, &status) == 0 && !S_ISREG(status.st_mode))
        return mt_open_write(o->path);
    o->target = follow(o->path);
    return o->target != NULL ? create_temporary(o) : -1;
}

static bool open_packer(mt_output *o) {
    if (o->packing == GZIP)
        return deflateInit2(&o->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_FORMAT, 8, Z_DEFAULT_STRATEGY) ==
               Z_OK;
    if (o->packing == ZSTD)
        return (o->zstd = ZSTD_createCStream()) != NULL &&
               !ZSTD_isError(ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_checksumFlag, 1));
    return true;
}

static void free_output(mt_output *o) {
    if (o->fd >= 0)
        close(o->fd);
    if (o->packing == GZIP)
        deflateEnd(&o->gzip);
    ZSTD_freeCStream(o->zstd);
    if (o->temporary != NULL)
        exchange(o->temporary, NULL);
    free(o->temporary);
    free(o->target);
    free(o->path);
    free(o);
}

mt_status mt_output_open(mt_output **out, const char *path, mt_error *err) {
    *out = NULL;
    mt_output *o = calloc(1, sizeof *o);
    if (o == NULL)
        return mt_no_memory(err, path);
    o->fd = -1;
    o->path = strdup(path);
    if (o->path == NULL || (o->fd = open_target(o)) < 0) {
        mt_status status = mt_fail(err, errno == EINTR ? MT_INTERRUPTED : MT_FAILED,
                                   "%s: cannot be written: %s", path, strerror(errno));
        free_output(o);
        return status;
    }
    o->packing = ends_with(path, ".gz") ? GZIP : ends_with(path, ".zst") ? ZSTD : PLAIN;
    if (!open_packer(o)) {
        mt_output_abandon(o);
        return mt_no_memory(err, path);
    }
    *out = o;
    return MT_OK;
}

static void keep_error(mt_output *o, const char *what) {
    if (o->error.status == MT_OK)
        mt_fail(&o->error, MT_FAILED, "%s: cannot be written: %s", o->path, what);
}

static void keep_errno(mt_output *o) {
    bool interrupted = errno == EINTR && o->error.status == MT_OK;
    keep_error(o, strerror(errno));
    if (interrupted)
        o->error.status = MT_INTERRUPTED;
}

/* Writes to the descriptor, all of it. */
static void put(mt_output *o, const void *data, size_t n) {
    const char *at = data;
    while (n > 0 && o->error.status == MT_OK) {
        ssize_t done = mt_write(o->fd, at, n);
        if (done > 0) {
            at += done;
            n -= (size_t)done;
        } else if (done == 0) {
            keep_error(o, "nothing is taken");
        } else {
            keep_errno(o);
        }
    }
}

static void pack_gzip(mt_output *o, bool last) {
    o->gzip.next_in = (Bytef *)o->text;
    o->gzip.avail_in = (uInt)o->used;
    do {
        o->gzip.next_out = o->packed;
        o->gzip.avail_out = BUFFER;
        if (deflate(&o->gzip, last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
            keep_error(o, "zlib refused it");
        put(o, o->packed, BUFFER - o->gzip.avail_out);
    } while (o->gzip.avail_out == 0 && o->error.status == MT_OK);
}

static void pack_zstd(mt_output *o, bool last) {
    ZSTD_inBuffer in = { o->text, o->used, 0 };
    size_t left;
    do {
        ZSTD_outBuffer out = { o->packed, BUFFER, 0 };
        left = ZSTD_compressStream2(o->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            keep_error(o, ZSTD_getErrorName(left));
        put(o, o->packed, out.pos);
    } while ((last ? left > 0 : in.pos < in.size) && o->error.status == MT_OK);
}

/* Empties the text buffer; last ends the compressed data. */
static void flush(mt_output *o, bool last) {
    if (o->error.status == MT_OK) {
        if (o->packing == GZIP)
            pack_gzip(o, last);
        else if (o->packing == ZSTD)
            pack_zstd(o, last);
        else
            put(o, o->text, o->used);
    }
    o->used = 0;
}

void mt_output_write(mt_output *o, const void *data, size_t n) {
    const char *at = data;
    while (n > 0) {
        if (o->used == BUFFER)
            flush(o, false);
        size_t part = n < BUFFER - o->used ? n : BUFFER - o->used;
        memcpy(o->text + o->used, at, part);
        o->used += part;
        at += part;
        n -= part;
    }
}

/* Has the data on the disk before they get their name. Not every file system can do so. */
static void settle(mt_output *o) {
    if (o->error.status == MT_OK && fsync(o->fd) != 0 && errno != EINVAL && errno != ENOTSUP &&
        errno != EROFS && errno != ENOSYS)
        keep_errno(o);
}

/* Has the new name on the disk, as far as that can be done: the file is whole in any case. */
static void settle_folder(const mt_output *o) {
    char *folder = o->temporary; /* of no more use */
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

/* Gives the temporary file its name. */
static void give_name(mt_output *o) {
    if (rename(o->temporary, o->target) != 0) {
        keep_errno(o);
        return;
    }
    exchange(o->temporary, NULL);
    settle_folder(o);
}

mt_status mt_output_commit(mt_output *o, mt_error *err) {
    flush(o, true);
    if (o->temporary != NULL)
        settle(o);
    int closed = close(o->fd);
    o->fd = -1;
    if (closed != 0)
        keep_errno(o);
    if (o->temporary != NULL && o->error.status == MT_OK)
        give_name(o);
    mt_status status = o->error.status;
    if (status != MT_OK) {
        mt_fail(err, status, "%s", o->error.text);
        mt_output_abandon(o);
    } else {
        free_output(o);
    }
    return status;
}

void mt_output_abandon(mt_output *o) {
    if (o == NULL)
        return;
    if (o->temporary != NULL)
        unlink(o->temporary);
    free_output(o);
}
