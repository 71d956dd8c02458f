/* pickle.c - see pickle.h. A stack of values, a stack of marks, and a function for each opcode. */
#include "base/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pickle_internal.h"
#include "base/text.h"

/* mt_pickle_value.memo; of text the bytes of its length stand above, times 4. */
enum { IN_MEMO = 1, FETCHED = 2 };

#define ENTRY_FETCHED 16 /* in an entry of the memo */

#define LARGE      ((uint64_t)256 << 20) /* mt_pickle_maker.large */
#define NAME_SLOTS 512

/* What was fetched from the memo lately. */
#define RECENT 256

typedef struct recent {
    uint64_t number; /* of the entry, + 1 */
    mt_pickle_value value;
} recent;

typedef struct machine {
    const mt_pickle_maker *maker;
    void *context;
    const char *file;
    const unsigned char *data, *end;
    const unsigned char *at; /* the opcode that is carried out */

    mt_pickle_value *stack, *top, *full; /* full: so near the end that it must grow first */
    mt_pickle_value *floor;              /* what stands below belongs to an earlier mark */
    uint32_t *mark;                      /* heights of the stack at each mark */
    size_t marks, mark_room;

    mt_pickle_memo memo;
    recent recent[RECENT];
    uint16_t name[NAME_SLOTS]; /* numbers of the caller's names, by hash */
    mt_status status;
    mt_error *err;
} machine;

/* ---- failing --------------------------------------------------------------------------------- */

static const unsigned char *fail(machine *m, mt_status status, const char *what) {
    m->status = mt_fail(m->err, status, "%s: byte %" PRIu64 ": %s", m->file,
                        (uint64_t)(m->at - m->data), what);
    return NULL;
}

static const unsigned char *no_memory(machine *m) {
    m->status = mt_no_memory(m->err, m->file);
    return NULL;
}

/* What a maker complained of, with its place. */
static const unsigned char *maker_failed(machine *m, const mt_error *err) {
    if (err->status == MT_BAD)
        return fail(m, MT_BAD, err->text);
    m->status = mt_fail(m->err, err->status, "%s", err->text);
    return NULL;
}

static const unsigned char *too_few(machine *m) {
    return fail(m, MT_BAD, "an opcode finds too few values before it; the pickle is damaged");
}

static const unsigned char *too_long(machine *m) {
    return fail(m, MT_BAD, "a text or number goes beyond the end of the file, which is cut");
}

/* An opcode that is not carried out. */
static const unsigned char *refuse(machine *m) {
    const mt_pickle_op *op = &mt_pickle_ops[*m->at];
    char text[160];
    if (op->name == NULL)
        snprintf(text, sizeof text, "0x%02x is no opcode of a pickle", *m->at);
    else
        snprintf(text, sizeof text, "opcode %s %s", op->name,
                 op->code ? "names or runs code, which is never done here"
                          : "is not one of plain data in protocols 2 to 5");
    return fail(m, MT_BAD, text);
}

/* ---- the stack ------------------------------------------------------------------------------- */

/* Room that every opcode finds on the stack. */
#define SPARE 4

/* What the stack may take: 32 MiB, and 4 bytes for each byte read. */
static bool may_hold(const machine *m, size_t values) {
    return values * sizeof(mt_pickle_value) <= ((size_t)32 << 20) + 4 * (size_t)(m->at - m->data);
}

static void set_floor(machine *m) {
    m->floor = m->stack + (m->marks > 0 ? m->mark[m->marks - 1] : 0);
}

static const unsigned char *too_many(machine *m) {
    return fail(m, MT_BAD, "more values wait to be used than a pickler ever leaves waiting");
}

static bool grow_stack(machine *m) {
    size_t n = (size_t)(m->top - m->stack);
    size_t room = n + n / 2 + 1024;
    mt_pickle_value *stack = realloc(m->stack, room * sizeof *stack);
    if (stack == NULL)
        return false;
    m->stack = stack;
    m->top = stack + n;
    set_floor(m);
    m->full = stack + room - SPARE;
    return true;
}

static inline void push(machine *m, mt_pickle_value v) {
    *m->top++ = v;
}

static inline const unsigned char *push_kind(machine *m, const unsigned char *p, uint8_t kind) {
    push(m, (mt_pickle_value){ .kind = kind });
    return p;
}

