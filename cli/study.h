/* study.h - what the files of `memtrace study` share: what was measured, and where it goes.
 *
 * study.c reads the options and runs the contexts; study_measure.c takes the times; study_print.c
 * writes tables, verdicts and the profile. */
#ifndef MT_CLI_STUDY_H
#define MT_CLI_STUDY_H

#include "cli/cli.h"

#include "base/array.h"
#include "engine/work.h"
#include "kernels/timed/timed.h"
#include "traces/chrome.h"

/* Where a step's time goes. */
typedef enum study_part {
    STUDY_PRODUCTS, /* matrix products with the layers' weights, bias, GELU and residual in them */
    STUDY_ATTENTION,
    STUDY_ELEMENTWISE, /* norms, embedding */
    STUDY_LOGITS,      /* the head's matrix product, argmax */
    STUDY_CACHE,       /* writes to the cache and copies of it */
    STUDY_ALLOCATOR,   /* requests and frees, policy and ledger */
    STUDY_TRACING,     /* listeners: the table's row and the trace */
    STUDY_GAPS,        /* the rest: between kernels */
    STUDY_PARTS
} study_part;

/* Memory at a moment of a step, for the profile. */
typedef struct study_memory {
    uint64_t time_ns, requested, reserved;
} study_memory;

/* One kind of step at one context. */
typedef struct study_pass {
    bool cached;
    uint32_t context, samples;
    double ms, least, most; /* median, quickest and slowest of the samples */
    mt_work work;
    uint64_t bytes; /* moved at least, by the calls' shapes */
    double part[STUDY_PARTS];
    double timed_ms;   /* the step that was split: the median of those timed */
    uint32_t kernels;  /* calls of it */
    double call_us;    /* mean time of a call that starts a kernel; a device with its own clock */
    double read_gbs;   /* plain read of memory, measured right before */
    uint64_t begin_ns; /* of the split step */
    mt_timing *call;   /* [kernels], of the split step */
    study_memory *memory; /* [memories], of the split step, when a profile is wanted */
    size_t memories;
} study_pass;

typedef struct study {
    cli_session s;
    mt_device *inner, *timed;
    uint32_t *contexts, count, repeat;
    double gflops, start_us;           /* measured peaks of the machine */
    mt_mem room;                       /* what the peaks are measured in; tag other */
    uint64_t room_bytes, room_rounded; /* the profile leaves it out */
    study_pass *cached, *uncached;     /* [count]; the first `done` are measured */
    uint32_t done;
    study_pass graph; /* samples 0: not measured */
    bool own_clock;   /* the device runs beside this program */
    bool csv;         /* no comments, the first block with the split in it */
    mt_alloc_times times;
    bool profiling, sampling;      /* a profile is wanted; a timed step is on */
    MT_ARRAY(study_memory) memory; /* taken in this step */
    bool memory_lost;              /* there was no host memory for one */
    double clock_ns;               /* what one look at the clock costs */
    cli_progress progress;
    uint64_t steps; /* taken, for the progress */
} study;

/* Peaks: products, starts; each pass looks at the memory itself. */
mt_status study_peaks(study *st, mt_error *err);
/* For a listener: notes the memory now, while a timed step runs and a profile is wanted. */
void study_note_memory(study *st);
/* One pass; study_drop frees what it holds. */
mt_status study_cached(study *st, uint32_t context, bool graph, study_pass *p, mt_error *err);
mt_status study_uncached(study *st, uint32_t context, study_pass *p, mt_error *err);

void study_drop(study_pass *p);

/* The table on stdout: header lines, then blocks for gnuplot's `index`; or CSV. */
void study_print_header(const study *st);
void study_print_peaks(const study *st);
void study_print_tables(const study *st);
void study_print_end(const study *st, const char *how); /* NULL: done */
/* For people, on stderr. */
void study_print_summary(const study *st);
/* The split step of the last cached pass that is done. */
void study_profile(const study *st, mt_chrome *c);

#endif
