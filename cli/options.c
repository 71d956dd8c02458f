/* options.c - the options of every command that runs the engine. */
#include "cli/cli.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_CTX = 256,
    KEY_PROMPT,
    KEY_PROMPT_FILE,
    KEY_PROMPT_IDS,
    KEY_PROMPT_TOKENS,
    KEY_MODEL,
    KEY_TOKENIZER,
    KEY_LAYERS,
    KEY_HEADS,
    KEY_WIDTH,
    KEY_VOCAB,
    KEY_POSITIONS,
    KEY_SEED,
    KEY_DTYPE,
    KEY_BATCH,
    KEY_LOGITS,
    KEY_BACKEND,
    KEY_POLICY,
    KEY_KV,
    KEY_ACTIVATIONS,
    KEY_WORKSPACE,
    KEY_CAPACITY,
    KEY_TRACE,
    KEY_TRACE_TIME,
    KEY_JSON,
    KEY_GRAPH,
    KEY_TF32,
    KEY_THREADS,
};

static const struct argp_option options[] = {
    { 0, 0, 0, 0, "The run:", 11 },
    { "ctx", KEY_CTX, "N", 0,
      "tokens in the cache at the end, the prompt included (1024, or all a smaller model has)", 0 },
    { "prompt-tokens", KEY_PROMPT_TOKENS, "P", 0, "a prompt of P ids, made from the seed (1)", 0 },
    { "prompt", KEY_PROMPT, "TEXT", 0,
      "the prompt as text, which needs a vocabulary; empty: one <|endoftext|>", 0 },
    { "prompt-file", KEY_PROMPT_FILE, "FILE", 0, "the prompt as the text of a file", 0 },
    { "prompt-ids", KEY_PROMPT_IDS, "1,2,3", 0, "the prompt as ids", 0 },
    { "batch", KEY_BATCH, "B", 0, "sequences of equal length (1)", 0 },
    { "logits", KEY_LOGITS, "last|all", 0,
      "tokens whose logits are computed in the prefill and with --kv none (last)", 0 },
    { 0, 0, 0, 0, "The model:", 12 },
    { "model", KEY_MODEL, "NAME|DIR|FILE", 0,
      "gpt2, gpt2-medium, gpt2-large, gpt2-xl (seeded weights), a Hugging Face folder, or an llm.c "
      ".bin file (gpt2)",
      0 },
    { "layers", KEY_LAYERS, "N", 0, "number of layers (the preset's)", 0 },
    { "heads", KEY_HEADS, "N", 0,
      "attention heads of each layer; they divide the width (the preset's)", 0 },
    { "width", KEY_WIDTH, "N", 0, "length of the vector that stands for a token (the preset's)",
      0 },
    { "vocab", KEY_VOCAB, "N", 0, "ids that the vocabulary has (the preset's)", 0 },
    { "positions", KEY_POSITIONS, "N", 0, "longest context of the model (the preset's)", 0 },
    { "seed", KEY_SEED, "N", 0, "where seeded weights and ids begin (0)", 0 },
    { "dtype", KEY_DTYPE, "f32|bf16|f16", 0,
      "type of weights, cache and activations; bf16 and f16 with --backend none only (f32)", 0 },
    { "tokenizer", KEY_TOKENIZER, "DIR", 0, "folder of vocab.json and merges.txt (that of --model)",
      0 },
    { 0, 0, 0, 0, "Memory:", 13 },
    { "policy", KEY_POLICY, "SPEC", 0,
      "the allocator: torch[,option:value...], "
      "block:SIZE[,round:N][,fit:best|first][,keep:all|none], direct[:SIZE], bfc[:SIZE], jemalloc, "
      "or async with --backend cuda (torch)",
      0 },
    { "kv", KEY_KV, "STRATEGY", 0,
      "how the cache grows: concat, concat-tuple, static, doubling[:N], paged:N or none (concat)",
      0 },
    { "activations", KEY_ACTIVATIONS, "eager|arena", 0,
      "one request for each buffer, or one for all (eager)", 0 },
    { "workspace", KEY_WORKSPACE, "SIZE|0|torch|library", 0,
      "memory for cuBLAS, one request after the weights (cuda: 4MiB, from sm_90 on 32MiB; else 0); "
      "torch: as much as PyTorch takes, 8519680 bytes; library: none, cuBLAS takes its own",
      0 },
    { "capacity", KEY_CAPACITY, "SIZE", 0, "what the device holds (cuda: all it has; else 48GiB)",
      0 },
    { 0, 0, 0, 0, "The machine:", 14 },
    { "backend", KEY_BACKEND, "cpu|cuda|none", 0,
      "who computes; none: a dry run on a simulated device (cuda when there is one, else cpu)", 0 },
    { "graph", KEY_GRAPH, 0, 0,
      "decode steps recorded once and replayed; needs --kv static or doubling and "
      "--activations arena",
      0 },
    { "tf32", KEY_TF32, 0, 0, "products of the cuda back end may round to TF32", 0 },
    { "threads", KEY_THREADS, "N", 0, "threads of the cpu back end (all physical cores)", 0 },
    { 0, 0, 0, 0, "Output:", 15 },
    { "quiet", 'q', 0, 0, "no progress, no summary", 0 },
    { 0, 0, 0, 0, "SIZE is an integer with B, KiB, MiB or GiB (K, M, G mean the same) or nothing.",
      16 },
    { 0, 0, 0, 0, 0, 0 },
};

