/* pickle_memo.c - see pickle_internal.h: the opcodes, and what of a pickle's memo is kept. */
#include "base/pickle_internal.h"

#include <stdlib.h>
#include <string.h>

#define FIXED(bytes)      FORM_FIXED, bytes, false
#define SIZED(bytes)      FORM_SIZED, bytes, false
#define REFUSED           FORM_REFUSED, 0, false
#define CODE(form, bytes) form, bytes, true

const mt_pickle_op mt_pickle_ops[256] = {
    [OP_MARK] = { "MARK", FIXED(0) },
    [OP_STOP] = { "STOP", FIXED(0) },
    [OP_BINFLOAT] = { "BINFLOAT", FIXED(8) },
    [OP_BININT] = { "BININT", FIXED(4) },
    [OP_BININT1] = { "BININT1", FIXED(1) },
    [OP_BININT2] = { "BININT2", FIXED(2) },
    [OP_NONE] = { "NONE", FIXED(0) },
    [OP_BINSTRING] = { "BINSTRING", SIZED(4) },
    [OP_SHORT_BINSTRING] = { "SHORT_BINSTRING", SIZED(1) },
    [OP_BINUNICODE] = { "BINUNICODE", SIZED(4) },
    [OP_EMPTY_LIST] = { "EMPTY_LIST", FIXED(0) },
    [OP_APPEND] = { "APPEND", FIXED(0) },
    [OP_DICT] = { "DICT", FIXED(0) },
    [OP_APPENDS] = { "APPENDS", FIXED(0) },
    [OP_BINGET] = { "BINGET", FIXED(1) },
    [OP_LONG_BINGET] = { "LONG_BINGET", FIXED(4) },
    [OP_LIST] = { "LIST", FIXED(0) },
    [OP_BINPUT] = { "BINPUT", FIXED(1) },
    [OP_LONG_BINPUT] = { "LONG_BINPUT", FIXED(4) },
    [OP_SETITEM] = { "SETITEM", FIXED(0) },
    [OP_TUPLE] = { "TUPLE", FIXED(0) },
    [OP_SETITEMS] = { "SETITEMS", FIXED(0) },
    [OP_EMPTY_DICT] = { "EMPTY_DICT", FIXED(0) },
    [OP_EMPTY_TUPLE] = { "EMPTY_TUPLE", FIXED(0) },
    [OP_BINBYTES] = { "BINBYTES", SIZED(4) },
    [OP_SHORT_BINBYTES] = { "SHORT_BINBYTES", SIZED(1) },
    [OP_PROTO] = { "PROTO", FIXED(1) },
    [OP_TUPLE1] = { "TUPLE1", FIXED(0) },
    [OP_TUPLE2] = { "TUPLE2", FIXED(0) },
    [OP_TUPLE3] = { "TUPLE3", FIXED(0) },
    [OP_NEWTRUE] = { "NEWTRUE", FIXED(0) },
    [OP_NEWFALSE] = { "NEWFALSE", FIXED(0) },
    [OP_LONG1] = { "LONG1", SIZED(1) },
    [OP_LONG4] = { "LONG4", SIZED(4) },
    [OP_SHORT_BINUNICODE] = { "SHORT_BINUNICODE", SIZED(1) },
    [OP_BINUNICODE8] = { "BINUNICODE8", SIZED(8) },
    [OP_BINBYTES8] = { "BINBYTES8", SIZED(8) },
    [OP_EMPTY_SET] = { "EMPTY_SET", FIXED(0) },
    [OP_ADDITEMS] = { "ADDITEMS", FIXED(0) },
    [OP_FROZENSET] = { "FROZENSET", FIXED(0) },
    [OP_MEMOIZE] = { "MEMOIZE", FIXED(0) },
    [OP_FRAME] = { "FRAME", FIXED(8) },
    [OP_BYTEARRAY8] = { "BYTEARRAY8", SIZED(8) },

    [OP_GLOBAL] = { "GLOBAL", CODE(FORM_LINES, 0) },
    [OP_STACK_GLOBAL] = { "STACK_GLOBAL", CODE(FORM_FIXED, 0) },
    [OP_REDUCE] = { "REDUCE", CODE(FORM_FIXED, 0) },
    [OP_BUILD] = { "BUILD", CODE(FORM_FIXED, 0) },
    [OP_BINPERSID] = { "BINPERSID", CODE(FORM_FIXED, 0) },
    ['P'] = { "PERSID", CODE(FORM_REFUSED, 0) },
    ['i'] = { "INST", CODE(FORM_REFUSED, 0) },
    ['o'] = { "OBJ", CODE(FORM_REFUSED, 0) },
    [0x81] = { "NEWOBJ", CODE(FORM_REFUSED, 0) },
    [0x82] = { "EXT1", CODE(FORM_REFUSED, 0) },
    [0x83] = { "EXT2", CODE(FORM_REFUSED, 0) },
    [0x84] = { "EXT4", CODE(FORM_REFUSED, 0) },
    [0x92] = { "NEWOBJ_EX", CODE(FORM_REFUSED, 0) },

    ['0'] = { "POP", REFUSED },
    ['1'] = { "POP_MARK", REFUSED },
    ['2'] = { "DUP", REFUSED },
    ['F'] = { "FLOAT", REFUSED },
    ['I'] = { "INT", REFUSED },
    ['L'] = { "LONG", REFUSED },
    ['S'] = { "STRING", REFUSED },
    ['V'] = { "UNICODE", REFUSED },
    ['g'] = { "GET", REFUSED },
    ['p'] = { "PUT", REFUSED },
    [0x97] = { "NEXT_BUFFER", REFUSED },
    [0x98] = { "READONLY_BUFFER", REFUSED },
};

