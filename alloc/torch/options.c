/* options.c - the options of the torch policy, under PyTorch's names and with its limits.
 *
 * Besides PyTorch's own there are addresses:up|down|reuse (where the driver's next address lies,
 * for replays) and version:2.11|2.12|2.13... (how free blocks of one size are ranked: by address up
 * to 2.11, by age of the record in 2.12, by segment from 2.13 on, which is the default). Options of
 * pinned host memory and of threads are read and checked, and change nothing here. torch:env is
 * turned into the options of the environment by the command line, not here. */
#include "alloc/torch/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mt_status wrong(const char *key, const char *value, const char *expected, mt_error *err) {
    return mt_fail(err, MT_BAD, "policy torch: %s%s%.100s: expected %s", key,
                   *value != '\0' ? ":" : " without a value", value, expected);
}

static bool read_bool(const char *value, bool *out) {
    *out = strcmp(value, "True") == 0;
    return *out || strcmp(value, "False") == 0;
}

static bool read_real(const char *value, double *out) {
    char *end;
    *out = strtod(value, &end);
    return end != value && *end == '\0' && *out == *out;
}

static bool power_of_two(uint64_t n) {
    return n != 0 && (n & (n - 1)) == 0;
}

#define MOST_MIB (UINT64_C(1) << 40)

static bool read_mib(const char *value, uint64_t least, uint64_t *bytes) {
    uint64_t mib;
    if (!mt_parse_u64(value, least, MOST_MIB, &mib))
        return false;
    *bytes = mib * MT_MIB;
    return true;
}

static uint8_t log2_of(uint64_t n) {
    return n == 0 ? 0 : (uint8_t)(63 - __builtin_clzll(n));
}

/* One pair of the list form, B:V or >:V. last: entry named by the pair before, -1 at first. */
static bool read_pair(torch_options *o, const char *pair, int *last) {
    char left[24];
    uint64_t b, v;
    size_t n = strcspn(pair, ":");
    if (pair[n] != ':' || n == 0 || n >= sizeof left ||
        !mt_parse_u64(pair + n + 1, 0, UINT64_C(1) << 20, &v) || (v != 0 && !power_of_two(v)))
        return false;
    memcpy(left, pair, n);
    left[n] = '\0';
    if (strcmp(left, ">") == 0) {
        for (int i = *last < 0 ? 1 : *last + 1; i < TORCH_DIVISIONS; i++)
            o->division_log2[i] = log2_of(v);
        *last = TORCH_DIVISIONS - 1;
        return true;
    }
    if (!mt_parse_u64(left, 1, UINT64_C(1) << 40, &b) || !power_of_two(b))
        return false;
    int i = log2_of(b) < TORCH_DIVISIONS ? log2_of(b) : TORCH_DIVISIONS - 1;
    for (int j = *last < 0 ? 0 : i; j <= i; j++)
        o->division_log2[j] = log2_of(v);
    *last = i;
    return true;
}

static bool read_pairs(torch_options *o, const char *value) {
    char pair[64];
    int last = -1;
    const char *t = value + 1, *end = value + strlen(value) - 1;
    if (end <= t || *end != ']')
        return false;
    while (t < end) {
        size_t n = strcspn(t, ",]");
        if (n >= sizeof pair)
            return false;
        memcpy(pair, t, n);
        pair[n] = '\0';
        if (!read_pair(o, pair, &last))
            return false;
        t += n + 1;
    }
    return true;
}

static mt_status read_divisions(torch_options *o, const char *key, const char *value,
                                mt_error *err) {
    uint64_t d;
    memset(o->division_log2, 0, sizeof o->division_log2);
    if (*value == '[')
        return read_pairs(o, value)
                   ? MT_OK
                   : wrong(key, value,
                           "[MiB:divisions,...,>:divisions], intervals powers of two, divisions "
                           "powers of two or 0",
                           err);
    if (!mt_parse_u64(value, 1, UINT64_C(1) << 20, &d) || !power_of_two(d))
        return wrong(key, value, "a power of two", err);
    memset(o->division_log2, log2_of(d), sizeof o->division_log2);
    return MT_OK;
}

