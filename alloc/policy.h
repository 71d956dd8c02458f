/* policy.h - the policies that there are, and what is special about each. */
#ifndef MT_ALLOC_POLICY_H
#define MT_ALLOC_POLICY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mt_policy_traits {
    const char *name;
    const char *syntax;  /* of the whole word, "block:SIZE[,round:N]..." */
    const char *help;    /* one line */
    const char *missing; /* why this program cannot open it; NULL: it can */
    bool colon;          /* options come after NAME: and never after NAME, */
    bool device_pool;    /* is the device's own pool: needs a source that has one */
    bool hidden;         /* nobody sees where its blocks lie: mt_alloc_walk meets nothing */
    bool pytorch;        /* is PyTorch's allocator: has its statistics, takes its options */
} mt_policy_traits;

/* The policy whose name begins spec, up to the first ',' or ':'; NULL: there is none of that
 * name. */
const mt_policy_traits *mt_policy_find(const char *spec);

/* Policy i of the list; NULL after the last. */
const mt_policy_traits *mt_policy_nth(size_t i);

#endif
