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
    cli_shape shape;
    uint64_t prompt, ctx, batch, capacity, multiprocessors;
    unsigned attn, cache, release,
        capability; /* mt_hf_attn and so on; capability: which of the list */
} predict_options;

#define ATTNS        "sdpa|eager"
#define CACHES       "dynamic|static|none"
#define RELEASES     "2.11|2.15"
#define CAPABILITIES "8.0|8.6|8.9|9.0|10.0|12.0"

static const uint32_t capability[] = { 80, 86, 89, 90, 100, 120 };

#define FIELD(name) offsetof(predict_options, name)

static const cli_option rows[] = {
    { CLI_GROUP, .help = "Generation:" },
    { CLI_WORD, FIELD(attn), "attn", ATTNS, .help = "attn_implementation", "sdpa" },
    { CLI_WORD, FIELD(cache), "cache", CACHES,
      .help = "DynamicCache, StaticCache of the model's context length, or use_cache=False",
      "dynamic" },
    { CLI_NUMBER, FIELD(prompt), "prompt-tokens", "P", .help = "tokens of the prompt", "1", 1,
      1 << 20 },
    { CLI_NUMBER, FIELD(ctx), "ctx", "N", .help = "tokens at the end",
      "1024, or the model's context length", 1, 1 << 20 },
    { CLI_TEXT, FIELD(contexts), "contexts", "LIST",
      .help =
          "with --cache none, instead of --ctx: the lengths to run, such as 1,2,100..1000+100" },
    { CLI_NUMBER, FIELD(batch), "batch", "B", .help = "number of sequences, all of equal length",
      "1", 1, 1 << 20 },
    { CLI_GROUP, .help = "PyTorch and the device:" },
    { CLI_WORD, FIELD(release), "torch", RELEASES, .help = "release of PyTorch", "2.15" },
    { CLI_SPEC, FIELD(policy), "policy", "torch[,OPTION:VALUE...]",
      .help = "allocator settings, named as in PYTORCH_ALLOC_CONF", "those of the environment" },
    { CLI_SIZE, FIELD(capacity), "capacity", "SIZE", .help = "memory of the device", "48GiB", 1,
      (uint64_t)1 << 50 },
    { CLI_WORD, FIELD(capability), "cc", CAPABILITIES, .help = "compute capability", "8.6" },
    { CLI_NUMBER, FIELD(multiprocessors), "sms", "N", .help = "number of SMs",
      "84 for 8.6, 132 for 9.0, ...", 1, 4096 },
    { CLI_GROUP, .help = "Model:" },
    { CLI_TEXT, FIELD(model), "model", "NAME|DIR",
      .help = "gpt2, gpt2-medium, gpt2-large, gpt2-xl, or a folder with a config.json", "gpt2" },
    { CLI_TEXT, FIELD(dtype), "dtype", "f32|bf16|f16",
      .help = "element type of weights and activations", "f32" },
    { .name = NULL },
};

static void check(struct argp_state *state, void *input) {
    const predict_options *o = input;
    if (o->contexts != NULL && o->ctx > 0)
        argp_error(state, "--ctx or --contexts, not both");
    if (o->contexts != NULL && o->cache != MT_HF_NONE)
        argp_error(state, "--contexts goes with --cache none only");
}

static const cli_usage usage = {
    .doc = doc,
    .table = { { rows, 0 }, { cli_shape_rows, FIELD(shape) }, { cli_size_note, 0 } },
    .check = check,
};

/* ---- the model ------------------------------------------------------------------------------ */

static mt_status read_folder(mt_config *c, const predict_options *o, mt_error *err) {
    char path[4096];
    struct stat status;
    if (stat(o->model, &status) != 0)
        return mt_fail(err, MT_BAD,
                       "--model %.200s: there is no such folder, nor a preset of that name (gpt2, "
                       "gpt2-medium, gpt2-large, gpt2-xl)",
                       o->model);
    MT_TRY(cli_refuse_shape(&o->shape, o->model, err));
    snprintf(path, sizeof path, "%s%s", o->model, S_ISDIR(status.st_mode) ? "/config.json" : "");
    return mt_config_read(path, c, err);
}

static mt_status read_model(mt_config *c, const predict_options *o, mt_error *err) {
    if (!mt_config_preset(o->model, c))
        MT_TRY(read_folder(c, o, err));
    MT_TRY(cli_read_dtype(o->dtype, &c->dtype, err));
    return cli_reshape(c, &o->shape, err);
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
    char release[8];
    cli_word(RELEASES, o->release, release, sizeof release);
    int n = snprintf(spec, SPEC_MOST, "torch,version:%s%s", release, *settings != '\0' ? "," : "");
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
    hf->attn = (mt_hf_attn)o->attn;
    hf->cache = (mt_hf_cache)o->cache;
    hf->release = (mt_hf_release)o->release;
    hf->batch = o->batch ? (uint32_t)o->batch : 1;
    hf->prompt = o->prompt ? (uint32_t)o->prompt : 1;
    hf->ctx = o->ctx ? (uint32_t)o->ctx : most;
    hf->cc = capability[o->capability];
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
    char attn[16], cache[16], release[16];
    cli_word(ATTNS, p->o.attn, attn, sizeof attn);
    cli_word(CACHES, p->o.cache, cache, sizeof cache);
    cli_word(RELEASES, p->o.release, release, sizeof release);
    printf("# attn %s\n# cache %s\n# batch %u\n", attn, cache, hf->batch);
    if (p->o.contexts != NULL)
        printf("# contexts %s\n", p->o.contexts);
    else
        printf("# prompt_tokens %u\n# ctx %u\n", hf->prompt, hf->ctx);
    printf("# torch %s\n# cc %u.%u\n# policy %s\n", release, hf->cc / 10, hf->cc % 10,
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
    predict p = { .o = { .model = "gpt2", .release = MT_HF_TORCH_2_15, .capability = 1 } };
    mt_error err = { 0 };
    cli_parse(&usage, argc, argv, &p.o);
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
