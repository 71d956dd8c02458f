/* policy_async.c - the driver's own pool (cudaMallocAsync), which only a real device has.
 *
 * What happens inside the pool cannot be seen: it tells how many bytes it has reserved and how many
 * are in use, and nothing about where they lie. So the pool is one growable segment; a block is as
 * large as the change of the bytes in use when it was taken, and all that is free counts as cached,
 * whatever it is next to. Reserved may fall by itself when the device's work is waited for; that is
 * seen at the next request and at the end of each step. */
#include "alloc/internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"

/* The driver's unit, for the rare request whose cost is hidden by an older free that ended. */
#define UNIT 512

typedef struct async_block async_block;

typedef struct async {
    mt_policy base;
    uint64_t reserved, live; /* as told in events so far */
    async_block *first;      /* all blocks */
} async;

struct async_block {
    async_block *prev, *next;
    void *ptr;
    uint64_t bytes, rounded;
    uint32_t live;
};

static mt_status async_open(mt_policy *p, char *options, mt_error *err) {
    const mt_source *source = p->core.source;
    if (*options != '\0')
        return mt_fail(err, MT_BAD, "policy async:%.60s: expected no options", options);
    if (source->pool_take == NULL)
        return mt_fail(err, MT_BAD,
                       "policy async is the CUDA driver's own pool: it needs --backend "
                       "cuda, not memory from %s",
                       source->name);
    snprintf(p->description, sizeof p->description, "async");
    return MT_OK;
}

static void enter(async *p, async_block *b) {
    b->next = p->first;
    if (b->next != NULL)
        b->next->prev = b;
    p->first = b;
}

/* Gives a block back to the pool; its record is gone. */
static void leave(async *p, async_block *b) {
    mt_source *s = p->base.core.source;
    s->pool_give(s, b->ptr, b->bytes);
    if (b->prev != NULL)
        b->prev->next = b->next;
    else
        p->first = b->next;
    if (b->next != NULL)
        b->next->prev = b->prev;
    free(b);
}

static void async_close(mt_policy *base) {
    async *p = (async *)base;
    while (p->first != NULL)
        leave(p, p->first);
}

static uint64_t async_roundup(const mt_policy *base, uint64_t bytes) {
    (void)base;
    return mt_round_up(bytes, UNIT);
}

/* Tells what the pool reserved or gave back since the last time. */
static void tell(async *p, uint64_t reserved) {
    uint64_t was = p->reserved;
    p->reserved = reserved;
    if (reserved > was)
        mt_send_segment(&p->base.core, MT_EV_SEGMENT_MAP, 0, 0, MT_POOL_DRIVER, was,
                        reserved - was);
    if (reserved < was)
        mt_send_segment(&p->base.core, MT_EV_SEGMENT_UNMAP, 0, 0, MT_POOL_DRIVER, reserved,
                        was - reserved);
}

static mt_status look(async *p, uint64_t *used, mt_error *err) {
    mt_source *s = p->base.core.source;
    uint64_t reserved;
    MT_TRY(s->pool_state(s, &reserved, used, err));
    tell(p, reserved > p->live ? reserved : p->live); /* never below what is live */
    return MT_OK;
}

static mt_status take(async *p, async_block *b, mt_error *err) {
    mt_source *s = p->base.core.source;
    mt_status status = s->pool_take(s, b->bytes, &b->ptr, err);
    if (status != MT_NO_MEMORY)
        return status;
    s->pool_trim(s);
    return s->pool_take(s, b->bytes, &b->ptr, err);
}

/* Takes a block and finds out what it cost. */
static mt_status measure(async *p, async_block *b, mt_error *err) {
    uint64_t before, after, reserved;
    mt_source *s = p->base.core.source;
    MT_TRY(look(p, &before, err));
    MT_TRY(take(p, b, err));
    mt_status status = s->pool_state(s, &reserved, &after, err);
    if (status != MT_OK) {
        s->pool_give(s, b->ptr, b->bytes);
        return status;
    }
    b->rounded = after > before ? after - before : 0;
    if (b->rounded < b->bytes)
        b->rounded = mt_round_up(b->bytes, UNIT);
    uint64_t least = p->live + b->rounded;
    tell(p, reserved > least ? reserved : least);
    return MT_OK;
}

static mt_status async_get(mt_policy *base, uint64_t bytes, uint32_t stream, uint32_t live,
                           mt_place *place, mt_error *err) {
    async *p = (async *)base;
    async_block *b = calloc(1, sizeof *b);
    (void)stream;
    if (b == NULL)
        return mt_no_memory(err, "the record of a block");
    b->bytes = bytes;
    b->live = live;
    mt_status status = measure(p, b, err);
    if (status != MT_OK) {
        free(b);
        return status;
    }
    enter(p, b);
    p->live += b->rounded;
    *place = (mt_place){ .ptr = b->ptr, .block = b, .rounded = b->rounded, .pool = MT_POOL_DRIVER };
    return MT_OK;
}

static void async_put(mt_policy *base, void *block) {
    async *p = (async *)base;
    async_block *b = block;
    uint32_t live = b->live;
    p->live -= b->rounded;
    leave(p, b);
    mt_send_free(&base->core, live);
}

static void async_poll(mt_policy *base) {
    uint64_t used;
    look((async *)base, &used, NULL);
}

static void async_trim(mt_policy *base) {
    mt_source *s = base->core.source;
    s->pool_trim(s);
    async_poll(base);
}

static void async_refusal(const mt_policy *base, uint64_t bytes, uint32_t stream, uint64_t *segment,
                          uint64_t *largest) {
    (void)stream;
    *segment = async_roundup(base, bytes);
    *largest = 0;
}

const mt_policy_ops mt_policy_async = {
    .traits = { .name = "async",
                .syntax = "async",
                .help = "the CUDA driver's own pool (cudaMallocAsync); needs a real device",
                .device_pool = true,
                .hidden = true },
    .size = sizeof(async),
    .open = async_open,
    .close = async_close,
    .roundup = async_roundup,
    .get = async_get,
    .put = async_put,
    .trim = async_trim,
    .poll = async_poll,
    .refusal = async_refusal,
};
