/* oom_text.h - PyTorch's out-of-memory message, which is all that most people have of a failure.
 *
 * Every wording from 1.0 to 2.15 is known, for CUDA, HIP and XPU, with or without a fraction, other
 * processes and private pools, in a log whose every line has a prefix, and wrapped anywhere, even
 * inside a word. Sizes in it have two decimals, so that each of them stands for an interval; sums
 * are held to close within these. From what is stated the card is split:
 *
 *     capacity = allocated + unallocated + outside + other + free
 *
 * outside: what this process uses beyond PyTorch's allocator (the CUDA context, libraries); other:
 * other processes. */
#ifndef MT_REPORTS_OOM_TEXT_H
#define MT_REPORTS_OOM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

/* Why it failed. */
typedef enum mt_oom_kind {
    MT_OOM_FRAGMENTED,      /* the allocator holds enough free bytes, but not in one piece */
    MT_OOM_FULL,            /* the card is full of what this process asked for */
    MT_OOM_OTHER_PROCESSES, /* others hold what would have been enough */
    MT_OOM_GRANULARITY,     /* the request would fit, the segment that it takes does not */
    MT_OOM_FRACTION         /* a limit set by the program */
} mt_oom_kind;

#define MT_OOM_UNKNOWN UINT64_MAX /* a size that the message does not tell */

typedef struct mt_oom {
    mt_oom_kind kind;
    uint64_t line;        /* of the text, from 1 */
    int64_t device, rank; /* -1: not told */
    uint64_t tried, capacity, free, allocated, unallocated, reserved;
    uint64_t allowed; /* by the fraction */
    uint64_t process; /* all that this process uses */
    uint64_t outside, other;
    uint64_t private_pools; /* of allocated */
    uint64_t least;         /* an expandable segment would have to be as long as this */
    int closes;             /* 1: the sums hold, 0: they do not, -1: there is none to check */
    int old;                /* the release had no expandable segments (up to 2.0) */
} mt_oom;

/* How far a text has been gone through; all zero at first. */
typedef struct mt_oom_walk {
    size_t at, counted;
    uint64_t lines; /* that end before counted */
} mt_oom_walk;

/* Finds the next message in n bytes of text; false when there is none left. */
bool mt_oom_find(mt_oom *out, const char *text, size_t n, mt_oom_walk *w);

const char *mt_oom_kind_name(mt_oom_kind kind); /* "fragmented", "full", ... */

/* Why it failed and what to try first, for people: without a line end. */
const char *mt_oom_reason(const mt_oom *m);
const char *mt_oom_advice(const mt_oom *m);

/* The message as a table for people, and as the keys of an object that is begun. */
void mt_oom_text_print(const mt_oom *m, FILE *out);
void mt_oom_text_json(const mt_oom *m, mt_json *j);

#endif
