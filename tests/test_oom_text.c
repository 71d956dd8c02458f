/* test_oom_text.c - PyTorch's out-of-memory messages, in the words of every release from 1.0 to
 * 2.15, as they stand in logs. The figures are our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"
#include "reports/oom_text.h"

#define NONE MT_OOM_UNKNOWN

/* n hundredths of a unit, as a message shows sizes with two decimals. */
#define MIB(n) (((n)*MT_MIB + 50) / 100)
#define GIB(n) (((n)*MT_GIB + 50) / 100)

typedef struct text_case {
    const char *text;
    mt_oom_kind kind;
    uint64_t tried, capacity, free, allocated, unallocated, reserved, outside, other;
    int closes;
    int64_t device, rank;
} text_case;

static const text_case CASES[] = {
    /* ---- 1.0 to 1.3 ---- */
    { "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.92 GiB total "
      "capacity; 10.12 GiB already allocated; 10.38 MiB free; 17.12 MiB cached)",
      MT_OOM_GRANULARITY, MIB(2000), GIB(1092), MIB(1038), GIB(1012), MIB(1712),
      GIB(1012) + MIB(1712), NONE, NONE, 1, 0, -1 },
    { "CUDA out of memory. Tried to allocate 1.17 GiB (GPU 3; 11.17 GiB total capacity; 7.41 GiB "
      "already allocated; 620.56 MiB free; 2.58 GiB cached)",
      MT_OOM_FRAGMENTED, GIB(117), GIB(1117), MIB(62056), GIB(741), GIB(258), GIB(741) + GIB(258),
      NONE, NONE, 1, 3, -1 },
    { "RuntimeError: CUDA out of memory. Tried to allocate 746.00 MiB (GPU 1; 7.93 GiB total "
      "capacity; 6.88 GiB already allocated; 301.94 MiB free; 212.50 MiB cached) (malloc at "
      "/pytorch/c10/cuda/CUDACachingAllocator.cpp:267)",
      MT_OOM_FULL, MIB(74600), GIB(793), MIB(30194), GIB(688), MIB(21250), GIB(688) + MIB(21250),
      NONE, NONE, 1, 1, -1 },
    { "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 5.93 GiB total "
      "capacity; 8.57 MiB already allocated; 960.00 KiB free; 1.43 MiB cached)",
      MT_OOM_OTHER_PROCESSES, MIB(200), GIB(593), 960 * MT_KIB, MIB(857), MIB(143),
      MIB(857) + MIB(143), NONE, NONE, 1, 0, -1 },

    /* ---- 1.4 to 2.0 ---- */
    { "RuntimeError: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 15.78 GiB total "
      "capacity; 14.02 GiB already allocated; 41.75 MiB free; 14.29 GiB reserved in total by "
      "PyTorch)",
      MT_OOM_FRAGMENTED, MIB(9600), GIB(1578), MIB(4175), GIB(1402), GIB(1429) - GIB(1402),
      GIB(1429), NONE, NONE, 1, 0, -1 },
    { "RuntimeError: CUDA out of memory. Tried to allocate 3.05 GiB (GPU 0; 23.70 GiB total "
      "capacity; 20.66 GiB already allocated; 1.44 GiB free; 20.71 GiB reserved in total by "
      "PyTorch)",
      MT_OOM_FULL, GIB(305), GIB(2370), GIB(144), GIB(2066), GIB(2071) - GIB(2066), GIB(2071), NONE,
      NONE, 1, 0, -1 },
    { "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 2; 31.75 GiB total "
      "capacity; 3.10 GiB already allocated; 98.50 MiB free; 3.27 GiB reserved in total by "
      "PyTorch)",
      MT_OOM_OTHER_PROCESSES, MIB(51200), GIB(3175), MIB(9850), GIB(310), GIB(327) - GIB(310),
      GIB(327), NONE, NONE, 1, 2, -1 },
    { "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 10.76 GiB total "
      "capacity; 4.87 GiB already allocated; 4.31 GiB free; 5.38 GiB allowed; 5.01 GiB reserved in "
      "total by PyTorch)",
      MT_OOM_FRACTION, GIB(100), GIB(1076), GIB(431), GIB(487), GIB(501) - GIB(487), GIB(501), NONE,
      NONE, 1, 0, -1 },
    { "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 7.79 GiB total "
      "capacity; 779.00 MiB allowed; 731.25 MiB already allocated; 6.20 GiB free; 752.00 MiB "
      "reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
      "max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and "
      "PYTORCH_CUDA_ALLOC_CONF",
      MT_OOM_FRACTION, MIB(6400), GIB(779), GIB(620), MIB(73125), MIB(75200) - MIB(73125),
      MIB(75200), NONE, NONE, 1, 0, -1 },
    { "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.44 GiB (GPU 0; 39.59 "
      "GiB total capacity; 29.90 GiB already allocated; 1.81 GiB free; 36.42 GiB reserved in total "
      "by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to "
      "avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
      MT_OOM_FRAGMENTED, GIB(244), GIB(3959), GIB(181), GIB(2990), GIB(3642) - GIB(2990), GIB(3642),
      NONE, NONE, 1, 0, -1 },
    { "RuntimeError: HIP out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.98 GiB total "
      "capacity; 7.51 GiB already allocated; 14.00 MiB free; 7.52 GiB reserved in total by "
      "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
      "fragmentation.  See documentation for Memory Management and PYTORCH_HIP_ALLOC_CONF",
      MT_OOM_GRANULARITY, MIB(2000), GIB(798), MIB(1400), GIB(751), GIB(752) - GIB(751), GIB(752),
      NONE, NONE, 1, 0, -1 },
    { "RuntimeError: CUDA out of memory. Tried to allocate 14.00 MiB (GPU 0; 1.95 GiB total "
      "capacity; 1.32 GiB already allocated; 0 bytes free; 1.34 GiB reserved in total by PyTorch)",
      MT_OOM_FRAGMENTED, MIB(1400), GIB(195), 0, GIB(132), GIB(134) - GIB(132), GIB(134), NONE,
      NONE, 1, 0, -1 },

    /* ---- 2.1 and later ---- */
    { "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a "
      "total capacty of 23.65 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this "
      "process has 22.52 GiB memory in use. Of the allocated memory 21.61 GiB is allocated by "
      "PyTorch, and 461.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated "
      "memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation "
      "for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
      MT_OOM_FULL, GIB(150), GIB(2365), GIB(112), GIB(2161), MIB(46100), GIB(2161) + MIB(46100),
      GIB(2252) - GIB(2161) - MIB(46100), GIB(2365) - GIB(112) - GIB(2252), 1, 0, -1 },
    { "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 1 has a "
      "total capacity of 79.15 GiB of which 187.56 MiB is free. Including non-PyTorch memory, this "
      "process has 78.96 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by "
      "PyTorch, and 8.20 GiB is reserved by PyTorch but unallocated. If reserved but unallocated "
      "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
      "fragmentation.  See documentation for Memory Management  "
      "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
      MT_OOM_FRAGMENTED, MIB(25600), GIB(7915), MIB(18756), GIB(7011), GIB(820), GIB(7831),
      GIB(7896) - GIB(7011) - GIB(820), GIB(7915) - MIB(18756) - GIB(7896), 1, 1, -1 },
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total "
      "capacity of 44.52 GiB of which 309.25 MiB is free. Process 2114203 has 31.07 GiB memory in "
      "use. Including non-PyTorch memory, this process has 13.12 GiB memory in use. Of the "
      "allocated memory 12.33 GiB is allocated by PyTorch, and 305.50 MiB is reserved by PyTorch "
      "but unallocated.",
      MT_OOM_OTHER_PROCESSES, GIB(232), GIB(4452), MIB(30925), GIB(1233), MIB(30550),
      GIB(1233) + MIB(30550), GIB(1312) - GIB(1233) - MIB(30550), GIB(3107), 1, 0, -1 },
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB. GPU 5 has a total "
      "capacity of 23.58 GiB of which 52.62 MiB is free. Process 771 has 2.20 GiB memory in use. "
      "Process 772 has 9.00 GiB memory in use. Including non-PyTorch memory, this process has "
      "12.32 GiB memory in use. Of the allocated memory 11.80 GiB is allocated by PyTorch, and "
      "22.00 MiB is reserved by PyTorch but unallocated.",
      MT_OOM_OTHER_PROCESSES, MIB(9000), GIB(2358), MIB(5262), GIB(1180), MIB(2200),
      GIB(1180) + MIB(2200), GIB(1232) - GIB(1180) - MIB(2200), GIB(220) + GIB(900), 1, 5, -1 },
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
      "capacity of 15.60 GiB of which 11.81 MiB is free. Including non-PyTorch memory, this "
      "process "
      "has 15.58 GiB memory in use. Of the allocated memory 15.05 GiB is allocated by PyTorch, and "
      "14.50 MiB is reserved by PyTorch but unallocated.",
      MT_OOM_GRANULARITY, MIB(2000), GIB(1560), MIB(1181), GIB(1505), MIB(1450),
      GIB(1505) + MIB(1450), GIB(1558) - GIB(1505) - MIB(1450), GIB(1560) - MIB(1181) - GIB(1558),
      1, 0, -1 },
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total "
      "capacity of 79.11 GiB of which 60.02 GiB is free. 16.00 GiB allowed; Of the allocated "
      "memory "
      "13.37 GiB is allocated by PyTorch, and 1.13 GiB is reserved by PyTorch but unallocated.",
      MT_OOM_FRACTION, GIB(400), GIB(7911), GIB(6002), GIB(1337), GIB(113), GIB(1450), NONE, NONE,
      1, 0, -1 },
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
      "capacity of 39.39 GiB of which 402.31 MiB is free. Including non-PyTorch memory, this "
      "process has 38.99 GiB memory in use. Of the allocated memory 35.44 GiB is allocated by "
      "PyTorch, with 3.25 GiB allocated in private pools (e.g., CUDA Graphs), and 2.61 GiB is "
      "reserved by PyTorch but unallocated.",
      MT_OOM_FRAGMENTED, GIB(100), GIB(3939), MIB(40231), GIB(3544), GIB(261), GIB(3805),
      GIB(3899) - GIB(3544) - GIB(261), GIB(3939) - MIB(40231) - GIB(3899), 1, 0, -1 },
    { "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total "
      "capacity of 63.98 GiB of which 504.00 MiB is free. Of the allocated memory 62.30 GiB is "
      "allocated by PyTorch, and 188.65 MiB is reserved by PyTorch but unallocated.",
      MT_OOM_FULL, MIB(76800), GIB(6398), MIB(50400), GIB(6230), MIB(18865), GIB(6230) + MIB(18865),
      NONE, NONE, 1, 0, -1 },
    { "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 1.86 GiB. GPU 0 has a total "
      "capacity of 15.91 GiB. Of the allocated memory 14.57 GiB is allocated by PyTorch, and "
      "322.10 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all "
      "unoccupied cached memory.",
      MT_OOM_FULL, GIB(186), GIB(1591), NONE, GIB(1457), MIB(32210), GIB(1457) + MIB(32210), NONE,
      NONE, 1, 0, -1 },

    /* In a container the process does not know its own number. */
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total "
      "capacity of 79.10 GiB of which 25.56 MiB is free. Process 79636 has 79.06 GiB memory in "
      "use. Of the allocated memory 77.90 GiB is allocated by PyTorch, and 18.92 MiB is reserved "
      "by PyTorch but unallocated.",
      MT_OOM_FULL, MIB(3000), GIB(7910), MIB(2556), GIB(7790), MIB(1892), GIB(7790) + MIB(1892),
      GIB(7906) - GIB(7790) - MIB(1892), GIB(7910) - MIB(2556) - GIB(7906), 1, 0, -1 },
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total "
      "capacity of 8.00 GiB of which 0 bytes is free. Process 40 has 17179869184.00 GiB memory in "
      "use. Of the allocated memory 6.77 GiB is allocated by PyTorch, and 140.01 MiB is reserved "
      "by PyTorch but unallocated.",
      MT_OOM_FULL, MIB(20000), GIB(800), 0, GIB(677), MIB(14001), GIB(677) + MIB(14001), NONE, NONE,
      1, 0, -1 },

    /* ---- 2.15 ---- */
    { "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it "
      "would exceed per_process_memory_fraction limit. Requested size: 900.00 MiB",
      MT_OOM_FRACTION, MIB(90000), NONE, NONE, NONE, NONE, NONE, NONE, NONE, -1, -1, -1 },
    { "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 GiB. GPU 0 has a total "
      "capacity of 79.11 GiB of which 70.40 GiB is free. Including non-PyTorch memory, this "
      "process has 8.71 GiB memory in use. Of the allocated memory 8.01 GiB is allocated by "
      "PyTorch, and 102.00 MiB is reserved by PyTorch but unallocated. This allocation exceeds the "
      "expandable-segment reserve of 40.00 GiB for this stream, and a single allocation cannot "
      "span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or "
      "expandable_segments_reserve_by_class (or unset it) so that a segment is at least 48.00 GiB.",
      MT_OOM_FRACTION, GIB(4800), GIB(7911), GIB(7040), GIB(801), MIB(10200), GIB(801) + MIB(10200),
      GIB(871) - GIB(801) - MIB(10200), GIB(7911) - GIB(7040) - GIB(871), 1, 0, -1 },
    { "UserWarning: expandable_segments: memory mapping failed with OOM on device 1 while trying "
      "to "
      "map 41943040 bytes (free: 12582912, total: 25287917568)",
      MT_OOM_FULL, 41943040, 25287917568, 12582912, NONE, NONE, NONE, NONE, NONE, -1, 1, -1 },

    /* ---- in logs ---- */
    { "[rank7]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 7 has "
      "a "
      "total capacity of 79.15 GiB of which 915.25 MiB is free. Including non-PyTorch memory, this "
      "process has 78.25 GiB memory in use. Of the allocated memory 75.50 GiB is allocated by "
      "PyTorch, and 720.00 MiB is reserved by PyTorch but unallocated.",
      MT_OOM_FULL, GIB(125), GIB(7915), MIB(91525), GIB(7550), MIB(72000), GIB(7550) + MIB(72000),
      GIB(7825) - GIB(7550) - MIB(72000), GIB(7915) - MIB(91525) - GIB(7825), 1, 7, 7 },
    { "2031-05-07 08:15:02,118 ERROR worker 3 | RuntimeError: CUDA out of memory. Tried to "
      "allocate\n"
      "2031-05-07 08:15:02,119 ERROR worker 3 | 96.00 MiB (GPU 0; 15.78 GiB total capacity; 14.02\n"
      "2031-05-07 08:15:02,119 ERROR worker 3 | GiB already allocated; 41.75 MiB free; 14.29 GiB\n"
      "2031-05-07 08:15:02,120 ERROR worker 3 | reserved in total by PyTorch)\n"
      "2031-05-07 08:15:02,120 ERROR worker 3 | 77.00 MiB free for lunch\n",
      MT_OOM_FRAGMENTED, MIB(9600), GIB(1578), MIB(4175), GIB(1402), GIB(1429) - GIB(1402),
      GIB(1429), NONE, NONE, 1, 0, -1 },
    { "(Worker pid=4711) [rank3]:   torch.OutOfMemoryError: CUDA out of memory. Tri\r\n"
      "(Worker pid=4711) [rank3]:   ed to allocate 2.3\r\n"
      "(Worker pid=4711) [rank3]:   2 GiB. GPU 0 has a total capa\r\n"
      "(Worker pid=4711) [rank3]:   city of 44.52 Gi\r\n"
      "(Worker pid=4711) [rank3]:   B of which 309.25 MiB is free. Process 2114203 has 31.07 GiB "
      "me\r\n"
      "(Worker pid=4711) [rank3]:   mory in use. Including non-PyTorch memory, this process has "
      "13.1\r\n"
      "(Worker pid=4711) [rank3]:   2 GiB memory in use. Of the allocated memory 12.33 GiB is "
      "alloca\r\n"
      "(Worker pid=4711) [rank3]:   ted by PyTorch, and 305.50 MiB is reserved by PyTorch but "
      "unallo\r\n"
      "(Worker pid=4711) [rank3]:   cated.\r\n",
      MT_OOM_OTHER_PROCESSES, GIB(232), GIB(4452), MIB(30925), GIB(1233), MIB(30550),
      GIB(1233) + MIB(30550), GIB(1312) - GIB(1233) - MIB(30550), GIB(3107), 1, 0, 3 },
    { "Traceback (most recent call last):\n  File \"train.py\", line 20, in <module>\n    y = "
      "f(x)\n"
      "torch.OutOfMemoryError: CUDA out of memory.\nTried to allocate 20.00 MiB.\nGPU 0 has a "
      "total "
      "capacity of 15.60 GiB\nof which 11.81 MiB is free.\nIncluding non-PyTorch memory, this\n"
      "process has 15.58 GiB memory in use.\nOf the allocated memory 15.05 GiB is allocated by\n"
      "PyTorch, and 14.50 MiB is reserved\nby PyTorch but unallocated.\n",
      MT_OOM_GRANULARITY, MIB(2000), GIB(1560), MIB(1181), GIB(1505), MIB(1450),
      GIB(1505) + MIB(1450), GIB(1558) - GIB(1505) - MIB(1450), GIB(1560) - MIB(1181) - GIB(1558),
      1, 0, -1 },

    /* ---- what cannot be ---- */
    { "RuntimeError: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 15.78 GiB total "
      "capacity; 16.02 GiB already allocated; 41.75 MiB free; 14.29 GiB reserved in total by "
      "PyTorch)",
      MT_OOM_FULL, MIB(9600), GIB(1578), MIB(4175), GIB(1602), NONE, GIB(1429), NONE, NONE, 0, 0,
      -1 },
};

