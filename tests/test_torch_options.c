/* test_torch_options.c - the options of the torch policy: which values are legal, what they mean,
 * and that the description of a policy is a policy that describes itself the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/torch/internal.h"
#include "base/size.h"

#define DESCRIPTION MT_DESCRIPTION

static mt_source *source;

static int open_source(void **state) {
    (void)state;
    return mt_source_sim(&source, MT_GIB, 2 * MT_MIB, NULL) != MT_OK;
}

static int close_source(void **state) {
    (void)state;
    source->close(source);
    return 0;
}

/* The policy with these options, opened; the options read are copied out. */
static mt_alloc *opened(const char *options, torch_options *o) {
    char spec[2100];
    mt_alloc *a;
    mt_error err;
    snprintf(spec, sizeof spec, "torch%s%s", *options ? "," : "", options);
    if (mt_alloc_open(&a, source, spec, &err) != MT_OK)
        fail_msg("%s", err.text);
    *o = ((const torch *)mt_alloc_policy_of(a))->options;
    return a;
}

/* The notes about options, one a line. */
static void notes(const char *options, const char *const *words, uint32_t count) {
    torch_options o;
    mt_alloc *a = opened(options, &o);
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(mt_alloc_note(a, i));
        if (strstr(mt_alloc_note(a, i), words[i]) == NULL)
            fail_msg("%s: expected \"%s\" in \"%s\"", options, words[i], mt_alloc_note(a, i));
        assert_null(strchr(mt_alloc_note(a, i), '\n'));
    }
    if (mt_alloc_note(a, count) != NULL)
        fail_msg("%s: one more note: %s", options, mt_alloc_note(a, count));
    mt_alloc_close(a);
}

