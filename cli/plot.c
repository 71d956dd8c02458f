/* plot.c - `memtrace plot`: a chart of plots/, drawn by gnuplot, from anywhere.
 *
 * A chart is a script KIND.gp whose third line says how it is called:
 *
 *     # KIND.gp - what it shows.
 *     #
 *     #     memtrace plot KIND FILE... OUT.png
 *
 * The script checks its files itself. It draws to its standard output (OUT is "-.png"), from where
 * the picture goes into a file that appears whole. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/place.h"
#include "base/descriptor.h"
#include "base/input.h"
#include "base/output.h"
#include "base/text.h"

#define MOST_WORDS 32 /* of a script's command line; no chart takes so many */
#define SHOWS      256
#define LINE_MOST  ((size_t)4096)

typedef struct plot_options {
    cli_files words; /* KIND, the files, OUT */
    bool list;
} plot_options;

/* ---- the scripts ----------------------------------------------------------------------------- */

/* $MEMTRACE_PLOTS, or the folder beside the program, or that of an installed one. */
static mt_status find_folder(char *folder, mt_error *err) {
    static const char *const folders[] = { "", "/../share/memtrace", NULL };
    const char *named = getenv("MEMTRACE_PLOTS");
    if (named != NULL)
        snprintf(folder, PATH_MAX, "%s", named);
    else if (!cli_place(folder, PATH_MAX, folders, "plots"))
        return mt_fail(err, MT_FAILED,
                       "the charts' scripts are neither in plots beside the program nor in "
                       "../share/memtrace/plots; MEMTRACE_PLOTS may name their folder");
    return MT_OK;
}

/* Reads what script name of folder shows into text, which is left empty when it is no chart. */
static mt_status read_chart(const char *folder, const char *name, char text[SHOWS], mt_error *err) {
    char path[PATH_MAX], called[64];
    mt_input *in;
    mt_line line = { 0 };
    text[0] = '\0';
    snprintf(path, sizeof path, "%s/%s.gp", folder, name);
    int n = snprintf(called, sizeof called, "#     memtrace plot %s ", name);
    mt_status status = mt_input_open(&in, path, MT_INPUT_ANY, err);
    for (int i = 0; status == MT_OK && i < 3; i++) {
        status = mt_input_line(in, LINE_MOST, &line, err);
        const char *shows =
            status == MT_OK && i == 0 && line.text != NULL ? strstr(line.text, " - ") : NULL;
        if (shows != NULL)
            snprintf(text, SHOWS, "%.*s", (int)strcspn(shows + 3, "."), shows + 3);
        if (status == MT_OK && line.text == NULL)
            break;
    }
    if (line.text == NULL || strncmp(line.text, called, (size_t)n) != 0)
        text[0] = '\0';
    if (status == MT_OK || in != NULL)
        mt_input_close(in);
    return status == MT_BAD ? MT_OK : status;
}

/* Sorts by what stands before the ending. */
static int by_name(const struct dirent **a, const struct dirent **b) {
    const char *x = (*a)->d_name, *y = (*b)->d_name;
    size_t m = strcspn(x, "."), n = strcspn(y, ".");
    int d = strncmp(x, y, m < n ? m : n);
    return d != 0 ? d : (m > n) - (m < n);
}

/* Calls each(name, what it shows) for the charts of a folder, by name. */
static mt_status each_chart(const char *folder, void (*each)(void *, const char *, const char *),
                            void *context, mt_error *err) {
    struct dirent **entries;
    mt_status status = MT_OK;
    int n = scandir(folder, &entries, NULL, by_name);
    if (n < 0)
        return mt_fail(err, MT_FAILED, "cannot read the charts' folder %.300s: %s", folder,
                       strerror(errno));
    for (int i = 0; i < n; i++) {
        char *name = entries[i]->d_name, *dot = strrchr(name, '.'), shows[SHOWS] = "";
        if (status == MT_OK && dot != NULL && strcmp(dot, ".gp") == 0) {
            *dot = '\0';
            status = read_chart(folder, name, shows, err);
        }
        if (shows[0] != '\0')
            each(context, name, shows);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static void print_chart(void *context, const char *name, const char *shows) {
    fprintf(context, "%-16s%s\n", name, shows);
}

static void join_name(void *context, const char *name, const char *shows) {
    char *known = context;
    size_t n = strlen(known);
    (void)shows;
    snprintf(known + n, 300 - n, "%s%s", n > 0 ? ", " : "", name);
}

static mt_status no_chart(const char *folder, const char *kind, mt_error *err) {
    char known[300] = "";
    MT_TRY(each_chart(folder, join_name, known, err));
    return mt_fail(err, MT_BAD, "unknown chart %s; known: %s", kind, known);
}

/* ---- gnuplot --------------------------------------------------------------------------------- */

/* Copies what comes from fd to out; true at its end, false when an interrupt came first. */
static bool copy_picture(int fd, mt_output *out) {
    char data[65536];
    ssize_t n;
    while ((n = mt_read(fd, data, sizeof data)) > 0)
        mt_output_write(out, data, (size_t)n);
    return n == 0;
}

/* Starts gnuplot on argv, its output to the pipe's end and its messages to log. */
static mt_status start(pid_t *child, char **argv, int output, int log, mt_error *err) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, log, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int failed = posix_spawnp(child, argv[0], &files, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failed == ENOENT)
        return mt_fail(err, MT_FAILED,
                       "gnuplot is not installed (Debian's package is gnuplot-nox)");
    return failed == 0 ? MT_OK
                       : mt_fail(err, MT_FAILED, "cannot run gnuplot: %s", strerror(failed));
}

/* Where the last line of text begins. A file's name may hold the end of a line: that ends none. */
static const char *last_line(const char *text, char *const *names) {
    const char *end = strrchr(text, '\n'), *line = end != NULL ? end + 1 : text;
    for (; *names != NULL; names++) {
        const char *at = strchr(*names, '\n') != NULL ? strstr(text, *names) : NULL;
        if (at != NULL && at < line && line <= at + strlen(*names))
            for (line = at; line > text && line[-1] != '\n';)
                line--;
    }
    return line;
}

/* The last line that gnuplot printed: the script's reason, or where a command of it failed. */
static void last_message(int log, char *const *names, char *text, size_t room) {
    char all[4096];
    ssize_t n = pread(log, all, sizeof all - 1, 0);
    all[n > 0 ? n : 0] = '\0';
    char *end = all + strlen(all);
    while (end > all && (end[-1] == '\n' || end[-1] == ' '))
        *--end = '\0';
    const char *line = last_line(all, names);
    mt_printable(text, room, line, strlen(line));
}

/* Waits for the child. A script ends with status 2 when a file is not what it takes, with 4 when
 * something that it needs is missing. */
static mt_status finish(pid_t child, char *const *argv, int log, mt_error *err) {
    int status;
    char reason[400];
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return MT_OK;
    last_message(log, argv, reason, sizeof reason);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == MT_BAD || WEXITSTATUS(status) == MT_FAILED))
        return mt_fail(err, WEXITSTATUS(status), "%s", reason);
    return mt_fail(err, MT_FAILED, "gnuplot failed: %s",
                   WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : reason);
}