static mt_status read_version(torch_options *o, const char *value, mt_error *err) {
    unsigned major, minor;
    char rest;
    int n = sscanf(value, "%4u.%4u%c", &major, &minor, &rest);
    if (n < 2 || (n == 3 && rest != '.') || major < 1 || major > 99 || minor > 9999)
        return wrong("version", value, "a PyTorch release such as 2.11", err);
    unsigned release = major * 10000 + minor;
    o->order = release < 20012   ? MT_ORDER_ADDRESS
               : release < 20013 ? MT_ORDER_BIRTH
                                 : MT_ORDER_SEGMENT;
    return MT_OK;
}

static mt_status read_addresses(torch_options *o, const char *value, mt_error *err) {
    static const char *const names[] = { "up", "down", "reuse" };
    for (int i = 0; i < 3; i++)
        if (strcmp(value, names[i]) == 0) {
            o->addresses = (mt_addresses)i;
            return MT_OK;
        }
    return wrong("addresses", value, "up, down or reuse", err);
}

/* Options that PyTorch knows and that change nothing here. */
static bool read_ignored(const char *key, const char *value, bool *legal) {
    static const char *const booleans[] = {
        "release_lock_on_cudamalloc",    "release_lock_on_hipmalloc",
        "pinned_use_cuda_host_register", "pinned_use_background_threads",
        "pinned_free_catch_all",         "graph_capture_record_stream_reuse",
    };
    static const char *const numbers[] = { "pinned_reserve_segment_size_mb",
                                           "pinned_max_round_threshold_mb",
                                           "pinned_max_cached_size_mb" };
    bool b;
    uint64_t n;
    for (size_t i = 0; i < sizeof booleans / sizeof *booleans; i++)
        if (strcmp(key, booleans[i]) == 0) {
            *legal = read_bool(value, &b);
            return true;
        }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i]) == 0) {
            *legal = mt_parse_u64(value, 1, UINT64_MAX, &n);
            return true;
        }
    if (strcmp(key, "pinned_num_register_threads") == 0) {
        *legal = mt_parse_u64(value, 1, 128, &n) && power_of_two(n);
        return true;
    }
    if (strcmp(key, "backend") == 0) {
        *legal = strcmp(value, "native") == 0;
        return true;
    }
    return false;
}

static mt_status read_real_option(torch_options *o, const char *key, const char *value, bool *known,
                                  mt_error *err) {
    double x;
    *known = true;
    if (strcmp(key, "garbage_collection_threshold") == 0) {
        if (!read_real(value, &x) || !(x > 0 && x < 1))
            return wrong(key, value, "a number between 0 and 1, both excluded", err);
        o->garbage_collection_threshold = x;
        return MT_OK;
    }
    if (strcmp(key, "per_process_memory_fraction") == 0) {
        if (!read_real(value, &x) || !(x >= 0 && x <= 1))
            return wrong(key, value, "a number from 0 to 1", err);
        o->fraction = x;
        return MT_OK;
    }
    *known = false;
    return MT_OK;
}

/* Sizes: how they may be depends on large_segment_size_mb, so they are kept as given until the end.
 */
typedef struct given_sizes {
    char max_split[32], max_non_split[32];
} given_sizes;

static mt_status keep(char *to, size_t room, const char *key, const char *value, mt_error *err) {
    if (*value == '\0' || strlen(value) >= room)
        return wrong(key, value, "a number of MiB", err);
    memcpy(to, value, strlen(value) + 1);
    return MT_OK;
}

static mt_status read_option(torch_options *o, given_sizes *sizes, const char *key,
                             const char *value, mt_error *err) {
    bool known, legal;
    mt_status status = read_real_option(o, key, value, &known, err);
    if (known)
        return status;
    if (strcmp(key, "max_split_size_mb") == 0)
        return keep(sizes->max_split, sizeof sizes->max_split, key, value, err);
    if (strcmp(key, "max_non_split_rounding_mb") == 0)
        return keep(sizes->max_non_split, sizeof sizes->max_non_split, key, value, err);
    if (strcmp(key, "large_segment_size_mb") == 0)
        return read_mib(value, 11, &o->large_segment)
                   ? MT_OK
                   : wrong(key, value, "a number of MiB from 11 to 2^40", err);
    if (strcmp(key, "roundup_power2_divisions") == 0)
        return read_divisions(o, key, value, err);
    if (strcmp(key, "expandable_segments") == 0)
        return read_bool(value, &o->expandable_segments) ? MT_OK
                                                         : wrong(key, value, "True or False", err);
    if (strcmp(key, "throw_on_cudamalloc_oom") == 0)
        return read_bool(value, &o->throw_on_cudamalloc_oom)
                   ? MT_OK
                   : wrong(key, value, "True or False", err);
    if (strcmp(key, "version") == 0)
        return read_version(o, value, err);
    if (strcmp(key, "addresses") == 0)
        return read_addresses(o, value, err);
    if (read_ignored(key, value, &legal))
        return legal ? MT_OK : wrong(key, value, "a legal value of this PyTorch option", err);
    return mt_fail(err, MT_BAD, "policy torch: %.60s: there is no option of that name", key);
}