#define NOTES(options, ...)                                                                        \
    notes(options, (const char *const[]){ __VA_ARGS__ },                                           \
          sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static torch_options legal(const char *options) {
    torch_options o;
    mt_alloc_close(opened(options, &o));
    return o;
}

/* Refused, with a line that holds all the words. */
static void illegal(const char *options, const char *words) {
    char spec[2100];
    mt_alloc *a = NULL;
    mt_error err = { MT_OK, "" };
    snprintf(spec, sizeof spec, "torch,%s", options);
    if (mt_alloc_open(&a, source, spec, &err) != MT_BAD)
        fail_msg("%s is not refused", spec);
    assert_null(a);
    assert_int_equal(err.status, MT_BAD);
    assert_null(strchr(err.text, '\n'));
    if (strstr(err.text, words) == NULL)
        fail_msg("%s: expected \"%s\" in \"%s\"", spec, words, err.text);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void test_defaults(void **state) {
    (void)state;
    torch_options o = legal("");
    assert_int_equal(o.max_split_size, UINT64_MAX);
    assert_int_equal(o.large_segment, 20971520);
    assert_int_equal(o.max_non_split_rounding, 20971520);
    assert_int_equal(o.order, MT_ORDER_SEGMENT);
    assert_int_equal(o.addresses, MT_ADDRESSES_UP);
    assert_false(o.expandable_segments);
    assert_false(o.throw_on_cudamalloc_oom);
    assert_true(o.fraction == 1);
    assert_true(o.garbage_collection_threshold == 0);
    for (int i = 0; i < TORCH_DIVISIONS; i++)
        assert_int_equal(o.division_log2[i], 0);
}

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(legal("max_split_size_mb:20").max_split_size, 20971520);
    assert_int_equal(legal("max_split_size_mb:128").max_split_size, 134217728);
    illegal("max_split_size_mb:19",
            "max_split_size_mb:19: expected a number of MiB from 20 to 2^40");
    illegal("max_split_size_mb:0", "from 20 to 2^40");
    illegal("max_split_size_mb:-1", "from 20 to 2^40");
    illegal("max_split_size_mb:x", "from 20 to 2^40");
    illegal("max_split_size_mb:20.5", "from 20 to 2^40");
    illegal("max_split_size_mb:20MiB", "from 20 to 2^40");
    illegal("max_split_size_mb:99999999999999999999", "from 20 to 2^40");
    illegal("max_split_size_mb:2000000000000", "from 20 to 2^40");
    assert_int_equal(legal("max_non_split_rounding_mb:20").max_non_split_rounding, 20971520);
    assert_int_equal(legal("max_non_split_rounding_mb:64").max_non_split_rounding, 67108864);
    illegal("max_non_split_rounding_mb:19", "max_non_split_rounding_mb:19: expected");
    assert_int_equal(legal("large_segment_size_mb:11").large_segment, 11534336);
    illegal("large_segment_size_mb:10",
            "large_segment_size_mb:10: expected a number of MiB from 11");
    illegal("large_segment_size_mb:0", "from 11 to 2^40");
    illegal("large_segment_size_mb:", "from 11 to 2^40");
}

/* The least of the other two sizes is that of large segments, in whichever order they come. */
static void test_sizes_together(void **state) {
    (void)state;
    torch_options o = legal("large_segment_size_mb:64,max_split_size_mb:64");
    assert_int_equal(o.max_split_size, 67108864);
    assert_int_equal(o.max_non_split_rounding, 67108864);
    o = legal("max_split_size_mb:64,large_segment_size_mb:64");
    assert_int_equal(o.max_split_size, 67108864);
    illegal("large_segment_size_mb:64,max_split_size_mb:63", "from 64 to 2^40");
    illegal("max_split_size_mb:63,large_segment_size_mb:64", "from 64 to 2^40");
    illegal("max_non_split_rounding_mb:63,large_segment_size_mb:64", "from 64 to 2^40");
    assert_int_equal(legal("large_segment_size_mb:11,max_split_size_mb:11").max_split_size,
                     11534336);
}

/* ---- divisions ------------------------------------------------------------------------------- */

/* The division counts of the 16 intervals, 0 where off. */
static void divisions(const char *value, const unsigned expected[TORCH_DIVISIONS]) {
    char options[200];
    snprintf(options, sizeof options, "roundup_power2_divisions:%s", value);
    torch_options o = legal(options);
    for (int i = 0; i < TORCH_DIVISIONS; i++)
        assert_int_equal(o.division_log2[i] == 0 ? 0 : 1u << o.division_log2[i], expected[i]);
}

static void test_divisions(void **state) {
    (void)state;
    const unsigned off[16] = { 0 };
    const unsigned four[16] = { 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 };
    const unsigned above[16] = { 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 };
    divisions("1", off); /* one division is none */
    divisions("4", four);
    divisions("[>:2]", above);
    divisions("[>:0]", off);
    divisions("[1:2,>:2]", (const unsigned[16]){ 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 });
    /* The first pair fills what is below it, the others only their own interval. */
    divisions("[4:8]", (const unsigned[16]){ 8, 8, 8 });
    divisions("[4:8,16:2]", (const unsigned[16]){ 8, 8, 8, 0, 2 });
    divisions("[4:8,16:2,>:4]",
              (const unsigned[16]){ 8, 8, 8, 0, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 });
    divisions("[256:1,512:2,1024:4,>:8]",
              (const unsigned[16]){ 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 8, 8, 8, 8, 8 });
    divisions("[4:8,8:0,16:2]", (const unsigned[16]){ 8, 8, 8, 0, 2 });
    /* 32 GiB and all above it are one interval. */
    divisions("[1:2,32768:8]", (const unsigned[16]){ 2, [15] = 8 });
    divisions("[1:2,65536:8]", (const unsigned[16]){ 2, [15] = 8 });
    divisions("[32768:16]", (const unsigned[16]){ 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
                                                  16, 16, 16, 16 });
    /* A later list leaves what it does not name. */
    divisions("8,roundup_power2_divisions:[2:4]",
              (const unsigned[16]){ 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 });
    divisions("4,roundup_power2_divisions:[]", four);
    divisions("[4:8,]", (const unsigned[16]){ 8, 8, 8 });
    divisions("[>:8,256:1]", (const unsigned[16]){ [9] = 8, 8, 8, 8, 8, 8, 8 });
    divisions("[32768:2,>:4]",
              (const unsigned[16]){ 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 });
    assert_int_equal(legal("roundup_power2_divisions:2097152").division_log2[0], 21);
}

/* Before 2.10 the interval named last counts as above itself. */
static void test_old_divisions(void **state) {
    (void)state;
    divisions("[256:1,512:2,1024:4,>:8],version:2.9.1",
              (const unsigned[16]){ [9] = 2, 8, 8, 8, 8, 8, 8 });
    divisions("[>:8],version:2.8",
              (const unsigned[16]){ 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 });
    divisions("[32768:2,>:4],version:2.8",
              (const unsigned[16]){ 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4 });
    divisions("[1:4,>:8],version:2.10",
              (const unsigned[16]){ 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 });
}

static void test_illegal_divisions(void **state) {
    (void)state;
    static const char *const bad[] = {
        "0",
        "3",
        "-4",
        "x",
        "",
        "4.0",
        "[",
        "[,]",
        "[4]",
        "[4:3]",
        "[3:4]",
        "[0:4]",
        "[4:-2]",
        "[:4]",
        "[4:]",
        "[>]",
        "[>:]",
        "[>:3]",
        "[4:8,16]",
        "[4:8,",
        "[4:8],1",
        "[x:2]",
        "[4:8,3:2]",
        "[4:8,16:5]",
        "[>:2,x]",
        "[4:8,,8:2]",
        "[4:8,16:123456789012345678901234567890123456789012345678901234567890]",
    };
    char options[200];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(options, sizeof options, "roundup_power2_divisions:%s", bad[i]);
        illegal(options, "policy");
    }
    illegal("roundup_power2_divisions:00", "expected a power of two");
    illegal("roundup_power2_divisions:[4:8,2:3]", "roundup_power2_divisions:[4:8,2:3]: expected [");
}

