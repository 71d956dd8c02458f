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
    { "predict", cli_predict },
};

int main(int argc, char **argv) {
    argp_err_exit_status = MT_BAD;
    cli_catch_interrupts();
    if (argc < 2 || argv[1][0] == '-') {
        static char name[] = "memtrace";
        if (argc > 0)
            argv[0] = name; /* as messages begin */
        return cli_run(argc, argv);
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            static char name[64];
            snprintf(name, sizeof name, "memtrace %s", commands[i].name);
            argv[1] = name;
            return commands[i].run(argc - 1, argv + 1);
        }
    char shown[CLI_SHOWN];
    fprintf(stderr,
            "memtrace: there is no command %s: expected run, generate, tokenize, verify, sweep, "
            "replay or predict (memtrace --help)\n",
            cli_shown(shown, argv[1]));
    return MT_BAD;
}