/* After two line ends. */
static const unsigned char *skip_lines(const unsigned char *p, const unsigned char *end) {
    for (int i = 0; i < 2 && p != NULL; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p != NULL ? p + 1 : NULL;
    }
    return p;
}

const unsigned char *mt_pickle_skip(const unsigned char *p, const unsigned char *end) {
    const mt_pickle_op *op = &mt_pickle_ops[*p++];
    if (op->form == FORM_LINES)
        return skip_lines(p, end);
    if (op->form == FORM_REFUSED || end - p < op->bytes)
        return NULL;
    if (op->form == FORM_FIXED)
        return p + op->bytes;
    uint64_t n = mt_pickle_number(p, op->bytes);
    return n <= (uint64_t)(end - p) - op->bytes ? p + op->bytes + n : NULL;
}

/* ---- the memo -------------------------------------------------------------------------------- */

/* Sets the bit of a number that is fetched. */
static inline void keep(mt_pickle_memo *m, uint64_t i) {
    if (i < m->count)
        m->kept[i / 64].bits |= (uint64_t)1 << i % 64;
}

/* Finds the entries that a pickle fetches. Stops without a word where the machine will complain:
 * nothing beyond is read. The frequent opcodes are told apart one by one, so that the processor can
 * guess where the next one begins before it has seen this one. */
static void find_fetched(mt_pickle_memo *m, const unsigned char *p, const unsigned char *end) {
    while (p != NULL && end - p > 9 && *p != OP_STOP)
        switch (*p) {
        case OP_BINGET:
            keep(m, p[1]);
            p += 2;
            break;
        case OP_LONG_BINGET:
            keep(m, mt_pickle_number(p + 1, 4));
            p += 5;
            break;
        case OP_MEMOIZE:
        case OP_MARK:
        case OP_EMPTY_DICT:
        case OP_SETITEMS:
        case OP_TUPLE2:
            p += 1;
            break;
        case OP_BININT1:
            p += 2;
            break;
        case OP_BININT:
            p += 5;
            break;
        default:
            p = mt_pickle_skip(p, end);
        }
}

/* Counts what is kept, and makes room for it. */
static bool make_room(mt_pickle_memo *m) {
    uint64_t words = m->count / 64;
    while (words > 0 && m->kept[words - 1].bits == 0)
        words--;
    m->count = words * 64;
    for (uint64_t i = 0; i < words; i++) {
        if (i < MT_PICKLE_LOW / 64)
            m->kept[i].bits = UINT64_MAX;
        m->kept[i].before = m->room;
        m->room += mt_pickle_bits(m->kept[i].bits);
    }
    m->room = m->room > MT_PICKLE_LOW ? m->room : MT_PICKLE_LOW;
    m->entry = calloc(m->room, sizeof *m->entry);
    return m->entry != NULL;
}

bool mt_pickle_memo_open(mt_pickle_memo *m, const unsigned char *data, uint64_t size,
                         uint64_t large) {
    *m = (mt_pickle_memo){ .count = size < UINT32_MAX ? size : UINT32_MAX };
    if (size < large)
        return true;
    m->count = (m->count + 63) / 64 * 64;
    m->kept = calloc(m->count / 64, sizeof *m->kept);
    if (m->kept == NULL)
        return false;
    find_fetched(m, data, data + size);
    return make_room(m);
}

void mt_pickle_memo_close(mt_pickle_memo *m) {
    free(m->entry);
    free(m->kept);
}

bool mt_pickle_memo_grow(mt_pickle_memo *m, uint64_t i) {
    if (i >= m->room) {
        uint64_t room = m->room + m->room / 2 + 256;
        room = room > i ? room : i + 1;
        uint64_t *entry = realloc(m->entry, room * sizeof *entry);
        if (entry == NULL)
            return false;
        m->entry = entry;
        m->room = room;
    }
    memset(m->entry + m->stored, 0, (i + 1 - m->stored) * sizeof *m->entry);
    return true;
}