static const struct argp_option output_options[] = {
    { "trace", KEY_TRACE, "FILE", 0, "write the event stream to FILE (.gz and .zst compress)", 15 },
    { "trace-time", KEY_TRACE_TIME, 0, 0, "with the time of each event in the trace", 15 },
    { "json", KEY_JSON, 0, 0, "the result as JSON instead of the table", 15 },
    { 0, 0, 0, 0, 0, 0 },
};

uint64_t cli_number(struct argp_state *state, const char *name, const char *text, uint64_t least,
                    uint64_t most) {
    uint64_t value = 0;
    char shown[CLI_SHOWN];
    if (!mt_parse_u64(text, least, most, &value))
        argp_error(state, "--%s %s: expected an integer from %" PRIu64 " to %" PRIu64, name,
                   cli_shown(shown, text), least, most);
    return value;
}

uint64_t cli_size(struct argp_state *state, const char *name, const char *text) {
    uint64_t value = 0;
    char shown[CLI_SHOWN];
    if (!mt_parse_size(text, &value))
        argp_error(state, "--%s %s: expected a size such as 4096, 64KiB or 2GiB", name,
                   cli_shown(shown, text));
    return value;
}

uint64_t cli_capacity(struct argp_state *state, const char *text) {
    uint64_t bytes = cli_size(state, "capacity", text);
    if (bytes == 0 || bytes > (uint64_t)1 << 50)
        argp_error(state, "--capacity %s: expected a size from 1 to 1048576GiB", text);
    return bytes;
}

void cli_unexpected(struct argp_state *state, const char *argument, const char *hint) {
    char shown[CLI_SHOWN];
    argp_error(state, "%s: no argument is expected here%s", cli_shown(shown, argument), hint);
}

/* True for the second of two words, false for the first; anything else is a usage error. */
static bool second(struct argp_state *state, const char *name, const char *text, const char *a,
                   const char *b) {
    char shown[CLI_SHOWN];
    if (strcmp(text, a) != 0 && strcmp(text, b) != 0)
        argp_error(state, "--%s %s: expected %s or %s", name, cli_shown(shown, text), a, b);
    return strcmp(text, b) == 0;
}

#define SHAPE_MOST (1 << 24)

