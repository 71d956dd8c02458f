/* torch_calls.c - see torch_calls.h. */
#include "traces/torch_calls.h"

#include <stdbool.h>
#include <stdlib.h>

/* Whether the last call is of the same kind and ends where this one begins. */
static bool continues(const mt_calls *c, char op, uint32_t segment, uint64_t offset) {
    if (c->n == 0 || (op != 'P' && op != 'U'))
        return false;
    const mt_call *last = &c->call[c->n - 1];
    return last->op == op && last->segment == segment && last->offset + last->bytes == offset;
}

void mt_calls_add(void *context, char op, uint32_t segment, uint64_t offset, uint64_t bytes) {
    mt_calls *c = context;
    if (continues(c, op, segment, offset)) {
        c->call[c->n - 1].bytes += bytes;
        return;
    }
    if (c->n == c->room) {
        size_t room = 2 * c->room + 16;
        mt_call *call = realloc(c->call, room * sizeof *call);
        if (call == NULL)
            return;
        c->call = call;
        c->room = room;
    }
    c->call[c->n++] = (mt_call){ op, segment, offset, bytes };
}

void mt_calls_free(mt_calls *c) {
    free(c->call);
    *c = (mt_calls){ 0 };
}
