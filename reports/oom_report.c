/* oom_report.c - see oom_text.h: what is said of an out-of-memory message. */
#include "reports/oom_text.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/size.h"

const char *mt_oom_kind_name(mt_oom_kind kind) {
    static const char *const names[] = { "fragmented", "full", "other_processes", "granularity",
                                         "fraction" };
    return names[kind];
}

const char *mt_oom_reason(const mt_oom *m) {
    if (m->least != MT_OOM_UNKNOWN)
        return "the request is longer than an expandable segment may become";
    switch (m->kind) {
    case MT_OOM_FRAGMENTED:
        return "the allocator holds enough free bytes for it, but not in one piece";
    case MT_OOM_OTHER_PROCESSES:
        return "other processes hold what would have been enough";
    case MT_OOM_GRANULARITY:
        return "the request itself would fit, but the device gives memory in larger pieces";
    case MT_OOM_FRACTION:
        return "a limit that the program set is reached, not the end of the card";
    default:
        return "this process uses the whole card: nearly all that it holds is in use";
    }
}

const char *mt_oom_advice(const mt_oom *m) {
    if (m->least != MT_OOM_UNKNOWN)
        return "unset expandable_segments_reserve, or make it as large as the message says";
    switch (m->kind) {
    case MT_OOM_FRAGMENTED:
        return m->old ? "PyTorch 2.1 or newer with PYTORCH_CUDA_ALLOC_CONF="
                        "expandable_segments:True; until then max_split_size_mb:128"
                      : "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, set before the program "
                        "starts";
    case MT_OOM_OTHER_PROCESSES:
        return "end the other processes on this card (nvidia-smi lists them), or take another card "
               "by CUDA_VISIBLE_DEVICES";
    case MT_OOM_GRANULARITY:
        return "free a little: a request of 1 to 10 MiB takes a segment of 20 MiB "
               "(large_segment_size_mb:12 from PyTorch 2.11 on), and a small one 2 MiB";
    case MT_OOM_FRACTION:
        return "raise the limit: torch.cuda.set_per_process_memory_fraction, or the option "
               "per_process_memory_fraction";
    default:
        return "need less: a smaller batch or context, activation checkpointing, a smaller dtype, "
               "or a part of the model on another card";
    }
}

/* ---- for people ------------------------------------------------------------------------------ */

static void line(FILE *out, const char *sign, uint64_t bytes, const char *what) {
    char size[32];
    if (bytes != MT_OOM_UNKNOWN)
        fprintf(out, "  %1s %16" PRIu64 "  %11s  %s\n", sign, bytes,
                mt_format_size(bytes, size, sizeof size), what);
}

/* What of the card no part explains, when all are told; the rest of one that is not told. */
static void print_rest(const mt_oom *m, FILE *out) {
    uint64_t parts[] = { m->allocated, m->unallocated, m->outside, m->other, m->free };
    uint64_t sum = 0;
    bool missing = m->outside == MT_OOM_UNKNOWN || m->other == MT_OOM_UNKNOWN;
    if (m->capacity == MT_OOM_UNKNOWN || m->free == MT_OOM_UNKNOWN)
        return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += parts[i] != MT_OOM_UNKNOWN ? parts[i] : 0;
    if (sum < m->capacity)
        line(out, "+", m->capacity - sum,
             missing ? "the rest: CUDA context, libraries, other processes"
                     : "nobody's by the message: rounding, and the driver's own");
}

static void print_head(const mt_oom *m, FILE *out) {
    fprintf(out, "out of memory at line %" PRIu64, m->line);
    if (m->rank >= 0)
        fprintf(out, ", rank %" PRId64, m->rank);
    if (m->device >= 0)
        fprintf(out, ", GPU %" PRId64, m->device);
    fprintf(out, ": %s\n", mt_oom_reason(m));
}

void mt_oom_text_print(const mt_oom *m, FILE *out) {
    print_head(m, out);
    line(out, "", m->tried, "asked of the device: the segment, not the tensor");
    line(out, "", m->allowed, "allowed to this process");
    line(out, "", m->capacity, "capacity of the card");
    line(out, "=", m->allocated, "allocated by PyTorch");
    line(out, "+", m->unallocated, "reserved by PyTorch but unallocated");
    line(out, "+", m->outside, "of this process, outside PyTorch's allocator (context, libraries)");
    line(out, "+", m->other, "other processes");
    line(out, "+", m->free, "free");
    print_rest(m, out);
    line(out, "", m->private_pools, "of the allocated bytes lie in private pools (CUDA graphs)");
    if (m->closes == 0)
        fprintf(out, "  the figures contradict each other: more than their rounding apart\n");
    fprintf(out, "  try first: %s\n", mt_oom_advice(m));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void number(mt_json *j, const char *key, uint64_t bytes) {
    if (bytes == MT_OOM_UNKNOWN)
        mt_json_null(j, key);
    else
        mt_json_unsigned(j, key, bytes);
}

static void index_of(mt_json *j, const char *key, int64_t i) {
    if (i < 0)
        mt_json_null(j, key);
    else
        mt_json_signed(j, key, i);
}

void mt_oom_text_json(const mt_oom *m, mt_json *j) {
    mt_json_text(j, "kind", mt_oom_kind_name(m->kind));
    mt_json_unsigned(j, "line", m->line);
    index_of(j, "rank", m->rank);
    index_of(j, "device", m->device);
    number(j, "tried", m->tried);
    number(j, "capacity", m->capacity);
    number(j, "free", m->free);
    number(j, "allocated", m->allocated);
    number(j, "unallocated", m->unallocated);
    number(j, "reserved", m->reserved);
    number(j, "outside", m->outside);
    number(j, "other", m->other);
    number(j, "allowed", m->allowed);
    number(j, "process", m->process);
    number(j, "private_pools", m->private_pools);
    if (m->closes < 0)
        mt_json_null(j, "closes");
    else
        mt_json_bool(j, "closes", m->closes != 0);
    mt_json_text(j, "reason", mt_oom_reason(m));
    mt_json_text(j, "advice", mt_oom_advice(m));
}
