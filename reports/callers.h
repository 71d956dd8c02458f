/* callers.h - the lines of a program that memory was requested at.
 *
 * A call site is one frame of a stack: the innermost Python one outside PyTorch's own files, since
 * that is where the program can be changed; where there is none, the innermost Python frame, and
 * last the innermost one. */
#ifndef MT_REPORTS_CALLERS_H
#define MT_REPORTS_CALLERS_H

#include "traces/heap.h"

#define MT_SIZE_BITS 512

enum { MT_CALLER_VIEWS = 3 };

typedef struct mt_caller {
    uint32_t frame;    /* number in the snapshot's frames; MT_CALLER_UNKNOWN: without a stack */
    uint64_t requests; /* among the events */
    uint64_t bytes;    /* requested by them */
    uint64_t largest;
    uint64_t size_bits[MT_SIZE_BITS / 64]; /* a bit for the hash of each size */

    uint64_t segments, obtained;    /* that its requests made the allocator obtain; bytes */
    uint64_t live[MT_CALLER_VIEWS]; /* bytes of its live blocks in each view */
    uint64_t rounding;              /* in the first view, and so below */
    uint64_t held_back; /* free bytes of segments that hold live blocks of this site only */
    uint64_t pins;      /* such segments */
} mt_caller;

#define MT_CALLER_UNKNOWN UINT32_MAX

typedef struct mt_callers {
    MT_ARRAY(mt_caller) at;
    MT_ARRAY(uint32_t) of_stack; /* site + 1 */
    mt_map of_frame;
} mt_callers;

void mt_callers_free(mt_callers *s);

/* The site of a stack of the snapshot; NULL when there is no memory. Good until the next call. */
mt_caller *mt_callers_of(mt_callers *s, const mt_snapshot *snap, uint32_t stack);

/* Counts a request. */
bool mt_callers_request(mt_callers *s, const mt_snapshot *snap, uint32_t stack, uint64_t size);

/* Counts what is live in a view, the which-th; in the first one, 0, also what it holds back. */
mt_status mt_callers_view(mt_callers *s, const mt_snapshot *snap, const mt_view *v, int which,
                          mt_error *err);

/* At least so many different sizes were requested; exact for few of them. */
uint64_t mt_caller_sizes(const mt_caller *s);

/* Whether nearly every request had a size of its own, as when a tensor grows by a step each time:
 * no freed block fits the next one. */
bool mt_caller_always_new(const mt_caller *s);

/* Writes "file:line name" into text: printable, the path from behind site-packages, or without its
 * folders when strip. */
char *mt_caller_label(char *text, size_t room, const mt_snapshot *snap, uint32_t frame, bool strip);

#endif