#define COUNT (sizeof CASES / sizeof *CASES)

/* A derived size may be off by the rounding of those that it comes from. */
static void assert_near(uint64_t got, uint64_t expected, const char *what, const char *text) {
    if (got == expected || (expected != NONE && got != NONE && got < expected + 16 * MT_MIB &&
                            expected < got + 16 * MT_MIB))
        return;
    fail_msg("%s is %lld, expected %lld: %s", what, (long long)got, (long long)expected, text);
}

static void assert_case(const mt_oom *m, const text_case *c) {
    if (m->kind != c->kind)
        fail_msg("%s, expected %s: %s", mt_oom_kind_name(m->kind), mt_oom_kind_name(c->kind),
                 c->text);
    assert_int_equal(m->tried, c->tried);
    assert_int_equal(m->capacity, c->capacity);
    assert_int_equal(m->free, c->free);
    assert_int_equal(m->allocated, c->allocated);
    assert_near(m->unallocated, c->unallocated, "unallocated", c->text);
    assert_near(m->reserved, c->reserved, "reserved", c->text);
    assert_near(m->outside, c->outside, "outside", c->text);
    assert_near(m->other, c->other, "other", c->text);
    assert_int_equal(m->closes, c->closes);
    assert_int_equal(m->device, c->device);
    assert_int_equal(m->rank, c->rank);
}

