/* interrupt.h - has someone asked the program to stop?
 *
 * What takes long or may wait for ever asks now and then and returns MT_INTERRUPTED. Who owns the
 * signals says how to find out. */
#ifndef MT_BASE_INTERRUPT_H
#define MT_BASE_INTERRUPT_H

#include <stdbool.h>

/* From now on asked() is the answer; NULL: nobody asks, as at the start. */
void mt_interrupt_by(bool (*asked)(void));

bool mt_interrupted(void);

#endif
