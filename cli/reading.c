/* reading.c - see reading.h. */
#include "cli/reading.h"

const cli_option cli_reading_rows[] = {
    { CLI_GROUP, .help = "Input:" },
    { CLI_TEXT, offsetof(cli_reading, from), "from", "FORMAT",
      .help = "the format of FILE, listed below", .standard = "as its first bytes say" },
    { CLI_SIZE, offsetof(cli_reading, how.most), "max-input", "SIZE",
      .help = "refuse a compressed file of more than this, decompressed", "64GiB", 1, UINT64_MAX },
    { .name = NULL },
};

void cli_check_reading(struct argp_state *state, cli_reading *r) {
    if (r->from != NULL && (r->how.format = mt_format_find(r->from)) == NULL)
        cli_usage_error(state, "--from %s: no such format, --help lists them", r->from);
}

void cli_list_formats(FILE *out) {
    fputs("Formats (--from):\n", out);
    for (int i = 0; mt_formats[i] != NULL; i++)
        fprintf(out, "  %-13s %s\n", mt_formats[i]->word, mt_formats[i]->name);
}
