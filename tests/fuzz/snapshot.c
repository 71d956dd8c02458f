/* snapshot.c - see targets.h. */
#include "tests/fuzz/targets.h"

#include <stdlib.h>

#include "reports/explain.h"

static void explain(const mt_snapshot *s, mt_explain *x, FILE *out) {
    mt_error err;
    mt_json j;
    if (mt_explain_conclude(x, s, &err) != MT_OK)
        return;
    mt_explain_print(x, "f", out);
    mt_json_to_file(&j, out);
    mt_json_begin_object(&j, NULL);
    mt_explain_json(x, &j);
    mt_json_end(&j);
    if (mt_json_finish(&j, &err) != MT_OK)
        abort();
    for (size_t i = 0; i < x->devices.count; i++) { /* the identity, whatever the file says */
        const mt_share *t = &x->devices.at[i].end.account.total;
        if (t->reserved != t->requested + t->rounding + t->split + t->cached)
            abort();
    }
}

void mt_fuzz_snapshot(const uint8_t *data, size_t n) {
    static FILE *out;
    mt_explain_options options = {
        .device = -1, .at = (mt_moment)(n % 4), .when = n % 16, .rows = 3, .strip = n % 2
    };
    mt_explain x;
    mt_snapshot s;
    mt_error err;
    if (out == NULL)
        out = fopen("/dev/null", "w");
    mt_explain_open(&x, &options);
    if (mt_snapshot_read(&s, "f", data, n, mt_explain_events, &x, &err) == MT_OK) {
        explain(&s, &x, out);
        mt_explain_close(&x);
        mt_snapshot_free(&s);
    } else {
        mt_explain_close(&x);
    }
}
