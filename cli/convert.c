/* convert.c - `memtrace convert`: a recording in another form. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/reading.h"
#include "base/size.h"
#include "base/text.h"
#include "traces/range.h"
#include "traces/replay.h"

static const char doc[] =
    "Writes a recorded run in another form, to OUT or stdout. FILE is any recording that `memtrace "
    "replay` reads; - is standard input, gzip and zstd are decompressed. What a form leaves out is "
    "said on stderr.\v"
    "A form that is made of an allocator's events gets those of the file. The requests of a file "
    "that tells no events are replayed, through its own settings or --policy, and the events are "
    "those of the replay.\n\n"
    "A range of steps begins with what is live then, written as if it were loaded; its steps are "
    "numbered from 0.\n\n"
    "\f\n"
    "Examples:\n"
    "  memtrace convert run.trace -o run.mtb\n"
    "  memtrace convert run.mtb --to csv | head\n"
    "  memtrace convert run.mtb --to folded | flamegraph.pl > peak.svg\n"
    "  memtrace convert run.mtb --from-step 500 --to-step 510 -o some.json";

typedef struct convert_options {
    cli_files files;
    cli_reading reading;
    const char *to, *output, *policy;
    uint64_t from_step, to_step, capacity;
    bool quiet;
} convert_options;

#define FIELD(name) offsetof(convert_options, name)
#define NOT_GIVEN   UINT64_MAX
#define STEPS_MOST  INT32_MAX
#define SIZE_MOST   ((uint64_t)1 << 50)

static const cli_option rows[] = {
    { CLI_FILES, FIELD(files), "FILE", "FILE", .least = 1, .most = 1 },
    { CLI_GROUP, .help = "Output:" },
    { CLI_TEXT, FIELD(to), "to", "FORM", .help = "a form listed below",
      .standard = "by the ending of OUT" },
    { CLI_TEXT, FIELD(output), "output", "OUT", .help = "the file to write", .standard = "stdout",
      .letter = 'o' },
    { CLI_NUMBER, FIELD(from_step), "from-step", "N", .help = "begin with step N", .least = 0,
      .most = STEPS_MOST },
    { CLI_NUMBER, FIELD(to_step), "to-step", "N", .help = "end with step N", .least = 0,
      .most = STEPS_MOST },
    { CLI_FLAG, FIELD(quiet), "quiet", .help = "nothing but failures on stderr", .letter = 'q' },
    { CLI_GROUP, .help = "Files that tell no events:" },
    { CLI_SPEC, FIELD(policy), "policy", "SPEC", .help = "the policy to replay them through",
      .standard = "as the file says, else torch" },
    { CLI_SIZE, FIELD(capacity), "capacity", "SIZE", .help = "memory of the device",
      .standard = "as the file says, else 1024GiB", .least = 1, .most = SIZE_MOST },
    { .name = NULL },
};

static const mt_trace_form *form_of(const convert_options *o) {
    if (o->to != NULL)
        return mt_trace_form_named(o->to);
    return o->output != NULL ? mt_trace_form_of(o->output) : NULL;
}

/* "trace, mtb, ..." */
static const char *form_names(char text[static 200]) {
    size_t n = 0;
    for (const mt_trace_form *const *f = mt_trace_forms; *f != NULL; f++)
        n += (size_t)snprintf(text + n, 200 - n, "%s%s", n > 0 ? ", " : "", (*f)->name);
    return text;
}

static void check(struct argp_state *state, void *input) {
    convert_options *o = input;
    char names[200];
    cli_check_reading(state, &o->reading);
    if (o->to != NULL && form_of(o) == NULL)
        cli_usage_error(state, "--to %s: expected one of %s", o->to, form_names(names));
    if (form_of(o) == NULL)
        cli_usage_error(state, "expected --to FORM or -o OUT with the ending of one: %s",
                        form_names(names));
    if (o->from_step != NOT_GIVEN && o->from_step > o->to_step)
        cli_usage_error(state, "--from-step %" PRIu64 " is after --to-step %" PRIu64, o->from_step,
                        o->to_step);
}

static void list_forms(FILE *out) {
    fputs("Forms (--to), and the endings of file names that choose them:\n", out);
    for (const mt_trace_form *const *f = mt_trace_forms; *f != NULL; f++)
        fprintf(out, "  %-8s %-10s %s%s\n", (*f)->name, (*f)->ending,
                (*f)->loses != NULL ? "without " : "", (*f)->loses != NULL ? (*f)->loses : "");
    fputc('\n', out);
    cli_list_formats(out);
}

static const cli_usage usage = {
    .doc = doc,
    .lists = list_forms,
    .table = { { rows, 0 }, { cli_reading_rows, FIELD(reading) }, { cli_size_note, 0 } },
    .check = check
};

/* ---- converting ------------------------------------------------------------------------------ */

typedef struct conversion {
    const convert_options *o;
    const mt_trace_form *form;
    mt_reader *in;
    mt_item item;
    mt_trace *out;
    bool begun; /* out has the settings */
    mt_range range;
    mt_status late; /* of an event that could not be taken */
    mt_error *err;

    /* When requests are replayed. */
    mt_source *source;
    mt_alloc *alloc;
    mt_replay replay;
} conversion;

