/* simd_portable.c - the inner loops for any processor: 4 lanes, by the vector types of GCC and
 * Clang, which become SSE2, NEON or plain scalars. a b + c is rounded twice here: C11 mode does not
 * contract it. */
#include "kernels/cpu/simd.h"

#include <string.h>

#define TARGET
#define VOCAB   static inline __attribute__((always_inline))
#define LANES   4
#define ROWS    2
#define COLUMNS 8

typedef float vec __attribute__((vector_size(16)));
typedef uint32_t bits __attribute__((vector_size(16)));

VOCAB vec v_load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
VOCAB vec v_load_n(const float *p, size_t n) {
    return (vec){ n > 0 ? p[0] : 0, n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, 0 };
}
VOCAB void v_store(float *p, vec v) {
    memcpy(p, &v, sizeof v);
}
VOCAB void v_store_n(float *p, vec v, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = v[i];
}
VOCAB vec v_first(vec v, size_t n) {
    return (vec){ n > 0 ? v[0] : 0, n > 1 ? v[1] : 0, n > 2 ? v[2] : 0, 0 };
}
VOCAB vec v_set(float x) {
    return (vec){ x, x, x, x };
}
VOCAB vec v_add(vec a, vec b) {
    return a + b;
}
VOCAB vec v_sub(vec a, vec b) {
    return a - b;
}
VOCAB vec v_mul(vec a, vec b) {
    return a * b;
}
VOCAB vec v_div(vec a, vec b) {
    return a / b;
}
VOCAB vec v_fma(vec a, vec b, vec c) {
    return a * b + c;
}
VOCAB vec v_max(vec a, vec b) {
    bits larger = (bits)(a > b);
    return (vec)((larger & (bits)a) | (~larger & (bits)b));
}
VOCAB vec v_zero_below(vec v, vec x, vec y) {
    return (vec)(~(bits)(x < y) & (bits)v);
}
VOCAB vec v_pow2(vec z) {
    return (vec)(((bits)z << 23) + (127u << 23));
}
VOCAB float v_lane0(vec v) {
    return v[0];
}
VOCAB float v_sum(vec v) {
    return (v[0] + v[2]) + (v[1] + v[3]);
}
VOCAB float v_top(vec v) {
    float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
}
VOCAB void v_sum4(float *out, vec a, vec b, vec c, vec d) {
    out[0] = v_sum(a);
    out[1] = v_sum(b);
    out[2] = v_sum(c);
    out[3] = v_sum(d);
}

#include "kernels/cpu/simd_body.h"

const mt_simd mt_simd_portable = MT_SIMD_TABLE("portable");
