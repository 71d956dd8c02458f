/* predict.c - `memtrace predict`: what PyTorch's memory counters would show, without PyTorch.
 *
 * Runs the requests of Hugging Face's GPT-2 (predict/gpt2.h) through the torch policy on a
 * simulated device and prints the counters of torch.cuda.memory_stats after every token. The
 * environment variables that PyTorch obeys are obeyed here; --policy goes before them. */
#include "cli/cli.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/list.h"
#include "base/size.h"
#include "predict/gpt2.h"
#include "reports/columns.h"
#include "reports/summary.h"

#define DEFAULT_CTX 1024

static const char doc[] =
    "Prints what torch.cuda's memory counters would show after each token of greedy "
    "decoding with Hugging Face's GPT2LMHeadModel: to the byte, without PyTorch and without "
    "a GPU.\vObeys PYTORCH_CUDA_ALLOC_CONF or else PYTORCH_ALLOC_CONF (--policy goes before "
    "both), CUBLAS_WORKSPACE_CONFIG, TORCH_CUBLAS_WORKSPACE_CACHE, CUBLASLT_WORKSPACE_SIZE "
    "and TORCH_CUBLASLT_UNIFIED_WORKSPACE.\n"
    "\n"
    "Columns are tab-separated. The row named load (with --csv: step -1) is the state after "
    "the model was moved to the device. Peaks are those within a step; allocs, frees, "
    "device_allocs and device_frees count from the start.\n"
    "\n"
    "Examples:\n"
    "  memtrace predict --model gpt2 --ctx 1024 > gpt2.tsv\n"
    "  memtrace predict --model gpt2-xl --dtype bf16 --prompt-tokens 100 --ctx 400\n"
    "  memtrace predict --cache none --contexts 1,10,100..1000+100 --attn eager\n"
    "  PYTORCH_ALLOC_CONF=expandable_segments:True memtrace predict --cache static\n"
    "  memtrace predict --policy torch,max_split_size_mb:128 --torch 2.11\n"
    "\n"
    "Exit status: 0 done; 2 bad input or usage; 3 out of device memory; 4 a write failed; "
    "130 interrupted.";

typedef struct predict_options {
    const char *model, *policy, *contexts, *dtype;
    cli_shape shape;
    uint64_t prompt, ctx, batch, capacity, multiprocessors;
    bool csv;
    unsigned attn, cache, release,
        capability; /* mt_predict_attn and so on; capability: which of the list */
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
    { CLI_SIZE, FIELD(capacity), "capacity", "SIZE", .help = "memory of the device",
      CLI_CAPACITY_TEXT, 1, (uint64_t)1 << 50 },
    { CLI_WORD, FIELD(capability), "cc", CAPABILITIES, .help = "compute capability", "8.6" },
    { CLI_NUMBER, FIELD(multiprocessors), "sms", "N", .help = "number of SMs",
      "84 for 8.6, 132 for 9.0, ...", 1, 4096 },
    { CLI_GROUP, .help = "Output:" },
    { CLI_FLAG, FIELD(csv), "csv", .help = CLI_CSV_HELP },
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
        cli_usage_error(state, "--ctx or --contexts, not both");
    if (o->contexts != NULL && o->cache != MT_CACHE_NONE)
        cli_usage_error(state, "--contexts goes with --cache none only");
}

static const cli_usage usage = {
    .doc = doc,
    .table = { { rows, 0 }, { cli_shape_rows, FIELD(shape) }, { cli_size_note, 0 } },
    .check = check,
};

/* ---- the model ------------------------------------------------------------------------------- */

static mt_status read_folder(mt_config *c, const predict_options *o, mt_error *err) {
    char path[PATH_MAX];
    struct stat status;
    MT_TRY(cli_model_there(o->model, err));
    MT_TRY(cli_refuse_shape(&o->shape, o->model, err));
    bool folder = stat(o->model, &status) == 0 && S_ISDIR(status.st_mode);
    if (snprintf(path, sizeof path, "%s%s", o->model, folder ? "/config.json" : "") >= PATH_MAX)
        return mt_fail(err, MT_BAD, "--model %.200s: the path is too long", o->model);
    return mt_config_read(path, c, err);
}

static mt_status read_model(mt_config *c, const predict_options *o, mt_error *err) {
    if (!mt_config_preset(o->model, c))
        MT_TRY(read_folder(c, o, err));
    MT_TRY(cli_read_dtype(o->dtype, &c->dtype, err));
    return cli_reshape(c, &o->shape, err);
}

