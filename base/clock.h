/* clock.h - the monotonic clock. */
#ifndef MT_BASE_CLOCK_H
#define MT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment that stays the same while the program runs. */
static inline uint64_t mt_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
