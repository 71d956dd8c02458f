/* options.h - a command's options as a table.
 *
 * A row says how an option is spelled, what it takes, where its value goes and what the help says;
 * argp's own table, the parsing and the messages are made from the rows. A command names the tables
 * it takes, each with the place of the struct that it fills, so that commands share tables. */
#ifndef MT_CLI_OPTIONS_H
#define MT_CLI_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum cli_kind {
    CLI_GROUP,  /* no option: help is the heading of those that follow */
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char *, as given */
    CLI_SPEC,   /* the same, sizes may stand in it */
    CLI_NUMBER, /* uint64_t from least to most */
    CLI_SIZE,   /* uint64_t, a size from least to most bytes */
    CLI_WORD,   /* unsigned: which of the words that arg lists, as in "last|all"; least is the
                 * first */
    CLI_FILES,  /* cli_files: the arguments that are no options, least to most of them */
    CLI_FOREIGN /* refused, with help as the message */
} cli_kind;

typedef struct cli_option {
    cli_kind kind;
    size_t at;            /* of the field, in the struct of the table */
    const char *name;     /* without "--" */
    const char *arg;      /* what the help calls the value */
    const char *help;     /* a heading, or what the option does */
    const char *standard; /* the default, for the help; NULL: none */
    uint64_t least, most;
    char letter; /* 'q' for -q */
} cli_option;

typedef struct cli_files {
    char **path;
    int count;
} cli_files;

/* rows end with one of no name and no help; at: where their struct lies in the command's. */
typedef struct cli_table {
    const cli_option *rows;
    size_t at;
} cli_table;

/* What commands with --csv say of it. */
#define CLI_CSV_HELP "comma-separated values: a header line, then rows; no comments"

#define CLI_TABLES 8
typedef struct cli_usage {
    const char *doc;          /* what the command does, '\v', columns and examples */
    void (*lists)(FILE *out); /* writes what stands where doc has '\f'; NULL: doc has none */
    cli_table table[CLI_TABLES];
    const char *hint; /* what to do instead of giving an argument; NULL: nothing to say */
    void (*check)(struct argp_state *state,
                  void *input); /* once all is read; NULL: no more rules */
} cli_usage;

/* Fills input from the command line. A usage error, --help, --usage and --version end the program,
 * the first with status 2, as argp does. A value that is missing before the next option is a usage
 * error too: --trace --quiet writes no file --quiet, --trace=--quiet does. */
void cli_parse(const cli_usage *usage, int argc, char **argv, void *input);

/* A usage error: one printable line, where to find help, and the end with status 2. */
void cli_usage_error(const struct argp_state *state, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* Writes a size exactly, in the largest unit that divides it ("64KiB", "1000"); returns text. */
char *cli_size_text(char *text, size_t capacity, uint64_t bytes);

/* Writes the n-th of the words "a|b|c", n from 0; false when there are fewer. */
bool cli_word(const char *words, unsigned n, char *text, size_t capacity);

#endif
