/* pickle.h - Python pickles of plain data, read without running any of them.
 *
 * A machine for protocols 2 to 5 that knows the opcodes of data alone: None, numbers, text, bytes,
 * tuples, lists, dictionaries, sets and the memo. Opcodes that name or call code are refused, by
 * name and place, unless the caller names the globals it takes and says what they make.
 *
 * No tree of values is built. When a list or dictionary is filled, the caller gets its items at
 * once and turns them into whatever it keeps: a number of at most 40 bits (the value's u) and a
 * shape of its own. A value that holds this one gets just these two, and so does each later fetch
 * of it from the memo. A pickle of a million dictionaries thus costs no more than what the caller
 * made of them:
 *
 *     static mt_status fill(void *context, mt_pickle_value *made, const mt_pickle_value *item,
 *                           size_t n, mt_error *err) {
 *         if (made->kind == MT_PICKLE_DICT)
 *             ...                              item[0] is a key, item[1] its value, and so on
 *         made->shape = POINT;
 *         made->u = add_point(context, x, y);
 *         return MT_OK;
 *     }
 *
 * A list of more than 1,000 items is filled in several calls, the later ones with the shape and
 * number that the earlier ones gave. A container that is filled after it was fetched from the memo,
 * as in a list that holds itself, is refused: who holds it would hold an old number.
 *
 * Memory: what the pickle can make the machine take is at most 32 MiB and 6 bytes for each byte of
 * the pickle. Large pickles are gone through once before, to find the memo's entries that are ever
 * fetched; only those are kept. */
#ifndef MT_BASE_PICKLE_H
#define MT_BASE_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mt_pickle_kind {
    MT_PICKLE_NONE = 1,
    MT_PICKLE_BOOL,  /* u: 0 or 1 */
    MT_PICKLE_INT,   /* i */
    MT_PICKLE_UINT,  /* u, above INT64_MAX */
    MT_PICKLE_FLOAT, /* f */
    MT_PICKLE_TEXT,  /* text, n bytes of UTF-8 that nobody has checked */
    MT_PICKLE_BYTES, /* text, n bytes */
    MT_PICKLE_TUPLE, /* shape and u are the caller's, here and below */
    MT_PICKLE_LIST,
    MT_PICKLE_DICT,
    MT_PICKLE_SET,
    MT_PICKLE_GLOBAL, /* u: its number in the caller's list */
    MT_PICKLE_OBJECT  /* what a global or a persistent id made */
} mt_pickle_kind;

typedef struct mt_pickle_value {
    uint8_t kind;
    uint8_t memo; /* the machine's */
    uint16_t
        shape;  /* text: number of the caller's name, from 1; else the caller's own, 0 at first */
    uint32_t n; /* text, bytes: how long; else the machine's */
    union {
        uint64_t u; /* of the caller: below MT_PICKLE_MOST */
        int64_t i;
        double f;
        const char *text; /* in the pickle itself */
    };
} mt_pickle_value;

#define MT_PICKLE_MOST ((uint64_t)1 << 40)

/* A module and a name in it that a pickle may mention. */
typedef struct mt_pickle_global {
    const char *module, *name;
} mt_pickle_global;

/* What the caller makes of a pickle. Each function sets the shape and u of *made, and may fail with
 * a line that says what was wrong; the machine puts file and place before it. */
typedef struct mt_pickle_maker {
    /* Text that the caller knows by number (a name's number is its index + 1); NULL ends it. */
    const char *const *names;

    /* Items are added to a list, set, dictionary (key, value, key, value, ...; n counts both) or
     * object; n > 0. */
    mt_status (*fill)(void *context, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                      mt_error *err);
    mt_status (*tuple)(void *context, mt_pickle_value *made, const mt_pickle_value *item, size_t n,
                       mt_error *err);

    /* The globals allowed, ended by one without a name; NULL: none, and the rest is not used. */
    const mt_pickle_global *globals;
    /* part[0] is a global and part[1] the tuple of its arguments (REDUCE), or part[0] an object and
     * part[1] its state (BUILD, n = 2), or part[0] a persistent id (n = 1). */
    mt_status (*object)(void *context, mt_pickle_value *made, const mt_pickle_value *part, size_t n,
                        mt_error *err);

    uint64_t large; /* bytes from which on a pickle is gone through before; 0: 256 MiB */
} mt_pickle_maker;

/* Whether n bytes begin as a pickle of protocol 2 or above does. */
bool mt_pickle_begins(const void *data, size_t n);

/* Reads one pickle of at most size bytes; what follows its STOP is left alone. file: for messages.
 * made: what the whole pickle is, if not NULL. MT_BAD when it is none, is cut, needs an opcode that
 * is refused, or a maker says so; MT_FAILED when there is no memory. */
mt_status mt_pickle_read(const mt_pickle_maker *maker, void *context, const char *file,
                         const void *data, uint64_t size, mt_pickle_value *made, mt_error *err);

/* *out = an integer, taken modulo 2^64; false when the value is none. */
static inline bool mt_pickle_u64(const mt_pickle_value *v, uint64_t *out) {
    *out = v->u;
    return v->kind == MT_PICKLE_INT || v->kind == MT_PICKLE_UINT || v->kind == MT_PICKLE_BOOL;
}

/* "a list", "an integer", ... for messages. */
const char *mt_pickle_kind_name(const mt_pickle_value *v);

#endif
