/* reading.h - how a command reads recordings of other programs: --from, --max-input. */
#ifndef MT_CLI_READING_H
#define MT_CLI_READING_H

#include "cli/cli.h"
#include "traces/reader.h"

typedef struct cli_reading {
    const char *from; /* a format's word; NULL: the first bytes tell */
    mt_reading how;   /* set by cli_check_reading */
} cli_reading;

/* The table of a cli_reading. */
extern const cli_option cli_reading_rows[];

/* Its rule: a usage error when there is no such format. */
void cli_check_reading(struct argp_state *state, cli_reading *r);

/* For the help: the formats. */
void cli_list_formats(FILE *out);

#endif
