/* options.c - see options.h. A row's key is its place in the list of all rows of the command, so
 * that argp's answer leads back to the row and to the struct that it fills. */
#include "cli/cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "base/size.h"
#include "base/text.h"

#define ROWS_MOST 96
#define KEY_FIRST 512 /* above all letters */
#define KEY_HELP  'h'

/* The rows of the command that is parsed, in the order of its tables. */
typedef struct parsing {
    const cli_usage *usage;
    void *input;
    const cli_option *row[ROWS_MOST];
    void *field[ROWS_MOST]; /* where the row's value goes */
    struct argp_option option[ROWS_MOST + 2];
    int count;
    const char *decimal;     /* a value with a unit like MB */
    const cli_option *files; /* NULL: the command takes no arguments */
    cli_files *files_field;
} parsing;

bool cli_word(const char *words, unsigned n, char *text, size_t capacity) {
    for (; n > 0; n--) {
        words += strcspn(words, "|");
        if (*words++ == '\0')
            return false;
    }
    snprintf(text, capacity, "%.*s", (int)strcspn(words, "|"), words);
    return true;
}

char *cli_size_text(char *text, size_t capacity, uint64_t bytes) {
    static const char *const units[] = { "", "KiB", "MiB", "GiB" };
    int u = 0;
    for (; u < 3 && bytes != 0 && bytes % 1024 == 0; u++)
        bytes /= 1024;
    snprintf(text, capacity, "%" PRIu64 "%s", bytes, units[u]);
    return text;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* "a, b or c" of "a|b|c". */
static const char *listed(const char *words, char *text, size_t capacity) {
    size_t at = 0;
    *text = '\0';
    for (; *words != '\0' && at < capacity; words++) {
        bool final = strchr(words + 1, '|') == NULL;
        if (*words == '|')
            at += (size_t)snprintf(text + at, capacity - at, "%s", final ? " or " : ", ");
        else
            at += (size_t)snprintf(text + at, capacity - at, "%c", *words);
    }
    return text;
}

void cli_usage_error(const struct argp_state *state, const char *format, ...) {
    char text[9000];
    mt_error err;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mt_fail(&err, MT_BAD, "%s", text);
    fprintf(stderr, "%s: %s\nTry `%s --help' or `%s --usage' for more information.\n", state->name,
            err.text, state->name, state->name);
    exit(MT_BAD);
}

static void read_word(struct argp_state *state, const cli_option *o, const char *arg,
                      unsigned *out) {
    char word[32], list[128];
    for (unsigned i = 0; cli_word(o->arg, i, word, sizeof word); i++)
        if (strcmp(arg, word) == 0) {
            *out = (unsigned)o->least + i;
            return;
        }
    cli_usage_error(state, "--%s %s: expected %s", o->name, arg, listed(o->arg, list, sizeof list));
}

static void read_number(struct argp_state *state, const cli_option *o, const char *arg,
                        uint64_t *out) {
    if (!mt_parse_u64(arg, o->least, o->most, out))
        cli_usage_error(state, "--%s %s: expected an integer from %" PRIu64 " to %" PRIu64, o->name,
                        arg, o->least, o->most);
}

static void read_size(struct argp_state *state, const cli_option *o, const char *arg,
                      uint64_t *out) {
    char least[32], most[32];
    if (!mt_parse_size(arg, out) || *out < o->least || *out > o->most)
        cli_usage_error(state, "--%s %s: expected a size in whole bytes from %s to %s", o->name,
                        arg, cli_size_text(least, sizeof least, o->least),
                        cli_size_text(most, sizeof most, o->most));
}

static void read_value(struct argp_state *state, const cli_option *o, const char *arg, void *out) {
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)out = true;
        break;
    case CLI_TEXT:
    case CLI_SPEC:
        *(const char **)out = arg;
        break;
    case CLI_NUMBER:
        read_number(state, o, arg, out);
        break;
    case CLI_SIZE:
        read_size(state, o, arg, out);
        break;
    case CLI_WORD:
        read_word(state, o, arg, out);
        break;
    case CLI_FOREIGN:
        cli_usage_error(state, "--%s: %s", o->name, o->help);
        break;
    case CLI_GROUP:
    case CLI_FILES:
        break;
    }
}

/* ---- what argp hands over -------------------------------------------------------------------- */

static int row_of(const parsing *p, int key) {
    for (int i = 0; i < p->count; i++)
        if (p->option[i].key == key && key != 0) /* headings have no key */
            return i;
    return -1;
}

static bool like_option(const char *arg) {
    return strncmp(arg, "--", 2) == 0 ||
           (arg[0] == '-' && isalpha((unsigned char)arg[1]) && arg[2] == '\0');
}

/* getopt takes whatever comes next as a value, the next option too. */
static void refuse_option_as_value(struct argp_state *state, const cli_option *o, const char *arg) {
    char list[128];
    if (arg == NULL || arg != state->argv[state->next - 1] || !like_option(arg))
        return;
    if (o->kind == CLI_WORD)
        cli_usage_error(state, "--%s: expected %s, not the option %s", o->name,
                        listed(o->arg, list, sizeof list), arg);
    cli_usage_error(state, "--%s: expected %s, not the option %s (--%s=%s if that is the value)",
                    o->name, o->arg, arg, o->name, arg);
}

static error_t take_option(parsing *p, int key, char *arg, struct argp_state *state) {
    int i = row_of(p, key);
    if (i < 0)
        return ARGP_ERR_UNKNOWN;
    refuse_option_as_value(state, p->row[i], arg);
    read_value(state, p->row[i], arg, p->field[i]);
    if ((p->row[i]->kind == CLI_SIZE || p->row[i]->kind == CLI_SPEC) && mt_names_decimal_unit(arg))
        p->decimal = arg;
    return 0;
}

