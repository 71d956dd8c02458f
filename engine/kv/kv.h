/* kv.h - the KV cache, as strategies that differ only in when they ask for memory.
 *
 * With row = width x bytes per element, B sequences, L layers:
 *
 *     concat        per layer and step: new K, free old K, new V, free old V     2 L B ctx row
 *     concat-tuple  the same, old tensors freed together at the end of the step  2 L B ctx row
 *     static        K and V of B C row per layer at its first update, C = --ctx  2 L B C row
 *     doubling[:N]  K and V, one block each for all layers, capacity N (256),
 *                   doubled when the next row does not fit                       2 L B capacity row
 *     paged:N       a page of 2 N row per layer when a sequence needs one        2 L B pages N row
 *     none          no cache: K and V are read from each pass's own qkv          0
 *
 * The last column is the bytes tagged kv at the end of a step; pages = ceil(ctx / N). paged also
 * keeps a table of its pages in device memory (tag other). A strategy is one file: a struct that
 * begins with mt_kv and a table. */
#ifndef MT_ENGINE_KV_KV_H
#define MT_ENGINE_KV_KV_H

#include "alloc/alloc.h"
#include "engine/config.h"
#include "kernels/device.h"

#define MT_KV_MOST (1 << 20) /* the largest N */

typedef struct mt_kv mt_kv;

typedef struct mt_kv_ops {
    const char *name;

    /* Opens the strategy; argument is the text after ':' (NULL if none). No device memory yet. */
    mt_status (*open)(mt_kv **out, const char *argument, mt_error *err);

    /* Makes room in a layer for T new tokens of each sequence, which will stand at places first
     * .. first + T - 1, keeping what is there, and says where everything lies. qkv: the pass's own
     * buffer, for none. */
    mt_status (*layer)(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, float *qkv,
                       mt_kv_view *view, mt_error *err);

    void (*end)(mt_kv *kv);                           /* a step ended; NULL: nothing to do */
    uint64_t (*bytes)(const mt_kv *kv, uint64_t ctx); /* expected kv bytes at the end of a step */
    void (*close)(mt_kv *kv);                         /* frees memory and kv */
    bool again; /* rows stay at their places: a step can be done again over its own */
} mt_kv_ops;

struct mt_kv {
    const mt_kv_ops *ops;
    mt_alloc *alloc;
    mt_device *device;
    uint32_t layers, batch, width, ctx; /* ctx: the longest this run will reach */
    uint64_t row;                       /* bytes of one token's keys in one layer */
    bool reads_pass;                    /* none: nothing is written to a cache */
    char name[32];                      /* "paged:16" */
};

/* Opens the strategy that spec names ("concat", "paged:16", ...). */
mt_status mt_kv_open(mt_kv **out, const char *spec, const mt_config *c, uint32_t batch,
                     uint32_t ctx, mt_alloc *alloc, mt_device *device, mt_error *err);

/* Whether a checked spec's strategy allows a step to be done again; see again. */
bool mt_kv_again(const char *spec);

/* Checks a spec without opening anything. */
mt_status mt_kv_check(const char *spec, mt_error *err);

/* Where keys and values of one token lie, from a view (host pointers of a contiguous view, or the
 * pages' own; only for devices whose memory this program can read). */
void mt_kv_token(const mt_kv_view *v, uint32_t sequence, uint32_t token, uint32_t width, float **k,
                 float **value);

extern const mt_kv_ops mt_kv_concat, mt_kv_concat_tuple, mt_kv_static, mt_kv_doubling, mt_kv_paged,
    mt_kv_none;

#endif
