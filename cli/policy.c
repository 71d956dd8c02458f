/* policy.c - policies on the command line: the settings of PyTorch's environment, lists, notes. */
#include "cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/list.h"

/* What PyTorch reads: the first of these that is set counts, even if it is empty. */
static const char *environment(void) {
    static const char *const names[] = { "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                                         "PYTORCH_ALLOC_CONF" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL)
            return getenv(names[i]);
    return "";
}

/* Appends text without white space, which PyTorch skips. */
static char *append(char *to, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isspace((unsigned char)text[i]))
            *to++ = text[i];
    return to;
}

/* Writes what PyTorch reads of its settings, after a comma; without one at their end, which it lets
 * stand there. */
static char *append_settings(char *at, const char *settings) {
    *at++ = ',';
    at = append(at, settings, strlen(settings));
    return at[-1] == ',' && at[-2] != ',' ? at - 1 : at;
}

mt_status cli_policy_spec(char **out, const char *spec, mt_error *err) {
    const mt_policy_traits *p = mt_policy_find(spec);
    const bool pytorch = p != NULL && p->pytorch;
    const size_t n = pytorch ? strlen(p->name) : strlen(spec);
    const char *rest = spec + n;
    const bool env =
        pytorch && strncmp(rest, ":env", 4) == 0 && (rest[4] == ',' || rest[4] == '\0');
    const char *settings = env ? environment() : "";
    char *at = *out = malloc(strlen(spec) + strlen(settings) + sizeof ",");
    if (at == NULL)
        return mt_no_memory(err, "a policy");
    memcpy(at, spec, n);
    at += n;
    if (env) {
        at = append_settings(at, settings);
        rest += 4;
    }
    *append(at, rest, strlen(rest)) = '\0';
    return MT_OK;
}

static int is_policy(const char *word) {
    return mt_policy_find(word) != NULL;
}

mt_status cli_policy_list(cli_list *l, const char *text, mt_error *err) {
    MT_TRY(cli_list_read(l, "policy", text, is_policy, err));
    for (size_t i = 0; i < l->count; i++) {
        char *spec;
        MT_TRY(cli_policy_spec(&spec, l->value[i], err));
        free(l->value[i]);
        l->value[i] = spec;
    }
    return MT_OK;
}

/* Whether a note was not printed yet; the first so many are remembered. */
static bool is_new(const char *note) {
    static char *seen[16];
    size_t i = 0;
    for (; i < sizeof seen / sizeof *seen && seen[i] != NULL; i++)
        if (strcmp(seen[i], note) == 0)
            return false;
    if (i < sizeof seen / sizeof *seen)
        seen[i] = strdup(note);
    return true;
}

void cli_policy_notes(const mt_alloc *a, bool quiet) {
    const char *note;
    for (uint32_t i = 0; !quiet && (note = mt_alloc_note(a, i)) != NULL; i++)
        if (is_new(note))
            fprintf(stderr, "memtrace: note: %s\n", note);
}
