/* chrome.c - see chrome.h. */
#include "traces/chrome.h"

#include <stdlib.h>

#include "base/json.h"

struct mt_chrome {
    mt_output *out;
    mt_json json;
};

static mt_json *begin(mt_chrome *c, const char *phase, const char *name) {
    mt_json *j = &c->json;
    mt_json_line(j);
    mt_json_begin_object(j, NULL);
    mt_json_text(j, "ph", phase);
    mt_json_unsigned(j, "pid", 1);
    mt_json_text(j, "name", name);
    return j;
}

static void end(mt_json *j, const mt_chrome_arg *args, size_t count) {
    mt_json_begin_object(j, "args");
    for (size_t i = 0; i < count; i++)
        mt_json_unsigned(j, args[i].name, args[i].value);
    mt_json_end(j);
    mt_json_end(j);
}

static void name_of(mt_chrome *c, const char *kind, int track, const char *name) {
    mt_json *j = begin(c, "M", kind);
    mt_json_signed(j, "tid", track);
    mt_json_begin_object(j, "args");
    mt_json_text(j, "name", name);
    mt_json_end(j);
    mt_json_end(j);
}

mt_status mt_chrome_begin(mt_chrome **out, mt_output *to, const char *process, mt_error *err) {
    mt_chrome *c = *out = calloc(1, sizeof *c);
    if (c == NULL)
        return mt_no_memory(err, "a Chrome trace");
    c->out = to;
    mt_json_to_output(&c->json, c->out);
    mt_json_begin_object(&c->json, NULL);
    mt_json_text(&c->json, "displayTimeUnit", "ns");
    mt_json_begin_array(&c->json, "traceEvents");
    name_of(c, "process_name", 0, process);
    return MT_OK;
}

mt_status mt_chrome_open(mt_chrome **out, const char *path, const char *process, mt_error *err) {
    mt_output *to;
    *out = NULL;
    MT_TRY(mt_output_open(&to, path, err));
    mt_status status = mt_chrome_begin(out, to, process, err);
    if (status != MT_OK)
        mt_output_abandon(to);
    return status;
}

void mt_chrome_track(mt_chrome *c, int track, const char *name) {
    name_of(c, "thread_name", track, name);
}

void mt_chrome_span(mt_chrome *c, int track, const char *name, const char *category,
                    double begin_us, double us, const mt_chrome_arg *args, size_t count) {
    mt_json *j = begin(c, "X", name);
    mt_json_text(j, "cat", category);
    mt_json_signed(j, "tid", track);
    mt_json_fixed(j, "ts", begin_us, 3);
    mt_json_fixed(j, "dur", us, 3);
    end(j, args, count);
}

void mt_chrome_instant(mt_chrome *c, const char *name, double at_us, const mt_chrome_arg *args,
                       size_t count) {
    mt_json *j = begin(c, "i", name);
    mt_json_text(j, "s", "g");
    mt_json_fixed(j, "ts", at_us, 3);
    end(j, args, count);
}

void mt_chrome_counter(mt_chrome *c, const char *name, double at_us, const mt_chrome_arg *args,
                       size_t count) {
    mt_json *j = begin(c, "C", name);
    mt_json_fixed(j, "ts", at_us, 3);
    end(j, args, count);
}

mt_status mt_chrome_finish(mt_chrome *c, mt_error *err) {
    mt_json_line(&c->json);
    mt_json_end(&c->json);
    mt_json_end(&c->json);
    mt_status status = mt_json_finish(&c->json, err);
    free(c);
    return status;
}

mt_status mt_chrome_commit(mt_chrome *c, mt_error *err) {
    mt_output *out = c->out;
    mt_status status = mt_chrome_finish(c, err);
    if (status == MT_OK)
        return mt_output_commit(out, err);
    mt_output_abandon(out);
    return status;
}

void mt_chrome_abandon(mt_chrome *c) {
    if (c == NULL)
        return;
    mt_output_abandon(c->out);
    free(c);
}
