/* sites.h - bytes by call site, at the peak of all that was requested.
 *
 * A site is a call stack where the recording tells one, else a tag and a layer. What a site had at
 * the peak is what it has now less its changes since: only sites that changed are gone through when
 * there is a new peak, so that an item costs constant time. */
#ifndef MT_TRACES_SITES_H
#define MT_TRACES_SITES_H

#include "traces/reader.h"

typedef struct mt_site {
    uint64_t now, since; /* bytes; what was added since the peak, modulo 2^64 */
    uint32_t stack;      /* 0: none, but layer and tag */
    int32_t layer;
    uint8_t tag;
    bool changed; /* since the peak */
} mt_site;

typedef struct mt_sites_frame {
    uint32_t caller; /* number of its stack; 0: none */
    char *text;
} mt_sites_frame;

typedef struct mt_sites_request {
    uint64_t bytes;
    uint32_t site;
} mt_sites_request;

/* All zero: nothing yet. */
typedef struct mt_sites {
    uint64_t now, peak; /* requested */
    MT_ARRAY(mt_site) site;
    MT_ARRAY(uint32_t) changed;         /* sites */
    MT_ARRAY(mt_sites_frame) frame;     /* by number of the stack - 1 */
    MT_ARRAY(mt_sites_request) request; /* by live number */
    mt_numbers live;                    /* by id */
    mt_map of;                          /* stack, or layer and tag -> site */
} mt_sites;

/* Takes an item; false when there is no memory. */
bool mt_sites_item(mt_sites *s, const mt_item *item);
void mt_sites_free(mt_sites *s);

static inline uint64_t mt_site_at_peak(const mt_site *site) {
    return site->now - site->since;
}

/* The frames of a site, the outermost first, or its tag and layer; of more than MT_SITE_FRAMES the
 * innermost. Returns how many. */
#define MT_SITE_FRAMES 256
size_t mt_sites_frames(const mt_sites *s, const mt_site *site, char layer[24],
                       const char *frame[MT_SITE_FRAMES]);

#endif
