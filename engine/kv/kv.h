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
 * begins with mt_kv and a table, which says all that is special about it; nobody asks for its
 * name. */
#ifndef MT_ENGINE_KV_KV_H
#define MT_ENGINE_KV_KV_H

#include "alloc/alloc.h"
#include "engine/config.h"
#include "kernels/device.h"

#define MT_KV_MOST (1 << 20) /* the largest N */

typedef struct mt_kv mt_kv;

typedef struct mt_kv_traits {
    const char *name;
    const char *syntax; /* with its argument: "paged:N" */
    const char *help;   /* one line */
    bool takes;         /* an N, tokens, after a colon */
    uint32_t standard;  /* N where none is given; 0: it must be */
    bool uncached;     /* a pass computes all tokens and reads the keys and values of its own qkv */
    bool repeats;      /* rows stay at their places: a step can be repeated over its own */
    bool stays;        /* nothing moves but at a growth: a step can be recorded and replayed */
    bool sized_by_ctx; /* a request's size depends on the longest context of the run */
} mt_kv_traits;

typedef struct mt_kv_ops {
    mt_kv_traits traits;
    size_t size; /* of the strategy's struct */

    /* Makes room in a layer for T new tokens of each sequence, which will stand at places first
     * .. first + T - 1, keeping what is there, and says where everything lies. */
    mt_status (*room)(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, mt_kv_view *view,
                      mt_error *err);

    uint64_t (*bytes)(const mt_kv *kv, uint64_t ctx); /* expected kv bytes at the end of a step */

    /* ---- NULL where there is nothing special ---- */

    /* Puts the keys and values of the pass's qkv there; NULL: the device writes them. */
    mt_status (*write)(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, const float *qkv,
                       mt_kv_view *view, mt_error *err);
    /* Where the first of T tokens stands, as the cache tells it; NULL: after the earlier ones. */
    uint32_t (*position)(const mt_kv *kv, uint32_t first, uint32_t T);
    /* Tokens that a cache of so many has room for before all of it moves to a larger place; NULL:
     * it never moves at once. */
    uint64_t (*capacity)(const mt_kv *kv, uint64_t tokens);
    void (*end)(mt_kv *kv);   /* a step ended */
    void (*close)(mt_kv *kv); /* gives back what the strategy took */
} mt_kv_ops;

struct mt_kv {
    const mt_kv_ops *ops;
    mt_kv_traits traits;
    mt_alloc *alloc;
    mt_device *device;
    uint32_t layers, batch, width, ctx; /* ctx: the longest this run will reach */
    uint64_t row;                       /* bytes of one token's keys in one layer */
    uint64_t n;                         /* the argument, or what holds without one */
};

/* Opens the strategy that spec names ("concat", "paged:16", ...). Takes no device memory yet. */
mt_status mt_kv_open(mt_kv **out, const char *spec, const mt_config *c, uint32_t batch,
                     uint32_t ctx, mt_alloc *alloc, mt_device *device, mt_error *err);

void mt_kv_close(mt_kv *kv); /* frees memory and kv; NULL is allowed */

/* Puts another strategy in front of an open one: *kv becomes the new one, which closes the old.
 * Leaves it on failure. */
typedef mt_status mt_kv_wrap(mt_kv **kv, const void *context, mt_error *err);

/* Makes room in a layer for T new tokens of each sequence, at places from `first` on, writes the
 * keys and values of qkv[B T, 3 width] there and says where those of all tokens lie. */
mt_status mt_kv_update(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, const float *qkv,
                       mt_kv_view *view, mt_error *err);

/* The second half of it, in a view that has room. */
mt_status mt_kv_write(mt_kv *kv, uint32_t layer, uint32_t first, uint32_t T, const float *qkv,
                      mt_kv_view *view, mt_error *err);

/* The position of the first of T new tokens that follow `first` earlier ones. */
uint32_t mt_kv_position(const mt_kv *kv, uint32_t first, uint32_t T);

void mt_kv_end(mt_kv *kv); /* a step ended */

/* Checks a spec without opening anything. */
mt_status mt_kv_check(const char *spec, mt_error *err);

/* The traits of a spec's strategy, whatever its argument; NULL: there is none of that name. */
const mt_kv_traits *mt_kv_find(const char *spec);

/* Strategy i of the list; NULL after the last. */
const mt_kv_traits *mt_kv_nth(size_t i);

/* The largest context that a checked spec's cache reaches, once it holds a prompt of P tokens,
 * before all of it moves to a larger place; 0: it never moves at once. */
uint64_t mt_kv_capacity(const char *spec, uint64_t P);

/* Where keys and values of one token lie, from a view (host pointers of a contiguous view, or the
 * pages' own; only for devices whose memory this program can read). */
void mt_kv_token(const mt_kv_view *v, uint32_t sequence, uint32_t token, uint32_t width, float **k,
                 float **value);

extern const mt_kv_ops mt_kv_concat, mt_kv_concat_tuple, mt_kv_static, mt_kv_doubling, mt_kv_paged,
    mt_kv_none;

#endif
