/* bench_child.c - runs a command and tells how long it took to its first output, and its peak
 * memory.
 *
 * usage: bench_child COMMAND [ARGUMENT...]     prints  MS_TO_FIRST_BYTE  MS_TO_END  PEAK_RSS_BYTES
 *
 * The clock starts before the fork. The command's output is read and dropped; what it says on
 * stderr passes through. The peak is the kernel's count of resident pages (getrusage of the child),
 * files that it maps included. Ends with the command's status. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

int main(int argc, char **argv) {
    static char buffer[1 << 16];
    int ends[2], status;
    double first = -1;
    struct rusage used;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_child COMMAND [ARGUMENT...]\n");
        return 2;
    }
    if (pipe(ends) != 0)
        die("bench_child: pipe");
    double start = now_ms();
    pid_t child = fork();
    if (child < 0)
        die("bench_child: fork");
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    close(ends[1]);
    ssize_t n;
    while ((n = read(ends[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && first < 0)
            first = now_ms() - start;
    if (wait4(child, &status, 0, &used) < 0)
        die("bench_child: wait");
    printf("%.3f %.3f %lld\n", first, now_ms() - start, (long long)used.ru_maxrss * 1024);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
