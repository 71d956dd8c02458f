/* json.c - see json.h.
 *
 * The object is written part by part; stage says which part is open, and advance() closes and opens
 * parts on the way to a later one, so that each part is there even when it is empty. */
#include "reports/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum stage { OPTIONS, LOAD, ROWS, NOTES, END } stage;

struct mt_run_json {
    mt_json json;
    FILE *file;
    stage stage;
    bool loaded; /* the row of step -1 is written */
};

/* Goes on to a later part. */
static void advance(mt_run_json *r, stage stage) {
    mt_json *j = &r->json;
    if (r->stage == OPTIONS && stage > OPTIONS) {
        mt_json_end(j);
        mt_json_line(j);
        mt_columns_array(j, "columns", mt_table_columns);
        mt_json_line(j);
        r->stage = LOAD;
    }
    if (r->stage == LOAD && stage > LOAD) {
        if (!r->loaded)
            mt_json_null(j, "load");
        mt_json_line(j);
        mt_json_begin_array(j, "rows");
        r->stage = ROWS;
    }
    if (r->stage == ROWS && stage > ROWS) {
        mt_json_end(j);
        mt_json_line(j);
        mt_json_begin_object(j, "notes");
        r->stage = NOTES;
    }
    if (r->stage == NOTES && stage > NOTES) {
        mt_json_end(j);
        r->stage = END;
    }
}

mt_status mt_run_json_open(mt_run_json **out, FILE *file, const char *version, mt_error *err) {
    mt_run_json *r = *out = calloc(1, sizeof *r);
    if (r == NULL)
        return mt_no_memory(err, "writing JSON");
    mt_json *j = &r->json;
    r->file = file;
    mt_json_to_file(j, file);
    mt_json_begin_object(j, NULL);
    mt_json_text(j, "program", "memtrace");
    mt_json_text(j, "version", version);
    mt_json_line(j);
    mt_json_begin_object(j, "options");
    return MT_OK;
}

static void write_member(mt_json *j, const char *name, const char *value, mt_value_kind kind) {
    char key[64];
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < sizeof key; n++)
        key[n] = name[n] == ' ' || name[n] == '-' ? '_' : name[n];
    key[n] = '\0';
    mt_json_line(j);
    if (kind == MT_VALUE_TEXT)
        mt_json_text(j, key, value);
    else if (kind == MT_VALUE_SWITCH)
        mt_json_bool(j, key, strcmp(value, "on") == 0);
    else if (value[0] == '-')
        mt_json_signed(j, key, strtoll(value, NULL, 10));
    else
        mt_json_unsigned(j, key, strtoull(value, NULL, 10));
}

void mt_run_json_header(mt_run_json *r, const char *name, const char *value, mt_value_kind kind) {
    if (r->stage == OPTIONS)
        write_member(&r->json, name, value, kind);
}

void mt_run_json_note(mt_run_json *r, const char *name, const char *value, mt_value_kind kind) {
    advance(r, NOTES);
    if (r->stage == NOTES)
        write_member(&r->json, name, value, kind);
}

void mt_run_json_row(mt_run_json *r, const mt_row *row) {
    advance(r, row->step >= 0 ? ROWS : LOAD);
    if (r->stage == ROWS && row->step >= 0) {
        mt_json_line(&r->json);
        mt_columns_object(&r->json, NULL, mt_table_columns, row);
    } else if (r->stage == LOAD && !r->loaded) {
        mt_columns_object(&r->json, "load", mt_table_columns, row);
        r->loaded = true;
    }
}

static void write_refusal(mt_json *j, const mt_refusal *r) {
    if (r == NULL) {
        mt_json_null(j, "refusal");
        return;
    }
    mt_json_begin_object(j, "refusal");
    mt_json_signed(j, "step", r->step);
    mt_json_text(j, "tag", mt_tag_name(r->request.tag));
    mt_json_signed(j, "layer", r->request.layer);
    mt_json_unsigned(j, "requested", r->request.bytes);
    mt_json_unsigned(j, "rounded", r->rounded);
    mt_json_unsigned(j, "segment", r->segment);
    mt_json_unsigned(j, "capacity", r->capacity);
    mt_json_unsigned(j, "source_free", r->source_free);
    mt_json_unsigned(j, "reserved", r->reserved);
    mt_json_unsigned(j, "free_total", r->free_total);
    mt_json_unsigned(j, "largest_free", r->largest_free);
    mt_json_end(j);
}

static void write_count(mt_json *j, const char *name, const mt_count *c) {
    mt_json_line(j);
    mt_json_begin_object(j, name);
    mt_json_unsigned(j, "current", c->current);
    mt_json_unsigned(j, "peak", c->peak);
    mt_json_unsigned(j, "total", c->total);
    mt_json_end(j);
}

static void write_summary(mt_json *j, const mt_ledger *l) {
    uint64_t sum = l->rounding + l->split + l->cached;
    mt_json_begin_object(j, "summary");
    mt_json_begin_object(j, "tags");
    for (int i = 0; i < MT_TAGS; i++) {
        write_count(j, mt_tag_name((mt_tag)i), &l->tag[i]);
        sum += l->tag[i].current;
    }
    mt_json_end(j);
    write_count(j, "requested", &l->requested);
    write_count(j, "reserved", &l->reserved);
    mt_json_line(j);
    mt_json_unsigned(j, "rounding", l->rounding);
    mt_json_unsigned(j, "split", l->split);
    mt_json_unsigned(j, "cached", l->cached);
    mt_json_signed(j, "unexplained", (int64_t)(l->reserved.current - sum));
    mt_json_line(j);
    mt_json_unsigned(j, "segments", l->segments);
    mt_json_unsigned(j, "segment_events", l->segment_events);
    mt_json_unsigned(j, "allocs", l->allocs);
    mt_json_unsigned(j, "frees", l->frees);
    mt_json_unsigned(j, "ooms", l->ooms);
    mt_json_end(j);
}

mt_status mt_run_json_close(mt_run_json *r, const mt_ledger *ledger, const char *ended,
                            const mt_refusal *refusal, mt_error *err) {
    mt_json *j = &r->json;
    FILE *file = r->file;
    advance(r, END);
    mt_json_line(j);
    mt_json_text(j, "ended", ended);
    mt_json_line(j);
    write_refusal(j, refusal);
    mt_json_line(j);
    if (ledger != NULL)
        write_summary(j, ledger);
    else
        mt_json_null(j, "summary");
    mt_json_end(j);
    mt_status status = mt_json_finish(j, err);
    free(r);
    if (fflush(file) != 0 || ferror(file))
        return mt_fail(err, MT_FAILED, "JSON cannot be written: %s", strerror(errno));
    return status;
}
