/* oom_text.c - see oom_text.h. The message is squeezed: white space goes, and so does what each
 * line of a log begins with. In that text each size is told by the words beside it. */
#include "reports/oom_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"

/* ---- squeezing ------------------------------------------------------------------------------- */

/* A walk through a text that leaves out white space and the beginnings of lines. */
typedef struct walk {
    const char *text;
    size_t n, i;
    size_t line;   /* where the line begins in which the message does */
    size_t before; /* how many characters of it stand before the message */
} walk;

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* How many characters the line at i begins with like the message's first line, as a log's do:
 * numbers differ, and the last of them is no letter or digit. */
static size_t prefix(const walk *w, size_t i) {
    size_t k = 0, n = 0;
    while (k < w->before && i + k < w->n) {
        char a = w->text[w->line + k], b = w->text[i + k];
        if (a != b && !(isdigit((unsigned char)a) && isdigit((unsigned char)b)))
            break;
        k++;
        if (!isalnum((unsigned char)b))
            n = k;
    }
    return n;
}

/* The next character that counts, or '\0' at the end; *at: where it stands. */
static char next(walk *w, size_t *at) {
    while (w->i < w->n && is_space(w->text[w->i])) {
        bool ends = w->text[w->i++] == '\n';
        if (ends)
            w->i += prefix(w, w->i);
    }
    *at = w->i;
    return w->i < w->n ? w->text[w->i++] : '\0';
}

/* Whether the text at i reads as these words, which have no white space; *end: behind them. */
static bool reads(const char *text, size_t n, size_t line, size_t i, const char *words,
                  size_t *end) {
    walk w = { text, n, i, line, i - line };
    size_t at;
    while (*words != '\0')
        if (next(&w, &at) != *words++)
            return false;
    *end = w.i;
    return true;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A size as written: it stands for bytes - slack to bytes + slack. */
typedef struct amount {
    uint64_t bytes, slack;
} amount;

static const struct {
    const char *name;
    uint64_t bytes;
} UNITS[] = { { "bytes", 1 }, { "KiB", MT_KIB }, { "MiB", MT_MIB }, { "GiB", MT_GIB } };

/* Reads digits and up to six decimals: *value in units of 1 / *scale. Returns behind them. */
static const char *decimal(const char *s, uint64_t *value, uint64_t *scale) {
    *value = 0;
    *scale = 1;
    for (; isdigit((unsigned char)*s); s++)
        if (!mt_mul(*value, 10, value) || !mt_add(*value, (uint64_t)(*s - '0'), value))
            *value = UINT64_MAX / 16;
    if (*s == '.' && isdigit((unsigned char)s[1]))
        for (s++; isdigit((unsigned char)*s) && *scale < 1000000; s++) {
            *value = *value * 10 + (uint64_t)(*s - '0');
            *scale *= 10;
        }
    return s;
}

/* Reads a number and its unit, if any: *bare tells that a whole number has none. A size that no
 * card has is MT_OOM_UNKNOWN. Returns behind it. */
static const char *size(const char *s, amount *out, bool *bare) {
    uint64_t value, scale, bytes;
    s = decimal(s, &value, &scale);
    *bare = scale == 1;
    *out = (amount){ value, 0 };
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++) {
        size_t n = strlen(UNITS[i].name);
        if (strncmp(s, UNITS[i].name, n) != 0)
            continue;
        out->slack = UNITS[i].bytes / scale / 2 + (scale > 1);
        out->bytes = MT_OOM_UNKNOWN;
        if (mt_mul(value, UNITS[i].bytes, &bytes) && bytes / scale < (uint64_t)1 << 60)
            out->bytes = (bytes + scale / 2) / scale;
        *bare = false;
        return s + n;
    }
    return s;
}

/* ---- parts ----------------------------------------------------------------------------------- */

