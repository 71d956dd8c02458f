/* trace.c - the list of forms, and what writing has in common, whatever the form. */
#include <stdlib.h>
#include <string.h>

#include "traces/writer.h"

/* An ending stands before those that it ends with: .rmm.csv before .csv. */
const mt_trace_form *const mt_trace_forms[] = {
    &mt_form_trace,  &mt_form_mtb,    &mt_form_rmm,    &mt_form_csv, &mt_form_jsonl,
    &mt_form_folded, &mt_form_massif, &mt_form_chrome, NULL,
};

/* ---- forms ----------------------------------------------------------------------------------- */

const mt_trace_form *mt_trace_form_named(const char *name) {
    const mt_trace_form *const *f = mt_trace_forms;
    while (*f != NULL && strcmp((*f)->name, name) != 0)
        f++;
    return *f;
}

/* Whether the n characters end so. */
static bool ends(const char *path, size_t n, const char *ending) {
    size_t length = strlen(ending);
    return n >= length && memcmp(path + n - length, ending, length) == 0;
}

const mt_trace_form *mt_trace_form_of(const char *path) {
    size_t n = strlen(path);
    n -= ends(path, n, ".gz") ? 3 : ends(path, n, ".zst") ? 4 : 0;
    const mt_trace_form *const *f = mt_trace_forms;
    while (*f != NULL && !ends(path, n, (*f)->ending))
        f++;
    return *f;
}

/* ---- writing --------------------------------------------------------------------------------- */

mt_status mt_trace_open(mt_trace **out, const mt_trace_form *form, const char *path, bool times,
                        mt_error *err) {
    if (form == NULL && (form = mt_trace_form_of(path)) == NULL)
        form = &mt_form_trace;
    mt_trace *t = *out = calloc(1, form->size);
    if (t == NULL)
        return mt_no_memory(err, path);
    *t = (mt_trace){ .form = form, .times = times };
    mt_status status = mt_output_open(&t->out, path, err);
    if (status == MT_OK && form->begin != NULL)
        status = form->begin(t, err);
    if (status != MT_OK) {
        mt_trace_abandon(t);
        *out = NULL;
    }
    return status;
}

void mt_trace_item(mt_trace *t, const mt_item *item) {
    if (t->error.status != MT_OK)
        return;
    bool told = item->kind != MT_ITEM_NOTE && item->kind != MT_ITEM_STACK;
    if (!t->timed && told)
        t->first_ns = item->time_ns;
    t->timed = t->timed || told;
    t->form->item(t, item);
}

void mt_trace_settings(mt_trace *t, const mt_settings *s) {
    t->times = s->timed;
    if (t->form->settings != NULL && t->error.status == MT_OK)
        t->form->settings(t, s);
}

void mt_trace_header(mt_trace *t, const char *line) {
    mt_item item;
    char *text = strndup(line, MT_TRACE_LINE - 8);
    if (text == NULL) {
        mt_trace_no_memory(t);
        return;
    }
    for (char *at = text; *(at += strcspn(at, "\r\n")) != '\0';)
        *at = ' ';
    mt_item_clear(&item);
    item.kind = MT_ITEM_NOTE;
    item.text = text;
    mt_trace_item(t, &item);
    free(text);
}

static void on_event(void *context, const mt_event *e) {
    mt_item item;
    mt_item_clear(&item);
    mt_item_tell(&item, e);
    mt_trace_item(context, &item);
}

mt_listener mt_trace_listener(mt_trace *t) {
    return (mt_listener){ on_event, t };
}

static void close_trace(mt_trace *t) {
    if (t->form->close != NULL)
        t->form->close(t);
    free(t);
}

mt_status mt_trace_commit(mt_trace *t, const char *ending, mt_error *err) {
    if (t->error.status == MT_OK)
        t->form->end(t, ending);
    mt_status status = t->error.status;
    if (status == MT_OK) {
        status = mt_output_commit(t->out, err);
    } else {
        mt_output_abandon(t->out);
        *err = t->error;
    }
    close_trace(t);
    return status;
}

void mt_trace_abandon(mt_trace *t) {
    if (t == NULL)
        return;
    mt_output_abandon(t->out);
    close_trace(t);
}
