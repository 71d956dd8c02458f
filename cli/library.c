/* library.c - bytes of the device that no segment of ours explains.
 *
 *     library = used bytes of the device - what our segments cost there - baseline
 *
 * The baseline is what was used right after the context was created: the context itself, and other
 * programs. What our segments cost is their size, and the driver's own rounding where they are no
 * multiple of its pages. So library is loaded code and what cuBLAS keeps for itself. A device whose
 * used bytes move while we do nothing is shared, and nothing can be said. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_NS 5000000 /* between two looks that should see the same */

static mt_status device_used(const cli_session *s, uint64_t *used, mt_error *err) {
    return s->source->device_used(s->source, used, err);
}

/* Looks twice; true in *same when nothing moved. */
static mt_status used_twice(const cli_session *s, uint64_t *used, bool *same, mt_error *err) {
    struct timespec pause = { .tv_nsec = PAUSE_NS };
    uint64_t later;
    MT_TRY(device_used(s, used, err));
    nanosleep(&pause, NULL);
    MT_TRY(device_used(s, &later, err));
    *same = later == *used;
    return MT_OK;
}

mt_status cli_library_look(cli_library *l, const cli_session *s, mt_error *err) {
    uint64_t used, reserved = mt_alloc_ledger(s->alloc)->reserved.current;
    bool same;
    l->on = s->source->device_used != NULL && s->cuda.device != NULL;
    if (!l->on)
        return MT_OK;
    MT_TRY(used_twice(s, &used, &same, err));
    l->shared |= !same;
    l->end = (int64_t)(used - s->source->driver_bytes) - s->cuda.notes[0].bytes;
    l->driver_rounding = (int64_t)(s->source->driver_bytes - reserved);
    if (l->looks++ == 0)
        l->warm = l->end;
    if (l->end < 0 && !l->shared)
        return mt_fail(err, MT_CHECK,
                       "library bytes are negative: %" PRIu64 " used on the device, %" PRIu64
                       " of them ours, %" PRId64 " the baseline",
                       used, s->source->driver_bytes, s->cuda.notes[0].bytes);
    return MT_OK;
}

void cli_library_header(const cli_session *s, cli_sink to) {
    char name[80];
    const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");
    if (s->cuda.device == NULL)
        return;
    const mt_cuda_note *note = s->cuda.notes;
    cli_say(to, MT_VALUE_NUMBER, "library baseline",
            "%" PRId64 " (in use on the device once the CUDA context exists)", note[0].bytes);
    snprintf(name, sizeof name, "library %s", note[1].what);
    cli_say(to, MT_VALUE_NUMBER, name, "%+" PRId64, note[1].bytes);
    if (s->o.workspace != NULL && strcmp(s->o.workspace, "library") == 0)
        cli_say(to, MT_VALUE_TEXT, "library workspace", "its own, CUBLAS_WORKSPACE_CONFIG %.100s",
                config != NULL ? config : "not set");
}

/* What one call into a library took, the first time and all the others. */
static void say_note(const mt_cuda_note *n, cli_sink to) {
    char name[80], again[48] = "";
    snprintf(name, sizeof name, "library %s", n->what);
    if (n->calls > 1)
        snprintf(again, sizeof again, ", again %+" PRId64, n->again);
    cli_say(to, MT_VALUE_NUMBER, name, "%+" PRId64 "%s", n->bytes, again);
}

void cli_library_lines(const cli_library *l, const cli_session *s, cli_sink to) {
    int64_t noted = 0; /* by calls of which we know what they took */
    if (!l->on)
        return;
    for (uint32_t i = 1; i < *s->cuda.noted; i++)
        noted += s->cuda.notes[i].bytes + s->cuda.notes[i].again;
    for (uint32_t i = 2; i < *s->cuda.noted; i++)
        say_note(&s->cuda.notes[i], to);
    if (l->shared) {
        cli_say(to, MT_VALUE_TEXT, "library", "unknown: device shared");
        return;
    }
    cli_say(to, MT_VALUE_NUMBER, "library code",
            "%+" PRId64 " (kernels loaded at their first use, and all else)", l->warm - noted);
    cli_say(to, MT_VALUE_NUMBER, "library after warm-up", "%" PRId64, l->warm);
    cli_say(to, MT_VALUE_NUMBER, "library at the end", "%" PRId64, l->end);
    cli_say(to, MT_VALUE_NUMBER, "library change", "%+" PRId64, l->end - l->warm);
    cli_say(to, MT_VALUE_NUMBER, "driver rounding", "%" PRId64, l->driver_rounding);
}
