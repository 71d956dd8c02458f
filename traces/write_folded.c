/* write_folded.c - call sites as folded stacks, a;b;c BYTES, for flame graphs: the bytes of each at
 * the peak of what was requested. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "traces/sites.h"
#include "traces/writer.h"

typedef struct folded {
    mt_trace base;
    mt_sites sites;
} folded;

static void write_item(mt_trace *t, const mt_item *item) {
    if (!mt_sites_item(&((folded *)t)->sites, item))
        mt_trace_no_memory(t);
}

/* A frame as it may stand between two semicolons. */
static void write_frame(mt_trace *t, const char *frame) {
    while (*frame != '\0') {
        size_t n = strcspn(frame, ";\r\n");
        mt_output_write(t->out, frame, n);
        frame += n;
        if (*frame != '\0')
            mt_output_write(t->out, *frame++ == ';' ? "," : " ", 1);
    }
}

static void write_site(mt_trace *t, const mt_sites *s, const mt_site *site) {
    char layer[24], bytes[32];
    const char *frame[MT_SITE_FRAMES];
    size_t n = mt_sites_frames(s, site, layer, frame);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            mt_output_write(t->out, ";", 1);
        write_frame(t, frame[i]);
    }
    int length = snprintf(bytes, sizeof bytes, " %" PRIu64 "\n", mt_site_at_peak(site));
    mt_output_write(t->out, bytes, (size_t)length);
}

static void end(mt_trace *t, const char *ending) {
    const mt_sites *s = &((folded *)t)->sites;
    (void)ending;
    for (size_t i = 0; i < s->site.count; i++)
        if (mt_site_at_peak(&s->site.at[i]) > 0)
            write_site(t, s, &s->site.at[i]);
}

static void close_folded(mt_trace *t) {
    mt_sites_free(&((folded *)t)->sites);
}

const mt_trace_form mt_form_folded = {
    .name = "folded",
    .ending = ".folded",
    .loses = "all but the bytes requested by each call site at the peak",
    .size = sizeof(folded),
    .item = write_item,
    .end = end,
    .close = close_folded,
};