static mt_status draw(char **argv, mt_output *out, mt_error *err) {
    int ends[2], log = memfd_create("gnuplot", MFD_CLOEXEC);
    pid_t child;
    if (log < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        close(log);
        return mt_fail(err, MT_FAILED, "cannot open a pipe: %s", strerror(errno));
    }
    mt_status status = start(&child, argv, ends[1], log, err);
    close(ends[1]);
    if (status == MT_OK) {
        bool whole = copy_picture(ends[0], out);
        if (!whole)
            kill(child, SIGTERM);
        status = finish(child, argv, log, err);
        if (!whole)
            status = MT_INTERRUPTED;
    }
    close(ends[0]);
    close(log);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* ".png" of OUT, as the script's own output; NULL when it ends in nothing that can be drawn. */
static const char *standard_output(const char *out) {
    static const char *const known[] = { "-.png", "-.svg", "-.pdf" };
    const char *dot = strrchr(out, '.');
    for (size_t i = 0; dot != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(dot, known[i] + 1) == 0)
            return known[i];
    return NULL;
}

/* Draws script to path, with the files in words[1] ... words[n]. */
static mt_status draw_to(const char *path, char *script, char **words, int n, mt_error *err) {
    char *argv[MOST_WORDS] = { "gnuplot", "-d", "-c", script };
    const char *drawn = standard_output(path);
    if (drawn == NULL)
        return mt_fail(err, MT_BAD, "%s: the name of a chart ends in .png, .svg or .pdf", path);
    if (n > MOST_WORDS - 6)
        return mt_fail(err, MT_BAD, "%d files are more than any chart takes", n);
    for (int i = 1; i <= n; i++)
        MT_TRY(cli_apart(path, words[i], err));
    memcpy(argv + 4, words + 1, (size_t)n * sizeof *argv);
    argv[4 + n] = (char *)drawn;
    mt_output *out;
    MT_TRY(mt_output_open(&out, path, err));
    mt_status status = draw(argv, out, err);
    if (status == MT_OK)
        return mt_output_commit(out, err);
    mt_output_abandon(out);
    return status;
}

static mt_status plot(const plot_options *o, mt_error *err) {
    char folder[PATH_MAX], script[PATH_MAX], shows[SHOWS] = "", **words = o->words.path;
    int n = o->words.count;
    MT_TRY(find_folder(folder, err));
    if (o->list)
        return each_chart(folder, print_chart, stdout, err);
    if (strchr(words[0], '/') == NULL)
        MT_TRY(read_chart(folder, words[0], shows, err));
    if (shows[0] == '\0')
        return no_chart(folder, words[0], err);
    snprintf(script, sizeof script, "%.*s/%.40s.gp", PATH_MAX - 64, folder, words[0]);
    return draw_to(words[n - 1], script, words, n - 2, err);
}

static const char doc[] =
    "Draws the chart KIND of the FILEs with gnuplot; OUT ends in .png, .svg or .pdf.\v"
    "Examples:\n"
    "  memtrace plot reserved out/mem.dat out/reserved.png\n"
    "  memtrace plot compare out/a.dat out/b.dat out/compare.svg\n\n"
    "MEMTRACE_PLOTS names another folder of scripts.\n\n"
    "Exit status: 0 done; 2 bad input or usage; 4 gnuplot is missing or failed, or a write failed; "
    "130 interrupted.";

#define FIELD(name) offsetof(plot_options, name)

static const cli_option rows[] = {
    { CLI_GROUP, .help = "Options:" },
    { CLI_FILES, FIELD(words), "KIND FILE... OUT", "KIND FILE... OUT", .most = UINT32_MAX },
    { CLI_FLAG, FIELD(list), "list", .help = "the kinds of charts, and what each shows",
      .letter = 'l' },
    { .name = NULL },
};

static void check(struct argp_state *state, void *input) {
    plot_options *o = input;
    if (!o->list && o->words.count < 3)
        cli_usage_error(state, "expected KIND FILE... OUT (memtrace plot --list names the kinds)");
}

static const cli_usage usage = { .doc = doc, .table = { { rows, 0 } }, .check = check };

int cli_plot(int argc, char **argv) {
    plot_options o = { 0 };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    return cli_flush(cli_fail(plot(&o, &err), &err));
}
