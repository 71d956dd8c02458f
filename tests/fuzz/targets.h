/* targets.h - what the fuzzer drives. Each function takes bytes of any kind, as a file would have
 * them, and does with them all that the program does; it returns when it is done, whatever they
 * are. tests/fuzz/corpus/NAME holds inputs that once reached something new; `make fuzz` looks for
 * more of them, tests/test_fuzz.c runs those that are there. */
#ifndef MT_TESTS_FUZZ_TARGETS_H
#define MT_TESTS_FUZZ_TARGETS_H

#include <stddef.h>
#include <stdint.h>

typedef void mt_fuzz_target(const uint8_t *data, size_t n);

mt_fuzz_target mt_fuzz_pickle;   /* base/pickle.h, with globals allowed */
mt_fuzz_target mt_fuzz_snapshot; /* explain: a snapshot, as text and as JSON */
mt_fuzz_target mt_fuzz_oom;      /* explain: an out-of-memory message */

/* replay of a file of that format: traces/read_NAME.c */
mt_fuzz_target mt_fuzz_rmm;
mt_fuzz_target mt_fuzz_stalloc;
mt_fuzz_target mt_fuzz_minimalloc;
mt_fuzz_target mt_fuzz_allocatorsim;
mt_fuzz_target mt_fuzz_chrome;
mt_fuzz_target mt_fuzz_pprof;
mt_fuzz_target mt_fuzz_nsight;
mt_fuzz_target mt_fuzz_trace;
mt_fuzz_target mt_fuzz_mtb;
mt_fuzz_target mt_fuzz_schedule;
mt_fuzz_target mt_fuzz_recording;

#endif
