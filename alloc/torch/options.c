/* options.c - the options of the torch policy, under PyTorch's names and with its limits.
 *
 * White space is skipped anywhere, as PyTorch does. What other options depend on (the release, the
 * size of large segments) is read first, so that their order does not matter. Options of pinned
 * host memory and of threads are checked, and change nothing here.
 *
 * Besides PyTorch's own there are version:2.8|2.11|2.12|2.13... (the release, 2.15 if not given: it
 * says which options there are, how free blocks of one size are ranked, by address up to 2.11, by
 * age of the record in 2.12, by segment from 2.13 on, and how lists are read),
 * addresses:up|down|reuse (where the driver's next address lies, for replays) and
 * set_per_process_memory_fraction:X (the call of that name before the first request). */
#include "alloc/torch/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RELEASE(major, minor) ((major)*10000u + (minor))
#define NEWEST                RELEASE(2, 15)

typedef struct reader {
    torch_options *o;
    unsigned release;
    bool first; /* the first of two readings */
} reader;

typedef struct option option;
struct option {
    const char *key;
    mt_status (*read)(reader *r, const option *k, char *value, mt_error *err);
    unsigned since; /* the first release that knows it; 0: all that are known here */
    uint64_t least; /* of a number */
    size_t at;      /* its field; 0: none, the value is only checked */
    bool first;     /* read before the others, which depend on it */
};

static mt_status wrong(const option *k, const char *value, const char *expected, mt_error *err) {
    return mt_fail(err, MT_BAD, "policy torch: %s%s%.100s: expected %s", k->key,
                   *value != '\0' ? ":" : " without a value", value, expected);
}

