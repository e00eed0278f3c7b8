// The backend for NVIDIA GPUs: cuBLAS for products, own kernels for the rest.
// In a build without CUDA the same functions say so.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/device.h"

namespace jacserve::worker {

// float32 or float64. tf32: the factors of float32 products are rounded to TF32, their sums are float32. Errors:
// FindCudaDevice's.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(DType dtype, bool tf32);

}  // namespace jacserve::worker
