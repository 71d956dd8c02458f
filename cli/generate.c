/* generate.c - `memtrace generate`: a prompt in, greedy text out. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Continues a prompt by greedy decoding and prints prompt and continuation.\vText needs "
    "a vocabulary (--model DIR or --tokenizer DIR); --ids works without one. --ctx counts "
    "the prompt; ctx - prompt + 1 ids are generated.\n"
    "\n"
    "\f\n"
    "Examples:\n"
    "  memtrace generate --model DIR --prompt 'San Francisco is' --ctx 40\n"
    "  memtrace generate --prompt-ids 15017,6033,318 --ctx 10 --ids\n"
    "\n"
    "Exit status: 0 done; 2 bad input or usage; 3 out of device memory; 4 a device, library "
    "or write failed; 130 interrupted.";

typedef struct generate_options {
    cli_options engine;
    bool ids, stop;
} generate_options;

static const cli_option rows[] = {
    { CLI_GROUP, .help = "Output:" },
    { CLI_FLAG, offsetof(generate_options, ids), "ids",
      .help = "print only the generated ids, space-separated, one line per sequence" },
    { CLI_FLAG, offsetof(generate_options, stop), "stop", .help = "stop at <|endoftext|>" },
    { .name = NULL },
};

static void check(struct argp_state *state, void *input) {
    cli_check_engine(state, &((generate_options *)input)->engine);
}

static const cli_usage usage = {
    .doc = doc,
    .lists = cli_list_memory,
    .table = { CLI_ENGINE_TABLES(0), { rows, 0 }, { cli_no_output_rows, 0 }, { cli_size_note, 0 } },
    .hint = "; see --prompt",
    .check = check,
};

/* What the steps need. */
typedef struct printer {
    cli_session *s;
    const generate_options *o;
    cli_progress progress;
    int32_t stop;
    bool streams, stopped; /* text of one sequence is printed as it comes */
    mt_error err;
} printer;

static mt_status print_text(printer *p, const int32_t *ids, size_t n) {
    char *text;
    size_t bytes;
    MT_TRY(mt_tokenizer_decode(p->s->tokenizer, ids, n, &text, &bytes, &p->err));
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
    free(text);
    return MT_OK;
}

static mt_status on_step(void *context, uint32_t step, uint32_t ctx, const int32_t *next) {
    printer *p = context;
    (void)ctx;
    p->stopped |= p->streams && *next == p->stop;
    if (p->streams && !p->stopped)
        MT_TRY(print_text(p, next, 1));
    cli_progress_show(&p->progress, step + 1);
    if (cli_output_failed())
        return mt_fail(&p->err, MT_FAILED, "standard output failed");
    return cli_interrupted() ? mt_fail(&p->err, MT_INTERRUPTED, "interrupted") : MT_OK;
}

/* Number of ids of a sequence up to the stop id, which is not counted. */
static size_t length(const printer *p, const int32_t *ids, size_t n) {
    size_t i = 0;
    while (i < n && ids[i] != p->stop)
        i++;
    return i;
}

static mt_status print_sequence(printer *p, const int32_t *prompt, const int32_t *ids, size_t n) {
    size_t count = length(p, ids, n);
    if (p->o->ids) {
        for (size_t i = 0; i < count; i++)
            printf("%s%" PRId32, i > 0 ? " " : "", ids[i]);
    } else if (!p->streams) {
        MT_TRY(print_text(p, prompt, p->s->P));
        MT_TRY(print_text(p, ids, count));
    }
    putchar('\n');
    return MT_OK;
}

static mt_status set_up(printer *p, mt_error *err) {
    cli_session *s = p->s;
    if (!p->o->ids && s->tokenizer == NULL)
        return mt_fail(err, MT_BAD,
                       "text needs a vocabulary: --tokenizer DIR, a --model folder with "
                       "vocab.json and merges.txt, or --ids for ids");
    p->stop = -1;
    if (p->o->stop)
        p->stop = s->tokenizer != NULL ? mt_tokenizer_end_of_text(s->tokenizer)
                                       : (int32_t)s->config.vocab - 1;
    p->streams = !p->o->ids && s->batch == 1;
    return MT_OK;
}

static mt_status generate(printer *p, mt_error *err) {
    cli_session *s = p->s;
    MT_TRY(set_up(p, err));
    MT_TRY(cli_load(s, err));
    MT_TRY(cli_open_engine(s, err));
    uint32_t steps = mt_generate_steps(s->engine), done;
    int32_t *ids = calloc((size_t)s->batch * steps, sizeof *ids);
    if (ids == NULL)
        return mt_no_memory(err, "the generated ids");
    mt_generation g = { .on_step = on_step, .context = p, .stop = p->stop };
    cli_progress_start(&p->progress, s->o.quiet || p->streams, "generating", "tokens", steps);
    mt_status status = p->streams ? print_text(p, s->prompt, s->P) : MT_OK;
    if (status == MT_OK)
        status = mt_generate(s->engine, s->prompt, &g, ids, &done, err);
    cli_progress_end(&p->progress);
    if (p->err.status != MT_OK)
        *err = p->err;
    bool stopped = status == MT_INTERRUPTED || status == MT_NO_MEMORY;
    if (status == MT_OK || (stopped && (done > 0 || p->streams)))
        for (uint32_t b = 0; b < s->batch; b++)
            print_sequence(p, s->prompt + (size_t)b * s->P, ids + (size_t)b * steps, done);
    free(ids);
    return status;
}

int cli_generate(int argc, char **argv) {
    generate_options o = { 0 };
    cli_session s = { 0 };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    printer p = { .s = &s, .o = &o };
    mt_status status = cli_prepare(&s, &o.engine, true, &err);
    if (status == MT_OK)
        status = generate(&p, &err);
    if (status == MT_NO_MEMORY)
        cli_tell_refusal(&s);
    else
        cli_fail(status, &err);
    cli_close(&s);
    return cli_flush(status);
}
