/* embed.cu - the residual stream's first value: a token's row of wte and its place's row of wpe.
 * A block does one row. */
#include "kernels/cuda/state.h"

/* An id outside the vocabulary is noted (the lowest row of all) and read as 0, so that nothing
 * outside wte is touched. */
static __global__ void embed_rows(float *out, const int32_t *ids, const float *wte,
                                  const float *wpe, uint32_t T, mt_where first, uint32_t C,
                                  uint32_t vocab, uint32_t *bad_row) {
    uint32_t r = blockIdx.x, id = (uint32_t)ids[r];
    if (id >= vocab) {
        if (threadIdx.x == 0)
            for (uint32_t seen = 0; seen == 0 || seen > r + 1;) {
                uint32_t was = atomicCAS(bad_row, seen, r + 1);
                if (was == seen)
                    break;
                seen = was;
            }
        id = 0;
    }
    const float *token = wte + (size_t)id * C;
    const float *place = wpe + ((size_t)mt_read_place(first) + r % T) * C;
    for (uint32_t i = threadIdx.x; i < C; i += blockDim.x)
        out[(size_t)r * C + i] = token[i] + place[i];
}

void mt_cuda_embed(mt_device *d, float *out, const int32_t *ids, const float *wte, const float *wpe,
                   uint32_t B, uint32_t T, uint32_t first, uint32_t C, uint32_t vocab) {
    mt_cuda *c = (mt_cuda *)d;
    if (mt_cuda_failed(c) || B == 0 || T == 0)
        return;
    MT_LAUNCH(embed_rows, B * T, mt_cuda_block(c), 0, c->stream, out, ids, wte, wpe, T,
              mt_cuda_where(c, first), C, vocab, c->bad_row);
    MT_LAUNCHED(c, "embed_rows");
}