static inline const unsigned char *push_int(machine *m, const unsigned char *p, int64_t i) {
    push(m, (mt_pickle_value){ .kind = MT_PICKLE_INT, .i = i });
    return p;
}

static const unsigned char *put_mark(machine *m, const unsigned char *p) {
    if (m->marks == m->mark_room) {
        size_t room = m->mark_room + m->mark_room / 2 + 64;
        if (!may_hold(m, room / 2))
            return too_many(m);
        uint32_t *mark = realloc(m->mark, room * sizeof *mark);
        if (mark == NULL)
            return no_memory(m);
        m->mark = mark;
        m->mark_room = room;
    }
    m->mark[m->marks++] = (uint32_t)(m->top - m->stack);
    m->floor = m->top;
    return p;
}

/* Takes the topmost mark away: *item is what stands above it. False when there is none. */
static inline bool take_mark(machine *m, mt_pickle_value **item, size_t *n) {
    if (m->marks == 0)
        return false;
    *item = m->stack + m->mark[--m->marks];
    *n = (size_t)(m->top - *item);
    set_floor(m);
    return true;
}

/* ---- text and numbers ------------------------------------------------------------------------ */

/* Whether n bytes of text, which may have zeros inside, are a name. */
static inline bool same(const char *name, const char *text, size_t n) {
    return strncmp(name, text, n) == 0 && strlen(name) == n;
}

static inline unsigned name_slot(const char *text, size_t n) {
    unsigned h = (unsigned)n * 7;
    if (n > 0)
        h += (unsigned char)text[0] * 31u + (unsigned char)text[n - 1] * 17u +
             (unsigned char)text[n / 2] * 5u;
    return h % NAME_SLOTS;
}

static void enter_names(machine *m) {
    for (uint16_t i = 0; m->maker->names != NULL && m->maker->names[i] != NULL; i++) {
        unsigned h = name_slot(m->maker->names[i], strlen(m->maker->names[i]));
        while (m->name[h] != 0)
            h = (h + 1) % NAME_SLOTS;
        m->name[h] = i + 1;
    }
}

/* Number of the caller's name that this text is, or 0. */
static inline uint16_t name_of(const machine *m, const char *text, size_t n) {
    for (unsigned h = name_slot(text, n); m->name[h] != 0; h = (h + 1) % NAME_SLOTS) {
        const char *name = m->maker->names[m->name[h] - 1];
        if (same(name, text, n))
            return m->name[h];
    }
    return 0;
}

/* A text whose length, of so many bytes, stands at p. */
static inline const unsigned char *text(machine *m, const unsigned char *p, unsigned bytes,
                                        uint8_t kind) {
    uint64_t n = mt_pickle_number(p, bytes), left = (uint64_t)(m->end - p) - bytes;
    if (n > left)
        return too_long(m);
    if (n > UINT32_MAX)
        return fail(m, MT_BAD, "a text of 4 GiB or more");
    mt_pickle_value v = { .kind = kind, .memo = (uint8_t)(bytes << 2), .n = (uint32_t)n };
    v.text = (const char *)p + bytes;
    v.shape = name_of(m, v.text, v.n);
    push(m, v);
    return p + bytes + n;
}

static const unsigned char *op_float(machine *m, const unsigned char *p) {
    uint64_t bits = 0;
    mt_pickle_value v = { .kind = MT_PICKLE_FLOAT };
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    memcpy(&v.f, &bits, sizeof v.f);
    push(m, v);
    return p + 8;
}

/* An integer in two's complement of n bytes, the lowest first. */
static const unsigned char *long_of(machine *m, const unsigned char *p, uint64_t n) {
    unsigned char fill = n > 0 && p[n - 1] >= 0x80 ? 0xff : 0, sign = fill;
    while (n > 8 && p[n - 1] == fill)
        n--;
    if (n > 8)
        return fail(m, MT_BAD, "an integer of more than 64 bits");
    uint64_t u = fill != 0 ? UINT64_MAX : 0;
    for (unsigned i = 0; i < n; i++)
        u = (u & ~((uint64_t)0xff << 8 * i)) | (uint64_t)p[i] << 8 * i;
    bool negative = u >> 63;
    if (sign != 0 && !negative)
        return fail(m, MT_BAD, "an integer of more than 64 bits");
    push(m,
         (mt_pickle_value){ .kind = negative && !sign ? MT_PICKLE_UINT : MT_PICKLE_INT, .u = u });
    return p;
}

