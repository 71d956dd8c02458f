/* product.h - products of matrices in column order, over OpenBLAS. */
#ifndef MT_EMULATION_PRODUCT_H
#define MT_EMULATION_PRODUCT_H

#include <cublas_v2.h>

#include <cstdint>

namespace emulation {

/* C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, count times, strides in elements. */
struct Product {
    cublasOperation_t transa, transb;
    int m, n, k;
    float alpha, beta;
    const float *A, *B;
    float *C;
    int lda, ldb, ldc;
    long long stride_a, stride_b, stride_c;
    int count;
    bool tf32; /* operands are rounded to TF32's ten bits first */
};

/* y = alpha op(A[m, n]) x + beta y. */
struct VectorProduct {
    cublasOperation_t trans;
    int m, n;
    float alpha, beta;
    const float *A, *x;
    float *y;
    int lda, incx, incy;
};

void compute(const Product &p);
void compute(const VectorProduct &p);

/* Elements from the first to the last that a matrix or a vector touches. */
uint64_t matrix_extent(uint64_t rows, uint64_t columns, uint64_t ld);
uint64_t vector_extent(uint64_t n, int inc);

} // namespace emulation

#endif
