// The products of cuBLAS, single, batched and strided, for float and double.
#include "tests/cuda_sim/blas/gemm.h"
#include "tests/cuda_sim/blas/handle.h"

namespace jacserve::cuda_sim {
namespace {

template <class T>
constexpr cudaDataType kType = sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;

cublasStatus_t Call(cublasHandle_t handle, const GemmCall& call) {
  return CallBlas(handle, [&](World& world, Lock& lock) { return Gemm(world, lock, handle, call); });
}

template <class T>
const void* const* Array(T* const* pointers) {
  return reinterpret_cast<const void* const*>(pointers);
}

template <class T>
cublasStatus_t Strided(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
                       int64_t k, const T* alpha, const T* a, int64_t lda, int64_t stride_a, const T* b, int64_t ldb,
                       int64_t stride_b, const T* beta, T* c, int64_t ldc, int64_t stride_c, int64_t batches) {
  return Call(handle, {.op_a = op_a,
                       .op_b = op_b,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = alpha,
                       .beta = beta,
                       .a = {.data = a, .ld = lda, .stride = stride_a},
                       .b = {.data = b, .ld = ldb, .stride = stride_b},
                       .c = {.data = c, .ld = ldc, .stride = stride_c},
                       .batches = batches,
                       .type = kType<T>});
}

template <class T>
cublasStatus_t Batched(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
                       int64_t k, const T* alpha, const T* const* a, int64_t lda, const T* const* b, int64_t ldb,
                       const T* beta, T* const* c, int64_t ldc, int64_t batches) {
  return Call(handle, {.op_a = op_a,
                       .op_b = op_b,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = alpha,
                       .beta = beta,
                       .a = {.array = Array(a), .ld = lda},
                       .b = {.array = Array(b), .ld = ldb},
                       .c = {.array = Array(c), .ld = ldc},
                       .pointers = true,
                       .batches = batches,
                       .type = kType<T>});
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

// The entry points of one type; the names of the parameters are those of cuBLAS.
#define JACSERVE_CUDA_SIM_GEMM(X, T)                                                                                   \
  cublasStatus_t cublas##X##gemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,  \
                                    int n, int k, const T* alpha, const T* A, int lda, const T* B, int ldb,            \
                                    const T* beta, T* C, int ldc) {                                                    \
    return Strided<T>(handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc, 0, 1);               \
  }                                                                                                                    \
  cublasStatus_t cublas##X##gemmStridedBatched(                                                                        \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const T* alpha,  \
      const T* A, int lda, long long strideA, const T* B, int ldb, long long strideB, const T* beta, T* C, int ldc,    \
      long long strideC, int batchCount) {                                                                             \
    return Strided<T>(handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C, ldc, strideC, \
                      batchCount);                                                                                     \
  }                                                                                                                    \
  cublasStatus_t cublas##X##gemmBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,     \
                                        int m, int n, int k, const T* alpha, const T* const A[], int lda,              \
                                        const T* const B[], int ldb, const T* beta, T* const C[], int ldc,             \
                                        int batchCount) {                                                              \
    return Batched<T>(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, batchCount);               \
  }

JACSERVE_CUDA_SIM_GEMM(S, float)
JACSERVE_CUDA_SIM_GEMM(D, double)
