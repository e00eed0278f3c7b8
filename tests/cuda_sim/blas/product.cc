// One matrix product on the host: oneDNN and OpenBLAS on this thread alone, other types by way of float.
#include "tests/cuda_sim/blas/product.h"

#include <cblas.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace jacserve::cuda_sim {
namespace {

float Load(const void* data, cudaDataType type, int64_t i) {
  switch (type) {
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void Store(void* data, cudaDataType type, int64_t i, float value) {
  switch (type) {
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __float2half(value);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
      break;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

std::vector<float> ToFloat(const void* data, cudaDataType type, int64_t rows, int64_t columns, int64_t ld, bool tf32) {
  std::vector<float> out(rows * columns);
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      const float value = Load(data, type, j * ld + i);
      out[j * rows + i] = tf32 ? RoundToTf32(value) : value;
    }
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

void MultiplyThroughFloat(const Product& p, const void* a, const void* b, void* c) {
  Product q = p;
  q.lda = p.transpose_a ? p.k : p.m;
  q.ldb = p.transpose_b ? p.n : p.k;
  q.ldc = p.m;
  std::vector<float> fa, fb;
  if (p.alpha != 0) {
    fa = ToFloat(a, p.type_a, q.lda, p.transpose_a ? p.m : p.k, p.lda, p.tf32);
    fb = ToFloat(b, p.type_b, q.ldb, p.transpose_b ? p.k : p.n, p.ldb, p.tf32);
  }
  std::vector<float> fc(p.m * p.n);
  if (p.beta != 0) fc = ToFloat(c, p.type_c, p.m, p.n, p.ldc, false);
  MultiplyFloat(q, fa.data(), fb.data(), fc.data());
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t i = 0; i < p.m; ++i) Store(c, p.type_c, j * p.ldc + i, fc[j * p.m + i]);
  }
}

}  // namespace

float RoundToTf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

int64_t SizeOf(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_64F:
      return 8;
    default:
      return 4;
  }
}

void Multiply(const Product& p, const void* a, const void* b, void* c) {
  if (p.type_c == CUDA_R_64F) {
    MultiplyDouble(p, static_cast<const double*>(a), static_cast<const double*>(b), static_cast<double*>(c));
  } else if (p.type_a == CUDA_R_32F && p.type_b == CUDA_R_32F && p.type_c == CUDA_R_32F && !p.tf32) {
    MultiplyFloat(p, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c));
  } else {
    MultiplyThroughFloat(p, a, b, c);
  }
}

}  // namespace jacserve::cuda_sim