static mt_status read_sizes(torch_options *o, const given_sizes *sizes, mt_error *err) {
    char expected[64];
    uint64_t least = o->large_segment / MT_MIB;
    snprintf(expected, sizeof expected, "a number of MiB from %" PRIu64 " to 2^40", least);
    if (*sizes->max_split && !read_mib(sizes->max_split, least, &o->max_split_size))
        return wrong("max_split_size_mb", sizes->max_split, expected, err);
    o->max_non_split_rounding = o->large_segment;
    if (*sizes->max_non_split && !read_mib(sizes->max_non_split, least, &o->max_non_split_rounding))
        return wrong("max_non_split_rounding_mb", sizes->max_non_split, expected, err);
    return MT_OK;
}

mt_status torch_read_options(torch_options *o, const char *text, mt_error *err) {
    char key[64], value[256];
    mt_status status;
    given_sizes sizes = { "", "" };
    *o = (torch_options){
        .max_split_size = TORCH_UNLIMITED,
        .large_segment = 20 * MT_MIB,
        .fraction = 1,
        .order = MT_ORDER_SEGMENT,
    };
    while (mt_policy_option(&text, key, sizeof key, value, sizeof value, &status, err))
        MT_TRY(read_option(o, &sizes, key, value, err));
    MT_TRY(status);
    return read_sizes(o, &sizes, err);
}

/* ---- the description ------------------------------------------------------------------------- */

static void add(char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *out, size_t room, const char *format, ...) {
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, room - n, format, args);
    va_end(args);
}

static void describe_divisions(const torch_options *o, char *out, size_t room) {
    bool any = false, same = true;
    for (int i = 0; i < TORCH_DIVISIONS; i++) {
        any |= o->division_log2[i] != 0;
        same &= o->division_log2[i] == o->division_log2[0];
    }
    if (!any)
        return;
    if (same) {
        add(out, room, ",roundup_power2_divisions:%u", 1u << o->division_log2[0]);
        return;
    }
    add(out, room, ",roundup_power2_divisions:[");
    for (int i = 0; i < TORCH_DIVISIONS; i++)
        add(out, room, "%s%u:%u", i > 0 ? "," : "", 1u << i,
            o->division_log2[i] ? 1u << o->division_log2[i] : 0);
    add(out, room, "]");
}

void torch_describe(const torch_options *o, char *out, size_t room) {
    static const char *const orders[] = { "", ",version:2.11", ",version:2.12" };
    static const char *const addresses[] = { "", ",addresses:down", ",addresses:reuse" };
    snprintf(out, room, "torch");
    if (o->expandable_segments)
        add(out, room, ",expandable_segments:True");
    if (o->max_split_size != TORCH_UNLIMITED)
        add(out, room, ",max_split_size_mb:%" PRIu64, o->max_split_size / MT_MIB);
    if (o->max_non_split_rounding != o->large_segment)
        add(out, room, ",max_non_split_rounding_mb:%" PRIu64, o->max_non_split_rounding / MT_MIB);
    if (o->large_segment != 20 * MT_MIB)
        add(out, room, ",large_segment_size_mb:%" PRIu64, o->large_segment / MT_MIB);
    if (o->garbage_collection_threshold > 0)
        add(out, room, ",garbage_collection_threshold:%.17g", o->garbage_collection_threshold);
    if (o->fraction < 1)
        add(out, room, ",per_process_memory_fraction:%.17g", o->fraction);
    if (o->throw_on_cudamalloc_oom)
        add(out, room, ",throw_on_cudamalloc_oom:True");
    describe_divisions(o, out, room);
    add(out, room, "%s%s", orders[o->order], addresses[o->addresses]);
}
