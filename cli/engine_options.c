/* engine_options.c - the options of every command that runs the engine. */
#include "cli/cli.h"

#define SHAPE_MOST    (1 << 24)
#define CAPACITY_MOST ((uint64_t)1 << 50)
#define FIELD(name)   offsetof(cli_options, name)
#define SHAPE(name)   offsetof(cli_shape, name)

const cli_option cli_generation_rows[] = {
    { CLI_GROUP, .help = "Generation:" },
    { CLI_NUMBER, FIELD(ctx), "ctx", "N",
      .help = "tokens in the cache at the end, the prompt included",
      "1024, or the model's context length", 1, SHAPE_MOST },
    { CLI_NUMBER, FIELD(prompt_tokens), "prompt-tokens", "P",
      .help = "a prompt of P seeded random ids", "1", 1, SHAPE_MOST },
    { CLI_TEXT, FIELD(prompt), "prompt", "TEXT",
      .help = "the prompt as text; needs a vocabulary, unless empty: one <|endoftext|>" },
    { CLI_TEXT, FIELD(prompt_file), "prompt-file", "FILE",
      .help = "read the prompt's text from FILE" },
    { CLI_TEXT, FIELD(prompt_ids), "prompt-ids", "1,2,3", .help = "the prompt as token ids" },
    { CLI_NUMBER, FIELD(batch), "batch", "B", .help = "number of sequences, all of equal length",
      "1", 1, 1 << 20 },
    { CLI_WORD, FIELD(logits_all), "logits", "last|all",
      .help = "positions whose logits are computed in the prefill and with --kv none", "last" },

    { CLI_GROUP, .help = "Model:" },
    { CLI_TEXT, FIELD(model), "model", "NAME|DIR|FILE",
      .help = "gpt2, gpt2-medium, gpt2-large or gpt2-xl with seeded random weights, a Hugging Face "
              "folder, "
              "or an llm.c .bin file",
      "gpt2" },
    { CLI_NUMBER, FIELD(seed), "seed", "N", .help = "random seed of the seeded weights and ids",
      "0", 0, UINT64_MAX },
    { CLI_TEXT, FIELD(dtype), "dtype", "f32|bf16|f16",
      .help =
          "element type of weights, cache and activations; bf16 and f16 with --backend none only",
      "f32" },
    { CLI_TEXT, FIELD(tokenizer), "tokenizer", "DIR", .help = "folder of vocab.json and merges.txt",
      "that of --model" },
    { .name = NULL },
};

const cli_option cli_shape_rows[] = {
    { CLI_NUMBER, SHAPE(layers), "layers", "N", .help = "number of layers", "the preset's", 1,
      1 << 20 },
    { CLI_NUMBER, SHAPE(heads), "heads", "N",
      .help = "attention heads per layer; must divide the width", "the preset's", 1, 1 << 20 },
    { CLI_NUMBER, SHAPE(width), "width", "N", .help = "embedding width (n_embd)", "the preset's", 1,
      1 << 18 }, /* 4 * width is at most 2^20 */
    { CLI_NUMBER, SHAPE(vocab), "vocab", "N", .help = "vocabulary size", "the preset's", 1,
      SHAPE_MOST },
    { CLI_NUMBER, SHAPE(positions), "positions", "N", .help = "context length (n_positions)",
      "the preset's", 1, 1 << 20 },
    { .name = NULL },
};

const cli_option cli_machine_rows[] = {
    { CLI_GROUP, .help = "Memory:" },
    { CLI_SPEC, FIELD(policy), "policy", "SPEC",
      .help = "the allocator and its options, listed below", "torch" },
    { CLI_TEXT, FIELD(kv), "kv", "STRATEGY",
      .help = "how the KV cache gets its memory, listed below", "concat" },
    { CLI_WORD, FIELD(arena), "activations", "eager|arena",
      .help = "eager: one allocation per activation, freed after its last use; arena: one "
              "allocation for "
              "all of them, planned by lifetime",
      "eager" },
    { CLI_SPEC, FIELD(workspace), "workspace", "SIZE|0|torch|library",
      .help = "cuBLAS workspace, one allocation after the weights; torch: the size PyTorch takes; "
              "library: "
              "none of ours, cuBLAS allocates its own",
      "with cuda 4MiB, from sm_90 on 32MiB; else 0" },
    { CLI_SIZE, FIELD(capacity), "capacity", "SIZE", .help = "memory of the device",
      "with cuda the device's; else " CLI_CAPACITY_TEXT, 1, CAPACITY_MOST },

    { CLI_GROUP, .help = "Machine:" },
    { CLI_TEXT, FIELD(backend), "backend", "cpu|cuda|none",
      .help =
          "where to compute; none: a dry run on a simulated device that only accounts for memory",
      "cuda when there is a device, else cpu" },
    { CLI_FLAG, FIELD(graph), "graph",
      .help =
          "capture decode steps as a CUDA graph and replay them; needs --kv static or doubling and "
          "--activations arena" },
    { CLI_FLAG, FIELD(tf32), "tf32", .help = "let the cuda back end use TF32 matrix products" },
    { CLI_NUMBER, FIELD(threads), "threads", "N", .help = "threads of the cpu back end",
      "all physical cores", 1, 1024 },

    { CLI_GROUP, .help = "Output:" },
    { CLI_FLAG, FIELD(quiet), "quiet", .help = "no progress, no summary", .letter = 'q' },
    { .name = NULL },
};

const cli_option cli_output_rows[] = {
    { CLI_TEXT, FIELD(trace), "trace", "FILE",
      .help = "write the allocator's events to FILE; the ending chooses the form, as in `memtrace "
              "convert` (.mtb is binary; .gz and .zst compress)" },
    { CLI_FLAG, FIELD(trace_time), "trace-time",
      .help = "with the time of each event in the trace" },
    { CLI_FLAG, FIELD(json), "json", .help = "print the result as JSON instead of the table" },
    { .name = NULL },
};

#define FOREIGN "belongs to `memtrace run`"
const cli_option cli_no_output_rows[] = {
    { CLI_FOREIGN, 0, "trace", "FILE", .help = FOREIGN },
    { CLI_FOREIGN, 0, "trace-time", .help = FOREIGN },
    { CLI_FOREIGN, 0, "json", .help = FOREIGN },
    { .name = NULL },
};

const cli_option cli_size_note[] = {
    { CLI_GROUP, .help = "SIZE is a number of bytes, or one with a unit of 1024 such as 512MiB, "
                         "1.5GiB or 64K." },
    { .name = NULL },
};

void cli_check_engine(struct argp_state *state, const cli_options *o) {
    int prompts = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->prompt_ids != NULL) +
                  (o->prompt_tokens > 0);
    if (prompts > 1)
        cli_usage_error(state, "give one prompt: --prompt, --prompt-file, --prompt-ids or "
                               "--prompt-tokens");
    if (o->trace_time && o->trace == NULL)
        cli_usage_error(state, "--trace-time needs --trace FILE");
}
