// A cuBLAS handle, and the frame of every call that takes one.
#pragma once

#include <cublas_v2.h>

#include "tests/cuda_sim/runtime/world.h"

struct cublasContext {
  int device = 0;
  int64_t pool_bytes = 0;
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
};

namespace jacserve::cuda_sim {

// f(World&, Lock&) -> cublasStatus_t.
template <class F>
cublasStatus_t CallBlas(cublasHandle_t handle, F f) {
  World& world = World::Get();
  Lock lock(world.mutex);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!world.handles.contains(handle)) {
    world.Misuse("a cuBLAS handle was used that never was, or after it was destroyed");
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (world.sticky != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  return f(world, lock);
}

}  // namespace jacserve::cuda_sim
