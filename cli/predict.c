/* predict.c - `memtrace predict`: what PyTorch's memory counters would show, without PyTorch.
 *
 * Runs the requests of Hugging Face's GPT-2 (predict/gpt2.h) through the torch policy on a
 * simulated device and prints the counters of torch.cuda.memory_stats after every token. The
 * environment variables that PyTorch obeys are obeyed here; --policy goes before them. */
#include "cli/cli.h"
#include "cli/list.h"

#include "base/size.h"
#include "predict/gpt2.h"
#include "reports/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_CTX      1024
#define DEFAULT_CAPACITY (48 * MT_GIB)
#define SPEC_MOST        2048

static const char doc[] =
    "Prints, after every token, what torch.cuda's memory counters would show for greedy decoding "
    "with Hugging Face's GPT2LMHeadModel in PyTorch: to the byte, without PyTorch and without a "
    "GPU.\v"
    "Obeys PYTORCH_CUDA_ALLOC_CONF or else PYTORCH_ALLOC_CONF (--policy goes before both), "
    "CUBLAS_WORKSPACE_CONFIG, TORCH_CUBLAS_WORKSPACE_CACHE, CUBLASLT_WORKSPACE_SIZE and "
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE.\n\n"
    "The first row, load, is the state after the model was moved to the device. The peaks are "
    "those within a step, the last four columns count from the start.\n\n"
    "Examples:\n"
    "  memtrace predict --model gpt2 --ctx 1024 > gpt2.tsv\n"
    "  memtrace predict --model gpt2-xl --dtype bf16 --prompt-tokens 100 --ctx 400\n"
    "  memtrace predict --cache none --contexts 1,10,100..1000+100 --attn eager\n"
    "  PYTORCH_ALLOC_CONF=expandable_segments:True memtrace predict --cache static\n"
    "  memtrace predict --policy torch,max_split_size_mb:128 --torch 2.11\n\n"
    "Exit status: 0 done; 2 bad input or usage; 3 out of device memory; 4 a write failed; 130 "
    "interrupted.";

typedef struct predict_options {
    const char *model, *policy, *contexts, *dtype;
    uint64_t layers, heads, width, vocab, positions;
    uint64_t prompt, ctx, batch, capacity, multiprocessors;
    mt_hf_attn attn;
    mt_hf_cache cache;
    mt_hf_release release;
    uint32_t cc;
} predict_options;

enum {
    KEY_ATTN = 256,
    KEY_CACHE,
    KEY_PROMPT,
    KEY_CTX,
    KEY_CONTEXTS,
    KEY_BATCH,
    KEY_MODEL,
    KEY_LAYERS,
    KEY_HEADS,
    KEY_WIDTH,
    KEY_VOCAB,
    KEY_POSITIONS,
    KEY_DTYPE,
    KEY_POLICY,
    KEY_CAPACITY,
    KEY_CC,
    KEY_SMS,
    KEY_TORCH,
};

static const struct argp_option options[] = {
    { 0, 0, 0, 0, "The run:", 1 },
    { "attn", KEY_ATTN, "sdpa|eager", 0, "attn_implementation (sdpa)", 0 },
    { "cache", KEY_CACHE, "dynamic|static|none", 0,
      "DynamicCache, StaticCache of all positions, or use_cache=False (dynamic)", 0 },
    { "prompt-tokens", KEY_PROMPT, "P", 0, "tokens of the first pass (1)", 0 },
    { "ctx", KEY_CTX, "N", 0, "tokens at the end (1024, or all a smaller model has)", 0 },
    { "contexts", KEY_CONTEXTS, "LIST", 0,
      "instead of --ctx, without a cache: the lengths to run, as 1,2,100..1000+100", 0 },
    { "batch", KEY_BATCH, "B", 0, "sequences of equal length (1)", 0 },
    { 0, 0, 0, 0, "The model:", 2 },
    { "model", KEY_MODEL, "NAME|DIR", 0,
      "gpt2, gpt2-medium, gpt2-large, gpt2-xl, or a folder with a config.json (gpt2)", 0 },
    { "layers", KEY_LAYERS, "N", 0, "number of layers (the preset's)", 0 },
    { "heads", KEY_HEADS, "N", 0,
      "attention heads of each layer; they divide the width (the preset's)", 0 },
    { "width", KEY_WIDTH, "N", 0, "length of the vector that stands for a token (the preset's)",
      0 },
    { "vocab", KEY_VOCAB, "N", 0, "ids that the vocabulary has (the preset's)", 0 },
    { "positions", KEY_POSITIONS, "N", 0, "longest context of the model (the preset's)", 0 },
    { "dtype", KEY_DTYPE, "f32|bf16|f16", 0, "type of weights and activations (f32)", 0 },
    { 0, 0, 0, 0, "PyTorch and the device:", 3 },
    { "torch", KEY_TORCH, "2.11|2.15", 0, "release of PyTorch (2.15)", 0 },
    { "policy", KEY_POLICY, "torch[,OPTION:VALUE...]", 0,
      "the allocator's settings, under the names of PYTORCH_ALLOC_CONF (those of the environment)",
      0 },
    { "capacity", KEY_CAPACITY, "SIZE", 0, "what the device holds (48GiB)", 0 },
    { "cc", KEY_CC, "8.0|8.6|8.9|9.0|10.0|12.0", 0, "compute capability (8.6)", 0 },
    { "sms", KEY_SMS, "N", 0, "multiprocessors (84 for 8.6, 132 for 9.0, ...)", 0 },
    { 0, 0, 0, 0, "SIZE is an integer with B, KiB, MiB or GiB (K, M, G mean the same) or nothing.",
      4 },
    { 0, 0, 0, 0, 0, 0 },
};

