/* threads.h - threads that work on one job together.
 *
 * A job is a number of chunks; each thread takes the next chunk until none is left, so a thread
 * that the system puts aside holds up no more than the chunk it has. Between jobs the threads look
 * out for the next one for a moment and then sleep: jobs of one forward pass follow each other at
 * once, and an idle program costs nothing. Which thread does a chunk never changes its result. */
#ifndef MT_BASE_THREADS_H
#define MT_BASE_THREADS_H

#include <stddef.h>

#include "base/status.h"

#define MT_THREADS_MOST 1024

typedef struct mt_threads mt_threads;

/* Physical cores among the CPUs that this process may run on, at most MT_THREADS_MOST. */
int mt_threads_cores(void);

/* threads >= 1, the caller's own counted. */
mt_status mt_threads_open(mt_threads **out, int threads, mt_error *err);

/* Calls chunk(context, i) for each i in [0, chunks), on all threads, and returns when all are done.
 * One caller at a time. p may be NULL: the caller does it alone. */
void mt_threads_run(mt_threads *p, void (*chunk)(void *context, size_t i), void *context,
                    size_t chunks);

void mt_threads_close(mt_threads *p); /* NULL is allowed */

#endif
