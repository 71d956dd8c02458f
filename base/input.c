/* input.c - see input.h.
 *
 * Packed bytes come from the descriptor into one buffer; a decoder makes text of them, straight
 * into the caller's memory or, for a look ahead and for lines, into a buffer of text. That one
 * grows to the longest line. */
#include "base/input.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/array.h"
#include "base/descriptor.h"

#define BUFFER      ((size_t)64 << 10)
#define GZIP_FORMAT (15 + 16) /* zlib: the largest window, with a gzip header */

typedef enum packing { PLAIN, GZIP, ZSTD } packing;

struct mt_input {
    char *name;
    int fd;
    packing packing;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool between;          /* at the start, and after compressed data that ended well */
    bool full;             /* the decoder filled what it was given, and may hold more */
    uint64_t limit, taken; /* bytes of text at most; so far */
    uint64_t line;         /* number of the last one */
    MT_ARRAY(char) text;   /* decoded; what is before text_at is used up */
    size_t text_at;
    size_t zero;     /* no zero byte stands in text from text_at to there */
    size_t at, used; /* of packed */
    unsigned char packed[BUFFER];
};

static mt_status no_memory(const mt_input *in, mt_error *err) {
    return mt_no_memory(err, in->name);
}

/* ---- packed bytes ---------------------------------------------------------------------------- */

/* Appends to the packed buffer. *end when there is no more. */
static mt_status refill(mt_input *in, bool *end, mt_error *err) {
    if (in->at == in->used)
        in->at = in->used = 0;
    ssize_t n = mt_read(in->fd, in->packed + in->used, BUFFER - in->used);
    if (n < 0)
        return mt_fail(err, mt_open_status(errno), "%s: cannot be read: %s", in->name,
                       strerror(errno));
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
    return ready ? MT_OK : no_memory(in, err);
}

mt_status mt_input_open(mt_input **out, const char *path, uint64_t limit, mt_error *err) {
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    *out = NULL;
    mt_input *in = calloc(1, sizeof *in);
    if (in == NULL || (in->name = strdup(name)) == NULL) {
        free(in);
        return mt_no_memory(err, name);
    }
    in->limit = limit;
    in->fd = mt_open_read(path);
    mt_status status = in->fd >= 0 ? open_decoder(in, err)
                                   : mt_fail(err, mt_open_status(errno), "%s: cannot be opened: %s",
                                             name, strerror(errno));
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
    mt_array_free(&in->text);
    free(in->name);
    free(in);
}

const char *mt_input_name(const mt_input *in) {
    return in->name;
}

void mt_input_limit_packed(mt_input *in, uint64_t limit) {
    if (in->packing != PLAIN)
        in->limit = limit;
}

