/* oom.c - see targets.h. */
#include "tests/fuzz/targets.h"

#include <stdlib.h>

#include "reports/oom_text.h"

void mt_fuzz_oom(const uint8_t *data, size_t n) {
    static FILE *out;
    mt_oom_walk walk = { 0 };
    mt_oom m;
    mt_json j;
    mt_error err;
    size_t before = 0;
    if (out == NULL)
        out = fopen("/dev/null", "w");
    while (mt_oom_find(&m, (const char *)data, n, &walk)) {
        if (walk.at <= before || walk.at > n)
            abort();
        before = walk.at;
        mt_oom_text_print(&m, out);
        mt_json_to_file(&j, out);
        mt_json_begin_object(&j, NULL);
        mt_oom_text_json(&m, &j);
        mt_json_end(&j);
        if (mt_json_finish(&j, &err) != MT_OK)
            abort();
    }
}
