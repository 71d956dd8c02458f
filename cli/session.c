/* session.c - from options to an open engine. */
#include "cli/backend.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "base/input.h"
#include "base/size.h"
#include "base/text.h"

#define DEFAULT_CTX        1024
#define TORCH_WORKSPACE    8519680  /* what PyTorch requests for cuBLAS before sm_90 */
#define TORCH_WORKSPACE_90 33554432 /* and from there on */
#define END_OF_TEXT        50256

/* ---- the model ------------------------------------------------------------------------------- */

mt_status cli_refuse_shape(const cli_shape *s, const char *model, mt_error *err) {
    if (!s->layers && !s->heads && !s->width && !s->vocab && !s->positions)
        return MT_OK;
    return mt_fail(err, MT_BAD,
                   "--layers, --heads, --width, --vocab and --positions change a preset's shape, "
                   "not that of %.200s",
                   model);
}

mt_status cli_reshape(mt_config *c, const cli_shape *s, mt_error *err) {
    c->layers = s->layers ? (uint32_t)s->layers : c->layers;
    c->heads = s->heads ? (uint32_t)s->heads : c->heads;
    c->width = s->width ? (uint32_t)s->width : c->width;
    c->inner = s->width ? 4 * c->width : c->inner;
    c->vocab = s->vocab ? (uint32_t)s->vocab : c->vocab;
    c->positions = s->positions ? (uint32_t)s->positions : c->positions;
    return mt_config_check(c, err);
}

static mt_status open_preset(cli_session *s, mt_error *err) {
    MT_TRY(cli_reshape(&s->config, &s->o.shape, err));
    return mt_checkpoint_seeded(&s->checkpoint, &s->config, s->o.seed, err);
}

mt_status cli_model_there(const char *name, mt_error *err) {
    if (access(name, F_OK) == 0)
        return MT_OK;
    return mt_fail(err, MT_BAD,
                   "--model %.200s: no such file, folder or preset (presets: gpt2, gpt2-medium, "
                   "gpt2-large, gpt2-xl)",
                   name);
}

static mt_status open_file(cli_session *s, mt_error *err) {
    MT_TRY(cli_model_there(s->o.model, err));
    MT_TRY(cli_refuse_shape(&s->o.shape, s->o.model, err));
    MT_TRY(mt_checkpoint_open(&s->checkpoint, s->o.model, err));
    s->config = *mt_checkpoint_config(s->checkpoint);
    return MT_OK;
}

mt_status cli_read_dtype(const char *text, mt_dtype *out, mt_error *err) {
    *out = MT_F32;
    if (text == NULL || mt_dtype_parse(text, out))
        return MT_OK;
    return mt_fail(err, MT_BAD, "--dtype %.60s: expected f32, bf16 or f16", text);
}

static mt_status open_model(cli_session *s, mt_error *err) {
    bool preset = mt_config_preset(s->o.model, &s->config);
    MT_TRY(preset ? open_preset(s, err) : open_file(s, err));
    MT_TRY(cli_read_dtype(s->o.dtype, &s->config.dtype, err));
    return mt_config_check(&s->config, err);
}

/* ---- threads --------------------------------------------------------------------------------- */

int cli_threads(uint64_t asked, bool quiet) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    if (asked > (uint64_t)cores && !quiet)
        fprintf(stderr,
                "memtrace: --threads %" PRIu64 " on %d core%s: more threads than cores run "
                "slower\n",
                asked, cores, cores == 1 ? "" : "s");
    return asked > 0 ? (int)asked : cores;
}

/* ---- device and allocator -------------------------------------------------------------------- */

static mt_status only_f32(const cli_session *s, const char *backend, mt_error *err) {
    if (s->config.dtype == MT_F32)
        return MT_OK;
    return mt_fail(err, MT_BAD,
                   "--dtype %s: the %s back end computes f32 only; --backend none accounts for all "
                   "types",
                   mt_dtype_name(s->config.dtype), backend);
}

