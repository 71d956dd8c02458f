/* settings.cc - the first values from the environment, the check at exit, and the reset of all. */
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "control.h"
#include "state.h"

namespace emulation {

namespace {

/* A number with B, KiB, MiB, GiB (K, M, G) or nothing after it. */
bool parse_size(const char *text, uint64_t *bytes) {
    char *end;
    *bytes = strtoull(text, &end, 10);
    const char *unit = *end ? strchr("BKMG", *end) : "B";
    if (end == text || !unit)
        return false;
    *bytes <<= 10 * (*unit == 'K' ? 1 : *unit == 'M' ? 2 : *unit == 'G' ? 3 : 0);
    return !*end || !end[1] || !strcmp(end + 1, "iB");
}

/* name:n[:code] */
bool parse_failure(std::string text) {
    size_t colon = text.find(':');
    if (colon == std::string::npos)
        return false;
    const std::string name = text.substr(0, colon);
    unsigned long long n;
    int code = 0;
    if (sscanf(text.c_str() + colon + 1, "%llu:%d", &n, &code) < 1)
        return false;
    return mt_emulation_fail(name == "any" ? nullptr : name.c_str(), n, code);
}

void check_at_exit() {
    fflush(stdout);
    if (mt_emulation_print_leaks(stderr))
        _exit(99);
}

bool apply(const std::string &item) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const char *value = equals == std::string::npos ? "" : item.c_str() + equals + 1;
    uint64_t bytes = 0;
    if (name == "leaks")
        return atexit(check_at_exit) == 0;
    if (name == "fail")
        return parse_failure(value);
    if (name == "capability")
        return sscanf(value, "%d.%d", &device.major, &device.minor) == 2;
    if (!parse_size(value, &bytes))
        return false;
    if (name == "capacity")
        device.capacity = bytes;
    else if (name == "context")
        device.context_bytes = bytes;
    else if (name == "kernel")
        device.kernel_bytes = bytes;
    else if (name == "other")
        device.used[USE_OTHER] = bytes;
    else if (name == "devices")
        device.count = int(bytes);
    else
        return false;
    return true;
}

} // namespace

void read_environment() {
    static bool done;
    if (done)
        return;
    done = true;
    atexit(mt_emulation_reset); /* while all files' state is still there */
    const char *text = getenv("MT_EMULATION");
    std::string rest = text ? text : "";
    while (!rest.empty()) {
        size_t comma = rest.find(',');
        std::string item = rest.substr(0, comma);
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
        if (!item.empty() && !apply(item)) {
            fprintf(stderr, "MT_EMULATION: what is \"%s\"?\n", item.c_str());
            exit(2);
        }
    }
}

} // namespace emulation

using namespace emulation;

void mt_emulation_reset() {
    read_environment();
    reset_cublas();
    reset_graphs();
    reset_events();
    reset_streams();
    reset_pools();
    reset_physical();
    reset_memory();
    reset_ranges();
    reset_kernels();
    reset_device();
    reset_nvtx();
    reset_calls();
}

/* ---- what is left ---------------------------------------------------------------------------- */

mt_emulation_live mt_emulation_get_live() {
    mt_emulation_live live = {};
    live.segments = segment_count();
    live.pool_blocks = range_count(RANGE_POOL);
    live.pools = pool_count();
    live.reservations = reservation_count();
    live.handles = handle_count();
    live.mappings = range_count(RANGE_MAPPING);
    live.pinned = pinned_count();
    live.streams = stream_count();
    live.events = event_count();
    live.graphs = graph_count();
    live.execs = exec_count();
    live.cublas = cublas_count();
    return live;
}

static void print_allocations(FILE *out) {
    mt_emulation_allocation list[100];
    size_t n = mt_emulation_allocations(list, 100);
    for (size_t i = 0; i < n && i < 100; i++)
        fprintf(out, "    %s of %llu bytes at %p\n", list[i].call,
                (unsigned long long)list[i].bytes, list[i].ptr);
}

size_t mt_emulation_print_leaks(FILE *out) {
    const mt_emulation_live live = mt_emulation_get_live();
    const struct {
        const char *name;
        size_t count;
    } rows[] = {
        { "segments", live.segments }, { "pool blocks", live.pool_blocks },
        { "pools", live.pools },       { "reservations", live.reservations },
        { "handles", live.handles },   { "mappings", live.mappings },
        { "pinned", live.pinned },     { "streams", live.streams },
        { "events", live.events },     { "graphs", live.graphs },
        { "graph execs", live.execs }, { "cublas handles", live.cublas },
    };
    size_t sum = 0;
    for (const auto &row : rows) {
        sum += row.count;
        if (row.count)
            fprintf(out, "emulated device: %zu %s left\n", row.count, row.name);
    }
    if (sum)
        print_allocations(out);
    return sum;
}