/* ---- the environment ------------------------------------------------------------------------- */

static mt_status read_workspaces(mt_predict_options *hf, mt_error *err) {
    mt_predict_environment e = {
        .blas_config = getenv("CUBLAS_WORKSPACE_CONFIG"),
        .blas_cache = getenv("TORCH_CUBLAS_WORKSPACE_CACHE"),
        .lt_size = getenv("CUBLASLT_WORKSPACE_SIZE"),
        .lt_unified = getenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE"),
    };
    return mt_predict_read_workspaces(&hf->workspaces, &e, hf->release, hf->cc, err);
}

/* ---- the run --------------------------------------------------------------------------------- */

typedef struct predict {
    predict_options o;
    mt_predict_options hf;
    uint32_t *contexts;
    mt_source *source;
    mt_alloc *alloc;
    uint64_t refusals; /* of the source, at the last row */
    int64_t full_step; /* in which the first of them came, or the next to come */
} predict;

static mt_status read_contexts(predict *p, mt_error *err) {
    cli_list list = { 0 };
    uint64_t n;
    if (p->o.contexts == NULL)
        return MT_OK;
    mt_status status = cli_list_read(&list, "contexts", p->o.contexts, NULL, err);
    if (status == MT_OK && (p->contexts = calloc(list.count, sizeof *p->contexts)) == NULL)
        status = mt_no_memory(err, "a list of contexts");
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

/* Opens the policy that --policy or the environment names, as the release of --torch has it. */
static mt_status open_policy(predict *p, mt_error *err) {
    const predict_options *o = &p->o;
    const mt_policy_traits *traits = mt_policy_find(o->policy);
    char release[8], *spec, *whole;
    if (traits == NULL || !traits->pytorch)
        return mt_fail(err, MT_BAD, "--policy %.200s: expected torch[,OPTION:VALUE...]", o->policy);
    cli_word(RELEASES, o->release, release, sizeof release);
    MT_TRY(cli_policy_spec(&spec, o->policy, err));
    const char *rest = spec + strlen(traits->name), *comma = *rest != '\0' ? "," : "";
    mt_status status = mt_no_memory(err, "a policy");
    if (asprintf(&whole, "%s,version:%s%s%s", traits->name, release, comma,
                 *rest != '\0' ? rest + 1 : "") >= 0) {
        status = mt_alloc_open(&p->alloc, p->source, whole, err);
        free(whole);
    }
    free(spec);
    if (status == MT_OK)
        cli_policy_notes(p->alloc, false);
    return status;
}

static mt_status prepare(predict *p, mt_error *err) {
    const predict_options *o = &p->o;
    mt_predict_options *hf = &p->hf;
    MT_TRY(read_model(&hf->model, o, err));
    uint32_t most = hf->model.positions < DEFAULT_CTX ? hf->model.positions : DEFAULT_CTX;
    hf->attn = (mt_predict_attn)o->attn;
    hf->cache = (mt_predict_cache)o->cache;
    hf->release = (mt_predict_release)o->release;
    hf->batch = o->batch ? (uint32_t)o->batch : 1;
    hf->prompt = o->prompt ? (uint32_t)o->prompt : 1;
    hf->ctx = o->ctx ? (uint32_t)o->ctx : most;
    hf->cc = capability[o->capability];
    hf->multiprocessors = (uint32_t)o->multiprocessors;
    MT_TRY(read_contexts(p, err));
    MT_TRY(read_workspaces(hf, err));
    MT_TRY(mt_predict_check(hf, err));
    MT_TRY(mt_source_sim(&p->source, o->capacity ? o->capacity : CLI_CAPACITY, 2 * MT_MIB, err));
    return open_policy(p, err);
}

static void say_model(const mt_config *c, const char *name) {
    cli_say_path(cli_comments, "model", name);
    cli_say_shape(cli_comments, c);
    cli_say_number(cli_comments, "inner", c->inner);
    cli_say_number(cli_comments, "vocab", c->vocab);
    cli_say_number(cli_comments, "positions", c->positions);
    cli_say(cli_comments, MT_VALUE_TEXT, "head", "%s", c->tied ? "tied" : "untied");
    cli_say(cli_comments, MT_VALUE_TEXT, "dtype", "%s", mt_dtype_name(c->dtype));
}

static void say_word(const char *name, const char *words, unsigned n) {
    char word[16];
    cli_word(words, n, word, sizeof word);
    cli_say(cli_comments, MT_VALUE_TEXT, name, "%s", word);
}

static void say_generation(const predict *p) {
    const mt_predict_options *hf = &p->hf;
    say_word("attn", ATTNS, p->o.attn);
    say_word("cache", CACHES, p->o.cache);
    cli_say_number(cli_comments, "batch", hf->batch);
    if (p->o.contexts != NULL) {
        cli_say(cli_comments, MT_VALUE_TEXT, "contexts", "%s", p->o.contexts);
    } else {
        cli_say_number(cli_comments, "prompt_tokens", hf->prompt);
        cli_say_number(cli_comments, "ctx", hf->ctx);
    }
}

static void say_device(const predict *p) {
    const mt_predict_workspaces *w = &p->hf.workspaces;
    char lt[48] = "the same";
    if (!w->shared)
        snprintf(lt, sizeof lt, "%" PRIu64, w->lt);
    say_word("torch", RELEASES, p->o.release);
    say_word("cc", CAPABILITIES, p->o.capability);
    cli_say(cli_comments, MT_VALUE_TEXT, "policy", "%s", mt_alloc_policy(p->alloc));
    cli_say(cli_comments, MT_VALUE_TEXT, "workspace", "cublas %" PRIu64 ", cublasLt %s, %s",
            w->blas, lt, w->kept ? "kept" : "for each call");
    cli_say_number(cli_comments, "capacity", p->source->capacity);
    cli_say(cli_comments, MT_VALUE_TEXT, "units", "bytes");
}

#define COUNTER(name) { #name, MT_CELL_U64, offsetof(mt_predict_row, name), 0 },
static const mt_column columns[] = { { "step", MT_CELL_I64, offsetof(mt_predict_row, step), 0 },
                                     COUNTER(tokens) MT_PREDICT_COLUMNS(COUNTER){ .name = NULL } };

static void print_header(const predict *p) {
    if (!p->o.csv) {
        cli_say_command(cli_comments, "predict");
        say_model(&p->hf.model, p->o.model);
        say_generation(p);
        say_device(p);
    }
    mt_columns_names(stdout, columns, p->o.csv ? MT_CSV : MT_TSV);
}

static mt_status on_row(void *context, const mt_predict_row *row) {
    predict *p = context;
    uint64_t refusals = p->source->refusals;
    if (p->refusals == 0)
        p->full_step = row->step + (refusals == 0);
    p->refusals = refusals;
    if (row->step < 0 && !p->o.csv) {
        printf("load\t");
        mt_columns_row(stdout, columns + 1, row, MT_TSV);
    } else {
        mt_columns_row(stdout, columns, row, p->o.csv ? MT_CSV : MT_TSV);
    }
    if (cli_output_failed())
        return MT_FAILED;
    return cli_interrupted() ? MT_INTERRUPTED : MT_OK;
}

static mt_status run(predict *p, mt_error *err) {
    print_header(p);
    mt_status status = mt_predict_run(p->alloc, &p->hf, on_row, p, err);
    if (status == MT_OK)
        status = mt_alloc_check(p->alloc, err);
    if (status != MT_OK && !p->o.csv)
        printf("# %s\n", cli_ending(status));
    return status;
}

/* Why the run ended, and what the capacity had to do with it. */
static mt_status tell(const predict *p, mt_status status, const mt_error *err) {
    status = cli_flush(status);
    if (status != MT_NO_MEMORY)
        cli_fail(status, err);
    if (p->source != NULL && p->source->refusals > 0)
        cli_tell_capacity(p->source, p->o.capacity == 0, p->full_step);
    if (status == MT_NO_MEMORY)
        mt_oom_print(stderr, mt_alloc_refusal(p->alloc));
    return status;
}

int cli_predict(int argc, char **argv) {
    predict p = {
        .o = { .model = "gpt2", .policy = "torch:env", .release = MT_TORCH_2_15, .capability = 1 },
        .full_step = -1,
    };
    mt_error err = { 0 };
    cli_parse(&usage, argc, argv, &p.o);
    mt_status status = prepare(&p, &err);
    if (status == MT_OK)
        status = run(&p, &err);
    status = tell(&p, status, &err);
    mt_alloc_close(p.alloc);
    if (p.source != NULL)
        p.source->close(p.source);
    free(p.contexts);
    return (int)status;
}