typedef enum part {
    TRIED,
    CAPACITY,
    FREE,
    ALLOCATED,
    UNALLOCATED,
    RESERVED,
    ALLOWED,
    PROCESS,
    OTHERS,
    PRIVATE_POOLS,
    CACHED, /* up to 1.3: unallocated */
    LEAST,
    PARTS
} part;

/* The words before or behind a size that tell what it is; the first row that fits counts. */
static const struct {
    const char *before, *behind;
    part part;
    bool bare; /* bytes without a unit */
} WORDS[] = {
    { "Triedtoallocate", "", TRIED, false },
    { "Requestedsize:", "", TRIED, false },
    { "tryingtomap", "", TRIED, false },
    { "tryingtoallocate", "", TRIED, false },
    { "rejectingallocation:requested", "", TRIED, true },
    { "total_allocated_memory(", "", RESERVED, true },
    { "memorylimit(", "", ALLOWED, true },
    { "(free:", "", FREE, true },
    { ",total:", "", CAPACITY, true },
    { "totalcapacityof", "", CAPACITY, false },
    { "totalcapactyof", "", CAPACITY, false },
    { "", "totalcapacity", CAPACITY, false },
    { "", "isfree", FREE, false },
    { "", "free", FREE, false },
    { "", "alreadyallocated", ALLOCATED, false },
    { "", "isallocatedbyPyTorch", ALLOCATED, false },
    { "", "isreservedbyPyTorchbutunallocated", UNALLOCATED, false },
    { "", "reservedintotalbyPyTorch", RESERVED, false },
    { "", "cached", CACHED, false },
    { "", "allowed", ALLOWED, false },
    { "thisprocesshas", "memoryinuse", PROCESS, false },
    { "", "memoryinuse", OTHERS, false },
    { "", "allocatedinprivatepools", PRIVATE_POOLS, false },
    { "segmentisatleast", "", LEAST, false },
};

/* What a message says, before anything is made of it. */
typedef struct parts {
    amount of[PARTS]; /* bytes MT_OOM_UNKNOWN: not told */
    amount process[16];
    size_t processes; /* named ones: in of[OTHERS] all of them together */
} parts;

static bool ends_with(const char *begin, const char *end, const char *words) {
    size_t n = strlen(words);
    return (size_t)(end - begin) >= n && memcmp(end - n, words, n) == 0;
}

static void enter_process(parts *p, amount a) {
    amount *sum = &p->of[OTHERS];
    if (p->processes == sizeof p->process / sizeof *p->process)
        return;
    p->process[p->processes++] = a;
    sum->bytes = (sum->bytes != MT_OOM_UNKNOWN ? sum->bytes : 0) + a.bytes;
    sum->slack += a.slack;
}

/* Enters a size that stands from s to end in the squeezed text. */
static void enter(parts *p, const char *begin, const char *s, const char *end, amount a,
                  bool bare) {
    if (a.bytes == MT_OOM_UNKNOWN)
        return;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if ((bare && !WORDS[i].bare) || !ends_with(begin, s, WORDS[i].before) ||
            strncmp(end, WORDS[i].behind, strlen(WORDS[i].behind)) != 0)
            continue;
        if (WORDS[i].part == OTHERS)
            enter_process(p, a);
        else if (p->of[WORDS[i].part].bytes == MT_OOM_UNKNOWN)
            p->of[WORDS[i].part] = a;
        return;
    }
}

static void read_sizes(parts *p, const char *text) {
    amount a;
    bool bare;
    for (const char *s = text; *s != '\0';) {
        if (!isdigit((unsigned char)*s)) {
            s++;
            continue;
        }
        const char *end = size(s, &a, &bare);
        enter(p, text, s, end, a, bare);
        s = end;
    }
}

/* ---- what follows from them ------------------------------------------------------------------ */

static bool known(amount a) {
    return a.bytes != MT_OOM_UNKNOWN;
}