static void *field(const reader *r, const option *k) {
    return (char *)r->o + k->at;
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static mt_status read_bool(reader *r, const option *k, char *value, mt_error *err) {
    bool on = strcmp(value, "True") == 0;
    if (!on && strcmp(value, "False") != 0)
        return wrong(k, value, "True or False", err);
    if (k->at != 0)
        *(bool *)field(r, k) = on;
    return MT_OK;
}

static bool is_real(const char *value, double *out) {
    char *end;
    *out = strtod(value, &end);
    return end != value && *end == '\0' && *out == *out;
}

static mt_status read_threshold(reader *r, const option *k, char *value, mt_error *err) {
    double x;
    if (!is_real(value, &x) || !(x > 0 && x < 1))
        return wrong(k, value, "a number between 0 and 1, both excluded", err);
    r->o->garbage_collection_threshold = x;
    return MT_OK;
}

static mt_status read_fraction(reader *r, const option *k, char *value, mt_error *err) {
    double x;
    if (!is_real(value, &x) || !(x >= 0 && x <= 1))
        return wrong(k, value, "a number from 0 to 1", err);
    *(double *)field(r, k) = x;
    return MT_OK;
}

static bool power_of_two(uint64_t n) {
    return n != 0 && (n & (n - 1)) == 0;
}

/* A number that changes nothing. */
static mt_status check_number(reader *r, const option *k, char *value, mt_error *err) {
    uint64_t n;
    (void)r;
    if (!mt_parse_u64(value, k->least, UINT64_MAX, &n))
        return wrong(k, value, k->least > 0 ? "a number above 0" : "a number", err);
    return MT_OK;
}

static mt_status check_threads(reader *r, const option *k, char *value, mt_error *err) {
    uint64_t n;
    (void)r;
    if (!mt_parse_u64(value, 1, 128, &n) || !power_of_two(n))
        return wrong(k, value, "a power of two, at most 128", err);
    return MT_OK;
}

static mt_status check_backend(reader *r, const option *k, char *value, mt_error *err) {
    (void)r;
    if (strcmp(value, "cudaMallocAsync") == 0)
        return mt_fail(err, MT_BAD,
                       "policy torch: backend:cudaMallocAsync: PyTorch would use the CUDA driver's "
                       "own pool then; `memtrace run --backend cuda --policy async` shows it on a "
                       "real device, predict and replay cannot");
    return strcmp(value, "native") == 0 ? MT_OK : wrong(k, value, "native or cudaMallocAsync", err);
}

static mt_status read_version(reader *r, const option *k, char *value, mt_error *err) {
    unsigned major, minor;
    char rest;
    int n = sscanf(value, "%4u.%4u%c", &major, &minor, &rest);
    if (n < 2 || (n == 3 && rest != '.') || major < 1 || major > 99 || minor > 9999)
        return wrong(k, value, "a PyTorch release such as 2.11", err);
    r->release = RELEASE(major, minor);
    r->o->order = r->release < RELEASE(2, 12)   ? MT_ORDER_ADDRESS
                  : r->release < RELEASE(2, 13) ? MT_ORDER_BIRTH
                                                : MT_ORDER_SEGMENT;
    return MT_OK;
}

static mt_status read_addresses(reader *r, const option *k, char *value, mt_error *err) {
    static const char *const names[] = { "up", "down", "reuse" };
    for (int i = 0; i < 3; i++)
        if (strcmp(value, names[i]) == 0) {
            r->o->addresses = (mt_addresses)i;
            return MT_OK;
        }
    return wrong(k, value, "up, down or reuse", err);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The least of the sizes that may not lie below that of large segments; before 2.10 not at it. */
static mt_status read_mib(reader *r, const option *k, char *value, mt_error *err) {
    uint64_t least = k->least, mib;
    char expected[64];
    if (least == 0)
        least = r->o->large_segment / MT_MIB + (r->release < RELEASE(2, 10));
    if (mt_parse_u64(value, least, UINT64_C(1) << 40, &mib)) {
        *(uint64_t *)field(r, k) = mib * MT_MIB;
        return MT_OK;
    }
    snprintf(expected, sizeof expected, "a number of MiB from %" PRIu64 " to 2^40", least);
    return wrong(k, value, expected, err);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Takes the brackets of a list off; NULL: it has none. */
static char *unbracket(char *value) {
    size_t n = strlen(value);
    if (n < 2 || value[0] != '[' || value[n - 1] != ']')
        return NULL;
    value[n - 1] = '\0';
    return value + 1;
}

/* Cuts "LEFT:RIGHT" off a list; false at its end. *left is NULL when the next item is none. */
static bool next_pair(char **list, char **left, char **right) {
    char *item = strsep(list, ",");
    if (item == NULL || (*item == '\0' && *list == NULL)) /* a comma may stand last */
        return false;
    *left = item;
    *right = strchr(item, ':');
    if (*right == NULL || *right == item || (*right)[1] == '\0' ||
        strpbrk(*right + 1, ":[") != NULL)
        *left = NULL;
    else
        *(*right)++ = '\0';
    return true;
}

/* ---- divisions ------------------------------------------------------------------------------- */

#define DIVISION_MOST 54 /* log2; no size is above 512 of so many divisions */

static bool read_division(const char *text, uint64_t least, uint8_t *log2) {
    uint64_t d;
    if (!mt_parse_u64(text, least, UINT64_MAX, &d) || (d != 0 && !power_of_two(d)))
        return false;
    uint8_t n = d == 0 ? 0 : (uint8_t)(63 - __builtin_clzll(d));
    *log2 = n < DIVISION_MOST ? n : DIVISION_MOST;
    return true;
}

/* One pair, B:V or >:V. *last: entry of the pair before, -1 at first. The first B fills what is
 * below it too; ">" fills what is above the last B, and before 2.10 that one as well. */
static bool read_interval(const reader *r, const char *left, const char *right, int *last) {
    uint8_t *entry = r->o->division_log2, log2;
    uint64_t b;
    int from, to;
    if (!read_division(right, 0, &log2))
        return false;
    if (strcmp(left, ">") == 0) {
        from = (*last < 0 ? 0 : *last) + (r->release >= RELEASE(2, 10));
        to = TORCH_DIVISIONS - 1;
    } else {
        if (!mt_parse_u64(left, 1, UINT64_MAX, &b) || !power_of_two(b))
            return false;
        to = 63 - __builtin_clzll(b);
        to = to < TORCH_DIVISIONS ? to : TORCH_DIVISIONS - 1;
        from = *last < 0 ? 0 : to;
        *last = to;
    }
    for (int i = from; i <= to; i++)
        entry[i] = log2;
    return true;
}

static mt_status read_divisions(reader *r, const option *k, char *value, mt_error *err) {
    uint8_t log2;
    if (*value != '[') {
        if (!read_division(value, 1, &log2))
            return wrong(k, value, "a power of two", err);
        memset(r->o->division_log2, log2, sizeof r->o->division_log2);
        return MT_OK;
    }
    char given[128], *left, *right;
    snprintf(given, sizeof given, "%s", value);
    char *list = unbracket(value);
    bool legal = list != NULL;
    int last = -1;
    while (legal && next_pair(&list, &left, &right))
        legal = left != NULL && read_interval(r, left, right, &last);
    if (legal)
        return MT_OK;
    return wrong(
        k, given,
        "[MiB:divisions,...,>:divisions], intervals powers of two, divisions powers of two "
        "or 0",
        err);
}

/* ---- the reserve of growable segments -------------------------------------------------------- */

/* A fraction such as 0.5, or GiB such as 40G; false for all else, which PyTorch ignores. */
static bool read_size_of_range(const char *text, double *value, bool *gib) {
    char *end;
    if (strspn(text, "0123456789.eE+-gG") != strlen(text))
        return false; /* strtod would read 0x1p4, inf and nan */
    *value = strtod(text, &end);
    *gib = end != text && (*end == 'G' || *end == 'g');
    return end != text && end[*gib] == '\0' && *value > 0 && isfinite(*value);
}

static mt_status read_reserve(reader *r, const option *k, char *value, mt_error *err) {
    torch_options *o = r->o;
    double x;
    bool gib;
    if (*value == '\0' || *value == '[')
        return wrong(k, value, TORCH_RESERVE, err);
    if (!read_size_of_range(value, &x, &gib)) {
        snprintf(o->ignored_reserve, sizeof o->ignored_reserve, "%s", value);
        return MT_OK;
    }
    o->reserve = x;
    o->reserve_gib = gib;
    return MT_OK;
}

static mt_status read_classes(reader *r, const option *k, char *value, mt_error *err) {
    static const char expected[] = "[CLASS:RESERVE,...], at most 500 characters";
    torch_options *o = r->o;
    char *left, *right;
    double x;
    bool gib;
    size_t n = strlen(value);
    if (n >= sizeof o->reserve_by_class)
        return wrong(k, value, expected, err);
    memcpy(o->reserve_by_class, value, n + 1);
    char *list = unbracket(value);
    if (list == NULL)
        return wrong(k, value, expected, err);
    while (next_pair(&list, &left, &right)) {
        if (left == NULL)
            return wrong(k, o->reserve_by_class, expected, err);
        if (!read_size_of_range(right, &x, &gib))
            snprintf(o->ignored_class, sizeof o->ignored_class, "%s", right);
    }
    return MT_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

#define FIELD(name) offsetof(torch_options, name)

static const option options[] = {
    { .key = "version", .read = read_version, .first = true },
    { .key = "backend", .read = check_backend, .first = true },
    { .key = "large_segment_size_mb",
      .read = read_mib,
      .first = true,
      .since = RELEASE(2, 11),
      .least = 11,
      .at = FIELD(large_segment) },
    { .key = "max_split_size_mb", .read = read_mib, .at = FIELD(max_split_size) },
    { .key = "max_non_split_rounding_mb", .read = read_mib, .at = FIELD(max_non_split_rounding) },
    { .key = "roundup_power2_divisions", .read = read_divisions },
    { .key = "garbage_collection_threshold", .read = read_threshold },
    { .key = "per_process_memory_fraction",
      .read = read_fraction,
      .since = RELEASE(2, 10),
      .at = FIELD(fraction) },
    { .key = "expandable_segments", .read = read_bool, .at = FIELD(expandable_segments) },
    { .key = "expandable_segments_reserve", .read = read_reserve, .since = RELEASE(2, 15) },
    { .key = "expandable_segments_reserve_by_class",
      .read = read_classes,
      .since = RELEASE(2, 15) },
    { .key = "throw_on_cudamalloc_oom",
      .read = read_bool,
      .since = RELEASE(2, 12),
      .at = FIELD(throw_on_cudamalloc_oom) },
    { .key = "addresses", .read = read_addresses },
    { .key = "set_per_process_memory_fraction", .read = read_fraction, .at = FIELD(call_fraction) },
    { .key = "graph_capture_record_stream_reuse", .read = read_bool, .since = RELEASE(2, 9) },
    { .key = "release_lock_on_cudamalloc", .read = read_bool },
    { .key = "release_lock_on_hipmalloc", .read = read_bool },
    { .key = "pinned_use_cuda_host_register", .read = read_bool },
    { .key = "pinned_use_hip_host_register", .read = read_bool },
    { .key = "pinned_num_register_threads", .read = check_threads },
    { .key = "pinned_use_background_threads", .read = read_bool },
    { .key = "pinned_reserve_segment_size_mb",
      .read = check_number,
      .since = RELEASE(2, 10),
      .least = 1 },
    { .key = "pinned_free_catch_all", .read = read_bool, .since = RELEASE(2, 12) },
    { .key = "pinned_max_round_threshold_mb", .read = check_number, .since = RELEASE(2, 13) },
    { .key = "pinned_max_cached_size_mb", .read = check_number, .since = RELEASE(2, 13) },
};

static const option *option_of(const char *key) {
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(options[i].key, key) == 0)
            return &options[i];
    return NULL;
}

static mt_status read_option(void *context, const char *key, char *value, mt_error *err) {
    reader *r = context;
    const option *k = option_of(key);
    if (!r->first && k == NULL)
        return mt_fail(err, MT_BAD, "policy torch: unknown option '%.60s'", key);
    if (!r->first && r->release < k->since)
        return mt_fail(err, MT_BAD, "policy torch: %s: PyTorch %u.%u does not know it, %u.%u does",
                       key, r->release / 10000, r->release % 10000, k->since / 10000,
                       k->since % 10000);
    return k != NULL && k->first == r->first ? k->read(r, k, value, err) : MT_OK;
}

/* A copy without white space, and without a comma at its end. */
static char *bare(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    size_t n = 0;
    if (copy == NULL)
        return NULL;
    for (; *text != '\0'; text++)
        if (!isspace((unsigned char)*text))
            copy[n++] = *text;
    copy[n > 1 && copy[n - 1] == ',' ? n - 1 : n] = '\0';
    return copy;
}

static mt_status read_all(reader *r, bool first, const char *text, mt_error *err) {
    char *copy = bare(text);
    if (copy == NULL)
        return mt_no_memory(err, "a policy's options");
    r->first = first;
    mt_status status = mt_policy_options(copy, read_option, r, err);
    free(copy);
    return status;
}

mt_status torch_read_options(torch_options *o, const char *text, mt_error *err) {
    reader r = { .o = o, .release = NEWEST };
    *o = (torch_options){
        .max_split_size = TORCH_UNLIMITED,
        .large_segment = 20 * MT_MIB,
        .fraction = 1,
        .call_fraction = TORCH_NO_CALL,
        .order = MT_ORDER_SEGMENT,
    };
    MT_TRY(read_all(&r, true, text, err));
    o->max_non_split_rounding = o->large_segment;
    MT_TRY(read_all(&r, false, text, err));
    if (o->expandable_segments && o->large_segment % (2 * MT_MIB) != 0)
        return mt_fail(err, MT_BAD,
                       "policy torch: large_segment_size_mb:%" PRIu64
                       ": expected an even number with expandable_segments:True, whose pages are "
                       "multiples of 2 MiB",
                       o->large_segment / MT_MIB);
    return MT_OK;
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
        add(out, room, ",roundup_power2_divisions:%" PRIu64, UINT64_C(1) << o->division_log2[0]);
        return;
    }
    add(out, room, ",roundup_power2_divisions:[");
    for (int i = 0; i < TORCH_DIVISIONS; i++)
        add(out, room, "%s%u:%" PRIu64, i > 0 ? "," : "", 1u << i,
            o->division_log2[i] ? UINT64_C(1) << o->division_log2[i] : 0);
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
    if (o->call_fraction != TORCH_NO_CALL)
        add(out, room, ",set_per_process_memory_fraction:%.17g", o->call_fraction);
    if (o->reserve > 0)
        add(out, room, ",expandable_segments_reserve:%.17g%s", o->reserve,
            o->reserve_gib ? "G" : "");
    if (*o->reserve_by_class != '\0')
        add(out, room, ",expandable_segments_reserve_by_class:%s", o->reserve_by_class);
    if (o->throw_on_cudamalloc_oom)
        add(out, room, ",throw_on_cudamalloc_oom:True");
    describe_divisions(o, out, room);
    add(out, room, "%s%s", orders[o->order], addresses[o->addresses]);
}
