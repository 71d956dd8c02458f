/* explain.c - `memtrace explain`: where memory went, by a snapshot or an out-of-memory message. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pickle.h"
#include "base/size.h"
#include "base/whole.h"
#include "reports/explain.h"
#include "reports/oom_text.h"

static const char doc[] =
    "Explains where device memory went. FILE is a memory snapshot of PyTorch "
    "(torch.cuda.memory._dump_snapshot, any release), or a text or log with PyTorch's "
    "out-of-memory "
    "message; - or nothing is standard input, gzip and zstd are decompressed.\v"
    "Of a snapshot it shows, for each device: what is reserved, split to the byte into what was "
    "requested and what the allocator added, at the end and at the peak; by what the gap would "
    "close; which live blocks keep segments, and the call sites that hold memory, now, at the peak "
    "and in waste; where reserved grew; and what stood in the way of a refused request.\n\n"
    "Of an out-of-memory message it checks the arithmetic, splits the card, and says what kind of "
    "failure it is and what to try first.\n\n"
    "Examples:\n"
    "  memtrace explain snapshot.pickle\n"
    "  memtrace explain snapshot.pickle --at peak --device 0 --rows 30\n"
    "  memtrace explain snapshot.pickle --at 2.5s --json\n"
    "  python train.py 2>&1 | memtrace explain\n\n"
    "Exit status: 0 done; 2 bad input or usage; 4 a write failed or the host is out of memory; "
    "130 interrupted.";

typedef struct explain_options {
    cli_files files;
    const char *at;
    uint64_t device, rows, most;
    bool json, strip, one_device;
} explain_options;

#define FIELD(name) offsetof(explain_options, name)
#define ALL_DEVICES UINT32_MAX

static const cli_option rows[] = {
    { CLI_FILES, FIELD(files), "FILE", "[FILE]", .least = 0, .most = 1 },
    { CLI_GROUP, .help = "What to explain:" },
    { CLI_NUMBER, FIELD(device), "device", "N", .help = "this device only", "all", 0, 1023 },
    { CLI_TEXT, FIELD(at), "at", "WHEN",
      .help = "the details of another moment: peak, the number of an event, or a time since the "
              "first one (250ms, 2.5s)",
      "the end" },
    { CLI_GROUP, .help = "Output:" },
    { CLI_FLAG, FIELD(json), "json", .help = "one JSON object instead of text" },
    { CLI_NUMBER, FIELD(rows), "rows", "N", .help = "rows of each table of the text", "10", 0,
      1000 },
    { CLI_FLAG, FIELD(strip), "strip-paths",
      .help = "file names without their folders, for a report that is shared" },
    { CLI_SIZE, FIELD(most), "max-input", "SIZE",
      .help = "refuse an input of more bytes, after decompression", "64GiB", 1, UINT64_MAX / 2 },
    { .name = NULL },
};

/* ---- options --------------------------------------------------------------------------------- */

/* Reads a time such as 2.5s; false when it is none. */
static bool read_time(const char *text, uint64_t *us) {
    static const struct {
        const char *unit;
        double us;
    } units[] = { { "us", 1 }, { "ms", 1e3 }, { "s", 1e6 } };
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    double n = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && n * units[i].us < 1e15) {
            *us = (uint64_t)(n * units[i].us);
            return true;
        }
    return false;
}

static bool read_moment(const char *text, mt_explain_options *out) {
    out->at = MT_AT_END;
    if (text == NULL || strcmp(text, "end") == 0)
        return true;
    out->at = MT_AT_PEAK;
    if (strcmp(text, "peak") == 0)
        return true;
    out->at = MT_AT_STEP;
    if (mt_parse_u64(text, 0, UINT64_MAX - 1, &out->when))
        return true;
    out->at = MT_AT_TIME;
    return read_time(text, &out->when);
}

static void check(struct argp_state *state, void *input) {
    const explain_options *o = input;
    mt_explain_options parsed;
    if (!read_moment(o->at, &parsed))
        cli_usage_error(
            state, "--at %s: expected peak, end, the number of an event, or a time (2.5s)", o->at);
    if (o->files.count == 0 && isatty(STDIN_FILENO))
        cli_usage_error(state, "expected a FILE, or text on standard input");
}

static const cli_usage usage = { .doc = doc, .table = { { rows, 0 } }, .check = check };

