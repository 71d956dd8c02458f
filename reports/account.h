/* account.h - what a device holds at one moment, accounted for to the byte.
 *
 *     reserved = requested + rounding + split + cached
 *
 * A block whose free waits for another stream is live. The gap between reserved and requested is
 * split further by what would close it, and by who may use what is free. */
#ifndef MT_REPORTS_ACCOUNT_H
#define MT_REPORTS_ACCOUNT_H

#include "traces/heap.h"

typedef struct mt_share {
    uint64_t reserved, requested, rounding, split, cached;
    uint64_t pending; /* of requested + rounding: blocks that wait for another stream */
    uint64_t largest; /* free block */
    uint64_t segments, blocks, live; /* counts; blocks of every state, live: not free */
} mt_share;

/* What is free for one kind of request only: a row for each pool and stream. */
typedef struct mt_account_row {
    uint64_t stream;
    uint32_t pool; /* private pool: number in the snapshot's pools; 0: the default one */
    bool large;
    mt_share share;
} mt_account_row;

/* A segment that live blocks keep from being given back. */
typedef struct mt_pinned {
    uint32_t segment;             /* in the view */
    uint32_t live;                /* blocks */
    uint32_t holder;              /* the largest live one, in the view's blocks */
    uint64_t free, largest, held; /* bytes: free, of the largest free block, live */
} mt_pinned;

typedef struct mt_account {
    mt_share total;
    uint64_t allocated, active; /* PyTorch's: without and with pending blocks */
    uint64_t by_rule; /* of rounding: requests rounded to 512 bytes, or by power-of-2 divisions */
    uint64_t unsplit; /* of rounding: remainders too small to be kept as blocks */
    uint64_t unmappable; /* of split: whole free pages of expandable segments; empty_cache unmaps
                            them */
    uint64_t dormant;   /* inactive_split_bytes as PyTorch counts it: without expandable segments */
    bool requests_told; /* the file knows what live blocks were requested as; else requested is
                           the blocks' size */
    uint64_t untiled;   /* segments whose blocks do not add up to them */
    MT_ARRAY(mt_account_row) rows; /* by reserved, the largest first */
    MT_ARRAY(mt_pinned) pinned;    /* by free, the largest first */
} mt_account;

/* rules: how a request is rounded. */
mt_status mt_account_make(mt_account *out, const mt_view *v, const mt_alloc *rules, mt_error *err);
void mt_account_free(mt_account *a);

/* The three figures that are called fragmentation, each from 0 (none) to 1:
 *
 *     idle       1 - active / reserved: the part of what is held that holds nothing
 *     captive    split / reserved: the part that cannot be given back, beside live blocks
 *     scattered  1 - largest free block / free bytes: in how many pieces the rest is */
typedef struct mt_figures {
    double idle, captive, scattered;
} mt_figures;
mt_figures mt_account_figures(const mt_account *a);

#endif
