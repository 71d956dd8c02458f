/* summary.h - what a run took, for a person: per tag, per part of reserved, per bump. */
#ifndef MT_REPORTS_SUMMARY_H
#define MT_REPORTS_SUMMARY_H

#include "reports/table.h"

#define MT_BUMPS_SHOWN 20

/* Gathers rows (give it each row of a run, the load row included), then prints. */
typedef struct mt_summary mt_summary;
mt_status mt_summary_open(mt_summary **out, mt_error *err);
void mt_summary_row(mt_summary *s, const mt_row *row);

/* ledger: at the end of the run. kv_per_token: 2 L C bytes-per-element times the batch. Prints the
 * table per tag (current, peak), the four parts of reserved and that they add up, segments, the
 * bumps with step and cause (the largest twenty by size, in order of step, then how many more), KV
 * bytes per token measured between the first and the last step (the load row stands in for the
 * first when there is only one step) against kv_per_token, and tokens per second when timed. Lines
 * have at most 80 characters, but for a cause that alone is longer. */
void mt_summary_print(FILE *out, const mt_summary *s, const mt_ledger *ledger,
                      uint64_t kv_per_token);
void mt_summary_close(mt_summary *s); /* NULL is allowed */

/* Out of memory: the request, its tag, layer and step, reserved,
 * free total, largest free block, and what would have made it fit. */
struct mt_refusal;
void mt_oom_print(FILE *out, const struct mt_refusal *r);

#endif
