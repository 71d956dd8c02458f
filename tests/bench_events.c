/* bench_events.c - events per second of a dry run: how much listening to the allocator costs.
 *
 * usage: bench_events FILE     FILE is written, and removed in the end
 *
 * GPT-2 small decodes from one token to 1024 with the cache grown by concatenation, on a device
 * that does not compute and a simulated source: requests, frees and the engine's own bookkeeping
 * are all there is. Without a listener (off), with one that counts, with the trace written to FILE
 * as text (recorded), the same compressed (recorded.zst), and as .mtb. In one process, in turn;
 * loading and the closing of FILE are inside the time. Medians of RUNS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc/alloc.h"
#include "base/size.h"
#include "engine/engine.h"
#include "traces/trace.h"

#define RUNS 5
enum { OFF, COUNTED, RECORDED, COMPRESSED, BINARY, WAYS };
static const char *const ways[WAYS] = { "off", "counted", "recorded", "recorded.zst",
                                        "recorded.mtb" };

static mt_error err;

static void must(mt_status status) {
    if (status == MT_OK)
        return;
    fprintf(stderr, "bench_events: %s\n", err.text);
    exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void count(void *context, const mt_event *e) {
    (void)e;
    ++*(uint64_t *)context;
}

static void decode(mt_alloc *alloc, mt_device *device, const mt_config *config) {
    mt_engine_options options = { .batch = 1, .prompt = 1, .ctx = 1024, .kv = "concat" };
    mt_model *model;
    mt_engine *engine;
    int32_t id = 0;
    must(mt_model_load(&model, NULL, config, alloc, device, 1, NULL, NULL, &err));
    must(mt_engine_open(&engine, model, &options, &err));
    for (uint32_t ctx = 1; ctx <= options.ctx; ctx++) {
        must(mt_engine_step(engine, &id, 1, &id, &err));
        mt_alloc_mark(alloc, ctx, mt_engine_kv_ideal(engine, ctx), 0);
    }
    mt_alloc_unlisten(alloc); /* what closing frees is not part of the run */
    mt_engine_close(engine);
    mt_model_close(model);
}

/* Seconds of one run; *events where they are counted. */
static double run(int way, const char *file, uint64_t *events) {
    mt_source *source;
    mt_device *device;
    mt_alloc *alloc;
    mt_trace *trace = NULL;
    mt_config config;
    must(mt_source_sim(&source, 48 * MT_GIB, 4 * MT_KIB, &err));
    must(mt_device_none(&device, &err));
    must(mt_alloc_open(&alloc, source, "torch", &err));
    if (!mt_config_preset("gpt2", &config))
        exit(1);
    double start = seconds();
    if (way == COUNTED) {
        *events = 0;
        mt_alloc_listen(alloc, (mt_listener){ count, events });
    }
    if (way >= RECORDED) {
        must(mt_trace_create(&trace, file, false, &err));
        mt_alloc_listen(alloc, mt_trace_listener(trace));
    }
    decode(alloc, device, &config);
    if (trace != NULL)
        must(mt_trace_commit(trace, NULL, &err));
    double took = seconds() - start;
    mt_alloc_close(alloc);
    source->close(source);
    device->close(device);
    return took;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    double took[WAYS][RUNS];
    uint64_t events = 0;
    char packed[4096], binary[4096];
    if (argc != 2 || strlen(argv[1]) + 5 > sizeof packed) {
        fprintf(stderr, "usage: bench_events FILE\n");
        return 2;
    }
    snprintf(packed, sizeof packed, "%s.zst", argv[1]);
    snprintf(binary, sizeof binary, "%s.mtb", argv[1]);
    const char *const file[WAYS] = { argv[1], argv[1], argv[1], packed, binary };
    for (int i = 0; i < RUNS; i++)
        for (int way = 0; way < WAYS; way++)
            took[way][i] = run(way, file[way], &events);
    unlink(argv[1]);
    unlink(packed);
    unlink(binary);
    printf("# trace seconds events/s   (%llu events)\n", (unsigned long long)events);
    for (int way = 0; way < WAYS; way++) {
        qsort(took[way], RUNS, sizeof took[way][0], by_value);
        double median = took[way][RUNS / 2];
        printf("%-12s %.4f %12.0f\n", ways[way], median, (double)events / median);
    }
    return 0;
}