static const unsigned char *op_long(machine *m, const unsigned char *p, unsigned bytes) {
    uint64_t n = mt_pickle_number(p, bytes), left = (uint64_t)(m->end - p) - bytes;
    if (n > left)
        return too_long(m);
    return long_of(m, p + bytes, n) != NULL ? p + bytes + n : NULL;
}

/* ---- the memo -------------------------------------------------------------------------------- */

static inline bool is_container(const mt_pickle_value *v) {
    return v->kind >= MT_PICKLE_TUPLE;
}

static inline bool is_text(const mt_pickle_value *v) {
    return v->kind == MT_PICKLE_TEXT || v->kind == MT_PICKLE_BYTES;
}

/* A value as the memo keeps it. */
static inline uint64_t packed(const machine *m, const mt_pickle_value *v) {
    uint64_t u = is_text(v) ? (uint64_t)((const unsigned char *)v->text - m->data) : v->u;
    return u << 24 | (uint64_t)v->shape << 8 | (uint64_t)(v->memo >> 4) << 5 | v->kind;
}

static inline mt_pickle_value unpacked(const machine *m, uint64_t entry) {
    mt_pickle_value v = { .kind = entry & 15,
                          .memo = IN_MEMO | FETCHED,
                          .shape = (uint16_t)(entry >> 8),
                          .u = entry >> 24 };
    if (is_text(&v)) {
        const unsigned char *text = m->data + v.u;
        unsigned bytes = (entry >> 5 & 7) > 0 ? (entry >> 5 & 7) * 4 : 1;
        v.text = (const char *)text;
        v.n = (uint32_t)mt_pickle_number(text - bytes, bytes);
    }
    return v;
}

static const unsigned char *odd_memo(machine *m) {
    return fail(m, MT_BAD, "the memo is not used as a pickler does; the pickle is damaged");
}

/* Stores the top as entry i. Numbers rise; some may be left out, but a pickle has more bytes than
 * entries. */
static inline const unsigned char *store(machine *m, const unsigned char *p, uint64_t i) {
    mt_pickle_memo *memo = &m->memo;
    if (m->top == m->floor)
        return too_few(m);
    mt_pickle_value *v = m->top - 1;
    if (v->memo & IN_MEMO || v->kind < MT_PICKLE_TEXT || i < memo->stored || i >= UINT32_MAX ||
        i > (uint64_t)(p - m->data))
        return odd_memo(m);
    if (memo->kept == NULL && (i >= memo->room || i > memo->stored) &&
        !mt_pickle_memo_grow(memo, i))
        return no_memory(m);
    memo->stored = i + 1;
    v->memo |= IN_MEMO;
    if (is_container(v))
        v->n = (uint32_t)(i + 1);
    uint64_t *entry = mt_pickle_memo_at(memo, i);
    if (entry != NULL)
        *entry = packed(m, v);
    return p;
}

/* Fetches entry i from the memo itself. */
static const unsigned char *fetch(machine *m, const unsigned char *p, uint64_t i) {
    uint64_t *entry = mt_pickle_memo_at(&m->memo, i);
    if (entry == NULL || *entry == 0)
        return fail(m, MT_BAD, "an entry of the memo is fetched that was never stored");
    recent *r = &m->recent[i % RECENT];
    r->number = i + 1;
    r->value = unpacked(m, *entry);
    *entry |= ENTRY_FETCHED;
    push(m, r->value);
    return p;
}

/* What was fetched never changes any more: of containers the entry says all. */
static inline bool fetch_again(const machine *m, uint64_t i, mt_pickle_value *v) {
    const recent *r = &m->recent[i % RECENT];
    *v = r->value;
    if (r->number == i + 1)
        return true;
    const uint64_t *entry = mt_pickle_memo_at(&m->memo, i);
    if (entry == NULL || !(*entry & ENTRY_FETCHED) || (*entry & 15) < MT_PICKLE_TUPLE)
        return false;
    *v = (mt_pickle_value){ .kind = *entry & 15,
                            .memo = IN_MEMO | FETCHED,
                            .shape = (uint16_t)(*entry >> 8),
                            .u = *entry >> 24 };
    return true;
}

