/* summary.c - see summary.h.
 *
 * Of the rows only what is printed is kept: the first and last step, the sums, and the largest
 * bumps in a fixed array, so that a run of any length fits. Numbers are exact, with a comma every
 * three digits, whatever the locale; MiB stand beside them. */
#include "reports/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/alloc.h"
#include "base/size.h"

#define WIDTH  80
#define NUMBER 32 /* characters for any 64-bit number with sign and commas */

typedef struct bump {
    int64_t step, bytes;
    char cause[sizeof((mt_row *)0)->cause];
} bump;

/* What is needed of a row later. */
typedef struct point {
    uint64_t ctx, kv, nanoseconds;
} point;

struct mt_summary {
    bool loaded; /* load is that of a row of step -1 */
    point load, first, last;
    uint64_t steps;       /* rows of step 0 and later */
    uint64_t nanoseconds; /* of the steps after the first */
    uint64_t bumps;
    int64_t bump_bytes; /* their sum */
    uint64_t peak_step; /* the first with the highest peak of reserved */
    uint64_t peak_reserved;
    int kept;
    bump bump[MT_BUMPS_SHOWN]; /* the largest, in order of step */
};

mt_status mt_summary_open(mt_summary **out, mt_error *err) {
    *out = calloc(1, sizeof **out);
    return *out != NULL ? MT_OK : mt_fail(err, MT_FAILED, "not enough memory for the summary");
}

void mt_summary_close(mt_summary *s) {
    free(s);
}

/* ---------------------------------------------------------------- gathering */

static uint64_t size_of(int64_t n) {
    return n < 0 ? (uint64_t)0 - (uint64_t)n : (uint64_t)n;
}

/* Keeps a bump when it is one of the largest; of two as large, the earlier. */
static void keep_bump(mt_summary *s, const mt_row *row) {
    if (s->kept == MT_BUMPS_SHOWN) {
        int least = 0;
        for (int i = 1; i < s->kept; i++)
            if (size_of(s->bump[i].bytes) <= size_of(s->bump[least].bytes))
                least = i;
        if (size_of(row->bump) <= size_of(s->bump[least].bytes))
            return;
        s->kept--;
        memmove(&s->bump[least], &s->bump[least + 1],
                (size_t)(s->kept - least) * sizeof s->bump[0]);
    }
    bump *b = &s->bump[s->kept++];
    b->step = row->step;
    b->bytes = row->bump;
    memcpy(b->cause, row->cause, sizeof b->cause);
}

void mt_summary_row(mt_summary *s, const mt_row *row) {
    point p = { row->ctx, row->tag[MT_KV], row->nanoseconds };
    if (row->step < 0) {
        s->loaded = true;
        s->load = p;
        return;
    }
    if (s->steps++ == 0)
        s->first = p;
    else
        s->nanoseconds += p.nanoseconds;
    s->last = p;
    if (row->bump != 0) {
        s->bumps++;
        s->bump_bytes += row->bump;
        keep_bump(s, row);
    }
}
