/* simd_avx2.c - the inner loops in AVX2 with FMA: 8 lanes, 16 registers, lanes masked by
 * vectors. */
#include "kernels/cpu/simd.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET  __attribute__((target("avx2,fma")))
#define VOCAB   static inline __attribute__((always_inline)) TARGET
#define LANES   8
#define ROWS    2
#define COLUMNS 8

typedef __m256 vec;

VOCAB __m256i lanes(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VOCAB vec v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
VOCAB vec v_load_n(const float *p, size_t n) {
    return _mm256_maskload_ps(p, lanes(n));
}
VOCAB void v_store(float *p, vec v) {
    _mm256_storeu_ps(p, v);
}
VOCAB void v_store_n(float *p, vec v, size_t n) {
    _mm256_maskstore_ps(p, lanes(n), v);
}
VOCAB vec v_first(vec v, size_t n) {
    return _mm256_and_ps(v, _mm256_castsi256_ps(lanes(n)));
}
VOCAB vec v_set(float x) {
    return _mm256_set1_ps(x);
}
VOCAB vec v_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}
VOCAB vec v_sub(vec a, vec b) {
    return _mm256_sub_ps(a, b);
}
VOCAB vec v_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}
VOCAB vec v_div(vec a, vec b) {
    return _mm256_div_ps(a, b);
}
VOCAB vec v_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
VOCAB vec v_max(vec a, vec b) {
    return _mm256_max_ps(a, b);
}
VOCAB vec v_zero_below(vec v, vec x, vec y) {
    return _mm256_and_ps(v, _mm256_cmp_ps(x, y, _CMP_NLT_UQ));
}
VOCAB vec v_pow2(vec z) {
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(z), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(n, _mm256_set1_epi32(127 << 23)));
}
VOCAB float v_lane0(vec v) {
    return _mm256_cvtss_f32(v);
}

VOCAB float v_sum(vec v) {
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

VOCAB float v_top(vec v) {
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

VOCAB void v_sum4(float *out, vec a, vec b, vec c, vec d) {
    vec s = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d)); /* two lanes each */
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

#include "kernels/cpu/simd_body.h"

const mt_simd *mt_simd_avx2(void) {
    static const mt_simd table = MT_SIMD_TABLE("avx2");
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &table : NULL;
}

#else
const mt_simd *mt_simd_avx2(void) {
    return NULL;
}
#endif
