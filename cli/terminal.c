/* terminal.c - messages, interrupts and the progress bar. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/interrupt.h"
#include "base/output.h"
#include "base/text.h"

const char *cli_shown(char buffer[CLI_SHOWN], const char *text) {
    return mt_printable(buffer, CLI_SHOWN, text, strlen(text));
}

int cli_fail(mt_status status, const mt_error *err) {
    if (status == MT_OK || (status == MT_FAILED && cli_output_failed()))
        return status;
    if (status == MT_INTERRUPTED) {
        fputs("memtrace: interrupted\n", stderr);
        return status;
    }
    fprintf(stderr, "memtrace: %s\n", err->text);
    return status;
}

const char *cli_ending(mt_status status) {
    return status == MT_OK            ? NULL
           : status == MT_INTERRUPTED ? "interrupted"
           : status == MT_NO_MEMORY   ? "out of memory"
                                      : "failed";
}

mt_status cli_apart(const char *output, const char *other, mt_error *err) {
    char shown[CLI_SHOWN];
    if (!mt_same_file(output, other))
        return MT_OK;
    return mt_fail(err, MT_BAD, "%s: the output is the same file as %s", cli_shown(shown, output),
                   strcmp(other, "/dev/stdout") == 0 ? "standard output" : "the input");
}

mt_status cli_apart_from_stdout(const char *output, mt_error *err) {
    if (output == NULL || mt_descriptor_of(output) >= 0)
        return MT_OK;
    return cli_apart(output, "/dev/stdout", err);
}

static int output_error; /* errno of the first write to stdout that failed */

bool cli_output_failed(void) {
    if (ferror(stdout) && output_error == 0)
        output_error = errno != 0 ? errno : EIO;
    return output_error != 0;
}

mt_status cli_flush(mt_status status) {
    static bool told;
    fflush(stdout);
    if (!cli_output_failed())
        return status;
    if (!told)
        fprintf(stderr, "memtrace: cannot write to standard output: %s\n", strerror(output_error));
    told = true;
    return MT_FAILED;
}

/* What argp prints and ends the program after (--help, --version) may fail to be written too. */
static void at_exit(void) {
    if (cli_flush(MT_OK) != MT_OK)
        _exit(MT_FAILED);
}

void cli_watch_output(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) /* closed: let no file of ours take its number */
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    atexit(at_exit);
}

static volatile sig_atomic_t interrupts;
static volatile int64_t first_interrupt; /* ms */

static int64_t now_ms(void) {
    return (int64_t)(mt_now_ns() / 1000000);
}

/* A shell or a `timeout` may hand the same signal on twice: only one that comes later is a
 * second. */
static void on_interrupt(int signal) {
    int saved = errno;
    (void)signal;
    if (interrupts == 0) {
        first_interrupt = now_ms();
        interrupts = 1;
    } else if (now_ms() - first_interrupt > 300) {
        mt_output_remove_all();
        _exit(MT_INTERRUPTED);
    }
    errno = saved;
}

void cli_catch_interrupts(void) {
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    mt_interrupt_by(cli_interrupted);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write too */
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, and reported as one */
}

void cli_leave_interrupts(void) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

bool cli_interrupted(void) {
    return interrupts > 0;
}

static double now(void) {
    return (double)mt_now_ns() * 1e-9;
}

void cli_progress_start(cli_progress *p, bool quiet, const char *what, const char *unit,
                        uint64_t total) {
    *p = (cli_progress){ .on = !quiet && isatty(STDERR_FILENO),
                         .what = what,
                         .unit = unit,
                         .total = total > 0 ? total : 1,
                         .start = now() };
}

void cli_progress_line(char *text, size_t capacity, const cli_progress *p, uint64_t done,
                       double seconds) {
    char bar[31];
    uint64_t left = done < p->total ? p->total - done : 0; /* more may come than was counted on */
    double part = left > 0 ? (double)done / (double)p->total : 1;
    double rate = (double)done / (seconds + 1e-9);
    int filled = (int)(part * 30);
    for (int i = 0; i < 30; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[30] = '\0';
    snprintf(text, capacity, "%s [%s] %3.0f %%  %.1f %s/s  %.0f s left", p->what, bar, 100 * part,
             rate, p->unit, rate > 0 ? (double)left / rate : 0);
}

void cli_progress_show(cli_progress *p, uint64_t done) {
    char text[256];
    double t = now();
    if (!p->on || (t - p->last < 0.1 && done < p->total))
        return;
    cli_progress_line(text, sizeof text, p, done, t - p->start);
    fprintf(stderr, "\r%s\033[K", text);
    p->last = t;
}

void cli_progress_end(cli_progress *p) {
    if (p->on)
        fputs("\r\033[K", stderr);
}
