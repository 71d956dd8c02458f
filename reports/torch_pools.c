/* torch_pools.c - see torch_pools.h. A walk gathers the free blocks and the segments. */
#include "reports/torch_pools.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"

#define AROUND   8
#define SEGMENTS 12

typedef struct free_block {
    uint64_t size, order, offset;
    uint32_t stream, segment;
} free_block;

typedef struct held {
    uint64_t mapped, live, blocks;
    uint32_t number, stream;
} held;

typedef struct pool {
    mt_pool which;
    MT_ARRAY(free_block) free;
    MT_ARRAY(held) segment;
} pool;

static mt_status note_segment(void *context, const mt_segment_info *s, mt_error *err) {
    pool *p = context;
    if (s->pool != p->which)
        return MT_OK;
    held *h = mt_array_push(&p->segment);
    if (h == NULL)
        return mt_no_memory(err, "a list of segments");
    *h = (held){ .mapped = s->mapped, .number = s->number, .stream = s->stream };
    return MT_OK;
}

static mt_status note_block(void *context, const mt_segment_info *s, const mt_block_info *b,
                            mt_error *err) {
    pool *p = context;
    if (s->pool != p->which || b->state == MT_BLOCK_UNMAPPED)
        return MT_OK;
    if (b->state != MT_BLOCK_FREE) {
        held *h = &p->segment.at[p->segment.count - 1];
        h->live += b->size;
        h->blocks++;
        return MT_OK;
    }
    free_block *f = mt_array_push(&p->free);
    if (f == NULL)
        return mt_no_memory(err, "a list of blocks");
    *f = (free_block){ b->size, b->order, b->offset, b->stream, s->number };
    return MT_OK;
}

static int by_search(const void *a, const void *b) {
    const free_block *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void print_free(FILE *out, const pool *p, uint32_t stream, uint64_t bytes) {
    const free_block wanted = { .stream = stream, .size = bytes };
    size_t at = 0;
    while (at < p->free.count && by_search(&p->free.at[at], &wanted) < 0)
        at++;
    size_t around = at < p->free.count ? at : p->free.count > 0 ? p->free.count - 1 : 0;
    size_t first = around > AROUND ? around - AROUND : 0;
    fprintf(out, "  free, in order of search (stream size segment+offset), %zu in all:\n",
            p->free.count);
    for (size_t i = first; i < first + 2 * AROUND && i < p->free.count; i++)
        fprintf(out, "    %s %u %" PRIu64 " %u+%" PRIu64 "\n", i == at ? "->" : "  ",
                p->free.at[i].stream, p->free.at[i].size, p->free.at[i].segment,
                p->free.at[i].offset);
}

static void print_segments(FILE *out, const pool *p) {
    size_t shown = p->segment.count < SEGMENTS ? p->segment.count : SEGMENTS;
    for (size_t i = 1; i <= shown; i++) {
        const held *s = &p->segment.at[p->segment.count - i];
        fprintf(out,
                "    segment %u, stream %u: %" PRIu64 " bytes mapped, %" PRIu64 " live in %" PRIu64
                " blocks\n",
                s->number, s->stream, s->mapped, s->live, s->blocks);
    }
    if (p->segment.count > shown)
        fprintf(out, "    and %zu older segments\n", p->segment.count - shown);
}

static void print_pool(FILE *out, const mt_alloc *a, mt_pool which, uint32_t stream,
                       uint64_t bytes) {
    pool p = { .which = which };
    const mt_visitor v = { note_segment, note_block, &p };
    mt_error err;
    fprintf(out, "  the %s pool, around stream %u and %" PRIu64 " bytes:\n", mt_pool_name(which),
            stream, bytes);
    if (mt_alloc_walk(a, &v, &err) == MT_OK) {
        if (p.free.count > 0)
            qsort(p.free.at, p.free.count, sizeof *p.free.at, by_search);
        print_free(out, &p, stream, bytes);
        print_segments(out, &p);
    } else {
        fprintf(out, "    %s\n", err.text);
    }
    mt_array_free(&p.free);
    mt_array_free(&p.segment);
}

void mt_torch_pools_print(FILE *out, const mt_alloc *a, uint32_t stream, uint64_t bytes) {
    print_pool(out, a, MT_POOL_SMALL, stream, bytes);
    print_pool(out, a, MT_POOL_LARGE, stream, bytes);
}
