// One matrix product on the host, in column order.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

namespace jacserve::cuda_sim {

int64_t SizeOf(cudaDataType type);
float RoundToTf32(float value);

struct Product {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  cudaDataType type = CUDA_R_32F;  // or CUDA_R_64F
  bool tf32 = false;               // the factors are rounded to TF32 first
  double alpha = 1.0, beta = 0.0;
};

// Sums in the matrices' type. C is not read when beta is 0, nor A and B when alpha is.
void Multiply(const Product& product, const void* a, const void* b, void* c);

}  // namespace jacserve::cuda_sim