/* ---- numbers, booleans, names ---------------------------------------------------------------- */

static void test_reals(void **state) {
    (void)state;
    assert_true(legal("garbage_collection_threshold:0.8").garbage_collection_threshold == 0.8);
    assert_true(legal("garbage_collection_threshold:1e-3").garbage_collection_threshold == 1e-3);
    illegal("garbage_collection_threshold:0", "between 0 and 1, both excluded");
    illegal("garbage_collection_threshold:0.0", "both excluded");
    illegal("garbage_collection_threshold:1", "both excluded");
    illegal("garbage_collection_threshold:1.0", "both excluded");
    illegal("garbage_collection_threshold:-0.5", "both excluded");
    illegal("garbage_collection_threshold:nan", "both excluded");
    illegal("garbage_collection_threshold:half", "both excluded");
    illegal("garbage_collection_threshold:", "both excluded");
    illegal("garbage_collection_threshold:0.5x", "both excluded");
    assert_true(legal("per_process_memory_fraction:0").fraction == 0);
    assert_true(legal("per_process_memory_fraction:0.25").fraction == 0.25);
    assert_true(legal("per_process_memory_fraction:1.0").fraction == 1);
    illegal("per_process_memory_fraction:1.01", "a number from 0 to 1");
    illegal("per_process_memory_fraction:-0.01", "a number from 0 to 1");
    illegal("per_process_memory_fraction:inf", "a number from 0 to 1");
    illegal("per_process_memory_fraction:", "a number from 0 to 1");
}

/* The limit is the part of the device rounded down; at 1 there is none. */
static void test_limit(void **state) {
    (void)state;
    static const struct {
        const char *options;
        uint64_t limit;
    } e[] = {
        { "", UINT64_MAX },
        { "per_process_memory_fraction:1", UINT64_MAX },
        { "per_process_memory_fraction:0.5", 536870912 },
        { "per_process_memory_fraction:0.3", 322122547 },
        { "per_process_memory_fraction:0", 0 },
    };
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        torch_options o;
        mt_alloc *a = opened(e[i].options, &o);
        assert_int_equal(((const torch *)mt_alloc_policy_of(a))->limit, e[i].limit);
        mt_alloc_close(a);
    }
}

/* The call goes before the option, for the limit; 1 is none. */
static void test_call(void **state) {
    (void)state;
    static const struct {
        const char *options;
        uint64_t limit;
    } e[] = {
        { "set_per_process_memory_fraction:0.5", 536870912 },
        { "set_per_process_memory_fraction:0.5,per_process_memory_fraction:0.3", 536870912 },
        { "per_process_memory_fraction:0.5,set_per_process_memory_fraction:0.3", 322122547 },
        { "per_process_memory_fraction:0.5,set_per_process_memory_fraction:1", UINT64_MAX },
        { "set_per_process_memory_fraction:0", 0 },
    };
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        torch_options o;
        mt_alloc *a = opened(e[i].options, &o);
        assert_int_equal(((const torch *)mt_alloc_policy_of(a))->limit, e[i].limit);
        mt_alloc_close(a);
    }
    illegal("set_per_process_memory_fraction:2", "a number from 0 to 1");
}

