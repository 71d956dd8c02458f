/* callers.c - see callers.h. */
#include "reports/callers.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void mt_callers_free(mt_callers *s) {
    mt_array_free(&s->at);
    mt_array_free(&s->of_stack);
    mt_map_free(&s->of_frame);
}

/* ---- which frame ----------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_python(const char *file) {
    return ends_with(file, ".py") || file[0] == '<';
}

/* A file of PyTorch itself, or of what calls every function. */
static bool is_inner(const char *file) {
    static const char *const inner[] = { "/site-packages/torch/",
                                         "/dist-packages/torch/",
                                         "/torch/nn/",
                                         "/torch/optim/",
                                         "/torch/autograd/",
                                         "/contextlib.py",
                                         "/runpy.py",
                                         "/threading.py",
                                         "/functools.py",
                                         "<frozen",
                                         "torch/_tensor.py" };
    if (strncmp(file, "torch/", 6) == 0)
        return true;
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        if (strstr(file, inner[i]) != NULL)
            return true;
    return false;
}

static uint32_t choose(const mt_snapshot *snap, uint32_t stack) {
    uint32_t n, python = MT_CALLER_UNKNOWN;
    const uint32_t *frame = mt_snapshot_stack(snap, stack, &n);
    for (uint32_t i = 0; i < n; i++) {
        const char *file = mt_snapshot_text(snap, mt_snapshot_frame_of(snap, frame[i])->file, NULL);
        if (!is_python(file))
            continue;
        if (!is_inner(file))
            return frame[i];
        if (python == MT_CALLER_UNKNOWN)
            python = frame[i];
    }
    return python != MT_CALLER_UNKNOWN || n == 0 ? python : frame[0];
}

/* The site of a frame, + 1; 0 when there is no memory. */
static uint32_t enter(mt_callers *s, uint32_t frame) {
    const uint64_t *known = mt_map_find(&s->of_frame, frame);
    if (known != NULL)
        return (uint32_t)*known + 1;
    mt_caller *site = mt_array_push(&s->at);
    if (site == NULL || !mt_map_set(&s->of_frame, frame, s->at.count - 1))
        return 0;
    *site = (mt_caller){ .frame = frame };
    return (uint32_t)s->at.count;
}

mt_caller *mt_callers_of(mt_callers *s, const mt_snapshot *snap, uint32_t stack) {
    if (!mt_array_extend(&s->of_stack, (size_t)stack + 1))
        return NULL;
    uint32_t *site = &s->of_stack.at[stack];
    if (*site == 0)
        *site = enter(s, choose(snap, stack));
    return *site != 0 ? &s->at.at[*site - 1] : NULL;
}

/* ---- counting -------------------------------------------------------------------------------- */

bool mt_callers_request(mt_callers *s, const mt_snapshot *snap, uint32_t stack, uint64_t size) {
    mt_caller *site = mt_callers_of(s, snap, stack);
    if (site == NULL)
        return false;
    uint64_t bit = size * UINT64_C(0x9e3779b97f4a7c15) >> 55;
    site->requests++;
    site->bytes += size;
    site->largest = size > site->largest ? size : site->largest;
    site->size_bits[bit / 64] |= (uint64_t)1 << bit % 64;
    return true;
}

/* Counts the live blocks of a segment; *only: the one site of all of them, NULL when there are
 * several or none. */
static bool count_segment(mt_callers *s, const mt_snapshot *snap, const mt_view *v,
                          const mt_snapshot_segment *g, int which, uint32_t *only, uint64_t *free) {
    uint64_t sites = 0;
    for (uint32_t i = g->first; i < g->first + g->blocks; i++) {
        const mt_snapshot_block *b = &v->blocks[i];
        if (b->state == MT_BLOCK_FREE) {
            *free += b->size;
            continue;
        }
        mt_caller *site = mt_callers_of(s, snap, b->stack);
        if (site == NULL)
            return false;
        uint64_t requested = b->requested <= b->size ? b->requested : b->size;
        site->live[which] += b->size;
        site->rounding += which == 0 ? b->size - requested : 0;
        uint32_t number = (uint32_t)(site - s->at.at);
        sites += sites == 0 || (sites == 1 && number != *only);
        *only = number;
    }
    if (sites != 1)
        *only = MT_CALLER_UNKNOWN;
    return true;
}

mt_status mt_callers_view(mt_callers *s, const mt_snapshot *snap, const mt_view *v, int which,
                          mt_error *err) {
    for (size_t i = 0; i < v->segments.count; i++) {
        uint32_t only = MT_CALLER_UNKNOWN;
        uint64_t free = 0;
        if (!count_segment(s, snap, v, &v->segments.at[i], which, &only, &free))
            return mt_no_memory(err, "the report");
        if (which == 0 && only != MT_CALLER_UNKNOWN && free > 0) {
            s->at.at[only].held_back += free;
            s->at.at[only].pins++;
        }
    }
    return MT_OK;
}

uint64_t mt_caller_sizes(const mt_caller *s) {
    uint64_t n = 0;
    for (size_t i = 0; i < MT_SIZE_BITS / 64; i++)
        n += (uint64_t)__builtin_popcountll(s->size_bits[i]);
    return n;
}

/* Of n different sizes about 512 * (1 - e^(-n/512)) bits are set: 82 % of n at 200 of them. */
bool mt_caller_always_new(const mt_caller *s) {
    uint64_t few = s->requests < 200 ? s->requests : 200;
    return s->requests >= 16 && mt_caller_sizes(s) * 10 >= few * 8;
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* The part of a path that tells where a file is. */
static const char *short_path(const char *file, bool strip) {
    static const char *const roots[] = { "/site-packages/", "/dist-packages/" };
    const char *slash = strrchr(file, '/');
    if (strip && slash != NULL)
        return slash + 1;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const char *root = strstr(file, roots[i]);
        if (root != NULL)
            return root + strlen(roots[i]);
    }
    return file;
}

char *mt_caller_label(char *text, size_t room, const mt_snapshot *snap, uint32_t frame,
                      bool strip) {
    char file[120], name[80];
    if (frame == MT_CALLER_UNKNOWN) {
        snprintf(text, room, "unknown call site");
        return text;
    }
    const mt_snapshot_frame *f = mt_snapshot_frame_of(snap, frame);
    uint32_t n;
    const char *function = mt_snapshot_text(snap, f->name, &n);
    mt_printable(name, sizeof name, function, n);
    mt_printable_path(file, sizeof file, short_path(mt_snapshot_text(snap, f->file, NULL), strip));
    snprintf(text, room, "%s:%lld %s", file, (long long)f->line, name);
    return text;
}
