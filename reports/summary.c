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
    int kept;
    bump bump[MT_BUMPS_SHOWN]; /* the largest, in order of step */
};

mt_status mt_summary_open(mt_summary **out, mt_error *err) {
    *out = calloc(1, sizeof **out);
    return *out != NULL ? MT_OK : mt_no_memory(err, "the summary");
}

void mt_summary_close(mt_summary *s) {
    free(s);
}

/* ---- gathering ------------------------------------------------------------------------------- */

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

/* ---- numbers as text ------------------------------------------------------------------------- */

/* Writes n with a comma every three digits. */
static const char *commas(char buffer[static NUMBER], uint64_t n) {
    char *at = buffer + NUMBER;
    *--at = '\0';
    for (int digits = 0; digits == 0 || n > 0; digits++, n /= 10) {
        if (digits > 0 && digits % 3 == 0)
            *--at = ',';
        *--at = (char)('0' + n % 10);
    }
    return at;
}

/* The same with its sign, + included. */
static const char *signed_commas(char buffer[static NUMBER], int64_t n) {
    char plain[NUMBER];
    snprintf(buffer, NUMBER, "%c%s", n < 0 ? '-' : '+', commas(plain, size_of(n)));
    return buffer;
}

static double mib(uint64_t bytes) {
    return (double)bytes / (double)MT_MIB;
}

/* ---- the parts of the summary ---------------------------------------------------------------- */

static void print_count(FILE *out, const char *name, const mt_count *c) {
    char now[NUMBER], peak[NUMBER];
    fprintf(out, "  %-12s %20s %7.1f MiB %20s %7.1f MiB\n", name, commas(now, c->current),
            mib(c->current), commas(peak, c->peak), mib(c->peak));
}

static void print_tags(FILE *out, const mt_ledger *l) {
    fprintf(out, "requested bytes %19s %32s\n", "now", "peak");
    for (int i = 0; i < MT_TAGS; i++)
        print_count(out, mt_tag_name((mt_tag)i), &l->tag[i]);
    print_count(out, "all", &l->requested);
}

static void print_part(FILE *out, const char *name, uint64_t bytes) {
    char number[NUMBER];
    fprintf(out, "  %-12s %20s %7.1f MiB\n", name, commas(number, bytes), mib(bytes));
}

static void print_identity(FILE *out, const mt_ledger *l) {
    char number[NUMBER];
    uint64_t sum = l->rounding + l->split + l->cached;
    for (int i = 0; i < MT_TAGS; i++)
        sum += l->tag[i].current;
    fprintf(out, "\nreserved bytes %20s %32s\n", "now", "peak");
    print_part(out, "  requested", l->requested.current);
    print_part(out, "+ rounding", l->rounding);
    print_part(out, "+ split", l->split);
    print_part(out, "+ cached", l->cached);
    print_count(out, "= reserved", &l->reserved);
    int64_t unexplained = (int64_t)(l->reserved.current - sum);
    fprintf(out, "  %s%s unexplained bytes\n", unexplained < 0 ? "-" : "",
            commas(number, size_of(unexplained)));
}

static void print_events(FILE *out, const mt_ledger *l) {
    char a[NUMBER], b[NUMBER], c[NUMBER];
    fprintf(out, "\nsegments: %s held; %s driver calls (allocate, free, map, unmap)\n",
            commas(a, l->segments), commas(b, l->segment_events));
    fprintf(out, "requests: %s served, %s freed, %s refused\n", commas(a, l->allocs),
            commas(b, l->frees), commas(c, l->ooms));
}

/* Prints a cause from the given column on, broken after commas. */
static void print_cause(FILE *out, const char *cause, int column) {
    int at = column;
    while (*cause != '\0') {
        int length = (int)strcspn(cause, ",");
        length += cause[length] == ',';
        if (at > column && at + length > WIDTH) {
            fprintf(out, "\n%*s", column, "");
            at = column;
        }
        fprintf(out, "%.*s", length, cause);
        at += length;
        cause += length;
    }
    fputc('\n', out);
}

static void print_bumps(FILE *out, const mt_summary *s) {
    char number[NUMBER], sum[NUMBER];
    fprintf(out, "\nbumps: %s, %s bytes in total\n", commas(number, s->bumps),
            signed_commas(sum, s->bump_bytes));
    if (s->bumps > 0)
        fprintf(out, "%8s %16s  caused by\n", "step", "bytes");
    for (int i = 0; i < s->kept; i++) {
        int column = fprintf(out, "%8" PRId64 " %16s  ", s->bump[i].step,
                             signed_commas(number, s->bump[i].bytes));
        print_cause(out, s->bump[i].cause, column);
    }
    if (s->bumps > (uint64_t)s->kept)
        fprintf(out, "  and %s more, none larger\n", commas(number, s->bumps - (uint64_t)s->kept));
}

