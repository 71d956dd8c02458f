/* gpt2.h - what Hugging Face's GPT-2 takes from PyTorch's allocator, request by request.
 *
 * Carries out, on an allocator with the torch policy, the allocations and frees of greedy decoding
 * with transformers' GPT2LMHeadModel: in evaluation mode, without gradients, the output of a step
 * kept until the next one replaces it. Nothing is computed and no table of recorded numbers is
 * used: each size is a formula of the shape, and each lifetime is the one that Python's reference
 * counting gives. After loading and after every step the caller gets the counters that
 * torch.cuda.memory_stats would show.
 *
 *     gpt2.c        the model: one function per module
 *     attention.c   attention: eager, and the kernels behind scaled_dot_product_attention
 *     operations.c  the operations of PyTorch they are made of
 *     workspace.c   the workspaces of cuBLAS and cuBLASLt
 *     pass.c        taking and dropping a tensor's memory
 *
 * Checked against transformers 5.24.0 with torch 2.11.0 and 2.15.0. */
#ifndef MT_PREDICT_GPT2_H
#define MT_PREDICT_GPT2_H

#include "alloc/alloc.h"
#include "engine/config.h"

typedef enum mt_predict_attn { MT_ATTN_SDPA, MT_ATTN_EAGER } mt_predict_attn;
typedef enum mt_predict_cache { MT_CACHE_DYNAMIC, MT_CACHE_STATIC, MT_CACHE_NONE } mt_predict_cache;
typedef enum mt_predict_release { MT_TORCH_2_11, MT_TORCH_2_15 } mt_predict_release;

/* Workspaces of cuBLAS and cuBLASLt. */
typedef struct mt_predict_workspaces {
    uint64_t blas, lt; /* bytes of cuBLAS's and of cuBLASLt's */
    bool kept;         /* taken at the first call and kept; else taken for each call */
    bool shared;       /* cuBLASLt uses cuBLAS's */
    bool blas_first;   /* whoever takes cuBLASLt's takes cuBLAS's before */
} mt_predict_workspaces;

/* The environment variables that decide about workspaces, NULL where unset. */
typedef struct mt_predict_environment {
    const char *blas_config; /* CUBLAS_WORKSPACE_CONFIG */
    const char *blas_cache;  /* TORCH_CUBLAS_WORKSPACE_CACHE */
    const char *lt_size;     /* CUBLASLT_WORKSPACE_SIZE */
    const char *lt_unified;  /* TORCH_CUBLASLT_UNIFIED_WORKSPACE */
} mt_predict_environment;

typedef struct mt_predict_options {
    mt_config model; /* shape and element type */
    mt_predict_attn attn;
    mt_predict_cache cache;
    mt_predict_release release;
    uint32_t batch, prompt, ctx; /* sequences; tokens of the prompt; tokens at the end */
    const uint32_t *contexts;    /* without a cache: the lengths to run, one after the other; */
    size_t context_count;        /* 0: prompt, prompt + 1, ..., ctx */
    uint32_t cc;                 /* compute capability: 86 for 8.6 */
    uint32_t multiprocessors;    /* of the device; 0: as a usual one of this capability has */
    mt_predict_workspaces workspaces;
} mt_predict_options;

/* The columns of a row, after step and tokens: counters of memory_stats under short names. */
#define MT_PREDICT_COLUMNS(X)                                                                      \
    X(allocated)                                                                                   \
    X(reserved)                                                                                    \
    X(requested)                                                                                   \
    X(active)                                                                                      \
    X(inactive_split)                                                                              \
    X(inactive_split_blocks)                                                                       \
    X(segments)                                                                                    \
    X(peak_allocated)                                                                              \
    X(peak_reserved)                                                                               \
    X(peak_requested)                                                                              \
    X(allocs)                                                                                      \
    X(frees)                                                                                       \
    X(device_allocs)                                                                               \
    X(device_frees)

typedef struct mt_predict_row {
    int64_t step;    /* -1: the model was loaded */
    uint64_t tokens; /* in the cache, or the length of the context */
#define X(name) uint64_t name;
    MT_PREDICT_COLUMNS(X)
#undef X
} mt_predict_row;

/* Anything but MT_OK stops the run, which then returns it. */
typedef mt_status (*mt_predict_on_row)(void *context, const mt_predict_row *row);

/* Fills in the workspaces that PyTorch uses for these variables. PyTorch's own defaults stand in
 * for what it cannot read; a size that it would fail on is MT_BAD. */
mt_status mt_predict_read_workspaces(mt_predict_workspaces *w, const mt_predict_environment *e,
                                     mt_predict_release release, uint32_t cc, mt_error *err);

/* Whether the run is possible and all it would allocate is known here. */
mt_status mt_predict_check(const mt_predict_options *o, mt_error *err);

/* The run, on an allocator whose policy is torch and that nothing was taken from yet. What is live
 * at the end stays so. MT_NO_MEMORY at the first request that is refused: nothing happens after. */
mt_status mt_predict_run(mt_alloc *a, const mt_predict_options *o, mt_predict_on_row on_row,
                         void *context, mt_error *err);

#endif
