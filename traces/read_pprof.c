/* read_pprof.c - heap profiles in pprof's form, as JAX writes them: what was live at one moment, by
 * call site.
 *
 * A protobuf (mostly gzipped), of whose fields these are read; ids of strings are places in the
 * table, from 0:
 *
 *     1  sample type   1 type, 2 unit: ids of strings ("space", "bytes")
 *     2  sample        2 values, one a sample type, packed or not; 3 label
 *        label         1 key, 2 text: ids of strings
 *     6  string        of the table
 *
 * Values are signed. The bytes are those of the sample type space or inuse_space, the count that of
 * allocations or inuse_objects. The labels kind (buffer, executable) and device (cuda:0,
 * TPU_0(...)) are JAX's. Executables are no requests and are told in a note.
 *
 * A sample of n requests is told as n of equal size, the first with what is left over, or as one,
 * when all samples together have more than a million. Nothing is freed. The text is kept whole, and
 * 4 bytes a string. */
#include "traces/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define REQUESTS_MOST ((uint64_t)1 << 20)
#define VALUES_MOST   16 /* sample types; profiles have up to four */
#define PIECE         ((size_t)1 << 16)

typedef struct span {
    const unsigned char *at, *end;
} span;

typedef struct field {
    uint64_t number, value; /* of a varint */
    span data;              /* of bytes; empty otherwise */
    bool bytes;
} field;

typedef struct sample {
    int64_t bytes, count;
    bool executable;
    uint32_t device;
} sample;

typedef struct pprof {
    mt_reader base;
    MT_ARRAY(unsigned char) text;
    uint32_t *string; /* [strings], where each begins; its length is before it */
    size_t strings;
    int bytes_at, count_at; /* among the values of a sample; -1: none */
    span rest;              /* not read yet */
    sample now;             /* what is told at the moment */
    uint64_t left;          /* requests of it still to come */
    uint64_t told, executables, executable_bytes;
    bool ready, noted;
    char note[100];
} pprof;

/* ---- protobuf -------------------------------------------------------------------------------- */