/* Growth of kv over growth of ctx, as a whole number and, if need be, a remainder. */
static void print_kv(FILE *out, const mt_summary *s, uint64_t kv_per_token) {
    char a[NUMBER], b[NUMBER], c[NUMBER];
    const point *from = s->steps < 2 && s->loaded ? &s->load : &s->first;
    if (s->steps == 0 || s->last.ctx <= from->ctx || s->last.kv < from->kv) {
        fprintf(out, "\nkv per token: not measured (needs two steps)\n");
        return;
    }
    uint64_t tokens = s->last.ctx - from->ctx, bytes = s->last.kv - from->kv;
    uint64_t whole = bytes / tokens, rest = bytes % tokens;
    fprintf(out, "\nkv per token: %s", commas(a, whole));
    if (rest > 0)
        fprintf(out, " and %s/%s", commas(a, rest), commas(b, tokens));
    fprintf(out, " bytes measured, %s expected: ", commas(a, kv_per_token));
    fprintf(out,
            whole == kv_per_token && rest == 0
                ? "equal\n"
                : "they differ:\n  this strategy does not allocate exactly one row per token\n");
    fprintf(out, "  (%s bytes over the %s token%s from ctx %s", commas(a, bytes), commas(b, tokens),
            tokens == 1 ? "" : "s", commas(c, from->ctx));
    fprintf(out, " to %s)\n", commas(a, s->last.ctx));
}

static void print_times(FILE *out, const mt_summary *s) {
    char number[NUMBER];
    if (s->first.nanoseconds > 0)
        fprintf(out, "\nprefill to ctx %s: %.3f ms\n", commas(number, s->first.ctx),
                (double)s->first.nanoseconds / 1e6);
    if (s->nanoseconds > 0 && s->last.ctx > s->first.ctx)
        fprintf(out, "decode: %s tokens in %.3f ms, %.1f tokens/s per sequence\n",
                commas(number, s->last.ctx - s->first.ctx), (double)s->nanoseconds / 1e6,
                (double)(s->last.ctx - s->first.ctx) * 1e9 / (double)s->nanoseconds);
}

void mt_summary_print(FILE *out, const mt_summary *s, const mt_ledger *ledger,
                      uint64_t kv_per_token) {
    print_tags(out, ledger);
    print_identity(out, ledger);
    print_events(out, ledger);
    print_bumps(out, s);
    print_kv(out, s, kv_per_token);
    print_times(out, s);
}

/* ---- out of memory --------------------------------------------------------------------------- */

static void print_bytes(FILE *out, const char *name, uint64_t bytes, const char *what) {
    char number[NUMBER];
    fprintf(out, "  %-12s %20s bytes, %s\n", name, commas(number, bytes), what);
}

/* What would have made the request fit, from the numbers of the refusal alone. */
static void print_advice(FILE *out, const mt_refusal *r) {
    char a[NUMBER], b[NUMBER];
    uint64_t capacity;
    fprintf(out, "it would fit with\n");
    if (r->segment <= r->source_free)
        fprintf(out,
                "  a device that allocates what it has free: that was more than the segment\n");
    else if (mt_add(r->capacity, r->segment - r->source_free, &capacity))
        fprintf(out, "  a capacity of at least %s bytes (%s more)\n", commas(a, capacity),
                commas(b, r->segment - r->source_free));
    else
        fprintf(out, "  nothing: it is larger than any device\n");
    if (r->free_total >= r->rounded && r->largest_free < r->rounded)
        fprintf(out,
                "  less fragmentation: %s bytes are free in segments, but the\n"
                "  largest free block is %s bytes too small\n",
                commas(a, r->free_total), commas(b, r->rounded - r->largest_free));
}

void mt_oom_print(FILE *out, const mt_refusal *r) {
    const mt_request *q = &r->request;
    if (r->step < 0)
        fprintf(out, "out of device memory while loading\n");
    else
        fprintf(out, "out of device memory in step %" PRId32 "\n", r->step);
    fprintf(out, "  request for %s", mt_tag_name(q->tag));
    if (q->layer >= 0)
        fprintf(out, ", layer %" PRId32, q->layer);
    fputc('\n', out);
    print_bytes(out, "requested", q->bytes, "the size of the request");
    print_bytes(out, "rounded", r->rounded, "the block that serves it");
    print_bytes(out, "segment", r->segment, "asked of the device");
    print_bytes(out, "capacity", r->capacity, "of the device");
    print_bytes(out, "unreserved", r->source_free, "free on the device");
    print_bytes(out, "reserved", r->reserved, "held in segments");
    print_bytes(out, "free", r->free_total, "in these segments");
    print_bytes(out, "largest free", r->largest_free, "usable by the request");
    print_advice(out, r);
}
