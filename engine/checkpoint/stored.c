/* stored.c - see stored.h.
 *
 * Rows that lie in order are converted in long chunks. A transposed tensor is turned tile by tile:
 * a tile is converted into a small buffer row by row of the file, then written out row by row of
 * the result, so that both sides are walked along their cache lines. Threads share the chunks or
 * strips of tiles; each writes elements of its own. */
#include "engine/checkpoint/stored.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files and memory are little-endian");

enum {
    CHUNK = 1 << 16, /* elements a thread converts at a time */
    PIECE = 256,     /* 16-bit elements brought to alignment at a time */
    TILE = 64,       /* rows and columns of a tile: 16 KiB of fp32 */
    SMALL = 1 << 17  /* elements below which one thread does it all */
};

/* ---- widening -------------------------------------------------------------------------------- */

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The exponent's bias grows from 15 to 127; infinity and NaN go to the new highest exponent, and
 * subnormals, multiples of 2^-24, become normal numbers. */
static float from_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exponent = h & 0x7c00;
    const uint32_t normal = ((uint32_t)(h & 0x7fff) << 13) + ((127u - 15u) << 23);
    const uint32_t highest = normal + ((255u - 31u - 112u) << 23);
    const uint32_t subnormal = bits_of((float)(h & 0x3ff) * 0x1p-24f);
    return float_of(sign | (exponent == 0 ? subnormal : exponent == 0x7c00 ? highest : normal));
}

static void widen_piece(float *dst, const unsigned char *src, mt_dtype dtype, size_t n) {
    uint16_t half[PIECE];
    memcpy(half, src, n * sizeof *half);
    if (dtype == MT_BF16)
        for (size_t i = 0; i < n; i++)
            dst[i] = float_of((uint32_t)half[i] << 16);
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = from_f16(half[i]);
}

static void widen(float *dst, const unsigned char *src, mt_dtype dtype, size_t n) {
    if (dtype == MT_F32) {
        memcpy(dst, src, n * sizeof *dst);
        return;
    }
    for (size_t i = 0; i < n; i += PIECE)
        widen_piece(dst + i, src + 2 * i, dtype, n - i < PIECE ? n - i : PIECE);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Parts of so many that n elements make. */
static size_t parts(uint64_t n, uint64_t of) {
    return (size_t)((n + of - 1) / of);
}

/* A read of rows from `first` on. */
typedef struct reading {
    const mt_stored *s;
    uint64_t first, rows;
    float *dst;
} reading;

/* The bytes of row `first` where rows lie in order. */
static const unsigned char *row_data(const mt_stored *s, uint64_t first) {
    return s->data + first * s->cols * mt_dtype_bytes(s->dtype);
}

static void read_chunk(void *context, size_t i) {
    const reading *r = context;
    const uint64_t at = (uint64_t)i * CHUNK, total = r->rows * r->s->cols;
    widen(r->dst + at, row_data(r->s, r->first) + at * mt_dtype_bytes(r->s->dtype), r->s->dtype,
          least(CHUNK, total - at));
}

/* Writes the tile whose first element is (row, col) of the tensor to dst, tile_rows x tile_cols
 * elements of a matrix with s->cols columns. */
static void turn_tile(const mt_stored *s, uint64_t row, uint64_t col, uint64_t tile_rows,
                      uint64_t tile_cols, float *dst) {
    float tile[TILE][TILE + 1]; /* one more, so that a column does not fall on few cache sets */
    const uint64_t bytes = mt_dtype_bytes(s->dtype);
    for (uint64_t c = 0; c < tile_cols; c++)
        widen(tile[c], s->data + ((col + c) * s->rows + row) * bytes, s->dtype, tile_rows);
    for (uint64_t r = 0; r < tile_rows; r++)
        for (uint64_t c = 0; c < tile_cols; c++)
            dst[r * s->cols + c] = tile[c][r];
}

/* A strip of tiles: TILE rows of the result, all their columns. */
static void turn_strip(void *context, size_t i) {
    const reading *r = context;
    const mt_stored *s = r->s;
    const uint64_t row = (uint64_t)i * TILE;
    for (uint64_t col = 0; col < s->cols; col += TILE)
        turn_tile(s, r->first + row, col, least(TILE, r->rows - row), least(TILE, s->cols - col),
                  r->dst + row * s->cols + col);
}

void mt_stored_read(const mt_stored *s, uint64_t first, uint64_t rows, float *dst,
                    mt_threads *pool) {
    reading r = { s, first, rows, dst };
    const uint64_t total = rows * s->cols;
    mt_threads *helpers = total < SMALL ? NULL : pool;
    if (s->transposed)
        mt_threads_run(helpers, turn_strip, &r, parts(rows, TILE));
    else
        mt_threads_run(helpers, read_chunk, &r, parts(total, CHUNK));
}

void mt_stored_drop(const mt_stored *s, const mt_mapped *file, uint64_t first, uint64_t rows) {
    const uint64_t row_bytes = s->cols * mt_dtype_bytes(s->dtype);
    if (!s->transposed)
        mt_mapped_drop(file, row_data(s, first), rows * row_bytes);
    else if (first + rows == s->rows)
        mt_mapped_drop(file, s->data, s->rows * row_bytes);
}