/* throw_on_cudamalloc_oom rejects by the option's fraction, and only what the limit allows. */
static void test_rejections(void **state) {
    (void)state;
    static const struct {
        const char *options;
        uint64_t rejections, ooms;
    } e[] = {
        { "per_process_memory_fraction:0.3,set_per_process_memory_fraction:0.7", 1, 0 },
        { "per_process_memory_fraction:0.3", 0, 1 },
        { "set_per_process_memory_fraction:0.3", 0, 1 },
        { "per_process_memory_fraction:0.7,set_per_process_memory_fraction:0.3", 0, 1 },
        { "set_per_process_memory_fraction:0.7", 0, 0 },
    };
    mt_request r = { .bytes = 400 * MT_MIB, .tag = MT_OTHER, .layer = -1 };
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        char options[200];
        torch_options o;
        mt_mem mem;
        snprintf(options, sizeof options, "throw_on_cudamalloc_oom:True,%s", e[i].options);
        mt_alloc *a = opened(options, &o);
        mt_status expected = e[i].rejections + e[i].ooms > 0 ? MT_NO_MEMORY : MT_OK;
        assert_int_equal(mt_alloc_get(a, &r, &mem, NULL), expected);
        assert_int_equal(mt_alloc_torch_stats(a)->num_oom_rejections, e[i].rejections);
        assert_int_equal(mt_alloc_torch_stats(a)->num_ooms, e[i].ooms);
        mt_alloc_close(a);
    }
}

static void test_booleans(void **state) {
    (void)state;
    static const char *const keys[] = {
        "expandable_segments",           "throw_on_cudamalloc_oom",
        "release_lock_on_cudamalloc",    "release_lock_on_hipmalloc",
        "pinned_use_cuda_host_register", "pinned_use_background_threads",
        "pinned_free_catch_all",         "graph_capture_record_stream_reuse"
    };
    static const char *const bad[] = {
        "true", "TRUE", "false", "1", "0", "yes", "", "Tru", "TrueX"
    };
    char options[100];
    assert_true(legal("expandable_segments:True").expandable_segments);
    assert_false(legal("expandable_segments:False").expandable_segments);
    assert_false(legal("expandable_segments:True,expandable_segments:False").expandable_segments);
    assert_true(legal("throw_on_cudamalloc_oom:True").throw_on_cudamalloc_oom);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        snprintf(options, sizeof options, "%s:True", keys[k]);
        legal(options);
        snprintf(options, sizeof options, "%s:False", keys[k]);
        legal(options);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            snprintf(options, sizeof options, "%s:%s", keys[k], bad[i]);
            illegal(options, keys[k]);
        }
    }
}

/* Options of pinned host memory and of threads are checked and change nothing. */
static void test_ignored(void **state) {
    (void)state;
    torch_options with = legal("backend:native,pinned_num_register_threads:128,"
                               "pinned_reserve_segment_size_mb:1,pinned_max_cached_size_mb:512,"
                               "pinned_max_round_threshold_mb:256");
    torch_options without = legal("");
    assert_memory_equal(&with, &without, sizeof with);
    with = legal("pinned_max_cached_size_mb:0,pinned_use_hip_host_register:False");
    assert_memory_equal(&with, &without, sizeof with);
    illegal("backend:cudaMallocAsync", "memtrace run --backend cuda --policy async");
    illegal("nonsense:1,backend:cudaMallocAsync", "--policy async"); /* PyTorch reads no more */
    illegal("backend:", "backend");
    illegal("backend:cuda", "expected native or cudaMallocAsync");
    illegal("pinned_num_register_threads:3", "pinned_num_register_threads");
    illegal("pinned_num_register_threads:256", "pinned_num_register_threads");
    illegal("pinned_num_register_threads:0", "pinned_num_register_threads");
    illegal("pinned_reserve_segment_size_mb:0", "pinned_reserve_segment_size_mb");
    illegal("pinned_max_cached_size_mb:many", "pinned_max_cached_size_mb");
}

