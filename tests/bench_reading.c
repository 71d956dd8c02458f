/* bench_reading.c - how fast traces are read: events per second of processor time.
 *
 * usage: bench_reading FILE...     traces in any form; each is read RUNS times, the median counts
 *
 * All items are taken from the reader and nothing is done with them: opening, decoding, every check
 * of the reader and closing are inside the time. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "traces/reader.h"

#define RUNS 7

static mt_error err;

static void must(mt_status status) {
    if (status == MT_OK)
        return;
    fprintf(stderr, "bench_reading: %s\n", err.text);
    exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds to read all of a file; *events in it. */
static double read_all(const char *path, uint64_t *events) {
    mt_reader *r;
    mt_item item;
    double start = seconds();
    *events = 0;
    must(mt_reader_open(&r, path, &err));
    do {
        must(mt_reader_next(r, &item, &err));
        *events += (item.has & MT_HAS_EVENT) != 0;
    } while (item.kind != MT_ITEM_END);
    mt_reader_close(r);
    return seconds() - start;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: bench_reading FILE...\n");
        return 2;
    }
    printf("# file events bytes/event seconds events/s\n");
    for (int i = 1; i < argc; i++) {
        double took[RUNS];
        uint64_t events = 0;
        struct stat info;
        for (int k = 0; k < RUNS; k++)
            took[k] = read_all(argv[i], &events);
        qsort(took, RUNS, sizeof took[0], by_value);
        double n = (double)events, bytes = stat(argv[i], &info) == 0 ? (double)info.st_size : 0;
        printf("%s %.0f %.2f %.4f %.0f\n", argv[i], n, bytes / n, took[RUNS / 2],
               n / took[RUNS / 2]);
    }
    return 0;
}
