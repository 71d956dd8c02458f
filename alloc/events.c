/* events.c - the names of tags, pools and kinds of event. */
#include "alloc/events.h"

static const char *const tag_names[MT_TAGS] = { "weights", "kv",        "activations",
                                                "logits",  "workspace", "other" };
static const char *const pool_names[MT_POOLS] = { "small",  "large", "block", "direct",
                                                  "region", "arena", "driver" };
static const char *const kind_names[MT_EVENTS] = {
    "alloc", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "mark",
};

const char *mt_tag_name(mt_tag tag) {
    return tag_names[tag];
}

const char *mt_pool_name(mt_pool pool) {
    return pool_names[pool];
}

const char *mt_event_kind_name(mt_event_kind kind) {
    return kind_names[kind];
}
