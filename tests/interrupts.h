/* interrupts.h - an interrupt that comes when someone has looked for one so many times. */
#ifndef MT_TESTS_INTERRUPTS_H
#define MT_TESTS_INTERRUPTS_H

#include "base/interrupt.h"

#include <stdint.h>

static struct {
    uint64_t looks,
        from; /* so far; the look that is answered with yes, as all later ones; 0: none */
} interrupt;

static bool interrupted(void) {
    interrupt.looks++;
    return interrupt.from > 0 && interrupt.looks >= interrupt.from;
}

/* Counts looks from now on; mt_interrupt_by(NULL) ends it. */
static void watch_interrupts(uint64_t from) {
    interrupt.looks = 0;
    interrupt.from = from;
    mt_interrupt_by(interrupted);
}

#endif
