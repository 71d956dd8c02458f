/* table.h - the per-step table: the event stream cut into steps.
 *
 * One row per mark. Its bytes come from the ledger; its cause from the segments that came and went
 * since the previous row:
 *
 *     bump  = change of reserved - change of kv when reserved changed, else 0
 *     cause = the segments that exist now and did not at the previous row, or the reverse, as
 *             tag:layerN:requested:pool+bytes (or -bytes); tag:requested:pool+bytes outside layers;
 *             equal ones as xN; in order of first appearance, commas between; at most 8 different
 *             ones, then ...+N for N more; - if none. Without the cut their bytes add up to the
 *             change of reserved, which is checked.
 *
 * The words are those of the request that made the segment, also when it goes. Pages mapped in a
 * growable segment count as a segment here, named by the request that mapped them; pages unmapped
 * are taken to be the ones mapped last. A row with step -1 is the state after loading. */
#ifndef MT_REPORTS_TABLE_H
#define MT_REPORTS_TABLE_H

#include <stdio.h>

#include "alloc/ledger.h"
#include "reports/columns.h"

#define MT_CAUSE_MAX 8

typedef struct mt_row {
    int64_t step;
    uint64_t ctx;
    uint64_t tag[MT_TAGS];
    uint64_t requested, rounding, split, cached, reserved;
    uint64_t peak_requested, peak_reserved;
    uint64_t segments;
    uint64_t kv_ideal;
    int64_t bump;
    char cause[1024];
    uint64_t nanoseconds;
} mt_row;

typedef struct mt_table mt_table;
typedef void (*mt_row_fn)(void *context, const mt_row *row);

/* on_row is called at each mark until something does not hold. ledger: the allocator's own, which
 * has taken each event before its listeners see it; NULL: the table keeps one of its own (stored
 * traces). Open it before the first event. */
mt_status mt_table_open(mt_table **out, const mt_ledger *ledger, mt_row_fn on_row, void *context,
                        mt_error *err);
mt_listener mt_table_listener(mt_table *t);

/* The ledger that the rows come from: the one given, or the table's own. */
const mt_ledger *mt_table_ledger(const mt_table *t);

/* MT_OK, or the first thing that did not hold: the identity, the sum of the causes, the stream. */
mt_status mt_table_status(const mt_table *t, mt_error *err);
void mt_table_close(mt_table *t); /* NULL is allowed */

extern const mt_column mt_table_columns[];

/* Writes a row as a line of a form; a dat file has that of step -1, the state after loading, among
 * its comments: "# load -1 ...". */
void mt_table_print(FILE *out, const mt_row *row, mt_form form);

#endif
