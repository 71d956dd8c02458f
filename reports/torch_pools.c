/* torch_pools.c - see torch_pools.h. */
#include "reports/torch_pools.h"

#include <inttypes.h>

#define AROUND   8
#define SEGMENTS 12

static void print_free(FILE *out, const torch_pool *p, uint32_t stream, uint64_t bytes) {
    mt_block *at = mt_index_at_least(&p->free, stream, bytes), *first = at;
    if (first == NULL)
        first = mt_index_last(&p->free);
    for (int i = 0; i < AROUND && first != NULL && mt_index_prev(first) != NULL; i++)
        first = mt_index_prev(first);
    fprintf(out, "  free, in order of search (stream size segment+offset), %" PRIu64 " in all:\n",
            p->free.count);
    mt_block *b = first;
    for (int i = 0; i < 2 * AROUND && b != NULL; i++, b = mt_index_next(b))
        fprintf(out, "    %s %u %" PRIu64 " %u+%" PRIu64 "\n", b == at ? "->" : "  ", b->stream,
                b->size, b->segment->number, b->offset);
}

static void print_segments(FILE *out, const torch *t, uint8_t pool) {
    int shown = 0, more = 0;
    for (const mt_segment *s = t->base.core.last; s != NULL; s = s->prev) {
        uint64_t live = 0, blocks = 0;
        if (s->pool != pool)
            continue;
        if (shown++ >= SEGMENTS) {
            more++;
            continue;
        }
        for (const mt_block *b = s->first; b != NULL; b = b->next) {
            live += b->used ? b->size : 0;
            blocks += b->used;
        }
        fprintf(out,
                "    segment %u, stream %u: %" PRIu64 " bytes mapped, %" PRIu64 " live in %" PRIu64
                " blocks\n",
                s->number, s->stream, s->mapped, live, blocks);
    }
    if (more > 0)
        fprintf(out, "    and %d older segments\n", more);
}

void mt_torch_pools_print(FILE *out, const torch *t, uint32_t stream, uint64_t bytes) {
    const torch_pool *pools[2] = { &t->small, &t->large };
    for (int i = 0; i < 2; i++) {
        fprintf(out, "  the %s pool, around stream %u and %" PRIu64 " bytes:\n",
                mt_pool_name((mt_pool)pools[i]->pool), stream, bytes);
        print_free(out, pools[i], stream, bytes);
        print_segments(out, t, pools[i]->pool);
    }
}
