/* main.c - finds the command and hands the rest of the line to it. Without one it is `run`. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "memtrace " MT_VERSION;

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "run", cli_run },         { "generate", cli_generate }, { "tokenize", cli_tokenize },
    { "verify", cli_verify },   { "sweep", cli_sweep },       { "replay", cli_replay },
    { "predict", cli_predict }, { "study", cli_study },       { "plot", cli_plot },
    { "convert", cli_convert }, { "explain", cli_explain },
};

#define COMMANDS (sizeof commands / sizeof *commands)

static int no_command(const char *wrong) {
    char shown[CLI_SHOWN];
    fprintf(stderr, "memtrace: unknown command '%s'; known:", cli_shown(shown, wrong));
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", commands[i].name);
    fputs(" (see memtrace --help)\n", stderr);
    return MT_BAD;
}

/* Hands on to a command, which begins its messages with its own name. */
static int run(size_t command, int argc, char **argv) {
    static char name[64];
    snprintf(name, sizeof name, "memtrace %s", commands[command].name);
    argv[0] = name;
    return commands[command].run(argc, argv);
}

/* Without a command: a run. */
static int memtrace(int argc, char **argv) {
    static char name[] = "memtrace";
    if (argc > 0)
        argv[0] = name;
    return cli_run(argc, argv);
}

/* memtrace help [COMMAND] */
static int help(int argc, char **argv) {
    static char option[] = "--help", *line[] = { NULL, option, NULL };
    for (size_t i = 0; argc > 1 && i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run(i, 2, line);
    if (argc > 1)
        return no_command(argv[1]);
    return memtrace(2, line);
}

int main(int argc, char **argv) {
    argp_err_exit_status = MT_BAD;
    cli_watch_output();
    cli_catch_interrupts();
    if (argc < 2 || argv[1][0] == '-')
        return memtrace(argc, argv);
    if (strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run(i, argc - 1, argv + 1);
    return no_command(argv[1]);
}