static void test_each(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        mt_oom m;
        mt_oom_walk walk = { 0 };
        size_t n = strlen(CASES[i].text);
        char *text = malloc(n); /* without a final 0 */
        memcpy(text, CASES[i].text, n);
        if (!mt_oom_find(&m, text, n, &walk))
            fail_msg("not found: %s", CASES[i].text);
        assert_case(&m, &CASES[i]);
        if (mt_oom_find(&m, text, n, &walk))
            fail_msg("found twice: %s", CASES[i].text);
        free(text);
    }
}

/* All of them in one log, one after the other. */
static void test_log(void **state) {
    (void)state;
    mt_oom_walk walk = { 0 };
    size_t n = 0;
    char *text = calloc(COUNT, 2000);
    for (size_t i = 0; i < COUNT; i++)
        n += (size_t)sprintf(text + n, "step %zu: 3.50 GiB free\n%s\n", i, CASES[i].text);
    for (size_t i = 0; i < COUNT; i++) {
        mt_oom m;
        if (CASES[i].closes < 0 && CASES[i].device == 1)
            continue; /* a warning that an exception follows */
        assert_int_equal(mt_oom_find(&m, text, n, &walk), 1);
        assert_case(&m, &CASES[i]);
    }
    assert_int_equal(mt_oom_find(&(mt_oom){ 0 }, text, n, &walk), 0);
    free(text);
}

/* Cut anywhere, a message is found or not, and nothing is read behind the end. */
static void test_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        for (size_t n = 0; n < strlen(CASES[i].text); n++) {
            mt_oom m;
            mt_oom_walk walk = { 0 };
            char *text = malloc(n + 1);
            memcpy(text, CASES[i].text, n);
            while (mt_oom_find(&m, text, n, &walk))
                assert_in_range(walk.at, 1, n);
            free(text);
        }
}

static void test_none(void **state) {
    static const char *const texts[] = {
        "",
        "all is well",
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/THCStorage.cu:58",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 14400000000 bytes.",
        "Tried to allocate",
        "Tried to allocate 20.00 MiB",
        "MPS backend out of memory. Tried to allocate 1.00 GB on private pool.",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mt_oom m;
        mt_oom_walk walk = { 0 };
        if (mt_oom_find(&m, texts[i], strlen(texts[i]), &walk))
            fail_msg("found: %s", texts[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_none),
    };
    assert_true(COUNT >= 30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
