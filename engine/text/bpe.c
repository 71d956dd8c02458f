/* bpe.c - see bpe.h.
 *
 * A short piece is merged as the rule says, by scanning: its cost grows with the square of the
 * length. A long piece is a linked list of ids beside a heap of its pairs, ordered by rank, then
 * place. One round takes all pairs of the lowest rank off the heap before it merges any, because a
 * merge may form a pair of a still lower rank, which the rule does not look at before the round is
 * over. Each merge adds at most two pairs, so the whole costs n log n. */
#include "engine/text/bpe.h"

#include <stdlib.h>

#define SHORT_PIECE 48
#define NO_RANK     UINT32_MAX
#define NONE        SIZE_MAX

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct merge {
    uint32_t rank; /* NO_RANK: the pair has no merge */
    int32_t merged;
} merge;

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static merge merge_of(const mt_merges *m, int32_t left, int32_t right) {
    const uint64_t *value = mt_map_find(&m->of, pair_of(left, right));
    return value == NULL ? (merge){ NO_RANK, -1 }
                         : (merge){ (uint32_t)(*value >> 32), (int32_t)(uint32_t)*value };
}

bool mt_merges_has(const mt_merges *m, int32_t left, int32_t right) {
    return merge_of(m, left, right).rank != NO_RANK;
}

bool mt_merges_add(mt_merges *m, int32_t left, int32_t right, int32_t merged) {
    return mt_map_set(&m->of, pair_of(left, right), (uint64_t)m->of.count << 32 | (uint32_t)merged);
}

void mt_merges_free(mt_merges *m) {
    mt_map_free(&m->of);
}

/* ---- short pieces ---------------------------------------------------------------------------- */

/* Place of the pair of lowest rank in ids, NONE when none has a merge. */
static size_t lowest(const mt_merges *m, const int32_t *ids, size_t n) {
    size_t best = NONE;
    uint32_t rank = NO_RANK;
    for (size_t i = 0; i + 1 < n; i++) {
        merge e = merge_of(m, ids[i], ids[i + 1]);
        if (e.rank < rank) {
            rank = e.rank;
            best = i;
        }
    }
    return best;
}

/* Merges every occurrence of the pair from left to right; the new number of ids. */
static size_t merge_all(int32_t left, int32_t right, int32_t merged, int32_t *ids, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; kept++) {
        bool pair = i + 1 < n && ids[i] == left && ids[i + 1] == right;
        ids[kept] = pair ? merged : ids[i];
        i += pair ? 2 : 1;
    }
    return kept;
}

static size_t merge_short(const mt_merges *m, int32_t *ids, size_t n) {
    for (size_t i; (i = lowest(m, ids, n)) != NONE;) {
        int32_t left = ids[i], right = ids[i + 1];
        n = merge_all(left, right, merge_of(m, left, right).merged, ids, n);
    }
    return n;
}

/* ---- a heap of (rank, place) ----------------------------------------------------------------- */

#define PLACE_BITS 40 /* a rank has 24 bits: MT_MERGES_MAX */

static uint64_t pair_key(uint32_t rank, size_t place) {
    return (uint64_t)rank << PLACE_BITS | place;
}

static uint32_t key_rank(uint64_t key) {
    return (uint32_t)(key >> PLACE_BITS);
}

static size_t key_place(uint64_t key) {
    return (size_t)(key & (((uint64_t)1 << PLACE_BITS) - 1));
}

typedef struct heap {
    uint64_t *key; /* no key is less than that of its parent, (i - 1) / 2 */
    size_t count;
} heap;