/* ---- containers ------------------------------------------------------------------------------ */

/* The entry of a container that is filled or made, if it is kept; *odd when it was fetched. */
static inline uint64_t *entry_of(const machine *m, const mt_pickle_value *made, bool *odd) {
    uint64_t *entry = made->memo & IN_MEMO ? mt_pickle_memo_at(&m->memo, made->n - 1) : NULL;
    *odd = made->memo & FETCHED || (entry != NULL && *entry & ENTRY_FETCHED);
    return entry;
}

/* Adds n items, the topmost values, to what stands below them. */
static inline const unsigned char *fill(machine *m, const unsigned char *p, mt_pickle_value *item,
                                        size_t n, unsigned kinds) {
    mt_error err;
    bool odd;
    if (item == m->floor)
        return too_few(m);
    mt_pickle_value *made = item - 1;
    if (!(kinds >> made->kind & 1) || (made->kind == MT_PICKLE_DICT && n % 2 != 0))
        return fail(m, MT_BAD, "items are added to what cannot hold them; the pickle is damaged");
    m->top = item;
    if (n == 0)
        return p;
    uint64_t *entry = entry_of(m, made, &odd);
    if (odd)
        return fail(m, MT_BAD, "a list or dictionary that holds itself");
    if (m->maker->fill(m->context, made, item, n, &err) != MT_OK)
        return maker_failed(m, &err);
    if (entry != NULL)
        *entry = packed(m, made);
    return p;
}

#define KIND(kind) (1u << (kind))

/* Adds the items above the topmost mark. */
static inline const unsigned char *fill_marked(machine *m, const unsigned char *p, unsigned kinds) {
    mt_pickle_value *item;
    size_t n;
    return take_mark(m, &item, &n) ? fill(m, p, item, n, kinds) : too_few(m);
}

/* Adds the n topmost values. */
static inline const unsigned char *fill_top(machine *m, const unsigned char *p, size_t n,
                                            unsigned kinds) {
    return (size_t)(m->top - m->floor) > n ? fill(m, p, m->top - n, n, kinds) : too_few(m);
}

/* Makes a list, set or dictionary of the items above the topmost mark. */
static const unsigned char *gather(machine *m, const unsigned char *p, uint8_t kind) {
    mt_pickle_value *item;
    size_t n;
    if (!take_mark(m, &item, &n))
        return too_few(m);
    memmove(item + 1, item, n * sizeof *item);
    *item = (mt_pickle_value){ .kind = kind };
    m->top++;
    mt_pickle_value *floor = m->floor;
    m->floor = item;
    p = fill(m, p, item + 1, n, KIND(kind));
    m->floor = floor;
    return p;
}

/* Makes a tuple of n items, the topmost values. */
static inline const unsigned char *tuple(machine *m, const unsigned char *p, mt_pickle_value *item,
                                         size_t n) {
    mt_pickle_value made = { .kind = MT_PICKLE_TUPLE };
    mt_error err;
    if (m->maker->tuple(m->context, &made, item, n, &err) != MT_OK)
        return maker_failed(m, &err);
    m->top = item;
    push(m, made);
    return p;
}

static inline const unsigned char *tuple_top(machine *m, const unsigned char *p, size_t n) {
    return (size_t)(m->top - m->floor) >= n ? tuple(m, p, m->top - n, n) : too_few(m);
}

static const unsigned char *tuple_marked(machine *m, const unsigned char *p) {
    mt_pickle_value *item;
    size_t n;
    return take_mark(m, &item, &n) ? tuple(m, p, item, n) : too_few(m);
}

/* ---- globals and objects, where the caller allows some --------------------------------------- */

static const unsigned char *push_global(machine *m, const unsigned char *p, const char *module,
                                        size_t module_n, const char *name, size_t name_n) {
    const mt_pickle_global *g = m->maker->globals;
    for (size_t i = 0; g[i].name != NULL; i++)
        if (same(g[i].module, module, module_n) && same(g[i].name, name, name_n)) {
            push(m, (mt_pickle_value){ .kind = MT_PICKLE_GLOBAL, .u = i });
            return p;
        }
    char what[200], shown[2][80];
    snprintf(what, sizeof what, "%s.%s, which is not among the names allowed here",
             mt_printable(shown[0], sizeof shown[0], module, module_n),
             mt_printable(shown[1], sizeof shown[1], name, name_n));
    return fail(m, MT_BAD, what);
}

