/* none.c - the back end of a dry run: kernels that do nothing.
 *
 * No buffer on the device is read or written, so addresses need not be memory at all. copy_out is
 * the one call with an effect: it writes zeros to the host's buffer, so that what a caller reads
 * back is defined. */
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"

static void none_copy_in(mt_device *d, void *dst, const void *host, size_t bytes) {
    (void)d, (void)dst, (void)host, (void)bytes;
}

static void none_copy_out(mt_device *d, void *host, const void *src, size_t bytes) {
    (void)d, (void)src;
    if (bytes > 0)
        memset(host, 0, bytes);
}

static void none_copy_rows(mt_device *d, void *dst, size_t dst_pitch, const void *src,
                           size_t src_pitch, size_t bytes, size_t rows) {
    (void)d, (void)dst, (void)dst_pitch, (void)src, (void)src_pitch, (void)bytes, (void)rows;
}

static void none_zero(mt_device *d, void *dst, size_t bytes) {
    (void)d, (void)dst, (void)bytes;
}

static void none_embed(mt_device *d, float *out, const int32_t *ids, const float *wte,
                       const float *wpe, uint32_t B, uint32_t T, uint32_t first, uint32_t C,
                       uint32_t vocab) {
    (void)d, (void)out, (void)ids, (void)wte, (void)wpe;
    (void)B, (void)T, (void)first, (void)C, (void)vocab;
}

static void none_layernorm(mt_device *d, float *out, const float *x, size_t stride, const float *w,
                           const float *b, uint32_t R, uint32_t C, float epsilon) {
    (void)d, (void)out, (void)x, (void)stride, (void)w, (void)b;
    (void)R, (void)C, (void)epsilon;
}

static void none_linear(mt_device *d, float *out, const float *x, const float *W, const float *b,
                        uint32_t R, uint32_t N, uint32_t K, mt_epilogue epilogue) {
    (void)d, (void)out, (void)x, (void)W, (void)b;
    (void)R, (void)N, (void)K, (void)epilogue;
}

static void none_kv_write(mt_device *d, const mt_kv_view *kv, const float *qkv, uint32_t B,
                          uint32_t T, uint32_t first, uint32_t C) {
    (void)d, (void)kv, (void)qkv, (void)B, (void)T, (void)first, (void)C;
}

static void none_attention(mt_device *d, float *out, const float *qkv, const mt_kv_view *kv,
                           uint32_t B, uint32_t T, uint32_t first, uint32_t H, uint32_t D,
                           float *scratch) {
    (void)d, (void)out, (void)qkv, (void)kv, (void)scratch;
    (void)B, (void)T, (void)first, (void)H, (void)D;
}

static void none_argmax(mt_device *d, int32_t *ids, const float *logits, uint32_t R, uint32_t V) {
    (void)d, (void)ids, (void)logits, (void)R, (void)V;
}

static void none_read(mt_device *d, const float *x, size_t n) {
    (void)d, (void)x, (void)n;
}

static void none_nothing(mt_device *d) {
    (void)d;
}

static mt_status none_sync(mt_device *d, mt_error *err) {
    (void)d, (void)err;
    return MT_OK;
}

static void none_close(mt_device *d) {
    free(d);
}

mt_status mt_device_none(mt_device **out, mt_error *err) {
    static const mt_device table = {
        .name = "none",
        .computes = false,
        .description = "none: a dry run, nothing is computed",
        .copy_in = none_copy_in,
        .copy_out = none_copy_out,
        .copy_rows = none_copy_rows,
        .zero = none_zero,
        .embed = none_embed,
        .layernorm = none_layernorm,
        .linear = none_linear,
        .kv_write = none_kv_write,
        .attention = none_attention,
        .argmax = none_argmax,
        .sync = none_sync,
        .close = none_close,
        .read = none_read,
        .nothing = none_nothing,
    };
    mt_device *d = malloc(sizeof *d);
    if (d == NULL)
        return mt_no_memory(err, "a device");
    *d = table;
    *out = d;
    return MT_OK;
}
