// The products of cuBLAS, single, batched, strided and grouped, for float, double and mixed types.
#include "tests/cuda_sim/blas/gemm.h"
#include "tests/cuda_sim/blas/handle.h"

namespace jacserve::cuda_sim {
namespace {

template <class T>
constexpr cudaDataType kType = sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;
template <class T>
constexpr cublasComputeType_t kCompute = sizeof(T) == 8 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;

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
                       .a = {.data = a, .type = kType<T>, .ld = lda, .stride = stride_a},
                       .b = {.data = b, .type = kType<T>, .ld = ldb, .stride = stride_b},
                       .c = {.data = c, .type = kType<T>, .ld = ldc, .stride = stride_c},
                       .batches = batches,
                       .compute = kCompute<T>});
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
                       .a = {.array = Array(a), .type = kType<T>, .ld = lda},
                       .b = {.array = Array(b), .type = kType<T>, .ld = ldb},
                       .c = {.array = Array(c), .type = kType<T>, .ld = ldc},
                       .pointers = true,
                       .batches = batches,
                       .compute = kCompute<T>});
}

template <class T>
cublasStatus_t Grouped(cublasHandle_t handle, const cublasOperation_t* op_a, const cublasOperation_t* op_b,
                       const int* m, const int* n, const int* k, const T* alpha, const T* const* a, const int* lda,
                       const T* const* b, const int* ldb, const T* beta, T* const* c, const int* ldc, int groups,
                       const int* group_size) {
  if (groups < 0) return CUBLAS_STATUS_INVALID_VALUE;
  int64_t begin = 0;
  for (int g = 0; g < groups; ++g) {
    const cublasStatus_t status = Batched(handle, op_a[g], op_b[g], m[g], n[g], k[g], alpha + g, a + begin, lda[g],
                                          b + begin, ldb[g], beta + g, c + begin, ldc[g], group_size[g]);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    begin += group_size[g];
  }
  return CUBLAS_STATUS_SUCCESS;
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
  cublasStatus_t cublas##X##gemm_v2_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,      \
                                       int64_t m, int64_t n, int64_t k, const T* alpha, const T* A, int64_t lda,       \
                                       const T* B, int64_t ldb, const T* beta, T* C, int64_t ldc) {                    \
    return Strided<T>(handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc, 0, 1);               \
  }                                                                                                                    \
  cublasStatus_t cublas##X##gemmStridedBatched(                                                                        \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const T* alpha,  \
      const T* A, int lda, long long strideA, const T* B, int ldb, long long strideB, const T* beta, T* C, int ldc,    \
      long long strideC, int batchCount) {                                                                             \
    return Strided<T>(handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C, ldc, strideC, \
                      batchCount);                                                                                     \
  }                                                                                                                    \
  cublasStatus_t cublas##X##gemmStridedBatched_64(                                                                     \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m, int64_t n, int64_t k,      \
      const T* alpha, const T* A, int64_t lda, long long strideA, const T* B, int64_t ldb, long long strideB,          \
      const T* beta, T* C, int64_t ldc, long long strideC, int64_t batchCount) {                                       \
    return Strided<T>(handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C, ldc, strideC, \
                      batchCount);                                                                                     \
  }                                                                                                                    \
  cublasStatus_t cublas##X##gemmBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,     \
                                        int m, int n, int k, const T* alpha, const T* const A[], int lda,              \
                                        const T* const B[], int ldb, const T* beta, T* const C[], int ldc,             \
                                        int batchCount) {                                                              \
    return Batched<T>(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, batchCount);               \
  }                                                                                                                    \
  cublasStatus_t cublas##X##gemmBatched_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,  \
                                           int64_t m, int64_t n, int64_t k, const T* alpha, const T* const A[],        \
                                           int64_t lda, const T* const B[], int64_t ldb, const T* beta, T* const C[],  \
                                           int64_t ldc, int64_t batchCount) {                                          \
    return Batched<T>(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, batchCount);               \
  }                                                                                                                    \
  cublasStatus_t cublas##X##gemmGroupedBatched(                                                                        \
      cublasHandle_t handle, const cublasOperation_t transa[], const cublasOperation_t transb[], const int m[],        \
      const int n[], const int k[], const T alpha[], const T* const A[], const int lda[], const T* const B[],          \
      const int ldb[], const T beta[], T* const C[], const int ldc[], int group_count, const int group_size[]) {       \
    return Grouped<T>(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, group_count, group_size);  \
  }

JACSERVE_CUDA_SIM_GEMM(S, float)
JACSERVE_CUDA_SIM_GEMM(D, double)

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void* alpha, const void* A, cudaDataType Atype, int lda, const void* B,
                            cudaDataType Btype, int ldb, const void* beta, void* C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb, 0, beta, C,
                                    Ctype, ldc, 0, 1, compute, algo);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, const void* alpha, const void* A, cudaDataType Atype,
                                          int lda, long long strideA, const void* B, cudaDataType Btype, int ldb,
                                          long long strideB, const void* beta, void* C, cudaDataType Ctype, int ldc,
                                          long long strideC, int batchCount, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
  return Call(handle, {.op_a = transa,
                       .op_b = transb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = alpha,
                       .beta = beta,
                       .a = {.data = A, .type = Atype, .ld = lda, .stride = strideA},
                       .b = {.data = B, .type = Btype, .ld = ldb, .stride = strideB},
                       .c = {.data = C, .type = Ctype, .ld = ldc, .stride = strideC},
                       .batches = batchCount,
                       .compute = compute});
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                                   int n, int k, const void* alpha, const void* const A[], cudaDataType Atype, int lda,
                                   const void* const B[], cudaDataType Btype, int ldb, const void* beta,
                                   void* const C[], cudaDataType Ctype, int ldc, int batchCount,
                                   cublasComputeType_t compute, cublasGemmAlgo_t) {
  return Call(handle, {.op_a = transa,
                       .op_b = transb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = alpha,
                       .beta = beta,
                       .a = {.array = A, .type = Atype, .ld = lda},
                       .b = {.array = B, .type = Btype, .ld = ldb},
                       .c = {.array = Array(C), .type = Ctype, .ld = ldc},
                       .pointers = true,
                       .batches = batchCount,
                       .compute = compute});
}
