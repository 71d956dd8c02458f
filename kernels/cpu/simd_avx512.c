/* simd_avx512.c - the inner loops in AVX-512: 16 lanes, 32 registers, lanes masked by bits. */
#include "kernels/cpu/simd.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET  __attribute__((target("avx512f,avx2,fma")))
#define VOCAB   static inline __attribute__((always_inline)) TARGET
#define LANES   16
#define ROWS    4
#define COLUMNS 4

typedef __m512 vec;

VOCAB __mmask16 lanes(size_t n) {
    return (__mmask16)((1u << n) - 1);
}
VOCAB vec v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
VOCAB vec v_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(lanes(n), p);
}
VOCAB void v_store(float *p, vec v) {
    _mm512_storeu_ps(p, v);
}
VOCAB void v_store_n(float *p, vec v, size_t n) {
    _mm512_mask_storeu_ps(p, lanes(n), v);
}
VOCAB vec v_first(vec v, size_t n) {
    return _mm512_maskz_mov_ps(lanes(n), v);
}
VOCAB vec v_set(float x) {
    return _mm512_set1_ps(x);
}
VOCAB vec v_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}
VOCAB vec v_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}
VOCAB vec v_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}
VOCAB vec v_div(vec a, vec b) {
    return _mm512_div_ps(a, b);
}
VOCAB vec v_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
VOCAB vec v_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}
VOCAB vec v_zero_below(vec v, vec x, vec y) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, y, _CMP_NLT_UQ), v);
}
VOCAB vec v_pow2(vec z) {
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(z), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32(127 << 23)));
}
VOCAB float v_lane0(vec v) {
    return _mm512_cvtss_f32(v);
}

/* The upper 8 lanes. */
VOCAB __m256 upper(vec v) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}

VOCAB float v_sum(vec v) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), upper(v));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

VOCAB float v_top(vec v) {
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), upper(v));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* Halves of a and b added side by side: the lower 8 lanes come from a, the upper from b. */
VOCAB vec fold(vec a, vec b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

VOCAB void v_sum4(float *out, vec a, vec b, vec c, vec d) {
    vec ab = fold(a, b), cd = fold(c, d); /* 8 lanes each */
    vec s = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0x4e)); /* 4 lanes each: now 2, then 1 */
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0xb1));
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, s)));
}

#include "kernels/cpu/simd_body.h"

const mt_simd *mt_simd_avx512(void) {
    static const mt_simd table = MT_SIMD_TABLE("avx512");
    bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma");
    return has ? &table : NULL;
}

#else
const mt_simd *mt_simd_avx512(void) {
    return NULL;
}
#endif
