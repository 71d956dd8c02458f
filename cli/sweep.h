/* sweep.h - one dry run of a sweep, and what a row says of it. */
#ifndef MT_CLI_SWEEP_H
#define MT_CLI_SWEEP_H

#include "engine/engine.h"
#include "reports/meter.h"

#define CLI_TORCH_WORKSPACE 8519680 /* what PyTorch requests for cuBLAS before sm_90 */

/* What to run; engine.ctx is set by sweep_dry_run. */
typedef struct sweep_run {
    mt_config config;
    mt_engine_options engine;
    const char *policy;
    uint64_t capacity;
    bool optimum; /* find the best packing too */
} sweep_run;

/* One row; see the help text of `memtrace sweep` for what each column means. */
typedef struct sweep_row {
    bool done;
    bool refused;      /* a request did not fit: the row ends there */
    uint64_t refusals; /* of the source, so far */
    mt_meter_row m;
    uint64_t optimum_low, optimum_high, overhead;
} sweep_row;

/* True when a run to a shorter context makes the same requests as this one's beginning: no
 * request's size depends on --ctx (activations eager, and a cache strategy of that kind). */
bool sweep_prefixes_exact(const mt_engine_options *o);

/* Whether the policy can be opened; what is to be noted of it, unless quiet. */
mt_status sweep_check_policy(const char *policy, bool quiet, mt_error *err);

/* Runs up to the longest of the contexts and fills row[i] for ctx[i]. With several contexts the
 * prefixes must be exact. Out of memory ends the row that it happened in and all longer ones:
 * they are refused. */
mt_status sweep_dry_run(const sweep_run *run, const uint32_t *ctx, size_t count, sweep_row *row,
                        mt_error *err);

#endif
