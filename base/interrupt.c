/* interrupt.c - see interrupt.h. */
#include "base/interrupt.h"

#include <stdatomic.h>
#include <stddef.h>

static bool (*_Atomic source)(void);

void mt_interrupt_by(bool (*asked)(void)) {
    source = asked;
}

bool mt_interrupted(void) {
    bool (*asked)(void) = source;
    return asked != NULL && asked();
}
