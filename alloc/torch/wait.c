/* wait.c - blocks that other streams use: a free waits until those streams are done.
 *
 * Each use by another stream is noted with the block. When the block is freed, one wait per such
 * stream joins the queue; waits that are over are taken off at the next request, stream by stream
 * in the order of PyTorch's table (torch_streams.h), and the free completes with the last of
 * them. */
#include "alloc/torch/internal.h"

#include <stdlib.h>

/* Room for one more entry; false when there is no memory. */
static bool grow(void **array, uint32_t count, uint32_t *room, size_t size) {
    if (count < *room)
        return true;
    uint32_t more = *room == 0 ? 64 : 2 * *room;
    void *a = realloc(*array, more * size);
    if (a == NULL)
        return false;
    *array = a;
    *room = more;
    return true;
}

void torch_use_block(mt_policy *base, void *block, uint32_t stream) {
    torch *t = (torch *)base;
    mt_block *b = block;
    if (stream == b->stream)
        return;
    for (uint32_t u = b->users; u != 0; u = t->uses[u].next)
        if (t->uses[u].stream == stream)
            return;
    uint32_t u = t->free_use;
    if (u != 0)
        t->free_use = t->uses[u].next;
    else if (grow((void **)&t->uses, t->use_count, &t->use_room, sizeof *t->uses))
        u = t->use_count++;
    else
        return;
    t->uses[u] = (torch_use){ stream, b->users };
    b->users = u;
}

/* Turns the list of a block's uses around: the latest stands first, and they are wanted in the
 * order in which they were made. */
static uint32_t reversed(torch *t, uint32_t u) {
    uint32_t turned = 0;
    while (u != 0) {
        uint32_t next = t->uses[u].next;
        t->uses[u].next = turned;
        turned = u;
        u = next;
    }
    return turned;
}

/* The uses of a block, as a table in the order in which they were made. */
static void take_uses(torch *t, uint32_t u, torch_streams *to) {
    for (u = reversed(t, u); u != 0;) {
        uint32_t next = t->uses[u].next;
        torch_streams_add(to, t->uses[u].stream);
        t->uses[u].next = t->free_use;
        t->free_use = u;
        u = next;
    }
}

/* Puts one wait per using stream into the queue and forgets the uses. */
void torch_wait_for_users(torch *t, mt_block *b) {
    torch_streams users = { 0 };
    take_uses(t, b->users, &users);
    b->users = 0;
    for (uint32_t i = 0; i < users.room; i++) {
        uint32_t stream = users.slot[i].stream;
        if (users.slot[i].distance >= 0 && torch_streams_add(&t->waiting, stream) &&
            grow((void **)&t->waits, t->wait_count, &t->wait_room, sizeof *t->waits)) {
            t->waits[t->wait_count++] = (torch_wait){ b, stream };
            b->events++;
        }
    }
    torch_streams_free(&users);
    if (b->events == 0)
        torch_complete_free(t, b);
}

static void finish_stream(torch *t, uint32_t stream) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->wait_count; i++) {
        torch_wait w = t->waits[i];
        if (w.stream != stream)
            t->waits[kept++] = w;
        else if (--w.block->events == 0)
            torch_complete_free(t, w.block);
    }
    t->wait_count = kept;
}

void torch_process_waits(torch *t, bool wait) {
    if (t->held && !wait)
        return;
    for (uint32_t i = 0; i < t->waiting.room && t->wait_count > 0; i++)
        if (t->waiting.slot[i].distance >= 0)
            finish_stream(t, t->waiting.slot[i].stream);
    torch_streams_clear(&t->waiting);
}
