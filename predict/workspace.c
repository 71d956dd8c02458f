/* workspace.c - the workspaces of cuBLAS and cuBLASLt: how large, when taken, how long kept.
 *
 * PyTorch hands both libraries scratch memory from its own allocator. Up to 2.14 that memory is
 * taken at the first call and stays; 2.15 takes it for each call, unless
 * TORCH_CUBLAS_WORKSPACE_CACHE is 1. cuBLASLt serves addmm with a bias, cuBLAS all other matmuls.
 * Sizes and their reading are those of PyTorch's CublasHandlePool.cpp and CUDABlas.cpp. */
#include "predict/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Reads a run of digits and moves past it; false when there is none or it is too large. */
static bool read_digits(const char **text, uint64_t *value) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *value = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0 && *value <= (uint64_t)1 << 40;
}

/* The sum over all ":KIB:COUNT" in the text; false when there is none. */
static bool read_pairs(const char *text, uint64_t *bytes) {
    bool any = false;
    *bytes = 0;
    while ((text = strchr(text, ':')) != NULL) {
        const char *at = ++text;
        uint64_t size, count, product;
        if (!read_digits(&at, &size) || *at++ != ':' || !read_digits(&at, &count))
            continue;
        if (!mt_mul(size * MT_KIB, count, &product) || !mt_add(*bytes, product, bytes))
            *bytes = UINT64_MAX;
        any = true;
        text = at;
    }
    return any;
}

static uint64_t blas_bytes(const char *config, mt_predict_release release, uint32_t cc) {
    uint64_t bytes;
    if (config != NULL && read_pairs(config, &bytes))
        return bytes;
    bool large = cc / 10 == 9 || (cc / 10 > 9 && release >= MT_TORCH_2_15);
    return large ? 32 * MT_MIB : 2 * 4 * MT_MIB + 8 * 16 * MT_KIB;
}

/* KiB, read as far as they are digits; 1 MiB when there are none. */
static mt_status lt_bytes(const char *text, uint64_t *bytes, mt_error *err) {
    char *end;
    *bytes = MT_MIB;
    if (text == NULL)
        return MT_OK;
    errno = 0;
    long kib = strtol(text, &end, 10);
    if (end == text || errno != 0 || kib > INT_MAX || kib < INT_MIN)
        return MT_OK;
    if (kib < 0)
        return mt_fail(err, MT_BAD, "CUBLASLT_WORKSPACE_SIZE %.40s: expected KiB, 0 or more", text);
    *bytes = (uint64_t)kib * MT_KIB;
    return MT_OK;
}

static bool is(const char *text, const char *word) {
    return text != NULL && strcmp(text, word) == 0;
}

mt_status mt_predict_read_workspaces(mt_predict_workspaces *w, const mt_predict_environment *e,
                                     mt_predict_release release, uint32_t cc, mt_error *err) {
    *w = (mt_predict_workspaces){ .blas = blas_bytes(e->blas_config, release, cc) };
    MT_TRY(lt_bytes(e->lt_size, &w->lt, err));
    if (release == MT_TORCH_2_11) {
        /* Sharing is on by default, but only the limit on the size follows from that. */
        w->kept = w->blas_first = true;
        w->shared = is(e->lt_unified, "1");
        if (!is(e->lt_unified, "0") && w->lt > w->blas)
            w->lt = w->blas;
    } else {
        w->kept = is(e->blas_cache, "1");
        w->shared = w->kept && !is(e->lt_unified, "0");
    }
    return MT_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void call(pass *t, uint64_t bytes, mt_mem *kept) {
    if (!t->o->workspaces.kept) {
        mt_mem m = pass_new(t, MT_WORKSPACE, bytes);
        pass_drop(t, &m);
    } else if (kept->handle == 0) {
        int32_t layer = t->layer;
        t->layer = -1;
        *kept = pass_new(t, MT_WORKSPACE, bytes);
        t->layer = layer;
    }
}

void pass_call_blas(pass *t) {
    call(t, t->o->workspaces.blas, &t->blas);
}

void pass_call_lt(pass *t) {
    const mt_predict_workspaces *w = &t->o->workspaces;
    if (w->blas_first || w->shared)
        pass_call_blas(t);
    if (!w->shared)
        call(t, w->lt, &t->lt);
}