static amount sum(amount a, amount b) {
    return known(a) && known(b) ? (amount){ a.bytes + b.bytes, a.slack + b.slack }
                                : (amount){ MT_OOM_UNKNOWN, 0 };
}

/* Whether a can be more than b, whatever was rounded. */
static bool exceeds(amount a, amount b) {
    return known(a) && known(b) && a.bytes > b.bytes && a.bytes - b.bytes > a.slack + b.slack;
}

/* a - b, and 0 where only rounding makes b the larger one. */
static amount difference(amount a, amount b) {
    if (!known(a) || !known(b) || exceeds(b, a))
        return (amount){ MT_OOM_UNKNOWN, 0 };
    return (amount){ a.bytes > b.bytes ? a.bytes - b.bytes : 0, a.slack + b.slack };
}

/* What is held and what lies free in it: each wording tells two of three. Up to 1.3 "cached" was
 * the free part; if that cannot be, it is all. */
static void complete_reserved(parts *p) {
    amount *held = &p->of[RESERVED], *idle = &p->of[UNALLOCATED], used = p->of[ALLOCATED];
    if (known(p->of[CACHED])) {
        bool all = exceeds(sum(sum(used, p->of[CACHED]), p->of[FREE]), p->of[CAPACITY]);
        *(all ? held : idle) = p->of[CACHED];
    }
    if (!known(*held))
        *held = sum(used, *idle);
    if (!known(*idle))
        *idle = difference(*held, used);
}

/* In a container a process does not know its own number: one of those named is this one when
 * otherwise the card would hold more than it can. */
static void find_this_process(parts *p) {
    amount used = difference(p->of[CAPACITY], p->of[FREE]);
    if (known(p->of[PROCESS]) || !exceeds(sum(p->of[RESERVED], p->of[OTHERS]), used))
        return;
    for (size_t i = 0; i < p->processes; i++)
        if (!exceeds(p->of[RESERVED], p->process[i]) &&
            (!known(p->of[PROCESS]) || p->process[i].bytes > p->of[PROCESS].bytes))
            p->of[PROCESS] = p->process[i];
    p->of[OTHERS] = p->processes > 1 ? difference(p->of[OTHERS], p->of[PROCESS])
                                     : (amount){ MT_OOM_UNKNOWN, 0 };
}

/* Whether nothing is negative: 1, 0, or -1 where too little is told to see. */
static int closes(const parts *p) {
    amount others = known(p->of[OTHERS]) ? p->of[OTHERS] : (amount){ 0, 0 };
    amount process = known(p->of[PROCESS]) ? p->of[PROCESS] : p->of[RESERVED];
    amount total = sum(sum(process, others), p->of[FREE]);
    if (!known(p->of[RESERVED]) || !known(p->of[CAPACITY]))
        return -1;
    return !exceeds(total, p->of[CAPACITY]) && !exceeds(p->of[RESERVED], process) &&
           !exceeds(p->of[ALLOCATED], p->of[RESERVED]) &&
           !exceeds(p->of[RESERVED], p->of[CAPACITY]) && known(p->of[UNALLOCATED]);
}

static uint64_t or_none(uint64_t bytes) {
    return bytes != MT_OOM_UNKNOWN ? bytes : 0;
}

/* What a context and libraries may take in a process that does not tell. */
#define USUAL_OUTSIDE MT_GIB

/* Bytes that other processes hold, as far as can be seen. */
static uint64_t others(const mt_oom *m) {
    if (m->other != MT_OOM_UNKNOWN || m->process != MT_OOM_UNKNOWN)
        return or_none(m->other);
    uint64_t rest = or_none(m->capacity) - or_none(m->free) - or_none(m->reserved);
    return m->closes == 1 && m->free != MT_OOM_UNKNOWN && rest > USUAL_OUTSIDE
               ? rest - USUAL_OUTSIDE
               : 0;
}