/* ---- output ---------------------------------------------------------------------------------- */

static void begin_json(mt_json *j, const char *file, const char *format) {
    mt_json_to_file(j, stdout);
    mt_json_begin_object(j, NULL);
    mt_json_text(j, "program", "memtrace");
    mt_json_text(j, "version", MT_VERSION);
    mt_json_text(j, "file", file);
    mt_json_text(j, "format", format);
}

static mt_status end_json(mt_json *j, mt_error *err) {
    mt_json_end(j);
    return mt_json_finish(j, err);
}

/* ---- a snapshot ------------------------------------------------------------------------------ */

static mt_status print_snapshot(const explain_options *o, const mt_explain *x, const char *file,
                                mt_error *err) {
    mt_json j;
    if (!o->json) {
        mt_explain_print(x, file, stdout);
        return MT_OK;
    }
    begin_json(&j, file, "snapshot");
    mt_explain_json(x, &j);
    return end_json(&j, err);
}

static mt_status explain_snapshot(const explain_options *o, const mt_mapped *m, mt_error *err) {
    mt_explain_options options = { .device = o->device == ALL_DEVICES ? -1 : (int64_t)o->device,
                                   .strip = o->strip,
                                   .rows = o->rows };
    mt_explain x;
    mt_snapshot s;
    (void)read_moment(o->at, &options);
    mt_explain_open(&x, &options);
    mt_status status = mt_snapshot_read(&s, m->label, m->data, m->size, mt_explain_events, &x, err);
    if (status == MT_OK) {
        status = mt_explain_conclude(&x, &s, err);
        if (status == MT_OK)
            status = print_snapshot(o, &x, m->label, err);
        mt_explain_close(&x);
        mt_snapshot_free(&s);
    } else {
        mt_explain_close(&x);
    }
    return status;
}

/* ---- an out-of-memory message ---------------------------------------------------------------- */

static mt_status no_message(const mt_mapped *m, mt_error *err) {
    if (m->size >= 4 && memcmp(m->data, "PK\x03\x04", 4) == 0)
        return mt_fail(err, MT_BAD,
                       "%s: a zip archive, as torch.save writes it; expected the pickle of "
                       "torch.cuda.memory._dump_snapshot",
                       m->label);
    return mt_fail(err, MT_BAD,
                   "%s: neither a memory snapshot of PyTorch nor a text with its out-of-memory "
                   "message (Tried to allocate ... MiB)",
                   m->label);
}

static mt_status explain_text(const explain_options *o, const mt_mapped *m, mt_error *err) {
    const char *text = (const char *)m->data;
    mt_json j;
    mt_oom oom;
    mt_oom_walk walk = { 0 };
    if (!mt_oom_find(&oom, text, m->size, &walk))
        return no_message(m, err);
    if (o->json) {
        begin_json(&j, m->label, "out-of-memory message");
        mt_oom_text_json(&oom, &j);
        mt_json_begin_array(&j, "messages");
    }
    walk = (mt_oom_walk){ 0 };
    for (bool first = true; mt_oom_find(&oom, text, m->size, &walk); first = false) {
        if (!o->json) {
            fputs(first ? "" : "\n", stdout);
            mt_oom_text_print(&oom, stdout);
            continue;
        }
        mt_json_begin_object(&j, NULL);
        mt_oom_text_json(&oom, &j);
        mt_json_end(&j);
    }
    if (!o->json)
        return MT_OK;
    mt_json_end(&j);
    return end_json(&j, err);
}

/* ---- whatever the file is -------------------------------------------------------------------- */

static mt_status explain(const explain_options *o, mt_error *err) {
    const char *path = o->files.count > 0 ? o->files.path[0] : "-";
    mt_input *in;
    mt_mapped m;
    MT_TRY(mt_input_open(&in, path, o->most, err));
    mt_status status = mt_whole_open(&m, in, path, err);
    mt_input_close(in);
    MT_TRY(status);
    status = mt_pickle_begins(m.data, m.size < 2 ? m.size : 2) ? explain_snapshot(o, &m, err)
                                                               : explain_text(o, &m, err);
    mt_mapped_close(&m);
    return status;
}

int cli_explain(int argc, char **argv) {
    explain_options o = { .device = ALL_DEVICES, .rows = 10, .most = 64 * MT_GIB };
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    return cli_flush(cli_fail(explain(&o, &err), &err));
}
