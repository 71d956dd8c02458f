/* mtb.h - the binary trace, .mtb: what its writer and its reader share. The format, to the byte, is
 * in docs/trace-format.md.
 *
 * A header, then records: a byte that says the kind, the length of the body as a varint, the body.
 * Numbers are varints (7 bits a byte, the lowest first, the top bit: more follow); signed ones are
 * zigzag (0, -1, 1, -2, ...). What a record does not tell is as in the one before. */
#ifndef MT_TRACES_MTB_H
#define MT_TRACES_MTB_H

#include <stdint.h>

#define MT_MTB_MAGIC "\x8dMTB\r\n\x1a\n"
enum {
    MT_MTB_HEADER = 16, /* bytes: the magic, version and flags of two each, four zeros */
    MT_MTB_VERSION = 1,
    MT_MTB_GROWS = 1,      /* flag: appended as it comes, good up to its last whole record */
    MT_MTB_BODY = 1 << 16, /* bytes of a body at most, but for unknown kinds */
    MT_MTB_VARINT = 10     /* bytes at most */
};

typedef enum mt_mtb_kind {
    MT_MTB_NOTE = 1, /* text */
    MT_MTB_SETTINGS, /* 1: with times, else 0; capacity; the policy's text */
    MT_MTB_STRING,   /* text; numbered from 1 */
    MT_MTB_STACK,    /* stack of the caller, string; numbered from 1 */

    /* Events of an allocator, with fields. */
    MT_MTB_ALLOC,
    MT_MTB_FREE,          /* live number, and fields that the alloc did not say so */
    MT_MTB_SEGMENT_ALLOC, /* number of the segment + 1, cause + 1 */
    MT_MTB_SEGMENT_FREE,
    MT_MTB_SEGMENT_MAP, /* number + 1: the first pages; 0: more of them */
    MT_MTB_SEGMENT_UNMAP,
    MT_MTB_OOM,
    MT_MTB_MARK, /* ctx, kv_ideal, nanoseconds, stream */

    /* Operations of which no event is told. */
    MT_MTB_REQUEST,
    MT_MTB_REFUSED,
    MT_MTB_RELEASE, /* live number + 1, or 0 and the id of one that was live at the start */
    MT_MTB_USE,     /* the same; stream */
    MT_MTB_TRIM,
    MT_MTB_HOLD,
    MT_MTB_GO,
    MT_MTB_STEP, /* ctx, kv_ideal */

    MT_MTB_INDEX, /* a mark: its place in the file, events before it, requested, reserved */
    MT_MTB_END,   /* place of the first INDEX, number of records before this, 8 bytes each */
    MT_MTB_KINDS,
    MT_MTB_TIMED = 0x80 /* added to a kind: nanoseconds since the record before that has a time
                           stand first in the body */
} mt_mtb_kind;

/* Fields, in this order behind a varint that has a bit for each that is there. What has none is as
 * in the latest ALLOC, SEGMENT, OOM or REQUEST record, but for ID, the one after the latest, and
 * ROUNDED, the bytes requested. */
enum {
    MT_MTB_STREAM = 1 << 0,
    MT_MTB_OFFSET = 1 << 1, /* signed, from the end of the latest one's block */
    MT_MTB_REQUESTED = 1 << 2,
    MT_MTB_ROUNDED = 1 << 3,  /* signed, more than requested */
    MT_MTB_LAYER = 1 << 4,    /* + 1 */
    MT_MTB_SLOT = 1 << 5,     /* of the segment; of a REQUEST its number */
    MT_MTB_TAG_POOL = 1 << 6, /* tag + 8 x pool */
    MT_MTB_ID = 1 << 7,       /* more than the one after the latest */
    MT_MTB_DEVICE = 1 << 8,
    MT_MTB_PRIVATE_POOL = 1 << 9,
    MT_MTB_STACK_OF = 1 << 10,
    MT_MTB_THREAD = 1 << 11,
    MT_MTB_PROCESS = 1 << 12,
    MT_MTB_HOST = 1 << 13,
    MT_MTB_FIELDS = 14
};

/* Differences are taken modulo 2^64. */
static inline uint64_t mt_mtb_zigzag(uint64_t n) {
    return n << 1 ^ (n >> 63 != 0 ? UINT64_MAX : 0);
}

static inline uint64_t mt_mtb_signed(uint64_t n) {
    return n >> 1 ^ ((n & 1) != 0 ? UINT64_MAX : 0);
}

#endif
