/* gpt2.h - what Hugging Face's GPT-2 takes from PyTorch's allocator, request by request.
 *
 * Carries out, on an allocator with the torch policy, the allocations and frees of greedy decoding
 * with transformers' GPT2LMHeadModel: in evaluation mode, without gradients, the output of a step
 * kept until the next one replaces it. Nothing is computed and no table of recorded numbers is
 * used: each size is a formula of the shape, and each lifetime is the one that Python's reference
 * counting gives. After loading and after every step the caller gets the counters that
 * torch.cuda.memory_stats would show.
 *
 *     hf_gpt2.c       the model: one function per module
 *     hf_attention.c  attention: eager, and the kernels behind scaled_dot_product_attention
 *     hf_torch.c      the operations of PyTorch they are made of
 *     hf_workspace.c  the workspaces of cuBLAS and cuBLASLt
 *
 * Checked against transformers 5.24.0 with torch 2.11.0 and 2.15.0. */
#ifndef MT_PREDICT_GPT2_H
#define MT_PREDICT_GPT2_H

#include "alloc/alloc.h"
#include "engine/config.h"

typedef enum mt_hf_attn { MT_HF_SDPA, MT_HF_EAGER } mt_hf_attn;
typedef enum mt_hf_cache { MT_HF_DYNAMIC, MT_HF_STATIC, MT_HF_NONE } mt_hf_cache;
typedef enum mt_hf_release { MT_HF_TORCH_2_11, MT_HF_TORCH_2_15 } mt_hf_release;

/* Scratch memory that matrix products are given. */
typedef struct mt_hf_workspaces {
    uint64_t blas, lt; /* bytes of cuBLAS's and of cuBLASLt's */
    bool kept;         /* taken at the first call and kept; else taken for each call */
    bool shared;       /* cuBLASLt uses cuBLAS's */
    bool blas_first;   /* whoever takes cuBLASLt's takes cuBLAS's before */
} mt_hf_workspaces;

/* The environment variables that decide about workspaces, NULL where unset. */
typedef struct mt_hf_environment {
    const char *blas_config; /* CUBLAS_WORKSPACE_CONFIG */
    const char *blas_cache;  /* TORCH_CUBLAS_WORKSPACE_CACHE */
    const char *lt_size;     /* CUBLASLT_WORKSPACE_SIZE */
    const char *lt_unified;  /* TORCH_CUBLASLT_UNIFIED_WORKSPACE */
} mt_hf_environment;

typedef struct mt_hf_options {
    mt_config model; /* shape and element type */
    mt_hf_attn attn;
    mt_hf_cache cache;
    mt_hf_release release;
    uint32_t batch, prompt, ctx; /* sequences; tokens of the prompt; tokens at the end */
    const uint32_t *contexts;    /* without a cache: the lengths to run, one after the other; */
    size_t context_count;        /* 0: prompt, prompt + 1, ..., ctx */
    uint32_t cc;                 /* compute capability: 86 for 8.6 */
    uint32_t multiprocessors;    /* of the device; 0: as a usual one of this capability has */
    mt_hf_workspaces workspaces;
} mt_hf_options;

/* The columns of a row, after step and tokens: counters of memory_stats under short names. */
#define MT_HF_COLUMNS(X)                                                                           \
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

typedef struct mt_hf_row {
    int64_t step;    /* -1: the model was loaded */
    uint64_t tokens; /* in the cache, or the length of the context */
#define X(name) uint64_t name;
    MT_HF_COLUMNS(X)
#undef X
} mt_hf_row;

/* Anything but MT_OK stops the run, which then returns it. */
typedef mt_status (*mt_hf_on_row)(void *context, const mt_hf_row *row);

/* Fills in the workspaces that PyTorch uses for these variables. PyTorch's own defaults stand in
 * for what it cannot read; a size that it would fail on is MT_BAD. */
mt_status mt_hf_read_workspaces(mt_hf_workspaces *w, const mt_hf_environment *e,
                                mt_hf_release release, uint32_t cc, mt_error *err);

/* Whether the run is possible and all it would allocate is known here. */
mt_status mt_hf_check(const mt_hf_options *o, mt_error *err);

/* The run, on an allocator whose policy is torch and that nothing was taken from yet. What is live
 * at the end stays so. MT_NO_MEMORY at the first request that is refused: nothing happens after. */
mt_status mt_hf_run(mt_alloc *a, const mt_hf_options *o, mt_hf_on_row on_row, void *context,
                    mt_error *err);

#endif