const char *mt_input_path(const mt_input *in) {
    struct stat file, named;
    bool same = in->packing == PLAIN && fstat(in->fd, &file) == 0 && S_ISREG(file.st_mode) &&
                stat(in->name, &named) == 0 && file.st_dev == named.st_dev &&
                file.st_ino == named.st_ino;
    return same ? in->name : NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef enum decoded { GOOD, CORRUPT, NO_MEMORY } decoded;

/* Decoders: use packed bytes, write at most capacity bytes, *n of them. */
static decoded decode_plain(mt_input *in, void *data, size_t capacity, size_t *n) {
    *n = in->used - in->at < capacity ? in->used - in->at : capacity;
    memcpy(data, in->packed + in->at, *n);
    in->at += *n;
    return GOOD;
}

static decoded decode_gzip(mt_input *in, void *data, size_t capacity, size_t *n) {
    in->gzip.next_in = in->packed + in->at;
    in->gzip.avail_in = (uInt)(in->used - in->at);
    in->gzip.next_out = data;
    in->gzip.avail_out = (uInt)capacity;
    int code = inflate(&in->gzip, Z_NO_FLUSH);
    in->at = in->used - in->gzip.avail_in;
    *n = capacity - in->gzip.avail_out;
    in->between = code == Z_STREAM_END;
    if (in->between)
        code = inflateReset(&in->gzip);
    return code == Z_MEM_ERROR ? NO_MEMORY : code == Z_OK || code == Z_BUF_ERROR ? GOOD : CORRUPT;
}

static decoded decode_zstd(mt_input *in, void *data, size_t capacity, size_t *n) {
    ZSTD_inBuffer from = { in->packed, in->used, in->at };
    ZSTD_outBuffer to = { data, capacity, 0 };
    size_t left = ZSTD_decompressStream(in->zstd, &to, &from);
    in->at = from.pos;
    *n = to.pos;
    in->between = left == 0;
    return !ZSTD_isError(left)                                       ? GOOD
           : ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? NO_MEMORY
                                                                     : CORRUPT;
}

static mt_status decode(mt_input *in, void *data, size_t capacity, size_t *n, mt_error *err) {
    if (capacity > INT_MAX)
        capacity = INT_MAX;
    decoded result = in->packing == GZIP   ? decode_gzip(in, data, capacity, n)
                     : in->packing == ZSTD ? decode_zstd(in, data, capacity, n)
                                           : decode_plain(in, data, capacity, n);
    in->full = *n == capacity && !in->between;
    if (result == NO_MEMORY)
        return no_memory(in, err);
    if (result == CORRUPT)
        return mt_fail(err, MT_BAD, "%s: the compressed data are corrupt", in->name);
    return MT_OK;
}

/* The next text, not from the buffer of text: *n is 0 at the end only. */
static mt_status produce(mt_input *in, void *data, size_t capacity, size_t *n, mt_error *err) {
    bool end = false;
    *n = 0;
    while (*n == 0) {
        if (in->at == in->used && !in->full)
            MT_TRY(refill(in, &end, err));
        if (end && !in->between)
            return mt_fail(err, MT_BAD, "%s: the compressed data are cut short", in->name);
        if (end)
            return MT_OK;
        MT_TRY(decode(in, data, capacity, n, err));
    }
    in->taken += *n;
    if (in->taken > in->limit)
        return mt_fail(err, MT_BAD, "%s: more than %" PRIu64 " bytes, expected that many at most",
                       in->name, in->limit);
    return MT_OK;
}

mt_status mt_input_some(mt_input *in, void *data, size_t capacity, size_t *n, mt_error *err) {
    size_t there = in->text.count - in->text_at;
    if (there == 0)
        return produce(in, data, capacity, n, err);
    *n = there < capacity ? there : capacity;
    memcpy(data, in->text.at + in->text_at, *n);
    in->text_at += *n;
    return MT_OK;
}

/* Appends to the buffer of text, after moving what is left of it to the front; there is always room
 * for a 0 behind it. *end when the file has no more. */
static mt_status extend(mt_input *in, bool *end, mt_error *err) {
    size_t n, there = in->text.count - in->text_at;
    if (in->text_at > 0)
        memmove(in->text.at, in->text.at + in->text_at, there);
    in->zero = in->zero > in->text_at ? in->zero - in->text_at : 0;
    in->text_at = 0;
    in->text.count = there;
    if (!mt_array_reserve(&in->text, there + BUFFER + 1))
        return no_memory(in, err);
    MT_TRY(produce(in, in->text.at + there, in->text.room - there - 1, &n, err));
    in->text.count += n;
    *end = n == 0;
    return MT_OK;
}

mt_status mt_input_peek(mt_input *in, size_t want, const char **data, size_t *n, mt_error *err) {
    bool end = false;
    while (in->text.count - in->text_at < want && !end)
        MT_TRY(extend(in, &end, err));
    size_t there = in->text.count - in->text_at;
    *data = there == 0 ? "" : in->text.at + in->text_at;
    *n = there < want ? there : want;
    return MT_OK;
}

/* Finds the end of the next line, at most `most` bytes away; *length is that of the line. */
static mt_status find_end(mt_input *in, size_t most, size_t *length, bool *ended, mt_error *err) {
    bool end = false;
    for (size_t searched = 0; !end; searched = *length) {
        size_t there = in->text.count - in->text_at;
        const char *from = there > searched ? in->text.at + in->text_at : NULL;
        const char *newline = from != NULL ? memchr(from + searched, '\n', there - searched) : NULL;
        *ended = newline != NULL;
        *length = *ended ? (size_t)(newline - from) : there;
        if (*length > most)
            return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": longer than %zu bytes", in->name, in->line,
                           most);
        if (*ended)
            return MT_OK;
        MT_TRY(extend(in, &end, err));
    }
    return MT_OK;
}

/* Whether a zero byte stands in the text before `end`; looks at each byte once. */
static bool zero_before(mt_input *in, size_t end) {
    size_t from = in->zero > in->text_at ? in->zero : in->text_at;
    if (from < end) {
        const char *zero = memchr(in->text.at + from, '\0', in->text.count - from);
        in->zero = zero != NULL ? (size_t)(zero - in->text.at) : in->text.count;
    }
    return in->zero < end;
}

mt_status mt_input_line(mt_input *in, size_t most, mt_line *line, mt_error *err) {
    *line = (mt_line){ .number = ++in->line };
    MT_TRY(find_end(in, most, &line->length, &line->ended, err));
    if (line->length == 0 && !line->ended)
        return MT_OK;
    bool zero = zero_before(in, in->text_at + line->length);
    line->text = in->text.at + in->text_at;
    line->text[line->length] = '\0';
    in->text_at += line->length + line->ended;
    if (zero)
        return mt_fail(err, MT_BAD, "%s:%" PRIu64 ": a zero byte, expected text", in->name,
                       in->line);
    return MT_OK;
}

/* ---- whole files ----------------------------------------------------------------------------- */

mt_status mt_input_read(const char *path, uint64_t limit, char **data, size_t *n, mt_error *err) {
    mt_input *in;
    bool end = false;
    *data = NULL;
    *n = 0;
    MT_TRY(mt_input_open(&in, path, limit, err));
    mt_status status = MT_OK;
    while (status == MT_OK && !end)
        status = extend(in, &end, err);
    if (status == MT_OK) {
        *n = in->text.count;
        *data = in->text.at;
        (*data)[*n] = '\0';
        in->text.at = NULL; /* the caller's now */
    }
    mt_input_close(in);
    return status;
}
