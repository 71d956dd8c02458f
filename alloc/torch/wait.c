/* wait.c - blocks that other streams use: a free waits until those streams are done.
 *
 * Each other stream that uses a block stands in a table of the block's. When the block is freed,
 * one wait per such stream joins that stream's list; at the next request the waits are over, stream
 * by stream in the order of the table of waiting streams, and the free completes with the last of
 * them. The order of both tables is PyTorch's (streams.h). */
#include "alloc/torch/internal.h"

static void no_memory(torch *t) {
    mt_core_failed(&t->base.core, "the streams that use a block");
}

/* The streams that use a block; NULL without memory. */
static torch_streams *users_of(torch *t, mt_block *b) {
    if (b->users != 0)
        return &t->users.at[b->users];
    if (t->free_users != 0) {
        b->users = t->free_users;
        t->free_users = t->users.at[b->users].next;
    } else {
        if (t->users.count > UINT32_MAX || mt_array_push(&t->users) == NULL)
            return NULL;
        b->users = (uint32_t)(t->users.count - 1);
    }
    t->users.at[b->users] = (torch_streams){ 0 };
    return &t->users.at[b->users];
}

void torch_use_block(mt_policy *base, void *block, uint32_t stream) {
    torch *t = (torch *)base;
    mt_block *b = block;
    if (stream == b->stream)
        return;
    torch_streams *users = users_of(t, b);
    if (users == NULL || torch_streams_add(users, stream) == NULL)
        no_memory(t);
}

/* One wait at the end of its stream's list; false without memory. */
static bool add_wait(torch *t, mt_block *b, uint32_t stream) {
    torch_slot *s = torch_streams_add(&t->waiting, stream);
    if (s == NULL || t->waits.count > UINT32_MAX || mt_array_push(&t->waits) == NULL)
        return false;
    uint32_t w = (uint32_t)(t->waits.count - 1);
    t->waits.at[w] = (torch_wait){ .block = b };
    if (s->first == 0)
        s->first = w;
    else
        t->waits.at[s->last].next = w;
    s->last = w;
    b->events++;
    return true;
}

void torch_wait_for_users(torch *t, mt_block *b) {
    torch_streams *users = &t->users.at[b->users];
    for (uint32_t i = 0; i < users->room; i++)
        if (users->slot[i].distance >= 0 && !add_wait(t, b, users->slot[i].stream))
            no_memory(t);
    torch_streams_free(users);
    users->next = t->free_users;
    t->free_users = b->users;
    b->users = 0;
    if (b->events == 0)
        torch_complete_free(t, b);
}

void torch_process_waits(torch *t, bool wait) {
    if (t->waiting.count == 0 || (t->held && !wait))
        return;
    for (uint32_t i = 0; i < t->waiting.room; i++) {
        const torch_slot *s = &t->waiting.slot[i];
        for (uint32_t w = s->distance >= 0 ? s->first : 0; w != 0; w = t->waits.at[w].next)
            if (--t->waits.at[w].block->events == 0)
                torch_complete_free(t, t->waits.at[w].block);
    }
    torch_streams_clear(&t->waiting);
    t->waits.count = 1;
}
