/* main.c - finds the command and hands the rest of the line to it. Without one it is `run`. */
#include "cli/cli.h"

#include <ctype.h>
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
};

#define COMMANDS (sizeof commands / sizeof *commands)

/* How many letters must be added, left out or replaced to make b of a; capitals are no others. */
static size_t distance(const char *a, const char *b) {
    size_t row[16], n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t least = corner + (tolower((unsigned char)a[i - 1]) != b[j - 1]);
            corner = row[j];
            least = row[j] + 1 < least ? row[j] + 1 : least;
            row[j] = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
        }
    }
    return row[n];
}

/* The command that a wrong name is like, or NULL: its beginning, or two letters away at most. */
static const char *alike(const char *wrong) {
    const char *best = NULL;
    size_t least = 3, n = strlen(wrong);
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *name = commands[i].name;
        size_t d = n >= 2 && strncmp(wrong, name, n) == 0 ? 0 : distance(wrong, name);
        if (d < least && d < strlen(name) - 1) {
            least = d;
            best = name;
        }
    }
    return best;
}

static int no_command(const char *wrong) {
    char shown[CLI_SHOWN];
    const char *name = alike(wrong);
    fprintf(stderr, "memtrace: there is no command %s: ", cli_shown(shown, wrong));
    if (name != NULL)
        fprintf(stderr, "did you mean %s? ", name);
    else
        for (size_t i = 0; i < COMMANDS; i++)
            fprintf(stderr, "%s%s",
                    i == 0             ? "expected "
                    : i + 1 < COMMANDS ? ", "
                                       : " or ",
                    commands[i].name);
    fprintf(stderr, "%s(memtrace --help)\n", name != NULL ? "" : " ");
    return MT_BAD;
}

int main(int argc, char **argv) {
    argp_err_exit_status = MT_BAD;
    cli_watch_output();
    cli_catch_interrupts();
    if (argc < 2 || argv[1][0] == '-') {
        static char name[] = "memtrace";
        if (argc > 0)
            argv[0] = name; /* as messages begin */
        return cli_run(argc, argv);
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            static char name[64];
            snprintf(name, sizeof name, "memtrace %s", commands[i].name);
            argv[1] = name;
            return commands[i].run(argc - 1, argv + 1);
        }
    return no_command(argv[1]);
}