static error_t take_files(parsing *p, struct argp_state *state, int count) {
    const cli_option *o = p->files;
    if (o == NULL && count > 0)
        cli_usage_error(state, "unexpected argument '%s'%s", state->argv[state->next],
                        p->usage->hint != NULL ? p->usage->hint : "");
    if (o == NULL)
        return 0;
    if ((uint64_t)count < o->least)
        cli_usage_error(state, "expected a %s", o->name);
    if ((uint64_t)count > o->most)
        cli_usage_error(state, "expected one %s", o->name);
    *p->files_field = (cli_files){ state->argv + state->next, count };
    return 0;
}

static bool quiet(const parsing *p) {
    int i = row_of(p, 'q');
    return i >= 0 && *(bool *)p->field[i];
}

static void note_units(const parsing *p) {
    char shown[CLI_SHOWN];
    if (p->decimal != NULL && !quiet(p))
        fprintf(stderr, "memtrace: %s: KB, MB and GB are 1024 bytes, 1024 KB and 1024 MB here\n",
                cli_shown(shown, p->decimal));
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    parsing *p = state->input;
    switch (key) {
    case KEY_HELP:
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARGS:
        return take_files(p, state, state->argc - state->next);
    case ARGP_KEY_NO_ARGS:
        return take_files(p, state, 0);
    case ARGP_KEY_END:
        note_units(p);
        if (p->usage->check != NULL)
            p->usage->check(state, p->input);
        return 0;
    default:
        return take_option(p, key, arg, state);
    }
}

/* ---- the help -------------------------------------------------------------------------------- */

/* What a row says, and its default. */
static void write_row_help(FILE *out, const cli_option *o) {
    fputs(o->help, out);
    if (o->standard != NULL)
        fprintf(out, " (default: %s)", o->standard);
}

/* What stands after the options. */
static void write_doc(FILE *out, const char *text, void (*lists)(FILE *out)) {
    size_t n = strcspn(text, "\f");
    fwrite(text, 1, n, out);
    if (text[n] == '\f')
        lists(out);
    fputs(text + n + (text[n] == '\f'), out);
}

/* argp has no way to say that there is no memory. */
static void no_memory(void) {
    mt_error err;
    exit(cli_fail(mt_no_memory(&err, "the command line"), &err));
}

/* argp frees what is returned. */
static char *help_filter(int key, const char *text, void *input) {
    const parsing *p = input;
    char *all = NULL;
    size_t n;
    int i = row_of(p, key);
    bool doc = key == ARGP_KEY_HELP_POST_DOC && p->usage->lists != NULL;
    if (text == NULL || (!doc && i < 0))
        return (char *)text;
    FILE *out = open_memstream(&all, &n);
    if (out == NULL)
        no_memory();
    if (doc)
        write_doc(out, text, p->usage->lists);
    else
        write_row_help(out, p->row[i]);
    if (fclose(out) != 0 || all == NULL)
        no_memory();
    return all;
}

static struct argp_option argp_row(const cli_option *o, int key, int group) {
    bool hidden = o->kind == CLI_FOREIGN;
    if (o->kind == CLI_GROUP)
        return (struct argp_option){ .doc = o->help, .group = group };
    return (struct argp_option){ .name = o->name,
                                 .key = o->letter != 0 ? o->letter : key,
                                 .arg = o->arg,
                                 .flags = hidden ? OPTION_HIDDEN : 0,
                                 .doc = o->help,
                                 .group = group };
}

/* Appends a row; groups are numbered in the order of their headings. */
static void add_row(parsing *p, const cli_option *o, void *field, int *group) {
    if (o->kind == CLI_FILES) {
        p->files = o;
        p->files_field = field;
    } else if (p->count < ROWS_MOST) {
        *group += o->kind == CLI_GROUP;
        p->row[p->count] = o;
        p->field[p->count] = field;
        p->option[p->count] = argp_row(o, KEY_FIRST + p->count, *group);
        p->count++;
    }
}

static void add_tables(parsing *p) {
    int group = 1;
    for (int t = 0; t < CLI_TABLES && p->usage->table[t].rows != NULL; t++) {
        const cli_table *table = &p->usage->table[t];
        for (const cli_option *o = table->rows; o->name != NULL || o->help != NULL; o++)
            add_row(p, o, (char *)p->input + table->at + o->at, &group);
    }
    p->option[p->count] = (struct argp_option){ .key = KEY_HELP, .flags = OPTION_HIDDEN };
}

/* No option has a name that cannot be shown; getopt would write it as it is. */
static void check_names(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        char shown[CLI_SHOWN];
        size_t n = argv[i][0] != '-' ? 0 : argv[i][1] != '-' ? 2 : strcspn(argv[i], "=");
        n = strnlen(argv[i], n);
        if (strncmp(mt_printable(shown, sizeof shown, argv[i], n), argv[i], n) == 0)
            continue;
        fprintf(stderr, "%s: unrecognized option '%s'\n", argv[0], shown);
        exit(MT_BAD);
    }
}

void cli_parse(const cli_usage *usage, int argc, char **argv, void *input) {
    static parsing p; /* argp writes the help from it */
    p = (parsing){ .usage = usage, .input = input };
    add_tables(&p);
    check_names(argc, argv);
    const struct argp argp = { p.option,   parse, p.files != NULL ? p.files->arg : NULL,
                               usage->doc, NULL,  help_filter,
                               NULL };
    if (argp_parse(&argp, argc, argv, 0, NULL, &p) != 0) /* it says nothing itself */
        no_memory();
}
