/* stats.c - the statistics as others see them, see torch.h. */
#include "alloc/torch/internal.h"

#include <stdio.h>
#include <string.h>

static const char *const stat_names[MT_TORCH_STAT_COUNT] = {
#define X(name) #name,
    MT_TORCH_STATS(X)
#undef X
};

static bool field(const mt_torch_stat *s, const char *name, int64_t *value) {
    if (strcmp(name, "current") == 0)
        *value = (int64_t)s->current;
    else if (strcmp(name, "peak") == 0)
        *value = (int64_t)s->peak;
    else if (strcmp(name, "allocated") == 0)
        *value = (int64_t)s->allocated;
    else if (strcmp(name, "freed") == 0)
        *value = (int64_t)s->freed;
    else
        return false;
    return true;
}

static bool plain(const mt_torch_stats *s, const char *key, int64_t *value) {
    const struct {
        const char *name;
        int64_t value;
    } plain[] = {
        { "num_alloc_retries", (int64_t)s->num_alloc_retries },
        { "num_ooms", (int64_t)s->num_ooms },
        { "num_sync_all_streams", (int64_t)s->num_sync_all_streams },
        { "num_device_alloc", (int64_t)s->num_device_alloc },
        { "num_device_free", (int64_t)s->num_device_free },
        { "num_oom_rejections", (int64_t)s->num_oom_rejections },
        { "max_split_size", s->max_split_size },
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i].name, key) == 0) {
            *value = plain[i].value;
            return true;
        }
    return false;
}

static bool pooled(const mt_torch_stats *s, const char *name, const char *pool, const char *what,
                   int64_t *value) {
    static const char *const pools[3] = { "all", "small_pool", "large_pool" };
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < MT_TORCH_STAT_COUNT; i++)
            if (strcmp(pools[p], pool) == 0 && strcmp(stat_names[i], name) == 0)
                return field(&s->pool[p][i], what, value);
    return false;
}

bool mt_torch_stats_get(const mt_torch_stats *s, const char *key, int64_t *value) {
    char a[64], b[64], c[64], rest;
    switch (sscanf(key, "%63[^.].%63[^.].%63[^.]%c", a, b, c, &rest)) {
    case 1:
        return plain(s, a, value);
    case 2:
        if (strcmp(a, "oversize_allocations") == 0)
            return field(&s->oversize_allocations, b, value);
        return strcmp(a, "oversize_segments") == 0 && field(&s->oversize_segments, b, value);
    case 3:
        return pooled(s, a, b, c, value);
    default:
        return false;
    }
}

static torch *torch_of(const mt_alloc *a) {
    mt_policy *p = mt_alloc_policy_of(a);
    return p->ops == &mt_policy_torch ? (torch *)p : NULL;
}

const mt_torch_stats *mt_alloc_torch_stats(const mt_alloc *a) {
    const torch *t = torch_of(a);
    return t != NULL ? &t->stats : NULL;
}

void mt_alloc_torch_reset_peaks(mt_alloc *a) {
    torch *t = torch_of(a);
    if (t == NULL)
        return;
    mt_torch_stats *s = &t->stats;
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < MT_TORCH_STAT_COUNT; i++)
            s->pool[p][i].peak = s->pool[p][i].current;
    s->oversize_allocations.peak = s->oversize_allocations.current;
    s->oversize_segments.peak = s->oversize_segments.current;
}
