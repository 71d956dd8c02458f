/* torch_check.h - a recorded run of PyTorch's allocator, held against the torch policy.
 *
 * A recording is a tab-separated text (.tsv, .tsv.gz): header lines "# name value" with the
 * options, device size, memory fraction, address order and release; one row per operation with the
 * place it got, the counters after it and the driver calls it made; after "snap N" the state of
 * every block; closing lines "! key value" with every statistic and "~ ..." with the memory
 * history. */
#ifndef MT_TRACES_TORCH_CHECK_H
#define MT_TRACES_TORCH_CHECK_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

/* What was compared. */
typedef struct mt_torch_counts {
    uint64_t operations, blocks, statistics, history;
} mt_torch_counts;

/* Runs the recording through the torch policy on a simulated device and compares every column,
 * block, statistic and event. MT_CHECK and one line at the first difference: its line number, both
 * values. MT_BAD when the file is no recording. counts is added to. */
mt_status mt_torch_check(const char *path, mt_torch_counts *counts, mt_error *err);

/* The same; at a difference the state of the pools around it goes to around, if not NULL. */
mt_status mt_torch_check_to(const char *path, mt_torch_counts *counts, FILE *around, mt_error *err);

#endif