static void heap_push(heap *h, uint64_t key) {
    size_t i = h->count++;
    while (i > 0 && h->key[(i - 1) / 2] > key) {
        h->key[i] = h->key[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->key[i] = key;
}

static uint64_t heap_pop(heap *h) {
    uint64_t least = h->key[0], last = h->key[--h->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && h->key[child + 1] < h->key[child])
            child++;
        if (h->key[child] >= last)
            break;
        h->key[i] = h->key[child];
    }
    h->key[i] = last;
    return least;
}

/* ---- long pieces ----------------------------------------------------------------------------- */

typedef struct node {
    size_t previous, next; /* places, NONE at the ends */
    int32_t id;
    uint32_t rank; /* of the pair that begins here; NO_RANK when it has no merge */
} node;

/* A piece while it is merged. A key of the heap is stale when its node's rank is another. */
typedef struct chain {
    const mt_merges *merges;
    node *node;    /* [n]; place 0 is always in the list */
    heap pairs;    /* [3 n]: n - 1 at first, and two more for each of up to n - 1 merges */
    size_t *round; /* [n] places of the pair being merged */
} chain;

static void chain_free(chain *c) {
    free(c->node);
    free(c->pairs.key);
    free(c->round);
}

/* Finds the rank of the pair that begins at a place, and puts it on the heap. */
static void rank_pair(chain *c, size_t place) {
    node *a = &c->node[place];
    a->rank = NO_RANK;
    if (a->next == NONE)
        return;
    a->rank = merge_of(c->merges, a->id, c->node[a->next].id).rank;
    if (a->rank != NO_RANK)
        heap_push(&c->pairs, pair_key(a->rank, place));
}

static bool chain_make(chain *c, const mt_merges *m, const int32_t *ids, size_t n) {
    *c = (chain){ .merges = m };
    if (n >= (size_t)1 << PLACE_BITS)
        return false;
    c->node = malloc(n * sizeof *c->node);
    c->pairs.key = malloc(3 * n * sizeof *c->pairs.key);
    c->round = malloc(n * sizeof *c->round);
    if (c->node == NULL || c->pairs.key == NULL || c->round == NULL) {
        chain_free(c);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        c->node[i] = (node){ i > 0 ? i - 1 : NONE, i + 1 < n ? i + 1 : NONE, ids[i], NO_RANK };
    for (size_t i = 0; i < n; i++)
        rank_pair(c, i);
    return true;
}

/* Merges the pair that begins at a place, and ranks the two pairs this forms. */
static void merge_at(chain *c, size_t place) {
    node *a = &c->node[place], *b = &c->node[a->next];
    a->id = merge_of(c->merges, a->id, b->id).merged;
    a->next = b->next;
    b->rank = NO_RANK;
    if (a->next != NONE)
        c->node[a->next].previous = place;
    if (a->previous != NONE)
        rank_pair(c, a->previous);
    rank_pair(c, place);
}

/* One round: every occurrence of the pair of lowest rank. */
static void merge_round(chain *c) {
    uint32_t rank = key_rank(c->pairs.key[0]);
    size_t count = 0;
    while (c->pairs.count > 0 && key_rank(c->pairs.key[0]) == rank) {
        size_t place = key_place(heap_pop(&c->pairs));
        if (c->node[place].rank == rank && (count == 0 || c->round[count - 1] != place))
            c->round[count++] = place;
    }
    for (size_t i = 0; i < count; i++)
        if (c->node[c->round[i]].rank == rank) /* no more, when it overlapped the one before */
            merge_at(c, c->round[i]);
}

static bool merge_long(const mt_merges *m, int32_t *ids, size_t *count) {
    chain c;
    if (!chain_make(&c, m, ids, *count))
        return false;
    while (c.pairs.count > 0)
        merge_round(&c);
    *count = 0;
    for (size_t i = 0; i != NONE; i = c.node[i].next)
        ids[(*count)++] = c.node[i].id;
    chain_free(&c);
    return true;
}

bool mt_merges_apply(const mt_merges *m, int32_t *ids, size_t *count) {
    if (*count > SHORT_PIECE)
        return merge_long(m, ids, count);
    *count = merge_short(m, ids, *count);
    return true;
}
