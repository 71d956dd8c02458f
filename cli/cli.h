/* cli.h - what the commands share: options, a session, progress, signals.
 *
 * Only cli/ prints, exits and reads the command line and the environment. A command is a function
 * of its own argc and argv that returns an exit status (base/status.h). */
#ifndef MT_CLI_CLI_H
#define MT_CLI_CLI_H

#include <stdio.h>

#include "cli/options.h"
#include "engine/generate.h"
#include "engine/text/tokenizer.h"
#include "kernels/cuda/backend.h"
#include "reports/json.h"

#define MT_VERSION "0.2.0"

/* ---- options --------------------------------------------------------------------------------- */

/* A preset's shape as changed by options; 0: not given. */
typedef struct cli_shape {
    uint64_t layers, heads, width, vocab, positions;
} cli_shape;

/* Options of every command that runs the engine, as given; NULL or 0 where not given. */
typedef struct cli_options {
    const char *model, *dtype, *backend, *policy, *kv, *workspace, *trace, *tokenizer;
    const char *prompt, *prompt_file, *prompt_ids;
    uint64_t prompt_tokens, ctx, batch, seed, capacity, threads;
    cli_shape shape;
    unsigned logits_all, arena; /* 1: the second word */
    bool json, quiet, trace_time, graph, tf32;
} cli_options;

/* Their tables: that of cli_shape; those of cli_options; --trace, --trace-time and --json, and in
 * their place rows that say where those belong; and a line about SIZE, the last of a help. */
extern const cli_option cli_shape_rows[], cli_generation_rows[], cli_machine_rows[],
    cli_output_rows[], cli_no_output_rows[], cli_size_note[];

/* The tables of the engine's options, for a command whose cli_options lie at a place. */
#define CLI_ENGINE_TABLES(at)                                                                      \
    { cli_generation_rows, at }, { cli_shape_rows, (at) + offsetof(cli_options, shape) }, {        \
        cli_machine_rows, at                                                                       \
    }

/* A policy as it is opened, to be freed: without white space where PyTorch skips it, and with the
 * settings of PyTorch's environment variables where torch:env asks for them. */
mt_status cli_policy_spec(char **out, const char *spec, mt_error *err);

/* On stderr, each note once, unless quiet: what is special about an allocator's settings. */
void cli_policy_notes(const mt_alloc *a, bool quiet);

/* Lists for the help: of policies; of these and cache strategies. */
void cli_list_policies(FILE *out);
void cli_list_memory(FILE *out);

/* Their rules: a usage error where two options contradict each other. */
void cli_check_engine(struct argp_state *state, const cli_options *o);

/* Gives a preset the shape asked for; refuses one that is asked of another model. */
mt_status cli_reshape(mt_config *preset, const cli_shape *shape, mt_error *err);
mt_status cli_refuse_shape(const cli_shape *shape, const char *model, mt_error *err);

/* An element type by its name; NULL is f32. */
mt_status cli_read_dtype(const char *text, mt_dtype *out, mt_error *err);

/* ---- a session ------------------------------------------------------------------------------- */

/* All that a run is made of, opened in this order. */
typedef struct cli_session {
    cli_options o;
    mt_config config;
    mt_checkpoint *checkpoint;
    mt_device *device;
    mt_source *source;
    mt_alloc *alloc;
    mt_tokenizer *tokenizer; /* NULL when no vocabulary is there */
    int32_t *prompt;         /* [batch, P] */
    uint32_t P, ctx, batch;
    uint64_t workspace, capacity;
    mt_model *model;
    mt_engine *engine;
    mt_cuda_backend cuda; /* all zero with other back ends */
    mt_error late;        /* what failed when the CUDA back end was closed */
} cli_session;

/* Opens everything up to the prompt; takes no device memory. computes: the command needs
 * results. */
mt_status cli_prepare(cli_session *s, const cli_options *o, bool computes, mt_error *err);

/* MT_BAD, with a line that names the presets, when a model's name, none of theirs, is no file or
 * folder. */
mt_status cli_model_there(const char *name, mt_error *err);

/* Loads the model, with progress. */
mt_status cli_load(cli_session *s, mt_error *err);

/* Opens the engine as the options say. */
mt_status cli_open_engine(cli_session *s, mt_error *err);
mt_engine_options cli_engine_options(const cli_session *s);

void cli_close(cli_session *s);

/* ---- what was run: say.c, header.c ----------------------------------------------------------- */

/* Where lines of a name and a value go: a table's comments, stderr, a trace, JSON. */
typedef struct cli_sink {
    void (*line)(void *context, const char *name, const char *value, mt_value_kind kind);
    void *context;
} cli_sink;
extern const cli_sink cli_comments, cli_stderr;