static mt_oom_kind kind_of(const mt_oom *m) {
    uint64_t tried = or_none(m->tried), idle = or_none(m->unallocated), other = others(m);
    uint64_t missing = tried > or_none(m->free) ? tried - or_none(m->free) : 0;
    bool limited = m->allowed != MT_OOM_UNKNOWN && or_none(m->reserved) + tried > m->allowed;
    if (limited || m->least != MT_OOM_UNKNOWN)
        return MT_OOM_FRACTION;
    bool others_do = missing > 0 && other >= missing && other >= or_none(m->capacity) / 16;
    if (tried > 0 && idle >= tried && !(others_do && other > idle))
        return MT_OOM_FRAGMENTED;
    if (others_do)
        return MT_OOM_OTHER_PROCESSES;
    if (m->free == MT_OOM_UNKNOWN)
        return MT_OOM_FULL;
    return missing == 0 || (tried == 20 * MT_MIB && m->free >= 2 * MT_MIB) ? MT_OOM_GRANULARITY
                                                                           : MT_OOM_FULL;
}

static void conclude(mt_oom *m, parts *p) {
    complete_reserved(p);
    find_this_process(p);
    amount used = difference(p->of[CAPACITY], p->of[FREE]);
    if (!known(p->of[OTHERS]))
        p->of[OTHERS] = difference(used, p->of[PROCESS]);
    m->tried = p->of[TRIED].bytes;
    m->capacity = p->of[CAPACITY].bytes;
    m->free = p->of[FREE].bytes;
    m->allocated = p->of[ALLOCATED].bytes;
    m->unallocated = p->of[UNALLOCATED].bytes;
    m->reserved = p->of[RESERVED].bytes;
    m->allowed = p->of[ALLOWED].bytes;
    m->process = p->of[PROCESS].bytes;
    m->outside = difference(p->of[PROCESS], p->of[RESERVED]).bytes;
    m->other = p->of[OTHERS].bytes;
    m->private_pools = p->of[PRIVATE_POOLS].bytes;
    m->least = p->of[LEAST].bytes;
    m->closes = closes(p);
    m->kind = kind_of(m);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* How a message begins, without white space. A warning is none of its own when the exception
 * follows. */
static const struct {
    const char *words;
    bool warning, rejected;
} BEGINNINGS[] = {
    { "Triedtoallocate", false, false },
    { "Allocationwaspreemptivelyrejected", false, true },
    { "Preemptivelyrejectingallocation:", true, true },
    { "memorymappingfailedwithOOM", true, false },
    { "memoryallocationfailedwithOOM", true, false },
};

#define BEGINNINGS_COUNT (sizeof BEGINNINGS / sizeof *BEGINNINGS)

/* A message has fewer characters than this that count. */
#define LONGEST 3000

/* An exception follows its warning within so many bytes. */
#define NEAR ((size_t)64 << 10)

/* Which beginning stands at i, or BEGINNINGS_COUNT. */
static size_t begins(const char *text, size_t n, size_t line, size_t i) {
    size_t end, k = 0;
    while (k < BEGINNINGS_COUNT && (text[i] != BEGINNINGS[k].words[0] ||
                                    !reads(text, n, line, i, BEGINNINGS[k].words, &end)))
        k++;
    return k;
}

/* The next beginning from *i on; *line: where its line begins. */
static size_t find_beginning(const char *text, size_t n, size_t *line, size_t *i) {
    for (; *i < n; ++*i) {
        size_t k = begins(text, n, *line, *i);
        if (k < BEGINNINGS_COUNT)
            return k;
        if (text[*i] == '\n')
            *line = *i + 1;
    }
    return BEGINNINGS_COUNT;
}

static bool exception_follows(const char *text, size_t n, size_t line, size_t i) {
    size_t k;
    n = n - i > NEAR ? i + NEAR : n;
    do {
        i++;
        k = find_beginning(text, n, &line, &i);
    } while (k < BEGINNINGS_COUNT && BEGINNINGS[k].warning);
    return k < BEGINNINGS_COUNT;
}

/* Squeezes the message at i, as far as the next one. */
static void squeeze(char out[LONGEST], const char *text, size_t n, size_t line, size_t i) {
    walk w = { text, n, i, line, i - line };
    size_t k = 0, at;
    for (char c; k < LONGEST - 1 && (c = next(&w, &at)) != '\0';) {
        if (k > 0 && begins(text, n, line, at) < BEGINNINGS_COUNT)
            break;
        out[k++] = c;
    }
    out[k] = '\0';
}

/* Cuts off what stands behind the numbers, since later lines of a log have numbers too: behind the
 * first of these words that is there, and the size that may follow. */
static void cut(char *text) {
    static const char *const ends[] = { "segmentisatleast", "butunallocated", "byPyTorch)",
                                        "cached)",          "1EBmemory",      "Requestedsize:",
                                        "memorylimit(",     ",total:" };
    amount a;
    bool bare;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *end = strstr(text, ends[i]);
        if (end == NULL)
            continue;
        end += strlen(ends[i]);
        text[isdigit((unsigned char)*end) ? size(end, &a, &bare) - text : end - text] = '\0';
        return;
    }
}

