/* calls.c - see calls.h. */
#include "traces/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

static bool pages(char op) {
    return op == 'P' || op == 'U';
}

/* Whether the call is of the same kind as the last one and begins where that ends. */
static bool continues(const mt_call *last, const mt_call *call) {
    return pages(call->op) && last->op == call->op && last->segment == call->segment &&
           last->offset + last->bytes == call->offset;
}

bool mt_calls_add(mt_calls *c, mt_call call) {
    if (c->count > 0 && continues(&c->at[c->count - 1], &call)) {
        c->at[c->count - 1].bytes += call.bytes;
        return true;
    }
    mt_call *more = mt_array_push(c);
    if (more != NULL)
        *more = call;
    return more != NULL;
}

bool mt_call_read(const char **text, mt_call *call) {
    uint64_t segment = 0;
    const char *at = *text;
    *call = (mt_call){ .op = *at++ };
    switch (call->op) {
    case 'P':
    case 'U':
        if (!mt_digits(&at, &segment) || *at++ != '+' || !mt_digits(&at, &call->offset) ||
            *at++ != ':' || !mt_digits(&at, &call->bytes))
            return false;
        break;
    case 'F':
    case 'A':
        if (!mt_digits(&at, &segment))
            return false;
        break;
    case 'M':
    case 'R':
    case 'X':
    case 'x':
        if (!mt_digits(&at, &call->bytes))
            return false;
        break;
    default:
        return false;
    }
    call->segment = (uint32_t)segment;
    *text = at;
    return segment <= UINT32_MAX;
}

char *mt_call_write(const mt_call *call, char buffer[64]) {
    if (call == NULL)
        strcpy(buffer, "none");
    else if (pages(call->op))
        snprintf(buffer, 64, "%c%u+%" PRIu64 ":%" PRIu64, call->op, call->segment, call->offset,
                 call->bytes);
    else if (call->op == 'F' || call->op == 'A')
        snprintf(buffer, 64, "%c%u", call->op, call->segment);
    else
        snprintf(buffer, 64, "%c%" PRIu64, call->op, call->bytes);
    return buffer;
}

bool mt_call_equal(const mt_call *a, const mt_call *b) {
    if (a->op != b->op)
        return false;
    if (a->op == 'F' || a->op == 'A')
        return a->segment == b->segment;
    return a->bytes == b->bytes &&
           (!pages(a->op) || (a->segment == b->segment && a->offset == b->offset));
}