static error_t parse_number(int key, const char *arg, struct argp_state *state, cli_options *o) {
    switch (key) {
    case KEY_CTX:
        o->ctx = cli_number(state, "ctx", arg, 1, SHAPE_MOST);
        return 0;
    case KEY_PROMPT_TOKENS:
        o->prompt_tokens = cli_number(state, "prompt-tokens", arg, 1, SHAPE_MOST);
        return 0;
    case KEY_BATCH:
        o->batch = cli_number(state, "batch", arg, 1, 1 << 20);
        return 0;
    case KEY_LAYERS:
        o->layers = cli_number(state, "layers", arg, 1, 1 << 20);
        return 0;
    case KEY_HEADS:
        o->heads = cli_number(state, "heads", arg, 1, 1 << 20);
        return 0;
    case KEY_WIDTH:
        o->width = cli_number(state, "width", arg, 1, 1 << 18); /* 4 * width is at most 2^20 */
        return 0;
    case KEY_VOCAB:
        o->vocab = cli_number(state, "vocab", arg, 1, SHAPE_MOST);
        return 0;
    case KEY_POSITIONS:
        o->positions = cli_number(state, "positions", arg, 1, 1 << 20);
        return 0;
    case KEY_SEED:
        o->seed = cli_number(state, "seed", arg, 0, UINT64_MAX);
        return 0;
    case KEY_CAPACITY:
        o->capacity = cli_capacity(state, arg);
        return 0;
    case KEY_THREADS:
        o->threads = cli_number(state, "threads", arg, 1, 1024);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_word(int key, const char *arg, struct argp_state *state, cli_options *o) {
    switch (key) {
    case KEY_PROMPT:
        o->prompt = arg;
        return 0;
    case KEY_PROMPT_FILE:
        o->prompt_file = arg;
        return 0;
    case KEY_PROMPT_IDS:
        o->prompt_ids = arg;
        return 0;
    case KEY_MODEL:
        o->model = arg;
        return 0;
    case KEY_TOKENIZER:
        o->tokenizer = arg;
        return 0;
    case KEY_DTYPE:
        o->dtype = arg;
        return 0;
    case KEY_LOGITS:
        o->logits_all = second(state, "logits", arg, "last", "all");
        return 0;
    case KEY_BACKEND:
        o->backend = arg;
        return 0;
    case KEY_POLICY:
        o->policy = arg;
        return 0;
    case KEY_KV:
        o->kv = arg;
        return 0;
    case KEY_ACTIVATIONS:
        o->arena = second(state, "activations", arg, "eager", "arena");
        return 0;
    case KEY_WORKSPACE:
        o->workspace = arg;
        return 0;
    case KEY_TRACE:
        o->trace = arg;
        return 0;
    case KEY_TRACE_TIME:
        o->trace_time = true;
        return 0;
    case KEY_JSON:
        o->json = true;
        return 0;
    case KEY_GRAPH:
        o->graph = true;
        return 0;
    case KEY_TF32:
        o->tf32 = true;
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    cli_options *o = state->input;
    error_t taken = parse_number(key, arg, state, o);
    if (taken == ARGP_ERR_UNKNOWN)
        taken = parse_word(key, arg, state, o);
    if (key == ARGP_KEY_END) {
        int prompts = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->prompt_ids != NULL) +
                      (o->prompt_tokens > 0);
        if (prompts > 1)
            argp_error(state, "one prompt is enough: --prompt, --prompt-file, --prompt-ids or "
                              "--prompt-tokens");
    }
    return taken;
}

/* The same where they mean nothing: not in the help, but told where they belong. */
static const struct argp_option foreign_options[] = {
    { "trace", KEY_TRACE, "FILE", OPTION_HIDDEN, 0, 0 },
    { "trace-time", KEY_TRACE_TIME, 0, OPTION_HIDDEN, 0, 0 },
    { "json", KEY_JSON, 0, OPTION_HIDDEN, 0, 0 },
    { 0, 0, 0, 0, 0, 0 },
};

static error_t parse_foreign(int key, char *arg, struct argp_state *state) {
    (void)arg;
    if (key != KEY_TRACE && key != KEY_TRACE_TIME && key != KEY_JSON)
        return ARGP_ERR_UNKNOWN;
    argp_error(state, "--json and --trace belong to `memtrace run`");
    return 0;
}

static error_t parse_output(int key, char *arg, struct argp_state *state) {
    cli_options *o = state->input;
    if (key == ARGP_KEY_END && o->trace_time && o->trace == NULL)
        argp_error(state, "--trace-time needs --trace FILE");
    return parse_word(key, arg, state, o);
}

const struct argp cli_engine_argp = { .options = options, .parser = parse };
const struct argp cli_output_argp = { .options = output_options, .parser = parse_output };
const struct argp cli_no_output_argp = { .options = foreign_options, .parser = parse_foreign };

void cli_parse(const struct argp *argp, int argc, char **argv, void *input) {
    if (argp_parse(argp, argc, argv, 0, NULL, input) != 0)
        exit(MT_BAD);
}