static void test_keys(void **state) {
    (void)state;
    char key[300];
    illegal("max_split_size:20", "unknown option 'max_split_size'");
    illegal("Expandable_segments:True", "unknown option");
    illegal("roundup_bypass_threshold_mb:20", "unknown option");
    illegal("max_split_size_mb20", "unknown option 'max_split_size_mb20'");
    illegal(",max_split_size_mb:20", "expected key:value");
    legal("max_split_size_mb:20,");
    illegal("max_split_size_mb:20,,expandable_segments:True", "expected key:value");
    illegal(":20", "expected key:value");
    /* Words longer than any that is known. */
    memset(key, 'k', sizeof key);
    key[299] = '\0';
    illegal(key, "unknown option 'kkk");
    memcpy(key, "max_split_size_mb:", 18);
    illegal(key, "policy");
    key[18 + 40] = '\0';
    illegal(key, "expected a number of MiB");
}

/* White space is skipped wherever it stands, as PyTorch does, and so is a comma at the end. */
static void test_blanks(void **state) {
    (void)state;
    torch_options plain = legal("max_split_size_mb:32,roundup_power2_divisions:[256:2,>:4]");
    static const char *const same[] = {
        "max_split_size_mb:32, roundup_power2_divisions:[256:2,>:4]",
        " max_split_size_mb : 3 2\t,\n roundup_power2_divisions : [ 256 : 2 , > : 4 ] ",
        "max_split_size_mb:32,roundup_power2_divisions:[256:2,>:4],",
        "max_split_size_mb:32,roundup_power2_divisions:[256:2,>:4] , ",
        "max_split_size_mb:64,max_split_size_mb:32,roundup_power2_divisions:[256:2,>:4]",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        torch_options o = legal(same[i]);
        assert_memory_equal(&o, &plain, sizeof o);
    }
    legal("   ");
    illegal(" , ", "expected key:value");
}

/* Text of any length: 400 options, 5,000 blanks. */
static void test_long(void **state) {
    (void)state;
    static char text[20000], spec[20100];
    mt_alloc *a;
    for (int i = 0; i < 400; i++)
        strcat(text, "max_split_size_mb:20,");
    memset(text + strlen(text), ' ', 5000);
    strcat(text, "max_split_size_mb:64");
    snprintf(spec, sizeof spec, "torch,%s", text);
    assert_int_equal(mt_alloc_open(&a, source, spec, NULL), MT_OK);
    assert_string_equal(mt_alloc_policy(a), "torch,max_split_size_mb:64");
    mt_alloc_close(a);
}

/* ---- the reserve of growable segments -------------------------------------------------------- */

static void test_reserve(void **state) {
    (void)state;
    static const struct {
        const char *value;
        uint64_t range; /* on a device of 1 GiB */
    } e[] = {
        { "0.5", 536870912 },     { ".5", 536870912 },       { "+0.5", 536870912 },
        { "1e-1", 107374182 },    { "1", 1073741824 },       { "1.", 1073741824 },
        { "1.01", 1084479242 },   { "1.5", 1207959552 },     { "9", 1207959552 },
        { "0.25G", 268435456 },   { "1G", 1073741824 },      { "1g", 1073741824 },
        { "1 G", 1073741824 },    { "1 . 1 G", 1181116006 }, { "40G", 1207959552 },
        { "1e308G", 1207959552 }, { "0.0000001G", 107 },
    };
    static const char *const ignored[] = {
        "0",   "0G", "-1",  "-0.5G", "nan", "inf", "1e309G", "1e-400", "0x1G", "0x1p-1",
        "64M", "1T", "1GB", "1GiB",  "G",   "x",   "0.5x",   "1_0G",   "1GG",  "1G1",
    };
    char options[128];
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        torch_options o;
        snprintf(options, sizeof options, "expandable_segments_reserve:%s", e[i].value);
        mt_alloc *a = opened(options, &o);
        assert_int_equal(((const torch *)mt_alloc_policy_of(a))->range, e[i].range);
        assert_null(mt_alloc_note(a, 0));
        mt_alloc_close(a);
    }
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        snprintf(options, sizeof options,
                 "expandable_segments_reserve:0.5G,expandable_segments_reserve:%s", ignored[i]);
        assert_true(legal(options).reserve == 0.5); /* the value before stays */
        NOTES(options, "is ignored, as PyTorch does: expected a fraction");
    }
    illegal("expandable_segments_reserve:", "without a value");
    illegal("expandable_segments_reserve", "without a value");
    illegal("expandable_segments_reserve:[1G]", "expected a fraction");
}

