// cuBLAS handles, their settings, and what statuses are called.
#include "tests/cuda_sim/blas/handle.h"

#include <cstdint>

namespace jacserve::cuda_sim {
namespace {

// The workspace pool that a handle makes for itself.
int64_t PoolBytes(const Device& device) {
  return device.compute_major >= 9 ? int64_t{32} << 20 : (int64_t{8} << 20) + (int64_t{128} << 10);
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (world.Ready() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int64_t pool = PoolBytes(world.devices[CurrentDevice()].device);
  if (pool > world.FreeBytes(CurrentDevice())) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = world.Make("a cuBLAS handle", cublasContext{.device = CurrentDevice(), .pool_bytes = pool});
  world.CountBytes(CurrentDevice(), pool);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool known = world.handles.contains(handle);
  const cublasContext context = known ? *handle : cublasContext();
  if (!world.DropHandle("a cuBLAS handle", handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  world.CountBytes(context.device, -context.pool_bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return CallBlas(handle, [&](World& world, Lock&) {
    const StreamPtr found = world.FindStream(stream);
    if (!found) return CUBLAS_STATUS_INVALID_VALUE;
    if (found->device != handle->device) {
      world.Misuse("a cuBLAS handle was given a stream of another device");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return CallBlas(handle, [&](World&, Lock&) {
    if (stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  return CallBlas(handle, [&](World& world, Lock&) {
    if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
    return world.CheckDevice(handle->device, "cuBLAS' workspace", workspace, static_cast<int64_t>(bytes))
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return CallBlas(handle, [&](World&, Lock&) {
    const int base = mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    if (base != CUBLAS_DEFAULT_MATH && base != CUBLAS_PEDANTIC_MATH && base != CUBLAS_TF32_TENSOR_OP_MATH) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->math = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return CallBlas(handle, [&](World&, Lock&) {
    if (mode == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *mode = handle->math;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  return CallBlas(handle, [&](World&, Lock&) {
    handle->pointer_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return CallBlas(handle, [&](World&, Lock&) {
    if (mode == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *mode = handle->pointer_mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  return CallBlas(handle, [&](World&, Lock&) {
    handle->atomics = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return CallBlas(handle, [&](World&, Lock&) {
    if (mode == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *mode = handle->atomics;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  return CallBlas(handle, [&](World&, Lock&) {
    if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
  });
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    default:
      return "an unknown error";
  }
}