/* A module and a name on two lines. */
static const unsigned char *op_global(machine *m, const unsigned char *p) {
    size_t left = (size_t)(m->end - p);
    const unsigned char *first = memchr(p, '\n', left);
    const unsigned char *second =
        first != NULL ? memchr(first + 1, '\n', (size_t)(m->end - first) - 1) : NULL;
    if (second == NULL)
        return too_long(m);
    return push_global(m, second + 1, (const char *)p, (size_t)(first - p), (const char *)first + 1,
                       (size_t)(second - first) - 1);
}

static const unsigned char *op_stack_global(machine *m, const unsigned char *p) {
    if (m->top - m->floor < 2)
        return too_few(m);
    const mt_pickle_value *module = m->top - 2, *name = m->top - 1;
    if (module->kind != MT_PICKLE_TEXT || name->kind != MT_PICKLE_TEXT)
        return fail(m, MT_BAD, "the name of a global is no text; the pickle is damaged");
    m->top -= 2;
    return push_global(m, p, module->text, module->n, name->text, name->n);
}

/* Makes an object of the n topmost values, of which the first one must be of some kinds. */
static const unsigned char *object(machine *m, const unsigned char *p, size_t n, unsigned kinds) {
    mt_error err;
    bool odd = false;
    if ((size_t)(m->top - m->floor) < n)
        return too_few(m);
    mt_pickle_value *part = m->top - n, made = *part;
    if (!(kinds >> part->kind & 1))
        return fail(m, MT_BAD, "a call of what is no function; the pickle is damaged");
    bool again = n == 2 && part->kind == MT_PICKLE_OBJECT;
    uint64_t *entry = again ? entry_of(m, part, &odd) : NULL;
    if (odd)
        return fail(m, MT_BAD, "an object that holds itself");
    if (!again)
        made = (mt_pickle_value){ .kind = MT_PICKLE_OBJECT };
    if (m->maker->object(m->context, &made, part, n, &err) != MT_OK)
        return maker_failed(m, &err);
    m->top = part;
    push(m, made);
    if (entry != NULL)
        *entry = packed(m, &made);
    return p;
}

/* ---- the opcodes ----------------------------------------------------------------------------- */

static const unsigned char *op_stop(machine *m) {
    if (m->top - m->stack != 1 || m->marks > 0)
        return fail(m, MT_BAD, "the pickle ends with more than one value, or none");
    return NULL;
}

static const unsigned char *op_proto(machine *m, const unsigned char *p) {
    return *p >= 2 && *p <= 5 ? p + 1
                              : fail(m, MT_BAD, "not a protocol from 2 to 5, the ones read here");
}

static const unsigned char *op_frame(machine *m, const unsigned char *p) {
    return mt_pickle_number(p, 8) <= (uint64_t)(m->end - p) - 8 ? p + 8 : too_long(m);
}

static const unsigned char *code_op(machine *m, const unsigned char *p, unsigned char op) {
    if (m->maker->globals == NULL)
        return refuse(m);
    switch (op) {
    case OP_GLOBAL:
        return op_global(m, p);
    case OP_STACK_GLOBAL:
        return op_stack_global(m, p);
    case OP_REDUCE:
        return object(m, p, 2, KIND(MT_PICKLE_GLOBAL));
    case OP_BUILD:
        return object(m, p, 2, KIND(MT_PICKLE_OBJECT));
    case OP_BINPERSID:
        return object(m, p, 1, ~0u);
    default:
        return refuse(m);
    }
}

