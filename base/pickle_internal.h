/* pickle_internal.h - what the pickle machine's files share: the table of opcodes and the memo.
 *
 * The memo holds what a pickle stores for later fetches, a value in 8 bytes:
 *
 *     bits 0-3 kind, 4 fetched, 5-7 bytes of a text's length / 4, 8-23 shape, 24-63 u, or a text's
 *     place
 *
 * Entries are numbered as the pickle numbers them. When a pickle is large it is gone through first,
 * and only the entries that it fetches are kept: a bit for each number says which, and a count for
 * each word of bits where its entries begin. */
#ifndef MT_BASE_PICKLE_INTERNAL_H
#define MT_BASE_PICKLE_INTERNAL_H

#include "base/pickle.h"

/* ---- opcodes --------------------------------------------------------------------------------- */

enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINPERSID = 'Q',
    OP_REDUCE = 'R',
    OP_BINSTRING = 'T',
    OP_SHORT_BINSTRING = 'U',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_BUILD = 'b',
    OP_GLOBAL = 'c',
    OP_DICT = 'd',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_LIST = 'l',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_EMPTY_TUPLE = ')',
    OP_BINBYTES = 'B',
    OP_SHORT_BINBYTES = 'C',
    OP_PROTO = 0x80,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2,
    OP_TUPLE3,
    OP_NEWTRUE,
    OP_NEWFALSE,
    OP_LONG1,
    OP_LONG4,
    OP_SHORT_BINUNICODE,
    OP_BINUNICODE8,
    OP_BINBYTES8,
    OP_EMPTY_SET,
    OP_ADDITEMS,
    OP_FROZENSET,
    OP_STACK_GLOBAL = 0x93,
    OP_MEMOIZE,
    OP_FRAME,
    OP_BYTEARRAY8
};

/* What follows an opcode. */
typedef enum mt_pickle_form {
    FORM_REFUSED, /* the machine does not take this opcode */
    FORM_FIXED,   /* so many bytes */
    FORM_SIZED,   /* a length of so many bytes, and as many bytes */
    FORM_LINES    /* two lines of text */
} mt_pickle_form;

typedef struct mt_pickle_op {
    const char *name; /* NULL: there is no such opcode */
    uint8_t form, bytes;
    bool code; /* it names or calls code */
} mt_pickle_op;

extern const mt_pickle_op mt_pickle_ops[256];

/* A number of 1 to 8 bytes, the lowest first. */
static inline uint64_t mt_pickle_number(const unsigned char *p, unsigned bytes) {
    uint64_t n = 0;
    for (unsigned i = 0; i < bytes; i++)
        n |= (uint64_t)p[i] << 8 * i;
    return n;
}

/* Where the next opcode begins after the one at p; NULL when it is refused, or its argument does
 * not end before end. */
const unsigned char *mt_pickle_skip(const unsigned char *p, const unsigned char *end);

/* ---- the memo -------------------------------------------------------------------------------- */

/* Which of 64 numbers are kept, and how many below them. */
typedef struct mt_pickle_kept {
    uint64_t bits, before;
} mt_pickle_kept;

typedef struct mt_pickle_memo {
    uint64_t *entry;      /* those below stored; 0: not stored */
    uint64_t room;        /* of entry */
    mt_pickle_kept *kept; /* NULL: all are kept */
    uint64_t count;       /* kept numbers go below this */
    uint64_t stored;      /* numbers go below this so far, kept or not */
} mt_pickle_memo;

/* An empty memo for a pickle of size bytes at data, which is gone through when it has large bytes
 * or more. False when there is no memory. */
bool mt_pickle_memo_open(mt_pickle_memo *m, const unsigned char *data, uint64_t size,
                         uint64_t large);
void mt_pickle_memo_close(mt_pickle_memo *m);

/* Makes entries up to number i, all being kept. */
bool mt_pickle_memo_grow(mt_pickle_memo *m, uint64_t i);

/* Numbers below this are all kept: most fetches are of them. */
#define MT_PICKLE_LOW 256

/* How many bits are set; without an instruction for it. */
static inline unsigned mt_pickle_bits(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (unsigned)(x * 0x0101010101010101 >> 56);
}

/* The entry of a number, or NULL when there is none. */
static inline uint64_t *mt_pickle_memo_at(const mt_pickle_memo *m, uint64_t i) {
    if (i < MT_PICKLE_LOW || m->kept == NULL)
        return i < m->stored ? &m->entry[i] : NULL;
    if (i >= m->count)
        return NULL;
    const mt_pickle_kept *k = &m->kept[i / 64];
    uint64_t bit = (uint64_t)1 << i % 64;
    return k->bits & bit ? &m->entry[k->before + mt_pickle_bits(k->bits & (bit - 1))] : NULL;
}

#endif