static mt_status open_cuda(cli_session *s, mt_error *err) {
    const mt_policy_traits *policy = mt_policy_find(s->o.policy);
    mt_cuda_options o = { .capacity = s->o.capacity,
                          .tf32 = s->o.tf32,
                          .pool = policy != NULL && policy->device_pool,
                          .watch = true,
                          .late = &s->late };
    MT_TRY(only_f32(s, "cuda", err));
    MT_TRY(cli_open_cuda(&s->cuda, &o, err));
    s->device = s->cuda.device;
    s->source = s->cuda.source;
    return MT_OK;
}

static mt_status open_device(cli_session *s, bool computes, mt_error *err) {
    const char *name = s->o.backend;
    if (name == NULL)
        name = cli_cuda_present() ? "cuda" : "cpu";
    if (strcmp(name, "none") == 0) {
        if (computes)
            return mt_fail(err, MT_BAD,
                           "--backend none computes nothing; this command needs results");
        return mt_device_none(&s->device, err);
    }
    if (strcmp(name, "cuda") == 0)
        return open_cuda(s, err);
    if (strcmp(name, "cpu") != 0)
        return mt_fail(err, MT_BAD, "--backend %.60s: expected cpu, cuda or none", name);
    MT_TRY(only_f32(s, "cpu", err));
    cli_threads(s->o.threads, s->o.quiet);
    return mt_device_cpu(&s->device, (int)s->o.threads, err);
}

/* What cuBLAS's own workspace would be, where it is cuBLAS that computes. */
static uint64_t default_workspace(const cli_session *s) {
    return s->cuda.device != NULL ? mt_cuda_workspace(s->cuda.major) : 0;
}

static mt_status read_workspace(cli_session *s, mt_error *err) {
    const char *w = s->o.workspace;
    s->workspace = w == NULL ? default_workspace(s) : 0;
    if (w == NULL || strcmp(w, "library") == 0)
        return MT_OK;
    if (strcmp(w, "torch") == 0) {
        s->workspace = s->cuda.major >= 9 ? TORCH_WORKSPACE_90 : TORCH_WORKSPACE;
        return MT_OK;
    }
    if (!mt_parse_size(w, &s->workspace) || s->workspace > (uint64_t)1 << 50)
        return mt_fail(err, MT_BAD, "--workspace %.60s: expected a size, 0, torch or library", w);
    return MT_OK;
}

static mt_status open_policy(cli_session *s, mt_error *err) {
    char *spec;
    MT_TRY(cli_policy_spec(&spec, s->o.policy, err));
    mt_status status = mt_alloc_open(&s->alloc, s->source, spec, err);
    free(spec);
    if (status == MT_OK)
        cli_policy_notes(s->alloc, s->o.quiet);
    return status;
}