/* The number behind the last of these words, any case, before end; -1 when there is none. */
static int64_t number_behind(const char *begin, const char *end, const char *words) {
    int64_t found = -1;
    size_t n = strlen(words);
    for (const char *s = begin; (size_t)(end - s) > n; s++) {
        if (strncasecmp(s, words, n) != 0)
            continue;
        const char *d = s + n;
        while (d < end && strchr(" =:#", *d) != NULL)
            d++;
        int64_t value = 0;
        for (int i = 0; d < end && isdigit((unsigned char)*d) && i < 9; d++, i++)
            found = value = value * 10 + (*d - '0');
    }
    return found;
}

/* The number of the line that place i is in. */
static uint64_t line_at(mt_oom_walk *w, const char *text, size_t i) {
    const char *s = text + w->counted, *end = text + i;
    while (s < end && (s = memchr(s, '\n', (size_t)(end - s))) != NULL) {
        w->lines++;
        s++;
    }
    w->counted = i;
    return w->lines + 1;
}

/* Reads the message at i; false when it says too little to be one. */
static bool read_message(mt_oom *out, const char *text, size_t n, size_t line, size_t i,
                         size_t beginning) {
    char squeezed[LONGEST];
    parts p = { .processes = 0 };
    for (int k = 0; k < PARTS; k++)
        p.of[k] = (amount){ MT_OOM_UNKNOWN, 0 };
    squeeze(squeezed, text, n, line, i);
    cut(squeezed);
    read_sizes(&p, squeezed);
    *out = (mt_oom){ .line = 0 };
    conclude(out, &p);
    if (BEGINNINGS[beginning].rejected)
        out->kind = MT_OOM_FRACTION;
    out->device = number_behind(squeezed, strchr(squeezed, '\0'), "GPU");
    if (out->device < 0)
        out->device = number_behind(squeezed, strchr(squeezed, '\0'), "OOMondevice");
    out->rank = number_behind(text + line, text + i, "rank");
    out->old = strstr(squeezed, "(GPU") != NULL;
    return known(p.of[CAPACITY]) || BEGINNINGS[beginning].rejected ||
           strstr(squeezed, "morethan1EB") != NULL;
}

bool mt_oom_find(mt_oom *out, const char *text, size_t n, mt_oom_walk *w) {
    size_t line = w->at, k;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    while ((k = find_beginning(text, n, &line, &w->at)) < BEGINNINGS_COUNT) {
        size_t i = w->at++;
        if (BEGINNINGS[k].warning && exception_follows(text, n, line, i))
            continue;
        if (!read_message(out, text, n, line, i, k))
            continue;
        out->line = line_at(w, text, i);
        return true;
    }
    return false;
}
