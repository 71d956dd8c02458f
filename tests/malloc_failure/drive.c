/* drive.c - runs a command once for each of its allocations, which fails then, and says whether it
 * bears that.
 *
 *     drive [-hjmst] [-n COUNT] PRELOAD FOLDER INPUT PROGRAM ARGUMENT...
 *
 * PRELOAD is preload.c's library, FOLDER is empty and the command's working folder, INPUT its
 * standard input. The command is run undisturbed first. Then each allocation fails alone, and in
 * another run with all that come after it. The command must give the same answer as before, or end
 * with status 4 and one line on standard error; then rows of its table that are there are the first
 * ones, and a file that is there says that it failed. Never may it be ended by a signal, and never
 * may a temporary file be left.
 *
 * -t: the answer has times in it, and only its number of lines is compared. -j: it is JSON. -s: it
 * is a sum, not a table: what is there after a failure is not compared. -m: figures may follow the
 * line on standard error. -n: of the allocations only COUNT are failed, spread evenly, each alone
 * and with all after it by turns. -h: what the C library allocates is let through, for the help:
 * argp's help ends the program without memory.
 *
 * Prints "ok NAME" or "not ok NAME" with what was seen, and how many allocations were failed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct text {
    char *at;
    size_t n;
} text;

/* What a run left. */
typedef struct result {
    int status; /* as a shell has it: 128 + signal */
    text out, err;
    char file[NAME_MAX + 1]; /* the one file in the folder, "" when there is none */
    text content;            /* of it */
    bool more_files;
} result;

static bool times, json, sums, more, help;
static unsigned most = UINT_MAX;
static const char *preload, *folder, *input;
static char out_path[PATH_MAX], err_path[PATH_MAX], report_path[PATH_MAX];
static char **command;

static void die(const char *what) {
    printf("not ok %s: %s\n", what, strerror(errno));
    exit(1);
}

static text read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        die(path);
    text t = { NULL, 0 };
    for (size_t got = 1; got > 0; t.n += got) {
        t.at = realloc(t.at, t.n + 65537);
        got = fread(t.at + t.n, 1, 65536, f);
    }
    t.at[t.n] = '\0';
    fclose(f);
    return t;
}

static size_t lines(const text *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->at[i] == '\n';
    return n;
}