/* The index of text among words; a usage error when it is none of them. */
static int choice(struct argp_state *state, const char *name, const char *text,
                  const char *const words[], int count) {
    char list[128] = "", shown[CLI_SHOWN];
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], text) == 0)
            return i;
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s",
                 i == 0           ? ""
                 : i == count - 1 ? " or "
                                  : ", ",
                 words[i]);
    }
    argp_error(state, "--%s %s: expected %s", name, cli_shown(shown, text), list);
    return 0;
}

static const char *const attns[] = { "sdpa", "eager" };
static const char *const caches[] = { "dynamic", "static", "none" };
static const char *const releases[] = { "2.11", "2.15" };
static const char *const capabilities[] = { "8.0", "8.6", "8.9", "9.0", "10.0", "12.0" };
static const char *const dtypes[] = { "f32", "bf16", "f16" };
static const uint32_t capability[] = { 80, 86, 89, 90, 100, 120 };

#define COUNT(words) ((int)(sizeof(words) / sizeof *(words)))

static error_t parse_word(int key, const char *arg, struct argp_state *state, predict_options *o) {
    switch (key) {
    case KEY_ATTN:
        o->attn = (mt_hf_attn)choice(state, "attn", arg, attns, COUNT(attns));
        return 0;
    case KEY_CACHE:
        o->cache = (mt_hf_cache)choice(state, "cache", arg, caches, COUNT(caches));
        return 0;
    case KEY_TORCH:
        o->release = (mt_hf_release)choice(state, "torch", arg, releases, COUNT(releases));
        return 0;
    case KEY_CC:
        o->cc = capability[choice(state, "cc", arg, capabilities, COUNT(capabilities))];
        return 0;
    case KEY_DTYPE:
        o->dtype = dtypes[choice(state, "dtype", arg, dtypes, COUNT(dtypes))];
        return 0;
    case KEY_MODEL:
        o->model = arg;
        return 0;
    case KEY_POLICY:
        o->policy = arg;
        return 0;
    case KEY_CONTEXTS:
        o->contexts = arg;
        return 0;
    case KEY_CAPACITY:
        o->capacity = cli_capacity(state, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_number(int key, const char *arg, struct argp_state *state,
                            predict_options *o) {
    const struct {
        int key;
        const char *name;
        uint64_t most, *value;
    } numbers[] = {
        { KEY_PROMPT, "prompt-tokens", 1 << 20, &o->prompt },
        { KEY_CTX, "ctx", 1 << 20, &o->ctx },
        { KEY_BATCH, "batch", 1 << 20, &o->batch },
        { KEY_LAYERS, "layers", 1 << 20, &o->layers },
        { KEY_HEADS, "heads", 1 << 20, &o->heads },
        { KEY_WIDTH, "width", 1 << 20, &o->width },
        { KEY_VOCAB, "vocab", 1 << 24, &o->vocab },
        { KEY_POSITIONS, "positions", 1 << 20, &o->positions },
        { KEY_SMS, "sms", 4096, &o->multiprocessors },
    };
    for (int i = 0; i < COUNT(numbers); i++)
        if (numbers[i].key == key) {
            *numbers[i].value = cli_number(state, numbers[i].name, arg, 1, numbers[i].most);
            return 0;
        }
    return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    predict_options *o = state->input;
    error_t taken = parse_number(key, arg, state, o);
    if (taken == ARGP_ERR_UNKNOWN)
        taken = parse_word(key, arg, state, o);
    if (key == ARGP_KEY_ARG)
        cli_unexpected(state, arg, "");
    if (key == ARGP_KEY_END && o->contexts != NULL) {
        if (o->ctx > 0)
            argp_error(state, "--ctx or --contexts, not both");
        if (o->cache != MT_HF_NONE)
            argp_error(state, "--contexts goes with --cache none only");
    }
    return taken;
}

static const struct argp predict_argp = { .options = options, .parser = parse, .doc = doc };

/* ---- the model ------------------------------------------------------------------------------ */

static mt_status read_folder(mt_config *c, const predict_options *o, mt_error *err) {
    char path[4096];
    struct stat status;
    if (stat(o->model, &status) != 0)
        return mt_fail(err, MT_BAD,
                       "--model %.200s: there is no such folder, nor a preset of that name (gpt2, "
                       "gpt2-medium, gpt2-large, gpt2-xl)",
                       o->model);
    if (o->layers || o->heads || o->width || o->vocab || o->positions)
        return mt_fail(err, MT_BAD,
                       "--layers, --heads, --width, --vocab and --positions change a preset's "
                       "shape, not that of %.200s",
                       o->model);
    snprintf(path, sizeof path, "%s%s", o->model, S_ISDIR(status.st_mode) ? "/config.json" : "");
    return mt_config_read(path, c, err);
}

static mt_status read_model(mt_config *c, const predict_options *o, mt_error *err) {
    if (!mt_config_preset(o->model, c))
        MT_TRY(read_folder(c, o, err));
    c->layers = o->layers ? (uint32_t)o->layers : c->layers;
    c->heads = o->heads ? (uint32_t)o->heads : c->heads;
    c->width = o->width ? (uint32_t)o->width : c->width;
    c->inner = o->width ? 4 * c->width : c->inner;
    c->vocab = o->vocab ? (uint32_t)o->vocab : c->vocab;
    c->positions = o->positions ? (uint32_t)o->positions : c->positions;
    c->dtype = MT_F32;
    if (o->dtype != NULL)
        mt_dtype_parse(o->dtype, &c->dtype);
    return mt_config_check(c, err);
}

/* ---- the environment ------------------------------------------------------------------------ */

/* The policy: what --policy says, else what the environment says in PyTorch's words. A variable
 * that is set to nothing counts. */
static mt_status write_policy(char spec[SPEC_MOST], const predict_options *o, mt_error *err) {
    const char *settings = getenv("PYTORCH_CUDA_ALLOC_CONF");
    if (settings == NULL)
        settings = getenv("PYTORCH_ALLOC_CONF");
    if (o->policy != NULL && strcmp(o->policy, "torch:env") != 0) {
        size_t n = strcspn(o->policy, ",");
        if (n != 5 || strncmp(o->policy, "torch", 5) != 0)
            return mt_fail(err, MT_BAD, "--policy %.200s: expected torch[,OPTION:VALUE...]",
                           o->policy);
        settings = o->policy[n] == ',' ? o->policy + n + 1 : NULL;
    }
    if (settings == NULL)
        settings = "";
    settings += strspn(settings, " ");
    int n = snprintf(spec, SPEC_MOST, "torch,version:%s%s", releases[o->release],
                     *settings != '\0' ? "," : "");
    if (strlen(settings) + (size_t)n >= SPEC_MOST)
        return mt_fail(err, MT_BAD, "the allocator's settings are longer than %d bytes",
                       SPEC_MOST - 64);
    for (; *settings != '\0'; settings++)
        if (*settings != ' ') /* PyTorch skips blanks */
            spec[n++] = *settings;
    spec[n] = '\0';
    return MT_OK;
}

static mt_status read_workspaces(mt_hf_options *hf, mt_error *err) {
    mt_hf_environment e = {
        .blas_config = getenv("CUBLAS_WORKSPACE_CONFIG"),
        .blas_cache = getenv("TORCH_CUBLAS_WORKSPACE_CACHE"),
        .lt_size = getenv("CUBLASLT_WORKSPACE_SIZE"),
        .lt_unified = getenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE"),
    };
    return mt_hf_read_workspaces(&hf->workspaces, &e, hf->release, hf->cc, err);
}

/* ---- the run -------------------------------------------------------------------------------- */

typedef struct predict {
    predict_options o;
    mt_hf_options hf;
    uint32_t *contexts;
    mt_source *source;
    mt_alloc *alloc;
} predict;

static mt_status read_contexts(predict *p, mt_error *err) {
    cli_list list = { 0 };
    uint64_t n;
    if (p->o.contexts == NULL)
        return MT_OK;
    mt_status status = cli_list_read(&list, "contexts", p->o.contexts, NULL, err);
    if (status == MT_OK && (p->contexts = calloc(list.count, sizeof *p->contexts)) == NULL)
        status = mt_fail(err, MT_FAILED, "no memory for %zu contexts", list.count);
    for (size_t i = 0; status == MT_OK && i < list.count; i++) {
        if (!mt_parse_u64(list.value[i], 1, p->hf.model.positions, &n))
            status = mt_fail(err, MT_BAD, "--contexts %.60s: expected lengths from 1 to %u",
                             list.value[i], p->hf.model.positions);
        p->contexts[i] = (uint32_t)n;
    }
    p->hf.contexts = p->contexts;
    p->hf.context_count = list.count;
    cli_list_free(&list);
    return status;
}

static mt_status prepare(predict *p, mt_error *err) {
    const predict_options *o = &p->o;
    mt_hf_options *hf = &p->hf;
    char spec[SPEC_MOST];
    MT_TRY(read_model(&hf->model, o, err));
    uint32_t most = hf->model.positions < DEFAULT_CTX ? hf->model.positions : DEFAULT_CTX;
    hf->attn = o->attn;
    hf->cache = o->cache;
    hf->release = o->release;
    hf->batch = o->batch ? (uint32_t)o->batch : 1;
    hf->prompt = o->prompt ? (uint32_t)o->prompt : 1;
    hf->ctx = o->ctx ? (uint32_t)o->ctx : most;
    hf->cc = o->cc;
    hf->multiprocessors = (uint32_t)o->multiprocessors;
    MT_TRY(read_contexts(p, err));
    MT_TRY(read_workspaces(hf, err));
    MT_TRY(mt_hf_check(hf, err));
    MT_TRY(write_policy(spec, o, err));
    MT_TRY(
        mt_source_sim(&p->source, o->capacity ? o->capacity : DEFAULT_CAPACITY, 2 * MT_MIB, err));
    return mt_alloc_open(&p->alloc, p->source, spec, err);
}

static void print_workspaces(const mt_hf_workspaces *w) {
    printf("# workspace cublas %" PRIu64, w->blas);
    if (w->shared)
        printf(", cublasLt the same");
    else
        printf(", cublasLt %" PRIu64, w->lt);
    printf(w->kept ? ", kept\n" : ", for each call\n");
}

static void print_header(const predict *p) {
    const mt_config *c = &p->hf.model;
    const mt_hf_options *hf = &p->hf;
    printf("# memtrace %s\n# command predict\n", MT_VERSION);
    printf("# model %s\n# layers %u\n# heads %u\n# width %u\n# inner %u\n# vocab %u\n"
           "# positions %u\n# head %s\n# dtype %s\n",
           p->o.model, c->layers, c->heads, c->width, c->inner, c->vocab, c->positions,
           c->tied ? "tied" : "untied", mt_dtype_name(c->dtype));
    printf("# attn %s\n# cache %s\n# batch %u\n", attns[hf->attn], caches[hf->cache], hf->batch);
    if (p->o.contexts != NULL)
        printf("# contexts %s\n", p->o.contexts);
    else
        printf("# prompt_tokens %u\n# ctx %u\n", hf->prompt, hf->ctx);
    printf("# torch %s\n# cc %u.%u\n# policy %s\n", releases[hf->release], hf->cc / 10, hf->cc % 10,
           mt_alloc_policy(p->alloc));
    print_workspaces(&hf->workspaces);
    printf("# capacity %" PRIu64 "\n# units bytes\n# step\ttokens", p->source->capacity);
#define X(name) printf("\t" #name);
    MT_HF_COLUMNS(X)
#undef X
    putchar('\n');
}

static mt_status on_row(void *context, const mt_hf_row *row) {
    (void)context;
    if (row->step < 0)
        printf("load");
    else
        printf("%" PRId64, row->step);
    printf("\t%" PRIu64, row->tokens);
#define X(name) printf("\t%" PRIu64, row->name);
    MT_HF_COLUMNS(X)
#undef X
    putchar('\n');
    if (cli_output_failed())
        return MT_FAILED;
    return cli_interrupted() ? MT_INTERRUPTED : MT_OK;
}

static mt_status run(predict *p, mt_error *err) {
    print_header(p);
    mt_status status = mt_hf_run(p->alloc, &p->hf, on_row, NULL, err);
    if (status == MT_NO_MEMORY) {
        printf("# out of memory\n");
        fflush(stdout);
        mt_oom_print(stderr, mt_alloc_refusal(p->alloc));
    } else if (status == MT_INTERRUPTED) {
        printf("# interrupted\n");
    } else if (status == MT_OK) {
        status = mt_alloc_check(p->alloc, err);
    }
    return status;
}

int cli_predict(int argc, char **argv) {
    predict p = { .o = { .model = "gpt2", .release = MT_HF_TORCH_2_15, .cc = 86 } };
    mt_error err = { 0 };
    cli_parse(&predict_argp, argc, argv, &p.o);
    mt_status status = prepare(&p, &err);
    if (status == MT_OK)
        status = run(&p, &err);
    if (status != MT_NO_MEMORY)
        cli_fail(status, &err);
    status = cli_flush(status);
    mt_alloc_close(p.alloc);
    if (p.source != NULL)
        p.source->close(p.source);
    free(p.contexts);
    return (int)status;
}