static void test_reserve_by_class(void **state) {
    (void)state;
    static const char *const bad[] = { "",      "a:1G",  "1G",           "[a]",      "[a:]",
                                       "[:1G]", "[a:1G", "[a:1G,,b:1G]", "[a:b:1G]", "a:1G]" };
    char options[700], list[600];
    NOTES("expandable_segments_reserve_by_class:[]", "changes nothing: a program gives classes");
    NOTES("expandable_segments_reserve_by_class:[a-b:1G, default:0.5,]", "changes nothing");
    NOTES("expandable_segments_reserve_by_class:[a:64M,b:1G]", "64M is ignored", "changes nothing");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(options, sizeof options, "expandable_segments_reserve_by_class:%s", bad[i]);
        illegal(options, "expected [CLASS:RESERVE,...]");
    }
    memset(list, 'a', sizeof list);
    snprintf(list + 495, sizeof list - 495, ":1G]");
    list[0] = '[';
    snprintf(options, sizeof options, "expandable_segments_reserve_by_class:%s", list);
    legal(options);
    snprintf(list + 495, sizeof list - 495, ":1.00G]");
    snprintf(options, sizeof options, "expandable_segments_reserve_by_class:%s", list);
    illegal(options, "at most 500 characters");
}

/* A request larger than a range: the range is given back, all that is free is released, and the
 * same once more. A range that is full is followed by another. */
static void test_small_range(void **state) {
    (void)state;
    torch_options o;
    mt_alloc *a = opened("expandable_segments:True,expandable_segments_reserve:0.1G", &o);
    mt_request r = { .bytes = 100 * MT_MIB, .tag = MT_OTHER, .layer = -1 };
    mt_mem mem;
    mt_live_info info;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(mt_alloc_get(a, &r, &mem, NULL), MT_OK);
        assert_int_equal(mt_alloc_info(a, mem, &info, NULL), MT_OK);
        assert_int_equal(info.segment, i);
    }
    r.bytes = 121 * MT_MIB; /* 0.1 GiB in pages of 20 MiB are 120 MiB */
    assert_int_equal(mt_alloc_get(a, &r, &mem, NULL), MT_NO_MEMORY);
    assert_int_equal(mt_alloc_torch_stats(a)->num_ooms, 1);
    r.bytes = 120 * MT_MIB;
    assert_int_equal(mt_alloc_get(a, &r, &mem, NULL), MT_OK);
    assert_int_equal(mt_alloc_info(a, mem, &info, NULL), MT_OK);
    assert_int_equal(info.segment, 5); /* two were tried and given back */
    assert_int_equal(mt_alloc_check(a, NULL), MT_OK);
    mt_alloc_close(a);
}

/* A threshold without a limit does nothing in PyTorch. */
static void test_notes(void **state) {
    (void)state;
    NOTES("garbage_collection_threshold:0.8", "garbage_collection_threshold changes nothing");
    NOTES("garbage_collection_threshold:0.8,per_process_memory_fraction:1", "changes nothing");
    notes("garbage_collection_threshold:0.8,per_process_memory_fraction:0.9", NULL, 0);
    notes("garbage_collection_threshold:0.8,set_per_process_memory_fraction:0.9", NULL, 0);
    notes("expandable_segments:True", NULL, 0);
}

/* ---- releases and addresses ------------------------------------------------------------------ */

static void test_versions(void **state) {
    (void)state;
    static const struct {
        const char *value;
        mt_order order;
    } e[] = {
        { "1.13", MT_ORDER_ADDRESS },   { "2.1", MT_ORDER_ADDRESS },
        { "2.9.1", MT_ORDER_ADDRESS },  { "2.11", MT_ORDER_ADDRESS },
        { "2.11.0", MT_ORDER_ADDRESS }, { "2.12", MT_ORDER_BIRTH },
        { "2.12.1", MT_ORDER_BIRTH },   { "2.13", MT_ORDER_SEGMENT },
        { "2.15.0", MT_ORDER_SEGMENT }, { "2.100", MT_ORDER_SEGMENT },
        { "3.0", MT_ORDER_SEGMENT },
    };
    static const char *const bad[] = { "",      "2",   "2.",    "x",    "2.x", "-2.11", "2.-1",
                                       "2.11x", "0.4", "v2.11", "2,11", ".11", "100.1" };
    char options[64];
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        snprintf(options, sizeof options, "version:%s", e[i].value);
        assert_int_equal(legal(options).order, e[i].order);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(options, sizeof options, "version:%s", bad[i]);
        illegal(options, "");
    }
}