/* Says one line; control characters of the value are escaped. */
void cli_say(cli_sink to, mt_value_kind kind, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void cli_say_number(cli_sink to, const char *name, uint64_t value);
void cli_say_path(cli_sink to, const char *name, const char *path); /* cut at the front when long */
void cli_say_shape(cli_sink to, const mt_config *c);                /* layers, heads, width */

/* The lines that every header begins with, and all those of a session. */
void cli_say_command(cli_sink to, const char *command);
void cli_say_session(cli_sink to, const cli_session *s, const char *command);

/* ---- bytes that a library took: library.c ---------------------------------------------------- */

/* What the device lost and no segment of ours explains, at some moments of a run. */
typedef struct cli_library {
    bool on;                 /* a real device is there */
    bool shared;             /* another program used it meanwhile: nothing can be said */
    int64_t warm, end;       /* library bytes after the warm-up and now */
    int64_t driver_rounding; /* what the driver added to our segments, now */
    uint32_t looks;
} cli_library;

/* Looks at the device between two steps. The last step of the warm-up is CLI_WARM, or the run's
 * last. MT_CHECK when less is gone than we took. */
#define CLI_WARM 2
mt_status cli_library_look(cli_library *l, const cli_session *s, mt_error *err);

/* The lines to say about it: those known before the run, and those after. */
void cli_library_header(const cli_session *s, cli_sink to);
void cli_library_lines(const cli_library *l, const cli_session *s, cli_sink to);

/* What a simulated device holds unless --capacity says otherwise, in every command that runs a
 * model; replay serves what a device has served once, so it has no such limit. */
#define CLI_CAPACITY      (48 * MT_GIB)
#define CLI_CAPACITY_TEXT "48GiB"

/* On stderr: that the capacity was reached, how often, and the step of the first time. */
void cli_tell_capacity(const mt_source *s, bool standard, int64_t step);

/* On stderr: the request that was refused, and whether the default capacity refused it. */
void cli_tell_refusal(const cli_session *s);

/* Threads to use: as many as asked for, or one for each core that this program may use. Says so
 * when more are asked for than there are cores. */
int cli_threads(uint64_t asked, bool quiet);

/* ---- to the user ----------------------------------------------------------------------------- */

/* Text of the user's as it may stand in a message: on one line, cut where it is long. */
#define CLI_SHOWN 64
const char *cli_shown(char buffer[CLI_SHOWN], const char *text);

/* Prints "memtrace: text" to stderr, or that the run was interrupted, and returns the status.
 * Leaves a failed standard output to cli_flush. */
int cli_fail(mt_status status, const mt_error *err);

/* The word that a table or a trace ends with when its run ended early; NULL after MT_OK. */
const char *cli_ending(mt_status status);

/* MT_BAD when a file to be written is one that is read; or is standard output as well, under a name
 * of its own (NULL is none). */
mt_status cli_apart(const char *output, const char *input, mt_error *err);
mt_status cli_apart_from_stdout(const char *output, mt_error *err);

/* True once a write to stdout has failed; to be asked soon after writing, while errno tells why. */
bool cli_output_failed(void);

/* Flushes stdout; MT_FAILED, with a line printed, when something did not reach it. */
mt_status cli_flush(mt_status status);

/* To be called first of all: a program that ends without cli_flush, as after --help, ends with
 * status 4 too when its output did not reach stdout; and a standard file that is closed stays
 * unusable. */
void cli_watch_output(void);

/* Ctrl-C: the first one asks the run to stop, which it does at the next step; a second one ends the
 * program at once, without its temporary files. A write to a pipe that nobody reads goes on. */
void cli_catch_interrupts(void);
void cli_leave_interrupts(void); /* the first one ends the program: nothing is lost */
bool cli_interrupted(void);

/* A progress bar on stderr when that is a terminal: what, done of total, rate and time left. */
typedef struct cli_progress {
    bool on;
    const char *what, *unit;
    uint64_t total;
    double start, last;
} cli_progress;
void cli_progress_start(cli_progress *p, bool quiet, const char *what, const char *unit,
                        uint64_t total);
void cli_progress_show(cli_progress *p, uint64_t done);

/* What it shows after so many seconds. */
void cli_progress_line(char *text, size_t capacity, const cli_progress *p, uint64_t done,
                       double seconds);
void cli_progress_end(cli_progress *p); /* clears the line */

/* ---- the commands ---------------------------------------------------------------------------- */

int cli_run(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_verify(int argc, char **argv);
int cli_sweep(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_convert(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_study(int argc, char **argv);
int cli_plot(int argc, char **argv);
int cli_explain(int argc, char **argv);

#endif
