/* product.cc - see product.h. */
#include "product.h"

#include <cblas.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace emulation {

namespace {

CBLAS_TRANSPOSE order(cublasOperation_t op) {
    return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

/* To the nearest with ten bits of mantissa, as a tensor core reads its operands. */
float to_tf32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
        bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

std::vector<float> rounded(const float *from, uint64_t n) {
    std::vector<float> copy(from, from + n);
    for (float &x : copy)
        x = to_tf32(x);
    return copy;
}

/* With beta 0 the old contents, NaNs too, play no part. */
void clear(float *C, int rows, int columns, int ld) {
    for (int j = 0; j < columns; j++)
        memset(C + size_t(j) * size_t(ld), 0, size_t(rows) * sizeof *C);
}

void multiply(const Product &p, const float *A, const float *B, float *C) {
    if (p.beta == 0)
        clear(C, p.m, p.n, p.ldc);
    cblas_sgemm(CblasColMajor, order(p.transa), order(p.transb), p.m, p.n, p.k, p.alpha, A, p.lda,
                B, p.ldb, p.beta, C, p.ldc);
}

void multiply_tf32(const Product &p, const float *A, const float *B, float *C) {
    const bool a_plain = p.transa == CUBLAS_OP_N, b_plain = p.transb == CUBLAS_OP_N;
    const uint64_t m = uint64_t(p.m), n = uint64_t(p.n), k = uint64_t(p.k);
    auto a = rounded(A, matrix_extent(a_plain ? m : k, a_plain ? k : m, uint64_t(p.lda)));
    auto b = rounded(B, matrix_extent(b_plain ? k : n, b_plain ? n : k, uint64_t(p.ldb)));
    multiply(p, a.data(), b.data(), C);
}

} // namespace

uint64_t matrix_extent(uint64_t rows, uint64_t columns, uint64_t ld) {
    return rows && columns ? ld * (columns - 1) + rows : 0;
}

uint64_t vector_extent(uint64_t n, int inc) {
    return n ? (n - 1) * uint64_t(std::abs(inc)) + 1 : 0;
}

void compute(const Product &p) {
    for (int i = 0; i < p.count; i++) {
        const float *A = p.A + i * p.stride_a;
        const float *B = p.B + i * p.stride_b;
        float *C = p.C + i * p.stride_c;
        if (p.tf32)
            multiply_tf32(p, A, B, C);
        else
            multiply(p, A, B, C);
    }
}

void compute(const VectorProduct &p) {
    const int rows = p.trans == CUBLAS_OP_N ? p.m : p.n;
    const size_t step = size_t(std::abs(p.incy));
    if (p.beta == 0)
        for (int i = 0; i < rows; i++)
            p.y[size_t(i) * step] = 0;
    cblas_sgemv(CblasColMajor, order(p.trans), p.m, p.n, p.alpha, p.A, p.lda, p.x, p.incx, p.beta,
                p.y, p.incy);
}

} // namespace emulation
