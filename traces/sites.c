/* sites.c - see sites.h. */
#include "traces/sites.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_frame(mt_sites *s, const mt_item *item) {
    mt_sites_frame *f = mt_array_push(&s->frame);
    if (f == NULL)
        return false;
    *f = (mt_sites_frame){ (uint32_t)item->id, strdup(item->text) };
    return f->text != NULL;
}

/* The site of a request; a new one when it is the first there. */
static bool find_site(mt_sites *s, const mt_item *item, uint32_t *at) {
    uint64_t key = (uint64_t)item->stack << 1 | 1;
    if (item->stack == 0)
        key = ((uint64_t)(item->layer + INT64_C(1)) << 4 | item->tag) << 1;
    const uint64_t *known = mt_map_find(&s->of, key);
    *at = known != NULL ? (uint32_t)*known : (uint32_t)s->site.count;
    if (known != NULL)
        return true;
    mt_site *site = mt_array_push(&s->site);
    if (site == NULL || !mt_map_set(&s->of, key, *at))
        return false;
    *site = (mt_site){ .stack = item->stack, .layer = item->layer, .tag = item->tag };
    return mt_array_reserve(&s->changed, s->site.count);
}

static void change(mt_sites *s, uint32_t at, uint64_t bytes) {
    mt_site *site = &s->site.at[at];
    site->now += bytes;
    site->since += bytes;
    s->now += bytes;
    if (!site->changed)
        s->changed.at[s->changed.count++] = at;
    site->changed = true;
}

static void new_peak(mt_sites *s) {
    s->peak = s->now;
    for (size_t i = 0; i < s->changed.count; i++) {
        mt_site *site = &s->site.at[s->changed.at[i]];
        site->since = 0;
        site->changed = false;
    }
    s->changed.count = 0;
}

static bool add_request(mt_sites *s, const mt_item *item) {
    uint32_t site, live = mt_numbers_take(&s->live, item->id);
    if (live == MT_NO_NUMBER || !mt_array_extend(&s->request, (size_t)live + 1) ||
        !find_site(s, item, &site))
        return false;
    uint64_t bytes = item->refused ? 0 : item->bytes;
    s->request.at[live] = (mt_sites_request){ bytes, site };
    change(s, site, bytes);
    if (s->now > s->peak)
        new_peak(s);
    return true;
}

static void drop_request(mt_sites *s, const mt_item *item) {
    uint32_t live = mt_numbers_drop(&s->live, item->id);
    if (live != MT_NO_NUMBER)
        change(s, s->request.at[live].site, -s->request.at[live].bytes);
}

bool mt_sites_item(mt_sites *s, const mt_item *item) {
    if (item->kind == MT_ITEM_STACK)
        return add_frame(s, item);
    if (item->kind == MT_ITEM_ALLOC)
        return add_request(s, item);
    if (item->kind == MT_ITEM_FREE)
        drop_request(s, item);
    return true;
}

size_t mt_sites_frames(const mt_sites *s, const mt_site *site, char layer[24],
                       const char *frame[MT_SITE_FRAMES]) {
    size_t n = 0;
    if (site->stack == 0) {
        frame[n++] = mt_tag_name(site->tag);
        snprintf(layer, 24, "layer %" PRId32, site->layer);
        if (site->layer >= 0)
            frame[n++] = layer;
        return n;
    }
    for (uint32_t i = site->stack; i > 0 && i <= s->frame.count && n < MT_SITE_FRAMES;
         i = s->frame.at[i - 1].caller)
        frame[n++] = s->frame.at[i - 1].text;
    for (size_t i = 0; i < n / 2; i++) {
        const char *other = frame[i];
        frame[i] = frame[n - 1 - i];
        frame[n - 1 - i] = other;
    }
    return n;
}

void mt_sites_free(mt_sites *s) {
    for (size_t i = 0; i < s->frame.count; i++)
        free(s->frame.at[i].text);
    mt_array_free(&s->frame);
    mt_array_free(&s->site);
    mt_array_free(&s->changed);
    mt_array_free(&s->request);
    mt_numbers_free(&s->live);
    mt_map_free(&s->of);
}