static bool varint(span *s, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; s->at < s->end && shift < 64; shift += 7) {
        unsigned char byte = *s->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The next n bytes. */
static bool take(span *s, uint64_t n, span *data) {
    if (n > (uint64_t)(s->end - s->at))
        return false;
    *data = (span){ s->at, s->at + n };
    s->at += n;
    return true;
}

/* The next field; false when there is none that is whole. */
static bool next_field(span *s, field *f) {
    uint64_t tag, n = 0;
    span unused;
    *f = (field){ 0 };
    if (!varint(s, &tag) || tag >> 3 == 0)
        return false;
    f->number = tag >> 3;
    switch (tag & 7) {
    case 0:
        return varint(s, &f->value);
    case 1:
        return take(s, 8, &unused);
    case 2:
        f->bytes = true;
        return varint(s, &n) && take(s, n, &f->data);
    case 5:
        return take(s, 4, &unused);
    default:
        return false;
    }
}

/* Whether a message, of which n bytes are there, begins with a sample type: two ids of strings. */
static bool detect(const char *data, size_t n) {
    span s = { (const unsigned char *)data, (const unsigned char *)data + n };
    field f, id;
    int ids = 0;
    if (!next_field(&s, &f) || f.number != 1 || !f.bytes)
        return false;
    while (f.data.at < f.data.end && next_field(&f.data, &id) && !id.bytes && id.number <= 2)
        ids++;
    return ids > 0 && ids <= 2 && f.data.at == f.data.end &&
           (s.at == s.end || (*s.at >= 8 && ((*s.at & 7) == 0 || (*s.at & 7) == 2)));
}

/* ---- the table of strings -------------------------------------------------------------------- */

static bool is(const pprof *x, uint64_t id, const char *text) {
    size_t n = strlen(text);
    if (id >= x->strings)
        return false;
    span s = { x->text.at + x->string[id], x->text.at + x->text.count }, data;
    uint64_t length;
    return varint(&s, &length) && take(&s, length, &data) && length == n &&
           memcmp(data.at, text, n) == 0;
}

/* The first number in a string: that of a device. */
static uint32_t number_in(const pprof *x, uint64_t id) {
    uint64_t length, n = 0;
    span s = { x->text.at, x->text.at + x->text.count }, data;
    if (id >= x->strings)
        return 0;
    s.at += x->string[id];
    if (!varint(&s, &length) || !take(&s, length, &data))
        return 0;
    while (data.at < data.end && (*data.at < '0' || *data.at > '9'))
        data.at++;
    for (; data.at < data.end && *data.at >= '0' && *data.at <= '9' && n < 1000000; data.at++)
        n = n * 10 + (uint64_t)(*data.at - '0');
    return (uint32_t)n;
}

static mt_status find_strings(pprof *x, mt_error *err) {
    const span all = { x->text.at, x->text.at + x->text.count };
    span s = all;
    field f;
    size_t n = 0;
    while (s.at < s.end) {
        if (!next_field(&s, &f))
            return mt_fail(err, MT_BAD, "%s: not whole from byte %zu on, expected a pprof profile",
                           mt_input_name(x->base.in), (size_t)(s.at - all.at));
        x->strings += f.number == 6 && f.bytes;
    }
    if ((x->string = calloc(x->strings + 1, sizeof *x->string)) == NULL)
        return mt_no_memory(err, "reading a recording");
    for (s = all; s.at < s.end;) {
        const unsigned char *at = s.at;
        uint64_t tag;
        next_field(&s, &f);
        span head = { at, s.end };
        if (f.number == 6 && f.bytes && varint(&head, &tag))
            x->string[n++] = (uint32_t)(head.at - all.at);
    }
    return MT_OK;
}

/* ---- sample types ---------------------------------------------------------------------------- */

static void sample_type(pprof *x, span s, int at) {
    uint64_t type = 0, unit = 0;
    field f;
    while (next_field(&s, &f)) {
        type = f.number == 1 ? f.value : type;
        unit = f.number == 2 ? f.value : unit;
    }
    if (is(x, unit, "bytes") && (is(x, type, "space") || is(x, type, "inuse_space")))
        x->bytes_at = at;
    if (is(x, unit, "count") && (is(x, type, "allocations") || is(x, type, "inuse_objects")))
        x->count_at = at;
}

static mt_status find_types(pprof *x, mt_error *err) {
    span s = { x->text.at, x->text.at + x->text.count };
    field f;
    int at = 0;
    x->rest = s;
    x->bytes_at = x->count_at = -1;
    while (s.at < s.end && next_field(&s, &f))
        if (f.number == 1 && f.bytes && at < VALUES_MOST)
            sample_type(x, f.data, at++);
    return x->bytes_at >= 0 ? MT_OK
                            : mt_fail(err, MT_BAD,
                                      "%s: no sample type space or inuse_space in bytes, expected "
                                      "a profile of memory",
                                      mt_input_name(x->base.in));
}

static mt_status read_text(pprof *x, mt_error *err) {
    size_t n;
    do {
        if (!mt_array_reserve(&x->text, x->text.count + PIECE))
            return mt_no_memory(err, "reading a recording");
        MT_TRY(mt_input_some(x->base.in, x->text.at + x->text.count, x->text.room - x->text.count,
                             &n, err));
        x->text.count += n;
        if (x->text.count > UINT32_MAX)
            return mt_fail(err, MT_BAD, "%s: expected fewer than 4 GiB of a profile",
                           mt_input_name(x->base.in));
    } while (n > 0);
    x->ready = true;
    MT_TRY(find_strings(x, err));
    return find_types(x, err);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void set_value(const pprof *x, sample *a, int at, uint64_t value) {
    if (at == x->bytes_at)
        a->bytes = (int64_t)value;
    if (at == x->count_at)
        a->count = (int64_t)value;
}

static void label(const pprof *x, span s, sample *a) {
    uint64_t key = 0, text = 0;
    field f;
    while (next_field(&s, &f)) {
        key = f.number == 1 ? f.value : key;
        text = f.number == 2 ? f.value : text;
    }
    if (is(x, key, "kind"))
        a->executable = is(x, text, "executable");
    if (is(x, key, "device"))
        a->device = number_in(x, text);
}

static bool read_sample(const pprof *x, span s, sample *a) {
    uint64_t value;
    int at = 0;
    field f;
    *a = (sample){ .count = 1 };
    while (s.at < s.end) {
        if (!next_field(&s, &f))
            return false;
        if (f.number == 2 && !f.bytes)
            set_value(x, a, at++, f.value);
        while (f.number == 2 && f.data.at < f.data.end) {
            if (!varint(&f.data, &value))
                return false;
            set_value(x, a, at < VALUES_MOST ? at++ : at, value);
        }
        at = at < VALUES_MOST ? at : VALUES_MOST;
        if (f.number == 3 && f.bytes)
            label(x, f.data, a);
    }
    return true;
}

/* Makes the next sample that has requests the one that is told; false at the end. */
static bool next_sample(pprof *x, bool *good) {
    field f;
    sample *a = &x->now;
    while (x->left == 0 && x->rest.at < x->rest.end && next_field(&x->rest, &f)) {
        if (f.number != 2 || !f.bytes)
            continue;
        x->base.line++;
        if (!(*good = read_sample(x, f.data, a)))
            return false;
        if (a->bytes > 0 && a->executable) {
            x->executables++;
            x->executable_bytes += (uint64_t)a->bytes;
        } else if (a->bytes > 0) {
            bool apart = a->count > 0 && a->count <= a->bytes &&
                         (uint64_t)a->count <= REQUESTS_MOST &&
                         x->told + (uint64_t)a->count <= REQUESTS_MOST;
            a->count = apart ? a->count : 1;
            x->left = (uint64_t)a->count;
        }
    }
    return x->left > 0;
}

/* A request: the first of a sample has what is left over. */
static void request(pprof *x, mt_item *item) {
    uint64_t n = (uint64_t)x->now.count, bytes = (uint64_t)x->now.bytes;
    item->kind = MT_ITEM_ALLOC;
    item->bytes = bytes / n + (x->left == n ? bytes % n : 0);
    item->device = x->now.device;
    item->id = x->told;
    item->live = (uint32_t)x->told++;
    x->left--;
}

static void note(pprof *x, mt_item *item) {
    x->noted = true;
    snprintf(x->note, sizeof x->note,
             "executables: %" PRIu64 " of %" PRIu64 " bytes, not among the requests",
             x->executables, x->executable_bytes);
    item->kind = MT_ITEM_NOTE;
    item->text = x->note;
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    pprof *x = (pprof *)r;
    bool good = true;
    if (!x->ready)
        MT_TRY(read_text(x, err));
    if (next_sample(x, &good) && x->told < MT_NO_LIVE)
        request(x, item);
    else if (good && x->executables > 0 && !x->noted)
        note(x, item);
    return good ? MT_OK : mt_reader_bad(r, err, "a sample that is not whole");
}

static void close_pprof(mt_reader *r) {
    mt_array_free(&((pprof *)r)->text);
    free(((pprof *)r)->string);
}

const mt_format mt_format_pprof = {
    .word = "pprof",
    .name = "a heap profile in pprof's form",
    .tells = MT_TELLS_CONTEXT | MT_TELLS_REQUESTED,
    .detect = detect,
    .size = sizeof(pprof),
    .next = next,
    .close = close_pprof,
};