static mt_status open_allocator(cli_session *s, mt_error *err) {
    s->capacity = s->o.capacity > 0        ? s->o.capacity
                  : s->cuda.device != NULL ? s->cuda.total
                                           : CLI_CAPACITY;
    MT_TRY(read_workspace(s, err));
    if (s->source != NULL)
        return open_policy(s, err);
    if (s->device->computes)
        MT_TRY(mt_source_host(&s->source, s->capacity, err));
    else
        MT_TRY(mt_source_sim(&s->source, s->capacity, 4 * MT_KIB, err));
    return open_policy(s, err);
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static mt_status read_ids(cli_session *s, int32_t **ids, size_t *n, mt_error *err) {
    const char *t = s->o.prompt_ids;
    *ids = malloc((strlen(t) + 1) * sizeof **ids);
    if (*ids == NULL)
        return mt_no_memory(err, "the prompt");
    for (*n = 0; *t != '\0';) {
        char number[16];
        uint64_t id;
        size_t digits = strcspn(t, ",");
        snprintf(number, sizeof number, "%.*s", (int)(digits < 15 ? digits : 15), t);
        if (digits > 15 || !mt_parse_u64(number, 0, s->config.vocab - 1, &id))
            return mt_fail(err, MT_BAD, "--prompt-ids, id %zu: %.20s: expected 0 to %u", *n + 1,
                           number, s->config.vocab - 1);
        (*ids)[(*n)++] = (int32_t)id;
        t += digits;
        if (*t == ',' && *++t == '\0')
            return mt_fail(err, MT_BAD, "--prompt-ids: an id is missing after the last comma");
    }
    return *n > 0 ? MT_OK : mt_fail(err, MT_BAD, "--prompt-ids: expected at least one id");
}

/* An empty text is one <|endoftext|>, which needs no vocabulary. */
static mt_status end_of_text(cli_session *s, int32_t **ids, size_t *n, mt_error *err) {
    int32_t id = s->tokenizer != NULL ? mt_tokenizer_end_of_text(s->tokenizer) : END_OF_TEXT;
    if (id < 0 || (uint32_t)id >= s->config.vocab)
        return mt_fail(err, MT_BAD, "an empty prompt is one <|endoftext|>, which this model lacks");
    *ids = malloc(sizeof **ids);
    if (*ids == NULL)
        return mt_no_memory(err, "the prompt");
    **ids = id;
    *n = 1;
    return MT_OK;
}

static mt_status encode(cli_session *s, const char *text, size_t bytes, int32_t **ids, size_t *n,
                        mt_error *err) {
    if (bytes == 0)
        return end_of_text(s, ids, n, err);
    if (s->tokenizer == NULL)
        return mt_fail(err, MT_BAD,
                       "a text prompt needs a vocabulary: --tokenizer DIR, or a "
                       "--model folder with vocab.json and merges.txt");
    MT_TRY(mt_tokenizer_encode(s->tokenizer, text, bytes, ids, n, err));
    for (size_t i = 0; i < *n; i++)
        if ((uint32_t)(*ids)[i] >= s->config.vocab)
            return mt_fail(err, MT_BAD,
                           "prompt token %zu has id %d, expected 0 to %u (the model's vocabulary)",
                           i + 1, (*ids)[i], s->config.vocab - 1);
    return MT_OK;
}

static mt_status read_prompt(cli_session *s, int32_t **ids, size_t *n, mt_error *err) {
    if (s->o.prompt_ids != NULL)
        return read_ids(s, ids, n, err);
    if (s->o.prompt != NULL)
        return encode(s, s->o.prompt, strlen(s->o.prompt), ids, n, err);
    char *text;
    size_t bytes;
    MT_TRY(mt_input_read(s->o.prompt_file, 64 * MT_MIB, &text, &bytes, err));
    mt_status status = encode(s, text, bytes, ids, n, err);
    free(text);
    return status;
}

static mt_status check_lengths(const cli_session *s, uint64_t P, mt_error *err) {
    if (s->ctx > s->config.positions)
        return mt_fail(err, MT_BAD, "--ctx %u: this model has %u positions", s->ctx,
                       s->config.positions);
    if (P > s->ctx)
        return mt_fail(err, MT_BAD, "the prompt has %" PRIu64 " tokens, more than --ctx %u", P,
                       s->ctx);
    if ((uint64_t)s->batch * s->ctx > INT32_MAX)
        return mt_fail(err, MT_BAD, "--batch %u at --ctx %u: more than 2^31 tokens", s->batch,
                       s->ctx);
    return MT_OK;
}

static mt_status open_prompt(cli_session *s, mt_error *err) {
    const cli_options *o = &s->o;
    bool given = o->prompt || o->prompt_file || o->prompt_ids;
    uint64_t P = o->prompt_tokens > 0 ? o->prompt_tokens : 1;
    int32_t *ids = NULL;
    size_t n = 0;
    s->batch = o->batch > 0 ? (uint32_t)o->batch : 1;
    s->ctx = o->ctx > 0                          ? (uint32_t)o->ctx
             : s->config.positions < DEFAULT_CTX ? s->config.positions
                                                 : DEFAULT_CTX;
    mt_status status = given ? read_prompt(s, &ids, &n, err) : MT_OK;
    P = given ? n : P;
    if (status == MT_OK)
        status = check_lengths(s, P, err);
    if (status == MT_OK) {
        s->P = (uint32_t)P;
        s->prompt = calloc((size_t)s->batch * P, sizeof *s->prompt);
        if (s->prompt == NULL)
            status = mt_no_memory(err, "the prompt");
    }
    for (uint32_t b = 0; status == MT_OK && given && b < s->batch; b++)
        memcpy(s->prompt + b * P, ids, P * sizeof *ids);
    if (status == MT_OK && !given)
        mt_seeded_prompt(s->prompt, s->batch, s->P, o->seed, s->config.vocab);
    free(ids);
    return status;
}

/* The vocabulary of --tokenizer, which must be there, or of the model's folder, which may. */
static mt_status open_vocabulary(cli_session *s, mt_error *err) {
    char path[4096];
    if (s->o.tokenizer != NULL)
        return mt_tokenizer_open_folder(&s->tokenizer, s->o.tokenizer, err);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", s->o.model, i == 0 ? "vocab.json" : "encoder.json");
        if (access(path, F_OK) == 0)
            return mt_tokenizer_open_folder(&s->tokenizer, s->o.model, err);
    }
    return MT_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

mt_status cli_prepare(cli_session *s, const cli_options *o, bool computes, mt_error *err) {
    memset(s, 0, sizeof *s);
    s->o = *o;
    s->o.model = o->model != NULL ? o->model : "gpt2";
    s->o.policy = o->policy != NULL ? o->policy : "torch";
    s->o.kv = o->kv != NULL ? o->kv : "concat";
    MT_TRY(mt_kv_check(s->o.kv, err));
    MT_TRY(open_model(s, err));
    MT_TRY(open_device(s, computes, err));
    mt_engine_options options = cli_engine_options(s);
    MT_TRY(mt_graph_check(&options, s->device, err));
    MT_TRY(open_allocator(s, err));
    bool text = o->prompt != NULL || o->prompt_file != NULL || o->tokenizer != NULL || computes;
    if (text)
        MT_TRY(open_vocabulary(s, err));
    return open_prompt(s, err);
}

static void on_load(void *context, uint64_t done, uint64_t total) {
    cli_progress *p = context;
    p->total = total >> 20 > 0 ? total >> 20 : 1;
    cli_progress_show(p, done >> 20);
}

mt_status cli_load(cli_session *s, mt_error *err) {
    cli_progress p;
    cli_progress_start(&p, s->o.quiet, "loading", "MiB", 1);
    mt_status status = mt_model_load(&s->model, s->checkpoint, &s->config, s->alloc, s->device,
                                     (int)s->o.threads, on_load, &p, err);
    cli_progress_end(&p);
    return status;
}

mt_engine_options cli_engine_options(const cli_session *s) {
    return (mt_engine_options){ .batch = s->batch,
                                .prompt = s->P,
                                .ctx = s->ctx,
                                .logits_all = s->o.logits_all,
                                .arena = s->o.arena,
                                .kv = s->o.kv,
                                .workspace = s->workspace,
                                .own_workspace = s->o.workspace != NULL &&
                                                 strcmp(s->o.workspace, "library") == 0,
                                .graph = s->o.graph };
}

mt_status cli_open_engine(cli_session *s, mt_error *err) {
    mt_engine_options options = cli_engine_options(s);
    return mt_engine_open(&s->engine, s->model, &options, err);
}

void cli_close(cli_session *s) {
    mt_engine_close(s->engine);
    mt_model_close(s->model);
    mt_alloc_close(s->alloc);
    if (s->source != NULL)
        s->source->close(s->source);
    if (s->device != NULL)
        s->device->close(s->device);
    if (s->late.status != MT_OK)
        cli_fail(s->late.status, &s->late);
    mt_tokenizer_close(s->tokenizer);
    mt_checkpoint_close(s->checkpoint);
    free(s->prompt);
}