/* Options that a release does not know are none, wherever the release is named. */
static void test_since(void **state) {
    (void)state;
    static const struct {
        const char *option, *before, *from;
    } e[] = {
        { "large_segment_size_mb:20", "2.10", "2.11" },
        { "per_process_memory_fraction:1", "2.9.1", "2.10.0" },
        { "throw_on_cudamalloc_oom:True", "2.11.0", "2.12.1" },
        { "pinned_max_cached_size_mb:1", "2.12", "2.13" },
        { "expandable_segments_reserve:1G", "2.14.1", "2.15.0" },
        { "expandable_segments_reserve_by_class:[]", "2.14", "3.0" },
    };
    char options[200];
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        legal(e[i].option);
        snprintf(options, sizeof options, "version:%s,%s", e[i].from, e[i].option);
        legal(options);
        snprintf(options, sizeof options, "%s,version:%s", e[i].option, e[i].before);
        illegal(options, "does not know it");
    }
    legal("version:2.8,max_split_size_mb:21");
    illegal("version:2.9,max_split_size_mb:20", "from 21 to 2^40");
    legal("version:2.10,max_split_size_mb:20");
}

/* Pages that no device maps. */
static void test_odd_pages(void **state) {
    (void)state;
    legal("large_segment_size_mb:21");
    legal("large_segment_size_mb:22,expandable_segments:True");
    illegal("expandable_segments:True,large_segment_size_mb:21", "expected an even number");
}

static void test_addresses(void **state) {
    (void)state;
    assert_int_equal(legal("addresses:up").addresses, MT_ADDRESSES_UP);
    assert_int_equal(legal("addresses:down").addresses, MT_ADDRESSES_DOWN);
    assert_int_equal(legal("addresses:reuse").addresses, MT_ADDRESSES_REUSE);
    illegal("addresses:Up", "up, down or reuse");
    illegal("addresses:", "up, down or reuse");
}

/* Where segments lie decides between equal blocks only in the release that ranks by address. */
static void check_choice(const char *options, uint32_t segment) {
    torch_options o;
    mt_alloc *a = opened(options, &o);
    mt_request r = { .bytes = 12 * MT_MIB, .tag = MT_KV, .layer = -1 };
    mt_mem mem[3];
    mt_live_info info;
    for (int i = 0; i < 3; i++)
        assert_int_equal(mt_alloc_get(a, &r, &mem[i], NULL), MT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mt_alloc_put(a, &mem[(i + 1) % 3], NULL), MT_OK);
    assert_int_equal(mt_alloc_get(a, &r, &mem[0], NULL), MT_OK);
    assert_int_equal(mt_alloc_info(a, mem[0], &info, NULL), MT_OK);
    assert_int_equal(info.segment, segment);
    mt_alloc_close(a);
}

static void test_choice(void **state) {
    (void)state;
    check_choice("", 0);
    check_choice("addresses:down", 0);
    check_choice("version:2.11", 0);
    check_choice("version:2.11,addresses:down", 2);
    check_choice("version:2.12,addresses:down", 0);
}

/* ---- the description ------------------------------------------------------------------------- */

/* What a policy says of itself opens the same policy, and says the same. */
static void round_trip(const char *options, const char *expected) {
    torch_options first, second;
    char text[DESCRIPTION];
    mt_alloc *a = opened(options, &first);
    snprintf(text, sizeof text, "%s", mt_alloc_policy(a));
    mt_alloc_close(a);
    if (expected != NULL)
        assert_string_equal(text, expected);
    assert_memory_equal(text, "torch", 5);
    assert_true(strlen(text) < DESCRIPTION - 1);
    a = opened(text[5] == ',' ? text + 6 : "", &second);
    assert_string_equal(mt_alloc_policy(a), text);
    assert_memory_equal(&first, &second, sizeof first);
    mt_alloc_close(a);
}

