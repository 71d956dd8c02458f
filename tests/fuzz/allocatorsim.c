/* allocatorsim.c - see targets.h. */
#include "tests/fuzz/reading.h"

MT_FUZZ_FORMAT(allocatorsim)
