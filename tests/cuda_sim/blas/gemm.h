// C = alpha op(A) op(B) + beta C in column order, over batches: checked as cuBLAS documents, then queued.
// What is documented as an error is returned; what is left undefined (memory outside of allocations, batches of C that
// overlap, host memory) is a misuse.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "tests/cuda_sim/runtime/world.h"

namespace jacserve::cuda_sim {

// The matrices of one operand: `batches` of them `stride` elements apart, or at the pointers in an array on the device.
struct GemmOperand {
  const void* data = nullptr;
  const void* const* array = nullptr;
  int64_t ld = 0;
  int64_t stride = 0;
};

struct GemmCall {
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  int64_t m = 0, n = 0, k = 0;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  GemmOperand a, b, c;
  bool pointers = false;  // the operands are arrays
  int64_t batches = 1;
  cudaDataType type = CUDA_R_32F;  // or CUDA_R_64F: of all numbers
};

// Success: it is in the handle's stream.
cublasStatus_t Gemm(World& world, Lock& lock, cublasHandle_t handle, const GemmCall& call);

}  // namespace jacserve::cuda_sim