static void test_descriptions(void **state) {
    (void)state;
    round_trip("", "torch");
    round_trip("expandable_segments:False,version:2.15.0,addresses:up", "torch");
    round_trip("backend:native,max_split_size_mb:20,expandable_segments:True",
               "torch,expandable_segments:True,max_split_size_mb:20");
    round_trip("max_non_split_rounding_mb:20", "torch");
    round_trip("max_non_split_rounding_mb:33", "torch,max_non_split_rounding_mb:33");
    round_trip("max_split_size_mb:40,large_segment_size_mb:30",
               "torch,max_split_size_mb:40,large_segment_size_mb:30");
    round_trip("roundup_power2_divisions:4", "torch,roundup_power2_divisions:4");
    round_trip("roundup_power2_divisions:1", "torch");
    round_trip("roundup_power2_divisions:[>:2]", NULL);
    round_trip("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", NULL);
    round_trip("version:2.11", "torch,version:2.11");
    round_trip("version:2.12.1,addresses:down", "torch,version:2.12,addresses:down");
    round_trip("addresses:reuse", "torch,addresses:reuse");
    round_trip("garbage_collection_threshold:0.8,per_process_memory_fraction:0.3", NULL);
    round_trip("per_process_memory_fraction:0", NULL);
    round_trip("per_process_memory_fraction:0.33333333333333331", NULL);
    round_trip("throw_on_cudamalloc_oom:True", "torch,throw_on_cudamalloc_oom:True");
    round_trip("expandable_segments_reserve: 1.5 g", "torch,expandable_segments_reserve:1.5G");
    round_trip("expandable_segments_reserve:0.5", "torch,expandable_segments_reserve:0.5");
    round_trip("expandable_segments_reserve_by_class:[a:1G, b:0.5]",
               "torch,expandable_segments_reserve_by_class:[a:1G,b:0.5]");
    round_trip("set_per_process_memory_fraction:0.5", "torch,set_per_process_memory_fraction:0.5");
}

/* The longest description that there is still fits. */
static void test_longest_description(void **state) {
    (void)state;
    char options[2000] = "expandable_segments:True,max_split_size_mb:1099511627776,"
                         "max_non_split_rounding_mb:1099511627776,"
                         "large_segment_size_mb:1099511627774,"
                         "garbage_collection_threshold:4.9406564584124654e-320,"
                         "per_process_memory_fraction:2.2250738585072014e-308,"
                         "set_per_process_memory_fraction:2.2250738585072014e-308,"
                         "expandable_segments_reserve:2.2250738585072014e-308G,"
                         "throw_on_cudamalloc_oom:True,version:2.15,addresses:reuse,"
                         "roundup_power2_divisions:[1:524288";
    for (int i = 1; i < 16; i++) {
        size_t n = strlen(options);
        snprintf(options + n, sizeof options - n, ",%u:%llu", 1u << i, 1ull << (63 - i % 2));
    }
    strcat(options, "],expandable_segments_reserve_by_class:[");
    memset(options + strlen(options), 'a', 490);
    strcat(options, ":1G]");
    round_trip(options, NULL);
}

/* Descriptions of the other policies, likewise. */
static void test_other_descriptions(void **state) {
    (void)state;
    static const char *const specs[][2] = {
        { "block:2MiB", "block:2097152,round:512,fit:best,keep:all" },
        { "block:64KiB,round:256,fit:first,keep:none",
          "block:65536,round:256,fit:first,keep:none" },
        { "direct", "direct:4096" },
        { "direct:64KiB", "direct:65536" },
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int k = 0; k < 2; k++) {
            mt_alloc *a;
            assert_int_equal(mt_alloc_open(&a, source, specs[i][k], NULL), MT_OK);
            assert_string_equal(mt_alloc_policy(a), specs[i][1]);
            mt_alloc_close(a);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sizes_together),
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_old_divisions),
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_rejections),
        cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_reserve_by_class),
        cmocka_unit_test(test_small_range),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_since),
        cmocka_unit_test(test_odd_pages),
        cmocka_unit_test(test_illegal_divisions),
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_booleans),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_longest_description),
        cmocka_unit_test(test_other_descriptions),
    };
    return cmocka_run_group_tests_name("torch options", tests, open_source, close_source);
}
