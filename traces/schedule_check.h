/* schedule_check.h - a recorded schedule of a whole decode in PyTorch, held against the torch
 * policy.
 *
 * A schedule is a text (.txt, .txt.gz): `a SIZE` (in placed schedules `a SIZE N+OFF`), `f K` frees
 * the allocation made K allocations ago, `S SIZE`, `R N`, `P N+OFF SIZE`, `U N+OFF SIZE` are the
 * driver calls made by the next operation, `= ...` are PyTorch's counters at this point, `#` lines
 * are the header. */
#ifndef MT_TRACES_SCHEDULE_CHECK_H
#define MT_TRACES_SCHEDULE_CHECK_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef struct mt_schedule_counts {
    uint64_t operations, calls, markers, places;
} mt_schedule_counts;

/* Whether the text begins as a schedule does, not as a recorded trace. */
int mt_is_schedule(const char *text);

/* Replays the schedule and compares every driver call, place and counter. MT_CHECK and one line at
 * the first difference; MT_BAD when the file is no schedule. counts is added to. */
mt_status mt_schedule_check(const char *path, mt_schedule_counts *counts, mt_error *err);

/* The same; at a difference the state of the pools around it goes to around, if not NULL. */
mt_status mt_schedule_check_to(const char *path, mt_schedule_counts *counts, FILE *around,
                               mt_error *err);

#endif
