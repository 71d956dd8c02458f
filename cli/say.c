/* say.c - the lines that say what was run: "name value", in a table's comments, in a trace, in
 * JSON and on a terminal. All go through cli_say, which keeps each of them one line. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "reports/summary.h"

#define VALUE_MOST 1200

void cli_say(cli_sink to, mt_value_kind kind, const char *name, const char *format, ...) {
    char value[VALUE_MOST], shown[VALUE_MOST];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    to.line(to.context, name, mt_printable(shown, sizeof shown, value, strlen(value)), kind);
}

static void to_comments(void *context, const char *name, const char *value, mt_value_kind kind) {
    (void)context, (void)kind;
    printf("# %s %s\n", name, value);
}

static void to_stderr(void *context, const char *name, const char *value, mt_value_kind kind) {
    (void)context, (void)kind;
    fprintf(stderr, "  %s %s\n", name, value);
}

const cli_sink cli_comments = { to_comments, NULL }, cli_stderr = { to_stderr, NULL };

void cli_tell_capacity(const mt_source *s, bool standard, int64_t step) {
    char size[32], first[32] = "while loading";
    if (step >= 0)
        snprintf(first, sizeof first, "in step %" PRId64, step);
    fprintf(stderr,
            "--capacity %s%s was reached %" PRIu64 " time%s, first %s:\n"
            "each time the allocator freed its cached segments and tried again\n",
            cli_size_text(size, sizeof size, s->capacity), standard ? " (the default)" : "",
            s->refusals, s->refusals == 1 ? "" : "s", first);
}

void cli_tell_refusal(const cli_session *s) {
    mt_oom_print(stderr, mt_alloc_refusal(s->alloc));
    if (s->o.capacity == 0 && s->cuda.device == NULL)
        fprintf(stderr, "the capacity is the default, %s\n", CLI_CAPACITY_TEXT);
}

void cli_say_command(cli_sink to, const char *command) {
    cli_say(to, MT_VALUE_TEXT, "memtrace", "%s", MT_VERSION);
    cli_say(to, MT_VALUE_TEXT, "command", "%s", command);
}

void cli_say_path(cli_sink to, const char *name, const char *path) {
    char shown[1000];
    cli_say(to, MT_VALUE_TEXT, name, "%s", mt_printable_path(shown, sizeof shown, path));
}

void cli_say_number(cli_sink to, const char *name, uint64_t value) {
    cli_say(to, MT_VALUE_NUMBER, name, "%" PRIu64, value);
}
