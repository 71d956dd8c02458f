/* policy.c - the list of policies, and what they have in common. */
#include "alloc/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const mt_policy_ops *const policies[] = { &mt_policy_torch,    &mt_policy_block,
                                                 &mt_policy_direct,   &mt_policy_bfc,
                                                 &mt_policy_jemalloc, &mt_policy_async };

#define POLICIES (sizeof policies / sizeof *policies)

static const mt_policy_ops *find(const char *spec) {
    size_t n = strcspn(spec, ",:");
    for (size_t i = 0; i < POLICIES; i++) {
        const char *name = policies[i]->traits.name;
        if (strlen(name) == n && strncmp(name, spec, n) == 0)
            return policies[i];
    }
    return NULL;
}

const mt_policy_traits *mt_policy_find(const char *spec) {
    const mt_policy_ops *ops = find(spec);
    return ops != NULL ? &ops->traits : NULL;
}

const mt_policy_traits *mt_policy_nth(size_t i) {
    return i < POLICIES ? &policies[i]->traits : NULL;
}

/* Writes "torch, block, direct, ...". */
static char *write_names(char *buffer, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < POLICIES && n < room; i++)
        n += (size_t)snprintf(buffer + n, room - n, "%s%s", i > 0 ? ", " : "",
                              policies[i]->traits.name);
    return buffer;
}

/* What follows the name. Where nothing does, or a ',' stands where a ':' must, that sign stays in
 * front: no policy takes such options. */
static const char *options_of(const char *spec, bool colon) {
    const char *at = spec + strcspn(spec, ",:");
    bool none = at[0] == '\0' || at[1] == '\0', wrong = at[0] == ',' && colon;
    return none || wrong ? at : at + 1;
}

mt_status mt_policy_open(mt_policy **out, const char *spec, const mt_owner *owner,
                         mt_source *source, mt_error *err) {
    const mt_policy_ops *ops = find(spec);
    char names[128];
    if (ops == NULL)
        return mt_fail(err, MT_BAD, "unknown policy '%.100s'; known: %s", spec,
                       write_names(names, sizeof names));
    mt_policy *p = calloc(1, ops->size);
    if (p == NULL)
        return mt_no_memory(err, "a policy");
    p->ops = ops;
    mt_core_init(&p->core, owner, source);
    char *options = strdup(options_of(spec, ops->traits.colon));
    mt_status status =
        options != NULL ? ops->open(p, options, err) : mt_no_memory(err, "a policy's options");
    free(options);
    if (status != MT_OK) {
        mt_policy_close(p);
        return status;
    }
    *out = p;
    return MT_OK;
}

void mt_policy_note(mt_policy *p, const char *format, ...) {
    char text[2 * MT_NOTE];
    va_list args;
    if (p->notes == MT_NOTES)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mt_printable_line(p->note[p->notes++], MT_NOTE, text);
}

void mt_policy_close(mt_policy *p) {
    if (p->ops->close != NULL)
        p->ops->close(p);
    mt_core_free(&p->core);
    free(p);
}

mt_status mt_policy_walk(const mt_policy *p, const mt_visitor *v, mt_error *err) {
    return p->ops->walk != NULL ? p->ops->walk(p, v, err) : mt_core_walk(&p->core, v, err);
}

mt_status mt_policy_check_merged(const mt_policy *p, mt_error *err) {
    return p->ops->walk != NULL ? MT_OK : mt_core_check_merged(&p->core, err);
}
