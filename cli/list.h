/* list.h - lists and ranges of option values, for sweeps.
 *
 *     a,b,c              values
 *     128..1024+128      128, 256, ..., 1024
 *     64KiB..64MiB*2     64KiB, 128KiB, ..., 64MiB
 *     block:64KiB..64MiB*2    the same with the part before the range in front of each
 *
 * In a list of policies a word whose part before ':' or ',' is a policy's name begins a new value;
 * every other word is an option of the value before:
 * torch,max_split_size_mb:20,block:2MiB,direct. */
#ifndef MT_CLI_LIST_H
#define MT_CLI_LIST_H

#include <stddef.h>

#include "base/status.h"

typedef struct cli_list {
    char **value;
    size_t count, room;
} cli_list;

/* Reads a list. is_head, when not NULL, tells whether a word begins a new value. name is the
 * option, for messages. At most 4096 values. */
mt_status cli_list_read(cli_list *l, const char *name, const char *text,
                        int (*is_head)(const char *word), mt_error *err);
/* A list of policies, each as cli_policy_spec makes it. */
mt_status cli_policy_list(cli_list *l, const char *text, mt_error *err);

void cli_list_free(cli_list *l);

#endif
