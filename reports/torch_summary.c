/* torch_summary.c - see torch_summary.h. The layout is that of memory_summary: a box of 77
 * characters; a unit is chosen per column from the metric's value over both pools. */
#include "reports/torch_summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 75

static void rule(FILE *out, char c) {
    fputc('|', out);
    for (int i = 0; i < WIDTH; i++)
        fputc(c, out);
    fputs("|\n", out);
}

/* Goes up a unit while the value is at least three quarters of the next. */
static void byte_cell(FILE *out, uint64_t value, uint64_t reference) {
    static const char *const units[] = { "B  ", "KiB", "MiB", "GiB", "TiB", "PiB" };
    double r = (double)reference;
    int u = 0;
    while (u < 5 && r >= 768.0 * 1024) {
        r /= 1024;
        value /= 1024;
        u++;
    }
    fprintf(out, " | %6" PRIu64 " %s", value, units[u]);
}

static void count_cell(FILE *out, uint64_t value, uint64_t reference) {
    double r = (double)reference;
    int u = 0;
    while (u < 2 && r >= 750.0 * 1000) {
        r /= 1000;
        value /= 1000;
        u++;
    }
    fprintf(out, " | %7" PRIu64 " %c ", value, " KM"[u]);
}

static void row(FILE *out, const char *label, const mt_torch_stat *s, const mt_torch_stat *all,
                bool bytes) {
    void (*cell)(FILE *, uint64_t, uint64_t) = bytes ? byte_cell : count_cell;
    fprintf(out, "| %-21s", label);
    cell(out, s->current, all->current);
    cell(out, s->peak, all->peak);
    cell(out, s->allocated, all->allocated);
    cell(out, s->freed, all->freed);
    fputs(" |\n", out);
}

void mt_torch_summary(FILE *out, const mt_torch_stats *s) {
    static const struct {
        const char *label;
        mt_torch_stat_name name;
        bool bytes;
    } metrics[] = {
        { "Allocated memory", MT_TORCH_allocated_bytes, true },
        { "Active memory", MT_TORCH_active_bytes, true },
        { "Requested memory", MT_TORCH_requested_bytes, true },
        { "GPU reserved memory", MT_TORCH_reserved_bytes, true },
        { "Non-releasable memory", MT_TORCH_inactive_split_bytes, true },
        { "Allocations", MT_TORCH_allocation, false },
        { "Active allocs", MT_TORCH_active, false },
        { "GPU reserved segments", MT_TORCH_segment, false },
        { "Non-releasable allocs", MT_TORCH_inactive_split, false },
    };
    rule(out, '=');
    fprintf(out, "|%17s%s%-17d |\n", "", " PyTorch CUDA memory summary, device ID ", 0);
    rule(out, '-');
    fprintf(out, "|%11s CUDA OOMs: %-12" PRIu64 " | %6s cudaMalloc retries: %-8" PRIu64 "  |\n", "",
            s->num_ooms, "", s->num_alloc_retries);
    rule(out, '=');
    fputs("|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n", out);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        const mt_torch_stat *all = &s->pool[0][metrics[i].name];
        rule(out, '-');
        row(out, metrics[i].label, all, all, metrics[i].bytes);
        row(out, "      from large pool", &s->pool[2][metrics[i].name], all, metrics[i].bytes);
        row(out, "      from small pool", &s->pool[1][metrics[i].name], all, metrics[i].bytes);
    }
    rule(out, '-');
    row(out, "Oversize allocations", &s->oversize_allocations, &s->oversize_allocations, false);
    rule(out, '-');
    row(out, "Oversize GPU segments", &s->oversize_segments, &s->oversize_segments, false);
    rule(out, '=');
}

/* ---- every counter --------------------------------------------------------------------------- */

typedef struct line {
    char key[80];
    int64_t value;
} line;

static int by_key(const void *a, const void *b) {
    return strcmp(((const line *)a)->key, ((const line *)b)->key);
}

/* Enters the key when there is such a counter. */
static void enter(line *lines, size_t *n, const mt_torch_stats *s, const char *key) {
    if (mt_torch_stats_get(s, key, &lines[*n].value))
        snprintf(lines[(*n)++].key, sizeof lines->key, "%s", key);
}

static void enter_fields(line *lines, size_t *n, const mt_torch_stats *s, const char *prefix) {
    static const char *const fields[] = { "current", "peak", "allocated", "freed" };
    char key[80];
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "%s.%s", prefix, fields[i]);
        enter(lines, n, s, key);
    }
}

void mt_torch_statistics(FILE *out, const mt_torch_stats *s) {
    static const char *const metrics[] = {
#define X(name) #name,
        MT_TORCH_STATS(X)
#undef X
    };
    static const char *const pools[] = { "all", "small_pool", "large_pool" };
    static const char *const plain[] = { "num_alloc_retries",    "num_ooms",
                                         "num_sync_all_streams", "num_device_alloc",
                                         "num_device_free",      "num_oom_rejections",
                                         "max_split_size" };
    line lines[MT_TORCH_STAT_COUNT * 12 + 24];
    char prefix[64];
    size_t n = 0;
    for (size_t m = 0; m < MT_TORCH_STAT_COUNT; m++)
        for (int p = 0; p < 3; p++) {
            snprintf(prefix, sizeof prefix, "%s.%s", metrics[m], pools[p]);
            enter_fields(lines, &n, s, prefix);
        }
    enter_fields(lines, &n, s, "oversize_allocations");
    enter_fields(lines, &n, s, "oversize_segments");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        enter(lines, &n, s, plain[i]);
    qsort(lines, n, sizeof *lines, by_key);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s %" PRId64 "\n", lines[i].key, lines[i].value);
}