static bool equal(const text *a, const text *b) {
    return times ? lines(a) == lines(b) : a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

static const char *last_line(const text *t) {
    size_t i = t->n > 0 ? t->n - 1 : 0;
    while (i > 0 && t->at[i - 1] != '\n')
        i--;
    return t->at + i;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Takes what is in the folder, and empties it. */
static void take_files(result *r) {
    DIR *d = opendir(folder);
    if (d == NULL)
        die(folder);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[PATH_MAX];
        if (e->d_name[0] == '.')
            continue;
        r->more_files |= r->file[0] != '\0';
        strcpy(r->file, e->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        free(r->content.at);
        r->content = read_file(path);
        unlink(path);
    }
    closedir(d);
}

/* A process of its own, with one more variable in its environment. */
static result run(const char *name, const char *value) {
    result r = { 0 };
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        int in = open(input, O_RDONLY), out = creat(out_path, 0600), err = creat(err_path, 0600);
        if (in < 0 || out < 0 || err < 0 || chdir(folder) != 0)
            _exit(126);
        dup2(in, 0);
        dup2(out, 1);
        dup2(err, 2);
        setenv("LD_PRELOAD", preload, 1);
        setenv(name, value, 1);
        if (help)
            setenv("MALLOC_LIBC", "no", 1);
        alarm(60);
        execv(command[0], command);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    r.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    r.out = read_file(out_path);
    r.err = read_file(err_path);
    take_files(&r);
    return r;
}

static void free_result(result *r) {
    free(r->out.at);
    free(r->err.at);
    free(r->content.at);
}

/* ---- judging --------------------------------------------------------------------------------- */

/* The rows of a table that was cut are the first of the whole one. */
static bool rows_begin(const text *cut, const text *whole) {
    const char *a = cut->at, *b = whole->at;
    while (*a != '\0') {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (*a == '#') {
            a += n + (a[n] == '\n');
        } else if (*b == '#') {
            b += m + (b[m] == '\n');
        } else {
            if (a[n] == '\0' || n != m || memcmp(a, b, n) != 0)
                return false;
            a += n + 1;
            b += m + 1;
        }
    }
    return true;
}

static const char *judge_failed(const result *r, const result *whole) {
    bool said = r->content.n > 0 && strcmp(last_line(&r->content), "# failed\n") == 0;
    if (r->status != 4)
        return "ended with another status";
    if ((more ? lines(&r->err) < 1 : lines(&r->err) != 1) || strncmp(r->err.at, "memtrace", 8) != 0)
        return "did not say in one line what failed";
    if (json && r->out.n > 0 && r->out.at[0] == '{' &&
        strstr(r->out.at, "\"ended\": \"failed\"") == NULL)
        return "left JSON that does not say that it failed";
    if (!json && !times && !sums && !rows_begin(&r->out, &whole->out))
        return "left other rows";
    if (r->file[0] != '\0' && !said && !equal(&r->content, &whole->content))
        return "left half a file";
    return NULL;
}

/* NULL: the command bears it. */
static const char *judge(const result *r, const result *whole) {
    if (r->status >= 128)
        return "ended by a signal";
    if (strstr(r->file, ".tmp") != NULL || r->more_files)
        return "left a temporary file";
    if (r->status != whole->status)
        return judge_failed(r, whole);
    if (!equal(&r->out, &whole->out))
        return "gave another answer";
    if (r->status == 2 ? strcspn(r->err.at, "\n") != strcspn(whole->err.at, "\n")
                       : !equal(&r->err, &whole->err))
        return "said something else";
    if (strcmp(r->file, whole->file) != 0 || !equal(&r->content, &whole->content))
        return "left another file";
    return NULL;
}

static bool try(const char *which, const result *whole) {
    result r = run("MALLOC_FAIL", which);
    const char *wrong = judge(&r, whole);
    if (wrong != NULL)
        printf("    allocation %s: %s; status %d, stdout %zu bytes, stderr: %.*s\n", which, wrong,
               r.status, r.out.n, (int)strcspn(r.err.at, "\n"), r.err.at);
    free_result(&r);
    return wrong == NULL;
}

/* ---- the report ------------------------------------------------------------------------------ */

static const char *next_line(const char *at) {
    return at + strcspn(at, "\n") + 1;
}

/* How many allocations the report names. */
static unsigned named(const char *report) {
    unsigned n = 0;
    for (; strncmp(report, "at ", 3) == 0; report = next_line(report))
        n++;
    return n;
}

/* Tries them. Returns how many runs were wrong. */
static unsigned try_all(const char *report, unsigned count, const result *whole, unsigned *tried) {
    unsigned wrong = 0;
    for (unsigned i = 0; i < count; i++, report = next_line(report)) {
        char alone[32], all[32];
        unsigned n = (unsigned)strtoul(report + 3, NULL, 10);
        if (count > most && i * most / count == (i + 1) * most / count)
            continue;
        snprintf(alone, sizeof alone, "%u", n);
        snprintf(all, sizeof all, "%u+", n);
        if (count <= most || *tried % 2 == 0)
            wrong += !try(alone, whole);
        if (count <= most || *tried % 2 == 1)
            wrong += !try(all, whole);
        ++*tried;
    }
    return wrong;
}

/* "MODULE n, MODULE n" of the lines that begin with a word. */
static void print_modules(const char *report, const char *word) {
    const char *comma = "";
    for (const char *at = report; *at != '\0'; at = next_line(at))
        if (strncmp(at, word, strlen(word)) == 0) {
            printf("%s%.*s", comma, (int)(strcspn(at, "\n") - strlen(word) - 1),
                   at + strlen(word) + 1);
            comma = ", ";
        }
}

int main(int argc, char **argv) {
    for (int option; (option = getopt(argc, argv, "+hjmn:st")) != -1;) {
        times |= option == 't';
        json |= option == 'j';
        sums |= option == 's';
        more |= option == 'm';
        help |= option == 'h';
        if (option == 'n')
            most = (unsigned)strtoul(optarg, NULL, 10);
    }
    if (argc - optind < 4)
        return 2;
    preload = argv[optind];
    folder = argv[optind + 1];
    input = argv[optind + 2];
    command = argv + optind + 3;
    snprintf(out_path, sizeof out_path, "%s.out", folder);
    snprintf(err_path, sizeof err_path, "%s.err", folder);
    snprintf(report_path, sizeof report_path, "%s.report", folder);
    unlink(report_path);
    result whole = run("MALLOC_REPORT", report_path);
    if (whole.status >= 126)
        die(command[0]);
    text report = read_file(report_path);
    unsigned count = named(report.at), tried = 0;
    unsigned wrong = try_all(report.at, count, &whole, &tried);
    printf(wrong == 0 && tried > 0 ? "ok" : "not ok");
    printf(" out of host memory:");
    for (char **word = command + 1; *word != NULL; word++)
        printf(" %s", *word);
    printf(" (%u of %u kinds of allocation, of: ", tried, count);
    print_modules(report.at, "failed");
    printf("; let through: ");
    print_modules(report.at, "left");
    printf(")\n");
    free_result(&whole);
    free(report.at);
    return wrong > 0;
}