static void say(const conversion *c, const char *what, const char *text) {
    char name[200];
    if (!c->o->quiet)
        fprintf(stderr, "%s%s%s\n", mt_printable_path(name, sizeof name, mt_input_name(c->in->in)),
                what, text);
}

static void on_event(void *context, const mt_event *e) {
    conversion *c = context;
    mt_item item;
    mt_item_clear(&item);
    mt_item_tell(&item, e);
    item.time_ns = c->item.time_ns;
    if (c->late == MT_OK)
        c->late = mt_range_item(&c->range, &item, c->err);
}

/* A file that tells no events: those of a policy that is asked for the same. */
static mt_status open_replay(conversion *c) {
    const mt_settings *s = &c->in->settings;
    const char *policy = c->o->policy != NULL ? c->o->policy
                         : s->policy != NULL  ? s->policy
                                              : "torch";
    uint64_t capacity = c->o->capacity != 0 ? c->o->capacity
                        : s->capacity != 0  ? s->capacity
                                            : 1024 * MT_GIB;
    MT_TRY(mt_source_sim(&c->source, capacity, 2 * MT_MIB, c->err));
    char *spec;
    MT_TRY(cli_policy_spec(&spec, policy, c->err));
    mt_status status = mt_alloc_open(&c->alloc, c->source, spec, c->err);
    free(spec);
    MT_TRY(status);
    cli_policy_notes(c->alloc, c->o->quiet);
    MT_TRY(mt_replay_open(&c->replay, &c->alloc, 1, c->err));
    mt_alloc_listen(c->alloc, (mt_listener){ on_event, c });
    say(c, " tells no events; these are of its requests through ", policy);
    return MT_OK;
}

/* At the first item that is no note and no stack, when the settings are known. */
static mt_status begin(conversion *c) {
    bool events = (c->item.has & MT_HAS_EVENT) != 0 || c->item.kind == MT_ITEM_END;
    c->begun = true;
    unsigned tells = c->in->format->tells;
    mt_trace_settings(c->out, &c->in->settings);
    if (c->form->loses != NULL && (c->form->only == 0 || (c->form->only & tells) != 0))
        say(c, ": left out: ", c->form->loses);
    return c->form->events && !events ? open_replay(c) : MT_OK;
}

static bool is_note(const mt_item *item) {
    return item->kind == MT_ITEM_NOTE || item->kind == MT_ITEM_STACK;
}

static mt_status take_item(conversion *c) {
    if (c->alloc == NULL || is_note(&c->item))
        return mt_range_item(&c->range, &c->item, c->err);
    MT_TRY(mt_replay_item(&c->replay, &c->item, c->err));
    return c->late;
}

static mt_status convert_all(conversion *c) {
    uint64_t n = 0;
    do {
        if (n++ % 4096 == 0 && cli_interrupted())
            return mt_fail(c->err, MT_INTERRUPTED, "interrupted");
        MT_TRY(mt_reader_next(c->in, &c->item, c->err));
        if (!c->begun && !is_note(&c->item))
            MT_TRY(begin(c));
        if (c->item.kind != MT_ITEM_END)
            MT_TRY(take_item(c));
    } while (c->item.kind != MT_ITEM_END && !mt_range_over(&c->range));
    return MT_OK;
}

/* A range that begins after the file's last step is empty: most likely a mistake. */
static mt_status check_range(const conversion *c) {
    if (c->range.first <= c->range.told)
        return MT_OK;
    return mt_fail(c->err, MT_BAD, "%s: --from-step %" PRIu64 ": expected a step up to %" PRId64,
                   mt_input_name(c->in->in), c->o->from_step, c->range.told);
}

static void close_conversion(conversion *c) {
    mt_trace_abandon(c->out);
    mt_range_free(&c->range);
    mt_replay_close(&c->replay);
    if (c->alloc != NULL)
        mt_alloc_unlisten(c->alloc);
    mt_alloc_close(c->alloc);
    if (c->source != NULL)
        c->source->close(c->source);
    mt_reader_close(c->in);
}

static mt_status convert(conversion *c) {
    const convert_options *o = c->o;
    const char *path = o->output != NULL ? o->output : "/dev/stdout";
    if (o->output == NULL && c->form->binary && isatty(STDOUT_FILENO))
        return mt_fail(c->err, MT_BAD, "%s is no text for a terminal: expected -o OUT",
                       c->form->name);
    MT_TRY(cli_apart(path, o->files.path[0], c->err));
    MT_TRY(mt_reader_open_as(&c->in, o->files.path[0], &o->reading.how, c->err));
    MT_TRY(mt_trace_open(&c->out, c->form, path, false, c->err));
    c->range = mt_range_of(c->out, o->from_step != NOT_GIVEN ? (int64_t)o->from_step : -1,
                           o->to_step != NOT_GIVEN ? (int64_t)o->to_step : MT_RANGE_ALL);
    MT_TRY(convert_all(c));
    MT_TRY(check_range(c));
    mt_trace *out = c->out;
    c->out = NULL;
    return mt_trace_commit(out, NULL, c->err);
}

int cli_convert(int argc, char **argv) {
    convert_options o = { .from_step = NOT_GIVEN, .to_step = NOT_GIVEN };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    conversion c = { .o = &o, .form = form_of(&o), .err = &err };
    mt_status status = convert(&c);
    close_conversion(&c);
    return cli_flush(cli_fail(status, &err));
}