/* Those that a large pickle of plain data seldom has. */
static const unsigned char *rare_op(machine *m, const unsigned char *p, unsigned char op) {
    switch (op) {
    case OP_STOP:
        return op_stop(m);
    case OP_PROTO:
        return op_proto(m, p);
    case OP_FRAME:
        return op_frame(m, p);
    case OP_BINFLOAT:
        return op_float(m, p);
    case OP_LONG1:
    case OP_LONG4:
        return op_long(m, p, op == OP_LONG1 ? 1 : 4);
    case OP_BINUNICODE8:
        return text(m, p, 8, MT_PICKLE_TEXT);
    case OP_SHORT_BINSTRING:
    case OP_SHORT_BINBYTES:
        return text(m, p, 1, op == OP_SHORT_BINBYTES ? MT_PICKLE_BYTES : MT_PICKLE_TEXT);
    case OP_BINSTRING:
    case OP_BINBYTES:
        return text(m, p, 4, op == OP_BINBYTES ? MT_PICKLE_BYTES : MT_PICKLE_TEXT);
    case OP_BINBYTES8:
    case OP_BYTEARRAY8:
        return text(m, p, 8, MT_PICKLE_BYTES);
    case OP_LIST:
        return gather(m, p, MT_PICKLE_LIST);
    case OP_DICT:
        return gather(m, p, MT_PICKLE_DICT);
    case OP_FROZENSET:
        return gather(m, p, MT_PICKLE_SET);
    case OP_EMPTY_SET:
        return push_kind(m, p, MT_PICKLE_SET);
    case OP_ADDITEMS:
        return fill_marked(m, p, KIND(MT_PICKLE_SET));
    default:
        return code_op(m, p, op);
    }
}

static const unsigned char *container_op(machine *m, const unsigned char *p, unsigned char op) {
    switch (op) {
    case OP_EMPTY_TUPLE:
        return tuple_top(m, p, 0);
    case OP_TUPLE1:
    case OP_TUPLE3:
        return tuple_top(m, p, op - OP_TUPLE1 + 1u);
    case OP_TUPLE:
        return tuple_marked(m, p);
    case OP_EMPTY_LIST:
        return push_kind(m, p, MT_PICKLE_LIST);
    case OP_APPEND:
        return fill_top(m, p, 1, KIND(MT_PICKLE_LIST));
    case OP_APPENDS:
        return fill_marked(m, p, KIND(MT_PICKLE_LIST));
    case OP_SETITEM:
        return fill_top(m, p, 2, KIND(MT_PICKLE_DICT) | KIND(MT_PICKLE_OBJECT));
    case OP_NONE:
        return push_kind(m, p, MT_PICKLE_NONE);
    case OP_NEWTRUE:
    case OP_NEWFALSE:
        push_kind(m, p, MT_PICKLE_BOOL);
        m->top[-1].u = op == OP_NEWTRUE;
        return p;
    case OP_BINPUT:
        return store(m, p + 1, *p);
    case OP_LONG_BINPUT:
        return store(m, p + 4, mt_pickle_number(p, 4));
    case OP_BINUNICODE:
        return text(m, p, 4, MT_PICKLE_TEXT);
    default:
        return rare_op(m, p, op);
    }
}

/* Those that events are made of, and do not push_one. */
static inline const unsigned char *step(machine *m, const unsigned char *p) {
    unsigned char op = *p++;
    switch (op) {
    case OP_BINGET:
        return fetch(m, p + 1, *p);
    case OP_LONG_BINGET:
        return fetch(m, p + 4, mt_pickle_number(p, 4));
    case OP_MEMOIZE:
        return store(m, p, m->memo.stored);
    case OP_BININT1:
        return push_int(m, p + 1, *p);
    case OP_BININT2:
        return push_int(m, p + 2, (int64_t)mt_pickle_number(p, 2));
    case OP_BININT:
        return push_int(m, p + 4, (int32_t)mt_pickle_number(p, 4));
    case OP_SHORT_BINUNICODE:
        return text(m, p, 1, MT_PICKLE_TEXT);
    case OP_MARK:
        return put_mark(m, p);
    case OP_EMPTY_DICT:
        return push_kind(m, p, MT_PICKLE_DICT);
    case OP_SETITEMS:
        return fill_marked(m, p, KIND(MT_PICKLE_DICT) | KIND(MT_PICKLE_OBJECT));
    case OP_TUPLE2:
        return tuple_top(m, p, 2);
    default:
        return container_op(m, p, op);
    }
}

/* No opcode is longer without its text. */
#define LONGEST 9

