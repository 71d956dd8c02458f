/* output.c - see output.h.
 *
 * Both directions go through one buffer of text and one of packed bytes. Writing fills the text
 * buffer and packs it when it is full; reading refills the packed buffer when the decoder has used
 * it up. The descriptor is written with write(2), so a full disk is seen at once, and its close is
 * checked, which is where network file systems tell. */
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

#include "base/size.h"

#define BUFFER      ((size_t)64 << 10)
#define GZIP_FORMAT (15 + 16) /* zlib: the largest window, with a gzip header */
#define GZIP_LEVEL  4         /* traces: twice as fast as the usual 6, a tenth larger */

typedef enum packing { PLAIN, GZIP, ZSTD } packing;

/* ---------------------------------------------------------------- writing */

struct mt_output {
    char *path;
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

/* The open file that /dev/stdout, /dev/stderr or /dev/fd/N stands for; -1 for other names. */
static int standing_for(const char *path) {
    uint64_t n;
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    if (strncmp(path, "/dev/fd/", 8) == 0 && mt_parse_u64(path + 8, 0, INT_MAX, &n))
        return (int)n;
    return -1;
}

/* Creates the first free name of the form PATH.PROCESS-N.tmp. Returns its descriptor, or -1. */
static int create_temporary(mt_output *o) {
    size_t capacity = strlen(o->path) + 48;
    o->temporary = malloc(capacity);
    if (o->temporary == NULL)
        return -1;
    for (int i = 0; i < 1000; i++) {
        snprintf(o->temporary, capacity, "%s.%ld-%d.tmp", o->path, (long)getpid(), i);
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
    int standing = standing_for(o->path);
    if (o->path[0] == '\0') {
        errno = ENOENT;
        return -1;
    }
    if (standing >= 0)
        return fcntl(standing, F_DUPFD_CLOEXEC, 0);
    if (lstat(o->path, &status) == 0 && !S_ISREG(status.st_mode))
        return open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return create_temporary(o);
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
    free(o->path);
    free(o);
}

mt_status mt_output_open(mt_output **out, const char *path, mt_error *err) {
    *out = NULL;
    mt_output *o = calloc(1, sizeof *o);
    if (o == NULL)
        return mt_fail(err, MT_FAILED, "%s: not enough memory to write it", path);
    o->fd = -1;
    o->path = strdup(path);
    if (o->path == NULL || (o->fd = open_target(o)) < 0) {
        mt_fail(err, MT_FAILED, "%s: cannot be written: %s", path, strerror(errno));
        free_output(o);
        return MT_FAILED;
    }
    o->packing = ends_with(path, ".gz") ? GZIP : ends_with(path, ".zst") ? ZSTD : PLAIN;
    if (!open_packer(o)) {
        mt_output_abandon(o);
        return mt_fail(err, MT_FAILED, "%s: not enough memory to compress it", path);
    }
    *out = o;
    return MT_OK;
}

static void keep_error(mt_output *o, const char *what) {
    if (o->error.status == MT_OK)
        mt_fail(&o->error, MT_FAILED, "%s: cannot be written: %s", o->path, what);
}

/* Writes to the descriptor, all of it. */
static void put(mt_output *o, const void *data, size_t n) {
    const char *at = data;
    while (n > 0 && o->error.status == MT_OK) {
        ssize_t done = write(o->fd, at, n);
        if (done > 0) {
            at += done;
            n -= (size_t)done;
        } else if (done == 0 || errno != EINTR) {
            keep_error(o, done == 0 ? "nothing is taken" : strerror(errno));
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

mt_status mt_output_commit(mt_output *o, mt_error *err) {
    flush(o, true);
    int closed = close(o->fd);
    o->fd = -1;
    if (closed != 0)
        keep_error(o, strerror(errno));
    if (o->temporary != NULL && o->error.status == MT_OK && rename(o->temporary, o->path) != 0)
        keep_error(o, strerror(errno));
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

/* ---------------------------------------------------------------- reading */

struct mt_input {
    char *path;
    int fd;
    packing packing;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool between; /* at the start, and after compressed data that ended well */
    bool full;    /* the decoder filled what it was given, and may hold more */
    size_t at, used;
    unsigned char packed[BUFFER];
};

/* Appends to the packed buffer. *end when there is no more. */
static mt_status refill(mt_input *in, bool *end, mt_error *err) {
    ssize_t n;
    if (in->at == in->used)
        in->at = in->used = 0;
    do
        n = read(in->fd, in->packed + in->used, BUFFER - in->used);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return mt_fail(err, errno == EISDIR ? MT_BAD : MT_FAILED, "%s: cannot be read: %s",
                       in->path, strerror(errno));
    *end = n == 0;
    in->used += (size_t)n;
    return MT_OK;
}

/* Tells the packing from the first bytes and makes its decoder. */
static mt_status open_decoder(mt_input *in, mt_error *err) {
    static const unsigned char gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
    bool end = false, ready = true;
    while (in->used < sizeof zstd && !end)
        MT_TRY(refill(in, &end, err));
    if (in->used >= sizeof gzip && memcmp(in->packed, gzip, sizeof gzip) == 0) {
        ready = inflateInit2(&in->gzip, GZIP_FORMAT) == Z_OK;
        in->packing = ready ? GZIP : PLAIN;
    } else if (in->used >= sizeof zstd && memcmp(in->packed, zstd, sizeof zstd) == 0) {
        ready = (in->zstd = ZSTD_createDStream()) != NULL;
        in->packing = ZSTD;
    }
    in->between = true;
    return ready ? MT_OK : mt_fail(err, MT_FAILED, "%s: not enough memory to read it", in->path);
}

mt_status mt_input_open(mt_input **out, const char *path, mt_error *err) {
    *out = NULL;
    mt_input *in = calloc(1, sizeof *in);
    if (in == NULL || (in->path = strdup(path)) == NULL) {
        free(in);
        return mt_fail(err, MT_FAILED, "%s: not enough memory to read it", path);
    }
    in->fd = open(path, O_RDONLY | O_CLOEXEC);
    mt_status status =
        in->fd >= 0 ? open_decoder(in, err)
                    : mt_fail(err, MT_BAD, "%s: cannot be opened: %s", path, strerror(errno));
    if (status != MT_OK) {
        mt_input_close(in);
        return status;
    }
    *out = in;
    return MT_OK;
}

void mt_input_close(mt_input *in) {
    if (in == NULL)
        return;
    if (in->fd >= 0)
        close(in->fd);
    if (in->packing == GZIP)
        inflateEnd(&in->gzip);
    ZSTD_freeDStream(in->zstd);
    free(in->path);
    free(in);
}

/* Decoders: use packed bytes, write at most capacity bytes, *n of them; false when the data are
 * corrupt. */
static bool decode_plain(mt_input *in, void *data, size_t capacity, size_t *n) {
    *n = in->used - in->at < capacity ? in->used - in->at : capacity;
    memcpy(data, in->packed + in->at, *n);
    in->at += *n;
    return true;
}

static bool decode_gzip(mt_input *in, void *data, size_t capacity, size_t *n) {
    in->gzip.next_in = in->packed + in->at;
    in->gzip.avail_in = (uInt)(in->used - in->at);
    in->gzip.next_out = data;
    in->gzip.avail_out = (uInt)capacity;
    int code = inflate(&in->gzip, Z_NO_FLUSH);
    in->at = in->used - in->gzip.avail_in;
    *n = capacity - in->gzip.avail_out;
    in->between = code == Z_STREAM_END;
    if (in->between)
        return inflateReset(&in->gzip) == Z_OK;
    return code == Z_OK || code == Z_BUF_ERROR;
}

static bool decode_zstd(mt_input *in, void *data, size_t capacity, size_t *n) {
    ZSTD_inBuffer from = { in->packed, in->used, in->at };
    ZSTD_outBuffer to = { data, capacity, 0 };
    size_t left = ZSTD_decompressStream(in->zstd, &to, &from);
    in->at = from.pos;
    *n = to.pos;
    in->between = left == 0;
    return !ZSTD_isError(left);
}

static bool decode(mt_input *in, void *data, size_t capacity, size_t *n) {
    if (capacity > INT_MAX)
        capacity = INT_MAX;
    bool good = in->packing == GZIP   ? decode_gzip(in, data, capacity, n)
                : in->packing == ZSTD ? decode_zstd(in, data, capacity, n)
                                      : decode_plain(in, data, capacity, n);
    in->full = *n == capacity && !in->between;
    return good;
}

mt_status mt_input_some(mt_input *in, void *data, size_t capacity, size_t *n, mt_error *err) {
    bool end = false;
    *n = 0;
    while (*n == 0) {
        if (in->at == in->used && !in->full)
            MT_TRY(refill(in, &end, err));
        if (end && !in->between)
            return mt_fail(err, MT_BAD, "%s: the compressed data are cut short", in->path);
        if (end)
            return MT_OK;
        if (!decode(in, data, capacity, n))
            return mt_fail(err, MT_BAD, "%s: the compressed data are corrupt", in->path);
    }
    return MT_OK;
}

/* Reads until the end or past limit into *data, which grows. */
static mt_status read_all(mt_input *in, size_t limit, char **data, size_t *n, mt_error *err) {
    size_t capacity = 0, got = 1;
    while (got > 0) {
        if (*n + 1 >= capacity) {
            capacity = capacity == 0 ? BUFFER : 2 * capacity;
            char *grown = realloc(*data, capacity);
            if (grown == NULL)
                return mt_fail(err, MT_FAILED, "%s: not enough memory to read it", in->path);
            *data = grown;
        }
        MT_TRY(mt_input_some(in, *data + *n, capacity - *n - 1, &got, err));
        *n += got;
        if (*n > limit)
            return mt_fail(err, MT_BAD, "%s: larger than the %zu bytes expected at most", in->path,
                           limit);
    }
    (*data)[*n] = '\0';
    return MT_OK;
}

mt_status mt_input_read(const char *path, size_t limit, char **data, size_t *n, mt_error *err) {
    mt_input *in;
    *data = NULL;
    *n = 0;
    MT_TRY(mt_input_open(&in, path, err));
    mt_status status = read_all(in, limit, data, n, err);
    mt_input_close(in);
    if (status != MT_OK) {
        free(*data);
        *data = NULL;
        *n = 0;
    }
    return status;
}
