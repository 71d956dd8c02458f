/* policy_direct.c - one segment per request.
 *
 * A request is rounded up to a multiple of SIZE (4 KiB) and gets a segment of exactly that many
 * bytes; a free gives it back at once. Nothing is split, nothing is cached: reserved = requested +
 * rounding always. The price is a call to the source for every request and every free. */
#include "alloc/internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"

typedef struct direct {
    mt_policy base;
    uint64_t unit;
} direct;

static mt_status direct_open(mt_policy *base, char *options, mt_error *err) {
    direct *p = (direct *)base;
    uint64_t unit = 4 * MT_KIB;
    if (*options != '\0' && (!mt_parse_size(options, &unit) || unit == 0 ||
                             unit % (4 * MT_KIB) != 0 || unit > (uint64_t)1 << 50))
        return mt_fail(
            err, MT_BAD,
            "policy direct \"%.60s\": expected direct:SIZE, a multiple of 4KiB and at most "
            "1048576GiB",
            options);
    p->unit = unit;
    snprintf(p->base.description, sizeof p->base.description, "direct:%" PRIu64, unit);
    return MT_OK;
}

static uint64_t direct_roundup(const mt_policy *base, uint64_t bytes) {
    return mt_round_up(bytes, ((const direct *)base)->unit);
}

static mt_status direct_get(mt_policy *base, uint64_t bytes, uint32_t stream, uint32_t live,
                            mt_place *place, mt_error *err) {
    mt_block *b;
    MT_TRY(mt_core_take(&base->core, direct_roundup(base, bytes), MT_POOL_DIRECT, stream, &b, err));
    mt_block_serve(b, bytes, live, place);
    return MT_OK;
}

static void direct_put(mt_policy *base, void *block) {
    mt_block *b = block;
    b->used = false;
    mt_send_free(&base->core, b->live);
    mt_core_give(&base->core, b);
}

static void direct_refusal(const mt_policy *base, uint64_t bytes, uint32_t stream,
                           uint64_t *segment, uint64_t *largest) {
    (void)stream;
    *segment = direct_roundup(base, bytes);
    *largest = 0;
}

const mt_policy_ops mt_policy_direct = {
    .traits = { .name = "direct",
                .syntax = "direct[:SIZE]",
                .help = "one segment per request, rounded up to SIZE",
                .colon = true },
    .size = sizeof(direct),
    .open = direct_open,
    .roundup = direct_roundup,
    .get = direct_get,
    .put = direct_put,
    .refusal = direct_refusal,
};