/* An integer of 1 to 7 bytes; false when it has more. */
static inline bool short_long(const unsigned char *p, unsigned n, int64_t *i) {
    unsigned spare = (64 - 8 * n) & 63;
    *i = (int64_t)(mt_pickle_number(p, 8) << spare) >> spare;
    return n - 1 < 7;
}

/* Carries an opcode out that does nothing but push a value, as most do; false when it is another.
 * Where it begins and the top are the caller's own, so that they stay in registers. */
static inline bool push_one(const machine *m, const unsigned char **at, mt_pickle_value **top) {
    const unsigned char *p = *at;
    mt_pickle_value *v = *top;
    bool pushed = true;
    switch (*p) {
    case OP_BINGET:
        pushed = fetch_again(m, p[1], v);
        p += 2;
        break;
    case OP_LONG_BINGET:
        pushed = fetch_again(m, mt_pickle_number(p + 1, 4), v);
        p += 5;
        break;
    case OP_BININT1:
        *v = (mt_pickle_value){ .kind = MT_PICKLE_INT, .i = p[1] };
        p += 2;
        break;
    case OP_BININT:
        *v = (mt_pickle_value){ .kind = MT_PICKLE_INT, .i = (int32_t)mt_pickle_number(p + 1, 4) };
        p += 5;
        break;
    case OP_LONG1:
        *v = (mt_pickle_value){ .kind = MT_PICKLE_INT };
        pushed = short_long(p + 2, p[1], &v->i);
        p += 2 + p[1];
        break;
    default:
        return false;
    }
    if (pushed) {
        *at = p;
        *top = v + 1;
    }
    return pushed;
}

/* Whether the next opcode has its argument and room on the stack; says why not. */
static bool ready(machine *m) {
    if (m->end - m->at <= (m->at < m->end ? mt_pickle_ops[*m->at].bytes : 0))
        fail(m, MT_BAD, "the file ends before the pickle does; it is cut");
    else if (m->top >= m->full && !may_hold(m, (size_t)(m->top - m->stack)))
        too_many(m);
    else if (m->top >= m->full && !grow_stack(m))
        no_memory(m);
    return m->status == MT_OK;
}

static void run(machine *m) {
    const unsigned char *p = m->data;
    mt_pickle_value *top = m->top;
    while (p != NULL) {
        if (m->end - p > LONGEST && top < m->full && push_one(m, &p, &top))
            continue;
        m->at = p;
        m->top = top;
        p = ready(m) ? step(m, p) : NULL;
        top = m->top;
    }
}

/* ---- from outside ---------------------------------------------------------------------------- */

bool mt_pickle_begins(const void *data, size_t n) {
    const unsigned char *p = data;
    return n >= 2 && p[0] == OP_PROTO && p[1] >= 2 && p[1] <= 5;
}

mt_status mt_pickle_read(const mt_pickle_maker *maker, void *context, const char *file,
                         const void *data, uint64_t size, mt_pickle_value *made, mt_error *err) {
    machine m = { .maker = maker,
                  .context = context,
                  .file = file,
                  .data = data,
                  .at = data,
                  .end = (const unsigned char *)data + size,
                  .err = err };
    if (!mt_pickle_begins(data, size < 2 ? size : 2))
        return mt_fail(err, MT_BAD, "%s: not a pickle of protocol 2 to 5", file);
    if (size >= MT_PICKLE_MOST)
        return mt_fail(err, MT_BAD, "%s: a pickle of 1 TiB or more", file);
    enter_names(&m);
    if (grow_stack(&m) &&
        mt_pickle_memo_open(&m.memo, data, size, maker->large > 0 ? maker->large : LARGE))
        run(&m);
    else
        no_memory(&m);
    if (m.status == MT_OK && made != NULL)
        *made = m.stack[0];
    mt_pickle_memo_close(&m.memo);
    free(m.stack);
    free(m.mark);
    return m.status;
}

const char *mt_pickle_kind_name(const mt_pickle_value *v) {
    static const char *const names[] = { "nothing",    "None",     "a boolean",    "an integer",
                                         "an integer", "a number", "text",         "bytes",
                                         "a tuple",    "a list",   "a dictionary", "a set",
                                         "a global",   "an object" };
    return names[v->kind < sizeof names / sizeof *names ? v->kind : 0];
}
