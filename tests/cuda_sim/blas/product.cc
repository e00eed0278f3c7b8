// One matrix product on the host: oneDNN and OpenBLAS on this thread alone.
#include "tests/cuda_sim/blas/product.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace jacserve::cuda_sim {
namespace {

// Columns in one piece, rounded.
std::vector<float> Tf32Of(const float* data, int64_t rows, int64_t columns, int64_t ld) {
  std::vector<float> out(rows * columns);
  for (int64_t j = 0; j < columns; ++j) {
    std::transform(data + j * ld, data + j * ld + rows, out.begin() + j * rows, RoundToTf32);
  }
  return out;
}

template <class T>
void Scale(const Product& p, T* c) {
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t i = 0; i < p.m; ++i) {
      T& x = c[j * p.ldc + i];
      x = p.beta == 0 ? T{0} : static_cast<T>(p.beta) * x;
    }
  }
}

// These libraries would else wake threads of their own, which may not touch device memory.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    omp_set_num_threads(1);
    static const bool once = (openblas_set_num_threads(1), true);
    (void)once;
  }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// In row order the transposed product: C' = op(B)' op(A)'.
void MultiplyFloat(const Product& p, const float* a, const float* b, float* c) {
  if (p.alpha == 0 || p.k == 0) return Scale(p, c);
  const OneThread one;
  dnnl_sgemm(p.transpose_b ? 'T' : 'N', p.transpose_a ? 'T' : 'N', p.n, p.m, p.k, static_cast<float>(p.alpha), b, p.ldb,
             a, p.lda, static_cast<float>(p.beta), c, p.ldc);
}

void MultiplyDouble(const Product& p, const double* a, const double* b, double* c) {
  if (p.alpha == 0 || p.k == 0) return Scale(p, c);
  const OneThread one;
  cblas_dgemm(CblasColMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans, p.m,
              p.n, p.k, p.alpha, a, p.lda, b, p.ldb, p.beta, c, p.ldc);
}

void MultiplyTf32(const Product& p, const float* a, const float* b, float* c) {
  if (p.alpha == 0 || p.k == 0) return Scale(p, c);
  Product q = p;
  q.lda = p.transpose_a ? p.k : p.m;
  q.ldb = p.transpose_b ? p.n : p.k;
  const std::vector<float> rounded_a = Tf32Of(a, q.lda, p.transpose_a ? p.m : p.k, p.lda);
  const std::vector<float> rounded_b = Tf32Of(b, q.ldb, p.transpose_b ? p.k : p.n, p.ldb);
  MultiplyFloat(q, rounded_a.data(), rounded_b.data(), c);
}

}  // namespace

float RoundToTf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

int64_t SizeOf(cudaDataType type) { return type == CUDA_R_64F ? 8 : 4; }

void Multiply(const Product& p, const void* a, const void* b, void* c) {
  if (p.type == CUDA_R_64F) {
    return MultiplyDouble(p, static_cast<const double*>(a), static_cast<const double*>(b), static_cast<double*>(c));
  }
  const auto multiply = p.tf32 ? MultiplyTf32 : MultiplyFloat;
  multiply(p, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c));
}

}  // namespace jacserve::cuda_sim
